"""Datasets and attributes as k-Wave's HDF5 files have them: read with every fault named, and written.

Everything is a three-dimensional dataset of the root, scalars too; float32 (``float``) or uint64
(``long``), and says so in two attributes. Source: k-Wave manual 1.1, appendix B.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args

import h5py
import numpy as np

from wavefabric.acoustics.problem import Absorption, Cuboids, SourceMode
from wavefabric.errors import InputError
from wavefabric.files.hdf5 import bytes_of, check_inside, open_hdf5

Kind = Literal["float", "long"]

#: Their places are the numbers in the file.
MODES: tuple[SourceMode, ...] = get_args(SourceMode)
ABSORPTION: tuple[Absorption, ...] = get_args(Absorption)
AXES = "xyz"

_DTYPES = {"float": np.dtype("<f4"), "long": np.dtype("<u8")}
# Indices are 64 bit in the file, and sizes are multiplied freely below.
MAX_POINTS = 1 << 50


class Reader:
    """A k-Wave file, opened to read; refuses what is no HDF5 file.

    With ``outline`` set, `array` checks and counts datasets but does not read them; ``sizes`` holds the bytes
    of each array that was asked for.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self.outline = False
        self.sizes: dict[str, int] = {}
        self.file = open_hdf5(self.path, "a k-Wave input file (HDF5)")

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def fault(self, name: str, given: str, allowed: str = "") -> InputError:
        """The error to raise for a dataset."""
        key = dataset_key(self.path, name)
        return InputError(f"{key}: {given}" + (f"; allowed: {allowed}" if allowed else ""))

    @contextlib.contextmanager
    def _reading(self, key: str) -> Iterator[None]:
        # What h5py raises for a damaged file depends on where the damage is.
        try:
            yield
        except (InputError, MemoryError, KeyboardInterrupt):
            raise
        except Exception:
            raise InputError(f"{key}: cannot be read; the file is damaged or cut short") from None

    def __contains__(self, name: str) -> bool:
        with self._reading(dataset_key(self.path, name)):
            check_inside(self.file, name)
            return name in self.file

    def attributes(self) -> dict[str, str]:
        """The root's attributes that are text."""
        texts = {}
        with self._reading(f"{self.path}: file attributes"):
            for name in self.file.attrs:
                with contextlib.suppress(TypeError):
                    texts[name] = _text(self.file.attrs[name])
        return texts

    def dataset(self, name: str, kind: Kind) -> h5py.Dataset:
        """The dataset, once its type and its attributes are known to be right."""
        if name not in self:
            raise self.fault(name, "is missing")
        with self._reading(dataset_key(self.path, name)):
            item = self.file[name]
            if not isinstance(item, h5py.Dataset):
                raise self.fault(name, "is a group", "a dataset")
            dtype = _DTYPES[kind]
            if item.dtype.newbyteorder("<") != dtype:
                raise self.fault(name, f"is of type {item.dtype}", f"{dtype.name} ('{kind}')")
            self._check_attribute(item, name, "data_type", kind)
            self._check_attribute(item, name, "domain_type", "real")
            if item.ndim != 3:
                raise self.fault(name, f"has {item.ndim} dimensions", "3")
        return item

    def _check_attribute(self, item: h5py.Dataset, name: str, attribute: str, allowed: str) -> None:
        if attribute not in item.attrs:
            raise self.fault(name, f"its attribute {attribute} is missing", f"'{allowed}'")
        try:
            text = _text(item.attrs[attribute])
        except TypeError:
            raise self.fault(name, f"its attribute {attribute} is not text", allowed) from None
        if text != allowed:
            raise self.fault(name, f"its attribute {attribute} is '{text}'", f"'{allowed}'")

    def scalar(self, name: str, kind: Kind) -> Any:
        """The one number of a dataset, as int or float."""
        item = self.dataset(name, kind)
        if item.shape != (1, 1, 1):
            raise self.fault(name, f"has the shape {item.shape}", "(1, 1, 1)")
        with self._reading(dataset_key(self.path, name)):
            return item[0, 0, 0].item()

    def array(self, name: str, kind: Kind, *shapes: tuple[int | str, ...]) -> np.ndarray:
        """All of a dataset, float32 or uint64; with `outline` zeros of its shape, which take no memory.

        Of the ``shapes`` allowed, (z, y, x), a text stands for any number from 1, and is shown in the error.
        """
        item = self.dataset(name, kind)
        if not any(_fits(item.shape, shape) for shape in shapes):
            allowed = " or ".join(f"({', '.join(map(str, shape))})" for shape in shapes)
            raise self.fault(name, f"has the shape {item.shape}", f"{allowed}, in z, y, x order")
        self.sizes[name] = bytes_of(item)
        if self.outline:
            return np.broadcast_to(np.zeros((), _DTYPES[kind]), item.shape)
        with self._reading(dataset_key(self.path, name)):
            return np.asarray(item[()], _DTYPES[kind])


