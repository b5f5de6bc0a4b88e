"""Ranks that will not come: one that was stopped (SIGSTOP), or has left, while others wait for it (Linux).

MPI waits for ever. A thread of each rank therefore looks at the other processes of its host about once a
second, in /proc, without a message to them: one that computes or writes for an hour is not suspected.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from wavefabric.exchange.launch import rank_status, shared_files

#: Seconds a rank may be stopped, and seconds that one is waited for that has left.
STOPPED, LEFT = 15, 10
_PAUSE = 1.0
#: Name of a process that is about to end by itself, as ``ps`` shows it; at most 15 characters.
_LEAVING = "wavefabric-left"

_waiting: dict[int, tuple[float, tuple[int, ...]]] = {}  # thread → since when it waits, and for which ranks
_begun = False


@contextlib.contextmanager
def waiting(*peers: int) -> Iterator[None]:
    """Run inside: a call that ends only when these ranks, or all, have done their part."""
    me = threading.get_ident()
    _waiting[me] = time.monotonic(), peers
    try:
        yield
    finally:
        _waiting.pop(me, None)


def begin(comm) -> None:
    """Watch the ranks of ``MPI.COMM_WORLD`` from now on; collective the first time."""
    global _begun
    if _begun or comm.Get_size() == 1:
        return
    _begun = True
    here = _identity()
    found = comm.allgather(here)
    if here is None:
        return
    peers = {
        rank: (each[1], each[2]) for rank, each in enumerate(found) if each is not None and each[0] == here[0]
    }
    atexit.register(_leave)
    thread = threading.Thread(target=_Watch(comm.Get_rank(), len(found), peers).look, daemon=True)
    thread.start()


def _identity() -> tuple[str, int, str] | None:
    """Where this process is (host and PID namespace), its number, and when it began; None if unknown."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        place = f"{socket.gethostname()} {os.readlink('/proc/self/ns/pid')}"
        found = _state(os.getpid())
    except OSError:
        return None
    return (place, os.getpid(), found[2]) if found else None


def _state(pid: int) -> tuple[str, str, str] | None:
    """Name, state and start of a process; None if it is gone."""
    try:
        head, _, rest = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")
    except OSError:
        return None
    words = rest.split()
    return head.partition("(")[2], words[0], words[19]


def _leave() -> None:
    # Seen by the others if they wait for this rank.
    with contextlib.suppress(OSError):
        Path("/proc/self/comm").write_text(_LEAVING)


class _Watch:
    def __init__(self, rank: int, ranks: int, peers: dict[int, tuple[int, str]]):
        self._rank, self._ranks, self._peers = rank, ranks, peers
        self._stopped = dict.fromkeys(peers, 0)  # looks in a row that found a rank stopped

    def look(self) -> None:
        # Looks are counted, not seconds: if the whole job is suspended, so is this.
        while True:
            time.sleep(_PAUSE)
            states = {rank: self._of(rank) for rank in self._peers if rank != self._rank}
            for rank, (_, state) in states.items():
                self._stopped[rank] = self._stopped[rank] + 1 if state == "T" else 0
            # One rank speaks, the others only if it does not end all.
            later = self._order([rank for rank, (_, state) in states.items() if state != "T"])
            long = [rank for rank, looks in self._stopped.items() if looks * _PAUSE >= STOPPED + later]
            if long:
                self._end(f"rank {long[0]} of {self._ranks} was stopped (SIGSTOP)")
            left = [rank for rank, (name, _) in states.items() if name == _LEAVING]
            later = self._order([rank for rank in states if rank not in left])
            for since, wanted in list(_waiting.values()):
                lost = [rank for rank in left if not wanted or rank in wanted]
                if lost and time.monotonic() - since >= LEFT + later:
                    self._end(f"rank {lost[0]} of {self._ranks} has left while others wait for it")

    def _order(self, others: list[int]) -> int:
        return min(sum(rank < self._rank for rank in others), 5)

    def _of(self, rank: int) -> tuple[str, str]:
        pid, start = self._peers[rank]
        found = _state(pid)
        return (found[0], found[1]) if found and found[2] == start else (_LEAVING, "gone")

    def _end(self, what: str) -> None:
        if not rank_status.lost(what):
            with contextlib.suppress(OSError):
                os.write(2, f"wavefabric: {what}; all ranks end\n".encode())
        shared_files.remove_own()
        os._exit(1)  # which ends the others, the stopped one too
