"""One command in a process of its own: with a time limit, and nothing left running after it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, NamedTuple

from wavefabric.system.processes import follow_parent

#: `wavefabric` of this Python.
PROGRAM = (sys.executable, "-m", "wavefabric")
_LOOK = 0.2
#: Signals that end a command, and the seconds that it has after each. `wavefabric` with ``--ranks`` hands the
#: first to its ranks, and kills them all at the third.
_ENDING = ((signal.SIGINT, 15.0), (signal.SIGINT, 0.5), (signal.SIGINT, 5.0), (signal.SIGTERM, 3.0))


class Ended(NamedTuple):
    """How a command ended: exit code (minus a signal), time in s, and whether it ran past its limit."""

    code: int
    seconds: float
    late: bool


def run_command(
    words: Sequence[str],
    log: Path,
    output: Path | None,
    limit: float,
    tick: Callable[[float], object],
    program: Sequence[str] = PROGRAM,
    settings: Sequence[str] = (),
) -> Ended:
    """Run a command for at most `limit` s; ``tick`` is called with the seconds so far.

    ``settings`` are variables of its environment, NAME=value.

    What it prints goes to the files ``log`` and ``output`` (stdout; None: to the log too). Whatever ends the
    wait, Ctrl-C too, ends the command and all that it has started.
    """
    begun = time.monotonic()
    with contextlib.ExitStack() as files:
        said: IO[bytes] = files.enter_context(open(log, "wb"))
        process = subprocess.Popen(
            [*program, *words],
            env=os.environ | dict(each.split("=", 1) for each in settings),
            stdin=subprocess.DEVNULL,
            stdout=said if output is None else files.enter_context(open(output, "wb")),
            stderr=said,
            start_new_session=True,
            preexec_fn=follow_parent,
        )
    late, code = False, None
    try:
        while code is None and not late:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_LOOK)
            tick(time.monotonic() - begun)
            code = process.poll()
            late = code is None and time.monotonic() - begun > limit
    finally:
        code = _end(process)
    return Ended(code, time.monotonic() - begun, late)


def _end(process: subprocess.Popen[bytes]) -> int:
    """End it and what is left of its session; the exit code."""
    with _undisturbed():
        for number, patience in _ENDING:
            if process.poll() is not None:
                break
            process.send_signal(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(patience)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        return process.wait()


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """No Ctrl-C or SIGTERM here: a second one would leave the command running."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
