"""What of a call its time depends on: who exchanges with whom, whatever the number of bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from wavefabric.errors import InputError
from wavefabric.fabric.cost_models.cost import AnyFabric
from wavefabric.fabric.electrical.fabric import Fabric
from wavefabric.training.iteration.calls import Call


def moves_nothing(call: Call) -> bool:
    """Whether nothing goes from one GPU to another, however many bytes."""
    if not call.groups:
        return True
    if call.collective == "messages":
        return not any(size > 0 and src != dst for src, dst, size in call.messages)
    return len(call.groups[0]) < 2


def first_group(call: Call) -> tuple[Call, tuple]:
    """A call of the first group alone on the first GPUs, and what of it matters to its time."""
    group = tuple(range(len(call.groups[0])))
    rank = {gpu: r for r, gpu in enumerate(call.groups[0])}
    messages = tuple((rank[src], rank[dst], size) for src, dst, size in call.messages)
    return replace(call, groups=(group,), messages=messages), (call.collective, len(group), messages)


def check_gpus(call: Call, fabric: AnyFabric) -> None:
    """Refuse GPUs that the fabric does not have, and one that is in two groups."""
    last = max(call.gpus)
    if last >= fabric.ranks:
        actual = f"gpus: {last + 1} given"
        raise InputError(f"{actual}; allowed: up to {fabric.ranks}, the GPUs of {fabric.name}")
    if len(call.gpus) < sum(map(len, call.groups)):
        raise InputError(f"groups: a GPU twice in {call.collective} given; allowed: disjoint groups")
    if len({len(group) for group in call.groups}) > 1:
        raise InputError(f"groups: several sizes in {call.collective} given; allowed: groups of one size")
    for src, dst, _ in call.messages:
        if not {src, dst} <= call.gpus:
            raise InputError(f"messages: {src} to {dst} given; allowed: GPUs of the call")


def check_disjoint(calls: Sequence[Call]) -> None:
    """Refuse a GPU that is in two calls."""
    seen: set[int] = set()
    for call in calls:
        both = seen & call.gpus
        if both:
            raise InputError(f"calls: GPU {min(both)} in two given; allowed: calls of disjoint GPUs")
        seen |= call.gpus


def is_ideal_switch(fabric: Fabric) -> bool:
    """Whether every GPU has the same link each way to one switch, and there is nothing else to share."""
    if len(fabric.switches) != 1:
        return False
    switch = fabric.switches[0]
    ends = [(link.source, link.target) for link in fabric.links]
    wanted = {pair for gpu in fabric.gpus for pair in ((gpu, switch), (switch, gpu))}
    values = {(link.bandwidth, link.latency) for link in fabric.links}
    return len(ends) == len(wanted) and set(ends) == wanted and len(values) == 1
