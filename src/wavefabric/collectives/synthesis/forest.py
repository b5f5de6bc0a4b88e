"""Spanning trees from every root that use shared links as fully as cuts allow.

ForestColl (Zhao et al. 2024, arXiv:2402.06787) splits off switches and may send a pair's data over any path.
Here pairs of ranks keep their routes, as on a machine, and links are shared out between pairs evenly.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import gcd

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from wavefabric.collectives.synthesis.deadline import Deadline
from wavefabric.collectives.synthesis.demand import Demand
from wavefabric.collectives.synthesis.problem import Edge, Links
from wavefabric.collectives.synthesis.search import HalfResult, Solution
from wavefabric.errors import InputError

_FREE = 2**30


@dataclass
class EqualTrees:
    """Trees of a root from the `first` on with the same edges: parent and depth of each rank reached."""

    root: int
    first: int
    count: int
    reached: dict[int, tuple[int, int]]


@dataclass(frozen=True)
class Forest:
    """Trees, and the rounds of the links in which they carry all chunks, if these are one chunk in all."""

    trees: list[EqualTrees]
    rounds: Fraction


def forest(demand: Demand, links: Links, trees: int, stop: Deadline) -> Forest:
    """So many trees for each root (times its chunks, without a common factor), in the fewest rounds.

    The fewest for which links, shared out by `_share`, carry the trees: what is shared out is whole, so that
    more trees may come closer to what cuts allow. `OutOfTime` when `stop` has passed; `InputError` if chunks
    go to some ranks only, or links do not join all.
    """
    n, chunks = demand.ranks, Counter(min(chunk.have) for chunk in demand.chunks)
    if any(len(chunk.have) != 1 or len(chunk.need) != n - 1 for chunk in demand.chunks):
        raise InputError("layout: chunks for some ranks; allowed: chunks from one rank to all others")
    wanted = np.array([chunks[r] for r in range(n)], np.int64) // gcd(*chunks.values()) * trees
    groups = [([pair], most) for pair, most in links.capacity.items()] + list(links.groups)
    routes: dict[Edge, list[int]] = defaultdict(list)
    for number, (pairs, _) in enumerate(groups):
        for pair in pairs:
            routes[pair].append(number)

    def carried(rounds: Fraction) -> np.ndarray:
        return _share(n, [int(rounds * most) for _, most in groups], routes, stop)

    capacities = {most for _, most in groups if most} or {1}
    high = Fraction(trees, max(capacities))
    while not _carries(carried(high), wanted):
        high *= 2
        if high > _FREE:
            raise InputError("links: they do not join the ranks; allowed: links that do")
    whole = ((c, range(int(high * c / 2) + 1, int(high * c) + 1)) for c in capacities)
    tried = sorted({Fraction(i, c) for c, each in whole for i in each})
    rounds = tried[bisect_left(tried, True, key=lambda each: _carries(carried(each), wanted))]
    return Forest(_pack(carried(rounds), wanted, stop), rounds / int(wanted.sum()))


def _strides(ranks: int) -> list[int]:
    """Distances in number, first those that lead from a node to the same local rank of others."""
    return sorted(range(1, ranks), key=lambda ahead: (-gcd(ahead, ranks), ahead))


def _share(ranks: int, left: list[int], routes: dict[Edge, list[int]], stop: Deadline) -> np.ndarray:
    """Trees that each pair carries, one more for each in turn while its route has space: (ranks, ranks)."""
    carried = np.zeros((ranks, ranks), np.int32)
    able = [(r, (r + ahead) % ranks) for ahead in _strides(ranks) for r in range(ranks)]
    while able := [pair for pair in able if pair in routes and all(left[i] for i in routes[pair])]:
        stop.check()
        for pair in able:
            if all(left[i] for i in routes[pair]):
                carried[pair] += 1
                for i in routes[pair]:
                    left[i] -= 1
    return carried


def _carries(carried: np.ndarray, wanted: np.ndarray) -> bool:
    """Whether so many trees of each root fit: a flow from all roots reaches every rank (Edmonds 1973)."""
    n, total = len(carried), int(wanted.sum())
    if (carried.sum(axis=0) + wanted < total).any():
        return False
    graph = np.pad(carried, (0, 1))
    graph[n, :n] = wanted
    return all(maximum_flow(csr_array(graph), n, v).flow_value >= total for v in range(n))


def _pack(carried: np.ndarray, wanted: np.ndarray, stop: Deadline) -> list[EqualTrees]:
    """Edge-disjoint spanning trees, grown level by level (Bérczi & Frank 2010, as in ForestColl)."""
    n, left = len(carried), carried.copy()
    trees = [EqualTrees(r, 0, int(wanted[r]), {r: (r, 0)}) for r in range(n) if wanted[r]]
    direct = (carried + np.diag(wanted) >= wanted[:, None]).all()
    for level, ahead in product(range(n - 1), _strides(n)):
        for tree in trees:  # grows meanwhile
            for x in [rank for rank, (_, depth) in tree.reached.items() if depth == level]:
                y = (x + ahead) % n
                able = min(int(left[x, y]), tree.count)
                if y in tree.reached or not able:
                    continue
                stop.check()
                able = able if direct else min(able, _spare(left, trees, tree, x, y))
                if able <= 0:
                    continue
                if able < tree.count:
                    rest = tree.first + able, tree.count - able
                    trees.append(EqualTrees(tree.root, *rest, dict(tree.reached)))
                tree.count, tree.reached[y] = able, (x, level + 1)
                left[x, y] -= able
    return trees


def _spare(left: np.ndarray, trees: list[EqualTrees], tree: EqualTrees, x: int, y: int) -> int:
    """How many of equal trees may take the edge from x to y so that all others can still be completed.

    A node for each of the others is fed by x and linked to the ranks that it reaches: what flows from x to y
    beyond the number of others (Edmonds' condition for every set of ranks with y and without x).
    """
    n = len(left)
    others = [each for each in trees if each is not tree and len(each.reached) < n]
    table = np.pad(left, (0, len(others)))
    for i, other in enumerate(others, n):
        table[x, i] = other.count
        table[i, list(other.reached)] = _FREE
    return int(maximum_flow(csr_array(table), x, y).flow_value) - sum(each.count for each in others)


def pipelined(made: Forest, demand: Demand) -> HalfResult:
    """The chunks of each root dealt out to its trees, on each one after the other."""
    moves, total = [], Counter[int]()
    for tree in made.trees:
        total[tree.root] += tree.count
    for tree in made.trees:
        mine = [number for number, chunk in enumerate(demand.chunks) if tree.root in chunk.have]
        begin, end = (len(mine) * at // total[tree.root] for at in (tree.first, tree.first + tree.count))
        for i, number in enumerate(mine[begin:end]):
            edges = ((depth, x, y) for y, (x, depth) in tree.reached.items() if depth)
            moves += [(i // tree.count + depth - 1, number, x, y) for depth, x, y in edges]
    return HalfResult(Solution(sorted(moves), "trees"), 0, "", ())
