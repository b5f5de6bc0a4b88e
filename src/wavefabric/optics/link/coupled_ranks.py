"""Couple the rows of a field that are split among ranks."""

from functools import cache, partial

import numpy as np

from wavefabric.optics.propagation.operators_ranks import PowerExchange
from wavefabric.optics.propagation.rank_modes import RankModes
from wavefabric.runtime.exchange.communicator import Communicator

#: Number of samples of a row that a rank sends at once.
_CHUNK = 1 << 14


class CoupledRanks:
    """Multiplies a field by a unitary matrix over all its rows, which are split among ranks of ``comm``."""

    def __init__(self, comm: Communicator, local_modes: RankModes):
        self._comm, self._modes = comm, local_modes
        #: Exchanges by window size; the buffers are for real powers, so a complex sample needs two.
        rows = np.diff(local_modes.row_ends).tolist()
        self._exchange = cache(partial(PowerExchange, comm, rows))

    def mix(self, A, unitary: np.ndarray) -> None:
        """Multiply a field by ``unitary`` (2M, 2M), in place; each rank calls this with its rows ``A``."""
        device, rows = self._comm.device, self._modes.slice
        matrix = device.asarray(np.ascontiguousarray(unitary[rows]).astype(A.dtype))
        for start in range(0, A.shape[1], _CHUNK):
            window = A[:, start : start + _CHUNK]
            exchange = self._exchange(2 * window.shape[1], A.real.dtype)
            exchange.local.view(A.dtype)[...] = window
            exchange.start()
            exchange.wait_for()
            window[...] = matrix @ exchange.all.view(A.dtype)
            exchange.finish()
