"""Defines sensors: which quantities are recorded, and at which points."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from wavefabric.acoustics.grid import Grid
from wavefabric.acoustics.problem import Cuboids, Elements, Interpolation, Recording
from wavefabric.acoustics.recording.quantities import TONES, is_local, names_of, recorded_quantities
from wavefabric.base.arguments import is_whole, per_axis, positive
from wavefabric.base.errors import InputError, ensure, require
from wavefabric.base.summary import one_line_repr
from wavefabric.base.units import show
from wavefabric.runtime.device.user_arrays import as_array

#: A point up to this far outside the grid, in spacings, counts as on its edge.
_SLACK = 1e-6


@dataclass(frozen=True, repr=False)
class Sensor:
    """Says which quantities are recorded, and where.

    `InputError`: ``record`` is empty or has an unknown name, or ``start`` is not a whole number from 0.

    Parameters
    ----------
    mask : array_like of bool, grid's shape, or None
        Points; None if only whole-domain quantities are recorded. For boxes, points between grid points and
        receiving transducers use `Sensor.boxes`, `Sensor.points` and `Sensor.elements`.
    record : str or sequence of str
        k-Wave's names. At the mask, for each time step: ``p``, ``u``, ``u_non_staggered``, ``I``; over
        time: ``p_max``, ``p_min``, ``p_rms``, ``u_max``, ``u_min``, ``u_rms``, ``I_avg``. In the whole
        domain: ``p_max_all``, ``p_min_all``, ``p_final``, ``u_max_all``, ``u_min_all``, ``u_final``. ``u``
        lies half a spacing and half a time step off the pressure, as in the solver; ``u_non_staggered`` is
        shifted to the pressure points.
    start : int
        First time step recorded, from 0.
    frequencies : float, str or sequence of them
        Frequencies, Hz (or text: ``"500 kHz"``), for ``p_amp`` and ``p_amp_all`` in ``record``: the amplitude
        of the pressure at the mask or in the whole domain, and with it the phase, ``p_phase`` or
        ``p_phase_all``, of cos(2πft + phase). Both are computed from running sums over the recorded steps,
        which should be a whole number of periods; harmonics are multiples of a frequency.
    """

    mask: Any = None
    record: str | Sequence[str] = ("p",)
    start: int = 0
    frequencies: Any = ()

    __repr__ = one_line_repr

    def __post_init__(self) -> None:
        self._recorded()
        right = is_whole(self.start) and self.start >= 0
        require(right, "sensor.start", self.start, "a whole number from 0")

    @classmethod
    def boxes(cls, *corners: Any, record: str | Sequence[str] = ("p",), **options: Any) -> "Sensor":
        """Return a sensor of boxes with inclusive 0-based corners ``((x1, y1[, z1]), (x2, y2[, z2]))``."""
        return cls(partial(_cuboids, corners), record, **options)

    @classmethod
    def points(cls, positions: Any, record: str | Sequence[str] = ("p",), **options: Any) -> "Sensor":
        """Return an interpolating sensor at positions (dimensions, points), m; origin as in `Grid`."""
        return cls(partial(_interpolation, positions), record, **options)

    @classmethod
    def elements(cls, mask: Any, record: str | Sequence[str] = ("p",), **options: Any) -> "Sensor":
        """Return a sensor that records the mean over each element's surface of a `TransducerMask`.

        Results have one row per element, in the mask's order. The mean uses the adjoint of the transmit
        weights, so that transmission between two transducers is reciprocal. Intensities are not available.
        """
        return cls(partial(_elements, mask), record, **options)

    def _recorded(self) -> tuple[tuple[str, ...], tuple[str, ...], tuple[float, ...]]:
        """Return three tuples: quantities, amplitudes such as ``p_amp``, and frequencies of these, Hz."""
        key, names = "sensor.frequencies", names_of(self.record)
        tones = tuple(name for name in TONES if any(isinstance(n, str) and n == name for n in names))
        others = tuple(name for name in names if not isinstance(name, str) or name not in TONES)
        quantities = recorded_quantities(others, "sensor.record") if others or not tones else ()
        frequencies = tuple(positive(f, "Hz", key) for f in per_axis(self.frequencies, 1))
        wanted = f"one frequency or more, Hz, with {' or '.join(TONES)} in record, and none without"
        require(bool(tones) == bool(frequencies), key, self.frequencies, wanted)
        return quantities, tones, frequencies

    def on(self, grid: Grid) -> Recording:
        """Return this sensor's `Recording` on a grid; `InputError`: a point is outside, or no mask is set."""
        quantities, tones, frequencies = self._recorded()
        local = [name for name in quantities if is_local(name)]
        local += [name for name in tones if TONES[name].kind == "points"]
        if self.mask is None and local:
            actual = f"is missing, and {show(local[0].removesuffix('_raw'))} is recorded there"
            whole = "quantities of the whole domain alone, such as p_max_all"
            raise InputError(f"sensor.mask: {actual}; allowed: True or False for each point, or {whole}")
        where: Any = None
        if local:
            where = self.mask(grid) if callable(self.mask) else grid.points(self.mask, "sensor.mask")
        return Recording(quantities, where, int(self.start), tones, frequencies)


