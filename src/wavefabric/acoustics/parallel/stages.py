"""Halo exchange, and the stages of a rank: a slab or pencil (global), or a block with overlaps (local)."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from wavefabric.acoustics.parallel.decomposition import Decomposition, halo_messages
from wavefabric.acoustics.parallel.window import window
from wavefabric.acoustics.problem import Problem
from wavefabric.acoustics.solver import operators
from wavefabric.acoustics.solver.coefficients import Coefficients, Fields
from wavefabric.acoustics.solver.stages import Stages
from wavefabric.acoustics.solver.subdomain import Subdomain
from wavefabric.exchange import Communicator
from wavefabric.exchange.halos_transposes import RegionExchange
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


class HaloExchange:
    """Fills the overlaps of fields from the neighbours, faded by a window; collective.

    ``exchanges`` go by the number of fields that travel together; ``weights`` are the window, (z, y, x).
    """

    def __init__(self, comm: Communicator, decomposition: Decomposition, shape, dtype, counts: set[int]):
        messages = halo_messages(decomposition)
        self.exchanges = {
            count: RegionExchange(comm, messages, shape, shape, dtype, count) for count in sorted(counts)
        }
        self.weights = None
        name, overlap = decomposition.options.bell, decomposition.options.overlap
        if name != "none":
            owned = decomposition.subdomains[comm.rank].owned_size
            self.weights = [
                comm.device.asarray(window(name, n, overlap if blocks > 1 else 0).astype(dtype))
                for n, blocks in zip(owned[::-1], decomposition.grid[::-1], strict=True)
            ]

    @staticmethod
    def counts(problem: Problem) -> set[int]:
        """How many fields of a problem travel together: p, or u, or what dispersion transforms."""
        return {1, problem.dimensions} | ({2} if operators.disperses(problem) else set())

    @staticmethod
    def nbytes(problem: Problem, subdomain: Subdomain, dtype: np.dtype) -> int:
        """Bytes that are sent and received in all exchanges of a rank."""
        overlap = math.prod(subdomain.size) - math.prod(subdomain.owned_size)
        return 2 * dtype.itemsize * sum(HaloExchange.counts(problem)) * overlap

    def start(self, fields: list) -> None:
        """Begin to fill the overlaps of ``fields``."""
        self.exchanges[len(fields)].start(fields)

    def finish(self, fields: list) -> None:
        """Wait until the overlaps are there."""
        self.exchanges[len(fields)].finish(fields, self.weights)

    def fill(self, fields: list) -> None:
        """Exchange what the overlaps of ``fields`` lack."""
        self.start(fields)
        self.finish(fields)


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
