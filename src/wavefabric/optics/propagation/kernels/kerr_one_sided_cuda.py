"""Launch kernels of ``kerr_one_sided.cu``, each of which applies a Kerr operator over several ranks."""

import heapq
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from wavefabric.base.errors import InputError
from wavefabric.optics.propagation.kernels import KerrOperator
from wavefabric.optics.propagation.kernels.kerr_cuda import PACKAGE, type_options
from wavefabric.optics.propagation.phase_groups import PhaseGroupCoupling
from wavefabric.runtime.exchange.communicator import Communicator
from wavefabric.runtime.exchange.transports import SIGNALS

#: Samples of a tile by bytes of a real number, best first: rows of 512 bytes down to 128, a cache line.
_SAMPLES = {8: (32, 16, 8), 4: (64, 32, 16)}
#: Threads per block; blocks per multiprocessor that hide each other's waits: enough, fewest and most.
_THREADS, _ENOUGH, _LEAST, _MOST = 128, 4, 2, 8
#: Largest numbers of phase rates that a thread computes at once, of parts of phase groups with powers in
#: shared memory at once, and of bytes of these parts' weights in shared memory.
_OUTPUTS, _PARTS, _WEIGHTS = 8, 64, 1 << 14
#: Bytes of a multiprocessor's shared memory that each block uses in addition to its request.
_RESERVED = 1024
#: Bytes of dynamic shared memory that a kernel may use without a request for more.
_WITHOUT_ASKING = 48 * 1024
#: More multiprocessors than any GPU has so far, for estimates.
_MULTIPROCESSORS = 192
#: Type of transferred powers, by bytes of a real number.
_WORDS = {8: np.uint64, 4: np.uint32}
#: Number of tiles with a slot, and numbers per part of this rank, as in ``kerr_one_sided.cu``.
_SLOTS, _KEPT = 2, 4

#: Names of the operators that are one kernel, by the number of fields that they read: one or two stages.
OPERATORS = {1: ("derivative", "rotate"), 2: ("rk4ip_middle", "rk4ip_last")}
#: ``Peers`` of ``kerr_one_sided.cu``: numbers, then addresses.
_COUNTS = "ranks rank rows own parts first transfers from to padded"
_ADDRESSES = "start row_part lane_start lane_part part_rank matrix slots tiles late timeout"
PEERS = np.dtype(
    [(name, np.int32) for name in _COUNTS.split()] + [(name, np.uint64) for name in _ADDRESSES.split()]
)


@dataclass(frozen=True)
class Tiling:
    """Describes the tiles of samples that the blocks of a kernel process one by one; equal on all ranks."""

    #: Number of fields that the kernel reads; samples of a tile and rows of threads.
    fields: int
    samples: int
    lanes: int
    #: Phase rates that a thread computes at once; parts whose powers are in shared memory at once.
    outputs: int
    parts: int
    #: Bytes of shared memory per block, and blocks per multiprocessor.
    shared: int
    blocks: int

    @property
    def definitions(self) -> tuple[str, ...]:
        """Return the compiler definitions for ``kerr_one_sided.cu``."""
        values = {"FIELDS": self.fields, "TILE": self.samples, "LANES": self.lanes}
        values |= {"OUTPUTS": self.outputs, "PARTS": self.parts, "BLOCKS": self.blocks}
        return tuple(f"-D{name}={value}" for name, value in values.items())


