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

_COMPONENTS = ("p", "ux", "uy", "uz", "Ix", "Iy", "Iz")
_OVER_TIME = ("", "staggered", "non_staggered")
_STATISTICS = ("max", "min", "rms", "avg", "final")


@dataclass(frozen=True)
class RecordedArray:
    """One recorded array: whole domain, points over time, a value a point, or a value a point of a box."""

    name: str  # as in the file: p_final, ux_max, p/1 (the first box)
    kind: Literal["field", "series", "points", "box"]
    path: str  # of the dataset


class RecordedFile:
    """A file with recorded quantities (``items`` by name), open to read; a context manager.

    ``shape`` and ``spacing`` (m) are those of whole-domain fields along x, y(, z), ``dt`` is in s.
    """

    def __init__(self, file: h5py.File, shape, spacing, dt: float, *, prefix: str = "", steps: int = 0):
        """``steps`` is the number of time steps of a k-Wave file, whose datasets are [z, y, x]; else 0."""
        self.path, self.shape, self.spacing, self.dt = Path(file.filename), tuple(shape), tuple(spacing), dt
        self._file, self._steps, self._reversed = file, steps, steps > 0
        self.items = {item.name: item for item in _recorded_arrays(file, prefix)}
        if not self.items:
            raise InputError(f"{self.path}: holds no recorded quantity, so there is nothing to draw")

    def __enter__(self) -> RecordedFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    @contextlib.contextmanager
    def _reading(self, item: RecordedArray) -> Iterator[h5py.Dataset]:
        try:
            check_inside(self._file, item.path)
            yield self._file[item.path]  # type: ignore[misc]
        except InputError:
            raise
        except (OSError, RuntimeError, LookupError, TypeError, ValueError):
            raise InputError(f"{self.path}: '{item.name}' cannot be read; the file is damaged") from None

    def _xyz(self, values: Any) -> Any:
        """A tuple or array in the order x, y, z."""
        if not self._reversed:
            return values
        return values.T if isinstance(values, np.ndarray) else values[::-1]

    def size(self, item: RecordedArray) -> tuple[int, ...]:
        """Points along x, y(, z) of a field or box; of a series, points and samples."""
        with self._reading(item) as data:
            if item.kind == "series":
                return self._series_size(data)
            if item.kind == "points":
                return (math.prod(data.shape),)
            shape = self._xyz(data.shape)
            return shape[:2] if len(shape) == 3 and shape[2] == 1 and len(self.shape) == 2 else shape

    def _series_size(self, data: h5py.Dataset) -> tuple[int, int]:
        if not self._reversed:
            return math.prod(data.shape[:-1]), data.shape[-1]
        return (data.shape[2], data.shape[1]) if data.ndim == 3 else (math.prod(data.shape[1:]), len(data))

    def extremes(self, item: RecordedArray) -> tuple[float, float, tuple[int, ...]]:
        """Smallest and largest value of a field or box, and where the largest magnitude is, [x, y(, z)]."""
        low, high, top, at = math.inf, -math.inf, -1.0, ()
        with self._reading(item) as data:
            for i in range(data.shape[0]):
                part = np.asarray(data[i])
                lowest, highest = float(part.min()), float(part.max())
                if not (math.isfinite(lowest) and math.isfinite(highest)):
                    raise InputError(f"{self.path}: '{item.name}' has values that are not finite")
                low, high = min(low, lowest), max(high, highest)
                if max(-lowest, highest) > top:
                    top = max(-lowest, highest)
                    inside = np.unravel_index(int(np.argmax(np.abs(part))), part.shape)
                    at = (i, *(int(n) for n in inside))
        return low, high, self._xyz(at)[: len(self.size(item))]

    def plane(self, item: RecordedArray, normal: int, index: int) -> np.ndarray:
        """The plane of a field or box across an axis, [first axis, second axis]; in 2-D all of it."""
        size = self.size(item)
        with self._reading(item) as data:
            if len(size) == 2:
                return self._xyz(np.asarray(data[0] if data.ndim == 3 else data[()]))
            cut: list[Any] = [slice(None)] * 3
            cut[normal] = index
            return self._xyz(np.asarray(data[tuple(self._xyz(cut))]))

    def values(self, item: RecordedArray) -> np.ndarray:
        """One value a point."""
        with self._reading(item) as data:
            check_memory(data, host_memory()[0])
            return np.asarray(data[()], float).reshape(-1)

    def series(
        self, item: RecordedArray, most_points: int, most_samples: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """A time series (points, samples), thinned out to so many; numbers of the points; times, s."""
        with self._reading(item) as data:
            count, samples = self._series_size(data)
            points = np.arange(0, count, max(1, math.ceil(count / most_points)))
            rows = np.arange(0, samples, max(1, math.ceil(samples / most_samples)))
            values = np.empty((points.size, rows.size), np.float32)
            if self._reversed:
                for i, row in enumerate(rows):
                    line = data[0, row] if data.ndim == 3 else data[row]
                    values[:, i] = np.asarray(line).reshape(-1)[points]
                first = self._steps - samples
            else:
                for i, point in enumerate(points):
                    at = np.unravel_index(int(point), data.shape[:-1], order="F")
                    values[i] = np.asarray(data[tuple(int(n) for n in at)])[rows]
                first = round(float(self._file["time"][0]) / self.dt)  # type: ignore[index]
        return values, points, (first + rows) * self.dt


def open_recorded(path: str | Path) -> RecordedFile | None:
    """A file of recorded quantities; None if it is something else, an error if it is damaged or an input."""
    path = Path(path)
    with open_hdf5(path, "a result file (HDF5)") as file:
        try:
            ours = file.attrs.get("format") == FORMAT and "recorded" in file
            kind = file.attrs.get("file_type")
        except OSError:
            raise InputError(f"{path}: is not an HDF5 file, or is damaged or cut short") from None
    kind = kind.decode("utf-8", "replace") if isinstance(kind, bytes) else kind
    if not ours and kind == "input":
        raise InputError(f"{path}: is a k-Wave input file; allowed: the output of a run, or a result file")
    if not ours and kind != "output":
        return None
    reader = Reader(path)
    with contextlib.ExitStack() as on_failure:
        on_failure.callback(reader.file.close)
        recorded = _result_file(reader.file) if ours else _kwave_file(reader)
        on_failure.pop_all()
    return recorded


def _result_file(file: h5py.File) -> RecordedFile:
    try:
        for name in ("grid/shape", "grid/spacing", "grid/dt", "time", "recorded"):
            check_inside(file, name)
        shape = tuple(int(n) for n in file["grid/shape"][()])  # type: ignore[index]
        spacing = tuple(float(d) for d in file["grid/spacing"][()])  # type: ignore[index]
        return RecordedFile(file, shape, spacing, float(file["grid/dt"][()]), prefix="recorded/")  # type: ignore[index]
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, OSError):
        fault = "is damaged, or no complete result of an ultrasound simulation"
        raise InputError(f"{file.filename}: {fault}") from None


