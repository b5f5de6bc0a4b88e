"""The fused GPU stages of several ranks: slabs of a grid with one Fourier basis, blocks with their own."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from wavefabric.acoustics.parallel.decomposition import Decomposition, halo_messages
from wavefabric.acoustics.parallel.halo_exchange import HaloExchange
from wavefabric.acoustics.problem import Problem
from wavefabric.acoustics.solver import operators
from wavefabric.acoustics.solver.coefficients import Coefficients, Fields
from wavefabric.acoustics.solver.fused_cuda import FusedCudaStages, derivatives
from wavefabric.acoustics.solver.subdomain import Subdomain
from wavefabric.exchange import Communicator
from wavefabric.exchange.peer_regions import region_exchange
from wavefabric.spectral.distributed import boxes, transpose_messages


class FusedCudaGlobalStages(FusedCudaStages):
    """Same answers as `GlobalStages`, to round-off.

    A rank holds planes for the passes along x and y, and columns for those along z; spectra change between
    the two by transposes. Those of several spectra follow one another, each under the work on its neighbours.
    """

    _local_axes = "XY"

    def __init__(
        self, coefficients: Coefficients, fields: Fields, comm: Communicator, decomposition: Decomposition
    ):
        c = coefficients
        nx, ny, _ = decomposition.shape
        self._planes_shape = (c.shape[0], ny, c.half_shape[2])
        self._connect(c, comm, decomposition)
        # Along y a rank has all of k_y, unlike in its columns.
        whole = Subdomain.whole((nx, ny, c.subdomain.basis[2]))
        self._unstagger_y = c.device.asarray(operators.unstaggering(c.problem, whole)[1], c.complex)
        self._z = self._column_passes(c, fields, (*c.half_shape[:2], nx))
        super().__init__(coefficients, fields, comm, decomposition)
        self._up[:2] = derivatives(c, 1, whole)[:2]

    def _connect(self, c: Coefficients, comm: Communicator, decomposition: Decomposition) -> None:
        """Make ready the columns of this rank, and transposes to them and back."""
        _, planes, _, columns = boxes(decomposition.shape, decomposition.grid)
        forth, back = transpose_messages(planes, columns), transpose_messages(columns, planes)
        flat, tall = self._planes_shape, c.half_shape
        self._forth = [region_exchange(comm, forth, flat, tall, c.complex) for _ in range(3)]
        self._back = [region_exchange(comm, back, tall, flat, c.complex) for _ in range(3)]
        self._columns = [c.device.empty(tall, c.complex) for _ in range(3)]

    def _column_passes(self, c: Coefficients, fields: Fields, shape):
        return self._passes(c, fields, shape, "Z")

    @classmethod
    def supports(cls, decomposition: Decomposition, dtype) -> bool:
        """Slabs alone."""
        return decomposition.grid[:2] == (1, 1) and super().supports(decomposition, dtype)

    @classmethod
    def nbytes(cls, problem: Problem, dtype, device, decomposition: Decomposition, rank: int) -> int:
        """With three spectra once more as columns, and what leaves and comes of each, there and back."""
        subdomain = decomposition.subdomains[rank]
        nx, ny, _ = decomposition.shape
        columns = math.prod(subdomain.spectral_shape)
        planes = subdomain.size[2] * ny * (nx // 2 + 1)
        stays = subdomain.size[2] * subdomain.spectral_shape[1] * subdomain.spectral_shape[2]
        exchanged = 2 * dtype.itemsize * (3 * columns + 6 * (planes + columns - 2 * stays))
        return super().nbytes(problem, dtype, device, decomposition, rank) + exchanged

    def _spectrum_shape(self) -> tuple[int, ...]:
        return self._planes_shape

    def _send_planes(self, number: int) -> None:
        self._forth[number].start([self._spectra[number]])

    def _receive_columns(self, number: int) -> None:
        self._forth[number].finish([self._columns[number]])

    def _send_columns(self, number: int) -> None:
        self._back[number].start([self._columns[number]])

    def _receive_planes(self, number: int) -> None:
        self._back[number].finish([self._spectra[number]])

    def _gradient_spectra(self) -> None:
        self._axes.y_transform(self._spectra[:1], False)
        self._send_planes(0)
        self._receive_columns(0)
        self._z.run("z_gradient", *self._columns[:2], *self._squares, self._up[2])
        self._send_columns(0)
        self._send_columns(1)
        self._receive_planes(0)
        self._receive_planes(1)
        self._axes.run("y_gradient", *self._spectra, *self._up[:2], layers=2)

    def _through_z(self, numbers: Sequence[int], along_z: Callable, along_y: bool = True) -> None:
        for number in numbers:
            if along_y:
                self._axes.y_transform([self._spectra[number]], False)
            self._send_planes(number)
        for number in numbers:
            self._receive_columns(number)
            along_z(self._columns, [number])
            self._send_columns(number)
        for number in numbers:
            self._receive_planes(number)
            if along_y:
                self._axes.y_transform([self._spectra[number]], True)


class FusedCudaLocalStages(FusedCudaStages):
    """Same answers as `LocalStages`, to round-off.

    Overlaps travel while planes that lack none are transformed along y. Rows of the overlaps alone are
    transformed along x once more when they are filled; where x is cut, every row has overlaps and all are.
    """

    def __init__(
        self, coefficients: Coefficients, fields: Fields, comm: Communicator, decomposition: Decomposition
    ):
        c = coefficients
        self.halo = HaloExchange(comm, decomposition, c.shape, c.dtype, HaloExchange.counts(c.problem))
        nz, ny, nx = c.shape
        z, y, x = c.subdomain.owned
        whole_rows = x == slice(0, nx)
        overlap = np.ones((nz, ny), bool)
        if whole_rows:
            overlap[z, y] = False
        self._overlap_rows = c.device.asarray(np.flatnonzero(overlap).astype(np.int32))
        #: Planes that are transformed along y while the overlaps travel.
        self._early = z if whole_rows and y == slice(0, ny) else slice(0, 0)
        if c.lossy and not c.stokes:
            self._exchanged = self._absorption_fields(c, fields, comm, decomposition)
        super().__init__(coefficients, fields, comm, decomposition)

    @classmethod
    def nbytes(cls, problem: Problem, dtype, device, decomposition: Decomposition, rank: int) -> int:
        """With the halo, and ρ₀∇·u where there is dispersion."""
        subdomain = decomposition.subdomains[rank]
        rate = dtype.itemsize * math.prod(subdomain.size) if operators.disperses(problem) else 0
        halo = HaloExchange.nbytes(problem, subdomain, dtype)
        return super().nbytes(problem, dtype, device, decomposition, rank) + halo + rate

    @staticmethod
    def _absorption_fields(coefficients: Coefficients, fields: Fields, comm, decomposition) -> tuple:
        """Room for what absorption transforms: p is free until it is known, so one field more at most."""
        c = coefficients
        sent = np.zeros(c.shape[:2], np.uint8)
        for message in halo_messages(decomposition):
            if message.src == comm.rank:
                sent[message.src_box[:2]] = 1
        flags = c.device.asarray(sent.reshape(-1))
        if c.disperses:
            return c.device.zeros(c.shape, c.dtype), fields.p, flags
        return fields.p, None, flags

    # --- Exchanges -------------------------------------------------------------------------------------

    def _start_exchange(self, fields: list, spectra: list) -> None:
        self.halo.start(fields)
        self.pending = fields, list(spectra)

    def finish_exchanges(self) -> None:
        """What is under way arrives, and its rows are transformed along x.

        The last step leaves p under way; what comes later would land in memory that others use by then.
        """
        if self.pending is not None:
            fields, spectra = self.pending
            self.pending = None
            self.halo.finish(fields)
            self._axes.x_forward(fields, spectra, self._overlap_rows)

    def _forward_y(self, spectra: list) -> None:
        early = self._early
        if self.pending is None or early.start == early.stop:
            self.finish_exchanges()
            self._axes.y_transform(spectra, False)
            return
        self._axes.y_transform([s[early] for s in spectra], False)
        self.finish_exchanges()
        for planes in (slice(0, early.start), slice(early.stop, spectra[0].shape[0])):
            if planes.start < planes.stop:
                self._axes.y_transform([s[planes] for s in spectra], False)

    def fill_overlaps(self, fields: list) -> None:
        self.finish_exchanges()
        self.halo.fill(fields)

    def transform_pressure(self) -> None:
        self.fill_overlaps([self.fields.p])
        super().transform_pressure()
