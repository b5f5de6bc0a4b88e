"""The fused GPU stages of slabs whose kernels store in each other's memory: passes write transposed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from wavefabric.acoustics.parallel.decomposition import Decomposition
from wavefabric.acoustics.parallel.fused_cuda import FusedCudaGlobalStages
from wavefabric.acoustics.problem import Problem
from wavefabric.acoustics.solver.coefficients import Coefficients, Fields
from wavefabric.exchange import Communicator
from wavefabric.spectral.distributed import box_shape, boxes

_OUTLET = [("at", np.int64), ("along", np.int64), ("across", np.int64), ("flag", np.uint64)]


def scatter_type(ranks: int) -> np.dtype:
    """``Scatter`` of ``scatter.cu``."""
    return np.dtype([("ranks", _OUTLET, (ranks,)), ("calls", np.uint64), ("done", np.uint64)])


class FusedCudaGlobalPeerStages(FusedCudaGlobalStages):
    """`FusedCudaGlobalStages` of a communicator with ``stores``.

    A pass along y puts what it makes into the columns of all ranks, a pass along z into their planes. There
    is room: who has waited for a spectrum of all ranks knows that they are done with what they read before.
    """

    @classmethod
    def nbytes(cls, problem: Problem, dtype, device, decomposition: Decomposition, rank: int) -> int:
        """With three spectra once more, as columns; nothing is packed."""
        nx, ny, _ = decomposition.shape
        planes = max(subdomain.size[2] for subdomain in decomposition.subdomains)
        columns = super(FusedCudaGlobalStages, cls).nbytes(problem, dtype, device, decomposition, rank)
        return columns + 2 * dtype.itemsize * 3 * planes * ny * (nx // 2 + 1)

    def _connect(self, c: Coefficients, comm: Communicator, decomposition: Decomposition) -> None:
        device, pitch = c.device, c.half_shape[2]
        _, planes, _, columns = boxes(decomposition.shape, decomposition.grid)
        self._z_first = [box[2][0] for box in planes]
        self._y_first = [box[1][0] for box in columns]
        flat = [(*box_shape(box)[:2], pitch) for box in planes]
        tall = [(*box_shape(box)[:2], pitch) for box in columns]
        self._patience = comm.patience("transposes")
        room = [comm.symmetric((3, max(map(math.prod, shapes))), c.complex) for shapes in (flat, tall)]
        self._flat, self._columns = (
            [each[: math.prod(shapes[comm.rank])].reshape(shapes[comm.rank]) for each in here.own]
            for here, shapes in zip(room, (flat, tall), strict=True)
        )
        # What has come, by direction, spectrum and sender; calls, finished blocks and what was waited for.
        self._flags = comm.symmetric((2, 3, comm.size), np.uint32)
        self._counts = device.zeros((2, 3, 3), np.uint32)
        flags = device.to_host(self._flags.addresses).astype(np.int64)
        z, y, ny = self._z_first[comm.rank], self._y_first[comm.rank], flat[0][1]
        steps = [  # along, across, and where this rank's part begins in each rank's array
            [(1, n, z * n - first) for (_, n, _), first in zip(tall, self._y_first, strict=True)],
            [(ny, 1, y - first * ny) for first in self._z_first],
        ]
        item = c.complex.itemsize
        tables = np.zeros((2, 3), scatter_type(comm.size))
        for way, symmetric in enumerate((room[1], room[0])):
            bases = device.to_host(symmetric.addresses).astype(np.int64)
            whole = symmetric.own[0].nbytes
            for number in range(3):
                entry, counts = tables[way, number], device.address(self._counts) + 12 * (3 * way + number)
                for rank, (along, across, begin) in enumerate(steps[way]):
                    tell = self._patience.waits and rank != comm.rank
                    flag = flags[rank] + 4 * ((way * 3 + number) * comm.size + comm.rank) if tell else 0
                    at = bases[rank] + number * whole + begin * pitch * item
                    entry["ranks"][rank] = at, along * pitch, across * pitch, flag
                entry["calls"], entry["done"] = counts, counts + 4
        self._scatter = [device.asarray(tables[way].view(np.uint8).reshape(-1)) for way in range(2)]
        device.synchronize()  # passes may be in other streams

    def _new_spectra(self, count: int) -> list:
        return self._flat

    def _local_passes(self, coefficients: Coefficients, fields: Fields):
        c = coefficients
        return self._passes(c, fields, c.shape, self._local_axes, self._y_first[1:], self._scatter[0])

    def _column_passes(self, c: Coefficients, fields: Fields, shape):
        return self._passes(c, fields, shape, "Z", self._z_first[1:], self._scatter[1])

    def _await(self, way: int, numbers: Sequence[int]) -> None:
        """Spectra of these numbers are there: columns (0) or planes (1)."""
        if self._patience.waits:
            assert self._comm is not None
            for number in numbers:
                flags, taken = self._flags.own[way, number], self._counts[way, number, 2:]
                self._z.await_ranks(flags, taken, self._comm.rank, self._patience)

    def _gradient_spectra(self) -> None:
        self._axes.y_scatter(self._spectra[0], 0, True)
        self._await(0, [0])
        self._z.run("z_gradient", *self._columns[:2], *self._squares, self._up[2])
        self._await(1, [0, 1])
        self._axes.run("y_gradient", *self._spectra, *self._up[:2], layers=2)

    def _through_z(self, numbers: Sequence[int], along_z: Callable, along_y: bool = True) -> None:
        for number in numbers:
            self._axes.y_scatter(self._spectra[number], number, along_y)
        for number in numbers:
            self._await(0, [number])
            along_z(self._columns, [number])
        for number in numbers:
            self._await(1, [number])
            if along_y:
                self._axes.y_transform([self._spectra[number]], True)
