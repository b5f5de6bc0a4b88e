"""Read and write a checkpoint file such that a kill -9 leaves the complete old file or the complete new one.

Layout: magic, length and CRC-32 of a JSON header, the header, the raw bytes of each array in the header's
order, and a trailer with the CRC-32 of those bytes. No compression: the disk is the limit.
"""

import contextlib
import json
import math
import os
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from wavefabric.base.errors import InputError, UnusableCheckpoint
from wavefabric.base.files.input import check_regular
from wavefabric.base.files.output import sync_folder
from wavefabric.base.results.file import Rows

_MAGIC = b"WFCHECK1"
_END = b"WFCHKEND"
_HEAD = struct.Struct("<8sQI")
_TAIL = struct.Struct("<8sI")
_CHUNK = 1 << 24


Arrays = Mapping[str, np.ndarray | Rows]
#: Where to load arrays, by name: a C-contiguous buffer, or a function called with the number of each row and
#: the row, which is valid only during the call. Other arrays are newly allocated.
Targets = Mapping[str, np.ndarray | Callable[[int, np.ndarray], None]]


def checkpoint_path(output: str | Path) -> Path:
    """Return the path of a run's checkpoint: the path of its result file with ``.checkpoint`` appended."""
    return Path(f"{output}.checkpoint")


def save(path: str | Path, arrays: Arrays, state: dict[str, Any], fingerprint: str) -> None:
    """Write arrays and a state of JSON values to a file that replaces the previous checkpoint atomically.

    `load` must be given the same fingerprint. An OSError leaves the previous checkpoint unchanged.
    """
    path = Path(path)
    partial = _partial(path)
    try:
        partial.unlink(missing_ok=True)  # the rest of a killed save, or a pipe that would wait for a reader
        with open(partial, "xb") as file:
            _write(file, arrays, state, fingerprint)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            partial.unlink()
        if isinstance(error, OSError):
            # Errors of writing to an open file lack its name.
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
    sync_folder(path.parent)


