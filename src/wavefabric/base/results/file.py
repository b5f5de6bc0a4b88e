"""Write and read result files: HDF5 with a unit and a description for every dataset, written atomically."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np

from wavefabric.base.errors import InputError, MissingExtra, choices
from wavefabric.base.files import hdf5
from wavefabric.base.files.output import check_output, remove_partials, replacing
from wavefabric.base.results.hdf5_output import OutputFile
from wavefabric.base.results.lock import locked
from wavefabric.base.results.provenance import provenance
from wavefabric.base.system.machine import host_memory

FORMAT = "wavefabric result"
FORMAT_VERSION = 1
#: Name that netCDF gives a dimension scale without values.
_NO_VALUES = "This is a netCDF dimension but not a netCDF variable."


@dataclass(frozen=True)
class Rows:
    """An array that is written row by row, by ``read(i)``: no full copy of a GPU field is on the host."""

    shape: tuple[int, ...]
    dtype: np.dtype
    read: Callable[[int], np.ndarray]


class Data(NamedTuple):
    """One dataset: value (array, number, text, list of texts, or `Rows`), SI unit ("" for none), description.

    ``dims`` names its dimensions, by default ``NAME_0``, ``NAME_1``, …. A dataset whose only dimension is
    itself, in the same group or an earlier one around it, has the coordinates along the dimension.
    """

    value: Any
    units: str
    description: str
    dims: tuple[str, ...] = ()


class ResultWriter:
    """Writes a result file after a run; the constructor, called before the run, checks the path.

    ``force`` replaces an existing file; ``inputs`` are files that the run reads, which the result must not
    replace. Errors are as for `check_output`.
    """

    def __init__(self, path: str | Path, force: bool = False, inputs: Sequence[str | Path | None] = ()):
        self._check = partial(check_output, path, force, "output.file", inputs=tuple(inputs))
        self.path, self.force = self._check(), force

    def write(
        self, payload: Mapping[str, Any], run_file: str = "", attributes: Mapping[str, Any] | None = None
    ) -> Path:
        """Write ``payload`` as the result file, atomically, and return its path.

        In the nested ``payload`` a mapping is a group, a `Data` (or an equivalent tuple) a dataset; the key
        ``"attrs"`` of a group contains its attributes. The text of the run file becomes the dataset
        ``/run_file``; ``attributes`` belong to the root group, by default `provenance()`.
        """
        with locked(self.path):
            self._check()  # another run may have ended since the first check
            remove_partials(self.path)
            with replacing(self.path, "output.file") as unfinished, OutputFile(unfinished) as file:
                file.attrs["format"] = FORMAT
                file.attrs["format_version"] = FORMAT_VERSION
                _attributes(file, attributes if attributes is not None else provenance())
                if run_file:
                    text = Data(run_file, "", "the run file that made this result")
                    _dataset(file, "run_file", text, file.check)
                _group(file, payload, file.check)
        return self.path


def _group(group: h5py.Group, payload: Mapping[str, Any], check: Callable[[], None]) -> None:
    """Write ``payload`` into an HDF5 group; ``check`` raises disk errors, such as a full disk, early."""

    def is_coordinate(name: str) -> bool:
        return not isinstance(payload[name], Mapping) and Data(*payload[name]).dims == (name,)

    for name in sorted(payload, key=is_coordinate, reverse=True):  # other datasets refer to coordinates
        value = payload[name]
        if name == "attrs":
            _attributes(group, value)
        elif isinstance(value, Mapping):
            _group(group.create_group(name), value, check)
        else:
            _dataset(group, name, Data(*value), check)
        check()


def _attributes(group: h5py.Group, values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        group.attrs[name] = "" if value is None else value


def _dataset(group: h5py.Group, name: str, data: Data, check: Callable[[], None]) -> None:
    value = data.value
    if isinstance(value, Rows):
        dataset = group.create_dataset(name, value.shape, value.dtype)
        for i in range(value.shape[0]):
            dataset[i] = value.read(i)
            check()
    elif (array := np.asarray(value)).dtype.kind == "U":
        dataset = group.create_dataset(name, array.shape, h5py.string_dtype(), array.astype(object))
    else:
        dataset = group.create_dataset(name, data=array)
    if data.dims == (name,):
        dataset.make_scale(name)  # a coordinate, as netCDF and xarray read it
        names = [name]
    else:
        names = []
        for number, size in enumerate(dataset.shape):
            scale = _scale(group, name, data.dims[number] if data.dims else f"{name}_{number}", size)
            dataset.dims[number].attach_scale(scale)
            names.append(str(scale.name).rpartition("/")[2])
    dataset.attrs["dimensions"] = " ".join(names)  # a damaged reference to a scale may crash HDF5
    dataset.attrs["units"] = data.units
    dataset.attrs["description"] = data.description


def _scale(group: h5py.Group, name: str, dim: str, size: int) -> h5py.Dataset:
    """Return the scale of dimension ``dim`` of a dataset: an existing one, or a new one without values."""
    around: Any = group
    while (existing := around.get(dim)) is None and around.name != "/":
        around = around.parent
    if isinstance(existing, h5py.Dataset) and existing.is_scale and existing.shape == (size,):
        return existing
    scale = group.create_dataset(dim if existing is None else f"{name}_{dim}", (size,), "f4")
    scale.make_scale(f"{_NO_VALUES}{size:10d}")
    scale.attrs["units"], scale.attrs["description"] = "", "a dimension without coordinates"
    return scale


class Result(Mapping[str, Any]):
    """A result file as a mapping: ``result["received/span_1/evm"]`` reads that array and returns it.

    Keys are the paths of all datasets. Text is returned as `str`, or as a list of `str`.
    """

    def __init__(
        self, path: Path, keys: dict[str, tuple[tuple[int, ...], bool]], attrs: dict[str, dict[str, Any]]
    ):
        #: ``keys`` has the shape of each dataset, and whether it is numbers.
        self.path, self._keys, self._attrs = path, keys, attrs

    def __getitem__(self, key: str) -> Any:
        key = key.strip("/")
        if key not in self._keys:
            raise KeyError(key)
        with _open(self.path) as file:
            return hdf5.read(file, key, host_memory()[0])

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and key.strip("/") in self._keys  # without reading the value

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def attrs(self, path: str = "") -> dict[str, Any]:
        """Return the attributes of a group or dataset, by default of the root, which has the provenance."""
        return dict(self._attrs[path.strip("/")])

    def groups(self, path: str = "") -> list[str]:
        """Return the names of the groups directly in a group, e.g. ``groups("received")``."""
        prefix = path.strip("/") + "/" if path.strip("/") else ""
        inside = [k[len(prefix) :] for k in self._attrs if k.startswith(prefix) and k not in self._keys]
        return [name for name in inside if name and "/" not in name]

    def shape(self, key: str) -> tuple[int, ...]:
        """Return the shape of a dataset, without reading it."""
        return self._keys[key][0]

    def dims(self, key: str) -> tuple[str, ...]:
        """Return the names of a dataset's dimensions; ``NAME_0``, … in files of older versions."""
        names, count = str(self._attrs[key].get("dimensions", "")).split(), len(self.shape(key))
        name = key.rpartition("/")[2]
        return tuple(names) if len(names) == count else tuple(f"{name}_{i}" for i in range(count))

    def coordinate(self, key: str, dim: str) -> str | None:
        """Return the key of the coordinates along a dimension of a dataset; None if there are none."""
        groups, size = key.split("/")[:-1], self.shape(key)[self.dims(key).index(dim)]
        paths = ("/".join([*groups[:depth], dim]) for depth in range(len(groups), -1, -1))
        fits = (path for path in paths if path in self._keys and self.shape(path) == (size,))
        return next((path for path in fits if self.dims(path) == (dim,)), None)

    def quantities(self) -> list[str]:
        """Return the keys of all datasets of numbers, except coordinates."""
        return [
            key
            for key, (_, number) in self._keys.items()
            if number and self.dims(key) != (key.rpartition("/")[2],)
        ]

    def to_xarray(self) -> Any:
        """Return an `xarray.DataTree` with all groups, dimensions, coordinates and units; `MissingExtra`."""
        try:
            import xarray
        except ImportError:
            raise MissingExtra("to_xarray", "xarray") from None
        groups: dict[str, dict[str, Any]] = {name: {} for name in self._attrs if name not in self._keys}
        for key in self:
            about = {name: self.attrs(key).get(name, "") for name in ("units", "description")}
            group, _, name = key.rpartition("/")
            groups[group][name] = self.dims(key), np.asarray(self[key]), about
        return xarray.DataTree.from_dict(
            {f"/{name}": xarray.Dataset(each, attrs=self.attrs(name)) for name, each in groups.items()}
        )

    def to_pandas(self, *keys: str) -> Any:
        """Return a `pandas.DataFrame` of quantities, as in `tables`, chosen by `alike`; `MissingExtra`."""
        try:
            import pandas
        except ImportError:
            raise MissingExtra("to_pandas", "xarray") from None
        return pandas.DataFrame(next(self.tables(self.alike(keys))))

    def alike(self, keys: Sequence[str] = (), among: Sequence[str] | None = None) -> list[str]:
        """Return ``keys``, which must have the same dimensions: `InputError` if not, or if one is unknown.

        Without ``keys``, return those arrays of ``among``, by default all quantities, that have the
        dimensions that most of them have.
        """
        choices("quantity", keys, self._keys)
        kinds: dict[Any, list[str]] = {}
        among = self.quantities() if among is None else among
        for key in keys or [key for key in among if self.shape(key)] or among:
            kinds.setdefault((self.dims(key), self.shape(key)), []).append(key)
        if not kinds:
            raise InputError(f"{self.path}: holds no quantity; allowed: a result with one")
        if keys and len(kinds) > 1:
            each = "; ".join(f"{some[0]} ({', '.join(dims)})" for (dims, _), some in kinds.items())
            raise InputError(f"quantity: {each}; allowed: quantities that have the same dimensions")
        return max(kinds.values(), key=len)

    def tables(self, keys: Sequence[str], rows: int | None = None) -> Iterator[dict[str, np.ndarray]]:
        """Yield tables in long form of quantities that have the same dimensions, a column per name.

        Coordinates come first; dimensions without are numbered from 0. A table has at most ``rows`` rows, by
        default all. Complex quantities have two columns.
        """
        shape, dims, values = self.shape(keys[0]), self.dims(keys[0]), dict[str, np.ndarray]()
        coordinates = (self.coordinate(keys[0], dim) for dim in dims)
        along = [
            np.arange(n) if key is None else np.asarray(self[key])
            for n, key in zip(shape, coordinates, strict=True)
        ]
        for key in keys:
            values |= real_parts(key, np.asarray(self[key]).reshape(-1))
        count = math.prod(shape)
        for first in range(0, count, rows or count):
            number = np.arange(first, min(count, first + (rows or count)))
            index = np.unravel_index(number, shape) if shape else ()
            table = {dim: each[at] for dim, each, at in zip(dims, along, index, strict=True)}
            yield table | {name: column[number] for name, column in values.items()}


