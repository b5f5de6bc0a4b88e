"""Bowls, discs, rectangles and arrays: the points of their surfaces, and the source that they make.

A surface is sampled by points of equal area; each becomes a band-limited delta function on the grid (Wise
et al. 2019, doi:10.1121/1.5116132). Used as a mass source of pressure p₀, a transducer radiates in free
field as its Rayleigh integral with ρcu = p₀ says, to the front and to the back.

>>> bowl(grid, position=(0, 0, "-30 mm"), radius="64 mm", diameter="64 mm", focus=(0, 0, 0)).source(signal)
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from wavefabric.acoustics.arguments import is_whole, positive, require
from wavefabric.acoustics.focused_bowl import bowl_depth
from wavefabric.acoustics.grid import Grid
from wavefabric.acoustics.transducers.mask import Length, Point, TransducerMask, assemble, direction, point
from wavefabric.errors import InputError
from wavefabric.units import show

__all__ = ["TransducerMask", "bowl", "disc", "linear_array", "rectangle"]

#: Points that sample a surface, for each grid point's share of it.
UPSAMPLING = 10.0
#: Turn between neighbours on a spiral that covers a disc or sphere evenly (Vogel 1979).
GOLDEN_ANGLE = math.pi * (3 - math.sqrt(5))


def bowl(
    grid: Grid,
    position: Point,
    radius: Length,
    diameter: Length,
    focus: Point,
    *,
    tolerance: float = 0.05,
) -> TransducerMask:
    """Spherical bowl, or in 2-D an arc. Its apex is at ``position``, m, in the grid's coordinates.

    Parameters
    ----------
    radius, diameter : float or str
        Radius of curvature and diameter of the aperture, m.
    focus : sequence of float or str
        Any point on the beam axis in front of the bowl, m; only the direction counts.
    tolerance : float
        Where the band-limited delta functions are cut, as a part of their peak; 0: nowhere.

    Raises
    ------
    InputError
        For a size that is not positive, an aperture above twice the radius of curvature, or a bowl that
        leaves the grid.
    """
    apex, axes = _placed(grid, position, focus)
    radius, diameter = positive(radius, "m", "radius"), positive(diameter, "m", "diameter")
    bowl_depth(radius, diameter)  # refuses what is wider than the sphere
    half = math.asin(min(1.0, diameter / (2 * radius)))
    if grid.dimensions == 2:
        area = 2 * half * radius
        angle = half * (2 * _samples(grid, area) - 1)
        local = np.stack([radius * (1 - np.cos(angle)), radius * np.sin(angle)], axis=1)
    else:
        area = 2 * math.pi * radius**2 * (1 - math.cos(half))
        # Equal steps along the axis are equal areas of a sphere.
        forward = radius * (1 - math.cos(half)) * _samples(grid, area)
        local = np.column_stack([forward, _spiral(np.sqrt(forward * (2 * radius - forward)))])
    return assemble(grid, [apex + local @ axes], apex[None], area, tolerance)


def disc(
    grid: Grid,
    position: Point,
    diameter: Length,
    focus: Point,
    *,
    tolerance: float = 0.05,
) -> TransducerMask:
    """Flat circular piston around ``position``, or in 2-D a line; lengths in m, the rest as in `bowl`."""
    centre, axes = _placed(grid, position, focus)
    diameter = positive(diameter, "m", "diameter")
    if grid.dimensions == 2:
        area = diameter
        local = diameter * (_samples(grid, area)[:, None] - 0.5)
    else:
        area = math.pi * diameter**2 / 4
        local = _spiral(diameter / 2 * np.sqrt(_samples(grid, area)))
    return assemble(grid, [centre + local @ axes[1:]], centre[None], area, tolerance)


def rectangle(
    grid: Grid,
    position: Point,
    width: Length,
    height: Length,
    focus: Point,
    *,
    along: Point | None = None,
    tolerance: float = 0.05,
) -> TransducerMask:
    """Flat rectangle around ``position``; 3-D only (in 2-D, `disc` is a line). The rest as in `bowl`.

    Parameters
    ----------
    width, height : float or str
        Sides, m; the width lies along ``along``.
    along : sequence of float, optional
        Direction of the width; its part across the axis counts. Default: the grid axis that is most nearly
        across, x before y before z.
    """
    if grid.dimensions == 2:
        raise InputError("grid: has 2 dimensions; allowed: 3, or transducers.disc, which is a line in 2-D")
    centre, axes = _placed(grid, position, focus, along)
    sides = (positive(width, "m", "width"), positive(height, "m", "height"))
    return _flat(grid, centre[None], axes, sides, tolerance)


@dataclass(frozen=True, kw_only=True)
class ArrayOptions:
    """What `linear_array` may be told besides."""

    along: Point | None = None
    tolerance: float = 0.05


def linear_array(
    grid: Grid,
    position: Point,
    elements: int,
    element_width: Length,
    element_length: Length | None,
    pitch: Length,
    focus: Point,
    **options: Any,
) -> TransducerMask:
    """Row of equal flat rectangles around ``position``, or of lines in 2-D; the rest as in `bowl`.

    Where it points is given here; where the beam goes, by `TransducerMask.delays` and
    `TransducerMask.signals`.

    Parameters
    ----------
    elements : int
        Number of elements.
    element_width, element_length : float or str
        Size of one along and across the row, m; no length in 2-D (None).
    pitch : float or str
        From centre to centre, m; at least the width.

    Other Parameters
    ----------------
    along, tolerance : optional
        Direction of the row, as in `rectangle`, not used in 2-D; as in `bowl`.
    """
    n, how = grid.dimensions, ArrayOptions(**options)
    require(is_whole(elements) and elements >= 1, "elements", elements, "a whole number from 1")
    centre, axes = _placed(grid, position, focus, None if n == 2 else how.along)
    width, step = positive(element_width, "m", "element_width"), positive(pitch, "m", "pitch")
    require(step >= width * (1 - 1e-9), "pitch", pitch, f"from {width:g} m, the element's width")
    if n == 3 and element_length is None:
        raise InputError("element_length: is missing; allowed: a length in 3-D, m")
    sides = (width,) if n == 2 else (width, positive(element_length, "m", "element_length"))
    centres = centre + ((np.arange(elements) - (elements - 1) / 2) * step)[:, None] * axes[1]
    return _flat(grid, centres, axes, sides, how.tolerance)


def _flat(
    grid: Grid, centres: np.ndarray, axes: np.ndarray, sides: tuple[float, ...], tolerance: float
) -> TransducerMask:
    """Equal lines or rectangles around these centres, their sides along all axes but the first."""
    step = min(grid.spacing) / UPSAMPLING ** (1 / len(sides))
    lines = [side * (_middles(max(1, math.ceil(side / step))) - 0.5) for side in sides]
    local = np.stack([line.ravel() for line in np.meshgrid(*lines, indexing="ij")], axis=1)
    surfaces = [centre + local @ axes[1:] for centre in centres]
    return assemble(grid, surfaces, centres, math.prod(sides), tolerance)


def _samples(grid: Grid, area: float) -> np.ndarray:
    """Where the points that sample a surface are on 0 … 1."""
    return _middles(math.ceil(UPSAMPLING * area / min(grid.spacing) ** (grid.dimensions - 1)))


def _middles(count: int) -> np.ndarray:
    """Middles of equal parts of 0 … 1."""
    return (np.arange(count) + 0.5) / count


def _spiral(distance: np.ndarray) -> np.ndarray:
    """Points at these distances from the centre, each turned on by the golden angle, (points, 2)."""
    angle = GOLDEN_ANGLE * np.arange(distance.size)
    return np.stack([distance * np.cos(angle), distance * np.sin(angle)], axis=1)


def _placed(
    grid: Grid, position: Point, focus: Point, along: Point | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Where a transducer is, m, and its orthonormal axes as rows, the one towards the focus first."""
    if grid.axisymmetric or grid.dimensions == 1:
        kind = "axisymmetric" if grid.axisymmetric else "of one dimension"
        raise InputError(f"grid: is {kind}; allowed: a Cartesian grid of 2 or 3 dimensions")
    n = grid.dimensions
    centre = point(position, n, "position")
    normal = direction(point(focus, n, "focus") - centre, n, "focus")
    if n == 2:
        return centre, np.array([normal, [-normal[1], normal[0]]])
    if along is None:
        # A small head start for x, then y, decides ties.
        first = np.eye(3)[int(np.argmin(np.abs(normal) + 1e-9 * np.arange(3)))]
    else:
        first = direction(along, 3, "along")
    first = first - normal * (first @ normal)
    if np.linalg.norm(first) < 1e-6:
        raise InputError(
            f"along: {show(along)} lies on the axis of the transducer; allowed: another direction"
        )
    first /= np.linalg.norm(first)
    return centre, np.array([normal, first, np.cross(normal, first)])
