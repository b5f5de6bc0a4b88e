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
        parts = cls(comm, (samples,), [()] * comm.size, sizes)
        parts._indices = [(_as_slice(part),) for _, part in parts._parts(columns, ())]
        return parts

    @classmethod
    def of_blocks(cls, comm, parts: list) -> RankParts:
        """The blocks of the grid that ranks own; ``parts`` are the `Subdomain` of all of them."""
        indices = [
            tuple(slice(o, o + n) for o, n in zip(part.owned_first[::-1], part.owned_size[::-1], strict=True))
            for part in parts
        ]
        return cls(comm, parts[0].shape[::-1], indices, [part.owned_size[::-1] for part in parts])

    def gather(self, values: np.ndarray) -> np.ndarray | None:
        """The whole array on rank 0, from each rank's part; None on the others."""
        leading = values.shape[: values.ndim - len(self._shape)]  # axes that all ranks hold whole
        whole = None if self._comm.rank else np.empty((*leading, *self._shape), values.dtype)
        for index, part in self._parts(values, leading):
            whole[(..., *index)] = part  # type: ignore[index]
        return whole

    def summed(self, values: np.ndarray) -> np.ndarray | None:
        """As `gather`, but shares of different ranks are added in their order, in double precision."""
        whole = None if self._comm.rank else np.zeros(self._shape)
        for index, part in self._parts(values, ()):
            # Each rank has an index once, so that this adds up right.
            whole[index] += part  # type: ignore[index]
        return whole

    def _parts(self, values: np.ndarray, leading: tuple[int, ...]) -> Iterator[tuple[tuple, np.ndarray]]:
        """On rank 0: indices and values of all ranks, in their order; nothing on the others, which send."""
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


def _as_slice(index: np.ndarray) -> Any:
    """The same columns as a slice if they follow one another: copied many times faster."""
    if index.size and (np.diff(index) == 1).all():
        return slice(int(index[0]), int(index[-1]) + 1)
    return index


def broadcast(comm, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Arrays of rank 0 on all ranks."""
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
