"""Defines the simulation grid, and converts fields [x, y, z] to the solver's memory order, x fastest."""

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from wavefabric.acoustics.medium import Medium
from wavefabric.acoustics.problem import Problem
from wavefabric.acoustics.setup_passes import copy_in_order
from wavefabric.base.arguments import is_whole, per_axis, positive, real, typed
from wavefabric.base.errors import InputError, ensure, require
from wavefabric.runtime.device.base import Device
from wavefabric.runtime.device.user_arrays import as_array, shared_array

#: A mask that marks fewer than one point in so many is searched without being transposed.
_FEW = 16
#: PML sizes from which ``pml_size="auto"`` selects.
AUTO_PML = range(10, 21)
_DEFAULT_PML = {1: 20, 2: 20, 3: 10}


@dataclass(frozen=True)
class Grid:
    """A uniform Cartesian grid with a perfectly matched layer (PML) at its edges.

    The attributes ``shape``, ``spacing``, ``pml_size``, ``pml_alpha`` are tuples with one entry per axis.
    `InputError`: a value is out of range, or the PML leaves nothing of the grid.

    Parameters
    ----------
    shape : sequence of 1 to 3 int
        Points along x(, y(, z)).
    spacing : float, str or sequence of them
        Distance of neighbouring points, m (or text: ``"0.1 mm"``): one for all axes, or one per axis.
    pml_size : int, sequence of int, "auto" or None
        Points of the PML on each side; with 0 the axis is periodic. Default: 20 in 1-D and 2-D, 10 in 3-D, as
        in k-Wave.
        ``"auto"`` (only with ``pml_inside=False``) selects for each axis the size from 10 to 20 with the
        fastest transforms: the largest prime factor of the total number of points is as small as possible.
    pml_alpha : float or sequence of float
        Absorption in the PML, Np per grid point.
    pml_inside : bool
        True: the PML occupies the outermost points of the grid. False: the PML is added around the grid.
        The medium's edge values extend into the PML, sources and sensors stay in place, and whole-domain
        results exclude the PML.
    axisymmetric : bool
        For grids of 2 dimensions: x lies along the axis of symmetry, y is the radius, from 0. The radius has
        a PML at its outer end only.
    """

    shape: Any
    spacing: Any
    pml_size: Any = None
    pml_alpha: Any = 2.0
    pml_inside: bool = True
    axisymmetric: bool = False

    def __post_init__(self) -> None:
        assign = object.__setattr__
        shape = tuple(self.shape) if np.iterable(self.shape) else ()
        right = len(shape) in (1, 2, 3) and all(is_whole(n) and n >= 2 for n in shape)
        require(right, "grid.shape", self.shape, "1 to 3 whole numbers from 2")
        assign(self, "shape", tuple(int(n) for n in shape))
        dims = len(shape)
        spacings = per_axis(self.spacing, dims)
        allowed = f"one value, or one an axis ({dims})"
        require(len(spacings) == dims, "grid.spacing", self.spacing, allowed)
        assign(self, "spacing", tuple(positive(spacing, "m", "grid.spacing") for spacing in spacings))
        require(isinstance(self.axisymmetric, bool), "grid.axisymmetric", self.axisymmetric, "True or False")
        inside = self.pml_inside
        require(isinstance(inside, bool | np.bool_), "grid.pml_inside", inside, "True or False")
        if self.axisymmetric and dims != 2:
            raise InputError(f"grid.axisymmetric: True with {dims} dimensions; allowed: 2, axis and radius")
        assign(self, "pml_size", self._pml_sizes())
        alphas = tuple(real(alpha, "grid.pml_alpha") for alpha in per_axis(self.pml_alpha, dims))
        right = len(alphas) == dims and all(0 <= alpha < math.inf for alpha in alphas)
        require(right, "grid.pml_alpha", self.pml_alpha, "numbers from 0, one for all axes or one an axis")
        assign(self, "pml_alpha", alphas)

    def _pml_sizes(self) -> tuple[int, ...]:
        size, n = self.pml_size, len(self.shape)
        if isinstance(size, str) and size == "auto":
            ensure(not self.pml_inside, "grid.pml_size", "'auto' with pml_inside=True", "pml_inside=False")
            sides = zip(self.shape, self._sides, strict=False)
            return tuple(auto_pml_size(n, AUTO_PML, each) for n, each in sides)
        sizes = per_axis(_DEFAULT_PML[n] if size is None else size, n)
        right = len(sizes) == n and all(is_whole(number) and number >= 0 for number in sizes)
        require(right, "grid.pml_size", size, "a whole number from 0, one an axis, 'auto' or None")
        for points, number, sides in zip(self.shape, sizes, self._sides, strict=False):
            side = "each" if sides == 2 else "one"
            actual = f"{number} points on {side} side leave nothing of {points}"
            allowed = f"at most {(points - 1) // sides}, or pml_inside=False"
            fits = not self.pml_inside or sides * number < points
            ensure(fits, "grid.pml_size", actual, allowed)
        return tuple(int(number) for number in sizes)

    @property
    def dimensions(self) -> int:
        """Return the number of dimensions: 1, 2 or 3."""
        return len(self.shape)

    @property
    def size(self) -> tuple[float, ...]:
        """Return the length along each axis, m: points times spacing."""
        return tuple(n * d for n, d in zip(self.shape, self.spacing, strict=True))

    @property
    def coordinates(self) -> tuple[np.ndarray, ...]:
        """Return the coordinates of the grid points, m, as one vector per axis: x(, y(, z)).

        The origin is point ``N // 2`` of an axis of N points, as in k-Wave, but the first point of a radius.
        """
        origins = zip(self.shape, self.spacing, self.origin, strict=True)
        return tuple((np.arange(n) - first) * d for n, d, first in origins)

    @property
    def origin(self) -> tuple[int, ...]:
        """Return the index of the coordinate origin along each axis."""
        return tuple(0 if self.axisymmetric and i == 1 else n // 2 for i, n in enumerate(self.shape))

    @property
    def periodic(self) -> tuple[bool, ...]:
        """Return for each axis whether it is periodic: it has no PML and is not a radius."""
        return tuple(not size and not (self.axisymmetric and i == 1) for i, size in enumerate(self.pml_size))

    @property
    def _sides(self) -> tuple[int, int, int]:
        """Return the number of ends of each axis that have a PML."""
        return (2, 1, 2) if self.axisymmetric else (2, 2, 2)

    @property
    def margin(self) -> tuple[int, int, int]:
        """Return the number of PML points added before the first point along x, y, z; 0 if ``pml_inside``."""
        x, y, z = self._pml_after
        return (x, 0 if self.axisymmetric else y, z)

    @property
    def _pml_after(self) -> tuple[int, int, int]:
        """Return the number of PML points added after the last point along x, y, z; 0 if ``pml_inside``."""
        return (0, 0, 0) if self.pml_inside else (*self.pml_size, 0, 0)[:3]  # type: ignore[return-value]

    @property
    def total_shape(self) -> tuple[int, int, int]:
        """Return (Nx, Ny, Nz) of the grid including a PML that is added around it; 1 along missing axes."""
        shape, before, after = (*self.shape, 1, 1), self.margin, self._pml_after
        return tuple(n + m + k for n, m, k in zip(shape, before, after, strict=False))  # type: ignore[return-value]

    def time_step(self, medium: Medium, cfl: float = 0.3) -> float:
        """Return a time step, s: cfl · (smallest spacing) / (largest sound speed), or less if unstable.

        ``cfl`` is c_max Δt / min Δx, as in k-Wave's ``makeTime``. If jumps of the density prevent a proof of
        stability, the largest eigenvalue of a time step is computed, on a GPU if there is one; this takes as
        long as some 60 to 500 steps of a run. An unstable time step is shortened, with a warning
        (`wavefabric.acoustics.stability.stable_time_step.stability`).
        """
        from wavefabric.acoustics.stability.stable_time_step import stable_step

        return stable_step(self.silent_problem(medium, self.cfl_step(medium, cfl)))[0]

    @typed
    def cfl_step(self, medium: Medium, cfl: float) -> float:
        """Return the time step, s, for a CFL number, whether or not this time step is stable."""
        require(0 < real(cfl, "cfl") < math.inf, "cfl", cfl, "a number above 0")
        return cfl * min(self.spacing) / medium.speeds[1]

    @typed
    def silent_problem(self, medium: Medium, dt: float, steps: int = 1) -> Problem:
        """Return a `Problem` with this grid and ``medium``, without sources."""
        return Problem(
            shape=self.total_shape,
            spacing=(*self.spacing, *self.spacing[:1] * 2)[:3],  # type: ignore[arg-type]
            dt=dt,
            steps=steps,
            pml_size=(*self.pml_size, 0, 0)[:3],  # type: ignore[arg-type]
            pml_alpha=(*self.pml_alpha, 0.0, 0.0)[:3],  # type: ignore[arg-type]
            axisymmetric=self.axisymmetric,
            **medium.on(self),
        )

    @typed
    def steps(self, medium: Medium, dt: float | str, t_end: float | str | None = None) -> int:
        """Return the number of time steps ``dt`` from t = 0 to ``t_end``, both included; times in s.

        ``t_end`` defaults to the time to cross the grid's diagonal at the smallest sound speed.
        """
        dt = positive(dt, "s", "dt")
        if t_end is None:
            t_end = math.hypot(*self.size) / medium.speeds[0]
        ratio = positive(t_end, "s", "t_end") / dt
        # Rounding may leave the ratio just below a whole number.
        whole = round(ratio) if math.isclose(ratio, round(ratio), rel_tol=1e-12) else math.floor(ratio)
        return whole + 1

    def to_memory(
        self, values: Any, key: str, outside: Literal["edge", "zero"] = "edge", device: Device | None = None
    ) -> Any:
        """Convert a field [x, y(, z)] to the solver's memory order, (Nz, Ny, Nx), extended by an added PML.

        In a PML that is added around the grid, the values are those at the grid's edge if ``outside`` is
        ``"edge"``, else zeros. ``key`` names the field in errors. A float field is not copied if no PML is
        added and x is fastest in memory (Fortran order) already. With ``device`` the result is an array on
        that GPU, and ``values`` may be too.
        """
        empty, copy = (np.empty, copy_in_order) if device is None else (device.empty, device.copy)
        array = self._shaped(values, key, device)
        ensure(array.dtype.kind in "fiub", key, f"is of type {array.dtype}", "real numbers")
        if array.dtype not in (np.float32, np.float64):
            array = array.astype(np.float64)
        array = array.reshape(*array.shape, *(1,) * (3 - array.ndim)).transpose()
        if device is not None and isinstance(array, np.ndarray):
            lies_reversed = array.flags.f_contiguous
            array = device.asarray(array.transpose()).transpose() if lies_reversed else device.asarray(array)
        if not any(self._pml_after):
            if not array.flags.c_contiguous:
                copy(memory := empty(array.shape, array.dtype), array)
                array = memory
            return array
        layers = [(m, m + n) for m, n in zip(self.margin[::-1], array.shape, strict=True)]
        memory = empty(self.total_shape[::-1], array.dtype)
        copy(memory[tuple(slice(*ends) for ends in layers)], array)
        for axis in (2, 1, 0):
            order = (axis, *(other for other in range(3) if other != axis))
            along, (first, end) = memory.transpose(order), layers[axis]
            # Axes after ``axis`` are filled already and are copied whole.
            inside = tuple(slice(*ends) for ends in layers[:axis])
            for layer, edge in ((slice(first), first), (slice(end, None), end - 1)):
                along[layer][(slice(None), *inside)] = along[edge][inside] if outside == "edge" else 0
        return memory

    def _padded(self, mask: np.ndarray) -> np.ndarray:
        mask = mask.reshape(*mask.shape, *(1,) * (3 - mask.ndim)).transpose()
        if not any(self._pml_after):
            return mask
        return np.pad(mask, list(zip(self.margin, self._pml_after, strict=True))[::-1])

    def from_edges(self, field: np.ndarray) -> np.ndarray:
        """Convert a solver's field to [x, y(, z)]; add the values in an added PML to the nearest edge points.

        This is the transpose of `to_memory`, which copies edge values into the PML.
        """
        values = field.astype(np.float64)
        for axis, (before, after) in enumerate(zip(self.margin[::-1], self._pml_after[::-1], strict=True)):
            along = np.moveaxis(values, axis, 0)
            if before:
                along[before] += along[:before].sum(axis=0)
            if after:
                along[-1 - after] += along[-after:].sum(axis=0)
        return np.array(self.from_memory(values))

    def from_memory(self, field: np.ndarray) -> np.ndarray:
        """Return the view [x, y(, z)] of a solver's field (Nz, Ny, Nx) that leaves out an added PML."""
        shape = (*self.shape, 1, 1)
        inner = tuple(slice(m, m + n) for m, n in zip(self.margin, shape, strict=False))
        view = field[inner[::-1]].transpose()
        return view[(..., *(0,) * (3 - self.dimensions))]

    def points(self, mask: Any, key: str) -> np.ndarray:
        """Return the flat indices (int64, ascending, x fastest) of the points that a mask marks.

        The indices are those in the solver's grid, which includes an added PML. ``mask`` is bool, or 0 and 1,
        and has the grid's shape; ``key`` names it in errors.
        """
        marked = self.mask(mask, key)
        if marked.flags.c_contiguous and np.count_nonzero(marked) < marked.size // _FEW:
            # Converting and sorting the indices of few points is faster than transposing the mask.
            at = np.unravel_index(np.flatnonzero(marked), self.shape)
            at = [numbers + margin for numbers, margin in zip(at, self.margin, strict=False)]
            flat = np.sort(np.ravel_multi_index(at, self.total_shape[: self.dimensions], order="F"))
        else:
            flat = np.flatnonzero(self._padded(marked))
        ensure(flat.size, key, "marks no point", "one point or more")
        return flat

    def mask(self, values: Any, key: str) -> np.ndarray:
        """Return a mask of the grid's shape as bool; `InputError` for values other than 0 and 1."""
        mask = self._shaped(values, key)
        if mask.dtype != np.bool_ and (mask.dtype.kind not in "fiu" or not np.isin(mask, (0, 1)).all()):
            raise InputError(f"{key}: has other values than 0 and 1; allowed: True or False for each point")
        return mask.astype(np.bool_, copy=False)

    def _shaped(self, values: Any, key: str, device: Device | None = None) -> Any:
        array = as_array(values, key) if device is None else shared_array(values, key, device)
        if array.shape != self.shape:
            turned = "; its axes are in the other order" if array.shape == self.shape[::-1] else ""
            raise InputError(f"{key}: has the shape {array.shape}; allowed: {self.shape}, the grid's{turned}")
        return array


def auto_pml_size(n: int, sizes: range, sides: int = 2) -> int:
    """Return the PML size for which the largest prime factor of an axis of ``n`` points plus PML is smallest.

    The size is one of ``sizes``. With a PML on one side only (``sides`` is 1), as along a radius, the total
    is even, as transforms of other lengths take longer.
    """
    # min() keeps the first of equally good sizes, the thinnest.
    fits = [size for size in sizes if sides == 2 or (n + size) % 2 == 0]
    return min(fits, key=lambda size: largest_prime_factor(n + sides * size))


def largest_prime_factor(n: int) -> int:
    """Return the largest prime factor of a whole number; 1 for 1."""
    largest, factor = 1, 2
    while factor * factor <= n:
        while n % factor == 0:
            largest, n = factor, n // factor
        factor += 1
    return max(largest, n)
