"""Launches of ``kerr_one_sided.cu``: Kerr operators over ranks, each one kernel."""

import heapq
from dataclasses import dataclass

import numpy as np

from wavefabric.errors import InputError
from wavefabric.exchange.communicator import Communicator
from wavefabric.exchange.transports import SIGNALS
from wavefabric.optics.propagation.kernels import KerrOperator
from wavefabric.optics.propagation.kernels.kerr_cuda import FORMULAS, PACKAGE, type_options
from wavefabric.optics.propagation.phase_groups import PhaseGroupCoupling

#: Samples of a tile by bytes of a real number, the best first: rows of 512 bytes down to 128, a full line.
_SAMPLES = {8: (32, 16, 8), 4: (64, 32, 16)}
#: Threads of a block; blocks of a multiprocessor that hide each other's waiting, and at most.
_THREADS, _ENOUGH, _MOST = 128, 4, 8
#: Phase rates that a thread forms at once, and parts whose powers are in shared memory, at most.
_OUTPUTS, _PARTS = 8, 64
#: Of a multiprocessor's shared memory, beside what its blocks ask for: as much for each of them.
_RESERVED = 1024
#: Bytes of dynamic shared memory that a kernel has without asking for more.
_WITHOUT_ASKING = 48 * 1024
#: More multiprocessors than any GPU has so far, for estimates.
_MULTIPROCESSORS = 192
#: Of powers as they travel, by bytes of a real number.
_WORDS = {8: np.uint64, 4: np.uint32}
#: As in ``kerr_one_sided.cu``: tiles that have a slot; numbers of an own part.
_SLOTS, _KEPT = 2, 4

#: Names of the operators that are one kernel: those of one or two stages.
OPERATORS = ("derivative", "rotate", "rk4ip_middle", "rk4ip_last")
#: ``Peers`` of ``kerr_one_sided.cu``: numbers, then addresses.
_COUNTS = "ranks rank rows own parts first transfers from to padded"
_ADDRESSES = "start row_part lane_start lane_part part_rank matrix slots tiles late timeout"
PEERS = np.dtype(
    [(name, np.int32) for name in _COUNTS.split()] + [(name, np.uint64) for name in _ADDRESSES.split()]
)


@dataclass(frozen=True)
class Tiling:
    """How blocks of threads cut the samples, the same on all ranks."""

    #: Samples of a tile and rows of threads.
    samples: int
    lanes: int
    #: Phase rates that a thread forms at once; parts whose powers are in shared memory at once.
    outputs: int
    parts: int
    #: Bytes of shared memory of a block, and blocks of a multiprocessor.
    shared: int
    blocks: int

    @property
    def definitions(self) -> tuple[str, ...]:
        """Of ``kerr_one_sided.cu``."""
        values = {"TILE": self.samples, "LANES": self.lanes, "OUTPUTS": self.outputs}
        values |= {"PARTS": self.parts, "BLOCKS": self.blocks}
        return tuple(f"-D{name}={value}" for name, value in values.items())


