"""How many rounds are needed at least, by counting."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from wavefabric.collectives.synthesis.demand import Demand
from wavefabric.collectives.synthesis.problem import Edge

#: A number of rounds, and what needs them.
Bound = tuple[int, str]
#: Cuts times chunks and edges, beyond which only cuts round single ranks are looked at.
_WORK = 3_000_000


def circuit_bound(demand: Demand, at_once: int) -> Bound:
    """Rounds needed by `at_once` lasers and photodiodes a rank, whatever the routes.

    The largest of: chunks to be received by a rank; chunks that a rank alone has; the growth of one chunk, at
    most by the factor 1 + `at_once` a round (⌈log_{1+L} N⌉ for a broadcast among N); and the growth of all
    together, when ranks that have nothing cannot send.
    """
    found: list[Bound] = [(0, "nothing to be sent")]
    needs = Counter(rank for chunk in demand.chunks for rank in chunk.need)
    for rank, count in sorted(needs.items()):
        found.append((-(-count // at_once), f"rank {rank} receives {count} chunks, {at_once} a round"))
    alone = Counter(rank for c in demand.chunks if c.need and len(c.have) == 1 for rank in c.have)
    for rank, count in sorted(alone.items()):
        found.append(
            (-(-count // at_once), f"rank {rank} alone has {count} chunks, and sends {at_once} a round")
        )
    for have, goal in sorted({(len(c.have), len(c.have | c.need)) for c in demand.chunks}):
        rounds, reached = 0, have
        while reached < goal:
            reached, rounds = reached * (1 + at_once), rounds + 1
        found.append((rounds, f"growth from {have} to {goal} ranks, by a factor of {1 + at_once} a round"))
    found.append(_activity(demand, at_once))
    return max(found, key=lambda bound: bound[0])


def _activity(demand: Demand, at_once: int) -> Bound:
    """All chunks together: a rank that has nothing sends nothing, one that needs nothing receives nothing."""
    holding = [set(c.have) for c in demand.chunks if c.need]
    active = len(set().union(*holding)) if holding else 0
    everybody = len(set().union(*(c.have | c.need for c in demand.chunks if c.need))) if holding else 0
    needy = len(set().union(*(c.need for c in demand.chunks)))
    left = sum(len(c.need) for c in demand.chunks)
    rounds = 0
    while left > 0:
        sent = min(active, needy) * at_once
        left, rounds = left - sent, rounds + 1
        active = min(everybody, active + sent)
    return rounds, f"growth of all chunks together, {at_once} a rank and round"


def cut_bound(
    demand: Demand,
    capacity: Mapping[Edge, int],
    groups: Sequence[tuple[frozenset[Edge], int]] = (),
    shared: bool = False,
) -> Bound:
    """Rounds needed because chunks have to cross the edges into a set of ranks.

    Parameters
    ----------
    demand : Demand
    capacity : mapping
        Chunks that each directed edge carries in a round; of `shared` edges both directions together, named
        by either.
    groups : sequence of (set of edges, int)
        Chunks that edges carry together in a round.
    shared : bool
    """
    chunks = Counter((_bits(c.have), _bits(c.need)) for c in demand.chunks if c.need)
    edges = [(1 << a, 1 << b, (a, b)) for a, b in capacity]
    best: Bound = (0, "nothing to be sent")
    for inside in _cuts(demand.ranks, capacity, len(chunks)):
        crossing = sum(n for (have, need), n in chunks.items() if need & inside and not have & inside)
        if shared:
            crossing += sum(n for (have, need), n in chunks.items() if need & ~inside and not have & ~inside)
        if not crossing:
            continue
        cut = {
            e: capacity[e]
            for a, b, e in edges
            if (shared or b & inside) and bool(a & inside) != bool(b & inside)
        }
        room = _together(cut, groups)
        rounds = -(-crossing // room) if room else UNREACHABLE
        if rounds > best[0]:
            ranks = [str(r) for r in range(demand.ranks) if inside >> r & 1]
            where = f"{'rank' if len(ranks) == 1 else 'ranks'} {', '.join(ranks)}"
            best = rounds, f"{crossing} chunks have to cross the edges round {where}, {room} a round"
    return best


def _bits(ranks: frozenset[int]) -> int:
    return sum(1 << r for r in ranks)


def _together(cut: dict[Edge, int], groups: Sequence[tuple[frozenset[Edge], int]]) -> int:
    """An upper limit of what edges carry: each edge counted alone, or in one of its groups."""
    saving = sorted(((n - sum(cut.get(e, 0) for e in edges), i) for i, (edges, n) in enumerate(groups)))
    left, room = dict(cut), 0
    for _, i in saving:
        edges, n = groups[i]
        room += min(n, sum(left.pop(e, 0) for e in edges))
    return room + sum(left.values())


#: Rounds needed by what cannot be done.
UNREACHABLE = 1 << 30


def _cuts(ranks: int, capacity: Mapping[Edge, int], chunks: int) -> Iterator[int]:
    """Sets of ranks as bits: all where ranks are few; else each rank with more and more of its nearest."""
    everybody = (1 << ranks) - 1
    if ranks <= 8:
        yield from range(1, everybody)
        return
    near: dict[int, set[int]] = {r: set() for r in range(ranks)}
    for a, b in capacity:
        near[a].add(b)
        near[b].add(a)
    seen: set[int] = set()
    large = 2 if 2 * ranks**2 * (chunks + len(capacity)) > _WORK else ranks
    for start in range(ranks):
        reached = [start]
        for rank in reached:
            reached += sorted(near[rank] - set(reached))
        inside = 0
        for rank in reached[: large - 1]:
            inside |= 1 << rank
            seen |= {inside, everybody & ~inside}
    yield from sorted(seen)