def real_parts(name: str, values: Any) -> dict[str, Any]:
    """Return ``values`` by ``name``, or parts of complex ones by ``NAME_real`` and ``NAME_imag``."""
    if np.asarray(values).dtype.kind != "c":
        return {name: values}
    return {f"{name}_real": values.real, f"{name}_imag": values.imag}


def read_result(path: str | Path) -> Result:
    """Open a result file; `InputError` if it is missing, damaged, too new, or not written by wavefabric."""
    path = Path(path)
    keys: dict[str, tuple[tuple[int, ...], bool]] = {}
    attrs: dict[str, dict[str, Any]] = {}

    with _open(path) as file, hdf5.reading(path):
        attrs[""] = hdf5.attributes(file)
        if attrs[""].get("format") != FORMAT:
            raise InputError(f"{path}: is HDF5, but not a result file of wavefabric")
        if (version := attrs[""].get("format_version", 0)) > FORMAT_VERSION:
            raise InputError(f"{path}: was written by a newer wavefabric (format {version})")
        for name, item in hdf5.members(file):
            about = hdf5.attributes(item)
            if _NO_VALUES in str(about.get("NAME", "")):
                continue
            attrs[name] = about
            if isinstance(item, h5py.Dataset):
                keys[name] = item.shape or (), item.dtype.kind in "biufc"
    return Result(path, keys, attrs)


def _open(path: Path) -> h5py.File:
    return hdf5.open_hdf5(path, "a result file (HDF5)")
