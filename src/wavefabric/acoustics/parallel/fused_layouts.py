"""Divides a grid among ranks for fused GPU kernels, which transform along one axis and do pointwise work.

The parts are slabs with one Fourier basis, or blocks with a basis each. With slabs a rank transforms planes
along x and y, and columns along z. In between, the data are transposed among the ranks: by messages, or by
kernels that write directly to the memory of other ranks.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

from wavefabric.acoustics.decomposition.decompose import Partition, halo_messages
from wavefabric.acoustics.decomposition.subdomain import Subdomain
from wavefabric.acoustics.fused.axis_kernels_cuda import AxisKernels
from wavefabric.acoustics.fused.fused_layout import FusedLayout, axis_kernels, scaled_derivatives
from wavefabric.acoustics.parallel.layouts import HaloExchange
from wavefabric.acoustics.problem import Problem
from wavefabric.acoustics.solver.formulas import disperses, unstaggering
from wavefabric.runtime.exchange.halos_transposes import message_schedule, region_exchange
from wavefabric.runtime.spectral.distributed import box_shape, boxes, transpose_messages

_OUTLET = [("at", np.int64), ("along", np.int64), ("across", np.int64), ("flag", np.uint64)]


def scatter_type(ranks: int) -> np.dtype:
    """Return the NumPy type of a table of the memory addresses at which kernels write on each rank."""
    return np.dtype([("ranks", _OUTLET, (ranks,)), ("calls", np.uint64), ("done", np.uint64)])


class FusedGlobalLayout(FusedLayout):
    """A layout in slabs: a rank transforms its planes of the grid along x and y, and columns along z.

    Transposes between ranks convert spectra from planes to columns and back. With several spectra, the
    transpose of one spectrum overlaps with the kernels on the others.
    """

    def _prepare(self) -> None:
        super()._prepare()
        c, (nx, ny, _) = self.coefficients, self.partition.shape
        # As planes a rank has all of k_y, as columns only a part.
        whole = Subdomain.whole((nx, ny, c.subdomain.basis[2]))
        self.unstagger_y = c.device.asarray(unstaggering(c.problem, whole)[1], c.complex)
        self.up[:2], self.down_planes[:2] = (scaled_derivatives(c, sign, whole)[:2] for sign in (1, -1))

    @classmethod
    def supports(cls, decomposition: Partition, dtype: np.dtype) -> bool:
        """Return whether the grid is divided into slabs along z."""
        return decomposition.grid[:2] == (1, 1)

    @classmethod
    def nbytes(cls, problem: Problem, dtype: np.dtype, decomposition: Partition, rank: int) -> int:
        """Return the bytes that a rank needs: its columns of three spectra, and buffers for transposes."""
        subdomain = decomposition.subdomains[rank]
        nx, ny, _ = decomposition.shape
        columns = math.prod(subdomain.spectral_shape)
        planes = subdomain.size[2] * ny * (nx // 2 + 1)
        stays = subdomain.size[2] * subdomain.spectral_shape[1] * subdomain.spectral_shape[2]
        return 2 * dtype.itemsize * (3 * columns + 6 * (planes + columns - 2 * stays))

    def _connect(self) -> None:
        comm, cut = self.comm, self.partition
        _, planes, _, columns = boxes(cut.shape, cut.grid)
        forth, back = transpose_messages(planes, columns), transpose_messages(columns, planes)
        c, flat, tall = self.coefficients, self._spectrum_shape(), self.coefficients.half_shape
        self._to_columns = [region_exchange(comm, forth, flat, tall, c.complex) for _ in range(3)]
        self._to_planes = [region_exchange(comm, back, tall, flat, c.complex) for _ in range(3)]
        self._columns = [c.device.empty(tall, c.complex) for _ in range(3)]

    def _kernels(self) -> tuple[AxisKernels, AxisKernels]:
        c, f = self.coefficients, self.fields
        return axis_kernels(c, f, c.shape, "XY"), axis_kernels(c, f, self._columns_shape(), "ZG")

    def _columns_shape(self) -> tuple[int, ...]:
        """Return the shape of a real array whose half spectrum has the shape of this rank's columns."""
        return (*self.coefficients.half_shape[:2], self.partition.shape[0])

    def _spectrum_shape(self) -> tuple[int, ...]:
        c = self.coefficients
        return c.shape[0], self.partition.shape[1], c.half_shape[2]

    def _send_planes(self, number: int, along_y: bool) -> None:
        if along_y:
            self.plane_kernels.y_transform([self.spectra[number]], False)
        self._to_columns[number].start([self.spectra[number]])

    def _send_columns(self, number: int) -> None:
        self._to_planes[number].start([self._columns[number]])

    def _receive(self, number: int, planes: bool) -> None:
        """Wait until the other ranks' parts of spectrum ``number`` are here, as ``planes`` or as columns."""
        exchange, arrays = (self._to_planes, self.spectra) if planes else (self._to_columns, self._columns)
        exchange[number].finish([arrays[number]])

    def gradient(self) -> None:
        self._send_planes(0, True)
        self._receive(0, planes=False)
        self.column_kernels.run("z_gradient", *self._columns[:2], *self.squares, self.up[2])
        self._send_columns(0)
        self._send_columns(1)
        self._receive(0, planes=True)
        self._receive(1, planes=True)
        self.plane_kernels.run("y_gradient", *self.spectra, *self.up[:2], layers=2)

    def gather(self) -> None:
        self.plane_kernels.run("y_gather", *self.spectra, *self.down_planes[:2], layers=2)
        for number in range(2):
            self._send_planes(number, False)
        for number in range(2):
            self._receive(number, planes=False)
        self.column_kernels.run("z_gather", *self._columns[:2], *self.squares, self.down[2])
        self._send_columns(0)
        self._receive(0, planes=True)
        self.plane_kernels.y_transform([self.spectra[0]], True)

    def through_z(self, numbers: Sequence[int], along_z: Callable, along_y: bool = True) -> None:
        for number in numbers:
            self._send_planes(number, along_y)
        for number in numbers:
            self._receive(number, planes=False)
            along_z(self._columns, [number])
            self._send_columns(number)
        for number in numbers:
            self._receive(number, planes=True)
            if along_y:
                self.plane_kernels.y_transform([self.spectra[number]], True)


