"""From the recorders of all ranks to the sink: gathered on rank 0, then written there by a second thread."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from wavefabric.acoustics.recording.gather import GridBlocks, SensorColumns
from wavefabric.acoustics.recording.sinks import RecordingLayout, Report, Sink
from wavefabric.lifecycle.agreement import on_first_rank

_T = TypeVar("_T")


class WriterThread:
    """Copies blocks to the host and gives them to the sink, in order, while the next steps run."""

    def __init__(self, sink: Sink):
        self._sink, self._error = sink, None
        self._queue: queue.Queue = queue.Queue()
        self._thread = threading.Thread(target=self._work, daemon=True, name="wavefabric-writer")
        self._thread.start()

    def put(self, name: str, first: int, host: Callable[[], Any], done: threading.Event) -> None:
        """Write the rows that ``host()`` returns, then set ``done``."""
        self.check()
        self._queue.put((name, first, host, done))

    def wait(self) -> None:
        """Until all is written."""
        self._queue.join()
        self.check()

    def wait_for(self, done: threading.Event) -> None:
        """Until one block is written."""
        while not done.wait(0.2):
            self.check()

    def check(self) -> None:
        """Raise here what went wrong in the thread."""
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def close(self) -> None:
        """End the thread."""
        self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        failed = False
        while (item := self._queue.get()) is not None:
            name, first, host, done = item
            try:
                if not failed:
                    self._sink.write_rows(name, first, host())
            except BaseException as error:
                self._error, failed = error, True
            finally:
                done.set()
                self._queue.task_done()
        self._queue.task_done()


class Delivery:
    """Gives a sink what one rank, or several, have recorded; collective but for `abandon` and `close`.

    What goes wrong with the sink is raised on all ranks, at the same call. ``layout`` is that of the whole
    run. With one rank ``comm`` and ``blocks`` are None; ``columns`` is None without a sensor, too.
    """

    def __init__(
        self,
        sink: Sink | None,
        layout: RecordingLayout,
        comm: Any = None,
        columns: SensorColumns | None = None,
        blocks: GridBlocks | None = None,
    ):
        self._comm, self._columns, self._blocks, self._layout = comm, columns, blocks, layout
        self._first = comm is None or comm.rank == 0
        self._sink: Any = sink if self._first else None
        self._writer: Any = None
        self._written: dict[str, threading.Event] = {}

    def _on_first(self, call: Callable[[], _T]) -> _T:
        """Call on rank 0; its errors on all ranks."""
        return call() if self._comm is None else on_first_rank(self._comm, call)

    def begin(self, run: str, rows_done: int) -> None:
        """Before the first step; ``run`` as in `RecordingLayout`."""
        layout = replace(self._layout, run=run)
        self._on_first(lambda: self._sink.begin(layout, rows_done))
        if self._first:
            self._writer = WriterThread(self._sink)

    def put_rows(self, name: str, first: int, host: Callable[[], np.ndarray], done: threading.Event) -> None:
        """Rows of a series at this rank's points, which may change once ``done`` is set."""
        if self._comm is None:
            self._writer.put(name, first, host, done)
            return
        self._on_first(lambda: self._check_written(name))
        assert self._columns is not None
        whole = self._columns.gather(host())
        done.set()
        if self._first:
            written = self._written[name] = threading.Event()
            self._writer.put(name, first, lambda: whole, written)

    def _check_written(self, name: str) -> None:
        """Wait for the last rows of this series: no more than two blocks of it are in memory."""
        if name in self._written:
            self._writer.wait_for(self._written[name])
        self._writer.check()

    def wait_for(self, done: threading.Event) -> None:
        """Until rows that were put may change."""
        if not done.is_set():
            self._writer.wait_for(done)

    def flush(self) -> None:
        """Make all rows so far last through a kill."""

        def write_all() -> None:
            self._writer.wait()
            self._sink.flush()

        self._on_first(write_all)

    def finish(self, arrays: Mapping[str, Callable[[], np.ndarray]], report: Report) -> None:
        """Statistics at this rank's points and its owned blocks of fields, made one at a time."""
        gathered = self._gathered(arrays)

        def finish_sink() -> None:
            try:
                self._sink.finish(gathered, report)
            finally:
                deque(gathered, 0)  # what a sink that failed has left: the other ranks send it

        if not self._first:
            deque(gathered, 0)
        self._on_first(finish_sink)

    def _gathered(self, arrays: Mapping[str, Callable[[], np.ndarray]]) -> Iterator[tuple[str, Any]]:
        for name, make in arrays.items():
            if self._comm is None:
                yield name, make()
            else:
                parts = self._blocks if name in self._layout.fields else self._columns
                assert parts is not None
                yield name, parts.gather(make())

    def abandon(self, keep: bool) -> None:
        """The run ends early."""
        self.close()
        if self._first:
            self._sink.abandon(keep)

    def close(self) -> None:
        """End the writer thread."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
