"""The fused GPU stages of a block with a Fourier basis of its own.

Overlaps travel while planes that lack none are transformed along y. Rows of the overlaps alone are
transformed along x once more when they are filled; where x is cut, every row has overlaps and all are.
"""

from __future__ import annotations

import math

import numpy as np

from wavefabric.acoustics.parallel.decomposition import Decomposition, halo_messages
from wavefabric.acoustics.parallel.stages import HaloExchange
from wavefabric.acoustics.problem import Problem
from wavefabric.acoustics.solver import operators
from wavefabric.acoustics.solver.coefficients import Coefficients, Fields
from wavefabric.acoustics.solver.fused_cuda import FusedCudaStages
from wavefabric.exchange import Communicator


class FusedCudaLocalStages(FusedCudaStages):
    """Same answers as `LocalStages`, to round-off."""

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
        self._pairs = c.device.asarray(np.unique(np.flatnonzero(overlap) // 2).astype(np.int32))
        # A pair of rows may reach from an overlap into the next plane, if planes have an odd number of rows.
        first, last = z.start + z.start * ny % 2, z.stop - z.stop * ny % 2
        whole_planes = whole_rows and y == slice(0, ny)
        #: Planes that are transformed along y while the overlaps travel.
        self._early = slice(first, last) if whole_planes and first < last else slice(0, 0)
        #: Fields whose overlaps travel, and their spectra along x.
        self._travelling: tuple[list, list] | None = None
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
        self._travelling = fields, list(spectra)

    def finish_exchanges(self) -> None:
        """What is under way arrives, and its rows are transformed along x.

        The last step leaves p under way; what comes later would land in memory that others use by then.
        """
        if self._travelling is not None:
            fields, spectra = self._travelling
            self._travelling = None
            self.halo.finish(fields)
            self._axes.x_forward_pairs(fields, spectra, self._pairs)

    def _forward_y(self, spectra: list) -> None:
        early = self._early
        if self._travelling is None or early.start == early.stop:
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
