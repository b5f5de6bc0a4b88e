"""HDF5 files of others, read without trust: nothing of a file may name data that lie outside it.

An external link, external storage or a virtual dataset of another file would let an input file read any file
of its reader as samples (HDF5 user's guide, sections on links, external storage and virtual datasets).
"""

from __future__ import annotations

import math
from pathlib import Path

import h5py

from wavefabric.errors import InputError
from wavefabric.files.input import check_regular
from wavefabric.system.machine import host_memory

#: Soft links that may follow each other.
_MOST_LINKS = 16
#: Bytes that are not looked at.
_SMALL = 1 << 24


def open_hdf5(path: str | Path, wanted: str) -> h5py.File:
    """An HDF5 file, opened to read.

    Parameters
    ----------
    path : str or Path
    wanted : str
        What it should be, for errors, such as ``a result file (HDF5)``.

    Raises
    ------
    InputError
        If there is no such file, or it is a folder, no regular file, not HDF5, damaged or cut short.
    """
    path = Path(path)
    try:
        if path.is_dir():
            raise InputError(f"{path}: is a folder; allowed: {wanted}")
        if not path.exists():
            raise InputError(f"{path}: no such file; allowed: {wanted}")
        check_regular(path)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; allowed: {wanted}") from None
    except ValueError as error:  # a name with a null byte
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: is not the name of a file; allowed: {wanted}") from None
    try:
        return h5py.File(path, "r")
    except PermissionError:
        raise InputError(f"{path}: cannot be read (permission denied)") from None
    except OSError:
        raise InputError(f"{path}: is not an HDF5 file, or is damaged or cut short") from None


def check_inside(file: h5py.File, name: str) -> None:
    """Refuse a dataset or group whose link or samples lead out of the file, before its samples are read.

    Parameters
    ----------
    file : File
    name : str
        Path from the root. What is not there is nobody's fault here.

    Raises
    ------
    InputError
        Naming file and dataset.
    """
    word = f"{file.filename}: dataset '{name}'"
    _follow(file, "/", name, word, 0)
    item = file.get(name)
    if not isinstance(item, h5py.Dataset):
        return
    plan = item.id.get_create_plist()
    if plan.get_external_count():
        raise InputError(f"{word}: its samples are in another file (external storage); {_ALLOWED}")
    if item.is_virtual:
        raise InputError(f"{word}: its samples are those of other datasets (virtual); {_ALLOWED}")


_ALLOWED = "allowed: samples in the file itself"


def _follow(file: h5py.File, start: str, name: str, word: str, links: int) -> None:
    """Walk a path link by link, and refuse those that leave the file."""
    at = "/" if name.startswith("/") else start
    for part in (p for p in name.split("/") if p not in ("", ".")):
        group = file.get(at)
        if not isinstance(group, h5py.Group):
            return
        link = group.get(part, getlink=True)
        if isinstance(link, h5py.ExternalLink):
            raise InputError(f"{word}: is a link to another file; {_ALLOWED}")
        if isinstance(link, h5py.SoftLink):
            if links >= _MOST_LINKS:
                raise InputError(f"{word}: is a chain of more than {_MOST_LINKS} links; {_ALLOWED}")
            _follow(file, at, link.path, word, links + 1)
        at = f"{at.rstrip('/')}/{part}"


def bytes_of(dataset: h5py.Dataset) -> int:
    """Bytes of memory that all of a dataset takes, written or not; of text, at least that of its pointers."""
    return math.prod(dataset.shape or ()) * dataset.dtype.itemsize


def check_memory(dataset: h5py.Dataset) -> None:
    """Refuse a dataset that does not fit into memory, by its shape: room that was never written counts too.

    Raises
    ------
    InputError
        Naming file, dataset and both sizes.
    """
    size = bytes_of(dataset)
    if size > _SMALL and size > (free := host_memory()[0]):
        name = str(dataset.name).lstrip("/")
        given = f"takes {size / 2**30:.1f} GiB of memory"
        raise InputError(
            f"{dataset.file.filename}: dataset '{name}': {given}; {free / 2**30:.1f} GiB are free"
        )
