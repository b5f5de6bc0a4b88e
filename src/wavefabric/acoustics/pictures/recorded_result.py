"""Reads any result file as a `Result`, k-Wave's output too, with dimensions, coordinates and units."""

from pathlib import Path
from typing import Any

import h5py
import numpy as np

from wavefabric.acoustics.pictures.recorded import RecordedArray, RecordedFile, open_recorded
from wavefabric.acoustics.recording.quantities import describe
from wavefabric.base.results.file import Result, read_result


class RecordedResult(Result):
    """The recorded quantities of a file of ultrasound, by k-Wave's names: ``p_max_all``, ``ux_final``, ``p``.

    Axes are x, y(, z) or points, then time, whether the file is k-Wave's output or a result of `simulate`.
    """

    def __init__(self, file: RecordedFile):
        header = {name: text for name, text in file.attributes().items() if name != "file_type"}
        super().__init__(file.path, {}, {"": header})
        self._file, self._items, self._along = file, dict[str, RecordedArray](), dict[str, np.ndarray]()
        for name, item in file.items.items():
            stored = file.file.get(file.prefix + name)
            boxes = [f"{name}/{box}" for box in stored] if isinstance(stored, h5py.Group) else []  # tones
            parts = {box: RecordedArray(box, "box", file) for box in boxes} or {name: item}
            self._items |= parts
            for part, array in parts.items():
                self._add(part, array)
        for name, values in self._along.items():
            unit = "s" if name == "time" else "m"
            about = {"units": unit, "description": f"coordinates along {name}", "dimensions": name}
            self._attrs[name], self._keys[name] = about, (values.shape, True)

    def __getitem__(self, key: str) -> Any:
        key = key.strip("/")
        return self._along[key] if key in self._along else self._items[key].array(self.shape(key))

    def _add(self, name: str, item: RecordedArray) -> None:
        file, group, box = self._file, *name.rpartition("/")[::2]
        axes, shape, first = "xyz"[: len(file.shape)], item.size, np.zeros(0)
        origin = np.array([file.origin(axis) for axis in range(len(axes))])
        if item.kind == "field":
            dims, first = tuple(axes), -origin
        elif item.kind == "box" or (item.kind == "series" and group):
            number = int(box) - (file.steps > 0)
            dims, corners = tuple(f"{axis}_box{box}" for axis in axes), file.sensor_box(number)
            first = np.zeros(len(axes)) if corners is None else corners[0] - origin
            inside = item.box_of_series()[0] if item.kind == "series" else shape
            shape = (*inside[: len(axes)], *shape[1:] * (item.kind == "series"))
        else:
            dims = ("point",)
        dims = (*dims, "time")[: len(shape)]
        for dim, start, size, spacing in zip(dims, first, shape, file.spacing, strict=False):
            self._along[dim] = (start + np.arange(size)) * spacing
        if item.kind == "series":
            self._along["time"] = item.first_time() + np.arange(shape[-1]) * file.dt
        unit, text = describe(name)
        if (frequency := item.frequency()) is not None:
            text = text.replace("a frequency", f"{frequency:g} Hz")
        while group:
            self._attrs.setdefault(group, {})
            group = group.rpartition("/")[0]
        self._attrs[name] = {"units": unit, "description": text, "dimensions": " ".join(dims)}
        self._keys[name] = shape, True


def read_any_result(path: str | Path) -> Result:
    """Open a result file or k-Wave's output; recorded quantities of ultrasound as a `RecordedResult`.

    `InputError` as for `read_result`; a k-Wave input is none.
    """
    file = open_recorded(path)
    return read_result(path) if file is None else RecordedResult(file)
