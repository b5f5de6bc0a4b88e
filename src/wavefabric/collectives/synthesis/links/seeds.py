"""Schedules over electrical links found without a solver."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from wavefabric.collectives.synthesis.circuits.seeds import ring_moves
from wavefabric.collectives.synthesis.deadline import Deadline
from wavefabric.collectives.synthesis.demand import Demand, Move
from wavefabric.collectives.synthesis.links.capacity import Capacity, fits
from wavefabric.collectives.synthesis.links.paths import farthest_first, translated
from wavefabric.collectives.synthesis.problem import Edge, Links
from wavefabric.collectives.synthesis.spread import FAR, distances, useful

#: Chunks times ranks beyond which nothing greedy is tried: memory.
_ENTRIES = 1 << 28


def ring(demand: Demand, links: Links, stop: Deadline) -> list[Move] | None:
    """Every chunk both ways round a ring of links, a round a step."""
    pairs = [link for link, n in links.capacity.items() if n]
    most = max(links.capacity.values(), default=0)
    for width in range(most, 0, -1):
        wide = [link for link in pairs if links.capacity[link] >= width]
        moves = ring_moves(demand, wide, width, both=True, stop=stop)
        if moves is not None and fits(moves, links, [1] * (1 + max((m[0] for m in moves), default=-1))):
            return moves
    return None


def known(demand: Demand, links: Links, stop: Deadline, attempts: int) -> Iterator[tuple[str, list[Move]]]:
    """Schedules of one round a step and what made them, the promising ones first.

    `OutOfTime` when the deadline of `stop` has passed.
    """
    moves = ring(demand, links, stop)
    if moves is not None:
        yield "a ring", moves
    moves = translated(demand, links, stop)
    if moves is not None and fits(moves, links, [1] * (1 + moves[-1][0])):
        yield "an open shop of translations", moves
    for seed in range(attempts):
        moves = farthest_first(demand, links, seed, stop)
        if moves is not None:
            yield "shortest ways, farthest first", moves
    for seed in range(attempts):
        moves = greedy(demand, links, (), seed, stop)
        if moves is not None:
            yield "greedy steps", moves


def greedy(
    demand: Demand, links: Links, rounds: Sequence[int], seed: int, stop: Deadline
) -> list[Move] | None:
    """Step by step as many chunks as links carry, rare ones first, each nearer to a rank that needs it.

    Steps take `rounds` rounds, and one each after those. None if some rank cannot be reached.
    """
    if len(demand.chunks) * demand.ranks > _ENTRIES:
        return None
    rng = np.random.default_rng(seed)
    pairs = [link for link, n in links.capacity.items() if n]
    hops = distances(demand.ranks, pairs)
    has = np.zeros((len(demand.chunks), demand.ranks), bool)
    needs = np.zeros_like(has)
    for number, chunk in enumerate(demand.chunks):
        has[number, sorted(chunk.have)] = True
        needs[number, sorted(chunk.need)] = True
    moves: list[Move] = []
    step = 0
    while (needs & ~has).any():
        room = Capacity(links, rounds[step] if step < len(rounds) else 1)
        sent = _step(room, pairs, hops, has, needs & ~has, rng, stop)
        if not sent:
            return None
        moves += [(step, number, s, d) for number, s, d in sent]
        for number, _, d in sent:
            has[number, d] = True
        step += 1
    return useful(demand, moves)


def _step(
    room: Capacity, pairs: list[Edge], hops, has, missing, rng, stop: Deadline
) -> list[tuple[int, int, int]]:
    copies = has.sum(axis=1)
    wishes: list[tuple] = []
    for number in np.flatnonzero(missing.any(axis=1)).tolist():
        nearest = hops[has[number]].min(axis=0)
        # nearer[d]: how many that miss the chunk would be nearer to it if d had it.
        nearer = ((hops < nearest) & missing[number] & (hops < FAR)).sum(axis=1)
        stop.check()
        for s, d in pairs:
            if has[number, s] and not has[number, d] and nearer[d]:
                wishes.append(
                    (not missing[number, d], copies[number] - nearer[d], rng.random(), number, s, d)
                )
    taken: Counter[tuple[int, int]] = Counter()
    sent = []
    for _, _, _, number, s, d in sorted(wishes):
        if not taken[number, d] and room.take((s, d)):
            taken[number, d] = 1
            sent.append((number, s, d))
    return sent
