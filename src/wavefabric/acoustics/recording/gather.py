"""What ranks hold of sensor points and fields, put together on rank 0; collective, over the control plane."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np


class RankParts:
    """The parts of an array that ranks hold, by their indices into its last axes, which have this shape."""

    def __init__(self, comm, shape: tuple[int, ...], indices: list[tuple], sizes: list[tuple[int, ...]]):
        self._comm, self._shape, self._indices, self._sizes = comm, shape, indices, sizes

    @classmethod
    def of_columns(cls, comm, columns: np.ndarray, samples: int) -> RankParts:
        """Sensor points, of which this rank has some; a point may be shared if values are `summed`."""
        columns = np.ascontiguousarray(columns, np.int64)
        sizes = [(count,) for count in comm.control.all_gather(columns.size)]
        if comm.rank:
            comm.control.send_array(0, columns)
            return cls(comm, (samples,), [], sizes)
        indices = [(_as_slice(columns),)]
        for rank, size in enumerate(sizes[1:], 1):
            received = np.empty(size, np.int64)
            comm.control.recv_array(rank, received)
            indices.append((_as_slice(received),))
        return cls(comm, (samples,), indices, sizes)

    @classmethod
    def of_blocks(cls, comm, parts: list) -> RankParts:
        """The blocks of the grid that ranks own; ``parts`` are the `Part` of all of them."""
        indices = [
            tuple(slice(o, o + n) for o, n in zip(part.owned_first[::-1], part.owned_size[::-1], strict=True))
            for part in parts
        ]
        return cls(comm, parts[0].shape[::-1], indices, [part.owned_size[::-1] for part in parts])

    def gather(self, values: np.ndarray) -> np.ndarray | None:
        """The whole array on rank 0, from each rank's part; None on the others."""
        whole = None
        for index, part in self._parts(values):
            if whole is None:
                whole = np.empty((*self._leading(values), *self._shape), values.dtype)
            whole[(..., *index)] = part
        return whole

    def summed(self, values: np.ndarray) -> np.ndarray | None:
        """As `gather`, but shares of different ranks are added in their order, in double precision."""
        whole = None
        for index, part in self._parts(values):
            if whole is None:
                whole = np.zeros((*self._leading(values), *self._shape))
            # Each rank has an index once, so that this adds up right.
            whole[(..., *index)] += part
        return whole

    def _leading(self, values: np.ndarray) -> tuple[int, ...]:
        """Axes that all ranks hold whole."""
        return values.shape[: values.ndim - len(self._shape)]

    def _parts(self, values: np.ndarray) -> Iterator[tuple[tuple, np.ndarray]]:
        """On rank 0: indices and values of all ranks, in their order; nothing on the others, which send."""
        comm = self._comm
        if comm.rank:
            if math.prod(self._sizes[comm.rank]):
                comm.control.send_array(0, np.ascontiguousarray(values))
            return
        yield self._indices[0], values
        for rank in range(1, comm.size):
            if math.prod(self._sizes[rank]):
                part = np.empty((*self._leading(values), *self._sizes[rank]), values.dtype)
                comm.control.recv_array(rank, part)
                yield self._indices[rank], part


def _as_slice(index: np.ndarray) -> Any:
    """The same columns as a slice if they follow one another: copied many times faster."""
    if index.size and (np.diff(index) == 1).all():
        return slice(int(index[0]), int(index[-1]) + 1)
    return index


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
