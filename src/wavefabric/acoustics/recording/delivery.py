"""Delivers recorded data to the sink: gathers them from all ranks on rank 0, writes in a second thread."""

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np

from wavefabric.acoustics.recording.sinks import RecordingLayout, Report, Sink
from wavefabric.runtime.lifecycle.collective_checks import on_first_rank


class Delivery:
    """Passes the recorded data of one or several ranks to a sink, which stores them in memory or in a file.

    All ranks call each method together, except `abandon` and `close`, and all raise an error of the sink.
    ``layout`` describes the recording of the whole run. ``columns`` says which sensor points each rank has,
    ``blocks`` which part of the grid; these and ``comm`` are None with one rank.
    """

    def __init__(
        self,
        sink: Sink | None,
        layout: RecordingLayout,
        comm: Any = None,
        columns: "RankParts | None" = None,
        blocks: "RankParts | None" = None,
    ):
        self._comm, self._columns, self._blocks, self._layout = comm, columns, blocks, layout
        self._first = comm is None or comm.rank == 0
        self._sink: Any = sink if self._first else None
        self._thread: Any = None
        # Writes not yet waited for; the pending writes of a series need at most two blocks of memory.
        self._writes: deque[Future] = deque()
        self._last_write: dict[str, Future] = {}

    def _on_first(self, call: Callable[[], None]) -> None:
        """Run ``call`` on rank 0; raise its errors on all ranks."""
        if self._comm is None:
            call()
        else:
            on_first_rank(self._comm, call)

    def begin(self, run: str, rows_done: int) -> None:
        """Prepare the sink for the run with the identifier ``run``.

        ``rows_done`` is the number of rows, one per time step, that were recorded before a checkpoint.
        """
        layout = replace(self._layout, run=run)
        self._on_first(lambda: self._sink.begin(layout, rows_done))
        if self._first:
            self._thread = ThreadPoolExecutor(1, "wavefabric-writer")

    def put_rows(self, name: str, first: int, host: Callable[[], np.ndarray]) -> Future | None:
        """Write the rows that ``host()`` returns to series ``name``, from row number ``first`` on.

        With one rank a future is returned: the memory of the rows may be reused once it is done. With several
        ranks None is returned: the memory may be reused at once.
        """
        if self._columns is None:
            self._check_writes()
            return self._write(name, first, host)
        self._on_first(lambda: self._check_writes(name))
        whole = self._columns.gather(host())
        if self._first:
            self._last_write[name] = self._write(name, first, lambda: whole)
        return None

    def _write(self, name: str, first: int, host: Callable[[], Any]) -> Future:
        """Write the rows that ``host()`` returns to the sink, in the writing thread."""
        future = self._thread.submit(lambda: self._sink.write_rows(name, first, host()))
        self._writes.append(future)
        return future

    def _check_writes(self, name: str = "") -> None:
        """Raise the errors of writes that are done; wait for the last write of series ``name``, if given."""
        if name in self._last_write:
            self._last_write[name].result()
        while self._writes and self._writes[0].done():
            self._writes.popleft().result()

    def flush(self) -> None:
        """Write all rows so far, so that they survive if the process is killed."""

        def write_all() -> None:
            while self._writes:
                self._writes.popleft().result()
            self._sink.flush()

        self._on_first(write_all)

    def finish(self, arrays: Mapping[str, Callable[[], np.ndarray]], report: Report) -> None:
        """Gather statistics and fields from all ranks, one array at a time, and pass them to the sink.

        ``arrays`` is a dictionary from name to a function that computes this rank's part.
        """
        gathered = self._gathered(arrays)

        def finish_sink() -> None:
            try:
                self._sink.finish(gathered, report)
            finally:
                deque(gathered, 0)  # if the sink failed: receive the rest, which the other ranks send

        if not self._first:
            deque(gathered, 0)
        self._on_first(finish_sink)

    def _gathered(self, arrays: Mapping[str, Callable[[], np.ndarray]]) -> Iterator[tuple[str, Any]]:
        for name, make in arrays.items():
            parts = self._blocks if name in self._layout.fields else self._columns
            yield name, make() if parts is None else parts.gather(make())

    def abandon(self, keep: bool) -> None:
        """End the run early; with ``keep`` the sink keeps its files, since a checkpoint needs them."""
        self.close()
        if self._first:
            self._sink.abandon(keep)

    def close(self) -> None:
        """End the writing thread; rows that were not waited for may be lost."""
        if self._thread is not None:
            self._thread.shutdown(cancel_futures=True)
            self._thread = None


