"""Express a layout as chunks that must reach further ranks; sums become copies reversed in time."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import shortest_path

from wavefabric.base.errors import InputError, ensure
from wavefabric.collectives.conditions import Layout
from wavefabric.collectives.synthesis.problem import Edge

#: (buffer, chunk) on a rank.
Location = tuple[int, int]
#: (round, chunk, from, to)
Move = tuple[int, int, int, int]
#: Number of hops that stands for unreachable.
FAR = 1 << 20


@dataclass(frozen=True)
class ChunkDemand:
    """Holds the ranks that have one chunk, and the other ranks that need the chunk."""

    have: frozenset[int]
    need: frozenset[int]

    @property
    def direct(self) -> bool:
        """Whether one rank has the chunk and one other rank needs it."""
        return len(self.have) == 1 and len(self.need) == 1


@dataclass(frozen=True)
class Demand:
    """Holds the chunks that must reach the ranks that need them."""

    ranks: int
    chunks: tuple[ChunkDemand, ...]


@dataclass(frozen=True)
class SumsAndCopies:
    """Holds a layout divided into sums and copies.

    ``sums``: chunks whose terms are added up at a root rank, expressed reversed in time as copies from the
    root. ``copies``: chunks that are copied; a sum is copied from its root. ``locations``: by (chunk, rank),
    the (buffer, index) where the rank holds the chunk, if the layout defines it. ``local_copies``: (chunk,
    rank, further location at which the rank must hold the chunk).
    """

    layout: Layout
    sums: Demand | None
    copies: Demand | None
    locations: dict[tuple[int, int], Location] = field(repr=False)
    local_copies: list[tuple[int, int, Location]] = field(repr=False)


def task(layout: Layout) -> SumsAndCopies:
    """Divide a layout into sums and copies.

    `InputError` for a sum that does not add each contribution once or is needed where no term lies, for a
    location that holds different items before and after, and for an item that no rank has.
    """
    pre: dict[int, dict[int, tuple[Location, int]]] = defaultdict(dict)
    post: dict[int, dict[int, list[tuple[Location, int]]]] = defaultdict(lambda: defaultdict(list))
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
    locations: dict[tuple[int, int], Location] = {}
    local_copies: list[tuple[int, int, Location]] = []
    sums: list[ChunkDemand] = []
    copies: list[ChunkDemand] = []
    for number, item in enumerate(sorted(post)):
        have, need = pre[item], post[item]
        ensure(have, "layout", f"item {item} must be held after", "items that are held before")
        for rank, (location, _) in have.items():
            locations[number, rank] = location
        for rank, wanted in need.items():
            location = locations.setdefault((number, rank), wanted[0][0])
            local_copies += [(number, rank, other) for other, _ in wanted if other != location]
        if len({origins for _, origins in have.values()} | _origins(need)) > 1:
            ranks = _sum_ranks(item, have, need)
            root = frozenset({ranks[number * len(ranks) // len(post)]})  # spread evenly over the ranks
            sums.append(ChunkDemand(root, frozenset(have) - root))
            copies.append(ChunkDemand(root, frozenset(need) - root))
        else:
            copies.append(ChunkDemand(frozenset(have), frozenset(need) - frozenset(have)))
    ensure(not sums or len(sums) == len(copies), "layout", "sums and copies", "only sums, or only copies")
    first = Demand(layout.ranks, tuple(sums)) if sums else None
    second = Demand(layout.ranks, tuple(copies)) if not sums or any(c.need for c in copies) else None
    return SumsAndCopies(layout, first, second, locations, local_copies)


def _origins(need: dict[int, list[tuple[Location, int]]]) -> set[int]:
    return {origins for wanted in need.values() for _, origins in wanted}


def _sum_ranks(item: int, have: dict, need: dict) -> list[int]:
    """Return the ranks that need the sum of an item; `InputError` unless the sum is complete.

    It must have each contribution once, and replace the term of each rank that needs it. ``have``: from each
    rank with a term to (location, contributions). ``need``: from each rank that needs the sum to such pairs.
    """
    total = 0
    for _, origins in have.values():
        ensure(not total & origins, "layout", f"item {item} counts a rank twice", "each contribution once")
        total |= origins
    if _origins(need) != {total}:
        raise InputError(f"layout: item {item} is part of a sum after; allowed: sums of all contributions")
    ranks = sorted(need)
    for rank in ranks:
        if rank not in have or any(location != have[rank][0] for location, _ in need[rank]):
            raise InputError(f"layout: the sum of item {item} at rank {rank}; allowed: where its own part is")
    return ranks


def useful(demand: Demand, moves: Iterable[Move]) -> list[Move]:
    """Return the moves in order, without moves to ranks that neither need the chunk nor send it on."""
    kept: list[Move] = []
    onward: set[tuple[int, int]] = set()
    for move in sorted(moves, reverse=True):
        _, chunk, s, d = move
        if d in demand.chunks[chunk].need or (chunk, d) in onward:
            kept.append(move)
            onward.add((chunk, s))
    return kept[::-1]


def distances(ranks: int, pairs: Iterable[Edge]) -> np.ndarray:
    """Return the hops from each rank to each other over links ``pairs``, or `FAR`: shape (ranks, ranks)."""
    ends = np.array(sorted(set(pairs)), np.int64).reshape(-1, 2)
    joined = csr_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(ranks, ranks))
    hops = shortest_path(joined, unweighted=True)
    return np.where(np.isfinite(hops), hops, FAR).astype(np.int64)
