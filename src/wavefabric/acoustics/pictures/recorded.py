"""Reads recorded quantities from k-Wave's output files and from result files of `simulate`.

Fields and time series are read in parts, as they may be larger than the memory.
"""

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import h5py
import numpy as np

from wavefabric.acoustics.kwave.format import AXES, Reader
from wavefabric.acoustics.recording.quantities import is_tone, quantity_of
from wavefabric.base.errors import InputError
from wavefabric.base.files.hdf5 import bytes_of, check_inside, check_memory, check_stored
from wavefabric.base.results.file import FORMAT
from wavefabric.base.system.machine import host_memory

#: Bytes of three numbers, one per axis; memory of a sensor's points over the memory of their indices.
_AXES_BYTES, _INDEX_BYTES = 24, 8
#: Number of points along an axis, or of steps, that no run reaches.
_MOST_STEPS = 1 << 40


class RecordedFile(Reader):
    """An open file of recorded quantities; a context manager.

    ``items`` is a dictionary from name to `RecordedArray`. ``shape`` and ``spacing``, m, describe the whole
    grid along x, y(, z); ``dt`` is in s. ``steps`` is the number of time steps of a k-Wave file, whose
    datasets are indexed [z, y, x], and 0 for a result file, whose datasets are indexed [x, y, z].
    """

    def __init__(self, path: str | Path):
        super().__init__(path, "a result file (HDF5)")
        self.prefix, self.steps, self.dt, self.axisymmetric = "", 0, 0.0, False
        self.shape: tuple[int, ...] = ()
        self.spacing: tuple[float, ...] = ()
        self.items: dict[str, RecordedArray] = {}

    def find(self) -> bool:
        """Fill ``items`` with the recorded quantities; return False if the file is of another kind."""
        attributes = self.attributes()
        kind = attributes.get("file_type")
        if attributes.get("format") == FORMAT and "recorded" in self:
            self._read_result_grid()
        elif kind == "output":
            shape = tuple(self.scalar(f"N{a}") for a in AXES)
            axes = AXES[:2] if shape[2] == 1 else AXES
            self.shape, self.spacing = shape[: len(axes)], tuple(self.scalar(f"d{a}") for a in axes)
            self.dt, self.steps = self.scalar("dt"), max(1, self.scalar("t_index"))
            self.axisymmetric = "axisymmetric_flag" in self and bool(self.scalar("axisymmetric_flag"))
        elif kind == "input":
            allowed = "the output of a run, or a result file"
            raise InputError(f"{self.path}: is a k-Wave input file; allowed: {allowed}")
        else:
            return False
        self._check_grid()
        with self.reading(self.prefix or "/"):
            self.items = {item.name: item for item in self._find_arrays()}
        if not self.items:
            raise InputError(f"{self.path}: holds no recorded quantity, so there is nothing to draw")
        return True

    def _read_result_grid(self) -> None:
        for name in ("grid/shape", "grid/spacing", "grid/dt", "time"):
            if name not in self:
                raise self.fault(name, "is missing; this is no complete result of an ultrasound simulation")
        self.prefix = "recorded/"
        with self.reading("grid"):
            self.shape = tuple(int(n) for n in self.read("grid/shape", _AXES_BYTES))
            self.spacing = tuple(float(d) for d in self.read("grid/spacing", _AXES_BYTES))
            self.dt = float(self.read("grid/dt", _AXES_BYTES))
            name = "grid/axisymmetric"
            self.axisymmetric = name in self and bool(self.read(name, _AXES_BYTES))

    def origin(self, axis: int) -> int:
        """Return the index of the coordinate origin along an axis: N // 2, or 0 along a radius."""
        return 0 if self.axisymmetric and axis == 1 else self.shape[axis] // 2

    def first_time(self) -> float:
        """Return the time, s, of the first sample, which all time series of a result file share."""
        with self.reading("time"):
            return float(self.read("time", host_memory()[0])[0])

    def sensor_box(self, number: int) -> np.ndarray | None:
        """Return the lowest and highest grid indices of sensor box ``number``, (2, axes); None if unknown.

        A mask whose points fill a box counts as one.
        """
        kwave, axes, limit = int(self.steps > 0), len(self.shape), host_memory()[0] // _INDEX_BYTES
        boxes, points = "sensor/boxes", "sensor/points"
        if kwave:
            boxes, points = "sensor_mask_corners", "sensor_mask_index"
        if boxes in self:
            with self.reading(boxes):
                corners = np.reshape(self.read(boxes, limit), (-1, 2, 3 if kwave else axes))
                return corners[number, :, :axes].astype(np.int64) - kwave
        if points not in self:
            return None
        with self.reading(points):
            index = np.ravel(self.read(points, limit)).astype(np.int64) - kwave
            at = np.array(np.unravel_index(index, self.shape, order="F"))
            corners = np.stack([at.min(axis=1), at.max(axis=1)])
            return corners if np.prod(corners[1] - corners[0] + 1) == index.size else None

    def _check_grid(self) -> None:
        """Raise `InputError` for a grid or time step that no run can have."""
        counts = all(0 < n < _MOST_STEPS for n in (*self.shape, self.steps or 1))
        lengths = all(1e-12 < d < 1e6 for d in self.spacing) and 1e-18 < self.dt < 1e6
        if not (counts and lengths and len(self.spacing) == len(self.shape) in (1, 2, 3)):
            points = f"{self.shape} points, {self.spacing} m apart"
            actual = f"has a grid of {points}, with time steps of {self.dt} s"
            raise InputError(f"{self.path}: {actual}; the file is damaged")

    def _find_arrays(self) -> "Iterator[RecordedArray]":
        group: Any = self.file[self.prefix or "/"]
        for name in group:
            quantity = quantity_of(name) if isinstance(name, str) else None  # bytes: not UTF-8
            if quantity is None:
                continue
            check_inside(self.file, self.prefix + name)
            if not isinstance(group[name], h5py.Group):
                yield RecordedArray(name, quantity.kind, self)
                continue
            boxes = (text for text in group[name] if text.isdigit() and text.isascii())
            for box in sorted(boxes, key=lambda text: (len(text), text)):
                kind = "box" if quantity.kind == "points" and not is_tone(name) else quantity.kind
                yield RecordedArray(f"{name}/{box}", kind, self)


