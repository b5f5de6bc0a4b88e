"""Checks a schedule of one size, or NCCL's built-in operation, on real ranks to the bit, and times it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wavefabric.base.errors import InputError, ensure
from wavefabric.collectives import Schedule, direct_all_gather
from wavefabric.collectives.conditions import CUT_BY_RANK, kind, operation, whole_elements
from wavefabric.collectives.plans.plan import PROTOCOLS, compile_plan
from wavefabric.fabric.cost_models.bus_bandwidth import OF_ALL_RANKS, bandwidths
from wavefabric.fabric.execution.timing import Ranks, timed
from wavefabric.runtime.device import bfloat16
from wavefabric.runtime.exchange.transports.base import Program
from wavefabric.runtime.exchange.transports.plan_code import staging_bytes

#: Element types whose sums over ranks are exact, with the largest whole number that each can count to.
EXACT = {"float16": 2**11, "float32": 2**24, "float64": 2**53, "int32": 2**31 - 1, "int64": 2**63 - 1}
EXACT |= {bfloat16.NAME: 2**8}
#: Contributions are whole numbers below this.
_VALUES = 251
#: Elements generated at a time.
_BLOCK = 1 << 22
#: Number of calls in a CUDA graph.
GRAPHED = 20
#: Shortest time in ms; shorter differences are noise.
_SHORTEST = 1e-3


def values_of(dtype: str, ranks: int) -> int:
    """Return n such that sums of ``ranks`` whole numbers below n are exact in ``dtype``, in any order."""
    ensure(dtype in EXACT, "dtype", f"{dtype!r} given", ", ".join(EXACT))
    bfloat16.named(dtype)  # registers the name with NumPy
    if EXACT[dtype] // ranks < 2:
        raise InputError(f"dtype: {dtype} for {ranks} ranks; allowed up to {EXACT[dtype] // 2} ranks")
    return min(_VALUES, EXACT[dtype] // ranks)


def contribution(xp, item: int, origin: int, first: int, size: int, values: int):
    """Return the test data of rank ``origin`` for an item (a piece of data that is exchanged or summed).

    They are ``size`` whole numbers below ``values``, from element ``first`` on, as uint32.
    """
    numbers = xp.arange(first, first + size, dtype=np.uint32)
    numbers *= np.uint32(2654435761)
    numbers += np.uint32((item * 374761393 + origin * 668265263 + 1442695041) & 0xFFFFFFFF)
    numbers ^= numbers >> np.uint32(15)
    numbers *= np.uint32(2246822519)
    numbers ^= numbers >> np.uint32(13)
    numbers %= np.uint32(values)
    return numbers


def expected(xp, held: tuple[int, int], first: int, size: int, values: int, dtype: str):
    """Return ``size`` elements, from element ``first`` on, of the correct result for an item.

    ``held``: the item, and a bit mask of the ranks whose contributions are summed (see `contribution`).
    """
    item, origins = held
    total = xp.zeros(size, dtype)
    for origin in range(origins.bit_length()):
        if origins >> origin & 1:
            total += contribution(xp, item, origin, first, size, values).astype(dtype)
    return total


def fill(comm, schedule: Schedule, buffers: dict[str, Any], dtype: str) -> None:
    """Fill the chunks of the precondition with test data, and all else with invalid values.

    All ranks must call it.
    """
    poison = -(1 << 20) if np.dtype(dtype).kind == "i" else np.nan
    for name in buffers:
        number = schedule.buffers.index(name)
        buffers[name][: int(schedule.sizes[number][comm.rank].sum())] = poison
    for block, values in _blocks(comm, schedule, schedule.pre, buffers, dtype):
        block[...] = values
    _meet(comm)


def count_wrong(comm, schedule: Schedule, buffers: dict[str, Any], dtype: str) -> int:
    """Return how many elements on all ranks differ from the postcondition; all ranks must call it."""
    blocks = _blocks(comm, schedule, schedule.post, buffers, dtype)
    return int(comm.control.sum(sum(int(comm.device.xp.count_nonzero(b != values)) for b, values in blocks)))


def _blocks(comm, schedule: Schedule, holdings, buffers: dict[str, Any], dtype: str):
    """Yield (elements, correct values) of this rank's chunks; ``holdings``: a pre- or postcondition."""
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
    """Wait until all ranks have written their own data, before any rank writes to another's."""
    comm.device.synchronize()
    comm.control.barrier()


