"""Write and read result files: HDF5 with a unit and a description for every dataset, written atomically."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np

from wavefabric.base.errors import InputError
from wavefabric.base.files import hdf5
from wavefabric.base.files.output import check_output, remove_partials, replacing
from wavefabric.base.results.hdf5_output import OutputFile
from wavefabric.base.results.lock import locked
from wavefabric.base.results.provenance import provenance
from wavefabric.base.system.machine import host_memory

FORMAT = "wavefabric result"
FORMAT_VERSION = 1


@dataclass(frozen=True)
class Rows:
    """An array that is written row by row, by ``read(i)``: no full copy of a GPU field is on the host."""

    shape: tuple[int, ...]
    dtype: np.dtype
    read: Callable[[int], np.ndarray]


class Data(NamedTuple):
    """One dataset: value (array, number, text, list of texts, or `Rows`), SI unit ("" for none), description.

    ``dims`` names its dimensions. Each is a dataset in the root, written before this one.
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
    for name, value in payload.items():
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
    for number, dim in enumerate(data.dims if data.dims != (name,) else ()):
        dataset.dims[number].attach_scale(dataset.file[dim])
    dataset.attrs["units"] = data.units
    dataset.attrs["description"] = data.description


class Result(Mapping[str, Any]):
    """A result file as a mapping: ``result["received/span_1/evm"]`` reads that array and returns it.

    Keys are the paths of all datasets. Text is returned as `str`, or as a list of `str`.
    """

    def __init__(self, path: Path, keys: list[str], attrs: dict[str, dict[str, Any]]):
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


def read_result(path: str | Path) -> Result:
    """Open a result file; `InputError` if it is missing, damaged, too new, or not written by wavefabric."""
    path = Path(path)
    keys: list[str] = []
    attrs: dict[str, dict[str, Any]] = {}

    with _open(path) as file, hdf5.reading(path):
        attrs[""] = hdf5.attributes(file)
        if attrs[""].get("format") != FORMAT:
            raise InputError(f"{path}: is HDF5, but not a result file of wavefabric")
        if (version := attrs[""].get("format_version", 0)) > FORMAT_VERSION:
            raise InputError(f"{path}: was written by a newer wavefabric (format {version})")
        for name, item in hdf5.members(file):
            attrs[name] = hdf5.attributes(item)
            if isinstance(item, h5py.Dataset):
                keys.append(name)
    return Result(path, keys, attrs)


def _open(path: Path) -> h5py.File:
    return hdf5.open_hdf5(path, "a result file (HDF5)")
