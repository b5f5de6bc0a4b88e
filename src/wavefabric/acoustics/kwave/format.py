"""Reads and writes datasets and attributes of k-Wave's HDF5 files; errors name the dataset.

Each scalar or array is a three-dimensional dataset of the root group, float32 (``float``) or uint64
(``long``), with two attributes that state its type. Source: k-Wave manual 1.1, appendix B.
"""

import re
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Self, get_args

import h5py
import numpy as np

import wavefabric
from wavefabric.acoustics.problem import Absorption, Cuboids, SourceMode
from wavefabric.base.errors import InputError
from wavefabric.base.files.contiguous import read_whole
from wavefabric.base.files.hdf5 import (
    attributes,
    bytes_of,
    check_inside,
    check_stored,
    open_hdf5,
    read,
    reading,
)
from wavefabric.base.system.machine import usable_threads

#: Source modes and kinds of absorption; the file stores their indices.
MODES: tuple[SourceMode, ...] = get_args(SourceMode)
ABSORPTION: tuple[Absorption, ...] = get_args(Absorption)
AXES = "xyz"

_DTYPES = {"float": np.dtype("<f4"), "long": np.dtype("<u8")}
#: Datasets of type ``long``: counts, switches and indices; all others are ``float``.
_LONG = re.compile(r"N[xyzt]|delay_mask|.*_(size|flag|mode|many|type|index|corners)")

_ON_EACH_AXIS = {
    "N{}": "shape.{}",
    "d{}": "spacing.{}",
    "pml_{}_size": "pml_size.{}",
    "pml_{}_alpha": "pml_alpha.{}",
    "rho0_sg{}": "density_staggered.{}",
    "u{}_source_input": "velocity_source.signals.{}",
}
#: Names of datasets, each with the name (in `check.rules`) of the number of a `Problem` that it stores.
DATASETS = {name.format(a): key.format(a) for name, key in _ON_EACH_AXIS.items() for a in AXES} | {
    "axisymmetric_flag": "axisymmetric",
    "dt": "dt",
    "Nt": "steps",
    "c_ref": "reference_speed",
    "c0": "sound_speed",
    "rho0": "density",
    "BonA": "nonlinearity",
    "absorbing_flag": "absorption",
    "alpha_coeff": "alpha_coeff",
    "alpha_power": "alpha_power",
    "p0_source_input": "initial_pressure",
    "p_source_index": "pressure_source.index",
    "p_source_input": "pressure_source.signal",
    "p_source_mode": "pressure_source.mode",
    "u_source_index": "velocity_source.index",
    "u_source_mode": "velocity_source.mode",
    "delay_mask": "transducer.delay",
    "transducer_source_input": "transducer.signal",
    "transducer_source_flag": "transducer.steps",
}


def kind_of(name: str) -> str:
    """Return the type that k-Wave's format prescribes for a dataset, ``long`` or ``float``."""
    return "long" if _LONG.fullmatch(name) else "float"


def dataset_key(path: str | Path, name: str) -> str:
    """Return the name that errors use for a dataset of a file."""
    return f"{path}: dataset '{name}'"


class Reader:
    """Reads a k-Wave file, open until a ``with`` block ends; `InputError` for a file that is not HDF5.

    If ``outline`` is set, `array` checks datasets but does not read them. ``sizes`` maps the names of the
    arrays requested so far to their bytes.
    """

    def __init__(self, path: str | Path, description: str = "a k-Wave input file (HDF5)"):
        self.path = Path(path)
        self.outline = False
        self.sizes: dict[str, int] = {}
        # Datasets checked and scalars read already: a file is read twice, in outline first.
        self._datasets: dict[str, h5py.Dataset] = {}
        self._scalars: dict[str, int | float] = {}
        self.file = open_hdf5(self.path, description)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def fault(self, name: str, actual: str, allowed: str = "") -> InputError:
        """Return an `InputError` that names a dataset, what is wrong and what is allowed."""
        key = dataset_key(self.path, name)
        return InputError(f"{key}: {actual}" + (f"; allowed: {allowed}" if allowed else ""))

    def read(self, name: str, *sizes: int) -> Any:
        """Return a whole dataset of any shape and type; `InputError` above ``sizes`` bytes, if given."""
        return read(self.file, name, *sizes)

    def reading(self, name: str) -> AbstractContextManager[None]:
        """Return a context in which errors of a damaged file name the dataset ``name``."""
        return reading(self.path, name)

    def __contains__(self, name: str) -> bool:
        with self.reading(name):
            check_inside(self.file, name)
            return name in self.file

    def attributes(self) -> dict[str, str]:
        """Return the text attributes of the root group, the file's header."""
        with self.reading("/"):
            texts = {name: _text(value) for name, value in attributes(self.file).items()}
        return {name: text for name, text in texts.items() if text is not None}

    def dataset(self, name: str) -> h5py.Dataset:
        """Return a dataset after checking its type and its attributes."""
        if name in self._datasets:
            return self._datasets[name]
        if name not in self:
            raise self.fault(name, "is missing")
        kind = kind_of(name)
        with self.reading(name):
            item = self.file[name]
            if not isinstance(item, h5py.Dataset):
                raise self.fault(name, "is a group", "a dataset")
            if item.dtype.newbyteorder("<") != _DTYPES[kind]:
                raise self.fault(name, f"is of type {item.dtype}", f"{_DTYPES[kind].name} ('{kind}')")
            result = attributes(item)
            for attribute, allowed in (("data_type", kind), ("domain_type", "real")):
                actual = "missing"
                if attribute in result:
                    text = _text(result[attribute])
                    actual = "not text" if text is None else f"'{text}'"
                if actual != f"'{allowed}'":
                    raise self.fault(name, f"its attribute {attribute} is {actual}", f"'{allowed}'")
            if item.ndim != 3:
                raise self.fault(name, f"has {item.ndim} dimensions", "3")
        self._datasets[name] = item
        return item

    def scalar(self, name: str) -> Any:
        """Return the single number of a dataset, as int or float."""
        if name not in self._scalars:
            item = self.dataset(name)
            if item.shape != (1, 1, 1):
                raise self.fault(name, f"has the shape {item.shape}", "(1, 1, 1)")
            with self.reading(name):
                self._scalars[name] = item[0, 0, 0].item()
        return self._scalars[name]

    def array(self, name: str, *shapes: tuple[int | str, ...]) -> np.ndarray:
        """Return a whole dataset, float32 or uint64; if ``outline`` is set, zeros that take no memory.

        ``shapes`` are the allowed shapes (z, y, x). In place of a number they may have a word, such as
        ``"steps"``: it allows any number from 1, and is shown in errors.
        """
        item, dtype = self.dataset(name), _DTYPES[kind_of(name)]
        if not any(all(map(_fits, item.shape, shape)) for shape in shapes):
            allowed = " or ".join(f"({', '.join(map(str, shape))})" for shape in shapes)
            raise self.fault(name, f"has the shape {item.shape}", f"{allowed}, in z, y, x order")
        check_stored(item, most_read=0)
        self.sizes[name] = bytes_of(item)
        if self.outline:
            return np.broadcast_to(np.zeros((), dtype), item.shape)
        with self.reading(name):
            return read_whole(item, dtype, usable_threads())