@dataclass(frozen=True)
class SizedSchedule:
    """A schedule for ``bytes`` bytes of data, whose elements have ``width`` bytes."""

    schedule: Schedule
    collective: str
    root: int | None
    bytes: int
    width: int

    @classmethod
    def of(cls, schedule: Schedule, width: int) -> "SizedSchedule":
        """Return the `SizedSchedule` of a schedule whose elements have ``width`` bytes."""
        return cls(schedule, *kind(schedule), whole_elements(schedule) * width, width)

    @property
    def separate(self) -> bool:
        """Return whether a barrier must separate one run from the next."""
        return self.collective not in OF_ALL_RANKS  # no rank can run ahead from run to run

    def totals(self) -> dict[str, int]:
        """Return a dictionary from each buffer to its number of elements, on the rank where it is largest."""
        pairs = zip(self.schedule.buffers, self.schedule.sizes, strict=True)
        return {name: int(sizes.sum(axis=1).max()) for name, sizes in pairs}

    def bandwidths(self, seconds: float) -> tuple[float, float]:
        """Return algorithm and bus bandwidth (algbw, busbw of nccl-tests) in GB/s of a run of ``seconds``."""
        algbw, busbw = bandwidths(self.schedule, self.width, seconds)
        return algbw * 1e-9, busbw * 1e-9


def largest_buffers(sizes: list[SizedSchedule]) -> dict[str, int]:
    """Return a dictionary from each buffer to the number of elements that it needs for the largest size."""
    names = dict.fromkeys(name for sized in sizes for name in sized.schedule.buffers)
    return {name: max(1, *(sized.totals().get(name, 0) for sized in sizes)) for name in names}


def check_memory(ranks: Ranks, sizes: list[SizedSchedule], width: int, protocols: Sequence[str] = ()) -> None:
    """Raise `InputError` on all ranks if the buffers of ``sizes`` do not fit into memory; all must call it.

    ``width`` is the bytes per element. Protocols that are kernels also need memory for staging buffers.
    """
    added = max(Program(sized.schedule, ranks.rank).scratch for sized in sizes)
    elements = sum(largest_buffers(sizes).values()) + added
    staging = [
        staging_bytes(compile_plan(sized.schedule, protocol), ranks.rank, width)
        for protocol in set(protocols) & set(PROTOCOLS)
        for sized in sizes
    ]
    # The pool keeps all powers of two below the largest for reuse; add space for blocks of expected values.
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
    """Run ``work`` on data with exact sums, count wrong elements, and time it on zeros.

    All ranks must call it. Returns the size, times in µs, bandwidths and the number of wrong elements. With
    ``graph``, also time `GRAPHED` calls in one CUDA graph, unless a barrier is needed between them.
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
    """Convert median, best and worst times from ms to µs."""
    return {key.replace("ms", "us"): value * 1e3 for key, value in times.items()}


def _separate_times(ranks: Ranks, comm, work: Callable[[], Any], repeats: int) -> dict[str, float]:
    """Time runs with a barrier after each; the time of the barrier alone is subtracted."""
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
    """Check and time NCCL's own operation; return one row per size, or None and the reason why it cannot run.

    Sizes that ranks cannot divide into equal parts are left out. All ranks must call it.
    """
    if not ranks.on_gpu:
        return None, "NCCL needs GPUs"
    first = sizes[0]
    if not operation(first.schedule).in_place:
        return None, f"NCCL has no operation with the conditions of {first.schedule.name}"
    comm, why = ranks.open("nccl")
    if comm is None:
        return None, why
    measured, largest = [], largest_buffers(sizes)
    # Only the operation's buffers: scratch belongs to the schedule.
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
