"""What the MSCCL file of a schedule says beyond transfers: protocol, channels, and sizes it runs with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wavefabric.collectives import Schedule

#: What of an MSCCL file no cost model counts.
NOT_COUNTED = ("protocol", "channels")


def facts(schedule: Schedule) -> dict[str, Any]:
    """The same as JSON; nothing for a schedule that comes from no MSCCL file."""
    return {} if schedule.msccl is None else {"msccl": vars(schedule.msccl)}


def words(told: dict[str, Any]) -> str:
    """`facts` in words: ``MSCCL: LL, 1 channel, arrays up to 4 MiB``; empty if there are none."""
    if "msccl" not in told:
        return ""
    from wavefabric.execution.report import size_words

    found = told["msccl"]
    most = found["most_bytes"]
    sizes = "of any size" if most is None else f"up to {size_words(most)}"
    return f"MSCCL: {_setup(found)}, arrays {sizes}"


def _setup(found: dict[str, Any]) -> str:
    channels = found["channels"]
    return f"{found['protocol']}, {channels} channel{'' if channels == 1 else 's'}"


def cost_notes(schedule: Schedule, sizes: Sequence[int]) -> list[str]:
    """What a cost of the schedule leaves out, a line each."""
    from wavefabric.execution.report import size_words

    if schedule.msccl is None:
        return []
    found = vars(schedule.msccl)
    slower = "with LL or few channels it may take many times as long"
    lines = [f"not counted: {_setup(found)} of the MSCCL file; {slower}"]
    most = found["most_bytes"]
    if most is not None and max(sizes) > most:
        lines.append(f"the MSCCL file hangs above {size_words(most)}: its buffers are full then")
    return lines
