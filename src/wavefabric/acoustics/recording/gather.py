"""What ranks record, put together on rank 0: columns of sensor points, blocks of fields, one sink.

Everything here is collective unless it says otherwise, runs in the main thread, and moves NumPy arrays over
the control plane. Sums over ranks are in rank order, so that answers repeat bit for bit.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from wavefabric.acoustics.recording.sinks import Layout, Report, Sink
from wavefabric.acoustics.recording.writer_thread import Writer
from wavefabric.results.agree import agree, describe, rebuild


class Columns:
    """Where the samples of each rank stand among all samples of a sensor.

    Parameters
    ----------
    comm : Communicator
    columns : ndarray of int64, shape (mine,)
        This rank's; those of different ranks are different, unless they are `added`.
    samples : int
        All.
    """

    def __init__(self, comm, columns: np.ndarray, samples: int):
        self._comm, self.samples = comm, samples
        self._mine = np.ascontiguousarray(columns, np.int64)
        self._places: list[Any] = []
        counts = comm.control.gather(self._mine.size)
        if comm.rank:
            comm.control.send_array(0, self._mine)
            return
        for rank, count in enumerate(counts):
            found = self._mine
            if rank:
                found = np.empty(count, np.int64)
                comm.control.recv_array(rank, found)
            self._places.append((count, _as_slice(found)))

    def gather(self, values: np.ndarray) -> np.ndarray | None:
        """All samples (…, samples) on rank 0, from each rank's (…, mine); None on the others."""
        found = None
        for place, part in self._parts(values):
            if found is None:
                found = np.empty((*values.shape[:-1], self.samples), values.dtype)
            found[..., place] = part
        return found

    def added(self, values: np.ndarray) -> np.ndarray | None:
        """As `gather`, but samples that several ranks have a share in are sums, in double precision."""
        found = None
        for place, part in self._parts(values):
            if found is None:
                found = np.zeros((*values.shape[:-1], self.samples))
            # Each rank has a column once, so that this adds up right.
            found[..., place] += part
        return found

    def _parts(self, values: np.ndarray) -> Iterator[tuple[Any, np.ndarray]]:
        """On rank 0: places and values of all ranks, in their order; nothing on the others, which send."""
        control = self._comm.control
        if self._comm.rank:
            if self._mine.size:
                control.send_array(0, np.ascontiguousarray(values))
            return
        for rank, (count, place) in enumerate(self._places):
            if rank == 0:
                yield place, values
            elif count:
                part = np.empty((*values.shape[:-1], count), values.dtype)
                control.recv_array(rank, part)
                yield place, part


def _as_slice(index: np.ndarray) -> Any:
    """The same places as a slice if they follow one another: copied many times faster."""
    if index.size and (np.diff(index) == 1).all():
        return slice(int(index[0]), int(index[-1]) + 1)
    return index


class Blocks:
    """The owned blocks of all ranks, which together are the grid.

    Parameters
    ----------
    comm : Communicator
    parts : list of Part
        Of all ranks.
    """

    def __init__(self, comm, parts: list):
        self._comm = comm
        self._shape = parts[0].shape[::-1]
        self._boxes = [
            tuple(slice(o, o + n) for o, n in zip(part.owned_first[::-1], part.owned_size[::-1], strict=True))
            for part in parts
        ]

    def gather(self, block: np.ndarray) -> np.ndarray | None:
        """The whole field (Nz, Ny, Nx) on rank 0, from each rank's owned block; None on the others."""
        control = self._comm.control
        if self._comm.rank:
            control.send_array(0, np.ascontiguousarray(block))
            return None
        whole = np.empty(self._shape, block.dtype)
        whole[self._boxes[0]] = block
        for rank, box in enumerate(self._boxes[1:], 1):
            part = np.empty(tuple(s.stop - s.start for s in box), block.dtype)
            control.recv_array(rank, part)
            whole[box] = part
        return whole


