"""Divides a grid among ranks for whole-array transforms: slabs or pencils (global), or blocks (local).

The blocks of neighbouring ranks overlap. A `HaloExchange` fills the overlaps.
"""

import math
from functools import cached_property
from typing import Any

import numpy as np

from wavefabric.acoustics.decomposition.decompose import Partition, halo_messages
from wavefabric.acoustics.decomposition.subdomain import Subdomain
from wavefabric.acoustics.decomposition.window import window
from wavefabric.acoustics.problem import Problem
from wavefabric.acoustics.solver.coefficients import Coefficients
from wavefabric.acoustics.solver.formulas import disperses
from wavefabric.acoustics.solver.layout import FieldLayout
from wavefabric.runtime.exchange.communicator import Communicator
from wavefabric.runtime.exchange.halos_transposes import RegionSum, region_exchange
from wavefabric.runtime.spectral.distributed import DistributedRealFFT, held_elements


class HaloExchange:
    """Fills the overlaps of a rank's block from its neighbours, and multiplies the block by a window.

    The window is 1 on the rank's own points and falls to 0 over the overlap, so that the block is periodic.
    ``weights`` are its factors along (z, y, x); None without a window. ``exchanges`` is a dictionary from a
    number of fields to the exchange that sends so many at once. All ranks must exchange together.
    """

    def __init__(self, coefficients: Coefficients, comm: Communicator, decomposition: Partition):
        shape, dtype, messages = coefficients.shape, coefficients.dtype, halo_messages(decomposition)
        self.exchanges = {
            count: region_exchange(comm, messages, shape, shape, dtype, count)
            for count in sorted(self.counts(coefficients.problem))
        }
        self._comm, self._messages, self._shape, self._dtype = comm, messages, shape, dtype
        self._owned = decomposition.subdomains[comm.rank].owned
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
        """Return the numbers of fields that a time step exchanges at once.

        They are 1 (p), the number of dimensions (components of u) and, with dispersion, 2 (ρ₀∇·u and ρ).
        """
        return {1, problem.dimensions} | ({2} if disperses(problem) else set())

    @staticmethod
    def nbytes(problem: Problem, subdomain: Subdomain, dtype: np.dtype) -> int:
        """Return the bytes of a rank's send and receive buffers for overlaps."""
        overlap = math.prod(subdomain.size) - math.prod(subdomain.owned_size)
        return 2 * dtype.itemsize * sum(HaloExchange.counts(problem)) * overlap

    def start(self, fields: list) -> None:
        """Start to copy the neighbours' values into the overlaps of ``fields``."""
        self.exchanges[len(fields)].start(fields)

    def finish(self, fields: list) -> None:
        """Wait until the neighbours' values are in the overlaps of ``fields``; multiply by the window."""
        self.exchanges[len(fields)].finish(fields, self.weights)

    def fill(self, fields: list) -> None:
        """Copy the neighbours' values into the overlaps of ``fields``; multiply by the window."""
        self.start(fields)
        self.finish(fields)

    def empty(self, fields: list) -> None:
        """Set ``fields`` to 0 in the overlaps, that is at points that neighbouring ranks own."""
        for field in fields:
            for axis, owned in enumerate(self._owned):
                before = (slice(None),) * axis
                field[(*before, slice(0, owned.start))] = 0
                field[(*before, slice(owned.stop, None))] = 0

    def add_overlaps_to_owners(self, fields: list) -> None:
        """Do the transpose of `fill`: multiply by the window, then add overlaps to the points' owners."""
        for field in fields:
            if self.weights is not None:
                z, y, x = self.weights
                field *= z[:, None, None] * y[:, None] * x
            self._reverse_exchange.run([field], [field])

    @cached_property
    def _reverse_exchange(self) -> RegionSum:
        reverse = [message.reversed() for message in self._messages]
        return RegionSum(self._comm, reverse, self._shape, self._shape, self._dtype)


class GlobalLayout(FieldLayout):
    """Slabs or pencils with one Fourier basis of the whole grid; results as on one rank, to round-off."""

    @classmethod
    def nbytes(cls, problem: Problem, dtype: np.dtype, decomposition: Partition, rank: int) -> int:
        return 2 * dtype.itemsize * held_elements(decomposition.shape, decomposition.grid, rank)

    @cached_property
    def fft(self) -> Any:
        cut = self.partition
        return DistributedRealFFT(self.comm, cut.shape, cut.grid, self.coefficients.dtype)


class LocalLayout(FieldLayout):
    """A layout in blocks, each with its own Fourier basis: overlaps are filled before every transform.

    Values in the overlaps are correct only just after they are filled. The fractional Laplacians of power-law
    absorption reach farther than any overlap: with them the error decreases slowly with the width of the
    overlap, from about 10⁻³; without them it decreases to round-off.
    """

    def _connect(self) -> None:
        self.halo = HaloExchange(self.coefficients, self.comm, self.partition)

    @classmethod
    def nbytes(cls, problem: Problem, dtype: np.dtype, decomposition: Partition, rank: int) -> int:
        return HaloExchange.nbytes(problem, decomposition.subdomains[rank], dtype)

    def fill_overlaps(self, fields: list) -> None:
        self.halo.fill(fields)
