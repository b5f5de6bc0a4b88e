"""The layout of slabs for fused GPU kernels that store in each other's memory: kernels write transposed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from wavefabric.acoustics.decomposition.decompose import Partition
from wavefabric.acoustics.fused.axis_kernels_cuda import AxisKernels
from wavefabric.acoustics.fused.fused_layout import axis_kernels
from wavefabric.acoustics.parallel.fused_layouts import FusedGlobalLayout
from wavefabric.acoustics.problem import Problem
from wavefabric.spectral.distributed import box_shape, boxes

_OUTLET = [("at", np.int64), ("along", np.int64), ("across", np.int64), ("flag", np.uint64)]


def scatter_type(ranks: int) -> np.dtype:
    """``Scatter`` of ``scatter.cu``."""
    return np.dtype([("ranks", _OUTLET, (ranks,)), ("calls", np.uint64), ("done", np.uint64)])


class OneSidedLayout(FusedGlobalLayout):
    """`FusedGlobalLayout` of a one-sided communicator.

    A kernel along y puts what it makes into the columns of all ranks, a kernel along z into their planes. No
    acknowledgement is sent: a spectrum that has come from all ranks proves that they have read the last one.
    """

    @classmethod
    def nbytes(cls, problem: Problem, dtype: np.dtype, decomposition: Partition, rank: int) -> int:
        """Three spectra once more, as columns; nothing is packed."""
        nx, ny, _ = decomposition.shape
        planes = max(subdomain.size[2] for subdomain in decomposition.subdomains)
        return 2 * dtype.itemsize * 3 * planes * ny * (nx // 2 + 1)

    def _connect(self) -> None:
        comm, decomposition = self._ranks()
        c = self.coefficients
        device, pitch = c.device, c.half_shape[2]
        _, planes, _, columns = boxes(decomposition.shape, decomposition.grid)
        self._z_first = [box[2][0] for box in planes]
        self._y_first = [box[1][0] for box in columns]
        flat = [(*box_shape(box)[:2], pitch) for box in planes]
        tall = [(*box_shape(box)[:2], pitch) for box in columns]
        self._timeout = comm.timeout("transposes")
        capacity = [comm.symmetric((3, max(map(math.prod, shapes))), c.complex) for shapes in (flat, tall)]
        self._flat, self._columns = (
            [each[: math.prod(shapes[comm.rank])].reshape(shapes[comm.rank]) for each in here.own]
            for here, shapes in zip(capacity, (flat, tall), strict=True)
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
        for route, symmetric in enumerate((capacity[1], capacity[0])):
            bases = device.to_host(symmetric.addresses).astype(np.int64)
            whole = symmetric.own[0].nbytes
            for number in range(3):
                entry, counts = (
                    tables[route, number],
                    device.address(self._counts) + 12 * (3 * route + number),
                )
                for rank, (along, across, begin) in enumerate(steps[route]):
                    tell = self._timeout.waits and rank != comm.rank
                    flag = flags[rank] + 4 * ((route * 3 + number) * comm.size + comm.rank) if tell else 0
                    at = bases[rank] + number * whole + begin * pitch * item
                    entry["ranks"][rank] = at, along * pitch, across * pitch, flag
                entry["calls"], entry["done"] = counts, counts + 4
        self._scatter = [device.asarray(tables[route].view(np.uint8).reshape(-1)) for route in range(2)]
        device.synchronize()  # kernels may be in other streams

    def _new_spectra(self, count: int) -> list:
        return self._flat

    def _kernels(self) -> tuple[AxisKernels, AxisKernels]:
        c, f = self.coefficients, self.fields
        flat = axis_kernels(c, f, c.shape, "XY", self._y_first[1:], self._scatter[0])
        return flat, axis_kernels(c, f, self._columns_shape(), "Z", self._z_first[1:], self._scatter[1])

    def _await(self, route: int, numbers: Sequence[int]) -> None:
        """Spectra of these numbers are there: columns (0) or planes (1)."""
        if self._timeout.waits:
            assert self._comm is not None
            for number in numbers:
                flags, taken = self._flags.own[route, number], self._counts[route, number, 2:]
                self.column_kernels.await_ranks(flags, taken, self._comm.rank, self._timeout)

    def gradient(self) -> None:
        self.plane_kernels.y_scatter(self.spectra[0], 0, True)
        self._await(0, [0])
        self.column_kernels.run("z_gradient", *self._columns[:2], *self.squares, self.up[2])
        self._await(1, [0, 1])
        self.plane_kernels.run("y_gradient", *self.spectra, *self.up[:2], layers=2)

    def through_z(self, numbers: Sequence[int], along_z: Callable, along_y: bool = True) -> None:
        for number in numbers:
            self.plane_kernels.y_scatter(self.spectra[number], number, along_y)
        for number in numbers:
            self._await(0, [number])
            along_z(self._columns, [number])
        for number in numbers:
            self._await(1, [number])
            if along_y:
                self.plane_kernels.y_transform([self.spectra[number]], True)
