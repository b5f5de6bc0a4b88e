"""The ranks of a host: each signs in and out in a folder of its launcher, which watches who dies first.

mpiexec's own banners name the wrong process at times (MPICH's the first on a host, whoever died).
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import select
import signal
import socket
import struct
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from wavefabric.exchange.launch import environment, shared_files
from wavefabric.system.processes import die_with_parent

_LOOK = 0.02  # seconds between looks at who has signed in
_PATIENCE = 5.0  # seconds that a rank waits for its launcher to look
#: File that says that the launcher can watch.
_WATCHING = "watching"
#: File that says why all ranks end, if one of them does not come any more.
_LOST = "lost"
#: Ending of files that name MPI's own in shared memory.
_SHARED = ".shared"
#: ``PIDFD_GET_INFO`` of <linux/pidfd.h>, Linux 6.15: size of the answer, request, mask, offset of the status.
_INFO_SIZE, _GET_INFO, _INFO_EXIT, _STATUS = 64, 0xC040FF0B, 8, 60


# --- on a rank -----------------------------------------------------------------------------------------


def sign_in() -> None:
    """Tell the launcher who this rank is; die with mpiexec. Nothing without a launcher."""
    path = _mine()
    if path is None:
        return
    die_with_parent(signal.SIGKILL)
    with contextlib.suppress(OSError):
        path.with_suffix(".new").write_text(f"{os.getpid()} {socket.gethostname()}\n", encoding="utf-8")
        path.with_suffix(".new").replace(path)
        # The reason of a crash goes where the launcher reads it. The file stays open until the process ends.
        faulthandler.enable(open(path.with_suffix(".fault"), "w", encoding="utf-8"))  # noqa: SIM115
        _note_exit(path)
        # Not before the launcher looks: nobody would know who died first.
        until = time.monotonic() + _PATIENCE
        while (
            path.with_name(_WATCHING).exists()
            and not path.with_suffix(".seen").exists()
            and time.monotonic() < until
        ):
            time.sleep(_LOOK / 4)


def sign_out(code: int) -> None:
    """Tell the launcher that this rank ends by itself, and that it has said why if ``code`` is not 0."""
    path = _mine()
    if path is not None:
        with contextlib.suppress(OSError), open(path, "a", encoding="utf-8") as file:
            file.write(f"ended {code}\n")


def lost(message: str) -> bool:
    """Tell the launcher why all ranks end; False if there is none."""
    path = _mine()
    if path is None:
        return False
    try:
        path.with_name(_LOST).write_text(message, encoding="utf-8")
    except OSError:
        return False
    return True


def note_shared() -> None:
    """Tell the launcher which files of MPI to remove if this rank is killed; once MPI is there."""
    path = _mine()
    if path is not None:
        with contextlib.suppress(OSError):
            names = sorted(map(str, shared_files.mapped(os.getpid())))
            path.with_suffix(_SHARED).write_text("\n".join(names), encoding="utf-8")


def _note_exit(path: Path) -> None:
    """Have ``os._exit`` leave its code for the launcher; older kernels tell only the parent."""
    leave, me = os._exit, os.getpid()

    def left(code: int) -> None:
        if os.getpid() == me:
            with contextlib.suppress(OSError):
                path.with_suffix(".left").write_text(str(code), encoding="utf-8")
        leave(code)

    os._exit = left  # type: ignore[assignment]


def _mine() -> Path | None:
    folder = os.environ.get(environment.RECORDS)
    return Path(folder) / f"rank-{environment.rank()}" if folder else None


# --- on the launcher -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Record:
    """What a rank wrote: its process, whether on this host, and the exit code it left with."""

    rank: int
    pid: int
    here: bool
    ended: int | None


class Muster:
    """Watches the ranks of one launch.

    Parameters
    ----------
    folder : Path
        Empty; given to the ranks as ``WAVEFABRIC_RECORDS``.
    ranks : int
    """

    def __init__(self, folder: Path, ranks: int):
        self._folder, self._ranks = folder, ranks
        self._host = socket.gethostname()
        self._watched: dict[int, int] = {}  # file descriptor of a process → rank
        self._order: list[int] = []
        self._handles: dict[int, int] = {}  # rank → file descriptor, until the end
        self._statuses: dict[int, int] = {}
        self._gone: list[int] = []  # before they could be watched: nobody knows in which order
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._able = hasattr(select, "epoll") and hasattr(os, "pidfd_open")
        if self._able:
            (folder / _WATCHING).touch()

    def records(self) -> dict[int, Record]:
        """Ranks that have signed in so far."""
        found = {}
        for rank in range(self._ranks):
            with contextlib.suppress(OSError, ValueError, IndexError):
                words = (self._folder / f"rank-{rank}").read_text(encoding="utf-8").split()
                ended = int(words[words.index("ended") + 1]) if "ended" in words else None
                found[rank] = Record(rank, int(words[0]), words[1] == self._host, ended)
        return found

    def complete(self) -> bool:
        """Whether all ranks have signed in."""
        return len(self.records()) == self._ranks

    def send(self, number: int) -> bool:
        """Send every rank a signal; False if that cannot reach all of them (others hosts, not signed in)."""
        records = self.records().values()
        if len(records) < self._ranks or not all(record.here for record in records):
            return False
        for record in records:
            with contextlib.suppress(ProcessLookupError):
                os.kill(record.pid, number)
        return True

    def fault(self, rank: int) -> str:
        """Why a rank crashed, as Python saw it (``"Segmentation fault"``), else nothing."""
        with contextlib.suppress(OSError):
            text = (self._folder / f"rank-{rank}.fault").read_text(encoding="utf-8", errors="replace")
            if text.startswith("Fatal Python error: "):
                return text.split("\n")[0].removeprefix("Fatal Python error: ").strip()
        return ""

    # Events of epoll come in the order in which processes died, even if this thread looks late.

    def watch(self) -> None:
        """Begin to note in which order ranks end (Linux only; elsewhere nothing is noted)."""
        if self._able:
            self._thread = threading.Thread(target=self._look, daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Stop watching, once mpiexec has ended; remove what killed ranks left in shared memory."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        for rank, handle in self._handles.items():
            status = _exit_status(handle)
            if status is not None:
                self._statuses[rank] = status
            os.close(handle)
        self._handles.clear()
        for file in self._folder.glob(f"*{_SHARED}"):
            with contextlib.suppress(OSError):
                shared_files.remove({Path(line) for line in file.read_text(encoding="utf-8").splitlines()})

    def first_dead(self) -> int | None:
        """The rank that died without signing out, before any rank left with an error of its own.

        None if there is none, or if nobody can tell which.
        """
        records = self.records()
        lost = [rank for rank in self._gone if rank in records and records[rank].ended is None]
        if lost:
            # The others were killed, which leaves no fault.
            crashed = [rank for rank in (*self._order, *lost) if self.fault(rank)]
            return crashed[0] if crashed else None
        for rank in self._order:
            ended = records[rank].ended if rank in records else None
            if ended is None:
                return rank
            if ended:
                return None
        return None

    def status(self, rank: int) -> int | None:
        """How a rank of this host ended: exit code, or minus a signal; None if unknown. After `close`."""
        if rank in self._statuses:
            return self._statuses[rank]
        with contextlib.suppress(OSError, ValueError):
            return int((self._folder / f"rank-{rank}.left").read_text(encoding="utf-8"))
        return None

    def lost(self) -> str:
        """Why a rank ended all, because another one does not come any more; else nothing."""
        with contextlib.suppress(OSError):
            return (self._folder / _LOST).read_text(encoding="utf-8")
        return ""

    def code(self) -> int:
        """Highest exit code that a rank has left with, and so has explained; 0 if there is none."""
        return max((record.ended or 0 for record in self.records().values()), default=0)

    def explained(self) -> bool:
        """Whether a rank left with an error of its own, and so has said why."""
        return any(record.ended for record in self.records().values())

    def _look(self) -> None:
        poll = select.epoll()
        try:
            while not self._stop.is_set():
                missing = self._ranks - len(self._watched) - len(self._order) - len(self._gone)
                if missing:
                    self._add(poll)
                self._note(poll, poll.poll(_LOOK if missing else 5 * _LOOK))
            self._add(poll)
            self._note(poll, poll.poll(0))
        finally:
            poll.close()

    def _add(self, poll) -> None:
        known = {*self._watched.values(), *self._order, *self._gone}
        for rank, record in self.records().items():
            if rank in known or not record.here:
                continue
            try:
                handle = os.pidfd_open(record.pid)
            except OSError:
                self._gone.append(rank)
                continue
            self._watched[handle] = rank
            self._handles[rank] = handle
            poll.register(handle, select.EPOLLIN)
            (self._folder / f"rank-{rank}.seen").touch()

    def _note(self, poll, events) -> None:
        for handle, _ in events:
            if handle in self._watched:
                poll.unregister(handle)
                self._order.append(self._watched.pop(handle))


def _exit_status(handle: int) -> int | None:
    """Exit code of a process that is gone, or minus the signal that killed it; None from older kernels."""
    import fcntl

    answer = bytearray(_INFO_SIZE)
    struct.pack_into("Q", answer, 0, _INFO_EXIT)
    try:
        fcntl.ioctl(handle, _GET_INFO, answer)
    except OSError:
        return None
    if not struct.unpack_from("Q", answer)[0] & _INFO_EXIT:
        return None
    return os.waitstatus_to_exitcode(struct.unpack_from("i", answer, _STATUS)[0])
