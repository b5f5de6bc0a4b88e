"""Run an exchange as one kernel per rank, by an execution plan, on memory that all GPUs of a host map.

Kernels that wait for those of other ranks must all be resident at once, or one waits for a kernel that
cannot start. So ranks that share a GPU cannot use kernels, and no kernel has more blocks than its GPU has
multiprocessors. If all blocks of concurrent exchanges fit, their order on each GPU does not matter.
"""

from dataclasses import replace
from functools import lru_cache
from typing import Any, ClassVar

import cupy
import numpy as np

from wavefabric.base.errors import InputError, LateRank
from wavefabric.collectives.plans.check import check_execution_plan
from wavefabric.collectives.plans.plan import ExecutionPlan, compile_plan
from wavefabric.collectives.schedule import Schedule
from wavefabric.runtime.exchange.control import check_agreement
from wavefabric.runtime.exchange.transports import MULTIMEM, SIGNALS, plan_code
from wavefabric.runtime.exchange.transports.base import Exchange, Program
from wavefabric.runtime.exchange.transports.multicast import check_multicast

#: Seconds that a kernel waits for another rank, whose host may be busy for long.
TIMEOUT = 600.0
_THREADS = 512
#: Number of plans to cache for schedules that are bound again.
_KEPT = 128
#: By protocol: bytes of the largest piece per block, and maximum blocks, unless ``blocks`` is set. Packets
#: with 1 KiB per block were up to 9 % faster than with 4 KiB; signals with 128 blocks were 8 % faster than
#: with 32 from 64 MiB on (docs/performance.md).
_SLICES = {"signals": (1 << 15, 128), "packets": (1 << 10, 128)}
#: Alignment of buffers in multicast memory, in bytes.
_ALIGNED = 256


class Timeout:
    """Limits how long kernels wait for other ranks, and says whether a rank timed out.

    ``name`` says in error messages what the ranks do; ``multiprocessors`` is the smallest number of
    multiprocessors of the ranks' GPUs.
    """

    #: Host memory that no timeout uses. Kernels may still write there, so it never returns to CuPy.
    _free: ClassVar[list[Any]] = []

    def __init__(self, name: str, multiprocessors: int = 1):
        if self._free:
            cupy.cuda.runtime.deviceSynchronize()
        self._memory = self._free.pop() if self._free else cupy.cuda.alloc_pinned_memory(4)
        self._late = np.frombuffer(self._memory, np.uint32, 1)  # 1 + the rank that timed out
        self._late[0] = 0
        self._name, self.multiprocessors = name, multiprocessors
        #: Whether kernels send and wait at all; False to measure the cost of everything else.
        self.waits = True
        #: Kernel arguments: where a kernel stores which rank timed out (see ``signals.cu``), and nanoseconds.
        self.arguments = np.uint64(self._memory.ptr), np.uint64(round(TIMEOUT * 1e9))

    def __del__(self):
        self._free.append(self._memory)

    def check(self) -> None:
        """Raise `LateRank` if kernels have reported by now that a rank timed out."""
        if late := int(self._late[0]):
            raise LateRank(f"{self._name}: rank {late - 1} did not come to the exchange in time")


