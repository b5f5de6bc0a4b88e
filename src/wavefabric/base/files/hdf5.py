"""Read untrusted HDF5 files: nothing in a file may refer to data outside it.

By an external link, external storage or a virtual dataset an input file could show any file of the user as
its samples (HDF5 user's guide, sections on links, external storage and virtual datasets).
"""

import contextlib
import math
import mmap
import os
import resource
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from h5py import h5o  # type: ignore[attr-defined]

from wavefabric.base.errors import InputError, quoted
from wavefabric.base.files.input import check_regular

#: Maximum number of soft links in a chain.
_MOST_LINKS = 16
#: Bytes up to which datasets need no further checks, and above which high compression is refused.
_SMALL, _LARGE = 1 << 24, 1 << 28
#: Largest ratio of sample bytes to stored bytes: the limit of DEFLATE, and that of data that vary.
_MOST_PACKED, _USUALLY_PACKED = 1100, 64
#: Maximum number of chunks without further checks, bytes per attribute, members of a file, nested groups.
_MOST_CHUNKS, _LONG_ATTRIBUTE, _MOST_MEMBERS, _DEEPEST = 1 << 16, 1 << 16, 1 << 17, 32
#: Bytes of memory per short text in a list.
_TEXT_BYTES = 128
#: Maximum bytes of memory for reading texts.
_MOST_TEXT = 1 << 29
#: Errors of h5py and NumPy for a damaged file, which depend on where the damage is.
_DAMAGE = (
    *(OSError, RuntimeError, LookupError, TypeError),
    *(ValueError, ArithmeticError, MemoryError, AttributeError),
)


def open_hdf5(path: str | Path, description: str) -> h5py.File:
    """Open an HDF5 file for reading; ``description`` is for errors, such as ``a result file (HDF5)``."""
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
        raise InputError(f"{path}: {fault}; allowed: {description}")
    try:
        if path.stat().st_size and not _heaps_end(path):
            raise OSError
        return h5py.File(path, "r")
    except PermissionError:
        raise InputError(f"{path}: cannot be read (permission denied)") from None
    except _DAMAGE:
        raise InputError(f"{path}: is not an HDF5 file, or is damaged or cut short") from None


