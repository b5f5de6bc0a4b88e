"""What ranks hold of sensor points and fields, put together on rank 0; collective, over the control plane.

Sums over ranks are in rank order, so that results repeat bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np


class SensorColumns:
    """Where the sensor points of each rank are among all ``samples`` points of a sensor.

    ``columns`` are this rank's; those of different ranks differ, unless their values are `summed`.
    """

    def __init__(self, comm, columns: np.ndarray, samples: int):
        self._comm, self.samples = comm, samples
        self._own = np.ascontiguousarray(columns, np.int64)
        self._of_ranks: list[tuple[int, Any]] = []
        counts = comm.control.gather(self._own.size)
        if comm.rank:
            comm.control.send_array(0, self._own)
            return
        for rank, count in enumerate(counts):
            columns = self._own
            if rank:
                columns = np.empty(count, np.int64)
                comm.control.recv_array(rank, columns)
            self._of_ranks.append((count, _as_slice(columns)))

    def gather(self, values: np.ndarray) -> np.ndarray | None:
        """All points (…, samples) on rank 0, from each rank's (…, own points); None on the others."""
        whole = None
        for columns, part in self._parts(values):
            if whole is None:
                whole = np.empty((*values.shape[:-1], self.samples), values.dtype)
            whole[..., columns] = part
        return whole

    def summed(self, values: np.ndarray) -> np.ndarray | None:
        """As `gather`, but points that several ranks have a share in are sums, in double precision."""
        whole = None
        for columns, part in self._parts(values):
            if whole is None:
                whole = np.zeros((*values.shape[:-1], self.samples))
            # Each rank has a column once, so that this adds up right.
            whole[..., columns] += part
        return whole

    def _parts(self, values: np.ndarray) -> Iterator[tuple[Any, np.ndarray]]:
        """On rank 0: columns and values of all ranks, in their order; nothing on the others, which send."""
        control = self._comm.control
        if self._comm.rank:
            if self._own.size:
                control.send_array(0, np.ascontiguousarray(values))
            return
        for rank, (count, columns) in enumerate(self._of_ranks):
            if rank == 0:
                yield columns, values
            elif count:
                part = np.empty((*values.shape[:-1], count), values.dtype)
                control.recv_array(rank, part)
                yield columns, part


def _as_slice(index: np.ndarray) -> Any:
    """The same columns as a slice if they follow one another: copied many times faster."""
    if index.size and (np.diff(index) == 1).all():
        return slice(int(index[0]), int(index[-1]) + 1)
    return index


class GridBlocks:
    """The owned blocks of all ranks (their `Part`), which together are the grid."""

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


def broadcast(comm, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Arrays of rank 0 on all ranks."""
    if comm.size == 1:
        return arrays
    described = {name: (array.shape, array.dtype.str) for name, array in arrays.items()}
    received = {}
    for name, (shape, dtype) in comm.control.bcast(described).items():
        if comm.rank == 0:
            received[name] = arrays[name]
            for peer in range(1, comm.size):
                comm.control.send_array(peer, np.ascontiguousarray(arrays[name]))
        else:
            received[name] = np.empty(shape, np.dtype(dtype))
            comm.control.recv_array(0, received[name])
    return received
