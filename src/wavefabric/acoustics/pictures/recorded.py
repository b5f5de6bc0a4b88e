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
from wavefabric.acoustics.recorded_quantities import quantity_of
from wavefabric.errors import InputError
from wavefabric.files.hdf5 import check_inside, check_memory
from wavefabric.results.file import FORMAT
from wavefabric.system.machine import host_memory


class RecordedFile:
    """A file with recorded quantities (``items`` by name), open to read; a context manager.

    ``shape`` and ``spacing`` (m) are those of whole-domain fields along x, y(, z), ``dt`` is in s. k-Wave's
    files, whose datasets are [z, y, x], have the number of time ``steps``; ours, [x, y, z], have 0.
    """

    def __init__(self, reader: Reader, shape, spacing, dt: float, *, prefix: str = "", steps: int = 0):
        self.path, self.shape, self.spacing, self.dt = reader.path, tuple(shape), tuple(spacing), dt
        self.reader, self.steps, self.prefix = reader, steps, prefix
        self.items = {item.name: item for item in self._find_arrays()}
        if not self.items:
            raise InputError(f"{self.path}: holds no recorded quantity, so there is nothing to draw")

    def __enter__(self) -> RecordedFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.reader.file.close()

    def _find_arrays(self) -> Iterator[RecordedArray]:
        group: Any = self.reader.file[self.prefix or "/"]
        for name in group:
            quantity = quantity_of(name)
            if quantity is None:
                continue
            check_inside(self.reader.file, self.prefix + name)
            if not isinstance(group[name], h5py.Group):
                yield RecordedArray(name, quantity.kind, self)
                continue
            for box in sorted(group[name], key=lambda text: (len(text), text)):
                kind = "box" if quantity.kind == "points" else quantity.kind
                yield RecordedArray(f"{name}/{box}", kind, self)


