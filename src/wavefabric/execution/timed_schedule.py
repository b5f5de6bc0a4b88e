"""A schedule of one size on real ranks: what it moves, its bandwidths, and the time of a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from wavefabric.collectives import Schedule, direct_all_gather
from wavefabric.collectives.conditions import kind, whole_elements
from wavefabric.collectives.structure import transfer_elements
from wavefabric.exchange.program import Program
from wavefabric.execution.data import count_wrong, fill
from wavefabric.execution.ranks import Ranks, timed

#: Everybody's result needs everybody's data, so no rank can run ahead of the others from run to run.
_IN_STEP = ("all-gather", "reduce-scatter", "all-reduce", "all-to-all")
#: ms. Differences below it cannot be told from noise.
_SHORTEST = 1e-3


@dataclass
class Plan:
    """``bytes`` are those of the whole array; ``busiest``, those that the busiest rank sends or receives."""

    schedule: Schedule
    collective: str
    root: int | None
    bytes: int
    busiest: int
    predicted: float | None = None
    model: str | None = None

    @classmethod
    def of(cls, schedule: Schedule, width: int) -> Plan:
        """The plan of a schedule whose elements have so many bytes."""
        collective, root = kind(schedule)
        away = schedule.transfers["src"] != schedule.transfers["dst"]
        transfers, moved = schedule.transfers[away], transfer_elements(schedule)[away]
        busiest = 0
        for end in ("src", "dst"):
            elements = np.zeros(schedule.ranks, np.int64)
            np.add.at(elements, transfers[end], moved)
            busiest = max(busiest, int(elements.max()))
        return cls(schedule, collective, root, whole_elements(schedule) * width, busiest * width)

    @property
    def separate(self) -> bool:
        """Whether a barrier has to keep one run from the next."""
        return self.collective not in _IN_STEP

    def totals(self) -> dict[str, int]:
        """Elements of each buffer on the rank that has most."""
        pairs = zip(self.schedule.buffers, self.schedule.sizes, strict=True)
        return {name: int(sizes.sum(axis=1).max()) for name, sizes in pairs}

    def scratch(self, rank: int) -> int:
        """Elements that arrive at a rank to be added, of the busiest level."""
        return Program(self.schedule, rank).scratch

    def bandwidths(self, seconds: float) -> tuple[float, float]:
        """algbw and busbw of nccl-tests in GB/s; see `wavefabric.execution.run_schedule.run`."""
        algbw = self.bytes / seconds * 1e-9
        k = self.schedule.ranks
        factors = dict.fromkeys((*_IN_STEP, "gather", "scatter"), (k - 1) / k)
        factors |= {"all-reduce": 2 * (k - 1) / k, "broadcast": 1.0, "reduce": 1.0}
        factor = factors.get(self.collective)
        return algbw, self.busiest / seconds * 1e-9 if factor is None else algbw * factor


def largest_buffers(plans: list[Plan]) -> dict[str, int]:
    """Elements that each buffer needs for all sizes."""
    return {name: max(1, *(plan.totals()[name] for plan in plans)) for name in plans[0].schedule.buffers}


def check_and_time(
    ranks: Ranks,
    comm,
    plan: Plan,
    work: Callable[[], Any],
    buffers: dict[str, Any],
    dtype: str,
    repeats: int,
) -> dict[str, Any]:
    """Run ``work`` on data whose sums are exact, count what is wrong, and time it on zeros; collective."""
    fill(comm, plan.schedule, buffers, dtype)
    work()
    wrong = count_wrong(comm, plan.schedule, buffers, dtype)
    for array in buffers.values():
        array[...] = 0
    comm.device.synchronize()
    comm.control.barrier()  # before anybody writes here
    times = _separate_times(ranks, comm, work, repeats) if plan.separate else timed(ranks, work, repeats)
    algbw, busbw = plan.bandwidths(times["ms"] * 1e-3)
    return {"bytes": plan.bytes, **microseconds(times), "algbw": algbw, "busbw": busbw, "wrong": wrong}


def microseconds(times: dict[str, float]) -> dict[str, float]:
    """Median, best and worst of times in ms as µs."""
    return {key.replace("ms", "us"): value * 1e3 for key, value in times.items()}


def exchanging(bound) -> Callable[[], None]:
    """One whole exchange of a bound schedule, as a function."""

    def exchange() -> None:
        bound.start()
        bound.finish()

    return exchange


def _separate_times(ranks: Ranks, comm, work: Callable[[], Any], repeats: int) -> dict[str, float]:
    """Times of runs that wait for each other; what the barrier takes alone is taken off."""
    flags = comm.allocate((comm.size,), "int32")
    flags[...] = 0
    barrier = exchanging(comm.bind(direct_all_gather([1] * comm.size), {"data": flags}))

    def both() -> None:
        work()
        barrier()

    alone = timed(ranks, barrier, repeats)["ms"]
    return {key: max(_SHORTEST, value - alone) for key, value in timed(ranks, both, repeats).items()}
