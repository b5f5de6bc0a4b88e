"""Provide a directory to cache reproducible files between runs: compiled kernels, fonts.

This is the user's cache directory, or if that cannot be written (a service without a home, a container, a
full quota) a temporary directory of this user, with a line on stderr that says so.
"""

import atexit
import contextlib
import os
import stat
import sys
from functools import lru_cache
from pathlib import Path

from wavefabric.base.errors import InputError

#: Environment variable that sets the directory; also passes the selected one to child processes and ranks.
VARIABLE = "WAVEFABRIC_CACHE"
#: Variables with the number of this rank: only rank 0 prints the message.
_RANK = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID")


def cache_directory(name: str = "", quiet: bool = False) -> Path:
    """Return an existing, writable cache directory, or its subdirectory ``name``.

    The cache is ``$WAVEFABRIC_CACHE``, else ``$XDG_CACHE_HOME/wavefabric``, else ``~/.cache/wavefabric``. If
    that cannot be written, it is ``wavefabric-UID`` in the directory for temporary files, readable only by
    this user; a line on stderr says so once (unless ``quiet``), and child processes use the same directory.
    """
    root, problem = _usable_root(_preferred_root())
    if problem and not quiet:
        os.environ[VARIABLE] = str(root)  # for child processes, and so that the message is printed once
        if all(os.environ.get(each, "0") == "0" for each in _RANK) and sys.stderr is not None:
            print(f"wavefabric: cache: {problem}; using {root} ({VARIABLE} names another)", file=sys.stderr)
    directory = root / name
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def redirect(variable: str, name: str, *usual: str) -> None:
    """Let another library store files in wavefabric's cache if it cannot write its ``usual`` directories.

    ``variable`` is the environment variable for the library's directory; if it is set, nothing changes.
    """
    if not os.environ.get(variable) and not all(map(_writable, usual)):
        os.environ[variable] = str(cache_directory(name, quiet=True))


def _writable(directory: str) -> bool:
    """Return whether files can be created in a directory, which itself may still have to be created."""
    path = Path(os.path.expanduser(directory))
    if directory.startswith("~") and not os.path.isdir(os.path.expanduser("~")):
        return False
    while not os.path.lexists(path):
        path = path.parent
    return path.is_dir() and os.access(path, os.W_OK | os.X_OK)


def _preferred_root() -> Path | None:
    if chosen := os.environ.get(VARIABLE):
        return Path(chosen).absolute()
    if caches := os.environ.get("XDG_CACHE_HOME"):
        return Path(caches).absolute() / "wavefabric"
    with contextlib.suppress(RuntimeError):  # no HOME, and the user is not in the user database
        return Path.home() / ".cache" / "wavefabric"
    return None


@lru_cache
def _usable_root(preferred: Path | None) -> tuple[Path, str]:
    """Return a writable cache directory and, as text, why it is not ``preferred`` (empty if it is)."""
    if preferred is None:
        return _temporary(), "there is no home directory"
    import tempfile

    try:
        preferred.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=preferred):
            return preferred, ""
    except OSError as error:
        return _temporary(), f"{preferred} cannot be written ({error.strerror or error})"


def _temporary() -> Path:
    """Return a directory that only this user can write: code that others put there would be run."""
    import shutil
    import tempfile

    try:
        directory = Path(tempfile.gettempdir()) / f"wavefabric-{os.getuid()}"
        with contextlib.suppress(OSError):
            directory.mkdir(mode=0o700, exist_ok=True)
            facts = directory.lstat()
            own = stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.getuid()
            if own and not stat.S_IMODE(facts.st_mode) & 0o077:
                with tempfile.TemporaryFile(dir=directory):
                    return directory
        directory = Path(tempfile.mkdtemp(prefix="wavefabric-"))
    except OSError:
        fault = "neither the cache directory nor one for temporary files can be written"
        raise InputError(f"cache: {fault}; allowed: {VARIABLE} or TMPDIR with a directory that can") from None
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory
