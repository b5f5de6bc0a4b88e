"""Builds media from layers, shapes and finer arrays, averaged into the cells of a grid."""

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, get_args

import numpy as np

from wavefabric.acoustics.grid import Grid
from wavefabric.acoustics.medium import Medium
from wavefabric.acoustics.shapes.averaging import REACH, Averages, Kernel, effective
from wavefabric.acoustics.shapes.material import Material
from wavefabric.base.arguments import in_unit, instance, is_whole, pairs, positive, typed
from wavefabric.base.errors import choice, ensure, require

#: Fine cells per grid spacing: for layers, which cost little, and for shapes.
LAYER_CELLS, SHAPE_CELLS = 1000, 8
_PARAMETERS = ("sound_speed", "density", "alpha_coeff", "nonlinearity")


@typed
def layered_medium(
    grid: Grid,
    layers: Sequence[tuple[Material, Any]],
    *,
    start: Any = None,
    axis: int = 0,
    kernel: Kernel = "lanczos",
    **medium: Any,
) -> Medium:
    """Return a medium of flat layers across an axis, whose boundaries may lie anywhere between grid points.

    `InputError`: a thickness is not positive, or the kernel does not support the contrast.

    Parameters
    ----------
    layers : sequence of (Material, float or str)
        Materials and thicknesses, m. The first and the last layer extend to the ends of the grid: the first
        thickness counts from ``start``, and the last one is ignored (None).
    start : float or str, optional
        Coordinate, m, at which the first thickness begins. Default: the first point of the grid.
    axis : int
        0 for x, 1 for y, 2 for z.
    kernel : str
        ``"lanczos"``; ``"box"`` for contrasts such as steel in water, which is less accurate;
        ``"geometric"`` for gases, whose surface spans four cells.

    Other Parameters
    ----------------
    absorption, alpha_power, dispersion, reference_speed : optional
        As in `Medium`; by default Stokes absorption if a material absorbs.

    Examples
    --------
    >>> water, bone = Material(1500, 1000), Material.at_frequency("500 kHz", 2800, 1850, 400)
    >>> layered_medium(grid, [(water, "30 mm"), (bone, "6.5 mm"), (water, None)], start="-40 mm")
    """
    require(is_whole(axis) and 0 <= axis < grid.dimensions, "axis", axis, f"0 to {grid.dimensions - 1}")
    layers = pairs(layers, "layers", "one or more pairs of material and thickness")
    first = grid.coordinates[axis][0] if start is None else in_unit(start, "m", "start")
    thick = [positive(thickness, "m", "layers") for _, thickness in layers[:-1]]
    ends = [first + length for length in itertools.accumulate(thick)]

    def number(*coordinates: np.ndarray) -> np.ndarray:
        return np.searchsorted(ends, coordinates[axis], side="right")

    materials = [material for material, _ in layers]
    return _of_materials(grid, materials, number, LAYER_CELLS, kernel, medium)


@typed
def shaped_medium(
    grid: Grid,
    background: Material,
    *shapes: tuple[Callable[..., Any], Material],
    cells: int = SHAPE_CELLS,
    kernel: Kernel = "lanczos",
    **medium: Any,
) -> Medium:
    """Return a medium of shapes in a background, averaged into cells; later shapes cover earlier ones.

    Parameters
    ----------
    shapes : (callable, Material)
        ``inside(x, y, z)`` receives coordinates, m (arrays that broadcast against each other, one per axis; a
        radius may be negative), and returns whether the points are inside the shape.
    cells : int
        Fine cells per spacing that resolve a boundary.

    Other Parameters
    ----------------
    kernel, absorption, alpha_power, dispersion, reference_speed : optional
        As in `layered_medium`.

    Examples
    --------
    >>> shaped_medium(grid, water, (lambda x, y, z: x**2 + y**2 + z**2 < 0.01**2, bone))
    """
    require(is_whole(cells) and 1 <= cells <= 1000, "cells", cells, "a whole number from 1 to 1000")

    for inside, _ in pairs(shapes, "shapes", "pairs of inside(x, y, z) and a Material") if shapes else ():
        require(callable(inside), "shapes", inside, "a function of coordinates")

    def number(*coordinates: np.ndarray) -> np.ndarray:
        chosen: Any = np.zeros((1,) * grid.dimensions, np.int64)
        for i, (inside, _) in enumerate(shapes):
            chosen = np.where(inside(*coordinates), i + 1, chosen)
        return chosen

    materials = [background, *(material for _, material in shapes)]
    return _of_materials(grid, materials, number, cells, kernel, medium)


