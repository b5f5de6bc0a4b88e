"""Which of the calls that are ready go to the fabric together (LUMORPH, appendix C)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from wavefabric.errors import InputError, show
from wavefabric.training.calls import Call

#: Policies, with what each does. Every one but ``in-order`` prefers blocking calls, on which the next layer
#: waits: the paper "tackle[s] it by prioritizing LAYER TO LAYER calls over ALLREDUCE calls".
POLICIES = {
    "batched": "all that is ready: blocking calls first, else a greedy maximal set of disjoint calls",
    "boundaries": "all-reduces wait for a boundary of layers with a blocking call, and go in batches there",
    "end": "all-reduces wait for the end of the iteration and go one after the other: the paper's naive way",
    "in-order": "first come, first served, one at a time",
}


def maximal_independent_sets(calls: Sequence[Call]) -> list[list[int]]:
    """Calls in sets of disjoint GPUs, by their numbers: every call in one set.

    "We model the ALLREDUCE calls as a graph where the nodes are the calls and the edges connect nodes which
    have at least one common GPU. After this, the problem is finding maximally independent sets of nodes
    greedily until a cover set over the set of GPUs is obtained" (LUMORPH, appendix C). Greedily: calls in the
    order given, each into the first set in which it shares a GPU with none. So no call of a later set could
    be added to an earlier one; and sets are made until they cover all calls, as each must be served.

    Examples
    --------
    >>> from wavefabric.training.calls import Call
    >>> from wavefabric.training.communication.batches import maximal_independent_sets
    >>> groups = ((0, 1), (1, 2), (2, 3), (0, 3))
    >>> calls = [Call("all-reduce", (group,), 8.0, "gradients") for group in groups]
    >>> maximal_independent_sets(calls)
    [[0, 2], [1, 3]]
    """
    sets: list[list[int]] = []
    taken: list[set[int]] = []
    for number, call in enumerate(calls):
        place = next((i for i, gpus in enumerate(taken) if gpus.isdisjoint(call.gpus)), len(sets))
        if place == len(sets):
            sets.append([])
            taken.append(set())
        sets[place].append(number)
        taken[place] |= call.gpus
    return sets


def next_batch(ready: Sequence[Call], policy: str) -> list[int]:
    """Which of the calls that are ready the fabric executes next, together; by their numbers.

    Parameters
    ----------
    ready : sequence of Call
        In the order in which they became ready; without those that `held` holds back.
    policy : str
        Of `POLICIES`. ``batched`` and ``boundaries``: if any call is blocking, the first maximal independent
        set of the blocking ones alone, since a batch ends with its longest call; else of all. ``end``: the
        first blocking call, else the first call. ``in-order``: the first call.

    Returns
    -------
    list of int
        Ascending; at least one unless nothing is ready. `InputError` for an unknown policy.
    """
    _check(policy)
    if not ready:
        return []
    if policy == "in-order":
        return [0]
    urgent = [number for number, call in enumerate(ready) if call.blocking]
    if policy == "end":
        return urgent[:1] or [0]
    return _independent(ready, urgent or range(len(ready)))


def held(call: Call, policy: str, *, boundary: bool, end: bool) -> bool:
    """Whether a call that is ready must wait.

    Parameters
    ----------
    call : Call
    policy : str
    boundary : bool
        Whether a layer with a blocking call begins or has begun since the call became ready: the paper tells
        of "batching ALLREDUCE calls at the boundaries of layers which have LAYER TO LAYER transfers".
    end : bool
        Whether the backward pass is over. "The naive approach is to delay all the ALLREDUCE calls to the end
        of the iteration and execute them sequentially."
    """
    _check(policy)
    if call.blocking or end or policy in ("batched", "in-order"):
        return False
    return policy == "end" or not boundary


def _independent(calls: Sequence[Call], among: Iterable[int]) -> list[int]:
    """The first maximal independent set of some of the calls."""
    chosen: list[int] = []
    taken: set[int] = set()
    for number in among:
        if taken.isdisjoint(calls[number].gpus):
            chosen.append(number)
            taken |= calls[number].gpus
    return chosen


def _check(policy: str) -> None:
    if policy not in POLICIES:
        raise InputError(f"policy: {show(policy)} given; allowed: {', '.join(POLICIES)}")
