"""Computes the weights of a transducer's elements on the grid, and the sources they form.

In a Fourier method a source at any position is a band-limited delta function on the grid. For N points
along an axis, with no wavenumber above the Nyquist limit, the delta function at x₀ is a periodic sinc,
b(x) = sin(πd)/(N tan(πd/N)) with d = (x − x₀)/Δx (N even; sin in place of tan for N odd). In 2-D and 3-D it
is the product over the axes. Its long tails are cut where their envelope ∏ 1/(π|d|) falls below a tolerance,
which leaves a star of grid points (Wise, Cox, Jaros & Treeby, J. Acoust. Soc. Am. 146, 278 (2019),
doi:10.1121/1.5116132). Unlike in that paper, a Lanczos window tapers the remaining tails: at three points per
wavelength it lowers the error of a bowl's field from 1.3 % to 0.2 %, and of the field of a disc along the
grid from 3.8 % to 1.1 %, with the same points.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from wavefabric.acoustics.grid import Grid
from wavefabric.acoustics.problem import ProductSignal
from wavefabric.acoustics.series import check_series
from wavefabric.acoustics.source import ContinuousWave, Source
from wavefabric.base.arguments import in_unit, positive, real
from wavefabric.base.errors import InputError, choice, require
from wavefabric.base.units import show
from wavefabric.runtime.device.user_arrays import real_array

if TYPE_CHECKING:
    from scipy.sparse import csr_array

#: A length, m, or text with a unit; a point, one length per axis.
Length = float | str
Point = Sequence[Length]
#: Number of points spread at once, so small that the scratch arrays stay in cache.
CHUNK = 16384


@dataclass(frozen=True)
class TransducerMask:
    """A transducer on a grid: the weight of each of its elements at each grid point.

    The weights of an element sum to about its area divided by Δy Δz, in 2-D to its length divided by Δy.
    """

    shape: tuple[int, ...]  # of the grid, [x, y(, z)]
    index: np.ndarray  # flat grid indices, x fastest, ascending
    weights: csr_array  # (points, elements)
    centres: np.ndarray  # (elements, dimensions), m
    areas: np.ndarray  # (elements,), m²; m in 2-D
    point_areas: np.ndarray  # (points,), area per unit weight in a surface integral, m²; m in 2-D

    @property
    def elements(self) -> int:
        """Return the number of elements."""
        return len(self.areas)

    @cached_property
    def mask(self) -> np.ndarray:
        """Return the grid points of the source: bool, the grid's shape."""
        mask = np.zeros(math.prod(self.shape), bool)
        mask[self.index] = True
        return mask.reshape(self.shape, order="F")

    def source(
        self,
        signal: Any,
        mode: Literal["additive", "additive_no_correction"] = "additive",
        precision: Literal["single", "double"] = "single",
    ) -> Source:
        """Return a mass source that drives the elements, with one signal per grid point.

        ``signal`` is the pressure at the surface, Pa: (steps,) for all elements, (elements, steps), or a
        `ContinuousWave`, whose amplitude and phase may be one per element. ``mode`` is as in `Source`, but
        not ``"dirichlet"``; ``precision`` is that of the source.
        """
        if isinstance(signal, ContinuousWave):
            wave = _SpreadWave(**vars(signal), weights=self.weights)
            return Source(p_mask=self.mask, p=wave, p_mode=mode)
        signal = check_series(signal, self.elements, "signal", shared=True)
        choice("mode", mode, ("additive", "additive_no_correction"))
        choice("precision", precision, ("single", "double"))
        dtype = np.dtype(np.float32 if precision == "single" else np.float64)
        driven = signal.astype(dtype)
        weights = self.weights.sum(axis=1)[:, None] if len(signal) == 1 else self.weights
        driven = (weights.astype(dtype) @ driven).astype(dtype, copy=False)
        return Source(p_mask=self.mask, p=driven, p_mode=mode)

    def element_signals(self, points: Any) -> np.ndarray:
        """Return derivatives with respect to the elements' signals, (elements, steps).

        ``points`` (points, steps) are those with respect to the signals of grid points: ``"p"`` of
        `simulate_and_gradient`.
        """
        return self.weights.T @ check_series(points, self.index.size, "points")

    @property
    def receiving(self) -> csr_array:
        """Return weights (elements, points) with which an element receives a field's mean over itself."""
        from scipy.sparse import csr_array

        return csr_array((self.weights * self.point_areas[:, None]).T / self.areas[:, None])

    def delays(self, sound_speed: Length, focus: Point) -> np.ndarray:
        """Return firing times, s, with which all waves reach ``focus``, m, together; the earliest is 0."""
        speed = positive(sound_speed, "m/s", "sound_speed")
        distance = np.linalg.norm(point(focus, self.centres.shape[1], "focus") - self.centres, axis=1)
        time = -distance / speed
        return time - time.min()

    def signals(self, signal: Any, delays: np.ndarray, dt: Length) -> np.ndarray:
        """Return ``signal`` delayed for each element, also by fractions of a time step.

        The result is (elements, steps + largest delay). ``signal`` (steps,) should begin and end at rest;
        ``delays``, as `delays` returns, and ``dt`` in s. The shift is in Fourier space: exact for signals
        below the Nyquist frequency.
        """
        signal, delays = real_array(signal, "signal"), real_array(delays, "delays")
        if signal.ndim != 1 or not signal.size:
            raise InputError(f"signal: has the shape {signal.shape}; allowed: (steps,)")
        if delays.shape != (self.elements,) or not np.all((delays >= 0) & np.isfinite(delays)):
            raise InputError(f"delays: allowed: {self.elements} numbers from 0, s")
        late = delays / positive(dt, "s", "dt")
        steps = signal.size + math.ceil(late.max())
        # Twice as long: ringing before the signal must not wrap around to its end.
        spectrum = np.fft.rfft(signal, 2 * steps)
        turn = np.exp(-1j * np.pi / steps * np.outer(late, np.arange(spectrum.size)))
        return np.fft.irfft(spectrum * turn, 2 * steps)[:, :steps]


