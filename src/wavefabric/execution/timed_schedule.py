"""A schedule of one size, or NCCL's own operation, on real ranks: data checked to the bit, and times."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wavefabric.collectives import Schedule, direct_all_gather
from wavefabric.collectives.conditions import CUT_BY_RANK, kind, operation, whole_elements
from wavefabric.collectives.plans.plan import PROTOCOLS, compile_plan
from wavefabric.collectives.structure import sent_and_received
from wavefabric.device import bfloat16
from wavefabric.errors import InputError, require
from wavefabric.exchange.transports.base import Program
from wavefabric.exchange.transports.plan_code import staging_bytes
from wavefabric.execution.timing import Ranks, timed

#: Element types whose sums over ranks are exact, and the largest whole number that each counts up to.
EXACT = {"float16": 2**11, "float32": 2**24, "float64": 2**53, "int32": 2**31 - 1, "int64": 2**63 - 1}
EXACT |= {bfloat16.NAME: 2**8}
#: Contributions are whole numbers below this.
_VALUES = 251
#: Elements that are made at a time.
_BLOCK = 1 << 22
#: Everybody's result needs everybody's data, so no rank can run ahead of the others from run to run.
_IN_STEP = ("all-gather", "reduce-scatter", "all-reduce", "all-to-all")
#: Calls of a CUDA graph.
GRAPHED = 20
#: ms. Differences below it cannot be told from noise.
_SHORTEST = 1e-3


def values_of(dtype: str, ranks: int) -> int:
    """Contributions are whole numbers from 0 to below this: sums over all ranks are exact in any order."""
    require(dtype in EXACT, "dtype", f"{dtype!r} given", ", ".join(EXACT))
    bfloat16.named(dtype)  # from now on NumPy knows its name
    if EXACT[dtype] // ranks < 2:
        raise InputError(f"dtype: {dtype} for {ranks} ranks; allowed up to {EXACT[dtype] // 2} ranks")
    return min(_VALUES, EXACT[dtype] // ranks)


def contribution(xp, item: int, origin: int, first: int, size: int, values: int):
    """Whole numbers that rank ``origin`` contributes to elements ``first`` … of an item: (size,), uint32."""
    numbers = xp.arange(first, first + size, dtype=np.uint32)
    numbers *= np.uint32(2654435761)
    numbers += np.uint32((item * 374761393 + origin * 668265263 + 1442695041) & 0xFFFFFFFF)
    numbers ^= numbers >> np.uint32(15)
    numbers *= np.uint32(2246822519)
    numbers ^= numbers >> np.uint32(13)
    numbers %= np.uint32(values)
    return numbers


def expected(xp, held: tuple[int, int], first: int, size: int, values: int, dtype: str):
    """Elements ``first`` … of an item with the contributions of a set of ranks: (size,)."""
    item, origins = held
    total = xp.zeros(size, dtype)
    for origin in range(origins.bit_length()):
        if origins >> origin & 1:
            total += contribution(xp, item, origin, first, size, values).astype(dtype)
    return total


def fill(comm, schedule: Schedule, buffers: dict[str, Any], dtype: str) -> None:
    """Write what ``pre`` says a rank holds into these buffers, all else what no sum can be; collective."""
    poison = -(1 << 20) if np.dtype(dtype).kind == "i" else np.nan
    for name in buffers:
        number = schedule.buffers.index(name)
        buffers[name][: int(schedule.sizes[number][comm.rank].sum())] = poison
    for block, values in _blocks(comm, schedule, schedule.pre, buffers, dtype):
        block[...] = values
    _meet(comm)


def count_wrong(comm, schedule: Schedule, buffers: dict[str, Any], dtype: str) -> int:
    """Elements that differ from what ``post`` says, on all ranks together; collective."""
    blocks = _blocks(comm, schedule, schedule.post, buffers, dtype)
    return int(comm.control.sum(sum(int(comm.device.xp.count_nonzero(b != values)) for b, values in blocks)))


def _blocks(comm, schedule: Schedule, holdings, buffers: dict[str, Any], dtype: str):
    """(elements, what they should be) of all that is named of this rank, piece by piece."""
    xp, values = comm.device.xp, values_of(dtype, schedule.ranks)
    offsets = [schedule.offsets(number, comm.rank) for number in range(len(schedule.buffers))]
    for (owner, buffer, chunk), held in holdings.items():
        if owner != comm.rank:
            continue
        start, stop = (int(end) for end in offsets[buffer][chunk : chunk + 2])
        part = buffers[schedule.buffers[buffer]][start:stop]
        for first in range(0, part.size, _BLOCK):
            block = part[first : first + _BLOCK]
            yield block, expected(xp, held, first, block.size, values, dtype)


def _meet(comm) -> None:
    """Everybody has written what is his; before anybody writes here."""
    comm.device.synchronize()
    comm.control.barrier()


@dataclass(frozen=True)
class SizedSchedule:
    """A schedule for an array of so many ``bytes``; ``busiest``: those that one rank sends or receives."""

    schedule: Schedule
    collective: str
    root: int | None
    bytes: int
    busiest: int

    @classmethod
    def of(cls, schedule: Schedule, width: int) -> "SizedSchedule":
        """A schedule whose elements have so many bytes."""
        return cls(schedule, *kind(schedule), whole_elements(schedule) * width, busiest(schedule) * width)

    @property
    def separate(self) -> bool:
        """Whether a barrier has to keep one run from the next."""
        return self.collective not in _IN_STEP

    def totals(self) -> dict[str, int]:
        """Elements of each buffer on the rank that has most."""
        pairs = zip(self.schedule.buffers, self.schedule.sizes, strict=True)
        return {name: int(sizes.sum(axis=1).max()) for name, sizes in pairs}

    def bandwidths(self, seconds: float) -> tuple[float, float]:
        """algbw and busbw of nccl-tests in GB/s; see `wavefabric.execution.run_schedule.run`."""
        algbw = self.bytes / seconds * 1e-9
        k = self.schedule.ranks
        factors = dict.fromkeys((*_IN_STEP, "gather", "scatter"), (k - 1) / k)
        factors |= {"all-reduce": 2 * (k - 1) / k, "broadcast": 1.0, "reduce": 1.0}
        factor = factors.get(self.collective)
        return algbw, self.busiest / seconds * 1e-9 if factor is None else algbw * factor


def busiest(schedule: Schedule) -> int:
    """Elements that the busiest rank sends, or receives, between ranks."""
    return int(np.max(sent_and_received(schedule)))


def largest_buffers(sizes: list[SizedSchedule]) -> dict[str, int]:
    """Elements that each buffer needs for all sizes."""
    names = dict.fromkeys(name for sized in sizes for name in sized.schedule.buffers)
    return {name: max(1, *(sized.totals().get(name, 0) for sized in sizes)) for name in names}


def check_memory(ranks: Ranks, sizes: list[SizedSchedule], width: int, protocols: Sequence[str] = ()) -> None:
    """Refuse, on all ranks, sizes that do not fit, of elements of so many bytes; collective.

    Of ``protocols`` those of kernels have memory where data arrive.
    """
    added = max(Program(sized.schedule, ranks.rank).scratch for sized in sizes)
    elements = sum(largest_buffers(sizes).values()) + added
    staging = [
        staging_bytes(compile_plan(sized.schedule, protocol), ranks.rank, width)
        for protocol in set(protocols) & set(PROTOCOLS)
        for sized in sizes
    ]
    # All powers of two below the most are kept for those that follow. Blocks of expected values come on top.
    needed = elements * width + 2 * max(staging, default=0) + (1 << 27)
    ranks.check_memory(needed, f"sizes: {max(sized.bytes for sized in sizes)} bytes")


def check_and_time(
    ranks: Ranks,
    comm,
    sized: SizedSchedule,
    work: Callable[[], Any],
    buffers: dict[str, Any],
    repeats: int,
    graph: bool = False,
) -> dict[str, Any]:
    """Run ``work`` on data whose sums are exact, count what is wrong, and time it on zeros; collective.

    With ``graph`` also as `GRAPHED` calls of one CUDA graph, unless a barrier has to come between them.
    """
    dtype = str(next(iter(buffers.values())).dtype)
    fill(comm, sized.schedule, buffers, dtype)
    work()
    wrong = count_wrong(comm, sized.schedule, buffers, dtype)
    for array in buffers.values():
        array[...] = 0
    _meet(comm)
    times = _separate_times(ranks, comm, work, repeats) if sized.separate else timed(ranks, work, repeats)
    algbw, busbw = sized.bandwidths(times["ms"] * 1e-3)
    row = {"bytes": sized.bytes, **microseconds(times), "algbw": algbw, "busbw": busbw, "wrong": wrong}
    if graph and not sized.separate:
        replay = comm.device.graph(lambda: [work() for _ in range(GRAPHED)])
        row["graph_us"] = timed(ranks, replay, repeats)["ms"] * 1e3 / GRAPHED
    return row


def microseconds(times: dict[str, float]) -> dict[str, float]:
    """Median, best and worst of times in ms as µs."""
    return {key.replace("ms", "us"): value * 1e3 for key, value in times.items()}


def _separate_times(ranks: Ranks, comm, work: Callable[[], Any], repeats: int) -> dict[str, float]:
    """Times of runs that wait for each other; what the barrier takes alone is taken off."""
    flags = comm.allocate((comm.size,), "int32")
    flags[...] = 0
    barrier = comm.bind(direct_all_gather([1] * comm.size), {"data": flags}).run

    def both() -> None:
        work()
        barrier()

    alone = timed(ranks, barrier, repeats)["ms"]
    return {key: max(_SHORTEST, value - alone) for key, value in timed(ranks, both, repeats).items()}


def nccl_rows(
    ranks: Ranks, sizes: list[SizedSchedule], dtype: str, repeats: int, say: Callable, graph: bool = False
) -> tuple[list[dict[str, Any]] | None, str | None]:
    """Rows of NCCL's own operation for sizes of equal shares, or None and why there are none; collective."""
    if not ranks.on_gpu:
        return None, "NCCL needs GPUs"
    first = sizes[0]
    if not operation(first.schedule).in_place:
        return None, f"NCCL has no operation with the conditions of {first.schedule.name}"
    comm, why = ranks.open("nccl")
    if comm is None:
        return None, why
    measured, largest = [], largest_buffers(sizes)
    # Only the operation's own buffers: scratch is the schedule's.
    names = first.schedule.buffers[: 2 if first.collective == "all-to-all" else 1]
    buffers = {name: comm.allocate((largest[name],), dtype) for name in names}
    for sized in sizes:
        cut = sized.collective in CUT_BY_RANK
        if cut and np.ptp(sized.schedule.sizes[0][0].reshape(comm.size, -1).sum(axis=1)):
            continue
        say(f"NCCL's own {sized.collective}, {sized.bytes} bytes")
        parts = {name: buffers[name][: sized.totals()[name]] for name in names}
        work = comm.own_collective(sized.collective, list(parts.values()), sized.root or 0)
        measured.append(check_and_time(ranks, comm, sized, work, parts, repeats, graph))
    return (measured, None) if measured else (None, "NCCL needs equal shares")
