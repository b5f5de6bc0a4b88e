"""The weights of a transducer's elements on the grid, and the sources they make (Wise et al. 2019)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from wavefabric.acoustics.arguments import check_choice, check_reals, in_unit, positive, real, require
from wavefabric.acoustics.grid import Grid
from wavefabric.acoustics.source import Source
from wavefabric.acoustics.transducers.band_limited import spread
from wavefabric.errors import InputError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

#: A length, m, or text with a unit; a point, one length an axis.
Length = float | str
Point = Sequence[Length]


@dataclass(frozen=True)
class TransducerMask:
    """A transducer on a grid: the weight of each of its elements at each grid point.

    A column of ``weights`` adds up to about the element's area over Δy Δz (length over Δy in 2-D).
    """

    shape: tuple[int, ...]  # of the grid, [x, y(, z)]
    index: np.ndarray  # flat grid indices, x fastest, ascending
    weights: csr_array  # (points, elements)
    centres: np.ndarray  # (elements, dimensions), m
    areas: np.ndarray  # (elements,), m²; m in 2-D

    @property
    def elements(self) -> int:
        """Number of elements."""
        return len(self.areas)

    @cached_property
    def mask(self) -> np.ndarray:
        """Where the source is: bool, the grid's shape."""
        mask = np.zeros(math.prod(self.shape), bool)
        mask[self.index] = True
        return mask.reshape(self.shape, order="F")

    def source(
        self,
        signal: Any,
        mode: Literal["additive", "additive_no_correction"] = "additive",
        precision: Literal["single", "double"] = "single",
    ) -> Source:
        """Mass source that drives the elements, with one signal a grid point.

        ``signal`` is the pressure at the surface, Pa, (steps,) for all elements or (elements, steps);
        ``mode`` as of `Source`, but not ``"dirichlet"``; ``precision`` is that of the source.
        """
        signal = np.asarray(signal)
        fits = signal.ndim == 1 or (signal.ndim == 2 and len(signal) == self.elements)
        if not fits or not signal.size:
            raise InputError(
                f"signal: has the shape {signal.shape}; allowed: (steps,) or ({self.elements}, steps)"
            )
        check_reals(signal, "signal")
        check_choice(mode, ("additive", "additive_no_correction"), "mode")
        check_choice(precision, ("single", "double"), "precision")
        dtype = np.dtype(np.float32 if precision == "single" else np.float64)
        driven = signal.astype(dtype)
        if signal.ndim == 1:
            driven = np.outer(self.weights.sum(axis=1).astype(dtype), driven)
        else:
            driven = (self.weights.astype(dtype) @ driven).astype(dtype, copy=False)
        return Source(p_mask=self.mask, p=driven, p_mode=mode)

    def delays(
        self, sound_speed: Length, focus: Point | None = None, steering: Point | None = None
    ) -> np.ndarray:
        """When each element fires, s, so that all arrive together; the first at 0.

        At a ``focus``, m, or along ``steering``, the direction of a plane wave; ``sound_speed`` in m/s.
        """
        speed = positive(sound_speed, "m/s", "sound_speed")
        if (focus is None) == (steering is None):
            raise InputError("focus: one of focus and steering is needed; allowed: a point or a direction")
        if steering is not None:
            time = self.centres @ direction(steering, self.centres.shape[1], "steering") / speed
        else:
            target = point(focus, self.centres.shape[1], "focus")  # type: ignore[arg-type]
            time = -np.linalg.norm(target - self.centres, axis=1) / speed
        return time - time.min()

    def signals(self, signal: Any, delays: np.ndarray, dt: Length) -> np.ndarray:
        """A signal for each element, delayed by parts of time steps too, (elements, steps + largest delay).

        ``signal`` (steps,) should begin and end at rest; ``delays``, as `delays` gives, and ``dt`` in s.
        Shifted in Fourier space: exact for signals below the Nyquist frequency.
        """
        signal, delays = np.asarray(signal, float), np.asarray(delays, float)
        if signal.ndim != 1 or not signal.size:
            raise InputError(f"signal: has the shape {signal.shape}; allowed: (steps,)")
        if delays.shape != (self.elements,) or not np.all((delays >= 0) & np.isfinite(delays)):
            raise InputError(f"delays: allowed: {self.elements} numbers from 0, s")
        late = delays / positive(dt, "s", "dt")
        steps = signal.size + math.ceil(late.max())
        # Twice as long: what rings before the signal must not come out at its end.
        spectrum = np.fft.rfft(signal, 2 * steps)
        turn = np.exp(-1j * np.pi / steps * np.outer(late, np.arange(spectrum.size)))
        return np.fft.irfft(spectrum * turn, 2 * steps)[:, :steps]


def assemble(
    grid: Grid, surfaces: list[np.ndarray], centres: np.ndarray, area: float, tolerance: float
) -> TransducerMask:
    """Spread the points that sample the surface of each element, (points, dimensions) in m."""
    from scipy.sparse import csr_array

    require(0 <= real(tolerance, "tolerance") <= 0.5, "tolerance", tolerance, "from 0 to 0.5")
    spacing = np.array(grid.spacing)
    # A mass source is scaled by Δx (see `Source`), which is what leaves one factor of it here.
    total = area * grid.spacing[0] / math.prod(grid.spacing)
    rows, columns, values = [], [], []
    for element, metres in enumerate(surfaces):
        steps = metres / spacing + np.array(grid.shape) // 2
        _check_inside(steps, grid, metres)
        index, weight = spread(steps, total / len(steps), grid.shape, tolerance)
        rows.append(index)
        columns.append(np.full(index.size, element))
        values.append(weight)
    points, row = np.unique(np.concatenate(rows), return_inverse=True)
    entries = (np.concatenate(values), (row, np.concatenate(columns)))
    weights = csr_array(entries, shape=(points.size, len(surfaces)))
    return TransducerMask(grid.shape, points, weights, centres, np.full(len(surfaces), area))


def _check_inside(steps: np.ndarray, grid: Grid, metres: np.ndarray) -> None:
    for axis, edge in enumerate(grid.coordinates):
        if steps[:, axis].min() < 0 or steps[:, axis].max() > grid.shape[axis] - 1:
            near, far = metres[:, axis].min(), metres[:, axis].max()
            raise InputError(
                f"position: the transducer spans {near:.6g} to {far:.6g} m along {'xyz'[axis]}; "
                f"allowed: inside the grid, {edge[0]:.6g} to {edge[-1]:.6g} m"
            )


def point(lengths: Point, dimensions: int, key: str) -> np.ndarray:
    """A point that a user gave, m."""
    values = tuple(lengths) if isinstance(lengths, list | tuple | np.ndarray) else ()
    require(len(values) == dimensions, key, lengths, f"{dimensions} lengths, m")
    return np.array([in_unit(value, "m", key) for value in values])


def direction(vector: Any, dimensions: int, key: str) -> np.ndarray:
    """The unit vector along what a user gave."""
    vector = point(vector, dimensions, key)
    norm = np.linalg.norm(vector)
    if norm == 0:
        raise InputError(f"{key}: gives no direction; allowed: a point away from the transducer")
    return vector / norm