class _Axes:
    """Reads a dataset as if its axes were x, y(, z), or sensor points, and then time, if it has any.

    k-Wave files store axes in the reverse order. If they have an extra first axis of one point, it is left
    out.
    """

    def __init__(self, dataset: h5py.Dataset, kwave: bool, flat: bool):
        shape = dataset.shape or ()
        self._before = (0,) if kwave and flat and len(shape) == 3 and shape[0] == 1 else ()
        self.dataset, self._kwave, shape = dataset, kwave, shape[len(self._before) :]
        self.shape: tuple[int, ...] = shape[::-1] if kwave else shape

    def __getitem__(self, key: tuple[Any, ...]) -> np.ndarray:
        if self._kwave:
            return np.asarray(self.dataset[self._before + key[::-1]]).T
        return np.asarray(self.dataset[key])


@dataclass(frozen=True)
class RecordedArray:
    """One recorded array: a field, time series at points, or single values at points or in a box."""

    name: str  # as in the file: p_final, ux_max, p/1 (the first box)
    kind: Literal["field", "series", "points", "box"]
    file: RecordedFile

    def fault(self, actual: str) -> InputError:
        """Return an `InputError` whose message is the file, this array, and ``actual``: what is wrong."""
        return InputError(f"{self.file.path}: '{self.name}' {actual}")

    @contextlib.contextmanager
    def _reading(self) -> Iterator[_Axes]:
        path = self.file.prefix + self.name
        with self.file.reading(path):
            check_inside(self.file.file, path)
            dataset: Any = self.file.file[path]
            if not isinstance(dataset, h5py.Dataset) or dataset.dtype.kind != "f":
                raise self.fault("is no dataset of floating-point numbers")
            if 0 in (dataset.shape or ()):
                raise self.fault("is empty, so there is nothing to draw")
            flat = self.kind == "series" or len(self.file.shape) == 2
            self._check(axes := _Axes(dataset, self.file.steps > 0, flat))
            yield axes

    def _check(self, axes: _Axes) -> None:
        """Raise `InputError` if the dataset's shape does not fit this array, or most of it is unwritten."""
        shape, points = axes.dataset.shape or (), self.file.shape
        if self.kind == "field" and axes.shape != points:
            raise self.fault(f"has the shape {shape}; allowed: that of the grid, {points} points")
        least = {"field": len(points), "box": len(points), "series": 2, "points": 1}[self.kind]
        if len(shape) < least or (self.kind == "box" and len(axes.shape) != least):
            raise self.fault(f"has {len(shape)} dimensions; allowed: {least}")
        # Three-dimensional fields are read plane by plane.
        planes = self.kind in ("field", "box") and len(axes.shape) == 3
        largest = bytes_of(axes.dataset) // min((n for n in shape if n > 1), default=1) if planes else None
        check_stored(axes.dataset, largest)

    @property
    def size(self) -> tuple[int, ...]:
        """Return the shape (x, y(, z)) of a field or box, (points, samples) of a series, else (points,)."""
        with self._reading() as axes:
            if self.kind in ("field", "box"):
                return axes.shape
            *points, samples = axes.shape if self.kind == "series" else (*axes.dataset.shape, 0)
            return (math.prod(points), samples)[: 1 + (self.kind == "series")]

    def frequency(self) -> float | None:
        """Return the frequency of an amplitude or phase, Hz; None if the file does not contain it."""
        number = self.name.partition("/")[2].partition("/")[0]  # p_amp/0, in boxes p_amp/0/1
        if not (is_tone(self.name) and number.isdecimal() and "frequencies" in self.file):
            return None
        with self.file.reading("frequencies"):
            frequencies = np.ravel(self.file.read("frequencies"))
            return float(frequencies[int(number)]) if int(number) < frequencies.size else None

    def coordinates(self, axis: int) -> np.ndarray:
        """Return the coordinates along an axis, m, from the grid's origin or from a box's first point."""
        first = self.file.origin(axis) if self.kind == "field" else 0
        return (np.arange(self.size[axis]) - first) * self.file.spacing[axis]

    def extremes(self) -> tuple[float, float, tuple[int, ...]]:
        """Return the smallest and largest value of a field or box, and the index of the largest magnitude."""
        low, high, top, position = math.inf, -math.inf, -1.0, ()
        with self._reading() as axes:
            for i in range(axes.dataset.shape[0]):
                part = np.asarray(axes.dataset[i])
                lowest, highest = float(part.min()), float(part.max())
                if not (math.isfinite(lowest) and math.isfinite(highest)):
                    raise self.fault("has values that are not finite")
                low, high = min(low, lowest), max(high, highest)
                if max(-lowest, highest) > top:
                    top = max(-lowest, highest)
                    inside = np.unravel_index(int(np.argmax(np.abs(part))), part.shape)
                    position = (i, *(int(n) for n in inside))
        return low, high, (position[::-1] if self.file.steps else position)[: len(self.size)]

    def plane(self, normal: int, index: int) -> np.ndarray:
        """Return the plane perpendicular to axis ``normal`` at ``index``; of a 2-D array, the whole array."""
        with self._reading() as axes:
            cut: list[Any] = [slice(None)] * len(axes.shape)
            if len(cut) == 3:
                cut[normal] = index
            return axes[tuple(cut)]

    def box_of_series(self) -> tuple[tuple[int, ...], np.ndarray | None]:
        """Return the shape (x, y(, z)) of the box in which a series was recorded, and its first grid point.

        The shape is () unless the sensor is a box, or a mask whose points fill a box. The first grid point is
        None if it is unknown.
        """
        kwave, number = self.file.steps > 0, self.name.rpartition("/")[2]
        box = self.file.sensor_box(int(number) - kwave if "/" in self.name else 0)
        first = None if box is None else box[0]
        with self._reading() as axes:
            if len(axes.shape) > 2:
                return axes.shape[:-1], first
        if box is None or np.prod(box[1] - box[0] + 1) != self.size[0]:
            return (), None
        return tuple(int(n) for n in box[1] - box[0] + 1), first

    def samples_of_box(self, shape: tuple[int, ...], rows: np.ndarray) -> Iterator[np.ndarray]:
        """Yield the values in a box of ``shape`` at each sample number in ``rows``, equally spaced."""
        part = slice(int(rows[0]), int(rows[-1]) + 1, int(rows[1] - rows[0]) if rows.size > 1 else 1)
        with self._reading() as axes:
            block = axes[..., part].astype(float).reshape(*shape, rows.size, order="F")
        # (…, samples), x first
        for i in range(rows.size):
            yield block[..., i].squeeze()

    def first_time(self) -> float:
        """Return the time of the first sample of a series, s."""
        steps, file = self.file.steps, self.file
        return (steps - self.size[1]) * file.dt if steps else file.first_time()

    def array(self, shape: tuple[int, ...]) -> np.ndarray:
        """Return all values in ``shape``: along x, y(, z) or by point, then over time."""
        with self._reading() as axes:
            check_memory(axes.dataset, host_memory()[0])
            return axes[(slice(None),) * len(axes.shape)].reshape(shape, order="F")

    def values(self) -> np.ndarray:
        """Return all values as float64, (points,)."""
        with self._reading() as axes:
            check_memory(axes.dataset, host_memory()[0])
            return np.asarray(axes.dataset[()], float).reshape(-1)

    def series(self, most_points: int, most_samples: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return a thinned time series: values (points, samples), numbers of the points, and times, s.

        At most ``most_points`` points and ``most_samples`` samples are kept, equally spaced.
        """
        file, (count, samples) = self.file, self.size
        points = np.arange(0, count, max(1, math.ceil(count / most_points)))
        rows = np.arange(0, samples, max(1, math.ceil(samples / most_samples)))
        values = np.empty((points.size, rows.size), np.float32)
        with self._reading() as axes:
            if file.steps:
                for i, row in enumerate(rows.tolist()):
                    values[:, i] = axes[..., row].reshape(-1, order="F")[points]
                first = file.steps - samples
            else:
                for i, point in enumerate(points):
                    at = np.unravel_index(int(point), axes.shape[:-1], order="F")
                    values[i] = axes[(*map(int, at), slice(None))][rows]
                first = round(file.first_time() / file.dt)
            if not 0 <= first < _MOST_STEPS:
                raise self.fault(f"begins at step {first}; the file is damaged")
        return values, points, (first + rows) * file.dt


def open_recorded(path: str | Path) -> RecordedFile | None:
    """Open a file of recorded quantities; return None if it is no such file.

    `InputError`: the file is damaged, or a k-Wave input.
    """
    with contextlib.ExitStack() as closing:
        file = closing.enter_context(RecordedFile(path))
        if not file.find():
            return None
        closing.pop_all()
        return file