def tiling(
    rows: int, own: int, parts: int, dtype, block_memory: int, tile: tuple[int, int] | None = None
) -> Tiling | None:
    """For at most so many rows and own parts of a rank, and parts of all: the longest tile of which a
    multiprocessor has enough, or the one it has most of. None if not one fits in its shared memory.

    ``tile`` (samples, rows of threads) is chosen if it is None.
    """
    item = np.finfo(dtype).dtype.itemsize
    tiles = [tile] if tile else [(samples, _THREADS // samples) for samples in _SAMPLES[item]]
    result = []
    for samples, lanes in tiles:
        outputs, held = min(_OUTPUTS, -(-own // lanes)), min(_PARTS, parts)
        numbers = held * samples + held * outputs * lanes + _KEPT * own * samples
        # Both fields; the errors of all threads are added where the fields were.
        shared = max((4 * rows * samples + numbers) * item, 8 * samples * lanes)
        blocks = min(_MOST, (block_memory + _RESERVED) // (shared + _RESERVED))
        result.append(Tiling(samples, lanes, outputs, held, shared, blocks))
    most = max(result, key=lambda each: each.blocks)
    best = next((each for each in result if each.blocks >= _ENOUGH), most)
    return best if best.blocks else None


class OneSidedKerr:
    """Kerr operators of one rank of several, for rows of ``n`` samples; collective.

    ``coupling`` as of `rank_phase_group_coupling`, ``dtype`` of the fields. ``received`` False leaves out the
    work on what others send. ``tile`` (samples, rows of threads) and ``blocks``, the same on all ranks, are
    chosen if not given. `InputError` if these ranks cannot have kernels that wait for one another, or a rank
    has more rows than its shared memory holds samples of.
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
        self._device, self._n = device, int(n)
        self.timeout = comm.timeout("Kerr operator over ranks")
        rows, memory = map(
            list, zip(*comm.control.all_gather((int(coupling.start[-1]), device.block_memory)), strict=True)
        )
        chosen = tiling(max(rows), max(coupling.parts), parts, dtype, min(memory), tile)
        if chosen is None:
            what = f"{max(rows)} rows of a rank are more than kernels that wait for others take"
            raise InputError(f"protocol: {what} ({min(memory)} bytes of shared memory); allowed: copies")
        samples, lanes, outputs = chosen.samples, chosen.lanes, chosen.outputs
        self._block, self._shared = (samples, lanes), chosen.shared
        most = min(-(-self._n // samples), chosen.blocks * self.timeout.multiprocessors)
        self.blocks = most if blocks is None else blocks
        slots = comm.symmetric((self.blocks, 2, _SLOTS, parts, samples), _WORDS[real.itemsize])
        lane_start, lane_part = dealt(np.diff(coupling.start), lanes)
        padded = -(-own // (outputs * lanes)) * outputs * lanes
        matrix = np.zeros((parts, padded), real)
        matrix[:, :own] = np.hstack(coupling.blocks).T
        row_part = np.repeat(np.arange(own), np.diff(coupling.start))
        part_rank = np.repeat(np.arange(comm.size), coupling.parts)
        indices = coupling.start, row_part, lane_start, lane_part, part_rank
        tables = (
            *(device.asarray(each.astype(np.int32)) for each in indices),
            device.asarray(matrix),
            slots.addresses,
            device.zeros((self.blocks, 2), np.uint32),
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
        self._kept = tables, slots
        options = (*type_options(dtype), *chosen.definitions)
        module = device.module(PACKAGE, "kerr_one_sided.cu", options, (SIGNALS, FORMULAS))
        self._kernels = {name: module.get_function(name) for name in OPERATORS}
        if chosen.shared > _WITHOUT_ASKING:
            for kernel in self._kernels.values():
                kernel.max_dynamic_shared_size_bytes = chosen.shared
        device.synchronize()  # kernels may be in other streams

    def kerr(self, operator: KerrOperator, A, K, h: float, error=None) -> None:
        """As `kerr` of ``kerr.py``, for `OPERATORS`; ``error``, one float64, is that of the own rows."""
        errors = np.uint64(0) if error is None else self.errors
        arguments = A, K, np.float64(h), errors, np.int64(self._n), self._peers
        kernel = self._kernels[operator.name]
        self._device.launch(kernel, (self.blocks,), self._block, arguments, self._shared)
        if error is not None:
            error[...] = self.errors.sum()


def most_nbytes(coupling: PhaseGroupCoupling, n: int, dtype) -> int:
    """Bytes that `OneSidedKerr` holds for rows of ``n`` samples, on the largest GPU at most."""
    item = np.finfo(dtype).dtype.itemsize
    longest = _MOST * max(_SAMPLES[item])  # samples of all blocks of a multiprocessor
    return min(n, longest * _MULTIPROCESSORS) * _SLOTS * 2 * sum(coupling.parts) * item


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
