"""One owner of an output and its checkpoint: a lock file that also works on network file systems.

The lock of ``NAME`` is ``NAME.lock``: a small JSON file that says which process on which machine holds it. It
is made by a hard link, which is atomic on local and network file systems alike; `flock` and HDF5's own locks
are not needed. On the same machine a lock is void when its process has ended, and the next one takes it over.
From another machine nobody can see that process, so the owner touches the lock every ten seconds, and it is
void after two minutes without a touch by the clock of the file system.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from wavefabric.errors import InputError

#: Seconds between signs of life, and without one until a lock of another machine is void.
TOUCH_SECONDS, VOID_SECONDS = 10.0, 120.0
#: What a lock file may hold; more is not a lock.
_LONGEST = 4096


def lock_path(path: str | Path) -> Path:
    """Where the lock of a file lies."""
    path = Path(path)
    return path.with_name(path.name + ".lock")


@dataclass(frozen=True)
class Owner:
    """Who holds a lock.

    Parameters
    ----------
    host : str
        Name of the machine.
    machine : str
        What tells process numbers of this machine, since it was started, from others.
    process : int
    started : str
        When the process was started, in the system's own unit: numbers are used again.
    token : str
        Of this lock alone.
    """

    host: str
    machine: str
    process: int
    started: str
    token: str

    def alive(self) -> bool | None:
        """Whether the process is there; None if it is on another machine."""
        if self.machine != _machine():
            return None
        return started(self.process) == self.started


class FileLock:
    """The lock of one file, held by this process.

    Parameters
    ----------
    path : str or Path
        The file that is locked; it need not exist.
    key : str
        What an error calls it.

    Raises
    ------
    InputError
        If another process holds it, or the lock cannot be made.
    """

    def __init__(self, path: str | Path, key: str = "output"):
        self.path, self._key = Path(path), key
        self._file = lock_path(path)
        self.owner = Owner(
            socket.gethostname(), _machine(), os.getpid(), started(os.getpid()), secrets.token_hex(8)
        )
        try:
            self._take()
        except OSError as error:
            raise InputError(f"{key}: {self._file} cannot be written ({error.strerror})") from None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._touch, daemon=True, name="wavefabric-lock")
        self._thread.start()

    def check(self) -> None:
        """Whether the lock is still ours; asked before anything is replaced.

        Raises
        ------
        InputError
            If another process has taken it over, which it may after a long standstill of this one.
        """
        found = _read(self._file)
        if found is None or found.token != self.owner.token:
            whose = f"{_name(found)} has" if found else "somebody has removed its lock and may have"
            raise InputError(
                f"{self._key}: {whose} taken over {self.path} while this process stood still; "
                "nothing more is written to it"
            )

    def release(self) -> None:
        """Give it up. Does nothing if it is no longer ours."""
        self._ended.set()
        self._thread.join()
        found = _read(self._file)
        if found is not None and found.token == self.owner.token:
            self._file.unlink(missing_ok=True)

    def _take(self) -> None:
        folder = self._file.parent
        number, name = tempfile.mkstemp(prefix=f".{self.path.name[:100]}.", suffix=".lock", dir=folder)
        try:
            with open(number, "w", encoding="utf-8") as file:
                json.dump(asdict(self.owner), file)
            # Twice: the owner may end, or another may come first, in between.
            for _ in range(10):
                if _link(name, self._file):
                    return
                self._remove_void(now=os.stat(name).st_mtime)
        finally:
            os.unlink(name)
        raise InputError(f"{self._key}: {self.path} is wanted by several processes at once; allowed: one")

    def _remove_void(self, now: float) -> None:
        """Make room if the owner is gone; say who it is if not."""
        try:
            age = now - self._file.stat().st_mtime
        except FileNotFoundError:
            return
        found = _read(self._file)
        if found is None:
            raise InputError(
                f"{self._key}: {self._file} is there and is no lock that can be read; allowed: to remove it, "
                f"if no other run writes {self.path.name}"
            )
        alive = found.alive()
        if alive or (alive is None and age < VOID_SECONDS):
            seen = f", last seen {max(age, 0):.0f} s ago (free after {VOID_SECONDS:.0f} s)"
            raise InputError(
                f"{self._key}: {self.path} is in use by {_name(found)}{'' if alive else seen}; "
                "allowed: another name for each run"
            )
        # Another process may have made room first and hold a new lock by now: that one is put back.
        aside = self._file.with_name(f"{self._file.name}.{self.owner.token}")
        with contextlib.suppress(FileNotFoundError):
            os.rename(self._file, aside)
            moved = _read(aside)
            if moved != found:
                _link(aside, self._file)
            aside.unlink()

    def _touch(self) -> None:
        while not self._ended.wait(TOUCH_SECONDS):
            found = _read(self._file)
            if found is None or found.token != self.owner.token:
                return
            with contextlib.suppress(OSError):
                os.utime(self._file)


_held: dict[tuple[Path, int], tuple[FileLock, int]] = {}


@contextlib.contextmanager
def locked(*paths: str | Path | None, key: str = "output") -> Iterator[list[FileLock]]:
    """Hold the locks of files; a thread that holds one already shares it.

    Parameters
    ----------
    *paths : path or None
        None is passed over.
    key : str
        What an error calls them.

    Raises
    ------
    InputError
        If another process, or another thread of this one, holds one of them.
    """
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(_one(path, key)) for path in paths if path is not None]


@contextlib.contextmanager
def _one(path: str | Path, key: str) -> Iterator[FileLock]:
    path = Path(path)
    name = (path.parent.resolve() / path.name, threading.get_ident())
    lock, count = _held.get(name, (None, 0))
    lock = lock or FileLock(path, key)
    _held[name] = lock, count + 1
    try:
        yield lock
    finally:
        lock, count = _held.pop(name)
        if count > 1:
            _held[name] = lock, count - 1
        else:
            lock.release()


def _link(name: str | Path, target: Path) -> bool:
    """Whether the file is now ``target`` too; False if there is one."""
    try:
        os.link(name, target)
    except FileExistsError:
        return False
    except OSError:
        # A file system without hard links: not as safe against a crash within these two lines.
        try:
            with open(target, "x", encoding="utf-8") as file:
                file.write(Path(name).read_text("utf-8"))
        except FileExistsError:
            return False
    return True


def _read(path: Path) -> Owner | None:
    try:
        with open(path, encoding="utf-8") as file:
            return Owner(**json.loads(file.read(_LONGEST)))
    except (OSError, ValueError, TypeError):
        return None


def _name(owner: Owner) -> str:
    place = "" if owner.machine == _machine() else f" on {owner.host}"
    return f"process {owner.process}{place}"


@cache
def _machine() -> str:
    """This machine since its start, and the name space of its process numbers."""
    parts = [socket.gethostname()]
    with contextlib.suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip())
    with contextlib.suppress(OSError):
        parts.append(os.readlink("/proc/self/ns/pid"))
    return " ".join(parts)


def started(process: int) -> str:
    """When a process was started; empty if it has ended."""
    try:
        text = Path(f"/proc/{process}/stat").read_text("utf-8", "replace")
    except FileNotFoundError:
        return _signalled(process) if not Path("/proc/self/stat").exists() else ""
    except OSError:
        return ""
    # The second field is a name in brackets that may hold anything; the third is the state.
    rest = text.rpartition(")")[2].split()
    return "" if rest[0] in "ZX" else rest[19]


def _signalled(process: int) -> str:
    """Where there is no /proc: whether the number is in use."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return ""
    except OSError:
        pass
    return "running"
