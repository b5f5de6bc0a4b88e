"""Measure the time that this process spends compiling kernels, and announce compilation on stderr.

Without this a first run would seem to hang, and its steps to take a hundred times longer than they do.
"""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


class CompilationClock:
    """Measures the wall time during which at least one thread of this process compiles kernels."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._threads, self._began, self._ended = 0, 0.0, 0.0
        self._announced = False
        #: Whether the first compilation is announced on stderr.
        self.announces = True

    @contextmanager
    def compiling(self, announce_after: float | None = None) -> Iterator[None]:
        """Count the time inside this context as compilation; contexts that overlap count once.

        Compilation that takes longer than ``announce_after`` seconds is announced (None: never).
        """
        timer = threading.Timer(announce_after or 0.0, self.announce)
        with self._lock:
            if not self._threads:
                self._began = time.perf_counter()
            self._threads += 1
        if announce_after is not None:
            timer.start()
        try:
            yield
        finally:
            timer.cancel()
            with self._lock:
                self._threads -= 1
                if not self._threads:
                    self._ended += time.perf_counter() - self._began

    def announce(self) -> None:
        """Tell the user, once per process, that kernels are being compiled."""
        if self.announces and not self._announced:
            self._announced = True
            line = "compiling kernels for this GPU, 5 to 30 s; later runs read them from a cache"
            print(f"wavefabric: {line}", file=sys.stderr, flush=True)

    @contextmanager
    def announcing(self, announces: bool) -> Iterator[None]:
        """Suppress the announcement of compilation inside this context unless ``announces``."""
        before, self.announces = self.announces, self.announces and announces
        try:
            yield
        finally:
            self.announces = before

    def seconds(self) -> float:
        """Return the seconds spent on compilation so far, in this process."""
        with self._lock:
            running = time.perf_counter() - self._began if self._threads else 0.0
            return self._ended + running


CLOCK = CompilationClock()


def working_time() -> float:
    """Return the time in s of a clock like `time.perf_counter` that stops while kernels are compiled."""
    return time.perf_counter() - CLOCK.seconds()