class PlanExchange(Exchange):
    """An exchange that launches one kernel: `run` on the current stream, `start` on a separate stream.

    By default the number of ``blocks`` of threads grows with the largest amount of data that the plan moves
    at once, and ``concurrent`` exchanges divide the multiprocessors between them. With switches (multimem
    instructions) a call works on copies of the buffers in multicast memory. `InputError` if ranks share a
    GPU, cannot reach each other, or differ in dtype or blocks; if there are too many blocks; if the dtype
    cannot be summed; if the GPUs have no multicast memory.
    """

    def __init__(
        self, program, buffers, transport, device, protocol: str, blocks: int | None, concurrent: int
    ):
        nothing = replace(program.schedule, transfers=program.schedule.transfers[:0])
        super().__init__(Program(nothing, program.rank), buffers, None, transport)  # no levels
        control, self.protocol = transport.control, protocol
        dtype = buffers[0].dtype
        if concurrent < 1:
            raise InputError(f"concurrent: {concurrent} given; allowed: 1 or more")
        facts = {"blocks": str(blocks), "concurrent": str(concurrent), "dtype": str(dtype)}
        check_agreement(control, facts)
        self._plan = plan = proved_plan(program.schedule, protocol)
        name, _ = plan_code.element_type(dtype, plan_code.has_sums(plan))
        most = min(plan_code.MOST_BLOCKS, transport.multiprocessors())
        fitting = max(1, most // concurrent)
        self.blocks = blocks_for(plan, dtype.itemsize, fitting) if blocks is None else blocks
        if not isinstance(self.blocks, int) or not 1 <= self.blocks <= most:
            raise InputError(f"blocks: {blocks} given; allowed: 1 to {most}")
        #: Pairs (array, its copy in multicast memory) to copy in before a call, and to copy out after it.
        self._taken: list[tuple] = []
        self._left: list[tuple] = []
        multicast = self._in_multicast_memory(transport) if plan_code.check_switched(plan, dtype) else None
        nbytes = plan_code.staging_bytes(plan, control.rank, dtype.itemsize)
        self._staging = transport.allocate((nbytes,), np.uint8)
        self._counters = transport.allocate((control.size * plan_code.MOST_BLOCKS,), np.uint32)
        self._calls = device.zeros((self.blocks,), np.uint32)
        for array in (self._staging, self._counters):
            array.fill(0)
        device.synchronize()
        code = plan_code.encode(plan, control.rank, dtype, self._memory(transport, multicast))
        program = device.asarray(code.program())
        self._shared = program.nbytes if program.nbytes <= plan_code.SHARED else 0
        self._timeout = Timeout(plan.schedule.name)
        device.synchronize()  # calls may be on other streams
        own = self._calls, np.uint32(plan.slots), *self._timeout.arguments
        arguments = *code.arguments(program, self._shared), *own
        folder, options = "wavefabric.runtime.exchange.transports", (f"-DELEMENT={name}",)
        module = device.module(folder, "plan.cu", options, (SIGNALS, MULTIMEM))
        kernel = module.get_function("run_plan")
        self._run_kernel = device.prepared(kernel, self.blocks, _THREADS, arguments, self._shared)
        self._stream = cupy.cuda.Stream(non_blocking=True)
        self._ready, self._done = (cupy.cuda.Event(disable_timing=True) for _ in range(2))

    def _in_multicast_memory(self, transport) -> tuple[list[int], list[int]]:
        """Allocate copies of the buffers in multicast memory; return two lists with an address per buffer.

        The first list is for this rank's copies alone, the second for those of all ranks at once.
        """
        check_multicast(transport)
        schedule, dtype = self._plan.schedule, self._buffers[0].dtype
        sizes = [int(each.sum(axis=1).max()) for each in schedule.sizes]
        ends = np.cumsum([-(-size * dtype.itemsize // _ALIGNED) * _ALIGNED for size in sizes]).tolist()
        memory, offsets = transport.multicast.take(ends[-1], self), [0, *ends[:-1]]
        copies = [memory.array(at, size, dtype) for at, size in zip(offsets, sizes, strict=True)]
        rank = transport.control.rank
        left = {buffer for owner, buffer, _ in schedule.post if owner == rank}
        # Copied in as well: chunks that nothing writes are then copied back unchanged.
        taken = left | {buffer for owner, buffer, _ in schedule.pre if owner == rank}
        for used, pairs in ((taken, self._taken), (left, self._left)):
            for b in sorted(used):
                size = int(schedule.sizes[b][rank].sum())
                pairs.append((self._buffers[b][:size], copies[b][:size]))
        return [memory.own + at for at in offsets], [memory.everywhere + at for at in offsets]

    def _memory(self, transport, multicast) -> list[plan_code.RankMemory]:
        """Return for each rank the addresses at which this rank reaches its memory.

        All ranks make this call, before one of them writes. ``multicast`` is from `_in_multicast_memory`, or
        None.
        """
        reached = () if multicast else self._buffers
        mine = [array.data.ptr for array in (*reached, self._staging, self._counters)]
        result = []
        for peer, theirs in enumerate(transport.control.all_gather([transport.locate(at) for at in mine])):
            own = peer == transport.control.rank
            at = mine if own else [transport.map(peer, location) for location in theirs]
            buffers = multicast if own and multicast else (at[:-2],)
            result.append(plan_code.RankMemory(buffers[0], at[-2], at[-1], *buffers[1:]))
        return result

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
        for array, copy in self._taken:
            copy[...] = array
        self._run_kernel()
        for array, copy in self._left:
            array[...] = copy

    def wait_for(self, peer: int | None = None) -> None:
        self.finish()

    def finish(self) -> None:
        if self._running:
            cupy.cuda.get_current_stream().wait_event(self._done)
            self._running = False

    def check(self) -> None:
        self._timeout.check()


@lru_cache(maxsize=_KEPT)
def proved_plan(schedule: Schedule, protocol: str) -> ExecutionPlan:
    """Compile and verify the execution plan of a schedule for a protocol; plans are cached."""
    plan = compile_plan(schedule, protocol)
    check_execution_plan(plan)
    return plan


def blocks_for(plan: ExecutionPlan, itemsize: int, most: int) -> int:
    """Return the number of thread blocks for a plan's kernel, at most ``most``.

    It grows with the largest amount of data, elements of ``itemsize`` bytes, that the plan moves at once.
    """
    least, enough = _SLICES[plan.protocol]
    slices = max((move.size for move in plan.moves), default=0) * itemsize // least
    return min(1 << max(0, slices.bit_length() - 1), enough, most)
