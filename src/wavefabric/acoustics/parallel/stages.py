"""The plain stages of one of several ranks: a slab or pencil (global), or a block with overlaps (local)."""

from __future__ import annotations

from functools import cached_property

from wavefabric.acoustics.parallel.decomposition import Decomposition
from wavefabric.acoustics.parallel.halo_exchange import HaloExchange
from wavefabric.acoustics.problem import Problem
from wavefabric.acoustics.solver.coefficients import Coefficients, Fields
from wavefabric.acoustics.solver.stages import Stages
from wavefabric.exchange import Communicator
from wavefabric.spectral.distributed import DistributedRealFFT, held_elements


class GlobalStages(Stages):
    """Stages of a slab or pencil of a grid with one Fourier basis: the answers of one rank, to round-off."""

    @classmethod
    def nbytes(cls, problem: Problem, dtype, device, decomposition: Decomposition, rank: int) -> int:
        exchanged = held_elements(decomposition.shape, decomposition.grid, rank)
        return super().nbytes(problem, dtype, device, decomposition, rank) + 2 * dtype.itemsize * exchanged

    @cached_property
    def _fft(self):
        comm, decomposition = self._comm, self._decomposition
        assert comm is not None
        assert decomposition is not None
        return DistributedRealFFT(comm, decomposition.shape, decomposition.grid, self.coefficients.dtype)


class LocalStages(Stages):
    """Stages of one block with a Fourier basis of its own: overlaps are filled before every transform.

    Only the owned points are right, and the overlaps when they are filled. The fractional Laplacians of
    power-law absorption reach further than any overlap: with them the error falls slowly from about 10⁻³ on,
    where without them it falls with the overlap to round-off.
    """

    def __init__(
        self, coefficients: Coefficients, fields: Fields, comm: Communicator, decomposition: Decomposition
    ):
        c = coefficients
        self.halo = HaloExchange(comm, decomposition, c.shape, c.dtype, HaloExchange.counts(c.problem))
        super().__init__(coefficients, fields, comm, decomposition)

    @classmethod
    def nbytes(cls, problem: Problem, dtype, device, decomposition: Decomposition, rank: int) -> int:
        halo = HaloExchange.nbytes(problem, decomposition.subdomains[rank], dtype)
        return super().nbytes(problem, dtype, device, decomposition, rank) + halo

    def fill_overlaps(self, fields: list) -> None:
        self.halo.fill(fields)
