"""A layout as chunks to be spread from rank to rank; sums are the same with time turned round."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from wavefabric.collectives.conditions import Layout
from wavefabric.errors import InputError

Place = tuple[int, int]  # buffer, chunk
#: (round, chunk, from, to)
Move = tuple[int, int, int, int]


@dataclass(frozen=True)
class Chunk:
    """One chunk to be spread: the ranks that have it, and the other ranks that need it."""

    have: frozenset[int]
    need: frozenset[int]

    @property
    def direct(self) -> bool:
        """Whether there is only one way: from the one rank that has it to the one that needs it."""
        return len(self.have) == 1 and len(self.need) == 1


@dataclass(frozen=True)
class Demand:
    """Chunks to be spread among ranks."""

    ranks: int
    chunks: tuple[Chunk, ...]


@dataclass(frozen=True)
class Task:
    """A layout taken apart.

    Parameters
    ----------
    layout : Layout
    gather : Demand or None
        Of sums: chunk c of every contributor has to come together at one rank, its root. Stated with time
        turned round: the chunk has to be spread from the root.
    spread : Demand or None
        Copies; of sums that several ranks need: from the root.
    places : dict of (chunk, rank) to (buffer, chunk)
        Where a rank keeps a chunk, if the layout says so.
    copies : list of (chunk, rank, buffer and chunk)
        Further places that must hold a chunk in the end.
    """

    layout: Layout
    gather: Demand | None
    spread: Demand | None
    places: dict[tuple[int, int], Place] = field(repr=False)
    copies: list[tuple[int, int, Place]] = field(repr=False)


def task(layout: Layout) -> Task:
    """Take a layout apart.

    Raises
    ------
    InputError
        If a sum is not of one contribution a rank, or is not kept in place; if a chunk that must be held in
        the end lies where another one is before; if nobody has what somebody needs.
    """
    pre: dict[int, dict[int, tuple[Place, int]]] = defaultdict(dict)
    post: dict[int, dict[int, list[tuple[Place, int]]]] = defaultdict(lambda: defaultdict(list))
    for (rank, buffer, chunk), (item, origins) in sorted(layout.pre.items()):
        pre[item].setdefault(rank, ((buffer, chunk), origins))
    for (rank, buffer, chunk), (item, origins) in sorted(layout.post.items()):
        post[item][rank].append(((buffer, chunk), origins))
        before = layout.pre.get((rank, buffer, chunk))
        if before is not None and before[0] != item:
            where = f"{layout.buffers[buffer]}[{chunk}] of rank {rank}"
            raise InputError(
                f"layout: {where} holds item {before[0]} before and {item} after; allowed: one item"
            )
    places: dict[tuple[int, int], Place] = {}
    copies: list[tuple[int, int, Place]] = []
    gather: list[Chunk] = []
    spread: list[Chunk] = []
    for number, item in enumerate(sorted(post)):
        have, need = pre[item], post[item]
        if not have:
            raise InputError(f"layout: item {item} must be held after; allowed: items that are held before")
        sums = len({origins for _, origins in have.values()} | _origins(need)) > 1
        for rank, (place, _) in have.items():
            places[number, rank] = place
        for rank, wanted in need.items():
            place = places.setdefault((number, rank), wanted[0][0])
            copies += [(number, rank, w) for w, _ in wanted if w != place]
        if sums:
            root = _root(layout, item, number, len(post), have, need)
            gather.append(Chunk(frozenset({root}), frozenset(have) - {root}))
            spread.append(Chunk(frozenset({root}), frozenset(need) - {root}))
        else:
            spread.append(Chunk(frozenset(have), frozenset(need) - frozenset(have)))
    if gather and len(gather) != len(spread):
        raise InputError("layout: sums and copies; allowed: only sums, or only copies")
    first = Demand(layout.ranks, tuple(gather)) if gather else None
    second = Demand(layout.ranks, tuple(spread)) if not gather or any(c.need for c in spread) else None
    return Task(layout, first, second, places, copies)


def _origins(need: dict[int, list[tuple[Place, int]]]) -> set[int]:
    return {origins for wanted in need.values() for _, origins in wanted}


def _root(layout: Layout, item: int, number: int, items: int, have: dict, need: dict) -> int:
    """The rank at which a sum comes together: of several that need it, roots are spread evenly."""
    total = 0
    for _, origins in have.values():
        if total & origins:
            raise InputError(f"layout: item {item} counts a rank twice; allowed: each contribution once")
        total |= origins
    if _origins(need) != {total}:
        raise InputError(f"layout: item {item} is part of a sum after; allowed: sums of all contributions")
    ranks = sorted(need)
    for rank in ranks:
        if rank not in have or any(place != have[rank][0] for place, _ in need[rank]):
            raise InputError(f"layout: the sum of item {item} at rank {rank}; allowed: where its own part is")
    return ranks[number * len(ranks) // items]