@dataclass(frozen=True)
class _SpreadWave(ContinuousWave):
    """A continuous wave per element, converted to signals of grid points by the elements' weights."""

    weights: Any = None  # (points, elements)

    def on(self, dt: float, steps: int, spread: Any = None) -> ProductSignal:
        sizes = {values.size for values in (self.amplitude, self.phase) if values.ndim}
        elements = self.weights.shape[1]
        require(sizes <= {elements}, "continuous_wave", sorted(sizes), f"{elements} amplitudes and phases")
        return super().on(dt, steps, self.weights)


@dataclass(frozen=True)
class Surface:
    """The surface of an element: points, m, each for an equal part of the surface, and the centre."""

    points: np.ndarray  # (points, dimensions); on both sides of the axis of an axisymmetric grid
    centre: np.ndarray  # (dimensions,)
    area: float  # m²; m in 2-D
    extent: float  # sum of the points on the grid: the area, or the length of its section by a plane


def assemble(grid: Grid, surfaces: Sequence[Surface], tolerance: float) -> TransducerMask:
    """Return a transducer of one element per surface, with the surfaces' points spread on the grid."""
    from scipy.sparse import csr_array

    require(0 <= real(tolerance, "tolerance") <= 0.5, "tolerance", tolerance, "from 0 to 0.5")
    spacing = np.array(grid.spacing)
    # Add the other half of the plane of axis and radius; its points are dropped later.
    shape, before = list(grid.shape), np.zeros(grid.dimensions)
    if grid.axisymmetric:
        before[1] = shape[1] - 1
        shape[1] += shape[1] - 1
    rows, columns, values = [], [], []
    for element, surface in enumerate(surfaces):
        steps = surface.points / spacing + grid.origin + before
        _check_inside(steps, grid, surface.points, shape)
        # A mass source is scaled by 1/Δx (see `Source`), so one factor of Δx remains.
        total = surface.extent * grid.spacing[0] / math.prod(grid.spacing)
        index, weight = spread(steps, total / len(steps), tuple(shape), tolerance, grid.periodic)
        if grid.axisymmetric:
            kept = index >= before[1] * shape[0]
            index, weight = index[kept] - int(before[1]) * shape[0], weight[kept]
        rows.append(index)
        columns.append(np.full(index.size, element))
        values.append(weight)
    points, row = np.unique(np.concatenate(rows), return_inverse=True)
    entries = (np.concatenate(values), (row, np.concatenate(columns)))
    weights = csr_array(entries, shape=(points.size, len(surfaces)))
    centres, areas = (np.array([getattr(each, name) for each in surfaces]) for name in ("centre", "area"))
    each = np.full(points.size, math.prod(grid.spacing) / grid.spacing[0])
    if grid.axisymmetric:
        # A point represents the ring at its radius, or on the axis a disc of half a spacing.
        radius = points // grid.shape[0] * grid.spacing[1]
        each = 2 * math.pi * each * np.where(radius == 0, grid.spacing[1] / 8, radius)
    return TransducerMask(grid.shape, points, weights, centres, areas, each)


