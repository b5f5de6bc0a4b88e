"""NCCL's own collective operations, checked and timed as a schedule is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wavefabric.collectives.conditions import CUT_BY_RANK, operation
from wavefabric.execution.collective_data import count_wrong, fill
from wavefabric.execution.ranks import Ranks

if TYPE_CHECKING:
    from wavefabric.execution.collective_run import Plan


def rows(
    ranks: Ranks, plans: list[Plan], largest: dict[str, int], dtype: str, repeats: int, say
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
    from wavefabric.execution.collective_run import row

    found = []
    # Buffers for scratch are the schedule's affair.
    names = plans[0].schedule.buffers[: 2 if plans[0].collective == "all-to-all" else 1]
    buffers = {name: comm.allocate((largest[name],), dtype) for name in names}
    for plan in plans:
        sizes = plan.schedule.sizes[0][0].reshape(comm.size, -1) if _cut(plan) else None
        if sizes is not None and len(set(sizes.sum(axis=1).tolist())) > 1:
            continue
        say(f"NCCL's own {plan.collective}, {plan.bytes} bytes")
        parts = {name: buffers[name][: plan.totals()[name]] for name in names}
        work = comm.own_collective(plan.collective, list(parts.values()), plan.root or 0)
        fill(comm, plan.schedule, parts, dtype)
        work()
        wrong = count_wrong(comm, plan.schedule, parts, dtype)
        found.append(row(ranks, comm, plan, work, wrong, parts, repeats))
    return (found, None) if found else (None, "NCCL needs equal shares")


def _cut(plan: Plan) -> bool:
    return plan.collective in CUT_BY_RANK
