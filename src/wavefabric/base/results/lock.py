"""Lock an output and its checkpoint with `flock` on ``NAME.lock``; the lock file names the owner.

The kernel releases a lock when the process that holds it ends for any reason. With NFS locks hold for all
machines, but the server also releases those of a client that was silent for the lease time. Lustre mounted
with ``localflock`` locks only within a machine; a file system without locks causes a warning.
"""

import contextlib
import errno
import fcntl
import json
import os
import platform
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from wavefabric.base.errors import InputError
from wavefabric.base.files.output import unwritable


def lock_path(path: str | Path) -> Path:
    """Return the path of the lock file that belongs to a file."""
    return Path(f"{path}.lock")


class FileLock:
    """The lock of one file, held by this process until `release`; errors refer to the file by ``key``.

    InputError if another process or another `FileLock` holds the lock, or the lock file cannot be created.
    """

    def __init__(self, path: str | Path, key: str = "output"):
        self.path, self._key, self._lock = Path(path), key, lock_path(path)
        owner = {"process": os.getpid(), "host": platform.node(), "token": os.urandom(8).hex()}
        self._text = json.dumps(owner)
        try:
            self._file = self._take()
            try:
                self._file.truncate(0)
                if os.write(self._file.fileno(), self._text.encode()) < len(self._text):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            except OSError:
                self._lock.unlink(missing_ok=True)
                self._file.close()
                raise
        except OSError as error:
            raise unwritable(self._lock, key, error) from None

    def _take(self) -> TextIO:
        while True:
            with contextlib.ExitStack() as closing:
                file = closing.enter_context(open(self._lock, "a+", encoding="utf-8", errors="replace"))
                free = True
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    free = False
                except OSError as error:  # a file system without locks
                    text = f"{self.path}: cannot be locked ({error.strerror}); let no other run write it"
                    warnings.warn(text, RuntimeWarning, stacklevel=3)
                file.seek(0)
                text = file.read(4096)
                if text and not _owner(text):
                    fault = f"{self._lock} is there and is no lock that can be read"
                    allowed = f"to remove it, if no other run writes {self.path.name}"
                    raise InputError(f"{self._key}: {fault}; allowed: {allowed}")
                if not free:
                    fault = f"{self.path} is in use by {_name(text)}"
                    raise InputError(f"{self._key}: {fault}; allowed: another name for each run")
                # The last owner may have removed the file since it was opened.
                with contextlib.suppress(FileNotFoundError):
                    if os.path.samestat(os.fstat(file.fileno()), os.stat(self._lock)):
                        closing.pop_all()
                        return file

    def check(self) -> None:
        """Raise `InputError` if the lock is lost: file removed, or lock given away by an NFS server."""
        if (text := self._locked_text()) != self._text:
            whose = f"{_name(text)} has" if text else "somebody has removed its lock and may have"
            fault = f"{whose} taken over {self.path} while this process stood still"
            raise InputError(f"{self._key}: {fault}; nothing more is written to it")

    def release(self) -> None:
        """Release the lock; a lock that this process has lost is left in place."""
        if self._locked_text() == self._text:
            self._lock.unlink(missing_ok=True)
        self._file.close()

    def _locked_text(self) -> str:
        try:
            return self._lock.read_text("utf-8")
        except (OSError, ValueError):
            return ""


_held: dict[tuple[Path, int], FileLock] = {}


@contextlib.contextmanager
def locked(path: str | Path | None, key: str = "output") -> Iterator[None]:
    """Lock a file (None: no file) during the block; a thread may nest locks. Errors are as for `FileLock`."""
    name = (Path(path or "").parent.resolve() / Path(path or "").name, threading.get_ident())
    if path is None or name in _held:
        yield
        return
    _held[name] = lock = FileLock(path, key)
    try:
        yield
    finally:
        del _held[name]
        lock.release()


def check_held() -> None:
    """Raise `InputError` if this thread has lost a lock (`locked`); called before a file is replaced."""
    for (_, thread), lock in list(_held.items()):
        if thread == threading.get_ident():
            lock.check()


def _owner(text: str) -> dict[str, Any]:
    """Return the entries about the owner in the text of a lock file; empty for any other text."""
    try:
        result = json.loads(text)
        return result if isinstance(result, dict) and {"process", "host"} <= result.keys() else {}
    except ValueError:
        return {}


def _name(text: str) -> str:
    if not (owner := _owner(text)):
        return "another process"
    return f"process {owner['process']}" + f" on {owner['host']}" * (owner["host"] != platform.node())