def dataset_key(path: str | Path, name: str) -> str:
    """What an error calls a dataset of a file."""
    return f"{path}: dataset '{name}'"


def _fits(shape: tuple[int, ...], allowed: tuple[int | str, ...]) -> bool:
    return all(n == m or (isinstance(m, str) and n >= 1) for n, m in zip(shape, allowed, strict=True))


def _text(value: Any) -> str:
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.reshape(-1)[0]
    if isinstance(value, bytes):
        return value.split(b"\0")[0].decode("utf-8", "replace")
    if isinstance(value, str):
        return value.split("\0")[0]
    raise TypeError("not text")


# --- Writing -----------------------------------------------------------------------------------------


def put_attribute(where: h5py.Group | h5py.Dataset, name: str, text: str, size: int = 0) -> None:
    """A scalar text attribute of fixed length, ended by a zero, as k-Wave writes and reads them.

    A text of the same size (in bytes; at least `size`) replaces the one before in its place, which changes
    nothing else in the file.
    """
    data = text.encode("utf-8")
    size = max(len(data) + 1, size)
    kind = h5py.h5t.C_S1.copy()
    kind.set_size(size)
    kind.set_strpad(h5py.h5t.STR_NULLTERM)
    kind.set_cset(h5py.h5t.CSET_ASCII if text.isascii() else h5py.h5t.CSET_UTF8)
    key = name.encode("utf-8")
    attribute = h5py.h5a.open(where.id, key) if h5py.h5a.exists(where.id, key) else None
    if attribute is not None and not attribute.get_type().equal(kind):
        h5py.h5a.delete(where.id, key)
        attribute = None
    if attribute is None:
        attribute = h5py.h5a.create(where.id, key, kind, h5py.h5s.create(h5py.h5s.SCALAR))
    attribute.write(np.array(data, f"S{size}"), mtype=kind)


def put_types(item: h5py.Dataset) -> None:
    """The two attributes that every dataset has."""
    kinds = {"f4": "float", "u8": "long"}
    put_attribute(item, "data_type", kinds[item.dtype.str[1:]])
    put_attribute(item, "domain_type", "real")


def put_scalar(group: h5py.Group, name: str, value: int | float) -> None:
    """A number as (1, 1, 1): float32 if it is a float, uint64 if it is an int."""
    dtype = _DTYPES["float" if isinstance(value, float) else "long"]
    put_types(group.create_dataset(name, data=np.full((1, 1, 1), value, dtype)))


def put_array(group: h5py.Group, name: str, array: np.ndarray, chunks: tuple[int, ...] | None = None) -> None:
    """An array, in one piece or in chunks."""
    put_types(group.create_dataset(name, data=array, chunks=chunks))


def put_indices(group: h5py.Group, name: str, index: np.ndarray) -> None:
    """Indices counted from 0, as (1, 1, n) counted from 1."""
    put_array(group, name, (index.astype(np.int64) + 1).astype(np.uint64)[None, None])


def corners_from_one(cuboids: Cuboids) -> np.ndarray:
    """Lowest and highest corners as (1, boxes, 6), counted from 1."""
    return (np.concatenate([cuboids.first, cuboids.last], axis=1)[None] + 1).astype(np.uint64)