def _cuboids(corners: tuple[Any, ...], grid: Grid) -> Cuboids:
    key, dims = "sensor.boxes", grid.dimensions
    boxes = as_array(corners, key)
    if boxes.ndim != 3 or boxes.shape[1:] != (2, dims) or boxes.dtype.kind not in "iu":
        raise InputError(f"{key}: allowed: one pair or more of corners, each {dims} whole numbers from 0")
    boxes: np.ndarray = boxes.astype(np.int64)
    for low, high in boxes:
        if not ((low >= 0) & (low <= high) & (high < grid.shape)).all():
            corner, top = f"{low.tolist()} to {high.tolist()}", [n - 1 for n in grid.shape]
            raise InputError(f"{key}: from {corner}; allowed: from low to high, at most {top}")
    boxes = np.pad(boxes, [(0, 0), (0, 0), (0, 3 - dims)]) + np.array(grid.margin, np.int64)
    return Cuboids(np.ascontiguousarray(boxes[:, 0]), np.ascontiguousarray(boxes[:, 1]))


def _in_total(indices: np.ndarray, grid: Grid) -> Any:
    """Convert indices ``indices`` [axis, …] of grid points to flat indices in the grid with an added PML."""
    margin = np.array(grid.margin[: grid.dimensions]).reshape(-1, *[1] * (indices.ndim - 1))
    return np.ravel_multi_index(tuple(indices + margin), grid.total_shape[: grid.dimensions], order="F")


def _elements(transducer: Any, grid: Grid) -> Elements:
    key = "sensor.elements"
    require(hasattr(type(transducer), "receiving"), key, transducer, "a transducer, such as bowl(...)")
    ensure(transducer.shape == grid.shape, key, f"on a grid of the shape {transducer.shape}", f"{grid.shape}")
    weights = transducer.receiving
    weights.sort_indices()
    index = _in_total(np.stack(np.unravel_index(transducer.index, grid.shape, order="F")), grid)
    bounds = weights.indptr.astype(np.int64)
    return Elements(bounds, index[weights.indices].astype(np.int64), weights.data.astype(np.float64))


def _interpolation(positions: Any, grid: Grid) -> Interpolation:
    key, dims = "sensor.points", grid.dimensions
    metres = as_array(positions, key)
    if metres.ndim != 2 or metres.shape[0] != dims or metres.shape[1] == 0 or metres.dtype.kind not in "fiu":
        raise InputError(f"{key}: has the shape {metres.shape}; allowed: ({dims}, points), m")
    n, spacing, origin = (np.array(each)[:, None] for each in (grid.shape, grid.spacing, grid.origin))
    # A periodic axis has one cell more, from the last point to the first.
    cells = n - 1 + np.array(grid.periodic)[:, None]
    steps = metres / spacing + origin
    outside = ~((steps >= -_SLACK) & (steps <= cells + _SLACK)).all(axis=0)
    if outside.any():
        first = tuple(float(x) for x in metres[:, np.argmax(outside)])
        low, high = ((end * spacing).ravel().tolist() for end in (-origin, cells - origin))
        ends = list(zip(low, high, strict=True))
        raise InputError(f"{key}: {first} m is outside the grid; allowed: {ends} m along each axis")
    steps = np.clip(steps, 0, cells)
    # A point on the last plane belongs to the cell before it.
    low = np.minimum(np.floor(steps).astype(np.int64), cells - 1)
    upper = steps - low
    # (corners, dimensions, 1): whether a corner of a cell is its upper end along each axis, x fastest.
    ends = np.array(list(product((0, 1), repeat=dims)))[:, ::-1, None]
    corners = _in_total((low + ends).swapaxes(0, 1) % n[:, :, None], grid)
    weights = np.where(ends, upper, 1 - upper).prod(axis=1)
    return Interpolation(np.ascontiguousarray(corners.T), np.ascontiguousarray(weights.T))