def _fits(size: int, allowed: int | str) -> bool:
    return size == allowed or (isinstance(allowed, str) and size >= 1)


def _text(value: Any) -> str | None:
    """Return an attribute's text up to its first zero byte; None if it is not text."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    return value.split("\0")[0] if isinstance(value, str) else None


def put_attribute(owner: h5py.Group | h5py.Dataset, name: str, text: str, size: int = 0) -> None:
    """Write a scalar text attribute of fixed length, zero-terminated, as k-Wave writes and reads them.

    The attribute takes the bytes of the text, but at least ``size``. If it has had this size before, it is
    overwritten in place: nothing else in the file changes.
    """
    encoded = text.encode("utf-8")
    size = max(len(encoded) + 1, size)
    kind = h5py.h5t.C_S1.copy()
    kind.set_size(size)
    kind.set_strpad(h5py.h5t.STR_NULLTERM)
    kind.set_cset(h5py.h5t.CSET_ASCII if text.isascii() else h5py.h5t.CSET_UTF8)
    key = name.encode("utf-8")
    attribute = h5py.h5a.open(owner.id, key) if h5py.h5a.exists(owner.id, key) else None
    if attribute is not None and not attribute.get_type().equal(kind):
        h5py.h5a.delete(owner.id, key)
        attribute = None
    if attribute is None:
        attribute = h5py.h5a.create(owner.id, key, kind, h5py.h5s.create(h5py.h5s.SCALAR))
    attribute.write(np.array(encoded, f"S{size}"), mtype=kind)


def put_header(file: h5py.File, kind: str, description: str, date: str, **attributes: str) -> None:
    """Write the header of a k-Wave file and other ``attributes``; ``date`` is a `strftime` format."""
    texts = {
        "created_by": f"wavefabric {wavefabric.__version__}",
        "creation_date": time.strftime(date),
        "file_description": description,
        "file_type": kind,
        "major_version": "1",
        "minor_version": "2",
    }
    for name, text in (texts | attributes).items():
        put_attribute(file, name, text)


def put_types(item: h5py.Dataset) -> None:
    """Write the two attributes that state the type of a dataset, as every dataset has."""
    put_attribute(item, "data_type", "long" if item.dtype.kind == "u" else "float")
    put_attribute(item, "domain_type", "real")


def put(group: h5py.Group, name: str, value: Any, chunks: tuple[int, ...] | None = None) -> None:
    """Write a dataset with a number, as (1, 1, 1), or with an array of three dimensions."""
    data = np.asarray(value, _DTYPES[kind_of(name)])
    put_types(group.create_dataset(name, data=data if data.ndim else data[None, None, None], chunks=chunks))


def sensor_datasets(sensor: np.ndarray | Cuboids) -> dict[str, Any]:
    """Return a dictionary from dataset to value that describes the sensor, with indices from 1."""
    if not isinstance(sensor, Cuboids):
        return {"sensor_mask_type": 0, "sensor_mask_index": sensor[None, None] + 1}
    corners = np.concatenate([sensor.first, sensor.last], axis=1)
    return {"sensor_mask_type": 1, "sensor_mask_corners": corners[None] + 1}