def _check_inside(steps: np.ndarray, grid: Grid, metres: np.ndarray, shape: list[int]) -> None:
    for axis, edge in enumerate(grid.coordinates):
        if steps[:, axis].min() < 0 or steps[:, axis].max() > shape[axis] - 1:
            near, far = metres[:, axis].min(), metres[:, axis].max()
            raise InputError(
                f"position: the transducer spans {near:.6g} to {far:.6g} m along {'xyz'[axis]}; "
                f"allowed: inside the grid, {edge[0]:.6g} to {edge[-1]:.6g} m"
            )


def point(lengths: Point, dimensions: int, key: str) -> np.ndarray:
    """Return a user's point as an array, m; `InputError` unless it has ``dimensions`` lengths."""
    values = tuple(lengths) if isinstance(lengths, list | tuple | np.ndarray) else ()
    require(len(values) == dimensions, key, lengths, f"{dimensions} lengths, m")
    return np.array([in_unit(value, "m", key) for value in values])


def direction(vector: Any, dimensions: int, key: str) -> np.ndarray:
    """Return the unit vector along a user's ``vector``; `InputError` if the vector is zero."""
    vector = point(vector, dimensions, key)
    norm = np.linalg.norm(vector)
    if norm == 0:
        raise InputError(f"{key}: gives no direction; allowed: a point away from the transducer")
    return vector / norm


def beam_axes(normal: np.ndarray, along: Point | None = None) -> np.ndarray:
    """Return orthonormal 3-D axes as rows: the beam, the direction nearest to ``along``, and their normal.

    By default ``along`` is the coordinate axis at the largest angle to the beam.
    """
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
    return np.array([normal, first, np.cross(normal, first)])


def periodic_sinc(d: np.ndarray, points: int) -> np.ndarray:
    """Return the band-limited delta function of a periodic grid of N ``points``, ``d`` grid steps away.

    1 at d = 0 and 0 at all other whole d within a period; 1 everywhere for N = 1. Wise et al. 2019,
    equations 8 and 9.
    """
    d = np.asarray(d, float)
    if points == 1:
        return np.ones_like(d)
    d = d - points * np.round(d / points)  # Within half a period: only d = 0 divides by zero.
    near = np.abs(d) < 1e-9
    angle = np.pi * np.where(near, 0.25, d) / points
    below = np.tan(angle) if points % 2 == 0 else np.sin(angle)
    return np.where(near, 1.0, np.sin(points * angle) / (points * below))


