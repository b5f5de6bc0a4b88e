"""Locate the files of a Chakra trace: in a folder, or in a ZIP or tar archive, compressed by gzip or not."""

import gzip
import re
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from io import BytesIO
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple

from wavefabric.base.errors import InputError
from wavefabric.base.files.input import check_regular, read_bytes

#: Maximum uncompressed size of a file in bytes.
MOST_TRACE = 1 << 29
ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz")
_ENDS = re.compile(r"\.(et|json)(\.gz)?$")
_GROUPS = re.compile(r"comm_?group.*\.json$")
_ALLOWED = "files called NAME.RANK.et or .json, packed by gzip or not, or a ZIP or tar archive of them"


class TraceSource(NamedTuple):
    """One trace file: name in error messages, rank of the GPU (-1: groups), and a function that reads it."""

    file: str
    rank: int
    content: Callable[[], bytes]


def sources_of(paths: Sequence[Path]) -> tuple[list[TraceSource], list[TraceSource]]:
    """Return the trace files of all GPUs, sorted by rank, and the files that describe groups of GPUs.

    Group files (``comm_group.json``) are read only from archives. A file's rank is the last number in the
    name; a single file without a number has rank 0. Hidden files in archives are skipped. Raises `InputError`
    for a name without a rank, a repeated rank, or an archive without traces.
    """
    named: list[tuple[str, str, Callable[[], bytes]]] = []
    groups = []
    for path in paths:
        if not path.name.endswith(ARCHIVES):
            named.append((str(path), path.name, lambda path=path: _unpacked(str(path), _opened(path))))
            continue
        for member, content in _members(path):
            name = PurePosixPath(member).name
            if name.startswith((".", "_")) or member.startswith("__MACOSX"):
                continue
            label = f"{path}: {member}"
            if _GROUPS.search(name):
                groups.append(TraceSource(label, -1, content))
            elif _ENDS.search(name):
                named.append((label, name, lambda label=label, get=content: _unpacked(label, get())))
        if not named:
            raise InputError(f"trace: {path} has no traces in it; allowed: {_ALLOWED}")
    result = []
    for label, name, content in named:
        stem = _ENDS.sub("", name)
        numbers = re.findall(r"[0-9]+", stem) if stem != name else []
        if not numbers and (len(named) > 1 or stem == name):
            raise InputError(f"trace: {label} given; allowed: {_ALLOWED}")
        result.append(TraceSource(label, int(numbers[-1]) if numbers else 0, content))
    result.sort(key=lambda source: source.rank)
    for one, other in pairwise(result):
        if one.rank == other.rank:
            raise InputError(f"trace: {one.file} and {other.file} given; allowed: one file for each GPU")
    return result, groups


def _opened(path: Path) -> bytes:
    try:
        return read_bytes(path, MOST_TRACE)
    except OSError as error:
        raise InputError(f"trace: {path} ({error.strerror}); allowed: a file that can be read") from None


def _members(path: Path) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Yield the name of each file in an archive, and a function that reads it."""
    try:
        check_regular(path)
        if path.suffix == ".zip":
            archive = zipfile.ZipFile(path)
            for info in archive.infolist():
                if not info.is_dir():
                    yield info.filename, lambda info=info: _bounded(info.filename, archive.open(info))
            return
        packed = tarfile.open(path)  # noqa: SIM115 - members are read later
        for member in packed.getmembers():
            if member.isfile() and (file := packed.extractfile(member)):
                yield member.name, lambda name=member.name, file=file: _bounded(name, file)
    except (OSError, zipfile.BadZipFile, tarfile.TarError, EOFError, zlib.error) as error:
        words = " ".join(str(error).split())
        raise InputError(f"trace: {path} ({words}); allowed: {_ALLOWED}") from None


def _bounded(file: str, opened: IO[bytes] | gzip.GzipFile) -> bytes:
    """Return all bytes of an opened file; raise `InputError` if there are more than `MOST_TRACE` bytes."""
    try:
        content = opened.read(MOST_TRACE + 1)
    except (OSError, EOFError, zlib.error, zipfile.BadZipFile, RuntimeError) as error:
        raise InputError(f"trace: {file} cannot be unpacked ({error}); allowed: {_ALLOWED}") from None
    if len(content) > MOST_TRACE:
        raise InputError(f"trace: {file} is larger than {MOST_TRACE >> 20} MiB; allowed: up to that")
    return content


def _unpacked(file: str, content: bytes) -> bytes:
    return _bounded(file, gzip.open(BytesIO(content))) if content.startswith(b"\x1f\x8b") else content