def _heaps_end(path: Path) -> bool:
    """Return whether the objects in global heaps have valid sizes; with others HDF5 may loop endlessly.

    The first and last 16 MiB are searched. Format: HDF5 specification, III.E, global heap.
    """
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        for start in {0, max(0, len(data) - _SMALL)}:
            after = start
            while (heap := data.find(b"GCOL\x01\0\0\0", after, start + _SMALL)) >= 0:
                position = after = heap + 16
                end = heap + int.from_bytes(data[heap + 8 : after], "little")
                while position + 16 <= min(end, len(data)):
                    number, length = struct.unpack_from("<H6xQ", data, position)
                    step = 16 + -(-length // 8) * 8 if number else length  # object 0 is free space
                    if not 16 <= step <= end - position:
                        return False
                    position += step
    return True


@contextlib.contextmanager
def reading(path: str | Path, name: str = "") -> Iterator[None]:
    """Turn errors of reading a damaged file into an `InputError` that names the dataset or the file."""
    try:
        yield
    except InputError:
        raise
    except _DAMAGE as error:
        where = f"{path}: dataset '{name}'" if name else str(path)
        missing = isinstance(error, KeyError) and len(error.args) == 1 and isinstance(error.args[0], str)
        what = f"has no {quoted(error.args[0])}" if missing else "cannot be read"
        raise InputError(f"{where}: {what}; the file is damaged or cut short") from error


@contextlib.contextmanager
def reading_text() -> Iterator[None]:
    """Let the process allocate at most `_MOST_TEXT` (512 MiB) more inside the block (on Linux).

    In a damaged file a text of variable length may claim any length. HDF5 allocates up to 4 GiB for it before
    it reads the text, and the length cannot be queried.
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
    """Return the attributes of an HDF5 object by name, except large and empty attributes and references."""
    result, attrs = dict[str, Any](), item.attrs
    # References between a dataset and its dimension scales matter only to HDF5.
    for name in (each for each in attrs if each not in ("DIMENSION_LIST", "REFERENCE_LIST")):
        with contextlib.suppress(TypeError):  # a type that NumPy lacks
            stored = attrs.get_id(name)
            dtype = stored.dtype
            size = stored.get_space().get_simple_extent_npoints() * dtype.itemsize
            if 0 < size <= _LONG_ATTRIBUTE and _can_be_read(dtype):
                with reading_text() if dtype.hasobject else contextlib.nullcontext():
                    result[plain(name)] = plain(attrs[name])
    return result


def _can_be_read(dtype: np.dtype) -> bool:
    """Return whether a dtype is numbers or text: HDF5 crashes on damaged lists of variable length."""
    return not dtype.hasobject or h5py.check_string_dtype(dtype) is not None


def plain(value: Any) -> Any:
    """Convert a value that h5py has read: an array to a list or its only entry, text to valid Unicode."""
    if isinstance(value, np.ndarray):
        value = value.reshape(-1)[0] if value.size == 1 else value.tolist()
    if isinstance(value, str):  # h5py stores bytes that are not UTF-8 as surrogates
        return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return value


def members(file: h5py.File) -> Iterator[tuple[str, h5py.Group | h5py.Dataset]]:
    """Yield the path and object of each group and dataset that hard links reach, each object once."""
    pending: list[tuple[str, h5py.Group | h5py.Dataset]] = [("", file)]
    addresses: set[Any] = set()
    while pending:
        name, item = pending.pop()
        if name:
            yield name, item
        if not isinstance(item, h5py.Group):
            continue
        for part in reversed(list(item)):
            if not isinstance(item.get(part, getlink=True), h5py.HardLink):
                continue
            child, path = item[part], f"{name}/{part}".lstrip("/")
            address = h5o.get_info(child.id).addr
            if isinstance(child, h5py.Group | h5py.Dataset) and address not in addresses:
                addresses.add(address)
                pending.append((path, child))
            if len(addresses) > _MOST_MEMBERS or path.count("/") > _DEEPEST:
                limits = f"{_MOST_MEMBERS} datasets and groups, {_DEEPEST} groups inside each other"
                raise InputError(f"{file.filename}: holds more than a result does; allowed: up to {limits}")


def read(file: h5py.File, name: str, most: int = _SMALL) -> Any:
    """Return a whole dataset: a number or array, text or a list of texts.

    `InputError`, before anything is read, if the dataset is missing, is empty, needs more than ``most`` bytes
    of memory, or refers to data outside the file; also if it is damaged.
    """
    with reading(file.filename, name):
        check_inside(file, name)
        dataset = file.get(name)
        if not isinstance(dataset, h5py.Dataset) or dataset.shape is None:
            raise InputError(f"{file.filename}: '{name}' is no dataset with values; allowed: one")
        text = h5py.check_string_dtype(dataset.dtype) is not None
        if not _can_be_read(dataset.dtype):
            raise _fault(dataset, "has values of variable length or references; allowed: numbers or text")
        check_stored(dataset)
        # A text takes much more memory than its pointer.
        check_memory(dataset, most // (_TEXT_BYTES // dataset.dtype.itemsize + 1) if text else most)
        if not text:
            return dataset[()]
        with reading_text():
            texts = dataset.asstr()[()]
    return texts if isinstance(texts, str) else list(texts)


def check_inside(file: h5py.File, name: str) -> None:
    """Raise `InputError` for a dataset or group whose link or samples lead outside the file.

    ``name`` is the path from the root; a path that does not exist raises no error.
    """
    prefix = f"{file.filename}: dataset '{name}'"
    _follow(file, "/", name, prefix, 0)
    item = file.get(name)
    if not isinstance(item, h5py.Dataset):
        return
    if item.id.get_create_plist().get_external_count():
        raise InputError(f"{prefix}: its samples are in another file (external storage); {_ALLOWED}")
    if item.is_virtual:
        raise InputError(f"{prefix}: its samples are those of other datasets (virtual); {_ALLOWED}")


_ALLOWED = "allowed: samples in the file itself"


def _follow(file: h5py.File, start: str, name: str, prefix: str, links: int) -> None:
    """Follow the path ``name`` from the group ``start``; raise `InputError` if a link leaves the file."""
    group_path = "/" if name.startswith("/") else start
    for part in (p for p in name.split("/") if p not in ("", ".")):
        group = file.get(group_path)
        if not isinstance(group, h5py.Group):
            return
        link = group.get(part, getlink=True)
        if isinstance(link, h5py.ExternalLink):
            raise InputError(f"{prefix}: is a link to another file; {_ALLOWED}")
        if isinstance(link, h5py.SoftLink):
            if links >= _MOST_LINKS:
                raise InputError(f"{prefix}: is a chain of more than {_MOST_LINKS} links; {_ALLOWED}")
            _follow(file, group_path, link.path, prefix, links + 1)
        group_path = f"{group_path.rstrip('/')}/{part}"


def bytes_of(dataset: h5py.Dataset) -> int:
    """Return the memory in bytes that a whole dataset takes; of texts only the pointers are counted."""
    return math.prod(dataset.shape or ()) * dataset.dtype.itemsize


def check_stored(dataset: h5py.Dataset, most_read: int | None = None) -> None:
    """Raise `InputError` for a large dataset that is mostly unwritten, or is divided into many small chunks.

    ``most_read`` is the largest number of bytes read at once, by default the whole dataset: the larger it is,
    the larger the fraction of the dataset must be that was written.
    """
    stored, size = dataset.id.get_storage_size(), bytes_of(dataset)
    most_read = max(
        size if most_read is None else most_read, math.prod(dataset.chunks or (0,)) * dataset.dtype.itemsize
    )
    if size > max(_SMALL, _MOST_PACKED * stored) or most_read > max(_LARGE, _USUALLY_PACKED * stored):
        raise _fault(dataset, f"has the shape {dataset.shape}, but only {stored} bytes of it were written")
    if dataset.chunks:
        count = math.prod(-(-n // m) for n, m in zip(dataset.shape, dataset.chunks, strict=True))
        if count > max(_MOST_CHUNKS, stored):
            raise _fault(dataset, f"is cut into {count} chunks, but only {stored} bytes of it were written")


def check_memory(dataset: h5py.Dataset, free: int) -> None:
    """Raise `InputError` for a dataset larger than ``free`` bytes; unwritten space counts too."""
    size = bytes_of(dataset)
    if size > free:
        raise _fault(
            dataset, f"takes {size / 2**20:.3g} MiB of memory; allowed: up to {free / 2**20:.3g} MiB"
        )


def _fault(dataset: h5py.Dataset, fault: str) -> InputError:
    name = str(dataset.name).lstrip("/")
    return InputError(f"{dataset.file.filename}: dataset '{name}': {fault}")
