"""Ctrl-C, SIGTERM and SIGUSR1 between time steps, not within one: a checkpoint needs whole steps."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import NoReturn


class Terminated(KeyboardInterrupt):
    """One of `TERMINATING`. Handled wherever Ctrl-C is."""


#: What batch systems send some time before they kill. mpirun of Open MPI kills half a second after it was
#: given SIGTERM; SIGUSR1 it hands on.
TERMINATING = (signal.SIGTERM, signal.SIGUSR1)


#: Exit codes after Ctrl-C and SIGTERM: 128 and the signal, as shells count. SIGUSR1 has that of SIGTERM.
INTERRUPTED, TERMINATED = 130, 143


class _Signals:
    terminated = False  # whether one of `TERMINATING` has come


def exit_code() -> int:
    """Of what was interrupted: 130, or 143 if SIGTERM did it."""
    return TERMINATED if _Signals.terminated else INTERRUPTED


class DeferredInterrupt:
    """While inside, the first Ctrl-C or a SIGTERM only sets ``requested``; a second Ctrl-C interrupts at
    once.

    A second SIGTERM does nothing: batch systems, mpiexec and launchers may each send one. SIGUSR1 counts as
    SIGTERM. Both are left to whoever has a handler for them. Does nothing outside the main thread, where
    Python delivers no signals.
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
        """Raise KeyboardInterrupt if it was asked for."""
        if self.requested:
            self.stop()

    def stop(self) -> NoReturn:
        """Raise KeyboardInterrupt, or `Terminated` if SIGTERM asked for it."""
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
    # What the first one set going, such as saving, is not interrupted by another.
    if not _Signals.terminated:
        _Signals.terminated = True
        raise Terminated


@contextlib.contextmanager
def terminable() -> Iterator[None]:
    """Inside, the first SIGTERM or SIGUSR1 raises `Terminated`, so that what is unfinished is removed."""
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