@dataclass(frozen=True)
class RecordedArray:
    """One recorded array: whole domain, points over time, a value a point, or a value a point of a box."""

    name: str  # as in the file: p_final, ux_max, p/1 (the first box)
    kind: Literal["field", "series", "points", "box"]
    file: RecordedFile

    def fault(self, given: str) -> InputError:
        """The error to raise for it."""
        return InputError(f"{self.file.path}: '{self.name}' {given}")

    @contextlib.contextmanager
    def _reading(self) -> Iterator[h5py.Dataset]:
        reader, path = self.file.reader, self.file.prefix + self.name
        with reader.reading(path):
            check_inside(reader.file, path)
            yield reader.file[path]  # type: ignore[misc]

    def _xyz(self, values: Any) -> Any:
        """A tuple or array in the order x, y, z."""
        if not self.file.steps:
            return values
        return values.T if isinstance(values, np.ndarray) else values[::-1]

    @property
    def size(self) -> tuple[int, ...]:
        """Points along x, y(, z) of a field or box; of a series, points and samples."""
        with self._reading() as data:
            if self.kind == "points":
                return (math.prod(data.shape),)
            if self.kind != "series":
                shape = self._xyz(data.shape)
                flat = len(shape) == 3 and shape[2] == 1 and len(self.file.shape) == 2
                return shape[:2] if flat else shape
            if not self.file.steps:
                return math.prod(data.shape[:-1]), data.shape[-1]
            return (
                (data.shape[2], data.shape[1]) if data.ndim == 3 else (math.prod(data.shape[1:]), len(data))
            )

    def coordinates(self, axis: int) -> np.ndarray:
        """m: in the grid from its point N // 2, in a box from its first point."""
        count = self.size[axis]
        return (np.arange(count) - (count // 2 if self.kind == "field" else 0)) * self.file.spacing[axis]

    def extremes(self) -> tuple[float, float, tuple[int, ...]]:
        """Smallest and largest value of a field or box, and where the largest magnitude is, [x, y(, z)]."""
        low, high, top, at = math.inf, -math.inf, -1.0, ()
        with self._reading() as data:
            for i in range(data.shape[0]):
                part = np.asarray(data[i])
                lowest, highest = float(part.min()), float(part.max())
                if not (math.isfinite(lowest) and math.isfinite(highest)):
                    raise self.fault("has values that are not finite")
                low, high = min(low, lowest), max(high, highest)
                if max(-lowest, highest) > top:
                    top = max(-lowest, highest)
                    inside = np.unravel_index(int(np.argmax(np.abs(part))), part.shape)
                    at = (i, *(int(n) for n in inside))
        return low, high, self._xyz(at)[: len(self.size)]

    def plane(self, normal: int, index: int) -> np.ndarray:
        """The plane of a field or box across an axis, [first axis, second axis]; in 2-D all of it."""
        size = self.size
        with self._reading() as data:
            if len(size) == 2:
                return self._xyz(np.asarray(data[0] if data.ndim == 3 else data[()]))
            cut: list[Any] = [slice(None)] * 3
            cut[normal] = index
            return self._xyz(np.asarray(data[tuple(self._xyz(cut))]))

    def values(self) -> np.ndarray:
        """One value a point."""
        with self._reading() as data:
            check_memory(data, host_memory()[0])
            return np.asarray(data[()], float).reshape(-1)

    def series(self, most_points: int, most_samples: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """A time series (points, samples), thinned out to so many; numbers of the points; times, s."""
        file, (count, samples) = self.file, self.size
        points = np.arange(0, count, max(1, math.ceil(count / most_points)))
        rows = np.arange(0, samples, max(1, math.ceil(samples / most_samples)))
        values = np.empty((points.size, rows.size), np.float32)
        with self._reading() as data:
            if file.steps:
                for i, row in enumerate(rows):
                    line = data[0, row] if data.ndim == 3 else data[row]
                    values[:, i] = np.asarray(line).reshape(-1)[points]
                first = file.steps - samples
            else:
                for i, point in enumerate(points):
                    at = np.unravel_index(int(point), data.shape[:-1], order="F")
                    values[i] = np.asarray(data[tuple(int(n) for n in at)])[rows]
                first = round(float(file.reader.file["time"][0]) / file.dt)  # type: ignore[index]
        return values, points, (first + rows) * file.dt


def open_recorded(path: str | Path) -> RecordedFile | None:
    """A file of recorded quantities; None if it is something else, an error if it is damaged or an input."""
    with contextlib.ExitStack() as closing:
        reader = closing.enter_context(Reader(path, "a result file (HDF5)"))
        attributes = reader.attributes()
        kind = attributes.get("file_type")
        if attributes.get("format") == FORMAT and "recorded" in reader:
            recorded = _result_file(reader)
        elif kind == "output":
            recorded = _kwave_file(reader)
        elif kind == "input":
            allowed = "the output of a run, or a result file"
            raise InputError(f"{path}: is a k-Wave input file; allowed: {allowed}")
        else:
            return None
        closing.pop_all()
    return recorded


def _result_file(reader: Reader) -> RecordedFile:
    for name in ("grid/shape", "grid/spacing", "grid/dt", "time", "recorded"):
        if name not in reader:
            raise reader.fault(name, "is missing; this is no complete result of an ultrasound simulation")
    with reader.reading("grid"):
        grid: Any = reader.file["grid"]
        shape = tuple(int(n) for n in grid["shape"][()])
        spacing = tuple(float(d) for d in grid["spacing"][()])
        return RecordedFile(reader, shape, spacing, float(grid["dt"][()]), prefix="recorded/")


def _kwave_file(reader: Reader) -> RecordedFile:
    shape = tuple(reader.scalar(f"N{a}") for a in AXES)
    axes = AXES[:2] if shape[2] == 1 else AXES
    spacing = tuple(reader.scalar(f"d{a}") for a in axes)
    dt, steps = reader.scalar("dt"), max(1, reader.scalar("t_index"))
    return RecordedFile(reader, shape[: len(axes)], spacing, dt, steps=steps)