class GatheredSink:
    """A `Sink` for what one rank of several has recorded; on rank 0 it fills the real one.

    Rows are written by a second thread while the next steps run. What goes wrong with the real sink is raised
    on all ranks, at the same call.

    Parameters
    ----------
    comm : Communicator
    sink : Sink or None
        The real one; not used on other ranks than 0.
    columns : Columns or None
        The sensor's points; None if only whole-domain quantities are recorded.
    blocks : Blocks
    layout : Layout
        Of the whole run: what the real sink is told.
    """

    def __init__(self, comm, sink: Sink | None, columns: Columns | None, blocks: Blocks, layout: Layout):
        self._comm, self._columns, self._blocks, self._layout = comm, columns, blocks, layout
        self._sink: Any = sink if comm.rank == 0 else None
        self._writer: Writer | None = None
        self._written: dict[str, threading.Event] = {}

    def begin(self, layout: Layout, rows_done: int) -> None:
        """Before the first step; ``layout`` is this rank's."""
        self._layout = replace(self._layout, run=layout.run)
        agree(self._comm, lambda: self._sink.begin(self._layout, rows_done))
        if self._comm.rank == 0:
            self._writer = Writer(self._sink)

    def rows(self, name: str, first: int, block: np.ndarray) -> None:
        """Rows of a series at this rank's points: the same rows of the same series on all ranks."""
        agree(self._comm, lambda: self._wait_for(name))
        assert self._columns is not None
        found = self._columns.gather(block)
        if self._writer is not None:
            done = self._written[name] = threading.Event()
            self._writer.put(name, first, lambda: found, done)

    def _wait_for(self, name: str) -> None:
        """Until the last rows of this series are written: no more than two blocks of it are in memory."""
        assert self._writer is not None
        event = self._written.get(name)
        while event is not None and not event.wait(0.2):
            self._writer.check()
        self._writer.check()

    def flush(self) -> None:
        """Make all rows so far last through a kill."""
        agree(self._comm, self._flush)

    def _flush(self) -> None:
        assert self._writer is not None
        self._writer.wait()
        self._sink.flush()

    def finish(self, arrays: Mapping[str, np.ndarray], report: Report) -> None:
        """Statistics at this rank's points and its owned blocks of fields, by name.

        Rank 0 leads: the others send what its sink asks for, one array at a time.
        """
        control = self._comm.control
        if self._comm.rank:
            while (asked := control.bcast(None))[0] is not None:
                self._gather(asked[0], arrays[asked[0]])
            if asked[1] is not None:
                raise rebuild(asked[1])
            return
        answers, error = _Answers(arrays, self._ask), None
        try:
            self._sink.finish(answers, report)
        except Exception as fault:
            error = fault
        control.bcast((None, describe(error)))
        if error is not None:
            raise error

    def _ask(self, name: str, mine: np.ndarray) -> np.ndarray:
        self._comm.control.bcast((name, None))
        found = self._gather(name, mine)
        assert found is not None
        return found

    def _gather(self, name: str, mine: np.ndarray) -> np.ndarray | None:
        if name in self._layout.fields:
            return self._blocks.gather(mine)
        assert self._columns is not None
        return self._columns.gather(mine)

    def abandon(self, keep: bool) -> None:
        """Of this rank alone: the run ends early."""
        self.close()
        if self._sink is not None:
            self._sink.abandon(keep)

    def close(self) -> None:
        """Of this rank alone: end the writer thread."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None


class Lazy(Mapping[str, np.ndarray]):
    """Arrays by name that are made when they are asked for, and not kept.

    Parameters
    ----------
    makers : dict of str to callable
    """

    def __init__(self, makers: Mapping[str, Callable[[], np.ndarray]]):
        self._makers = makers

    def __getitem__(self, name: str) -> np.ndarray:
        return self._makers[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


class _Answers(Mapping[str, np.ndarray]):
    """Whole arrays, gathered when they are asked for: only those that somebody keeps stay in memory."""

    def __init__(self, mine: Mapping[str, np.ndarray], ask: Callable[[str, np.ndarray], np.ndarray]):
        self._mine, self._ask = mine, ask

    def __getitem__(self, name: str) -> np.ndarray:
        return self._ask(name, self._mine[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._mine)

    def __len__(self) -> int:
        return len(self._mine)


def spread(comm, arrays: dict[str, np.ndarray] | None) -> dict[str, np.ndarray]:
    """Arrays of rank 0 on all ranks."""
    described = None if comm.rank else {name: (a.shape, a.dtype.str) for name, a in (arrays or {}).items()}
    found = {}
    for name, (shape, dtype) in comm.control.bcast(described).items():
        if comm.rank == 0:
            assert arrays is not None
            found[name] = arrays[name]
            for peer in range(1, comm.size):
                comm.control.send_array(peer, np.ascontiguousarray(arrays[name]))
        else:
            found[name] = np.empty(shape, np.dtype(dtype))
            comm.control.recv_array(0, found[name])
    return found