def _kwave_file(reader: Reader) -> RecordedFile:
    shape = tuple(reader.scalar(f"N{a}", "long") for a in AXES)
    axes = AXES[:2] if shape[2] == 1 else AXES
    spacing = tuple(reader.scalar(f"d{a}", "float") for a in axes)
    dt, steps = reader.scalar("dt", "float"), max(1, reader.scalar("t_index", "long"))
    return RecordedFile(reader.file, shape[: len(axes)], spacing, dt, steps=steps)


def _recorded_arrays(file: h5py.File, prefix: str) -> Iterator[RecordedArray]:
    group: Any = file[prefix] if prefix else file
    for name in group:
        component, _, kind = name.partition("_")
        series, whole = kind in _OVER_TIME, kind.endswith(("_all", "final"))
        if component not in _COMPONENTS or not (series or kind.split("_")[0] in _STATISTICS):
            continue
        check_inside(file, prefix + name)
        if not isinstance(group[name], h5py.Group):
            yield RecordedArray(name, "field" if whole else "series" if series else "points", prefix + name)
            continue
        for box in sorted(group[name], key=lambda text: (len(text), text)):
            what = "field" if whole else "series" if series else "box"
            yield RecordedArray(f"{name}/{box}", what, f"{prefix}{name}/{box}")
