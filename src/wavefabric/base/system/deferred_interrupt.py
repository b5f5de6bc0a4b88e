"""Defer Ctrl-C, SIGTERM and SIGUSR1 to the end of a time step: a checkpoint needs complete steps."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import NoReturn


class Terminated(KeyboardInterrupt):
    """Raised on SIGTERM or SIGUSR1; a subclass of KeyboardInterrupt, so it is handled wherever Ctrl-C is."""


#: Signals that batch systems send some time before they kill a job. Open MPI's mpirun kills its ranks half a
#: second after it receives SIGTERM, but forwards SIGUSR1.
TERMINATING = (signal.SIGTERM, signal.SIGUSR1)


#: Exit codes after Ctrl-C and SIGTERM: 128 + signal, as POSIX shells. SIGUSR1 counts as SIGTERM.
INTERRUPTED, TERMINATED = 130, 143


class _Signals:
    terminated = False  # whether a signal of `TERMINATING` was received


def exit_code() -> int:
    """Return the exit code of an interrupted run: 130, or 143 after SIGTERM."""
    return TERMINATED if _Signals.terminated else INTERRUPTED


class DeferredInterrupt:
    """A context in which the first Ctrl-C or SIGTERM only sets ``requested``; a second Ctrl-C interrupts.

    A second SIGTERM is ignored: batch systems, mpiexec and launchers may each send one. SIGUSR1 counts as
    SIGTERM. Handlers of SIGTERM and SIGUSR1 that others have set stay. The context has no effect outside the
    main thread, since Python delivers signals only there.
    """

    def __init__(self) -> None:
        self.requested = False
        self._pressed = self._terminated = False
        self._before: dict[int, object] = {}

    def __enter__(self) -> "DeferredInterrupt":
        if threading.current_thread() is threading.main_thread():
            self._before = {signal.SIGINT: signal.signal(signal.SIGINT, self._handle)}
            for number in TERMINATING:
                if signal.getsignal(number) in (signal.SIG_DFL, _raise):
                    self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def check(self) -> None:
        """Raise KeyboardInterrupt if an interrupt was requested."""
        if self.requested:
            self.stop()

    def stop(self) -> NoReturn:
        """Raise KeyboardInterrupt, or `Terminated` after SIGTERM."""
        raise Terminated if self._terminated else KeyboardInterrupt

    def _handle(self, number: int, frame: object) -> None:
        if number in TERMINATING:
            self._terminated = _Signals.terminated = True
        elif self._pressed:
            raise KeyboardInterrupt
        else:
            self._pressed = True
        self.requested = True


def _raise(number: int, frame: object) -> None:
    # Actions started by the first signal, such as saving, are not interrupted by another.
    if not _Signals.terminated:
        _Signals.terminated = True
        raise Terminated


@contextlib.contextmanager
def terminable() -> Iterator[None]:
    """Raise `Terminated` on the first SIGTERM or SIGUSR1 in the block, which can then remove its files."""
    _Signals.terminated = False
    main = threading.current_thread() is threading.main_thread()
    ours = [number for number in TERMINATING if main and signal.getsignal(number) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, _raise)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)
