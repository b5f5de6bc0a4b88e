"""Watch for ranks that were stopped (SIGSTOP), or that have left while others wait for them (Linux).

MPI waits for ever. So a thread of each rank checks the other processes of its host about once a second, in
/proc, without messages: a rank that computes or writes for an hour is not mistaken for a stopped one.
"""

import atexit
import contextlib
import os
import platform
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from wavefabric.runtime.exchange.launch import dev_shm, rank_status

#: Seconds that a rank may be stopped, and that others wait for a rank that has left, before all ranks end.
STOPPED, LEFT = 15, 10
_PAUSE = 1.0
#: Process name of a rank that is about to end by itself, as ``ps`` shows it; at most 15 characters.
_LEAVING = "wavefabric-left"

_waits: dict[int, tuple[float, tuple[int, ...]]] = {}  # thread → start of its wait, and the ranks waited for
_started = False


@contextlib.contextmanager
def waiting(*peers: int) -> Iterator[None]:
    """Record, while the block runs, that this thread waits for the ranks ``peers`` (none: for all ranks)."""
    thread = threading.get_ident()
    _waits[thread] = time.monotonic(), peers
    try:
        yield
    finally:
        _waits.pop(thread, None)


def start(comm) -> None:
    """Start to watch the other ranks of ``comm`` on this host; all ranks make the first call together."""
    global _started
    rank, ranks = comm.Get_rank(), comm.Get_size()
    if _started or ranks == 1:
        return
    _started = True
    identity = _identity()
    everybody = enumerate(comm.allgather(identity))
    if identity is None:
        return
    peers = {peer: each[1:] for peer, each in everybody if each and each[0] == identity[0] and peer != rank}
    atexit.register(_show_leaving)
    threading.Thread(target=_watch, args=(rank, ranks, peers), daemon=True).start()


def _identity() -> tuple[str, int, str] | None:
    """Return (host and PID namespace, PID, start time) of this process, or None without /proc."""
    if (process := _process(os.getpid())) is None:
        return None
    return f"{platform.node()} {os.readlink('/proc/self/ns/pid')}", os.getpid(), process[2]


def _process(pid: int) -> tuple[str, str, str] | None:
    """Return name, state and start time of a process; None if it is gone."""
    try:
        head, _, rest = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")
    except OSError:
        return None
    fields = rest.split()
    return head.partition("(")[2], fields[0], fields[19]


def _show_leaving() -> None:
    # Other ranks see this name if they wait for this rank.
    with contextlib.suppress(OSError):
        Path("/proc/self/comm").write_text(_LEAVING)


def _watch(own_rank: int, ranks: int, peers: dict[int, tuple[int, str]]) -> NoReturn:
    """Check other ranks of this host every second; end all ranks if one is stopped, or has left early.

    A rank has left early if others wait for it. ``own_rank`` is the number of this rank; ``peers`` is a
    dictionary from the number of another rank to its PID and start time.
    """
    # The lowest rank reports first; others only if it does not end all ranks.
    delay = min(own_rank, 5)
    # Count checks, not seconds: if the whole job is suspended, so is this thread.
    stopped_checks = dict.fromkeys(peers, 0)
    while True:
        time.sleep(_PAUSE)
        left_ranks = set()
        for rank, (pid, began) in peers.items():
            process = _process(pid)
            if process is None or process[2] != began or process[0] == _LEAVING:
                left_ranks.add(rank)
            stopped = process is not None and process[1] == "T"
            stopped_checks[rank] = stopped_checks[rank] + 1 if stopped else 0
            if stopped_checks[rank] * _PAUSE >= STOPPED + delay:
                _end_all(f"rank {rank} of {ranks} was stopped (SIGSTOP)")
        for since, wanted in list(_waits.values()):
            missing = sorted(left_ranks.intersection(wanted) if wanted else left_ranks)
            if missing and time.monotonic() - since >= LEFT + delay:
                _end_all(f"rank {missing[0]} of {ranks} has left while others wait for it")


def _end_all(reason: str) -> NoReturn:
    if not rank_status.lost(reason):
        with contextlib.suppress(OSError):
            os.write(2, f"wavefabric: {reason}; all ranks end\n".encode())
    dev_shm.remove_own()
    os._exit(1)  # this ends the other ranks, the stopped one too
