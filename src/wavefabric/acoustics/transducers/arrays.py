"""Builds transducer arrays: elements in a row, on a sphere or in rings, or joined from any elements."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from wavefabric.acoustics.focused_bowl import bowl_depth
from wavefabric.acoustics.grid import Grid
from wavefabric.acoustics.transducers.elements import flat, placed, ring, spiral
from wavefabric.acoustics.transducers.mask import Length, Point, TransducerMask, assemble
from wavefabric.base.arguments import instance, is_whole, pairs, positive, typed
from wavefabric.base.errors import InputError, require


def join(*parts: TransducerMask) -> TransducerMask:
    """Return one array with the elements of several transducers on the same grid, in their order."""
    from scipy.sparse import block_diag, csr_array

    require(len(parts) > 0, "parts", 0, "one transducer or more")
    for part in parts:
        instance("parts", part, TransducerMask)
    if len({part.shape for part in parts}) > 1:
        raise InputError("parts: are on grids of different shapes; allowed: one grid")
    names = ("index", "centres", "areas", "point_areas")
    points, centres, sizes, each = (np.concatenate([getattr(part, n) for part in parts]) for n in names)
    index, first, row = np.unique(points, return_index=True, return_inverse=True)
    entries: Any = block_diag([part.weights for part in parts], "coo")
    weights = csr_array((entries.data, (row[entries.row], entries.col)), (index.size, sizes.size))
    return TransducerMask(parts[0].shape, index, weights, centres, sizes, each[first])


#: Largest number of elements of an array.
MOST_ELEMENTS = 10**5


@typed
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
    """Return a row of equal flat rectangles around ``position``, or of lines in 2-D; see also `bowl`.

    The elements have an ``element_width`` along the row, an ``element_length`` across it (None in 2-D), and a
    ``pitch`` from centre to centre, at least the width; all in m. The row faces the point ``focus``;
    `TransducerMask.delays` and `TransducerMask.signals` steer the beam. Options: ``along``, the direction of
    the row, as in `rectangle` (not used in 2-D); ``tolerance``, as in `bowl`.
    """
    if grid.axisymmetric:
        raise InputError("grid: is axisymmetric; allowed: a Cartesian grid, or annular_array")
    n, along = grid.dimensions, options.pop("along", None)
    _check_number(elements)
    centre, axes = placed(grid, position, focus, None if n == 2 else along)
    width, step = positive(element_width, "m", "element_width"), positive(pitch, "m", "pitch")
    require(step >= width * (1 - 1e-9), "pitch", pitch, f"from {width:g} m, the element's width")
    if n == 3 and element_length is None:
        raise InputError("element_length: is missing; allowed: a length in 3-D, m")
    sides = (width,) if n == 2 else (width, positive(element_length, "m", "element_length"))
    centres = centre + ((np.arange(elements) - (elements - 1) / 2) * step)[:, None] * axes[1]
    return flat(grid, centres, axes, sides, **options)


@typed
def spherical_array(
    grid: Grid,
    position: Point,
    radius: Length,
    diameter: Length,
    focus: Point,
    *,
    elements: int,
    element_diameter: Length,
    tolerance: float = 0.05,
) -> TransducerMask:
    """Return an array of discs, evenly spread on a bowl and facing its centre of curvature; 3-D only.

    ``position``, ``radius`` of curvature, ``diameter`` of the aperture and ``focus`` as in `bowl`;
    ``element_diameter`` in m.
    """
    if grid.dimensions != 3:
        raise InputError(f"grid: has {grid.dimensions} dimensions; allowed: 3")
    _check_number(elements)
    apex, axes = placed(grid, position, focus)
    curvature, aperture = positive(radius, "m", "radius"), positive(diameter, "m", "diameter")
    size = positive(element_diameter, "m", "element_diameter")
    require(size < aperture, "element_diameter", element_diameter, f"below {aperture:g} m, the aperture")
    # The discs stay within the aperture.
    forward = bowl_depth(curvature, aperture - size) * (np.arange(elements) + 0.5) / elements
    local = np.column_stack([forward, spiral(np.sqrt(forward * (2 * curvature - forward)))])
    middle = tuple(apex + curvature * axes[0])
    centres = [tuple(centre) for centre in apex + local @ axes]
    return assemble(grid, [ring(grid, centre, (0.0, size), middle, None) for centre in centres], tolerance)


def annular_array(
    grid: Grid,
    position: Point,
    diameters: Sequence[tuple[Length, Length]],
    focus: Point,
    *,
    radius: Length | None = None,
    tolerance: float = 0.05,
) -> TransducerMask:
    """Return an array of rings with inner and outer ``diameters``, m; other arguments as in `bowl`.

    An inner diameter of 0.0 gives a disc. ``radius`` of curvature, m; None: flat.
    """
    rings = pairs(diameters, "diameters", "one pair or more of inner and outer diameters")
    return assemble(grid, [ring(grid, position, pair, focus, radius) for pair in rings], tolerance)


def _check_number(elements: Any) -> None:
    right = is_whole(elements) and 1 <= elements <= MOST_ELEMENTS
    require(right, "elements", elements, f"a whole number from 1 to {MOST_ELEMENTS}")