class KerrSizes(NamedTuple):
    """Holds the sizes from which all ranks choose the same tiling.

    A part is a phase group, or the part of it on one rank. ``rows`` and ``local_parts`` are the largest
    numbers of field rows and of parts on a rank, ``parts`` is the number of parts on all ranks. A block may
    use ``block_memory`` bytes of shared memory.
    """

    rows: int
    local_parts: int
    parts: int
    block_memory: int

    def tiling(self, fields: int, dtype, tile: tuple[int, int] | None = None) -> Tiling | None:
        """Return the tiling with the longest tiles that leaves enough blocks per multiprocessor.

        If none does, return that with most blocks; None if fewer than two blocks fit. ``tile`` (samples, rows
        of threads) prescribes the tile.
        """
        item = np.finfo(dtype).dtype.itemsize
        tiles = [tile] if tile else [(samples, _THREADS // samples) for samples in _SAMPLES[item]]
        result = []
        for samples, lanes in tiles:
            outputs = min(_OUTPUTS, -(-self.local_parts // lanes))
            stored_parts = min(_PARTS, self.parts, max(1, _WEIGHTS // (outputs * lanes * item)))
            numbers = stored_parts * (samples + outputs * lanes) + _KEPT * self.local_parts * samples
            # The errors of all threads are summed in the memory of the fields.
            shared = max((2 * fields * self.rows * samples + numbers) * item, 8 * samples * lanes)
            blocks = min(_MOST, (self.block_memory + _RESERVED) // (shared + _RESERVED))
            result.append(Tiling(fields, samples, lanes, outputs, stored_parts, shared, blocks))
        most = max(result, key=lambda each: each.blocks)
        best = next((each for each in result if each.blocks >= _ENOUGH), most)
        return best if best.blocks >= _LEAST else None


class _Kernels:
    """Launches the kernels of one tiling, for operators on one field or two; all ranks create it together."""

    def __init__(self, kerr: "OneSidedKerr", chosen: Tiling, blocks: int | None):
        device, comm, coupling, real = kerr.device, kerr.comm, kerr.coupling, np.finfo(kerr.dtype).dtype
        local_parts, parts, first = coupling.own_groups, sum(coupling.parts), sum(coupling.parts[: comm.rank])
        options = (*type_options(kerr.dtype), *chosen.definitions)
        module = device.module(PACKAGE, "kerr_one_sided.cu", options, (SIGNALS,))
        self._functions = {name: module.get_function(name) for name in OPERATORS[chosen.fields]}
        if chosen.shared > _WITHOUT_ASKING:
            for function in self._functions.values():
                function.max_dynamic_shared_size_bytes = chosen.shared
        threads = chosen.samples * chosen.lanes
        resident = (device.resident_blocks(each, threads, chosen.shared) for each in self._functions.values())
        fitting = min(chosen.blocks, *comm.control.all_gather(min(resident)))
        if not fitting:
            raise InputError("protocol: kernels that wait for other ranks do not fit here; allowed: copies")
        most = min(-(-kerr.n // chosen.samples), fitting * kerr.timeout.multiprocessors)
        self.blocks = most if blocks is None else blocks
        self._device, self._n, self._shared = device, np.int64(kerr.n), chosen.shared
        self._block = chosen.samples, chosen.lanes
        self.slots = comm.symmetric((self.blocks, 2, _SLOTS, parts, chosen.samples), _WORDS[real.itemsize])
        lane_start, lane_part = distribute_parts(np.diff(coupling.start), chosen.lanes)
        at_once = chosen.outputs * chosen.lanes
        padded = -(-local_parts // at_once) * at_once
        matrix = np.zeros((parts, padded), real)
        matrix[:, :local_parts] = np.hstack(coupling.blocks).T
        row_part = np.repeat(np.arange(local_parts), np.diff(coupling.start))
        part_rank = np.repeat(np.arange(comm.size), coupling.parts)
        indices = coupling.start, row_part, lane_start, lane_part, part_rank
        #: Arrays that must stay alive, as kernels have only their addresses.
        self._tables = (
            *(device.asarray(each.astype(np.int32)) for each in indices),
            device.asarray(matrix),
            self.slots.addresses,
            device.zeros((self.blocks, 2), np.uint32),
        )
        #: Squared local error of the tiles of each block.
        self._errors = device.empty((self.blocks,), np.float64)
        which = (0, parts) if kerr.received else (first, first + local_parts)
        peers = np.zeros(1, PEERS)
        counts = comm.size, comm.rank, coupling.start[-1], local_parts, parts, first
        addresses = (device.address(table) for table in self._tables)
        peers[0] = (*counts, kerr.timeout.waits, *which, padded, *addresses, *kerr.timeout.arguments)
        self._peers = device.asarray(peers.view(np.uint8))

    def launch(self, operator: KerrOperator, A, K, h: float, error) -> None:
        errors = np.uint64(0) if error is None else self._errors
        arguments = A, K, np.float64(h), errors, self._n, self._peers
        function = self._functions[operator.name]
        self._device.launch(function, (self.blocks,), self._block, arguments, self._shared)
        if error is not None:
            error[...] = self._errors.sum()


class OneSidedKerr:
    """Applies Kerr operators to a rank's rows of ``n`` samples, by kernels that write to other ranks' memory.

    All ranks create it together. ``coupling`` comes from `rank_phase_group_coupling`, ``dtype`` is the type
    of fields. With ``received`` False, data of other ranks are transferred but not used. ``tile`` (samples,
    rows of threads) and ``blocks`` are equal on all ranks and chosen automatically by default. `InputError`
    if these ranks cannot run kernels that wait for one another.
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
        self.device, self.comm, self.coupling = device, comm, coupling
        self.n, self.dtype, self.received = int(n), dtype, received
        self.timeout = comm.timeout("Kerr operator over ranks")
        everybody = comm.control.all_gather((int(coupling.start[-1]), device.block_memory))
        rows, memory = zip(*everybody, strict=True)
        sizes = KerrSizes(max(rows), max(coupling.parts), sum(coupling.parts), min(memory))
        #: Kernels by operator name.
        self.kernels: dict[str, _Kernels] = {}
        for fields, names in OPERATORS.items():
            chosen = sizes.tiling(fields, dtype, tile)
            if chosen is not None:
                self.kernels |= dict.fromkeys(names, _Kernels(self, chosen, blocks))
        device.synchronize()  # kernels may be in other streams

    def serves(self, operator: KerrOperator) -> bool:
        """Return whether one kernel can apply ``operator``: not with over two stages or too many rows."""
        return operator.name in self.kernels

    def kerr(self, operator: KerrOperator, A, K, h: float, error=None) -> None:
        """Apply ``operator`` in place, as `CpuKerrKernels.kerr`; ``error`` is that of this rank's rows."""
        self.kernels[operator.name].launch(operator, A, K, h, error)


def most_nbytes(coupling: PhaseGroupCoupling, n: int, dtype) -> int:
    """Return an upper bound, valid on any GPU, of the memory of `OneSidedKerr` in bytes."""
    item = np.finfo(dtype).dtype.itemsize
    longest, whole = _MOST * max(_SAMPLES[item]), -(-n // max(_SAMPLES[item])) * max(_SAMPLES[item])
    of_fields = min(whole, longest * _MULTIPROCESSORS) * _SLOTS * 2 * sum(coupling.parts) * item
    return len(OPERATORS) * of_fields


def distribute_parts(rows, lanes: int) -> tuple[np.ndarray, np.ndarray]:
    """Distribute parts of phase groups among ``lanes`` rows of threads, so that field rows are spread evenly.

    ``rows`` are the numbers of field rows of the parts, which are dealt out largest first. Returns two
    arrays: the second, (parts,), lists the parts in the order of rows of threads; the first, (lanes + 1,),
    has the start of each row of threads in this list.
    """
    by_lane: list[list[int]] = [[] for _ in range(lanes)]
    least = [(0, lane) for lane in range(lanes)]
    for part in np.argsort(-np.asarray(rows), kind="stable").tolist():
        load, lane = heapq.heappop(least)
        by_lane[lane].append(part)
        heapq.heappush(least, (load + int(rows[part]), lane))
    return np.cumsum([0, *map(len, by_lane)]), np.array([part for parts in by_lane for part in parts])
