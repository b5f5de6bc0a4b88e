"""Halo exchange: the overlaps of a block are filled from its neighbours, faded by a window."""

from __future__ import annotations

import math

import numpy as np

from wavefabric.acoustics.decomposition.decompose import Partition, halo_messages
from wavefabric.acoustics.decomposition.subdomain import Subdomain
from wavefabric.acoustics.decomposition.window import window
from wavefabric.acoustics.problem import Problem
from wavefabric.acoustics.solver.absorption import disperses
from wavefabric.acoustics.solver.coefficients import Coefficients
from wavefabric.exchange.communicator import Communicator
from wavefabric.exchange.halos_transposes import region_exchange


class HaloExchange:
    """Fills the overlaps of fields from the neighbours, faded by a window; collective.

    ``exchanges`` go by the number of fields that travel together; ``weights`` are the window, (z, y, x).
    """

    def __init__(self, comm: Communicator, decomposition: Partition, shape, dtype, counts: set[int]):
        messages = halo_messages(decomposition)
        self.exchanges = {
            count: region_exchange(comm, messages, shape, shape, dtype, count) for count in sorted(counts)
        }
        self.weights = None
        name, overlap = decomposition.options.bell, decomposition.options.overlap
        if name != "none":
            owned = decomposition.subdomains[comm.rank].owned_size
            self.weights = [
                comm.device.asarray(window(name, n, overlap if blocks > 1 else 0).astype(dtype))
                for n, blocks in zip(owned[::-1], decomposition.grid[::-1], strict=True)
            ]

    @classmethod
    def of(cls, coefficients: Coefficients, comm: Communicator, decomposition: Partition) -> HaloExchange:
        """That of the fields of a rank's block."""
        c = coefficients
        return cls(comm, decomposition, c.shape, c.dtype, cls.counts(c.problem))

    @staticmethod
    def counts(problem: Problem) -> set[int]:
        """How many fields of a problem travel together: p, or u, or what dispersion transforms."""
        return {1, problem.dimensions} | ({2} if disperses(problem) else set())

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