class OneSidedLayout(FusedGlobalLayout):
    """A `FusedGlobalLayout` whose kernels write directly into other ranks' memory (one-sided).

    A kernel along y writes its results into the columns of all ranks, a kernel along z into their planes. No
    acknowledgement is sent: a spectrum received from all ranks proves that they have read the previous one.
    """

    @classmethod
    def nbytes(cls, problem: Problem, dtype: np.dtype, decomposition: Partition, rank: int) -> int:
        """Return the bytes that a rank needs: three spectra, since one-sided kernels need no send buffers."""
        nx, ny, _ = decomposition.shape
        planes = max(subdomain.size[2] for subdomain in decomposition.subdomains)
        return 2 * dtype.itemsize * 3 * planes * ny * (nx // 2 + 1)

    def _connect(self) -> None:
        c, comm, cut = self.coefficients, self.comm, self.partition
        device, pitch = c.device, c.half_shape[2]
        _, planes, _, columns = boxes(cut.shape, cut.grid)
        self._z_first = [box[2][0] for box in planes]
        self._y_first = [box[1][0] for box in columns]
        flat = [(*box_shape(box)[:2], pitch) for box in planes]
        tall = [(*box_shape(box)[:2], pitch) for box in columns]
        self._timeout = comm.timeout("transposes")
        capacity = [comm.symmetric((3, max(map(math.prod, shapes))), c.complex) for shapes in (flat, tall)]
        self._flat, self._columns = (
            [each[: math.prod(shapes[comm.rank])].reshape(shapes[comm.rank]) for each in here.local]
            for here, shapes in zip(capacity, (flat, tall), strict=True)
        )
        # Flags of received data, by direction, spectrum and sender; counts of calls, blocks and waits.
        self._flags = comm.symmetric((2, 3, comm.size), np.uint32)
        self._counts = device.zeros((2, 3, 3), np.uint32)
        flags = device.to_host(self._flags.addresses).astype(np.int64)
        z, y, ny = self._z_first[comm.rank], self._y_first[comm.rank], flat[0][1]
        steps = [  # per receiving rank: strides along and across, first row of this rank's part
            [(1, n, z * n - first) for (_, n, _), first in zip(tall, self._y_first, strict=True)],
            [(ny, 1, y - first * ny) for first in self._z_first],
        ]
        item = c.complex.itemsize
        tables = np.zeros((2, 3), scatter_type(comm.size))
        for route, symmetric in enumerate((capacity[1], capacity[0])):
            bases = device.to_host(symmetric.addresses).astype(np.int64)
            whole = symmetric.local[0].nbytes
            for number in range(3):
                entry = tables[route, number]
                counts = device.address(self._counts) + 12 * (3 * route + number)
                for rank, (along, across, begin) in enumerate(steps[route]):
                    tell = self._timeout.waits and rank != comm.rank
                    flag = flags[rank] + 4 * ((route * 3 + number) * comm.size + comm.rank) if tell else 0
                    at = bases[rank] + number * whole + begin * pitch * item
                    entry["ranks"][rank] = at, along * pitch, across * pitch, flag
                entry["calls"], entry["done"] = counts, counts + 4
        self._scatter = [device.asarray(tables[route].view(np.uint8).reshape(-1)) for route in range(2)]
        if comm.step_recorder is not None:
            routes = ("_send_planes", planes, columns), ("_send_columns", columns, planes)
            for method, before, after in routes:
                schedule = message_schedule(comm.size, transpose_messages(before, after))
                comm.step_recorder.note_starts(self, method, schedule, c.complex)
        device.synchronize()  # kernels may be in other streams

    def _new_spectra(self, count: int) -> list:
        return self._flat

    def _kernels(self) -> tuple[AxisKernels, AxisKernels]:
        c, f = self.coefficients, self.fields
        flat = axis_kernels(c, f, c.shape, "XY", self._y_first[1:], self._scatter[0])
        return flat, axis_kernels(c, f, self._columns_shape(), "ZG", self._z_first[1:], self._scatter[1])

    def _send_planes(self, number: int, along_y: bool) -> None:
        self.plane_kernels.y_scatter(self.spectra[number], number, along_y)

    def _send_columns(self, number: int) -> None:
        """Do nothing: the kernel along z has already written the columns to the other ranks."""

    def _receive(self, number: int, planes: bool) -> None:
        if self._timeout.waits:
            flags, taken = self._flags.local[int(planes), number], self._counts[int(planes), number, 2:]
            self.column_kernels.await_ranks(flags, taken, self.comm.rank, self._timeout)


class FusedLocalLayout(FusedLayout):
    """A layout in blocks, which transforms planes without overlaps along y while ranks exchange overlaps.

    An overlap is the part of a block that neighbouring ranks own. All rows are transformed along x before the
    exchange, and the rows in overlaps once more after it. If x is divided among ranks, every row has points
    in an overlap, so all rows are transformed twice.
    """

    def _connect(self) -> None:
        c = self.coefficients
        self.halo = HaloExchange(c, self.comm, self.partition)
        nz, ny, nx = c.shape
        z, y, x = c.subdomain.owned
        whole_rows = x == slice(0, nx)
        overlap = np.ones((nz, ny), bool)
        if whole_rows:
            overlap[z, y] = False
        self._overlap_rows = c.device.asarray(np.flatnonzero(overlap).astype(np.int32))
        #: Planes that are transformed along y while the overlaps are exchanged.
        self._early_rows = z if whole_rows and y == slice(0, ny) else slice(0, 0)
        if c.lossy and not c.stokes:  # p is unused until it is computed, so at most one more field is needed
            sent = np.zeros(c.shape[:2], np.uint8)
            for message in halo_messages(self.partition):
                if message.src == self.comm.rank:
                    sent[message.src_box[:2]] = 1
            both = (c.device.zeros(c.shape, c.dtype), self.fields.p) if c.disperses else (self.fields.p, None)
            self.exchanged = *both, c.device.asarray(sent.reshape(-1))

    @classmethod
    def nbytes(cls, problem: Problem, dtype: np.dtype, decomposition: Partition, rank: int) -> int:
        """Return the bytes that a rank needs: buffers for overlaps and, with dispersion, the field ρ₀∇·u."""
        subdomain = decomposition.subdomains[rank]
        rate = dtype.itemsize * math.prod(subdomain.size) if disperses(problem) else 0
        return HaloExchange.nbytes(problem, subdomain, dtype) + rate

    def start_exchange(self, fields: list, spectra: list) -> None:
        self.halo.start(fields)
        self.pending = fields, list(spectra)

    def finish_exchanges(self) -> None:
        """Complete the pending exchange, and transform the received rows along x.

        The last step leaves the exchange of p pending. Without this call its data could arrive after the
        memory has been freed and used for other arrays.
        """
        if self.pending is not None:
            fields, spectra = self.pending
            self.pending = None
            self.halo.finish(fields)
            self.plane_kernels.x_forward(fields, spectra, self._overlap_rows)

    def forward_y(self, spectra: list) -> None:
        rows = self._early_rows
        if self.pending is None or rows.start == rows.stop:
            self.finish_exchanges()
            self.plane_kernels.y_transform(spectra, False)
            return
        self.plane_kernels.y_transform([s[rows] for s in spectra], False)
        self.finish_exchanges()
        for planes in (slice(0, rows.start), slice(rows.stop, spectra[0].shape[0])):
            if planes.start < planes.stop:
                self.plane_kernels.y_transform([s[planes] for s in spectra], False)

    def fill_overlaps(self, fields: list) -> None:
        self.finish_exchanges()
        self.halo.fill(fields)
