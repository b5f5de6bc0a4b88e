"""Schedules over electrical links found without a solver, and what links carry in a step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from wavefabric.collectives.synthesis.deadline import Deadline
from wavefabric.collectives.synthesis.demand import Demand, Move
from wavefabric.collectives.synthesis.links.all_to_all import farthest_first, open_shop
from wavefabric.collectives.synthesis.links.capacity import StepCapacity, fits
from wavefabric.collectives.synthesis.problem import Edge, Links
from wavefabric.collectives.synthesis.ring import ring_moves
from wavefabric.collectives.synthesis.search import MovePlan, last_round
from wavefabric.collectives.synthesis.send_variables import FAR, distances, useful

#: Chunks times ranks beyond which nothing greedy is tried: memory.
_ENTRIES = 1 << 28


def known(demand: Demand, links: Links, stop: Deadline, attempts: int) -> Iterator[MovePlan]:
    """Schedules of one round a step, the promising ones first; `OutOfTime` when `stop` has passed."""
    tries = [
        ("a ring", lambda: ring(demand, links, stop)),
        ("an open shop of translations", lambda: open_shop(demand, links, stop)),
        *(
            ("shortest ways, farthest first", lambda seed=seed: farthest_first(demand, links, seed, stop))
            for seed in range(attempts)
        ),
        *(
            ("greedy steps", lambda seed=seed: greedy(demand, links, (), seed, stop))
            for seed in range(attempts)
        ),
    ]
    for method, attempt in tries:
        moves = attempt()
        if moves is not None:
            yield MovePlan(tuple(moves), method)


def ring(demand: Demand, links: Links, stop: Deadline) -> list[Move] | None:
    """Every chunk both ways round a ring of links, a round a step."""
    for width in range(max(links.capacity.values(), default=0), 0, -1):
        wide = [link for link in links.usable if links.capacity[link] >= width]
        moves = ring_moves(demand, wide, width, True, stop)
        if moves is not None and fits(moves, links, [1] * (1 + last_round(moves))):
            return moves
    return None


def greedy(
    demand: Demand, links: Links, rounds: Sequence[int], seed: int, stop: Deadline
) -> list[Move] | None:
    """Step by step as many chunks as links carry, rare ones first, each nearer to a rank that needs it.

    Steps take `rounds` rounds, and one each after those. None if some rank cannot be reached.
    """
    if len(demand.chunks) * demand.ranks > _ENTRIES:
        return None
    rng = np.random.default_rng(seed)
    hops = distances(demand.ranks, links.usable)
    has = np.zeros((len(demand.chunks), demand.ranks), bool)
    needs = np.zeros_like(has)
    for number, chunk in enumerate(demand.chunks):
        has[number, sorted(chunk.have)] = True
        needs[number, sorted(chunk.need)] = True
    moves: list[Move] = []
    step = 0
    while (needs & ~has).any():
        room = StepCapacity(links, rounds[step] if step < len(rounds) else 1)
        sent = _greedy_step(room, links.usable, hops, has, needs & ~has, rng, stop)
        if not sent:
            return None
        moves += [(step, number, s, d) for number, s, d in sent]
        for number, _, d in sent:
            has[number, d] = True
        step += 1
    return useful(demand, moves)


def _greedy_step(
    room: StepCapacity, pairs: list[Edge], hops, has, missing, rng, stop: Deadline
) -> list[tuple[int, int, int]]:
    """Chunk, source and destination of what one step sends."""
    copies = has.sum(axis=1)
    wanted: list[tuple] = []
    for number in np.flatnonzero(missing.any(axis=1)).tolist():
        nearest = hops[has[number]].min(axis=0)
        # nearer[d]: how many that miss the chunk would be nearer to it if d had it.
        nearer = ((hops < nearest) & missing[number] & (hops < FAR)).sum(axis=1)
        stop.check()
        for s, d in pairs:
            if has[number, s] and not has[number, d] and nearer[d]:
                rank = (not missing[number, d], copies[number] - nearer[d], rng.random())
                wanted.append((*rank, number, s, d))
    taken: Counter[tuple[int, int]] = Counter()
    sent = []
    for _, _, _, number, s, d in sorted(wanted):
        if not taken[number, d] and room.take((s, d)):
            taken[number, d] = 1
            sent.append((number, s, d))
    return sent