class RankParts:
    """Describes which part of an array each rank has, by indices into the array's last axes.

    ``shape`` is the shape of the whole array along these axes.
    """

    def __init__(self, comm, shape: tuple[int, ...], indices: list[tuple], sizes: list[tuple[int, ...]]):
        self._comm, self._shape, self._indices, self._sizes = comm, shape, indices, sizes

    @classmethod
    def of_columns(cls, comm, columns: np.ndarray, samples: int) -> "RankParts":
        """Describe data at ``samples`` sensor points, of which this rank has those numbered ``columns``.

        Several ranks may have the same column if their values are added by `summed`.
        """
        columns = np.ascontiguousarray(columns, np.int64)
        sizes = [(count,) for count in comm.control.all_gather(columns.size)]
        parts = cls(comm, (samples,), [()] * comm.size, sizes)
        for rank, (_, part) in enumerate(parts._parts(columns, ())):
            # Consecutive columns are copied many times faster as a slice.
            follows = part.size and (np.diff(part) == 1).all()
            parts._indices[rank] = (slice(int(part[0]), int(part[-1]) + 1) if follows else part,)
        return parts

    @classmethod
    def of_blocks(cls, comm, parts: list) -> "RankParts":
        """Describe fields, of which each rank has the block of grid points that it owns.

        ``parts`` are the `Subdomain` objects of all ranks.
        """
        indices = [
            tuple(slice(o, o + n) for o, n in zip(part.owned_first[::-1], part.owned_size[::-1], strict=True))
            for part in parts
        ]
        return cls(comm, parts[0].shape[::-1], indices, [part.owned_size[::-1] for part in parts])

    def gather(self, values: np.ndarray) -> np.ndarray | None:
        """Gather an array, of which each rank has ``values``; return it on rank 0, None elsewhere."""
        if self._comm.size == 1:
            return values
        leading = values.shape[: values.ndim - len(self._shape)]  # axes that are not divided
        whole = None if self._comm.rank else np.empty((*leading, *self._shape), values.dtype)
        for index, part in self._parts(values, leading):
            whole[(..., *index)] = part  # type: ignore[index]
        return whole

    def summed(self, values: np.ndarray) -> np.ndarray | None:
        """Add the ``values`` of all ranks in rank order; return float64 sums on rank 0, None elsewhere."""
        whole = None if self._comm.rank else np.zeros(self._shape)
        for index, part in self._parts(values, ()):
            # A rank has no index twice, so += adds every value.
            whole[index] += part  # type: ignore[index]
        return whole

    def _parts(self, values: np.ndarray, leading: tuple[int, ...]) -> Iterator[tuple[tuple, np.ndarray]]:
        """Send each rank's ``values`` to rank 0; yield there each rank's indices and values, in order."""
        comm = self._comm
        if comm.rank:
            if math.prod(self._sizes[comm.rank]):
                comm.control.send_array(0, np.ascontiguousarray(values))
            return
        yield self._indices[0], values
        for rank in range(1, comm.size):
            part = np.empty((*leading, *self._sizes[rank]), values.dtype)
            if math.prod(self._sizes[rank]):
                comm.control.recv_array(rank, part)
            yield self._indices[rank], part


def broadcast(comm, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Send the dictionary ``arrays``, from name to array, from rank 0 to all ranks; return it there."""
    if comm.size == 1:
        return arrays
    received = {}
    for name, shape, dtype in comm.control.bcast([(k, a.shape, a.dtype.str) for k, a in arrays.items()]):
        if comm.rank:
            received[name] = np.empty(shape, np.dtype(dtype))
            comm.control.recv_array(0, received[name])
        else:
            received[name] = arrays[name]
            for peer in range(1, comm.size):
                comm.control.send_array(peer, np.ascontiguousarray(arrays[name]))
    return received
