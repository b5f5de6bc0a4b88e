"""Builds transducers: bowls, discs, rings, rectangles, lines and user-defined surfaces on a grid.

A surface is sampled by points of equal area; each point becomes a band-limited delta function on the grid
(Wise et al. 2019, doi:10.1121/1.5116132). Used as a mass source of pressure p₀, a transducer in free field
radiates as its Rayleigh integral with ρcu = p₀, to the front and to the back.

>>> bowl(grid, position=(0, 0, "-30 mm"), radius="64 mm", diameter="64 mm", focus=(0, 0, 0)).source(signal)
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from wavefabric.acoustics.focused_bowl import bowl_depth
from wavefabric.acoustics.grid import Grid
from wavefabric.acoustics.transducers.mask import (
    Length,
    Point,
    Surface,
    TransducerMask,
    assemble,
    beam_axes,
    direction,
    point,
)
from wavefabric.base.arguments import in_unit, listed, positive, typed
from wavefabric.base.errors import InputError, require
from wavefabric.base.units import show
from wavefabric.runtime.device.user_arrays import as_array

__all__ = ["TransducerMask", "annulus", "bowl", "disc", "line", "rectangle", "surfaces"]

#: Points that sample a surface, per grid cell that it covers.
UPSAMPLING = 10.0
#: Largest number of points that sample a surface.
_MOST = 10**8
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
    """Return a spherical bowl, or in 2-D an arc, with its apex at ``position``, m, in the grid's coordinates.

    `InputError`: a size is not positive, an aperture above twice the radius of curvature, or a bowl leaves
    the grid.

    Parameters
    ----------
    radius, diameter : float or str
        Radius of curvature and diameter of the aperture, m.
    focus : sequence of float or str
        Any point on the beam axis in front of the bowl, m; only the direction counts. On an axisymmetric
        grid position and focus lie on the axis.
    tolerance : float
        Fraction of their peak at which the band-limited delta functions are cut; 0: they are not cut.
    """
    return annulus(grid, position, 0.0, diameter, focus, radius=radius, tolerance=tolerance)


def disc(
    grid: Grid,
    position: Point,
    diameter: Length,
    focus: Point,
    *,
    tolerance: float = 0.05,
) -> TransducerMask:
    """Return a flat circular piston around ``position``, or in 2-D a line; lengths in m. See `bowl`."""
    return annulus(grid, position, 0.0, diameter, focus, tolerance=tolerance)


def annulus(
    grid: Grid,
    position: Point,
    inner: Length,
    outer: Length,
    focus: Point,
    *,
    radius: Length | None = None,
    tolerance: float = 0.05,
) -> TransducerMask:
    """Return a flat ring, or with a ``radius`` of curvature a ring of a bowl; in 2-D two lines or arcs.

    ``inner`` and ``outer`` are its diameters, m; other arguments as in `bowl`. For an annular array `join`
    rings around one ``position``.
    """
    return assemble(grid, [ring(grid, position, (inner, outer), focus, radius)], tolerance)


def ring(
    grid: Grid, position: Point, diameters: tuple[Length, Length], focus: Point, radius: Length | None
) -> Surface:
    """Return the sampled surface of an `annulus` of (inner, outer) ``diameters``; ``radius`` None: flat."""
    apex, axes = placed(grid, position, focus)
    hole = in_unit(diameters[0], "m", "inner") != 0
    names = ("inner", "outer") if hole else ("diameter", "diameter")
    outer = positive(diameters[1], "m", names[1])
    inner = positive(diameters[0], "m", names[0]) if hole else 0.0
    require(inner < outer, names[0], diameters[0], f"below {outer:g} m, the outer diameter")
    if radius is None:
        curvature = math.inf
        low, high = inner / 2, outer / 2
        area = math.pi * (high**2 - low**2)
    else:
        curvature = positive(radius, "m", "radius")
        bowl_depth(curvature, outer)  # raises an error if the ring is wider than the sphere
        # Angles of the inner and outer edge from the beam axis.
        low, high = (math.asin(min(1.0, d / (2 * curvature))) for d in (inner, outer))
        area = 2 * math.pi * curvature**2 * (math.cos(low) - math.cos(high))
    if grid.dimensions == 2:
        length = 2 * (high - low) * (1 if radius is None else curvature)
        half = low + (high - low) * _samples(grid, length / 2)
        both = np.concatenate([-half[::-1], half])
        if radius is None:
            local = np.stack([0 * both, both], axis=1)
        else:
            local = curvature * np.stack([1 - np.cos(both), np.sin(both)], axis=1)
        return Surface(apex + local @ axes, apex, area if grid.axisymmetric else length, length)
    part = _samples(grid, area)
    if radius is None:
        forward, distance = np.zeros(part.size), np.sqrt(low**2 + (high**2 - low**2) * part)
    else:
        # Equal steps along the axis cut equal areas of a sphere.
        forward = curvature * (1 - math.cos(low) + (math.cos(low) - math.cos(high)) * part)
        distance = np.sqrt(forward * (2 * curvature - forward))
    return Surface(apex + np.column_stack([forward, spiral(distance)]) @ axes, apex, area, area)


@typed
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
    """Return a flat rectangle around ``position``; 3-D only (in 2-D use `disc`).

    Its sides are ``width`` and ``height``, m. The width lies along a direction ``along``, of which only the
    part perpendicular to the beam axis counts; default: the most nearly perpendicular grid axis, x before y
    before z. Other arguments are as in `bowl`.
    """
    if grid.dimensions == 2:
        raise InputError("grid: has 2 dimensions; allowed: 3, or transducers.disc, which is a line in 2-D")
    centre, axes = placed(grid, position, focus, along)
    sides = (positive(width, "m", "width"), positive(height, "m", "height"))
    return flat(grid, centre[None], axes, sides, tolerance)


def line(grid: Grid, start: Point, end: Point, *, tolerance: float = 0.05) -> TransducerMask:
    """Return a straight line between two points, m, in 2-D; in 3-D a strip one (smallest) spacing wide."""
    placed(grid, start, end)  # raises an error for one dimension, and for equal points
    if grid.axisymmetric:
        raise InputError("grid: is axisymmetric; allowed: disc, annulus or bowl there")
    a, b = point(start, grid.dimensions, "start"), point(end, grid.dimensions, "end")
    length = float(np.linalg.norm(b - a))
    area = length * (min(grid.spacing) if grid.dimensions == 3 else 1.0)
    points = a + (b - a) * _midpoints(math.ceil(UPSAMPLING * length / min(grid.spacing)))[:, None]
    return assemble(grid, [Surface(points, (a + b) / 2, area, area)], tolerance)


@typed
def surfaces(
    grid: Grid, points: Sequence[Any], areas: Sequence[float], *, tolerance: float = 0.05
) -> TransducerMask:
    """Return a transducer of user-defined elements.

    ``points``: for each element, points that represent equal parts of its surface, m, (points, dimensions),
    some ten per grid point that it covers; ``areas``: the area of each element, m² (lengths in 2-D, m).
    """
    n = grid.dimensions
    if grid.axisymmetric or n == 1:
        raise InputError("grid: allowed: a Cartesian grid of 2 or 3 dimensions")
    points = listed(points, "points", "an array an element")
    areas = listed(areas, "areas", "m², one an element")
    require(len(points) == len(areas), "areas", len(areas), f"one for each of {len(points)} elements")
    result = []
    for each, area in zip(points, areas, strict=True):
        metres = as_array(each, "points")
        right = metres.ndim == 2 and metres.shape[1] == n and len(metres) and metres.dtype.kind in "fiu"
        require(right, "points", metres.shape, f"(points, {n}) numbers an element, m")
        size = positive(area, "", "areas")
        result.append(Surface(metres, metres.mean(axis=0), size, size))
    return assemble(grid, result, tolerance)


def flat(
    grid: Grid, centres: np.ndarray, axes: np.ndarray, sides: tuple[float, ...], tolerance: float = 0.05
) -> TransducerMask:
    """Return a transducer of equal flat elements around ``centres``: lines in 2-D, rectangles in 3-D.

    The rows of ``axes`` are the direction of the beam, then the direction of each of the ``sides``.
    """
    step = min(grid.spacing) / UPSAMPLING ** (1 / len(sides))
    lines = [side * (_midpoints(max(1, math.ceil(side / step))) - 0.5) for side in sides]
    local = np.stack([each.ravel() for each in np.meshgrid(*lines, indexing="ij")], axis=1)
    area = math.prod(sides)
    return assemble(grid, [Surface(c + local @ axes[1:], c, area, area) for c in centres], tolerance)


def _samples(grid: Grid, area: float) -> np.ndarray:
    """Return evenly spaced positions in 0 … 1, of the points that sample a surface of ``area``."""
    return _midpoints(math.ceil(UPSAMPLING * area / min(grid.spacing) ** (grid.dimensions - 1)))


def _midpoints(count: int) -> np.ndarray:
    """Return the middles of ``count`` equal parts of the interval 0 … 1."""
    allowed = f"1 to {_MOST}, within the grid"
    require(1 <= count <= _MOST, "size", f"{count:g} points sample a surface", allowed)
    return (np.arange(count) + 0.5) / count


def spiral(distance: np.ndarray) -> np.ndarray:
    """Return points (points, 2) at ``distance`` from the centre, each turned further by the golden angle."""
    angle = GOLDEN_ANGLE * np.arange(distance.size)
    return np.stack([distance * np.cos(angle), distance * np.sin(angle)], axis=1)


@typed
def placed(
    grid: Grid, position: Point, focus: Point, along: Point | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return a transducer's position, m, and its orthonormal axes as rows.

    The first axis points to the focus; in 3-D the second is the one nearest to the direction ``along``.
    """
    n = grid.dimensions
    if n == 1:
        raise InputError("grid: is of one dimension; allowed: 2 or 3, or a source of p or ux in 1-D")
    centre = point(position, n, "position")
    normal = direction(point(focus, n, "focus") - centre, n, "focus")
    if grid.axisymmetric and (centre[1] or normal[1]):
        actual = show(position if centre[1] else focus)
        raise InputError(f"{'position' if centre[1] else 'focus'}: {actual}; allowed: on the axis, (x, 0)")
    if n == 2:
        return centre, np.array([normal, [-normal[1], normal[0]]])
    return centre, beam_axes(normal, along)
