"""HDF5 files of others, read without trust: nothing of a file may name data that lie outside it.

An external link, external storage or a virtual dataset of another file would let an input file read any file
of its reader as samples (HDF5 user's guide, sections on links, external storage and virtual datasets).
"""

import contextlib
import math
import os
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py

from wavefabric.errors import InputError
from wavefabric.files.input import check_regular

#: Soft links that may follow each other.
_MOST_LINKS = 16
#: Bytes that are not looked at.
_SMALL = 1 << 24
#: Bytes of samples to a byte of the file: DEFLATE packs no better.
_MOST_PACKED = 1100
#: Bytes of memory for reading texts.
_MOST_TEXT = 1 << 29
#: What h5py and NumPy raise of a damaged file: the error depends on where the damage is.
_DAMAGE = (
    *(OSError, RuntimeError, LookupError, TypeError),
    *(ValueError, ArithmeticError, MemoryError, AttributeError),
)


def open_hdf5(path: str | Path, wanted: str) -> h5py.File:
    """An HDF5 file, opened to read; ``wanted`` says what it should be, such as ``a result file (HDF5)``."""
    path = Path(path)
    try:
        fault = "is a folder" if path.is_dir() else "" if path.exists() else "no such file"
        if not fault:
            check_regular(path)
    except OSError as error:
        fault = str(error.strerror)
    except ValueError:  # a name with a null byte
        fault = "is not the name of a file"
    if fault:
        raise InputError(f"{path}: {fault}; allowed: {wanted}")
    try:
        return h5py.File(path, "r")
    except PermissionError:
        raise InputError(f"{path}: cannot be read (permission denied)") from None
    except _DAMAGE:
        raise InputError(f"{path}: is not an HDF5 file, or is damaged or cut short") from None


@contextlib.contextmanager
def reading(path: str | Path, name: str = "") -> Iterator[None]:
    """Name the dataset, or the file alone, where reading it shows that it is damaged: InputError."""
    try:
        yield
    except InputError:
        raise
    except _DAMAGE:
        where = f"{path}: dataset '{name}'" if name else str(path)
        raise InputError(f"{where}: cannot be read; the file is damaged or cut short") from None


@contextlib.contextmanager
def reading_text() -> Iterator[None]:
    """Let the process take no more than `_MOST_TEXT` meanwhile.

    HDF5 takes memory of the length that a text of variable length claims, up to 4 GiB, before it looks for
    the text; that length cannot be asked for.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:  # not Linux
        yield
        return
    most = pages * os.sysconf("SC_PAGE_SIZE") + _MOST_TEXT
    if soft != resource.RLIM_INFINITY:
        most = min(most, soft)
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def attributes(item: h5py.HLObject) -> dict[str, Any]:
    """Attributes by name, without those that are large, references, or of a type that NumPy does not have."""
    result: dict[str, Any] = {}
    with reading_text():
        # References between a dataset and its dimension scales are for HDF5 alone.
        for name in (each for each in item.attrs if each not in ("DIMENSION_LIST", "REFERENCE_LIST")):
            if item.attrs.get_id(name).get_storage_size() <= _SMALL:
                with contextlib.suppress(TypeError):
                    result[name] = item.attrs[name]
    return result


def check_inside(file: h5py.File, name: str) -> None:
    """Raise InputError for a dataset or group whose link or samples lead out of the file.

    ``name`` is its path from the root; nothing is said of what is not there.
    """
    where = f"{file.filename}: dataset '{name}'"
    _follow(file, "/", name, where, 0)
    item = file.get(name)
    if not isinstance(item, h5py.Dataset):
        return
    if item.id.get_create_plist().get_external_count():
        raise InputError(f"{where}: its samples are in another file (external storage); {_ALLOWED}")
    if item.is_virtual:
        raise InputError(f"{where}: its samples are those of other datasets (virtual); {_ALLOWED}")


_ALLOWED = "allowed: samples in the file itself"


def _follow(file: h5py.File, start: str, name: str, where: str, links: int) -> None:
    """Walk a path link by link, and refuse those that leave the file."""
    at = "/" if name.startswith("/") else start
    for part in (p for p in name.split("/") if p not in ("", ".")):
        group = file.get(at)
        if not isinstance(group, h5py.Group):
            return
        link = group.get(part, getlink=True)
        if isinstance(link, h5py.ExternalLink):
            raise InputError(f"{where}: is a link to another file; {_ALLOWED}")
        if isinstance(link, h5py.SoftLink):
            if links >= _MOST_LINKS:
                raise InputError(f"{where}: is a chain of more than {_MOST_LINKS} links; {_ALLOWED}")
            _follow(file, at, link.path, where, links + 1)
        at = f"{at.rstrip('/')}/{part}"


def bytes_of(dataset: h5py.Dataset) -> int:
    """Bytes of memory that all of a dataset takes, written or not; of text, at least that of its pointers."""
    return math.prod(dataset.shape or ()) * dataset.dtype.itemsize


def check_stored(dataset: h5py.Dataset) -> None:
    """Raise InputError for a large dataset of which (nearly) nothing was ever written."""
    stored = dataset.id.get_storage_size()
    if bytes_of(dataset) > max(_SMALL, _MOST_PACKED * stored):
        raise _fault(dataset, f"has the shape {dataset.shape}, but only {stored} bytes of it were written")


def check_memory(dataset: h5py.Dataset, free: int) -> None:
    """Raise InputError for a dataset larger than ``free`` bytes; space that was never written counts too."""
    size = bytes_of(dataset)
    if size > max(_SMALL, free):
        raise _fault(dataset, f"takes {size / 2**30:.1f} GiB of memory; {free / 2**30:.1f} GiB are free")


def _fault(dataset: h5py.Dataset, what: str) -> InputError:
    name = str(dataset.name).lstrip("/")
    return InputError(f"{dataset.file.filename}: dataset '{name}': {what}")