@typed
def averaged_medium(grid: Grid, fine: Medium, factor: int, kernel: Kernel = "lanczos") -> Medium:
    """Average a medium with ``factor`` cells per grid spacing to the points of ``grid``; return the result.

    Arrays of ``fine`` have ``factor`` times the grid's shape; cells ``i factor`` to ``(i + 1) factor - 1``
    along an axis surround grid point i. `InputError`: other shapes.
    """
    require(is_whole(factor) and 1 <= factor <= 1000, "factor", factor, "a whole number from 1 to 1000")
    shape = tuple(n * factor for n in grid.shape)
    present = {name: np.asarray(value) for name in _PARAMETERS if (value := getattr(fine, name)) is not None}
    for name, value in present.items():
        right = value.shape in ((), shape)
        ensure(right, f"fine.{name}", f"has the shape {value.shape}", f"{shape}")

    def sample(cells: tuple[slice, ...]) -> dict[str, np.ndarray]:
        indices = []
        for axis, part in enumerate(cells):
            index = _fine_cells(grid, axis, part, factor)
            if grid.axisymmetric and axis == 1:  # the axis goes through the middle of the first cells
                index = np.where(index < factor // 2, factor - 1 - index, index)
            indices.append(np.clip(index, 0, shape[axis] - 1))
        zeros = np.zeros(tuple(len(index) for index in indices))
        cut = np.ix_(*indices)
        return {name: zeros + (value[cut] if value.ndim else value) for name, value in present.items()}

    how = {name: getattr(fine, name) for name in ("absorption", "dispersion", "reference_speed")}
    power = 2.0 if fine.alpha_power is None else fine.alpha_power
    return _medium(grid, sample, (factor,) * grid.dimensions, kernel, how | {"alpha_power": power})


def _of_materials(
    grid: Grid,
    materials: Sequence[Material],
    number: Callable[..., np.ndarray],
    cells: int,
    kernel: Kernel,
    medium: dict[str, Any],
) -> Medium:
    """Return a medium of several ``materials``, averaged to the points of ``grid``.

    ``number`` says which material is where: it takes coordinates, m, one array per axis, and returns an array
    of indices into ``materials``. This has size 1 along each axis on which the medium is constant.
    """
    for each in materials:
        instance("material", each, Material)
    tables = {name: np.array([getattr(each, name) for each in materials], float) for name in _PARAMETERS}
    tables = {name: table for name, table in tables.items() if name in _PARAMETERS[:2] or table.any()}
    if "alpha_coeff" in tables:
        medium = {"absorption": "stokes"} | medium
    open_mesh = partial(np.meshgrid, indexing="ij", sparse=True)
    varies = number(*open_mesh(*(np.arange(2) * step for step in grid.spacing))).shape
    factors = tuple(cells if n > 1 else 0 for n in varies)

    def sample(parts: tuple[slice, ...]) -> dict[str, np.ndarray]:
        metres = []
        for axis, (part, factor) in enumerate(zip(parts, factors, strict=True)):
            steps = (_fine_cells(grid, axis, part, factor) + 0.5) / factor - 0.5 if factor else np.zeros(1)
            metres.append((steps - grid.origin[axis]) * grid.spacing[axis])
        material = number(*open_mesh(*metres))
        return {name: table[material] for name, table in tables.items()}

    return _medium(grid, sample, factors, kernel, {"alpha_power": 2.0} | medium)


def _fine_cells(grid: Grid, axis: int, part: slice, factor: int) -> np.ndarray:
    """Return the numbers of a block's fine cells along an axis, counted from the first in the grid.

    ``part`` is their slice counted from REACH spacings before the grid. Numbers wrap around a periodic axis.
    """
    cells = np.arange(part.start, part.stop) - REACH * factor
    return cells % (grid.shape[axis] * factor) if grid.periodic[axis] else cells


def _medium(grid: Grid, sample: Any, factors: tuple[int, ...], kernel: Kernel, options: Any) -> Medium:
    choice("kernel", kernel, get_args(Kernel))
    means = effective(Averages(grid.shape, factors, kernel), sample, options["alpha_power"])
    staggered = [means.pop(f"staggered{axis}") for axis in range(grid.dimensions)]
    for name, values in (*means.items(), *(("density", each) for each in staggered)):
        # NaN is refused too.
        right = name not in _PARAMETERS[:2] or (values.min() > 0 and np.isfinite(values).all())
        actual = f"{kernel} makes a {name.replace('_', ' ')} not above 0 at so large a contrast"
        ensure(right, "kernel", actual, "'box'")
    whole = {name: np.broadcast_to(values, grid.shape) for name, values in means.items()}
    if "alpha_coeff" not in whole:
        options = {name: value for name, value in options.items() if name == "reference_speed"}
    sides = tuple(np.broadcast_to(values, grid.shape) for values in staggered)
    return Medium(**whole, density_staggered=sides, **options)
