"""Ctrl-C between time steps, not within one: a checkpoint needs whole steps."""

from __future__ import annotations

import signal
import threading
from types import TracebackType


class Deferred:
    """While inside, the first Ctrl-C only sets `asked`; a second one interrupts at once.

    Does nothing outside the main thread, where Python delivers no signals.
    """

    def __init__(self) -> None:
        self.asked = False
        self._before: object = None

    def __enter__(self) -> Deferred:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._take)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)  # type: ignore[arg-type]

    def check(self) -> None:
        """Raise KeyboardInterrupt if it was asked for."""
        if self.asked:
            raise KeyboardInterrupt

    def _take(self, number: int, frame: object) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
