"""Coupling of rows that lie on several ranks: rows travel by an all-gather, chunk of time by chunk."""

import numpy as np

from wavefabric.exchange.communicator import Communicator
from wavefabric.optics.propagation.operators_ranks import PowerExchange
from wavefabric.optics.propagation.rank_modes import RankModes

#: Samples of a chunk: what a rank sends of a row at once.
_CHUNK = 1 << 14


class CoupledRanks:
    """Applies a unitary of all rows to a field whose rows are split over the ranks of ``comm``."""

    def __init__(self, comm: Communicator, local_modes: RankModes):
        self._comm, self._modes = comm, local_modes
        self._exchanges: dict[tuple[int, np.dtype], PowerExchange] = {}

    def mix(self, A, unitary: np.ndarray) -> None:
        """``A`` (own rows, N), √W, in place; ``unitary`` (2M, 2M). All ranks call it with the same one."""
        device, rows = self._comm.device, self._modes.slice
        matrix = device.asarray(np.ascontiguousarray(unitary[rows]).astype(A.dtype))
        for start in range(0, A.shape[1], _CHUNK):
            window = A[:, start : start + _CHUNK]
            exchange = self._exchange(window.shape[1], A.dtype)
            exchange.wait()
            exchange.own.view(A.dtype)[...] = window
            exchange.start()
            exchange.arrived()
            window[...] = matrix @ exchange.all.view(A.dtype)
        for exchange in self._exchanges.values():
            exchange.wait()

    def _exchange(self, samples: int, dtype) -> PowerExchange:
        """Buffers of real numbers, two for each sample."""
        key = samples, dtype
        if key not in self._exchanges:
            rows = np.diff(self._modes.row_ends).tolist()
            self._exchanges[key] = PowerExchange(self._comm, rows, 2 * samples, np.finfo(dtype).dtype)
        return self._exchanges[key]
