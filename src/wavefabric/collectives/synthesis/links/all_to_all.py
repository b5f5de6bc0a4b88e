"""All-to-alls over electrical links without a solver: chunks that each go from one rank to one other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from wavefabric.collectives.synthesis.deadline import Deadline
from wavefabric.collectives.synthesis.demand import Demand, Move
from wavefabric.collectives.synthesis.edge_colouring import colours
from wavefabric.collectives.synthesis.links.capacity import StepCapacity, fits
from wavefabric.collectives.synthesis.problem import Edge, Links
from wavefabric.collectives.synthesis.send_variables import FAR, distances

#: Moves beyond which nothing is looked for, and ranks beyond which no translations are.
_MOVES, _RANKS = 1 << 21, 512
_PASSES = 4


def open_shop(demand: Demand, links: Links, stop: Deadline) -> list[Move] | None:
    """The same from every rank, over links that look alike from every rank: rings, tori, hypercubes.

    Ranks are numbers of one or more digits, and links and demand depend on the digitwise difference alone
    (Cayley graphs of Abelian groups). Then a difference v is a job: shortest paths of links that sum to v,
    done at once by all ranks. As links may be taken in any order, jobs and links are an open shop of unit
    operations, whose least time is the largest load of a link or length of a job: an edge colouring.

    The best over all digits that fit. On a k-ary n-cube (a hypercube is a binary one) the steps are as few as
    links allow where chunks halfway round a ring can go either way evenly. Hypercubes: Johnsson & Ho 1989,
    doi:10.1109/12.29465; Edelman 1991, J. Parallel Distrib. Comput. 11, 328. Open shops: Gonzalez & Sahni
    1976, doi:10.1145/321978.321985.
    """
    chunks = _direct_chunks(demand)
    n = demand.ranks
    if not chunks or n > _RANKS:
        return None
    capacity, wanted = np.zeros((n, n), np.int64), np.zeros((n, n), np.int64)
    for link, most in links.capacity.items():
        capacity[link] = most
    for pair, numbers in chunks.items():
        wanted[pair] = len(numbers)
    best: list[Move] | None = None
    for sizes in _factorisations(n):
        add = _digitwise_sums(sizes)
        if not (_invariant(capacity, add) and _invariant(wanted, add)):
            continue
        moves = _translated(chunks, wanted[0], capacity[0], add, stop)
        if moves is not None and (best is None or moves[-1][0] < best[-1][0]):
            best = moves
    return best if best is not None and fits(best, links, [1] * (1 + best[-1][0])) else None


def _direct_chunks(demand: Demand) -> dict[Edge, list[int]] | None:
    """Chunks of each (source, destination); None if one has several sources or destinations."""
    chunks: dict[Edge, list[int]] = defaultdict(list)
    for number, chunk in enumerate(demand.chunks):
        if chunk.need:
            if not chunk.direct:
                return None
            chunks[min(chunk.have), min(chunk.need)].append(number)
    return chunks


def _factorisations(n: int) -> Iterator[tuple[int, ...]]:
    """All ordered products of numbers from 2."""
    if n == 1:
        yield ()
    for first in range(2, n + 1):
        if n % first == 0:
            for rest in _factorisations(n // first):
                yield (first, *rest)


def _digitwise_sums(sizes: Sequence[int]) -> np.ndarray:
    """Digitwise sums of numbers with digits of these sizes, the last fastest: shape (n, n)."""
    n = int(np.prod(sizes))
    sums = np.zeros((n, n), np.int64)
    stride = 1
    for size in reversed(sizes):
        digit = np.arange(n) // stride % size
        sums += (digit[:, None] + digit) % size * stride
        stride *= size
    return sums


def _invariant(table: np.ndarray, add: np.ndarray) -> bool:
    """Whether entries (r, r + v) are the same for all r."""
    rows = np.arange(len(table))
    if (table[1, add[1]] != table[0]).any():
        return False
    return bool((table[rows[:, None], add] == table[0]).all())


def _translated(
    chunks: dict[Edge, list[int]], wanted: np.ndarray, capacity: np.ndarray, add: np.ndarray, stop: Deadline
) -> list[Move] | None:
    """The open shop for one meaning of r + v; `wanted`, `capacity`: of each difference."""
    n = len(add)
    links = [int(g) for g in np.flatnonzero(capacity)]
    hops = distances(n, [(r, int(add[r, g])) for r in range(n) for g in links])[0]
    jobs = [int(v) for v in np.flatnonzero(wanted) for _ in range(wanted[v])]
    if any(hops[v] >= FAR for v in jobs) or n * int(hops[jobs].sum()) > _MOVES:
        return None
    # Operations of a wide link are shared out to as many narrow ones.
    first = dict(zip(links, np.cumsum([0, *capacity[links][:-1]]).tolist(), strict=True))
    done: dict[int, int] = defaultdict(int)
    operations = []
    for job, path in enumerate(_paths_of_differences(jobs, links, capacity, add, hops, stop)):
        for g in path:
            operations.append((job, g, first[g] + done[g] % int(capacity[g])))
            done[g] += 1
    when = colours([(j, m) for j, _, m in operations], len(jobs), int(capacity.sum()), stop)
    order: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for (job, g, _), t in zip(operations, when, strict=True):
        order[job].append((t, g))
    moves: list[Move] = []
    sent: dict[int, int] = defaultdict(int)
    for job, v in enumerate(jobs):
        here = np.arange(n)
        numbers = [chunks[r, int(d)][sent[v]] for r, d in enumerate(add[:, v])]
        sent[v] += 1
        for t, g in sorted(order[job]):
            stop.check()
            after = add[here, g]
            moves += zip([t] * n, numbers, here.tolist(), after.tolist(), strict=True)
            here = after
    moves.sort()
    return moves


def _paths_of_differences(
    jobs: list[int], links: list[int], capacity: np.ndarray, add: np.ndarray, hops: np.ndarray, stop: Deadline
) -> list[list[int]]:
    """A shortest path of links for each difference, links loaded as evenly as a few passes make them."""
    n = len(add)
    minus = np.empty((n, n), np.int64)  # minus[a, g] + g = a
    minus[add[:, links], np.array(links)[None, :]] = np.arange(n)[:, None]
    load = np.zeros(n)
    paths: list[list[int]] = [[] for _ in jobs]
    order = sorted(range(len(jobs)), key=lambda j: (hops[jobs[j]], jobs[j]))
    for _ in range(_PASSES):
        for job in order:
            stop.check()
            for g in paths[job]:
                load[g] -= 1 / capacity[g]
            paths[job], rest = [], jobs[job]
            while rest:
                able = [g for g in links if hops[minus[rest, g]] == hops[rest] - 1]
                g = min(able, key=lambda g: load[g])
                paths[job].append(g)
                load[g] += 1 / capacity[g]
                rest = int(minus[rest, g])
        order = range(len(jobs))
    return paths


def farthest_first(demand: Demand, links: Links, seed: int, stop: Deadline) -> list[Move] | None:
    """Shortest ways that load links evenly; each link carries first what has farthest to go.

    Ways keep to one dimension as long as they can where ranks are numbered row by row: the nearest (odd
    seeds) or farthest (even) numbers first among links that are loaded alike.
    """
    chunks = _direct_chunks(demand)
    if chunks is None:
        return None
    hops = distances(demand.ranks, links.usable)
    if any(hops[pair] >= FAR for pair in chunks):
        return None
    if sum(int(hops[pair]) * len(numbers) for pair, numbers in chunks.items()) > _MOVES:
        return None
    return _queued(_ways(chunks, links, hops, seed, stop), links, seed, stop)


def _ways(
    chunks: dict[Edge, list[int]], links: Links, hops: np.ndarray, seed: int, stop: Deadline
) -> dict[int, list[int]]:
    """Ranks on the way of each chunk; `seed` sets the order of chunks and of links loaded alike."""
    near: dict[int, list[int]] = defaultdict(list)
    for s, d in links.usable:
        near[s].append(d)
    for s in near:
        near[s].sort(key=lambda d: (abs(d - s) if seed % 2 else -abs(d - s), d))
    load: dict[Edge, float] = defaultdict(float)
    ways: dict[int, list[int]] = {}
    order = [(s, d, number) for (s, d), numbers in chunks.items() for number in numbers]
    even = seed >= 2
    if even:
        order = [order[i] for i in np.random.default_rng(seed).permutation(len(order))]
    for _ in range(_PASSES if even else 1):
        for s, d, number in order:
            stop.check()
            for link in pairwise(ways.get(number, ())):
                load[link] -= 1 / links.capacity[link]
            way = [s]
            while way[-1] != d:
                here = way[-1]
                able = [b for b in near[here] if hops[b, d] == hops[here, d] - 1]
                if even:
                    to = min(able, key=lambda b: load[here, b])
                else:  # halfway round a ring: one way for even ranks and the other for odd ones
                    to = able[s % 2 if _opposite(here, able) else 0]
                load[here, to] += 1 / links.capacity[here, to]
                way.append(to)
            ways[number] = way
    return ways


def _opposite(here: int, able: list[int]) -> bool:
    """Whether a choice is between two directions of one ring of ranks numbered in a row."""
    return len(able) == 2 and able[0] - here == here - able[1]


def _queued(ways: dict[int, list[int]], links: Links, seed: int, stop: Deadline) -> list[Move] | None:
    """Moves along ways, a step at a time: on each link what has farthest to go."""
    rng = np.random.default_rng(seed)
    at = dict.fromkeys(ways, 0)
    moves: list[Move] = []
    step = 0
    while at:
        room = StepCapacity(links, 1)
        waiting = sorted(at, key=lambda number: (at[number] - len(ways[number]), rng.random()))
        sent = []
        for number in waiting:
            stop.check()
            here = at[number]
            if room.take((ways[number][here], ways[number][here + 1])):
                sent.append(number)
        if not sent:
            return None
        for number in sent:
            here = at.pop(number)
            moves.append((step, number, ways[number][here], ways[number][here + 1]))
            if here + 2 < len(ways[number]):
                at[number] = here + 1
        step += 1
    return moves
