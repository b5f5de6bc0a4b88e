"""Compute lower bounds on the number of rounds by counting."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain

import numpy as np

from wavefabric.collectives.synthesis import deadline as clock
from wavefabric.collectives.synthesis.demand import FAR, Demand, distances
from wavefabric.collectives.synthesis.problem import Edge, Links

#: A lower bound on rounds, and the reason for it.
Bound = tuple[int, str]
NOTHING: Bound = (0, "nothing to be sent")
#: Number of rounds that stands for an impossible demand.
UNREACHABLE = 1 << 30
#: Largest number of cuts × (chunks + edges) for which cuts around more than one rank are tried.
_WORK = 3_000_000


def circuit_bound(demand: Demand, at_once: int) -> Bound:
    """Return a lower bound on rounds, and its reason, from the lasers and photodiodes of each rank.

    A rank has ``at_once`` of both; routes do not matter. The result is the largest of four bounds: chunks
    that a rank receives; chunks that only one rank has; growth of one chunk by at most a factor 1 +
    ``at_once`` per round (⌈log_{1+L} N⌉ for a broadcast, with L = ``at_once``); and growth of all chunks
    together.
    """
    bounds = [NOTHING]
    received = Counter(rank for chunk in demand.chunks for rank in chunk.need)
    for rank, count in sorted(received.items()):
        bounds.append((-(-count // at_once), f"rank {rank} receives {count} chunks, {at_once} a round"))
    alone = Counter(rank for c in demand.chunks if c.need and len(c.have) == 1 for rank in c.have)
    for rank, count in sorted(alone.items()):
        text = f"rank {rank} alone has {count} chunks, and sends {at_once} a round"
        bounds.append((-(-count // at_once), text))
    for have, goal in sorted({(len(c.have), len(c.have | c.need)) for c in demand.chunks}):
        rounds, reached = 0, have
        while reached < goal:
            reached, rounds = reached * (1 + at_once), rounds + 1
        bounds.append((rounds, f"growth from {have} to {goal} ranks, by a factor of {1 + at_once} a round"))
    bounds.append(_growth_of_all(demand, at_once))
    return max(bounds, key=lambda bound: bound[0])


def _growth_of_all(demand: Demand, at_once: int) -> Bound:
    """Return a lower bound on rounds, and its reason: at first few ranks have chunks, and so can send.

    Per round a rank sends, or receives, at most ``at_once`` chunks. Only ranks that have chunks send, and
    only ranks that need chunks receive.
    """
    chunks = [c for c in demand.chunks if c.need]
    sources, receivers = (set().union(*(getattr(c, end) for c in chunks)) for end in ("have", "need"))
    active, left, rounds = len(sources), sum(len(c.need) for c in chunks), 0
    while left > 0:
        sent = min(active, len(receivers)) * at_once
        left, rounds = left - sent, rounds + 1
        active = min(len(sources | receivers), active + sent)
    return rounds, f"growth of all chunks together, {at_once} a rank and round"


def cut_bound(
    demand: Demand, links: Links, *, shared: bool = False, until: float = math.inf, sets: Sequence[int] = ()
) -> Bound:
    """Return a lower bound on rounds, and its reason: chunks must cross the links into a set of ranks.

    With ``shared`` the two directions of an edge share the capacity. ``sets``: further sets of ranks to try,
    as bit masks. The result is the best bound found by ``until``, a time of `deadline.now`.
    """
    chunks = Counter((_bits(c.have), _bits(c.need)) for c in demand.chunks if c.need)
    edges = [(1 << a, 1 << b, (a, b)) for a, b in links.capacity]
    best = NOTHING
    for inside in chain(sets, _cuts(links, len(chunks))):
        if clock.now() > until:
            break
        crossing = sum(n for (have, need), n in chunks.items() if need & inside and not have & inside)
        if shared:
            crossing += sum(n for (have, need), n in chunks.items() if need & ~inside and not have & ~inside)
        if not crossing:
            continue
        cut = {
            e: links.capacity[e]
            for a, b, e in edges
            if (shared or b & inside) and bool(a & inside) != bool(b & inside)
        }
        space = _together(cut, links)
        rounds = -(-crossing // space) if space else UNREACHABLE
        if rounds > best[0]:
            where = f"the edges round {_ranks_name(inside, demand.ranks)}, which carry {space} a round"
            best = rounds, f"{crossing} chunks have to cross {where}"
    return best


def link_bounds(demand: Demand, links: Links, until: float) -> tuple[Bound, Bound]:
    """Return lower bounds on the number of steps and on the number of rounds, each with the reason as text.

    Distances bound the steps, cuts and the total capacity bound the rounds. The search for better bounds
    ends at the time ``until`` of `deadline.now`.
    """
    hops = distances(demand.ranks, links.usable)
    farthest = NOTHING
    for need, hop, _ in _distances_to_need(demand, hops, until):
        if max(hop) > farthest[0]:
            rank = sorted(need)[hop.index(max(hop))]
            farthest = max(hop), f"rank {rank} is {max(hop)} links away from what it needs"
    together = link_bound(demand, links, hops, until)
    sets = nearer_sets(hops, links.capacity) if clock.now() < until else []
    cuts = cut_bound(demand, links, until=until, sets=sets)
    return farthest, max(together, cuts, key=lambda b: b[0])


def link_bound(demand: Demand, links: Links, hops: np.ndarray, until: float = math.inf) -> Bound:
    """Return a lower bound on rounds, and its reason, from the capacity of all links; see `link_uses`."""
    uses = link_uses(demand, hops, until)
    if uses >= FAR * FAR:
        return UNREACHABLE, "some rank is not linked to what it needs"
    space = _together({e: n for e, n in links.capacity.items() if n}, links)
    rounds = -(-uses // space) if space else UNREACHABLE if uses else 0
    return rounds, f"chunks have to go over links {uses} times; all links carry {space} a round"


def link_uses(demand: Demand, hops: np.ndarray, until: float = math.inf) -> int:
    """Return a lower bound on how many times chunks cross links; `FAR` squared if a rank cannot be reached.

    A chunk crosses one link into each rank that needs it. To reach distant ranks it also crosses one link for
    each distance from its holders at which no rank needs it. Chunks not examined by ``until`` are left out.
    ``hops``: the distance from each rank to each other.
    """
    uses = 0
    for need, hop, count in _distances_to_need(demand, hops, until):
        if max(hop) >= FAR:
            return FAR * FAR
        uses += count * (len(need) + max(hop) - len(set(hop)))
    return uses


def _distances_to_need(
    demand: Demand, hops: np.ndarray, until: float
) -> Iterator[tuple[frozenset[int], list[int], int]]:
    """Yield, for each group of identical chunks: the ranks that need them, their distances, number of chunks.

    A distance is the number of hops to such a rank from the nearest rank that has the chunk. After the time
    ``until`` the remaining groups are left out.
    """
    stop = clock.Deadline(until)
    with suppress(clock.OutOfTime):
        for (have, need), count in Counter((c.have, c.need) for c in demand.chunks if c.need).items():
            stop.check()
            one = len(have) == 1 == len(need)
            between = hops[min(have), min(need)] if one else hops[sorted(have)][:, sorted(need)].min(axis=0)
            yield need, between.reshape(-1).tolist(), count


def nearer_sets(hops: np.ndarray, capacity: Mapping[Edge, int]) -> list[int]:
    """Return, for each link (a, b), the set of ranks nearer to a than to b, as bit masks.

    In a mesh these are the sides of all straight cuts, in a hypercube its halves, in an even ring its half
    rings (Djoković 1973, doi:10.1016/0095-8956(73)90010-5).
    """
    sides = (np.flatnonzero(hops[a] < hops[b]).tolist() for a, b in capacity)
    return sorted({_bits(side) for side in sides} - {0})


def _bits(ranks) -> int:
    return sum(1 << r for r in ranks)


def _ranks_name(inside: int, ranks: int) -> str:
    """Return a set of ranks (a bit mask) in words; of more than 12 only the first six."""
    numbers = [str(r) for r in range(ranks) if inside >> r & 1]
    if len(numbers) > 12:
        return f"{len(numbers)} ranks, {', '.join(numbers[:6])}, …"
    return f"{'rank' if len(numbers) == 1 else 'ranks'} {', '.join(numbers)}"


def _together(cut: dict[Edge, int], links: Links) -> int:
    """Return an upper bound on the chunks that all links of ``cut`` carry together per round.

    ``cut``: the capacity of each link. The links of a group carry at most the capacity of the group; a link
    in several groups counts in one of them.
    """
    left, capacity = dict(cut), 0
    for edges, n in sorted(links.groups, key=lambda group: group[1] - sum(cut.get(e, 0) for e in group[0])):
        capacity += min(n, sum(left.pop(e, 0) for e in edges))
    return capacity + sum(left.values())


def _cuts(links: Links, chunks: int) -> Iterator[int]:
    """Yield the sets of ranks, as bit masks, for which `cut_bound` counts the chunks that must enter.

    Of up to 8 ranks these are all sets; else growing neighbourhoods of each rank, and their complements.
    """
    ranks, everybody = links.ranks, (1 << links.ranks) - 1
    if ranks <= 8:
        yield from range(1, everybody)
        return
    near: dict[int, set[int]] = {r: set() for r in range(ranks)}
    for a, b in links.capacity:
        near[a].add(b)
        near[b].add(a)
    seen: set[int] = set()
    large = 2 if 2 * ranks**2 * (chunks + len(links.capacity)) > _WORK else ranks
    for start in range(ranks):
        reached = [start]
        for rank in reached:
            reached += sorted(near[rank] - set(reached))
        inside = 0
        for rank in reached[: large - 1]:
            inside |= 1 << rank
            seen |= {inside, everybody & ~inside}
    yield from sorted(seen)
