"""Where and what is recorded."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wavefabric.acoustics.grid import Grid, as_array
from wavefabric.acoustics.problem import QUANTITIES, Cuboids, Interpolation, Recording
from wavefabric.errors import InputError
from wavefabric.units import show

#: k-Wave's words for what is recorded, and the solver's names.
WORDS = {name.removesuffix("_raw"): name for name in QUANTITIES}
#: A point this far outside the grid, in spacings, is taken to be on its edge.
_SLACK = 1e-6


@dataclass(frozen=True)
class _Boxes:
    corners: tuple[Any, ...]


@dataclass(frozen=True)
class _Points:
    positions: Any


@dataclass(frozen=True)
class Sensor:
    """What is recorded, and where.

    Parameters
    ----------
    mask : array_like of bool, grid's shape, or None
        Points; None if only whole-domain quantities are recorded. For boxes and for points between those
        of the grid use `Sensor.boxes` and `Sensor.points`.
    record : str or sequence of str
        k-Wave's words. At the mask, for each time step: ``p``, ``u``, ``u_non_staggered``, ``I``; over
        time: ``p_max``, ``p_min``, ``p_rms``, ``u_max``, ``u_min``, ``u_rms``, ``I_avg``. In the whole
        domain: ``p_max_all``, ``p_min_all``, ``p_final``, ``u_max_all``, ``u_min_all``, ``u_final``. ``u``
        lies half a spacing and half a time step off the pressure, as the solver has it;
        ``u_non_staggered`` is brought to the pressure's points.
    start : int
        First time step recorded, from 0.

    Raises
    ------
    InputError
        If a word of ``record`` is unknown or there is none, or ``start`` is no whole number from 0.
    """

    mask: Any = None
    record: str | Sequence[str] = ("p",)
    start: int = 0

    def __post_init__(self) -> None:
        words = self._words()
        if not words:
            raise InputError(f"sensor.record: {show([])}; allowed: {', '.join(WORDS)}")
        for word in words:
            if not isinstance(word, str) or word not in WORDS:
                raise InputError(f"sensor.record: {show(word)}; {_allowed(word)}")
        start = self.start
        if isinstance(start, bool) or not isinstance(start, int | np.integer) or start < 0:
            raise InputError(f"sensor.start: {show(start)}; allowed: a whole number from 0")

    def _words(self) -> tuple[Any, ...]:
        if isinstance(self.record, str):
            return (self.record,)
        return tuple(self.record) if isinstance(self.record, Iterable) else (self.record,)

    @classmethod
    def boxes(cls, *corners: Any, record: str | Sequence[str] = ("p",), start: int = 0) -> Sensor:
        """Sensor of boxes, each ``((x1, y1[, z1]), (x2, y2[, z2]))``: grid indices from 0, both included."""
        return cls(_Boxes(corners), record, start)

    @classmethod
    def points(cls, positions: Any, record: str | Sequence[str] = ("p",), start: int = 0) -> Sensor:
        """Sensor of any points, m, shape (dimensions, n), by linear interpolation; origin as in `Grid`."""
        return cls(_Points(positions), record, start)

    def on(self, grid: Grid) -> Recording:
        """The recording on a grid.

        Raises
        ------
        InputError
            If a place is outside the grid, or a mask is missing.
        """
        words = self._words()
        local = [word for word in words if not word.endswith(("_all", "_final"))]
        if self.mask is None and local:
            raise InputError(
                f"sensor.mask: is missing, and {show(local[0])} is recorded there; allowed: True or False "
                "for each point, or quantities of the whole domain alone, such as p_max_all"
            )
        quantities = tuple(name for word, name in WORDS.items() if word in words)
        return Recording(quantities, self._where(grid) if local else None, int(self.start))

    def _where(self, grid: Grid) -> np.ndarray | Cuboids | Interpolation:
        if isinstance(self.mask, _Boxes):
            return _cuboids(self.mask.corners, grid)
        if isinstance(self.mask, _Points):
            return _interpolation(self.mask.positions, grid)
        return grid.points(self.mask, "sensor.mask")


def _allowed(word: Any) -> str:
    """The words there are, the nearest first."""
    close = difflib.get_close_matches(word, WORDS, n=1, cutoff=0.6) if isinstance(word, str) else []
    meant = f"did you mean {show(close[0])}? " if close else ""
    return f"{meant}allowed: {', '.join(WORDS)}"


def _cuboids(corners: tuple[Any, ...], grid: Grid) -> Cuboids:
    key, dims = "sensor.boxes", grid.dimensions
    try:
        boxes = np.asarray(corners)
    except ValueError:
        boxes = np.zeros(0)
    if boxes.ndim != 3 or boxes.shape[1:] != (2, dims) or boxes.dtype.kind not in "iu":
        raise InputError(f"{key}: allowed: one pair or more of corners, each {dims} whole numbers from 0")
    boxes: np.ndarray = boxes.astype(np.int64)
    for low, high in zip(boxes[:, 0], boxes[:, 1], strict=True):
        inside = all(0 <= a <= b < n for a, b, n in zip(low, high, grid.shape, strict=True))
        if not inside:
            given, top = f"{low.tolist()} to {high.tolist()}", [n - 1 for n in grid.shape]
            raise InputError(f"{key}: from {given}; allowed: from low to high, at most {top}")
    if dims == 2:
        boxes = np.concatenate([boxes, np.zeros((len(boxes), 2, 1), np.int64)], axis=2)
    boxes = boxes + np.array(grid.margin, np.int64)
    return Cuboids(np.ascontiguousarray(boxes[:, 0]), np.ascontiguousarray(boxes[:, 1]))


def _interpolation(positions: Any, grid: Grid) -> Interpolation:
    key, dims = "sensor.points", grid.dimensions
    where = as_array(positions, key)
    if where.ndim != 2 or where.shape[0] != dims or where.shape[1] == 0 or where.dtype.kind not in "fiu":
        raise InputError(f"{key}: has the shape {where.shape}; allowed: ({dims}, points), m")
    n = np.array(grid.shape)[:, None]
    place = where / np.array(grid.spacing)[:, None] + n // 2
    outside = ~((place >= -_SLACK) & (place <= n - 1 + _SLACK)).all(axis=0)
    if outside.any():
        first = tuple(float(x) for x in where[:, np.argmax(outside)])
        ends = [(float(x[0]), float(x[-1])) for x in grid.coordinates]
        raise InputError(f"{key}: {first} m is outside the grid; allowed: {ends} m along each axis")
    place = np.clip(place, 0, n - 1)
    # A point on the last plane belongs to the cell before it.
    low = np.minimum(np.floor(place).astype(np.int64), n - 2)
    part = place - low
    corners = np.zeros((where.shape[1], 2**dims), np.int64)
    weights = np.ones((where.shape[1], 2**dims))
    total = grid.total_shape
    for corner in range(2**dims):
        stride = 1
        for axis in range(dims):
            up = corner >> axis & 1
            corners[:, corner] += (low[axis] + up + grid.margin[axis]) * stride
            weights[:, corner] *= part[axis] if up else 1 - part[axis]
            stride *= total[axis]
    return Interpolation(corners, weights)
