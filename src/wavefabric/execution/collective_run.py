"""Benchmark ``collective-run``: any schedule on real links, checked, timed and set beside a prediction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wavefabric.bench.exchange import SIZES, sizes_between
from wavefabric.collectives import Schedule, direct_all_gather, levels
from wavefabric.collectives.conditions import kind, whole_elements
from wavefabric.collectives.structure import transfer_elements
from wavefabric.errors import InputError
from wavefabric.exchange.program import Program
from wavefabric.execution import nccl_collectives
from wavefabric.execution.collective_data import count_wrong, fill, values_of
from wavefabric.execution.collective_report import plot, table
from wavefabric.execution.ranks import Ranks, timed

if TYPE_CHECKING:
    from wavefabric.fabric.electrical.fabric import Fabric

__all__ = ["as_run", "plot", "run", "table"]

#: Everybody's result needs everybody's data, so no rank can run ahead of the others from run to run.
_IN_STEP = ("all-gather", "reduce-scatter", "all-reduce", "all-to-all")


def run(
    ranks: Ranks,
    schedule_of: Callable[[int], Schedule] | Schedule,
    sizes: Sequence[int] = (),
    dtype: str = "float32",
    repeats: int = 5,
    fabric: Fabric | str | Path | None = None,
    nccl: bool = False,
    progress: Callable[[str], None] | None = None,
    *,
    model: str = "auto",
) -> dict[str, Any]:
    """Run a schedule between all ranks on every transport: check it, time it, set it beside a prediction.

    Every chunk that ``pre`` names is filled with sums of whole numbers, one for each origin, item and
    element, and everything else with NaN (whole numbers: −2²⁰); after one run every chunk that ``post`` names
    is compared, on the device. The bits must be the same: sums of these numbers are exact in any order.
    Timed runs follow on zeros, which no number of sums changes.

    A time is that of one run among many in a row, the slowest rank's. Ranks of a broadcast, reduce, gather,
    scatter or an operation of your own might run ahead of the others from run to run; there a barrier on the
    device follows every run, and its own time is taken off (``apart``).

    algbw and busbw are those of nccl-tests (its PERFORMANCE.md), S being what its size column says: bytes of
    the whole array (`wavefabric.collectives.conditions.layout`). With K ranks, algbw = S/t and busbw is algbw
    times 2(K − 1)/K for all-reduce, (K − 1)/K for all-gather, reduce-scatter, all-to-all, gather and scatter,
    1 for broadcast and reduce. For other schedules busbw is what the busiest rank sends or receives over t.

    Parameters
    ----------
    ranks : Ranks
        Transports that cannot be used are reported.
    schedule_of : callable or Schedule
        From the elements of the whole array to its schedule, the same on all ranks. Of a schedule itself
        chunks are made a whole number of times larger, as long as the array is no larger than `sizes` say.
    sizes : sequence of int
        S, bytes, multiples of an element. Empty: of a schedule its own size, else
        `wavefabric.bench.exchange.SIZES`.
    dtype : {"float16", "float32", "float64", "int32", "int64"}
    repeats : int
        Samples, each of many runs; the median counts.
    fabric : Fabric, str or Path, optional
        What to predict times for; text as `wavefabric.fabric.load` takes it. Levels are costed as rounds:
        that is how a schedule runs (see `as_run`).
    nccl : bool
        Time NCCL's own operation too, where ranks have GPUs and the schedule is one that NCCL has.
    progress : callable, optional
        Called with a line about what is being measured.
    model : {"auto", "alpha-beta", "flow", "photonic"}

    Returns
    -------
    dict
        JSON-serialisable: ``schedule``, ``collective``, ``rounds`` and ``levels``; ``cases``, one for each
        transport, with ``rows``: ``bytes``, times in µs, ``algbw``, ``busbw`` (10⁹ B/s), ``wrong``,
        ``predicted_us``, ``ratio`` (predicted over measured), ``over_own`` (bandwidth over that of NCCL's own
        operation); ``own``: the rows of NCCL's own operation, or None, and ``why_no_own``.

    Raises
    ------
    InputError
        If an option is not allowed, the fabric has another number of GPUs, or the buffers do not fit.
    """
    say = progress or (lambda line: None)
    values_of(dtype, ranks.size)  # refuses what cannot be checked
    width = np.dtype(dtype).itemsize
    if repeats < 1:
        raise InputError(f"repeats: {repeats} given; allowed: at least 1")
    plans = _plans(ranks, schedule_of, sizes, width)
    first = plans[0].schedule
    place = _fabric(fabric, ranks.size)
    if place is not None:
        for plan in plans:
            plan.predicted = _predict(plan, place, width, model)
    largest = _largest(plans)
    # Beside the buffers: what is added on arrival, and blocks of expected values.
    needed = (sum(largest.values()) + max(plan.scratch(ranks.rank) for plan in plans)) * width + (1 << 27)
    ranks.check_memory(needed, f"sizes: {max(plan.bytes for plan in plans)} bytes")
    own, why = None, None
    if nccl:
        own, why = nccl_collectives.rows(ranks, plans, largest, dtype, repeats, say)
    cases = []
    for comm in ranks.each():
        buffers = {name: comm.allocate((size,), dtype) for name, size in largest.items()}
        rows = []
        for plan in plans:
            say(f"{comm.transport}: {first.name}, {plan.bytes} bytes")
            rows.append(_measure(ranks, comm, plan, buffers, dtype, repeats))
            _compare(rows[-1], plan, own)
        cases.append({
            "transport": comm.transport,
            "latency_us": rows[0]["us"],
            "rows": rows,
            "facts": comm.describe(),
        })  # fmt: skip
        del buffers
    return {
        "benchmark": "collective-run",
        "schedule": first.name,
        "collective": plans[0].collective,
        "root": plans[0].root,
        "ranks": ranks.size,
        "rounds": first.communication_rounds,
        "levels": int(levels(first).max(initial=-1)) + 1,
        "dtype": dtype,
        "repeats": repeats,
        "sizes": [plan.bytes for plan in plans],
        "apart": plans[0].apart,
        "fabric": place.name if place is not None else None,
        "model": plans[0].model,
        "own": own,
        "why_no_own": why,
        "cases": cases,
        "unavailable": ranks.unavailable,
        "machine": ranks.machine(),
    }


def as_run(schedule: Schedule) -> Schedule:
    """The same transfers with their levels as rounds: what `wavefabric.exchange` does one after the other.

    Transfers that do not depend on each other share a level, whatever their rounds: a direct exchange in
    rounds of pairs, for example, starts all at once.
    """
    level = levels(schedule)
    order = np.argsort(level, kind="stable")
    transfers = schedule.transfers[order]
    transfers["round"] = level[order]
    return replace(schedule, transfers=transfers)


@dataclass
class Plan:
    """A schedule of one size.

    ``bytes`` are those of the whole array; ``busiest``, those that the busiest rank sends or receives.
    """

    schedule: Schedule
    collective: str
    root: int | None
    bytes: int
    busiest: int
    predicted: float | None = None
    model: str | None = None

    @property
    def apart(self) -> bool:
        """Whether runs have to be kept apart."""
        return self.collective not in _IN_STEP

    def totals(self) -> dict[str, int]:
        """Elements of each buffer on the rank that has most."""
        pairs = zip(self.schedule.buffers, self.schedule.sizes, strict=True)
        return {name: int(sizes.sum(axis=1).max()) for name, sizes in pairs}

    def scratch(self, rank: int) -> int:
        """Elements that arrive at a rank to be added, of the busiest level."""
        return Program(self.schedule, rank).scratch

    def bandwidths(self, seconds: float) -> tuple[float, float]:
        """algbw and busbw in GB/s; see `run`."""
        algbw = self.bytes / seconds * 1e-9
        k = self.schedule.ranks
        factors = dict.fromkeys(_IN_STEP, (k - 1) / k) | {"gather": (k - 1) / k, "scatter": (k - 1) / k}
        factors |= {"all-reduce": 2 * (k - 1) / k, "broadcast": 1.0, "reduce": 1.0}
        factor = factors.get(self.collective)
        return algbw, self.busiest / seconds * 1e-9 if factor is None else algbw * factor


def _plans(ranks: Ranks, schedule_of, sizes: Sequence[int], width: int) -> list[Plan]:
    if isinstance(schedule_of, Schedule):
        least = whole_elements(schedule_of) * width
        if not least:
            raise InputError(f"schedule: {schedule_of.name} has no elements; allowed: one or more")
        small = next((size for size in sizes if size < least), None)
        if small is not None:
            raise InputError(f"sizes: {small} bytes given; allowed: from {least} for {schedule_of.name}")
        found = [_times(schedule_of, size // least) for size in sizes or (least,)]
    else:
        for size in sizes:
            if size < width or size % width:
                raise InputError(f"sizes: {size} bytes given; allowed: multiples of {width}")
        chosen = list(sizes) or sizes_between(*SIZES["cuda" if ranks.on_gpu else "cpu"])
        found = [schedule_of(size // width) for size in chosen]
    for schedule in found:
        if schedule.ranks != ranks.size:
            raise InputError(
                f"schedule: {schedule.name} is for {schedule.ranks} ranks; here are {ranks.size}"
            )
    return [_plan(schedule, width) for schedule in found]


def _plan(schedule: Schedule, width: int) -> Plan:
    collective, root = kind(schedule)
    away = schedule.transfers["src"] != schedule.transfers["dst"]
    t, moved = schedule.transfers[away], transfer_elements(schedule)[away]
    sent, come = np.zeros(schedule.ranks, np.int64), np.zeros(schedule.ranks, np.int64)
    np.add.at(sent, t["src"], moved)
    np.add.at(come, t["dst"], moved)
    busiest = int(max(sent.max(), come.max()))
    return Plan(schedule, collective, root, whole_elements(schedule) * width, busiest * width)


def _times(schedule: Schedule, factor: int) -> Schedule:
    return replace(schedule, sizes=tuple(sizes * factor for sizes in schedule.sizes))


def _largest(plans: list[Plan]) -> dict[str, int]:
    """Elements that each buffer needs for all sizes."""
    found: dict[str, int] = {}
    for plan in plans:
        for name, size in plan.totals().items():
            found[name] = max(found.get(name, 1), size)
    return found


def _fabric(fabric: Any, ranks: int) -> Any:
    if isinstance(fabric, str | Path):
        from wavefabric.fabric.io.files import load

        fabric = load(fabric)
    if fabric is not None and fabric.ranks != ranks:
        raise InputError(f"fabric: {fabric.name} has {fabric.ranks} GPUs; allowed here: {ranks}")
    return fabric


def _predict(plan: Plan, fabric, width: int, model: str) -> float:
    from wavefabric.fabric.cost_models.cost import cost

    found = cost(as_run(plan.schedule), fabric, width, model=model)
    plan.model = found.model
    return found.seconds


def _measure(ranks: Ranks, comm, plan: Plan, buffers: dict[str, Any], dtype: str, repeats: int) -> dict:
    bound = comm.bind(plan.schedule, buffers)

    def exchange() -> None:
        bound.start()
        bound.finish()

    fill(comm, plan.schedule, buffers, dtype)
    exchange()
    wrong = count_wrong(comm, plan.schedule, buffers, dtype)
    return row(ranks, comm, plan, exchange, wrong, buffers, repeats)


def row(ranks: Ranks, comm, plan: Plan, work, wrong: int, buffers: dict[str, Any], repeats: int) -> dict:
    """Time what was found right; collective."""
    for array in buffers.values():
        array[...] = 0
    comm.device.synchronize()
    comm.control.barrier()  # before anybody writes here
    found = _apart(ranks, comm, work, repeats) if plan.apart else timed(ranks, work, repeats)
    algbw, busbw = plan.bandwidths(found["ms"] * 1e-3)
    return {
        "bytes": plan.bytes,
        "us": found["ms"] * 1e3,
        "us_best": found["ms_best"] * 1e3,
        "us_worst": found["ms_worst"] * 1e3,
        "algbw": algbw,
        "busbw": busbw,
        "wrong": wrong,
    }


#: ms. Differences below it cannot be told from noise.
_LEAST = 1e-3


def _apart(ranks: Ranks, comm, work: Callable[[], None], repeats: int) -> dict[str, float]:
    """Times of runs that wait for each other; what the barrier takes alone is taken off."""
    word = comm.allocate((comm.size,), "int32")
    word[...] = 0
    barrier = comm.bind(direct_all_gather([1] * comm.size), {"data": word})

    def wait() -> None:
        barrier.start()
        barrier.finish()

    def both() -> None:
        work()
        wait()

    alone = timed(ranks, wait, repeats)["ms"]
    return {key: max(_LEAST, value - alone) for key, value in timed(ranks, both, repeats).items()}


def _compare(found: dict[str, Any], plan: Plan, own: list[dict[str, Any]] | None) -> None:
    """Add what was predicted, and NCCL's time of the same size."""
    found["predicted_us"] = None if plan.predicted is None else plan.predicted * 1e6
    found["ratio"] = None if plan.predicted is None else plan.predicted * 1e6 / found["us"]
    same = next((o for o in own or () if o["bytes"] == plan.bytes), None)
    found["own_us"] = same["us"] if same else None
    found["over_own"] = same["us"] / found["us"] if same else None
