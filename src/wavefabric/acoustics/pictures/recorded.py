"""What a finished run recorded, read from its file: k-Wave's output files, and results of `simulate`.

Nothing is read as a whole: fields and time series may be larger than the memory.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import h5py
import numpy as np

from wavefabric.acoustics.kwave.format import AXES, Reader
from wavefabric.errors import InputError
from wavefabric.files.hdf5 import check_inside, check_memory, open_hdf5
from wavefabric.results.file import FORMAT
from wavefabric.system.machine import host_memory

Kind = Literal["field", "series", "points", "box"]

_VECTORS = ("p", "ux", "uy", "uz", "Ix", "Iy", "Iz")
_OVER_TIME = ("", "staggered", "non_staggered")
_STATISTICS = ("max", "min", "rms", "avg", "final")


@dataclass(frozen=True)
class Item:
    """One recorded array.

    Parameters
    ----------
    name : str
        As in the file: ``p_final``, ``ux_max``, ``p/1`` (the first box).
    kind : str
        ``"field"`` (whole domain), ``"series"`` (points over time), ``"points"`` (a value a point) or
        ``"box"`` (a value a point of a box).
    place : str
        Path of the dataset.
    """

    name: str
    kind: Kind
    place: str


class Recorded:
    """A file with recorded quantities, open to read; a context manager.

    Attributes
    ----------
    path : Path
    items : dict of str to Item
        By name, in the order of the file.
    shape, spacing : tuple
        Points and m along x, y(, z) of whole-domain fields.
    dt : float
        Time step, s.
    """

    def __init__(self, path: Path, file: h5py.File, shape, spacing, dt: float, items: list[Item], last: int):
        self.path, self.shape, self.spacing, self.dt = path, tuple(shape), tuple(spacing), dt
        self.items = {item.name: item for item in items}
        self._file, self._last = file, last
        # k-Wave's datasets are [z, y, x], ours [x, y, z].
        self._reversed = last > 0

    def __enter__(self) -> Recorded:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    @contextlib.contextmanager
    def _reading(self, item: Item) -> Iterator[h5py.Dataset]:
        try:
            check_inside(self._file, item.place)
            yield self._file[item.place]  # type: ignore[misc]
        except InputError:
            raise
        except (OSError, RuntimeError, LookupError, TypeError, ValueError):
            raise InputError(f"{self.path}: '{item.name}' cannot be read; the file is damaged") from None

    def size(self, item: Item) -> tuple[int, ...]:
        """Points along x, y(, z) of a field or box; of a series, points and samples."""
        with self._reading(item) as data:
            if item.kind == "series":
                return self._series_size(data)
            if item.kind == "points":
                return (math.prod(data.shape),)
            shape = data.shape[::-1] if self._reversed else data.shape
            return shape[:2] if len(shape) == 3 and shape[2] == 1 and len(self.shape) == 2 else shape

    def _series_size(self, data: h5py.Dataset) -> tuple[int, int]:
        if not self._reversed:
            return math.prod(data.shape[:-1]), data.shape[-1]
        return (data.shape[2], data.shape[1]) if data.ndim == 3 else (math.prod(data.shape[1:]), len(data))

    def extremes(self, item: Item) -> tuple[float, float, tuple[int, ...]]:
        """Smallest and largest value of a field or box, and where the largest magnitude is, [x, y(, z)].

        Raises
        ------
        InputError
            If a value is not finite.
        """
        low, high, top, where = math.inf, -math.inf, -1.0, ()
        with self._reading(item) as data:
            for i in range(data.shape[0]):
                part = np.asarray(data[i])
                a, b = float(part.min()), float(part.max())
                if not (math.isfinite(a) and math.isfinite(b)):
                    raise InputError(f"{self.path}: '{item.name}' has values that are not finite")
                low, high = min(low, a), max(high, b)
                if max(-a, b) > top:
                    top = max(-a, b)
                    inside = np.unravel_index(int(np.argmax(np.abs(part))), part.shape)
                    where = (i, *(int(n) for n in inside))
        where = where[::-1] if self._reversed else where
        return low, high, where[: len(self.size(item))]

    def plane(self, item: Item, normal: int, index: int) -> np.ndarray:
        """The plane of a field or box across an axis, [first axis, second axis]; in 2-D all of it."""
        size = self.size(item)
        with self._reading(item) as data:
            if len(size) == 2:
                values = np.asarray(data[0] if data.ndim == 3 else data[()])
                return values.T if self._reversed else values
            at: list[Any] = [slice(None)] * 3
            at[2 - normal if self._reversed else normal] = index
            values = np.asarray(data[tuple(at)])
            return values.T if self._reversed else values

    def values(self, item: Item) -> np.ndarray:
        """One value a point."""
        with self._reading(item) as data:
            check_memory(data, host_memory()[0])
            return np.asarray(data[()], float).reshape(-1)

    def series(
        self, item: Item, most_points: int, most_samples: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """A time series, thinned out to so many points and samples.

        Returns
        -------
        values : ndarray, shape (points, samples)
        points : ndarray
            Their numbers, from 0.
        time : ndarray
            s.
        """
        with self._reading(item) as data:
            count, samples = self._series_size(data)
            points = np.arange(0, count, max(1, math.ceil(count / most_points)))
            rows = np.arange(0, samples, max(1, math.ceil(samples / most_samples)))
            found = np.empty((points.size, rows.size), np.float32)
            if self._reversed:
                for i, row in enumerate(rows):
                    line = data[0, row] if data.ndim == 3 else data[row]
                    found[:, i] = np.asarray(line).reshape(-1)[points]
            else:
                for i, point in enumerate(points):
                    place = np.unravel_index(int(point), data.shape[:-1], order="F")
                    found[i] = np.asarray(data[tuple(int(n) for n in place)])[rows]
            first = self._last - samples if self._reversed else round(float(self._file["time"][0]) / self.dt)  # type: ignore[index]
        return found, points, (first + rows) * self.dt


def open_recorded(path: str | Path) -> Recorded | None:
    """A file of recorded quantities, or None if it is something else.

    Raises
    ------
    InputError
        If it is a k-Wave input file, records nothing, or is damaged.
    """
    path = Path(path)
    with open_hdf5(path, "a result file (HDF5)") as file:
        try:
            ours = file.attrs.get("format") == FORMAT and "recorded" in file
            kind = file.attrs.get("file_type")
        except OSError:
            raise InputError(f"{path}: is not an HDF5 file, or is damaged or cut short") from None
    if ours:
        return _ours(path)
    kind = kind.decode("utf-8", "replace") if isinstance(kind, bytes) else kind
    if kind == "input":
        raise InputError(f"{path}: is a k-Wave input file; allowed: the output of a run, or a result file")
    return _kwave(path) if kind == "output" else None


def _ours(path: Path) -> Recorded:
    file = open_hdf5(path, "a result file (HDF5)")
    try:
        for name in ("grid/shape", "grid/spacing", "grid/dt", "time", "recorded"):
            check_inside(file, name)
        shape = tuple(int(n) for n in file["grid/shape"][()])  # type: ignore[index]
        spacing = tuple(float(d) for d in file["grid/spacing"][()])  # type: ignore[index]
        items = _items(file["recorded"], "recorded/")
        return _checked(Recorded(path, file, shape, spacing, float(file["grid/dt"][()]), items, 0))  # type: ignore[index]
    except InputError:
        file.close()
        raise
    except (KeyError, TypeError, ValueError, OSError):
        file.close()
        raise InputError(f"{path}: is damaged, or no complete result of an ultrasound simulation") from None


def _kwave(path: Path) -> Recorded:
    reader = Reader(path)
    shape = tuple(reader.scalar(f"N{a}", "long") for a in AXES)
    axes = AXES[:2] if shape[2] == 1 else AXES
    spacing = tuple(reader.scalar(f"d{a}", "float") for a in axes)
    dt, last = reader.scalar("dt", "float"), max(1, reader.scalar("t_index", "long"))
    return _checked(
        Recorded(path, reader.file, shape[: len(axes)], spacing, dt, _items(reader.file, ""), last)
    )


def _items(group: Any, prefix: str) -> list[Item]:
    found = []
    for name in group:
        stem, _, kind = name.partition("_")
        if stem not in _VECTORS or not (kind in _OVER_TIME or kind.split("_")[0] in _STATISTICS):
            continue
        check_inside(group.file, prefix + name)
        entry = group[name]
        for box in (
            sorted(entry, key=lambda text: (len(text), text)) if isinstance(entry, h5py.Group) else [""]
        ):
            series = kind in _OVER_TIME
            whole = kind.endswith(("_all", "final"))
            what: Kind = "field" if whole else "series" if series else "box" if box else "points"
            place = f"{name}/{box}" if box else name
            found.append(Item(place, what, prefix + place))
    return found


def _checked(made: Recorded) -> Recorded:
    if not made.items:
        made.__exit__()
        raise InputError(f"{made.path}: holds no recorded quantity, so there is nothing to draw")
    return made
