"""Remove the files that MPI creates in /dev/shm for ranks of one host when ranks are killed."""

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from wavefabric.base.errors import InputError

_FOLDER = Path("/dev/shm")
#: How names of MPI's files begin: MPICH; Open MPI 4; Open MPI 5.
_PREFIXES = ("mpich_shm_", "vader_segment.", "sm_segment.")
#: Bytes per rank of MPICH 4 and 5: 1.06 MB of bookkeeping, which is touched at the start.
_PER_RANK = 1_100_000
#: Advice if /dev/shm is full.
ADVICE = "remove what killed programs left there (mpich_shm_*, if no MPI runs), or enlarge it"


def mapped(pid: int) -> set[Path]:
    """Return the paths of MPI's files in /dev/shm that the process ``pid`` has mapped into its memory."""
    with contextlib.suppress(OSError):
        lines = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="replace").splitlines()
        return {file for line in lines if f"{_FOLDER}/" in line and _is_mpi(file := Path(line.split()[-1]))}
    return set()


def remove(files: Iterable[Path]) -> None:
    """Remove those ``files`` that are in /dev/shm and belong to MPI and to this user."""
    for file in files:
        with contextlib.suppress(OSError):
            if _is_mpi(file) and file.stat().st_uid == os.getuid():
                file.unlink()


def remove_own() -> None:
    """Remove MPI's files in /dev/shm that this process has mapped; call this before all ranks are ended."""
    remove(mapped(os.getpid()))


def check_space(ranks: int) -> None:
    """Raise `InputError` if /dev/shm is too small for ``ranks``: MPICH would crash with a bus error."""
    free, needed = free_bytes(), ranks * _PER_RANK
    if free is not None and free < needed:
        actual = f"{free / 1e6:.1f} MB are free, {ranks} ranks need {needed / 1e6:.1f} MB"
        raise InputError(f"/dev/shm: {actual}; {ADVICE}")


def free_bytes() -> int | None:
    """Return the free bytes of /dev/shm, None if it does not exist."""
    with contextlib.suppress(OSError):
        space = os.statvfs(_FOLDER)
        return space.f_bavail * space.f_frsize
    return None


def _is_mpi(file: Path) -> bool:
    return file.parent == _FOLDER and file.name.startswith(_PREFIXES)
