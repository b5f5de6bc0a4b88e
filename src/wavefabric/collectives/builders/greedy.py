"""Messages between any ranks, spread over rounds of a fabric whose ranks have few lasers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from wavefabric.collectives.arguments import whole
from wavefabric.collectives.builders.messages import point_to_point
from wavefabric.collectives.schedule import Schedule


def greedy(ranks: int, messages: Iterable[tuple[int, int, int]], lasers: int, seed: int = 0) -> Schedule:
    """Messages in rounds, in each of which a rank sends at most `lasers` of them and receives as many.

    Messages are taken in random order, each into the first round with room at both ends.

    Parameters
    ----------
    ranks : int
    messages : sequence of (src, dst, elements)
        As of `wavefabric.collectives.builders.messages.point_to_point`. A copy within a rank needs no laser.
    lasers : int
        Of each rank, and as many receivers.
    seed : int
        Of the order.

    Returns
    -------
    Schedule
        If a rank sends or receives D messages at most: at least ⌈D/lasers⌉ rounds, which no schedule can
        beat, and at most 2 ⌊(D − 1)/lasers⌋ + 1.

    Raises
    ------
    InputError
        For a message, `lasers` or `seed` out of range.

    Notes
    -----
    Algorithm 3 of LUMORPH (layer-to-layer transfers), corrected: it limits only what a destination receives,
    and counts one round too many.

    Examples
    --------
    >>> from wavefabric.collectives import verify
    >>> from wavefabric.collectives.builders.greedy import greedy
    >>> schedule = greedy(4, [(0, d, 10) for d in (1, 2, 3)] + [(1, 3, 5)], lasers=2)
    >>> verify(schedule)
    >>> schedule.rounds
    2
    """
    lasers, seed = whole("lasers", lasers, 1), whole("seed", seed, 0)
    schedule = point_to_point("greedy", ranks, messages)
    transfers = schedule.transfers.copy()
    # Bit r of a rank's word: whether it has a laser left in round r.
    room = [[-1] * schedule.ranks for _ in range(2)]
    used: dict[tuple[int, int, int], int] = {}
    ends = transfers[["src", "dst"]].tolist()
    for i in np.random.default_rng(seed).permutation(transfers.size).tolist():
        pair = ends[i]
        if pair[0] == pair[1]:
            continue
        free = room[0][pair[0]] & room[1][pair[1]]
        round_ = (free & -free).bit_length() - 1
        transfers["round"][i] = round_
        for end, rank in enumerate(pair):
            at = end, rank, round_
            used[at] = used.get(at, 0) + 1
            if used[at] == lasers:
                room[end][rank] &= ~(1 << round_)
    return replace(schedule, transfers=transfers[np.argsort(transfers["round"], kind="stable")])
