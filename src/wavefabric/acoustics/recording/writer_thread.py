"""The thread that writes what was recorded while the next steps run."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any

from wavefabric.acoustics.recording.sinks import Sink


class Writer:
    """The second thread: copies blocks to the host and gives them to the sink, in order."""

    def __init__(self, sink: Sink):
        self._sink, self._fault = sink, None
        self._queue: queue.Queue = queue.Queue()
        self._thread = threading.Thread(target=self._work, daemon=True, name="wavefabric-writer")
        self._thread.start()

    def put(self, name: str, first: int, host: Callable[[], Any], done: threading.Event) -> None:
        """Write what ``host()`` gives, then set ``done``."""
        self.check()
        self._queue.put((name, first, host, done))

    def wait(self) -> None:
        """Until all is written."""
        self._queue.join()
        self.check()

    def close(self) -> None:
        """End the thread."""
        self._queue.put(None)
        self._thread.join()

    def check(self) -> None:
        """Raise here what went wrong there."""
        if self._fault is not None:
            fault, self._fault = self._fault, None
            raise fault

    def _work(self) -> None:
        failed = False
        while (item := self._queue.get()) is not None:
            name, first, host, done = item
            try:
                if not failed:
                    self._sink.rows(name, first, host())
            except BaseException as fault:
                self._fault, failed = fault, True
            finally:
                done.set()
                self._queue.task_done()
        self._queue.task_done()


class Inline:
    """In the place of a `Writer`, for a sink that all ranks call together: no thread.

    Parameters
    ----------
    sink : GatheredSink
    """

    def __init__(self, sink: Any):
        self._sink = sink

    def put(self, name: str, first: int, host: Callable[[], Any], done: threading.Event) -> None:
        """Give rows to the sink, then set ``done``."""
        self._sink.rows(name, first, host())
        done.set()

    def wait(self) -> None:
        """Nothing is left here."""

    def check(self) -> None:
        """What goes wrong is raised at once."""

    def close(self) -> None:
        """End the sink's own thread."""
        self._sink.close()
