"""The layouts of several ranks for whole-array transforms: slabs and pencils (global), blocks (local)."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from wavefabric.acoustics.decomposition.decompose import Partition
from wavefabric.acoustics.parallel.halo_exchange import HaloExchange
from wavefabric.acoustics.problem import Problem
from wavefabric.acoustics.solver.layout import FieldLayout
from wavefabric.spectral.distributed import DistributedRealFFT, held_elements


class GlobalLayout(FieldLayout):
    """A slab or pencil of a grid with one Fourier basis: the answers of one rank, to round-off."""

    @classmethod
    def nbytes(cls, problem: Problem, dtype: np.dtype, decomposition: Partition, rank: int) -> int:
        return 2 * dtype.itemsize * held_elements(decomposition.shape, decomposition.grid, rank)

    @cached_property
    def fft(self) -> Any:
        comm, decomposition = self._ranks()
        return DistributedRealFFT(comm, decomposition.shape, decomposition.grid, self.coefficients.dtype)


class LocalLayout(FieldLayout):
    """A block with a Fourier basis of its own: overlaps are filled before every transform.

    Only the owned points are right, and the overlaps when they are filled. The fractional Laplacians of
    power-law absorption reach further than any overlap: with them the error falls slowly from about 10⁻³ on,
    where without them it falls with the overlap to round-off.
    """

    def _connect(self) -> None:
        self.halo = HaloExchange.of(self.coefficients, *self._ranks())

    @classmethod
    def nbytes(cls, problem: Problem, dtype: np.dtype, decomposition: Partition, rank: int) -> int:
        return HaloExchange.nbytes(problem, decomposition.subdomains[rank], dtype)

    def fill_overlaps(self, fields: list) -> None:
        self.halo.fill(fields)
