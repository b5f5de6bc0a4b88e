"""Exchanges as one kernel a rank, which runs an execution plan on memory that the GPUs of a host map.

A kernel waits for others while it runs, so all must be resident at once: ranks that share a GPU cannot do
this, and no kernel has more blocks than its GPU has multiprocessors. Exchanges under way at once share these:
only if all their blocks fit, their order on each GPU does not matter.
"""

from __future__ import annotations

import copy
from typing import Any, ClassVar

import cupy
import numpy as np

from wavefabric.collectives.plans.check import check_plan
from wavefabric.collectives.plans.moves import Move
from wavefabric.collectives.plans.plan import ExecutionPlan, compile_plan
from wavefabric.errors import InputError
from wavefabric.exchange.control import check_agreement
from wavefabric.exchange.transports.base import Exchange
from wavefabric.exchange.transports.plan_code import (
    MOST_BLOCKS,
    SHARED,
    RankMemory,
    arrival_bytes,
    element_type,
    encode,
    has_sums,
)

_THREADS = 512
#: Bytes of its largest piece that a block should have, and most blocks, unless told otherwise: 32 keep 1 MiB
#: under way, more than an NVLink delays times what it carries, and leave room for what is computed meanwhile.
_SLICE, _ENOUGH = 1 << 14, 32
#: Seconds that a kernel waits for another rank, unless told otherwise.
PATIENCE = 120.0


class LateRank(RuntimeError):
    """A rank did not come to an exchange in time. Its data are lost; the exchange cannot be used again."""


class PlanExchange(Exchange):
    """A kernel a call: `run` launches it in the current stream, `start` in one of its own.

    Parameters
    ----------
    program, buffers
        As of `Transport.bind`.
    transport : P2PTransport
    device : CudaDevice
    protocol : str
        Of `wavefabric.collectives.plans.plan.PROTOCOLS`.
    blocks : int, optional
        Of the kernel, the same on all ranks; by default from the size of the largest piece.
    patience : float
        Seconds.

    Raises
    ------
    InputError
        If ranks share a GPU, do not all reach one another or were given different dtypes or blocks; for
        blocks that do not fit, and for a dtype that sums cannot be taken in.
    """

    def __init__(
        self, program, buffers, transport, device, protocol: str, blocks=None, patience: float = PATIENCE
    ):
        none = copy.copy(program)
        none.levels = []  # nothing is left to do level by level
        super().__init__(none, buffers, None)
        control = transport.control
        dtype = buffers[0].dtype
        check_agreement(control, {"blocks": str(blocks), "dtype": str(dtype)})
        self._plan = plan = compile_plan(program.schedule, protocol)
        check_plan(plan)
        name, _ = element_type(dtype, has_sums(plan))
        most = most_blocks(transport)
        self.blocks = blocks_for(plan, dtype.itemsize, most) if blocks is None else blocks
        if not isinstance(self.blocks, int) or not 1 <= self.blocks <= most:
            raise InputError(f"blocks: {blocks} given; allowed: 1 to {most}")
        self._arrivals = transport.allocate((arrival_bytes(plan, control.rank, dtype.itemsize),), np.uint8)
        self._counters = transport.allocate((control.size * MOST_BLOCKS,), np.uint32)
        self._calls = device.zeros((self.blocks,), np.uint32)
        for array in (self._arrivals, self._counters):
            array.fill(0)
        device.synchronize()
        code = encode(plan, control.rank, dtype, self._memory(transport))
        program = device.asarray(code.program())
        self._shared = program.nbytes if program.nbytes <= SHARED else 0
        self._late = _HostWord()
        device.synchronize()  # calls may be in other streams
        self._arguments = (
            *code.arguments(program, self._shared),
            self._calls,
            np.uint32(plan.rooms),
            np.uint64(self._late.address),
            np.uint64(round(patience * 1e9)),
        )
        folder = "wavefabric.exchange.transports"
        self._kernel = device.module(folder, "plan.cu", (f"-DELEMENT={name}",)).get_function("run_plan")
        self._stream = cupy.cuda.Stream(non_blocking=True)
        self._ready, self._done = (cupy.cuda.Event(disable_timing=True) for _ in range(2))

    def _memory(self, transport) -> list[RankMemory]:
        """Addresses of all ranks' memory, as seen from here; nobody writes to it before all have come."""
        mine = [array.data.ptr for array in (*self._buffers, self._arrivals, self._counters)]
        found = []
        for peer, places in enumerate(transport.control.all_gather([transport.locate(at) for at in mine])):
            own = peer == transport.control.rank
            at = mine if own else [transport.map(peer, place) for place in places]
            found.append(RankMemory(at[:-2], at[-2], at[-1]))
        return found

    def run(self) -> None:
        if self._running:
            raise RuntimeError("an exchange was run before what was started had been finished")
        self.check()
        self._launch()

    def start(self) -> None:
        self.check()
        super().start()
        self._ready.record()
        self._stream.wait_event(self._ready)
        with self._stream:
            self._launch()
        self._done.record(self._stream)

    def _launch(self) -> None:
        self._kernel((self.blocks,), (_THREADS,), self._arguments, shared_mem=self._shared)

    def arrived(self, peer: int | None = None) -> None:
        self.finish()

    def finish(self) -> None:
        if self._running:
            cupy.cuda.get_current_stream().wait_event(self._done)
            self._running = False

    def check(self) -> None:
        if self._late.value:
            name, rank = self._plan.schedule.name, self._late.value - 1
            raise LateRank(f"{name}: rank {rank} did not come to the exchange in time")


def most_blocks(transport) -> int:
    """Blocks that a GPU holds at once; `InputError` where those of all ranks would not run at once.

    Collective.
    """
    if not transport.complete:  # first: GPUs of different hosts may have the same address
        raise InputError("protocol: some GPUs do not reach others; allowed: copies")
    properties = cupy.cuda.Device().attributes["MultiProcessorCount"]
    gpus = transport.control.all_gather((cupy.cuda.Device().pci_bus_id, properties))
    shared = [rank for rank, (gpu, _) in enumerate(gpus) if [own for own, _ in gpus].count(gpu) > 1]
    if shared:
        ranks = ", ".join(map(str, shared))
        raise InputError(f"protocol: ranks {ranks} share a GPU; allowed: copies, or a GPU for each rank")
    return min(MOST_BLOCKS, *(count for _, count in gpus))


def blocks_for(plan: ExecutionPlan, itemsize: int, most: int) -> int:
    """Blocks of a kernel: a power of two, so that each has some bytes of the largest piece."""
    sizes = [each.size for code in plan.instructions for each in code if isinstance(each, Move)]
    slices = max(sizes, default=0) * itemsize // _SLICE
    return min(1 << max(0, slices.bit_length() - 1), _ENOUGH, most)


class _HostWord:
    """A number in memory of the host that GPUs read and write too.

    Memory is kept for words that follow: CuPy would give it to others while a kernel still reads it.
    """

    _free: ClassVar[list[Any]] = []

    def __init__(self):
        if self._free:
            cupy.cuda.runtime.deviceSynchronize()
        self._memory = self._free.pop() if self._free else cupy.cuda.alloc_pinned_memory(4)
        self._word = np.frombuffer(self._memory, np.uint32, 1)
        self._word[0] = 0
        self.address = int(self._memory.ptr)

    def __del__(self):
        self._free.append(self._memory)

    @property
    def value(self) -> int:
        """What it is now."""
        return int(self._word[0])