def load(
    path: str | Path, fingerprint: str, targets: Targets | None = None
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the arrays and the state of a checkpoint file.

    ``targets`` is a dictionary from the name of an array to a buffer to fill, or to a function that is called
    with the number and values of each row; arrays for functions are not returned. InputError if the file is
    missing, damaged, or belongs to another run.
    """
    path = Path(path)
    with _opened(path, fingerprint) as (file, header):
        return _arrays(file, path, header, targets or {}), header["state"]


def read_state(path: str | Path, fingerprint: str | None) -> dict[str, Any]:
    """Return only the state of a checkpoint; errors as for `load`. ``fingerprint`` None accepts any run."""
    with _opened(Path(path), fingerprint) as (_, header):
        return header["state"]


def remove(path: str | Path) -> None:
    """Remove a checkpoint and the remains of a killed save, if they exist."""
    Path(path).unlink(missing_ok=True)
    _partial(Path(path)).unlink(missing_ok=True)


def _partial(path: Path) -> Path:
    return path.with_name(path.name + ".partial")


@contextlib.contextmanager
def _opened(path: Path, fingerprint: str | None) -> Iterator[tuple[BinaryIO, dict[str, Any]]]:
    try:
        check_regular(path)
        with open(path, "rb") as file:
            yield file, _header(file, path, fingerprint)
    except FileNotFoundError:
        raise InputError(f"{path}: no such checkpoint") from None


def _write(file: BinaryIO, arrays: Arrays, state: dict, fingerprint: str) -> None:
    entries = []
    for name, array in arrays.items():
        dtype = np.dtype(array.dtype)
        if dtype.hasobject:
            raise TypeError(f"checkpoint array {name!r} holds Python objects")
        entries.append({"name": name, "dtype": dtype.str, "shape": list(array.shape)})
    content = {"fingerprint": fingerprint, "state": state, "arrays": entries}
    header = json.dumps(content, default=lambda o: o.item()).encode()
    file.write(_HEAD.pack(_MAGIC, len(header), zlib.crc32(header)) + header)
    checksum = 0
    # The checksum of a chunk is computed while the chunk is written; both release the interpreter lock.
    with ThreadPoolExecutor(1) as worker:
        for array in arrays.values():
            for chunk in _chunks(array):
                summed = worker.submit(zlib.crc32, chunk, checksum)
                file.write(chunk)
                checksum = summed.result()
    file.write(_TAIL.pack(_END, checksum))


def _chunks(array: np.ndarray | Rows) -> Iterator[memoryview]:
    pieces = [array] if isinstance(array, np.ndarray) else (array.read(i) for i in range(array.shape[0]))
    for piece in pieces:
        if piece.nbytes:
            flat = np.ascontiguousarray(piece, array.dtype).reshape(-1).view(np.uint8).data
            for start in range(0, len(flat), _CHUNK):
                yield flat[start : start + _CHUNK]


def unusable(path: Path, fault: str) -> UnusableCheckpoint:
    """Return the error for a checkpoint from which no run can resume."""
    return UnusableCheckpoint(f"{path}: {fault}; remove it to start anew")


def _damaged(path: Path, why: str) -> UnusableCheckpoint:
    return unusable(path, f"damaged checkpoint ({why})")


def _header(file: BinaryIO, path: Path, fingerprint: str | None) -> dict[str, Any]:
    head = file.read(_HEAD.size)
    if len(head) < _HEAD.size or not head.startswith(_MAGIC):
        raise _damaged(path, "not a checkpoint, or cut short")
    _, length, checksum = _HEAD.unpack(head)
    size = os.fstat(file.fileno()).st_size
    text = file.read(length) if length <= size else b""
    if len(text) < length or zlib.crc32(text) != checksum:
        raise _damaged(path, "its header does not match its checksum")
    header = json.loads(text)
    nbytes = [math.prod(entry["shape"]) * np.dtype(entry["dtype"]).itemsize for entry in header["arrays"]]
    wanted = _HEAD.size + length + _TAIL.size + sum(nbytes)
    if size != wanted:
        raise _damaged(path, f"{size} bytes of {wanted}")
    if fingerprint is not None and header["fingerprint"] != fingerprint:
        raise unusable(path, "this checkpoint belongs to another run (other settings, inputs or versions)")
    return header


def _arrays(file: BinaryIO, path: Path, header: dict, targets: Targets) -> dict[str, np.ndarray]:
    arrays: dict[str, np.ndarray] = {}
    checksum = 0
    for entry in header["arrays"]:
        name, shape, dtype = entry["name"], tuple(entry["shape"]), np.dtype(entry["dtype"])
        target = targets.get(name)
        if callable(target):
            row = np.empty(shape[1:], dtype)
            for i in range(shape[0]):
                checksum = _read_into(file, row, path, checksum)
                target(i, row)
            continue
        arrays[name] = np.empty(shape, dtype) if target is None else target
        if arrays[name].shape != shape or arrays[name].dtype != dtype or not arrays[name].flags.c_contiguous:
            raise ValueError(f"buffer for {name!r} must be C-contiguous, {shape}, {dtype}")
        checksum = _read_into(file, arrays[name], path, checksum)
    if file.read(_TAIL.size) != _TAIL.pack(_END, checksum):
        raise _damaged(path, "its data do not match their checksum")
    return arrays


def _read_into(file: Any, target: np.ndarray, path: Path, checksum: int) -> int:
    """Fill ``target`` with the next bytes of the file; return ``checksum`` continued over these bytes."""
    flat = target.reshape(-1).view(np.uint8).data if target.nbytes else memoryview(b"")
    for start in range(0, len(flat), _CHUNK):
        chunk = flat[start : start + _CHUNK]
        if file.readinto(chunk) < len(chunk):
            raise _damaged(path, "cut short")
        checksum = zlib.crc32(chunk, checksum)
    return checksum
