"""Schedules that use shared links as fully as cuts allow: spanning trees from every root, as in ForestColl.

Zhao et al. 2024, arXiv:2402.06787. It splits the edges at switches, and may send a pair's data over any path.
Here pairs of ranks keep their routes, as on a machine, and what each may carry is filled up fairly.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import gcd

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from wavefabric.collectives.synthesis.deadline import Deadline
from wavefabric.collectives.synthesis.demand import Demand, Move
from wavefabric.collectives.synthesis.problem import Edge, Links
from wavefabric.collectives.synthesis.search import HalfResult, Solution
from wavefabric.errors import InputError

#: Capacity of what has no limit.
_FREE = 2**30


@dataclass
class TreeBatch:
    """Equal trees of a root: how many, the depth of each rank reached, and edges in the order they grew."""

    root: int
    count: int
    depth: dict[int, int]
    edges: list[Edge]


@dataclass(frozen=True)
class Forest:
    """Edge-disjoint spanning trees, `trees` for each root of weight one.

    Over links of capacity c as many as `rounds` c trees go. `batches` are in the order of roots.
    """

    trees: int
    rounds: Fraction
    batches: tuple[TreeBatch, ...]

    @property
    def depth(self) -> int:
        """Links from a root to the rank that is farthest."""
        return max((max(batch.depth.values()) for batch in self.batches), default=0)


def weights(demand: Demand) -> np.ndarray:
    """How many chunks start at each rank, without a common factor: int64, shape (ranks,).

    `InputError` unless every chunk goes from one rank to all others.
    """
    count = np.zeros(demand.ranks, np.int64)
    for chunk in demand.chunks:
        if len(chunk.have) != 1 or len(chunk.need) != demand.ranks - 1:
            raise InputError("layout: chunks for some ranks; allowed: chunks from one rank to all others")
        count[min(chunk.have)] += 1
    return count // max(1, int(np.gcd.reduce(count)))


def forest(demand: Demand, links: Links, trees: int, stop: Deadline) -> Forest:
    """So many trees for each root, over as few rounds of the links as the search finds.

    `Forest.rounds` is the least for which `fill` gives links that carry the trees (Edmonds 1973): of whole
    numbers of trees, so more `trees` may come closer to what cuts allow. `OutOfTime` when `stop` has passed,
    `InputError` where links do not join the ranks or the demand has other receivers than all.
    """
    weight, fabric = weights(demand), _Shared(links)
    low, high = Fraction(0), Fraction(trees, max(fabric.capacity, default=1))
    while (carried := fabric.fill(high, stop)).sum() < trees * weight.sum() or not _fits(carried, weight * trees):
        low, high = high, 2 * high
        if high > _FREE:
            raise InputError("links: they do not join the ranks; allowed: links that do")
    high = fabric.step_down(high)
    while fabric.step_up(low) < high:
        middle = fabric.step_down((low + high) / 2)
        if middle <= low:
            middle = fabric.step_up(low)
        if _fits(filled := fabric.fill(middle, stop), weight * trees):
            high, carried = middle, filled
        else:
            low = middle
    return Forest(trees, high, tuple(_pack(carried, weight * trees, stop)))


def _strides(ranks: int) -> list[int]:
    """Distances around all ranks, those first that lead to equal ranks of other nodes."""
    return sorted(range(1, ranks), key=lambda ahead: (-gcd(ahead, ranks), ahead))


class _Shared:
    """Links and groups of links as arrays, in an order in which neighbours in number come first."""

    def __init__(self, links: Links):
        self.ranks, n = links.ranks, links.ranks
        first = {ahead: i for i, ahead in enumerate(_strides(n))}
        self.pairs = sorted(links.usable, key=lambda pair: (first[(pair[1] - pair[0]) % n], pair))
        number = {pair: i for i, pair in enumerate(self.pairs)}
        groups = [([pair], links.capacity[pair]) for pair in self.pairs] + list(links.groups)
        members = [[number[pair] for pair in group if pair in number] for group, _ in groups]
        self.capacity = [most for _, most in groups]
        self.member = np.array([i for group in members for i in group], np.int64)
        self.group = np.repeat(np.arange(len(groups)), [len(group) for group in members])
        order, first = np.argsort(self.member, kind="stable"), np.cumsum(np.bincount(self.member))[:-1]
        self.of_pair = np.split(self.group[order], first)

    def step_down(self, rounds: Fraction) -> Fraction:
        """The least number of rounds with the same whole capacities."""
        return max(Fraction(int(rounds * c), c) for c in set(self.capacity) if c)

    def step_up(self, rounds: Fraction) -> Fraction:
        """The next greater number of rounds with other whole capacities."""
        return min(Fraction(int(rounds * c) + 1, c) for c in set(self.capacity) if c)

    def fill(self, rounds: Fraction, stop: Deadline) -> np.ndarray:
        """What each pair carries in so many rounds, max–min fair in whole numbers: shape (ranks, ranks)."""
        left = np.array([int(rounds * c) for c in self.capacity], np.int64)
        carried, able = np.zeros(len(self.pairs), np.int64), np.ones(len(self.pairs), bool)
        while able.any():
            stop.check()
            used = np.bincount(self.group[able[self.member]], minlength=left.size)
            level = int((left[used > 0] // used[used > 0]).min())
            carried[able] += level
            left -= level * used
            for i in () if level else np.flatnonzero(able):
                if (left[self.of_pair[i]] > 0).all():
                    carried[i] += 1
                    left[self.of_pair[i]] -= 1
            able[self.member[left[self.group] == 0]] = False
        table = np.zeros((self.ranks, self.ranks), np.int64)
        table[tuple(np.array(self.pairs, np.int64).reshape(-1, 2).T)] = carried
        return table


def _fits(carried: np.ndarray, wanted: np.ndarray) -> bool:
    """Whether `wanted` trees of each root fit: a flow that all roots feed reaches every rank."""
    n = len(carried)
    table = np.zeros((n + 1, n + 1), np.int32)
    table[:n, :n], table[n, :n] = np.minimum(carried, _FREE), wanted
    graph = csr_array(table)
    # What comes in is the tightest cut of most: it is looked at first.
    if (carried.sum(axis=0) + wanted < wanted.sum()).any():
        return False
    return all(maximum_flow(graph, n, v).flow_value >= wanted.sum() for v in range(n))


def _pack(carried: np.ndarray, wanted: np.ndarray, stop: Deadline) -> list[TreeBatch]:
    """Disjoint spanning trees, `wanted` of each root, level by level (Bérczi and Frank 2010).

    An edge from x to y goes to as many equal trees as leave enough for all others: with a node for every
    other batch, fed by x and linked to what the batch has reached, the flow from x to y beyond the trees of
    those batches (Edmonds' condition).
    """
    n, left = len(carried), carried.copy()
    batches = [TreeBatch(r, int(wanted[r]), {r: 0}, []) for r in range(n) if wanted[r]]
    direct = all((np.delete(carried[b.root], b.root) >= b.count).all() for b in batches)
    for level, ahead in product(range(n - 1), _strides(n)):
        for batch in batches:  # grows meanwhile
            for x in [v for v, depth in batch.depth.items() if depth == level]:
                y = (x + ahead) % n
                if y in batch.depth or not left[x, y]:
                    continue
                stop.check()
                able = min(int(left[x, y]), batch.count)
                able = able if direct else min(able, _spare(left, batches, batch, x, y))
                if able <= 0:
                    continue
                if able < batch.count:
                    rest = batch.count - able
                    batches.append(TreeBatch(batch.root, rest, dict(batch.depth), list(batch.edges)))
                    batch.count = able
                batch.depth[y] = level + 1
                batch.edges.append((x, y))
                left[x, y] -= able
    return sorted(batches, key=lambda batch: batch.root)


def _spare(left: np.ndarray, batches: Sequence[TreeBatch], batch: TreeBatch, x: int, y: int) -> int:
    """How many trees of a batch may take the edge from x to y."""
    n = len(left)
    others = [b for b in batches if b is not batch and len(b.depth) < n]
    table = np.zeros((n + len(others), n + len(others)), np.int32)
    table[:n, :n] = np.minimum(left, _FREE)
    for i, other in enumerate(others):
        table[x, n + i] = other.count
        table[n + i, list(other.depth)] = _FREE
    return int(maximum_flow(csr_array(table), x, y).flow_value) - sum(b.count for b in others)


def pipelined(made: Forest, demand: Demand) -> HalfResult:
    """The chunks of each root over its trees, one after the other in the rounds of a pipeline."""
    chunks: dict[int, list[int]] = defaultdict(list)
    for number, chunk in enumerate(demand.chunks):
        chunks[min(chunk.have)].append(number)
    total = Counter[int]()
    for batch in made.batches:
        total[batch.root] += batch.count
    moves: list[Move] = []
    done = Counter[int]()
    for batch in made.batches:
        mine, root = chunks[batch.root], batch.root
        first, last = (len(mine) * at // total[root] for at in (done[root], done[root] + batch.count))
        done[root] += batch.count
        at_once = batch.count * -(-len(mine) // total[root]) // max(1, len(mine) // total[root])
        for j, number in enumerate(mine[first:last]):
            moves += [(j // at_once + batch.depth[x], number, x, y) for x, y in batch.edges]
    return HalfResult(Solution(sorted(moves), f"{made.trees} trees of each GPU"), 0, "", ())
