"""Record the status of ranks started by `--ranks`: one line per event, in a file that all ranks append to.

    RANK started PID | RANK shared FILE | RANK exits CODE | RANK ended STATUS | RANK lost MESSAGE

Each rank has a parent process that waits for it and writes STATUS (exit code or minus a signal). So the order
of lines is the order of deaths, and exit codes and signals are exact under every mpiexec.
"""

import contextlib
import os
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from wavefabric.base.system.deferred_interrupt import TERMINATING
from wavefabric.base.system.processes import die_with_parent
from wavefabric.runtime.exchange.launch import dev_shm, environment

#: Pipes that ranks print to, which separates their output from mpiexec's.
STREAMS = ("stdout", "stderr")
_FILE = "status"


def begin() -> None:
    """Fork: the child continues as the rank, and the parent waits and tells the launcher how it ends.

    The child prints to the launcher. Does nothing without a launcher on this host. Call this before there are
    threads, MPI or CUDA.
    """
    folder = os.environ.get(environment.FOLDER)
    if not folder:
        return
    try:
        # Open for reading too: a rank that saves must not fail because its launcher was killed.
        pipes = [os.open(Path(folder) / name, os.O_RDWR) for name in STREAMS]
    except OSError:  # the launcher is on another host
        return
    die_with_parent(signal.SIGKILL)
    if child := os.fork():
        _report_end_of(child)
    die_with_parent(signal.SIGKILL)
    for number, pipe in enumerate(pipes, 1):
        os.dup2(pipe, number)
        os.close(pipe)
    _write("started", os.getpid())


def _report_end_of(child: int) -> NoReturn:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in TERMINATING:
        signal.signal(number, lambda *_: os.kill(child, signal.SIGTERM))
    status = 1
    try:
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        _write("ended", status)
        if status < 0:  # end this process the same way, so that mpiexec ends all ranks
            with contextlib.suppress(OSError):  # SIGKILL has no handler
                signal.signal(-status, signal.SIG_DFL)
            os.kill(os.getpid(), -status)
    finally:
        os._exit(abs(status))


def exits(code: int) -> None:
    """Tell the launcher that this rank exits with ``code``, and has printed why if that is not 0."""
    _write("exits", code)


def lost(message: str) -> bool:
    """Tell the launcher why this rank ends all ranks; return False if there is no launcher."""
    return _write("lost", message)


def close_output() -> None:
    """Discard stderr from now on if a launcher reports why ranks end: MPI would report an abort again."""
    if environment.FOLDER in os.environ:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def note_shared_files() -> None:
    """Tell the launcher which MPI files to remove if this rank is killed; call this after MPI has started."""
    if environment.FOLDER in os.environ:
        for file in dev_shm.mapped(os.getpid()):
            _write("shared", file)


def _write(event: str, value: object) -> bool:
    folder = os.environ.get(environment.FOLDER)
    if not folder:
        return False
    with contextlib.suppress(OSError):
        file = os.open(Path(folder) / _FILE, os.O_WRONLY | os.O_APPEND)
        os.write(file, f"{environment.rank()} {event} {value}\n".encode())
        os.close(file)
        return True
    return False


@dataclass
class RankStatus:
    """Holds the events that ranks have reported so far."""

    #: PID of each rank that has started, and MPI's files in shared memory.
    processes: dict[int, int] = field(default_factory=dict)
    shared: list[Path] = field(default_factory=list)
    #: Rank and status of the first rank that died without notice, if no rank had exited with an error before.
    first_dead: tuple[int, int] | None = None
    #: Highest exit code of the ranks that exited by themselves.
    code: int = 0
    #: Why a rank ended all ranks: another one was stopped or had left.
    lost: str = ""


def create(folder: Path) -> None:
    """Create the file for rank status and the pipes for ranks' output in the launcher's ``folder``."""
    (folder / _FILE).touch()
    for name in STREAMS:
        os.mkfifo(folder / name)


def read(folder: Path) -> RankStatus:
    """Return the events that ranks have written to the status file in ``folder`` so far."""
    status, left_ranks = RankStatus(), set()
    for line in (folder / _FILE).read_text(encoding="utf-8").splitlines():
        rank, event, value = line.split(" ", 2)
        match event:
            case "started":
                status.processes[int(rank)] = int(value)
            case "shared":
                status.shared.append(Path(value))
            case "lost":
                status.lost = status.lost or value
            case "exits":
                status.code = max(status.code, int(value))
                left_ranks.add(rank)
            case _ if rank not in left_ranks and not status.code and status.first_dead is None:
                status.first_dead = int(rank), int(value)
    return status
