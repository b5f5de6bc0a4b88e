"""From the recorders of all ranks to the sink: gathered on rank 0, then written there by a second thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from wavefabric.acoustics.recording.gather import RankParts
from wavefabric.acoustics.recording.sinks import RecordingLayout, Report, Sink
from wavefabric.lifecycle.agreement import on_first_rank

_T = TypeVar("_T")


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
        columns: RankParts | None = None,
        blocks: RankParts | None = None,
    ):
        self._comm, self._columns, self._blocks, self._layout = comm, columns, blocks, layout
        self._first = comm is None or comm.rank == 0
        self._sink: Any = sink if self._first else None
        self._thread: Any = None
        # Writes that nobody has waited for; those of each series may need two blocks of memory, no more.
        self._writes: deque[Future] = deque()
        self._last_write: dict[str, Future] = {}

    def _on_first(self, call: Callable[[], _T]) -> _T:
        """Call on rank 0; its errors on all ranks."""
        return call() if self._comm is None else on_first_rank(self._comm, call)

    def begin(self, run: str, rows_done: int) -> None:
        """Before the first step; ``run`` as in `RecordingLayout`."""
        layout = replace(self._layout, run=run)
        self._on_first(lambda: self._sink.begin(layout, rows_done))
        if self._first:
            self._thread = ThreadPoolExecutor(1, "wavefabric-writer")

    def put_rows(self, name: str, first: int, host: Callable[[], np.ndarray]) -> Future | None:
        """Rows of a series at this rank's points; they may change once the future, if any, is done."""
        if self._comm is None:
            self._check_writes()
            return self._write(name, first, host)
        self._on_first(lambda: self._check_writes(name))
        assert self._columns is not None
        whole = self._columns.gather(host())
        if self._first:
            self._last_write[name] = self._write(name, first, lambda: whole)
        return None

    def _write(self, name: str, first: int, host: Callable[[], Any]) -> Future:
        """Write in the other thread what ``host()`` returns."""
        future = self._thread.submit(lambda: self._sink.write_rows(name, first, host()))
        self._writes.append(future)
        return future

    def _check_writes(self, name: str = "") -> None:
        """Raise what went wrong with a write; wait for the last one of the series ``name``."""
        if name in self._last_write:
            self._last_write[name].result()
        while self._writes and self._writes[0].done():
            self._writes.popleft().result()

    def flush(self) -> None:
        """Make all rows so far last through a kill."""

        def write_all() -> None:
            while self._writes:
                self._writes.popleft().result()
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
        """End the writing thread; rows that nobody waited for may be left out."""
        if self._thread is not None:
            self._thread.shutdown(cancel_futures=True)
            self._thread = None
