"""How the command ends: one clear line and an exit code, from one process or from all ranks at once."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from wavefabric.errors import InputError, MissingExtra, one_line
from wavefabric.exchange.launch import dev_shm, environment, rank_status
from wavefabric.system.interrupt import INTERRUPTED, TERMINATED, TERMINATING

if TYPE_CHECKING:
    from wavefabric.exchange.communicator import Communicator

BAD_INPUT, FAILED = 2, 1
#: Seconds that a failing rank waits for the others to fail as well; after Ctrl-C one may still be writing.
_TIMEOUT = {INTERRUPTED: 20.0, TERMINATED: 20.0}
_SHORT = 2.0
#: Seconds after which a rank that cannot leave (MPI waits for peers) is ended.
_LEAVING = 10.0


def fail(message: str) -> int:
    """Say what is wrong in one line on stderr; gives the exit code."""
    _say(f"wavefabric: error: {one_line(message)}")
    return BAD_INPUT


def show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Instead of `warnings.showwarning`: one line on stderr, without file and line of the source."""
    _say(f"wavefabric: warning: {one_line(str(message))}")


def describe(error: BaseException) -> str:
    """What to tell a user about an error."""
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
    """End one of several ranks: agree with the others on what to say, or stop them if they go on.

    ``code`` and ``message`` (one line, or nothing) are this rank's; ``error`` is shown with its traceback by
    the rank that speaks. ``comm`` is theirs, if it was opened. Gives the highest exit code of all ranks.
    """
    if code == 0:
        rank_status.exits(0)
        return 0
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, *TERMINATING):
            signal.signal(number, signal.SIG_IGN)  # it ends already: another Ctrl-C would be a traceback
    rank, ranks = environment.rank(), environment.ranks()
    message = one_line(message)

    def alone() -> None:
        _trace(error)
        if message or code in _TIMEOUT:
            _say(f"wavefabric: rank {rank} of {ranks}: {message or 'interrupted; all ranks end'}")
        rank_status.exits(code)

    from wavefabric.exchange.control import world_control

    timeout = _TIMEOUT.get(code, _SHORT)
    # Ranks that have gone on never come to a control plane which this one has yet to make.
    late = _later(timeout + _SHORT, code, alone)
    try:
        control = world_control() if comm is None else comm.control
    except (MissingExtra, InputError):
        late.cancel()
        # Not even the control plane is there, alike on all ranks as a rule.
        if rank == 0:
            fail(message)
        rank_status.exits(code)
        return code
    ends = control.gather_failures(message, code, timeout)
    late.cancel()
    if ends is None:
        alone()
        _later(_LEAVING, code)
        control.abort(code)
    speaker = next((number for number, (text, _) in enumerate(ends) if text), None)
    if speaker == rank:
        _trace(error)
        alike = all(text == message for text, _ in ends)
        _say(f"wavefabric: error: {'' if alike else f'rank {rank} of {ranks}: '}{message}")
    # Some mpiexecs kill all as soon as one leaves with an error: not before it is said.
    control.gather_failures("", code, _SHORT)
    code = max(number for _, number in ends)
    rank_status.exits(code)
    _later(_LEAVING, code)
    return code


def _trace(error: BaseException | None) -> None:
    if error is not None:
        import traceback

        traceback.print_exception(error)


def _say(line: str) -> None:
    # In one piece: ranks share a stream.
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def _later(seconds: float, code: int, first: Callable[[], object] = lambda: None) -> threading.Timer:
    """End this process if it is still there then: MPI may wait for others for ever."""

    def end() -> None:
        first()
        dev_shm.remove_own()
        os._exit(code)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    return timer
