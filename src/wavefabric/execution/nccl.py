"""NCCL's own collective operations, checked and timed as a schedule is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wavefabric.collectives.conditions import CUT_BY_RANK, operation
from wavefabric.execution.ranks import Ranks
from wavefabric.execution.timed_schedule import Plan, check_and_time


def rows(
    ranks: Ranks,
    plans: list[Plan],
    largest: dict[str, int],
    dtype: str,
    repeats: int,
    say: Callable[[str], None],
) -> tuple[list[dict[str, Any]] | None, str | None]:
    """Rows of NCCL's own operation for the sizes of `plans`, or None and why there are none; collective.

    Sizes whose shares are not equal are left out.
    """
    if not ranks.on_gpu:
        return None, "NCCL needs GPUs"
    if not operation(plans[0].schedule).in_place:
        return None, f"NCCL has no operation with the conditions of {plans[0].schedule.name}"
    comm, why = ranks.open("nccl")
    if comm is None:
        return None, why
    measured = []
    # Only the operation's own buffers: scratch is the schedule's.
    names = plans[0].schedule.buffers[: 2 if plans[0].collective == "all-to-all" else 1]
    buffers = {name: comm.allocate((largest[name],), dtype) for name in names}
    for plan in plans:
        if plan.collective in CUT_BY_RANK:
            shares = plan.schedule.sizes[0][0].reshape(comm.size, -1).sum(axis=1)
            if len(set(shares.tolist())) > 1:
                continue
        say(f"NCCL's own {plan.collective}, {plan.bytes} bytes")
        parts = {name: buffers[name][: plan.totals()[name]] for name in names}
        work = comm.own_collective(plan.collective, list(parts.values()), plan.root or 0)
        measured.append(check_and_time(ranks, comm, plan, work, parts, dtype, repeats))
    return (measured, None) if measured else (None, "NCCL needs equal shares")
