"""Refractive-index profiles of round fibres: power law with a trench, or a table of radius and index."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wavefabric.errors import InputError
from wavefabric.optics.fibre.csv_files import read_columns
from wavefabric.optics.fibre.materials import GERMANIA, SILICA, Material, Sellmeier, fraction_of, mix_n2
from wavefabric.quantities import number, numbers, positive

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Trench:
    """A ring of lower index, ``gap`` (m) outside the core and ``width`` (m) wide; lengths may be text.

    ``depth`` is its index difference below the cladding, the same at every wavelength.
    """

    gap: float
    width: float
    depth: float

    def __post_init__(self):
        object.__setattr__(self, "gap", number(self.gap, "m", "trench gap"))
        object.__setattr__(self, "width", positive(self.width, "m", "trench width"))
        positive(self.depth, "", "trench depth")
        if not (math.isfinite(self.gap) and self.gap >= 0):
            raise InputError(f"trench gap: {self.gap!r} m; give a length of 0 or more")


class Profile:
    """What the solver asks of a profile. Subclasses give the index at the design wavelength.

    Where the glass is denser than the cladding it is cladding doped with `dopant`, of a molar fraction fixed
    by the index at the design wavelength; without a dopant, or a Sellmeier equation of the cladding, n² −
    n²_cladding stays what it is there. A less dense glass (a trench) keeps its difference below the cladding.
    """

    cladding: Material
    dopant: Sellmeier | None
    design_wavelength: float

    def interfaces(self) -> tuple[float, ...]:
        """Radii in m, increasing, where the index or its slope jumps; the cladding starts at the last."""
        raise NotImplementedError

    def _design_index(self, r: Array) -> Array:
        """Index at the design wavelength inside the last interface; r in m."""
        raise NotImplementedError

    def index(self, r: ArrayLike, wavelength: float) -> Array:
        """Refractive index n(r) at a vacuum wavelength; r and the wavelength in m."""
        positive(wavelength, "m", "wavelength")
        radii = np.abs(np.asarray(r, dtype=float))
        clad = self.cladding.index(wavelength)
        n = np.full(radii.shape, clad)
        inside = radii < self.interfaces()[-1]
        design = self._design_index(radii[inside])
        if wavelength == self.design_wavelength:
            n[inside] = design
            return n
        clad_design = self.cladding.index(self.design_wavelength)
        here = clad + design - clad_design
        core = design > clad_design
        if isinstance(self.cladding, Sellmeier) and self.dopant is not None:
            x = fraction_of(self.cladding, self.dopant, design[core] ** 2, self.design_wavelength)
            here[core] = np.sqrt(mix_n2(self.cladding, self.dopant, x, wavelength))
        else:
            here[core] = np.sqrt(clad**2 + design[core] ** 2 - clad_design**2)
        n[inside] = here
        return n


@dataclass(frozen=True)
class IndexProfile(Profile):
    """Power law n² = n_core² − NA² (r/R)^q, optional trench, uniform cladding; lengths may be text.

    ``core_diameter`` is 2R in m; ``numerical_aperture`` NA = √(n_core² − n_cladding²) at
    ``design_wavelength`` (in vacuum, m); ``exponent`` q: 2 is a parabola, ``math.inf`` a step. ``dopant`` is
    what raises the core's index; None keeps n² − n²_cladding the same at every wavelength.
    """

    core_diameter: float
    numerical_aperture: float
    exponent: float
    trench: Trench | None = None
    cladding: Material = SILICA
    dopant: Sellmeier | None = GERMANIA
    design_wavelength: float = 1550e-9

    def __post_init__(self):
        for key in ("core_diameter", "design_wavelength"):
            object.__setattr__(self, key, positive(getattr(self, key), "m", key))
        positive(self.numerical_aperture, "", "numerical_aperture")
        if not self.exponent > 0:
            raise InputError(f"exponent: {self.exponent!r}; give a positive number (inf for a step)")

    @property
    def core_radius(self) -> float:
        """R in m."""
        return self.core_diameter / 2

    def interfaces(self) -> tuple[float, ...]:
        edges = [self.core_radius]
        if self.trench is not None:
            start = self.core_radius + self.trench.gap
            edges += [start] * (self.trench.gap > 0) + [start + self.trench.width]
        return tuple(edges)

    def _design_index(self, r: Array) -> Array:
        clad = self.cladding.index(self.design_wavelength)
        core = r < self.core_radius
        n = np.full(r.shape, clad)
        fall = (r[core] / self.core_radius) ** self.exponent
        n[core] = np.sqrt(clad**2 + self.numerical_aperture**2 * (1 - fall))
        if self.trench is not None:
            n[r >= self.core_radius + self.trench.gap] = clad - self.trench.depth
        return n


@dataclass(frozen=True)
class TableProfile(Profile):
    """Index given at some radii, straight in between; the cladding is the last entry, to infinity.

    ``radii`` are in m, from 0, non-decreasing; the same radius twice is a jump. ``indices`` are as many, at
    the design wavelength; only differences to the last one matter if ``cladding`` is a glass, which replaces
    the last value. All else is as in `IndexProfile`.
    """

    radii: tuple[float, ...]
    indices: tuple[float, ...]
    cladding: Material = SILICA
    dopant: Sellmeier | None = GERMANIA
    design_wavelength: float = 1550e-9

    def __post_init__(self):
        wavelength = positive(self.design_wavelength, "m", "design_wavelength")
        object.__setattr__(self, "design_wavelength", wavelength)
        object.__setattr__(self, "radii", tuple(numbers(self.radii, "m", "radii").ravel().tolist()))
        object.__setattr__(self, "indices", tuple(float(n) for n in self.indices))
        if len(self.radii) != len(self.indices) or len(self.radii) < 2:
            given = f"{len(self.indices)} given for {len(self.radii)} radii"
            raise InputError(f"indices: {given}; give as many, at least 2")
        r, n = np.array(self.radii), np.array(self.indices)
        gaps = np.diff(r)
        if r[0] != 0 or not np.isfinite(r).all() or gaps.min() < 0 or gaps[0] == 0:
            raise InputError("radii: must start at 0, which stands once, and not decrease (m)")
        if np.any((gaps[1:] == 0) & (gaps[:-1] == 0)):
            raise InputError("radii: the same radius may stand at most twice (a jump)")
        if not (np.all(np.isfinite(n)) and np.all(n >= 1)):
            raise InputError("indices: every refractive index must be finite and at least 1")

    @classmethod
    def from_csv(cls, path: str | Path, **kwargs) -> TableProfile:
        """From a CSV file with the columns ``radius_um`` (µm) and ``index``; options as the constructor's."""
        columns = read_columns(path, ("radius_um", "index"))
        return cls(tuple(r * 1e-6 for r in columns["radius_um"]), tuple(columns["index"]), **kwargs)

    def interfaces(self) -> tuple[float, ...]:
        jumps = {a for a, b in pairwise(self.radii) if a == b and a > 0}
        return tuple(sorted(jumps | {self.radii[-1]}))

    def _design_index(self, r: Array) -> Array:
        radii, indices = np.array(self.radii), np.array(self.indices)
        right = np.clip(np.searchsorted(radii, r, side="right"), 1, len(radii) - 1)
        width = radii[right] - radii[right - 1]
        share = (r - radii[right - 1]) / np.where(width > 0, width, 1)
        n = indices[right - 1] + share * (indices[right] - indices[right - 1])
        return n + (self.cladding.index(self.design_wavelength) - indices[-1])


def profile_62_5() -> IndexProfile:
    """The 62.5 µm graded-index fibre of Brehler et al., section 6, at 1550 nm.

    NA 0.275, exponent 1.94, trench 1.25 µm outside the core, 3.5 µm wide, 6.5e-3 below the silica cladding.
    The glass of the core is not stated there; GeO2-doped silica is assumed.
    """
    return IndexProfile(62.5e-6, 0.275, 1.94, trench=Trench(1.25e-6, 3.5e-6, 6.5e-3))
