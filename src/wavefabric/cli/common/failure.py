"""End the command after an error: one line on stderr and an exit code, agreed between all ranks."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from wavefabric.base.errors import InputError, MissingExtra, one_line
from wavefabric.base.system.deferred_interrupt import INTERRUPTED, TERMINATED, TERMINATING
from wavefabric.runtime.exchange.launch import dev_shm, environment, rank_status

if TYPE_CHECKING:
    from wavefabric.runtime.exchange.communicator import Communicator

BAD_INPUT, FAILED = 2, 1
#: Seconds that a failing rank waits for the other ranks to fail too, by exit code: after Ctrl-C a rank may
#: still be writing. `_SHORT` is for all other exit codes.
_TIMEOUT = {INTERRUPTED: 20.0, TERMINATED: 20.0}
_SHORT = 2.0
#: Seconds after which a rank is forced to exit, since MPI may wait for its peers forever.
_LEAVING = 10.0


def fail(message: str) -> int:
    """Print ``message`` as one line on stderr, and return the exit code for bad input."""
    _write_line(f"wavefabric: error: {one_line(message)}")
    return BAD_INPUT


def show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Print a warning as one line on stderr, without file and line; replaces `warnings.showwarning`."""
    _write_line(f"wavefabric: warning: {one_line(str(message))}")


def describe(error: BaseException) -> str:
    """Return the message that users get for an error."""
    match error:
        case InputError() | MissingExtra():
            return str(error)
        case MemoryError():
            return f"memory: {str(error) or 'not enough for this run'}"
        case OSError() if error.strerror:
            return f"{error.filename or 'standard output'}: {error.strerror}"
    return f"{type(error).__name__}: {error}"


def leave(
    code: int, message: str = "", error: BaseException | None = None, comm: Communicator | None = None
) -> int:
    """End one of several ranks: agree with the others on which rank prints, or abort ranks that keep running.

    ``code`` and ``message`` (or "") are this rank's exit code and error. The rank that prints also shows the
    traceback of ``error``. ``comm`` is the communicator of the ranks, if open. Return the highest exit code
    of all ranks, or ``code`` if there is no control plane or ``code`` is 0.
    """
    if code == 0:
        rank_status.exits(0)
        return 0
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, *TERMINATING):
            signal.signal(number, signal.SIG_IGN)  # a second Ctrl-C would print a traceback
    rank, ranks = environment.rank(), environment.ranks()
    message = one_line(message)

    def alone() -> None:
        _trace(error)
        if message or code in _TIMEOUT:
            _write_line(f"wavefabric: rank {rank} of {ranks}: {message or 'interrupted; all ranks end'}")
        rank_status.exits(code)

    from wavefabric.runtime.exchange.control import world_control

    timeout = _TIMEOUT.get(code, _SHORT)
    # Making the control plane would wait forever for ranks that keep running.
    timer = _exit_later(timeout + _SHORT, code, alone)
    try:
        control = world_control() if comm is None else comm.control
    except (MissingExtra, InputError):
        timer.cancel()
        # As a rule all ranks lack the control plane then, so one of them prints.
        if rank == 0:
            fail(message)
        rank_status.exits(code)
        return code
    ends = control.gather_failures(message, code, timeout)
    timer.cancel()
    if ends is None:
        alone()
        _exit_later(_LEAVING, code)
        control.abort(code)
    speaker = next((number for number, (text, _) in enumerate(ends) if text), None)
    if speaker == rank:
        _trace(error)
        alike = all(text == message for text, _ in ends)
        _write_line(f"wavefabric: error: {'' if alike else f'rank {rank} of {ranks}: '}{message}")
    # Some mpiexecs kill all ranks as soon as one exits with an error: the line must be printed before.
    control.gather_failures("", code, _SHORT)
    code = max(number for _, number in ends)
    rank_status.exits(code)
    _exit_later(_LEAVING, code)
    return code


def _trace(error: BaseException | None) -> None:
    if error is not None:
        import traceback

        traceback.print_exception(error)


def _write_line(line: str) -> None:
    # One write: ranks share the stream.
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def _exit_later(seconds: float, code: int, first: Callable[[], object] = lambda: None) -> threading.Timer:
    """Call ``first`` and exit after ``seconds`` if the process still runs: MPI may wait for peers forever."""

    def end() -> None:
        first()
        dev_shm.remove_own()
        os._exit(code)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    return timer
