"""The stages of a slab or pencil of a grid that has one Fourier basis: transforms are distributed."""

from __future__ import annotations

from functools import cached_property

from wavefabric.acoustics.parallel.decomposition import Decomposition
from wavefabric.acoustics.solver.coefficients import Constants, Fields
from wavefabric.acoustics.solver.stages import Stages
from wavefabric.exchange import Communicator
from wavefabric.spectral.distributed import DistributedRealFFT


class GlobalStages(Stages):
    """Plain stages over all ranks: the answers of one rank, to round-off.

    Parameters
    ----------
    constants : Constants
        With this rank's part.
    fields : Fields
    comm : Communicator
    decomposition : Decomposition
        A global one.
    """

    def __init__(
        self, constants: Constants, fields: Fields, comm: Communicator, decomposition: Decomposition
    ):
        self._comm, self._decomposition = comm, decomposition
        super().__init__(constants, fields)

    def graph(self, work):
        return work  # a captured step could not wait for other ranks

    @cached_property
    def _fft(self):
        return DistributedRealFFT(
            self._comm, self._decomposition.shape, self._decomposition.grid, self.constants.dtype
        )
