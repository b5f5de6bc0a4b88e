"""Defines a sonication through a skull: transducer, target, frequency, pulses, and simulation grid."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from wavefabric.acoustics.focused_bowl import bowl_depth
from wavefabric.acoustics.grid import Grid
from wavefabric.acoustics.transcranial.ct import BeamFrame, along_beam
from wavefabric.acoustics.transducers.arrays import spherical_array
from wavefabric.acoustics.transducers.elements import bowl
from wavefabric.acoustics.transducers.mask import Point, TransducerMask, point
from wavefabric.base.arguments import is_whole, positive, real
from wavefabric.base.errors import InputError, choice, require

#: Largest number of elements of an array: each is sampled on the grid separately.
MOST_ELEMENTS = 4096
#: Methods that determine the phases of elements.
CORRECTIONS = ("time_reversal", "none")
#: Sound speed for the spacing of the grid and for uncorrected phases, m/s.
WATER = 1500.0
#: Space behind and beside the bowl, m.
_BESIDE = 4e-3
#: Longest sonication or cooling, s.
_LONGEST = 86400.0


@dataclass(frozen=True, kw_only=True)
class Sonication:
    """A transducer in the world of a CT, and its operation. Lengths in m, or text with a unit.

    `InputError`: a value is out of range.

    Parameters
    ----------
    position, target : sequence of 3 float or str
        Apex of the transducer and the point it aims at, world coordinates.
    frequency : float or str
        Frequency, Hz.
    diameter : float or str
        Diameter of the aperture.
    radius : float or str, optional
        Radius of curvature. Default: the distance to the target, which then is the geometric focus.
    elements : int
        1 for a bowl; more for an array of discs on a bowl (`spherical_array`), whose phases are corrected.
    element_diameter : float or str, optional
        Diameter of a disc. Default: such that discs cover half the bowl.
    pressure : float or str
        Amplitude at the surface, Pa: p₀ = ρcu.
    correction : str
        For an array: ``"time_reversal"``, the conjugated phases with which elements receive a source at the
        target; ``"none"``, phases from the distances in water.
    points_per_wavelength : float
        Grid points per wavelength in water.
    behind : float or str
        Length of the grid beyond the target.
    duty_cycle : float
        Fraction of the sonication during which the transducer transmits.
    on, off : float
        Durations of sonication and cooling, s.
    """

    position: Point
    target: Point
    frequency: Any
    diameter: Any
    radius: Any = None  # a float after initialisation
    elements: int = 1
    element_diameter: Any = None
    pressure: Any = 60e3
    correction: str = "time_reversal"
    points_per_wavelength: float = 6.0
    behind: Any = 30e-3
    duty_cycle: float = 0.1
    on: float = 30.0
    off: float = 30.0

    def __post_init__(self) -> None:
        assign = object.__setattr__
        for name in ("position", "target"):
            assign(self, name, point(getattr(self, name), 3, name))
        require(self.distance > 1e-3, "target", "at the transducer", "1 mm away from its position or more")
        assign(self, "radius", self.distance if self.radius is None else self.radius)
        units = {"frequency": "Hz", "diameter": "m", "radius": "m", "pressure": "Pa", "behind": "m"}
        for name, unit in units.items():
            assign(self, name, positive(getattr(self, name), unit, name))
        right = is_whole(self.elements) and 1 <= self.elements <= MOST_ELEMENTS
        require(right, "elements", self.elements, f"from 1 to {MOST_ELEMENTS}")
        choice("correction", self.correction, CORRECTIONS)
        for name, low, high in (("points_per_wavelength", 2, 100), ("duty_cycle", 0, 1)):
            value = real(getattr(self, name), name)
            require(low <= value <= high, name, value, f"from {low} to {high}")
        for name in ("on", "off"):
            seconds = getattr(self, name)
            require(0 <= real(seconds, name) <= _LONGEST, name, seconds, f"s, from 0 to {_LONGEST:.0f}")
        radius: Any = self.radius
        depth = bowl_depth(radius, self.diameter)
        if self.element_diameter is None:
            area = 2 * math.pi * radius * depth
            assign(self, "element_diameter", math.sqrt(2 * area / (math.pi * self.elements)))
        assign(self, "element_diameter", positive(self.element_diameter, "m", "element_diameter"))
        if self.elements > 1 and self.element_diameter >= self.diameter:
            raise InputError(f"element_diameter: {self.element_diameter:g} m; allowed: below the aperture's")

    @property
    def distance(self) -> float:
        """Return the distance from the apex to the target, m."""
        return float(np.linalg.norm(np.subtract(self.target, self.position)))

    @cached_property
    def grid(self) -> Grid:
        """Return the simulation grid, whose x axis is the beam axis, with a PML around it."""
        spacing = WATER / (self.frequency * self.points_per_wavelength)
        along = math.ceil((_BESIDE + self.distance) / spacing) + 1 + math.ceil(self.behind / spacing)
        beside = 2 * math.ceil((self.diameter / 2 + _BESIDE) / spacing)
        return Grid((along, beside, beside), spacing, pml_size="auto", pml_inside=False)

    @cached_property
    def focus(self) -> tuple[int, int, int]:
        """Return the indices of the grid point at the target, in the middle along y and z."""
        along, beside, _ = self.grid.shape
        spacing = self.grid.spacing[0]
        return (along - 1 - math.ceil(self.behind / spacing), beside // 2, beside // 2)

    @property
    def apex(self) -> float:
        """Return the x coordinate of the transducer's apex in the grid's coordinates, m."""
        return float(self.grid.coordinates[0][self.focus[0]]) - self.distance

    @cached_property
    def frame(self) -> BeamFrame:
        """Return the position and axes of the grid in the world of the CT."""
        return along_beam(self.position, self.target, self.apex)

    @cached_property
    def transducer(self) -> TransducerMask:
        """Return the bowl, or the array, on the grid."""
        surface = self.grid, (self.apex, 0.0, 0.0), self.radius, self.diameter, (self.apex + 1.0, 0.0, 0.0)
        if self.elements == 1:
            return bowl(*surface)
        return spherical_array(*surface, elements=self.elements, element_diameter=self.element_diameter)

    @property
    def geometric_phases(self) -> np.ndarray:
        """Return phases, rad, with which waves through water arrive at the target in phase, (elements,)."""
        target = np.array([self.grid.coordinates[i][at] for i, at in enumerate(self.focus)])
        distances = np.linalg.norm(self.transducer.centres - target, axis=1)
        return 2 * math.pi * self.frequency / WATER * distances
