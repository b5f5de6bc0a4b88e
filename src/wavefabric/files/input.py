"""Input files, opened with care: regular files alone, since a pipe may block and a device never end."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

#: Bytes of an ordinary text file: run files, fabrics, topologies, tables, placements.
MOST_TEXT = 16 << 20
#: Bytes of a file with a schedule, in JSON or XML: a ring all-reduce of 1024 ranks takes 0.3 GiB.
MOST_SCHEDULE = 1 << 29

_KINDS = (
    (stat.S_ISFIFO, "is a pipe"),
    (stat.S_ISSOCK, "is a socket"),
    (stat.S_ISCHR, "is a device"),
    (stat.S_ISBLK, "is a device"),
)


def check_regular(path: str | Path) -> None:
    """Raise OSError, whose ``strerror`` says why, for a pipe, a device, a socket, or if nothing is there."""
    _check(os.stat(path).st_mode, path)


def read_bytes(path: str | Path, most: int = MOST_TEXT) -> bytes:
    """All of a regular file; OSError if it cannot be read, is none (`check_regular`) or has more bytes."""
    check_regular(path)
    # Should it have become a pipe since, opening does not wait.
    number = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with open(number, "rb") as file:
        _check(os.fstat(number).st_mode, path)
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"is larger than {most >> 20} MiB", str(path))
    return content


def _check(mode: int, path: str | Path) -> None:
    for applies, what in _KINDS:
        if applies(mode):
            raise OSError(errno.EINVAL, f"{what}, not a regular file", str(path))