def star(dimensions: int, tolerance: float) -> np.ndarray:
    """Return offsets (offsets, dimensions) where the sinc's envelope reaches ``tolerance`` of its peak."""
    reach = max(1, math.ceil(1 / (math.pi * tolerance)))
    axes = np.meshgrid(*([np.arange(-reach, reach + 1)] * dimensions), indexing="ij")
    offsets = np.stack([axis.ravel() for axis in axes], axis=1)
    # The point may be half a step nearer than its offset; a sinc never exceeds 1.
    distance = np.maximum(np.abs(offsets) - 0.5, 1 / math.pi)
    return offsets[np.prod(math.pi * distance, axis=1) <= 1 / tolerance]


def spread(
    positions: np.ndarray,
    weight: float,
    shape: tuple[int, ...],
    tolerance: float,
    periodic: tuple[bool, ...] = (False,) * 3,
) -> tuple[np.ndarray, np.ndarray]:
    """Sum band-limited delta functions of equal ``weight`` on a grid of ``shape``, (Nx, Ny) or (Nx, Ny, Nz).

    ``positions`` (points, dimensions) are in grid steps from grid point 0, each within the grid. Tails are
    cut at ``tolerance`` of the peak; 0 keeps them whole. Tails outside the grid are cut too, but wrap around
    along a ``periodic`` axis. Return flat grid indices (int64, x fastest, ascending) and the sum at each.
    """
    if tolerance == 0:
        return _spread_whole(positions, weight, shape)
    offsets = star(len(shape), tolerance)
    reach = int(offsets.max())
    nearest = np.rint(positions).astype(np.int64)
    # A box around all points and their tails keeps the scratch array small.
    low = nearest.min(axis=0) - reach
    size = nearest.max(axis=0) + reach + 1 - low
    strides = np.concatenate([[1], np.cumprod(size)[:-1]])
    total = np.zeros(int(np.prod(size)))
    steps = offsets @ strides
    for first in range(0, len(positions), CHUNK):
        near = nearest[first : first + CHUNK]
        part = positions[first : first + CHUNK] - near
        centre = (near - low) @ strides
        tails = []  # tapered to zero one and a half steps beyond ``reach``
        for axis, points in enumerate(shape):
            away = np.arange(-reach, reach + 1)[:, None] - part[:, axis]
            tails.append(periodic_sinc(away, points) * np.sinc(away / (reach + 1.5)))
        for offset, step in zip(offsets, steps, strict=True):
            value = tails[0][offset[0] + reach]
            for axis in range(1, len(shape)):
                value = value * tails[axis][offset[axis] + reach]
            lowest = int(centre.min()) + step
            sums = np.bincount(centre + (step - lowest), value)
            total[lowest : lowest + len(sums)] += sums
    nonzero = np.flatnonzero(total)
    points = np.stack(np.unravel_index(nonzero, tuple(size), order="F"), axis=1) + low
    points = np.where(periodic[: len(shape)], points % shape, points)
    inside = np.all((points >= 0) & (points < shape), axis=1)
    index = np.asarray(np.ravel_multi_index(tuple(points[inside].T), shape, order="F"))
    index, back = np.unique(index, return_inverse=True)
    return index, np.bincount(back, total[nonzero][inside]) * weight


def _spread_whole(
    positions: np.ndarray, weight: float, shape: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray]:
    total = 0.0
    for first in range(0, len(positions), 256):
        part = positions[first : first + 256]
        axes = [periodic_sinc(np.arange(n) - part[:, i, None], n) for i, n in enumerate(shape)]
        plane = (axes[1][:, :, None] * axes[0][:, None, :]).reshape(len(part), -1)
        total = total + (axes[2].T @ plane if len(shape) == 3 else plane.sum(axis=0))
    total = np.asarray(total).ravel() * weight
    index = np.flatnonzero(total)
    return index, total[index]
