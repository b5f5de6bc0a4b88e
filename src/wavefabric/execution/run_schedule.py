"""A schedule run on real links: checked, timed, and compared with its predicted time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from wavefabric.collectives import Schedule, levels
from wavefabric.collectives.conditions import whole_elements
from wavefabric.errors import InputError
from wavefabric.execution import nccl as nccl_operations
from wavefabric.execution.compare import plot, table
from wavefabric.execution.data import values_of
from wavefabric.execution.ranks import Ranks
from wavefabric.execution.timed_schedule import Plan, check_and_time, exchanging, largest_buffers
from wavefabric.fabric.electrical.fabric import Fabric

__all__ = ["SIZES", "as_run", "plot", "run", "sizes_between", "table"]

#: Smallest and largest bytes by kind of device.
SIZES = {"cpu": (1 << 16, 1 << 22), "cuda": (1 << 16, 1 << 30)}


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
    """Run a schedule between all ranks on every transport: check it, time it, compare it with a prediction.

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
        `SIZES`.
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
    plans = [Plan.of(schedule, width) for schedule in _schedules(ranks, schedule_of, sizes, width)]
    first = plans[0]
    predicted_on = _load(fabric, ranks.size)
    for plan in plans if predicted_on is not None else ():
        _predict(plan, predicted_on, width, model)
    largest = largest_buffers(plans)
    # Beside the buffers: what is added on arrival, and blocks of expected values.
    needed = (sum(largest.values()) + max(plan.scratch(ranks.rank) for plan in plans)) * width + (1 << 27)
    ranks.check_memory(needed, f"sizes: {max(plan.bytes for plan in plans)} bytes")
    own, why = None, None
    if nccl:
        own, why = nccl_operations.rows(ranks, plans, largest, dtype, repeats, say)
    cases = []
    for comm in ranks.each():
        buffers = {name: comm.allocate((size,), dtype) for name, size in largest.items()}
        rows = []
        for plan in plans:
            say(f"{comm.transport}: {first.schedule.name}, {plan.bytes} bytes")
            work = exchanging(comm.bind(plan.schedule, buffers))
            row = check_and_time(ranks, comm, plan, work, buffers, dtype, repeats)
            rows.append(row | _compared(row, plan, own))
        facts = comm.describe()
        cases.append({
            "transport": comm.transport, "latency_us": rows[0]["us"], "rows": rows, "facts": facts
        })  # fmt: skip
        del buffers
    return {
        "benchmark": "collective-run",
        "schedule": first.schedule.name,
        "collective": first.collective,
        "root": first.root,
        "ranks": ranks.size,
        "rounds": first.schedule.communication_rounds,
        "levels": int(levels(first.schedule).max(initial=-1)) + 1,
        "dtype": dtype,
        "repeats": repeats,
        "sizes": [plan.bytes for plan in plans],
        "apart": first.separate,
        "fabric": predicted_on.name if predicted_on is not None else None,
        "model": first.model,
        "own": own,
        "why_no_own": why,
        "cases": cases,
        "unavailable": ranks.unavailable,
        "machine": ranks.machine(),
    }


def sizes_between(least: int, most: int, factor: int = 4) -> list[int]:
    """``least``, times ``factor``, and so on up to ``most``."""
    sizes = []
    while least <= most:
        sizes.append(least)
        least *= factor
    return sizes


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


def _schedules(ranks: Ranks, schedule_of, sizes: Sequence[int], width: int) -> list[Schedule]:
    """A schedule for each size: of a given one its chunks are made larger."""
    if isinstance(schedule_of, Schedule):
        least = whole_elements(schedule_of) * width
        if not least:
            raise InputError(f"schedule: {schedule_of.name} has no elements; allowed: one or more")
        small = next((size for size in sizes if size < least), None)
        if small is not None:
            raise InputError(f"sizes: {small} bytes given; allowed: from {least} for {schedule_of.name}")
        schedules = [_scaled(schedule_of, size // least) for size in sizes or (least,)]
    else:
        for size in sizes:
            if size < width or size % width:
                raise InputError(f"sizes: {size} bytes given; allowed: multiples of {width}")
        chosen = list(sizes) or sizes_between(*SIZES["cuda" if ranks.on_gpu else "cpu"])
        schedules = [schedule_of(size // width) for size in chosen]
    for schedule in schedules:
        if schedule.ranks != ranks.size:
            raise InputError(
                f"schedule: {schedule.name} is for {schedule.ranks} ranks; here are {ranks.size}"
            )
    return schedules


def _scaled(schedule: Schedule, factor: int) -> Schedule:
    return replace(schedule, sizes=tuple(sizes * factor for sizes in schedule.sizes))


def _load(fabric: Any, ranks: int) -> Any:
    if isinstance(fabric, str | Path):
        from wavefabric.fabric.io.files import load

        fabric = load(fabric)
    if fabric is not None and fabric.ranks != ranks:
        raise InputError(f"fabric: {fabric.name} has {fabric.ranks} GPUs; allowed here: {ranks}")
    return fabric


def _predict(plan: Plan, fabric, width: int, model: str) -> None:
    from wavefabric.fabric.cost_models.cost import cost

    predicted = cost(as_run(plan.schedule), fabric, width, model=model)
    plan.predicted, plan.model = predicted.seconds, predicted.model


def _compared(row: dict[str, Any], plan: Plan, own: list[dict[str, Any]] | None) -> dict[str, Any]:
    """The prediction, and NCCL's time of the same size, with their ratios to what was measured."""
    predicted = None if plan.predicted is None else plan.predicted * 1e6
    same = next((o["us"] for o in own or () if o["bytes"] == plan.bytes), None)
    return {
        "predicted_us": predicted,
        "ratio": None if predicted is None else predicted / row["us"],
        "own_us": same,
        "over_own": same / row["us"] if same else None,
    }
