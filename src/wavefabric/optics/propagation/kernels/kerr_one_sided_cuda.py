"""Launches of ``kerr_one_sided.cu``: Kerr operators over ranks, each one kernel."""

import heapq

import numpy as np

from wavefabric.exchange.communicator import Communicator
from wavefabric.exchange.transports import SIGNALS
from wavefabric.optics.propagation.kernels import KerrOperator
from wavefabric.optics.propagation.kernels.kerr_cuda import FORMULAS, PACKAGE, type_options
from wavefabric.optics.propagation.phase_groups import PhaseGroupCoupling

#: Samples of a tile and rows of threads, by bytes of a real number: rows of 1 KiB and 256 threads.
_TILES = {8: (64, 4), 4: (128, 2)}
#: Phase rates that a thread forms at once, at most, and blocks of a multiprocessor: registers allow no more.
_OUTPUTS, _BLOCKS = 8, 2
#: More multiprocessors than any GPU has so far, for estimates.
_MULTIPROCESSORS = 192
#: As in ``kerr_one_sided.cu``: tiles that have a slot; numbers of an own part in scratch, and their tiles.
_SLOTS, _KEPT, _RING = 4, 4, 2

#: Names of the operators that are one kernel: those of one or two stages.
OPERATORS = ("derivative", "rotate", "rk4ip_middle", "rk4ip_last")
#: ``Peers`` of ``kerr_one_sided.cu``: numbers, then addresses.
_COUNTS = "ranks rank rows own parts first transfers from to padded"
_ADDRESSES = "start row_part lane_start lane_part matrix slots sent scratch tiles late timeout"
PEERS = np.dtype(
    [(name, np.int32) for name in _COUNTS.split()] + [(name, np.uint64) for name in _ADDRESSES.split()]
)


class OneSidedKerr:
    """Kerr operators of one rank of several, for rows of ``n`` samples; collective.

    ``coupling`` as of `rank_phase_group_coupling`, ``dtype`` of the fields. ``received`` False leaves out the
    work on what others send. ``tile`` (samples, rows of threads) and ``blocks``, the same on all ranks, are
    chosen if not given. `InputError` if these ranks cannot have kernels that wait for one another.
    """

    def __init__(
        self,
        device,
        comm: Communicator,
        coupling: PhaseGroupCoupling,
        n: int,
        dtype,
        received: bool = True,
        tile: tuple[int, int] | None = None,
        blocks: int | None = None,
    ):
        real, own, parts = np.finfo(dtype).dtype, coupling.own_groups, sum(coupling.parts)
        first = sum(coupling.parts[: comm.rank])
        (samples, lanes, outputs), definitions = sizes(dtype, own, tile)
        self._device, self._n, self._block = device, int(n), (samples, lanes)
        self.timeout = comm.timeout("Kerr operator over ranks")
        most = min(-(-self._n // samples), _BLOCKS * self.timeout.multiprocessors)
        self.blocks = most if blocks is None else blocks
        slots = comm.symmetric((self.blocks, _SLOTS, 2, parts, samples), real)
        sent = comm.symmetric((self.blocks, 2, comm.size), np.uint32)
        lane_start, lane_part = dealt(np.diff(coupling.start), lanes)
        padded = -(-own // (outputs * lanes)) * outputs * lanes
        matrix = np.zeros((parts, padded), real)
        matrix[:, :own] = np.hstack(coupling.blocks).T
        row_part = np.repeat(np.arange(own), np.diff(coupling.start))
        indices = coupling.start, row_part, lane_start, lane_part
        tables = (
            *(device.asarray(each.astype(np.int32)) for each in indices),
            device.asarray(matrix),
            slots.addresses,
            sent.addresses,
            device.empty((self.blocks, _RING, _KEPT, own, samples), real),
            device.zeros((self.blocks,), np.uint32),
        )
        #: Of each block, the squared local error of its tiles.
        self.errors = device.empty((self.blocks,), np.float64)
        which = (0, parts) if received else (first, first + own)
        peers = np.zeros(1, PEERS)
        counts = comm.size, comm.rank, coupling.start[-1], own, parts, first
        addresses = (device.address(table) for table in tables)
        peers[0] = (*counts, self.timeout.waits, *which, padded, *addresses, *self.timeout.arguments)
        self._peers = device.asarray(peers.view(np.uint8))
        # Kernels know addresses alone.
        self._kept = tables, slots, sent
        options = (*type_options(dtype), *definitions)
        module = device.module(PACKAGE, "kerr_one_sided.cu", options, (SIGNALS, FORMULAS))
        self._kernels = {name: module.get_function(name) for name in OPERATORS}
        device.synchronize()  # kernels may be in other streams

    def kerr(self, operator: KerrOperator, A, K, h: float, error=None) -> None:
        """As `kerr` of ``kerr.py``, for `OPERATORS`; ``error``, one float64, is that of the own rows."""
        errors = np.uint64(0) if error is None else self.errors
        arguments = A, K, np.float64(h), errors, np.int64(self._n), self._peers
        self._device.launch(self._kernels[operator.name], (self.blocks,), self._block, arguments)
        if error is not None:
            error[...] = self.errors.sum()


def most_nbytes(coupling: PhaseGroupCoupling, n: int, dtype) -> int:
    """Bytes that `OneSidedKerr` holds for rows of ``n`` samples, on the largest GPU at most."""
    item = np.finfo(dtype).dtype.itemsize
    samples, _ = _TILES[item]
    numbers = _SLOTS * 2 * sum(coupling.parts) + _RING * _KEPT * coupling.own_groups
    return min(-(-n // samples), _BLOCKS * _MULTIPROCESSORS) * samples * numbers * item


def sizes(
    dtype, own: int, tile: tuple[int, int] | None = None
) -> tuple[tuple[int, int, int], tuple[str, ...]]:
    """Samples of a tile, rows of threads and phase rates a thread for so many own parts; as definitions."""
    samples, lanes = tile or _TILES[np.finfo(dtype).dtype.itemsize]
    outputs = min(_OUTPUTS, -(-own // lanes))
    return (samples, lanes, outputs), (f"-DTILE={samples}", f"-DLANES={lanes}", f"-DOUTPUTS={outputs}")


def dealt(rows, lanes: int) -> tuple[np.ndarray, np.ndarray]:
    """Parts of so many rows for each of some rows of threads: the largest first, each to who has least.

    Where each row of threads begins, (lanes + 1,), and the parts one after another, (parts,).
    """
    by_lane: list[list[int]] = [[] for _ in range(lanes)]
    least = [(0, lane) for lane in range(lanes)]
    for part in np.argsort(-np.asarray(rows), kind="stable").tolist():
        load, lane = heapq.heappop(least)
        by_lane[lane].append(part)
        heapq.heappush(least, (load + int(rows[part]), lane))
    return np.cumsum([0, *map(len, by_lane)]), np.array([part for parts in by_lane for part in parts])
