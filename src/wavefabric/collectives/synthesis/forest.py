"""Pack spanning trees from every root so that they use shared links as fully as cuts allow.

ForestColl (Zhao et al. 2024, arXiv:2402.06787) splits off switches and may send the data of a pair of ranks
over any path. This module keeps each pair's fixed route, as machines do, and divides links evenly.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from math import gcd, inf

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from wavefabric.base.errors import InputError
from wavefabric.collectives.conditions import Layout
from wavefabric.collectives.schedule import Schedule
from wavefabric.collectives.synthesis.deadline import Deadline
from wavefabric.collectives.synthesis.demand import Demand, task
from wavefabric.collectives.synthesis.division import divide
from wavefabric.collectives.synthesis.problem import Edge, Links
from wavefabric.collectives.synthesis.search import Solution
from wavefabric.collectives.synthesis.tree_rounds import EqualTrees, TreeRounds, tree_rounds
from wavefabric.collectives.synthesis.write import ScheduleWriter

#: Part of the trees of a pair, and of a root, that one level may use before other pairs have had their turn.
_OF_PAIR, _OF_ROOT = 0.1, 0.5


_APART = "links: they do not join the ranks; allowed: links that do"


@dataclass(frozen=True)
class Forest:
    """Holds spanning trees over ``links`` from every root.

    ``rounds``: in which links carry all data over the trees if all data were one chunk.
    """

    trees: list[EqualTrees]
    rounds: Fraction
    links: Links


def forests(
    layout: Layout, links: Links, trees: int | None, until: float = inf, most: float = inf
) -> list[Forest]:
    """Return a forest for the sums of ``layout`` and one for the copies; one alone if it serves both.

    A forest has spanning trees from every root, and the time that links take for it. A root of c chunks gets
    ``trees`` c/g trees, where g is the greatest common divisor of all c. Pairs of ranks get whole trees in
    turn, and links carry a forest in the fewest rounds for which these suffice; with ``trees`` None `divide`
    finds the numbers, and the time is the shortest of any trees; with 0 each has the fewest hops. A forest is
    empty if its time exceeds ``most``. `OutOfTime` after ``until``; `InputError` if chunks go to some ranks
    only, or links do not connect all ranks.
    """
    todo, stop, back = task(layout), Deadline(until, 1), links.reversed()
    mirrored = back.capacity == links.capacity and {*back.groups} == {*links.groups}
    parts = [(todo.sums, back)] * (not mirrored or todo.sums != todo.copies) + [(todo.copies, links)]
    return [_forest(demand, over, trees, stop, most) for demand, over in parts if demand is not None]


def forest_rounds(forests: list[Forest], chunks: int, pace: float, shortest: float = 1.0) -> list[TreeRounds]:
    """Return the rounds of each forest for ``chunks`` chunks of all roots; for the rest see `tree_rounds`."""
    result = []
    for each in forests:
        length = chunks / sum(tree.count for tree in each.trees)
        of_roots = {tree.root: round(tree.all * length) for tree in each.trees}
        result.append(tree_rounds(each.trees, each.links, of_roots, pace, shortest))
    return result


def forest_schedule(layout: Layout, rounds: list[TreeRounds]) -> Schedule:
    """Return the verified schedule of ``layout`` in the rounds that `forest_rounds` gives for its chunks."""
    todo = task(layout)
    writer = ScheduleWriter(todo)
    if todo.sums is not None:
        writer.sums(Solution(rounds[0].moves(_of_roots(todo.sums)), "trees").reversed().moves)
    writer.copies(() if todo.copies is None else rounds[-1].moves(_of_roots(todo.copies)))
    return writer.schedule()


def _of_roots(demand: Demand) -> dict[int, list[int]]:
    """Return the numbers of the chunks that each root has."""
    numbers = defaultdict(list)
    for number, chunk in enumerate(demand.chunks):
        numbers[min(chunk.have)].append(number)
    return numbers


def _forest(demand: Demand, links: Links, trees: int | None, stop: Deadline, most: float) -> Forest:
    n, chunks = demand.ranks, Counter(min(chunk.have) for chunk in demand.chunks)
    if any(len(chunk.have) != 1 or len(chunk.need) != n - 1 for chunk in demand.chunks):
        raise InputError("layout: chunks for some ranks; allowed: chunks from one rank to all others")
    weights = np.array([chunks[r] for r in range(n)], np.int32) // gcd(*chunks.values())
    if trees == 0:
        grown, rounds = _shallow(weights, links, stop)
        in_all = rounds / int(weights.sum())
        return Forest(grown if in_all <= most else [], in_all, links)
    if trees is None:
        division = divide(links, weights, stop.at)
        if division is None:
            raise InputError(_APART)
        tree_counts, table = weights * division.trees, division.carried
        in_all = division.rounds / int(weights.sum())
    else:
        tree_counts = weights * trees
        rounds, table = _even_division(links, tree_counts, trees, stop)
        in_all = rounds / int(tree_counts.sum())
    return Forest(_pack(table, tree_counts, stop) if in_all <= most else [], in_all, links)


def _shallow(weights: np.ndarray, links: Links, stop: Deadline) -> tuple[list[EqualTrees], Fraction]:
    """Return trees of the fewest hops, each over the links that carry least so far, and the rounds needed."""
    n, (uses, capacities) = links.ranks, links.resources()
    trees = [EqualTrees(r, int(w), 0, int(w), {r: (r, 0)}) for r, w in enumerate(weights) if w]
    load = [0] * len(capacities)
    for level, ahead, tree in product(range(n - 1), _strides(n), trees):
        stop.check()
        y = (tree.root + ahead) % n
        able = [x for x, (_, depth) in tree.reached.items() if depth == level and (x, y) in uses]
        if y not in tree.reached and able:
            x = min(able, key=lambda x: max((load[i] + tree.count) / capacities[i] for i in uses[x, y]))
            tree.reached[y] = x, level + 1
            for i in uses[x, y]:
                load[i] += tree.count
    if any(len(tree.reached) < n for tree in trees):
        raise InputError(_APART)
    return trees, max(map(Fraction, load, capacities), default=Fraction(0))


def _even_division(
    links: Links, tree_counts: np.ndarray, trees: int, stop: Deadline
) -> tuple[Fraction, np.ndarray]:
    """Divide links among pairs of ranks in turn; return the rounds needed, and the trees of each pair.

    The rounds are the fewest in which the pairs carry ``tree_counts[r]`` spanning trees from each root r. The
    table has how many trees rank a sends to rank b: shape (ranks, ranks).
    """
    n = links.ranks
    routes = {e: [i for i, (group, _) in enumerate(links.groups) if e in group] for e in links.usable}
    capacities = {*links.capacity.values(), *(most for _, most in links.groups)} - {0} or {1}

    def carries(rounds: Fraction) -> bool:  # a flow from all roots reaches every rank (Edmonds 1973)
        stop.check()
        table = _divide(rounds, links, routes, tree_counts.sum())
        graph = csr_array(np.pad(np.vstack((table, tree_counts)), ((0, 0), (0, 1))))
        direct = bool((table + np.diag(tree_counts) >= tree_counts[:, None]).all())
        return direct or all(maximum_flow(graph, n, v).flow_value >= tree_counts.sum() for v in range(n))

    high = next((r for i in range(64) if carries(r := Fraction(trees << i, max(capacities)))), None)
    if high is None:
        raise InputError(_APART)
    steps = (Fraction(i, c) for c in capacities if high * c < 1e5 for i in range(int(high * c) + 1))
    tried = sorted({high, *steps})
    rounds = tried[bisect_left(tried, True, key=carries)]
    return rounds, _divide(rounds, links, routes, tree_counts.sum())


def _strides(ranks: int) -> list[int]:
    """Return all distances between rank numbers, in the order in which pairs of ranks get links.

    First those with the largest common divisor with ``ranks``: to the same local rank of other nodes.
    """
    return sorted(range(1, ranks), key=lambda ahead: (-gcd(ahead, ranks), ahead))


def _divide(rounds: Fraction, links: Links, routes: dict[Edge, list[int]], most: int) -> np.ndarray:
    """Return how many trees each pair of ranks carries if links work for ``rounds``: shape (ranks, ranks).

    Pairs get one tree after another in turn, each up to ``most``, while their links have capacity left.
    ``routes``: from each pair to the groups of links that it uses.
    """
    n, up, down = links.ranks, *rounds.as_integer_ratio()
    sent, left = np.zeros((n, n), np.int32), [chunks * up // down for _, chunks in links.groups]
    able = [(r, (r + ahead) % n) for ahead in _strides(n) for r in range(n)]

    def has_space(e: Edge) -> bool:
        return sent[e] < min(links.capacity.get(e, 0) * up // down, most) and all(left[i] for i in routes[e])

    while able := [e for e in able if has_space(e)]:
        for e in filter(has_space, able):
            sent[e] += 1
            for i in routes[e]:
                left[i] -= 1
    return sent


def _pack(carried: np.ndarray, wanted: np.ndarray, stop: Deadline) -> list[EqualTrees]:
    """Divide the trees that pairs of ranks carry into spanning trees, ``wanted[r]`` from each root r.

    ``carried``: how many trees each pair carries. Trees grow by depth (Bérczi & Frank 2010).
    """
    n, left = len(carried), carried.copy()
    trees = [EqualTrees(r, int(wanted[r]), 0, int(wanted[r]), {r: (r, 0)}) for r in range(n) if wanted[r]]
    direct = (carried + np.diag(wanted) >= wanted[:, None]).all()
    for level, part in product(range(n - 1), (1.0,) if direct or wanted.max() == 1 else (_OF_PAIR, 1.0)):
        if min(len(tree.reached) for tree in trees) == n:
            break
        # If pairs serve edges of several depths, all links are busy from the first round to the last.
        quota = np.minimum(left, np.maximum(np.ceil(left * part), _OF_ROOT * wanted.max()).astype(np.int64))
        for ahead, tree in ((ahead, tree) for ahead in _strides(n) for tree in trees):  # trees are added
            for x in [rank for rank, (_, depth) in tree.reached.items() if depth == level]:
                y = (x + ahead) % n
                able = 0 if y in tree.reached else min(int(quota[x, y]), tree.count)
                if able and not direct:
                    stop.check()
                    able = min(able, _spare(left, trees, tree, x, y))
                if able > 0:
                    if able < tree.count:
                        rest = replace(tree, first=tree.first + able, count=tree.count - able)
                        trees.append(replace(rest, reached=dict(tree.reached)))
                    tree.count, tree.reached[y] = able, (x, level + 1)
                    left[x, y] -= able
                    quota[x, y] -= able
    return trees


def _spare(left: np.ndarray, trees: list[EqualTrees], tree: EqualTrees, x: int, y: int) -> int:
    """Return how many trees of the group ``tree`` may use the edge x → y so that all others can be completed.

    ``left``: how many more trees each pair carries. Each other tree is a node, fed by x and linked to the
    ranks that it reaches: the result is the flow from x to y minus the number of other trees (Edmonds'
    condition for every set of ranks with y and without x).
    """
    n = len(left)
    others = [each for each in trees if each is not tree and len(each.reached) < n]
    table = np.pad(left, (0, len(others)))
    for i, other in enumerate(others, n):
        table[x, i] = other.count
        table[i, list(other.reached)] = 2**30  # no limit
    return int(maximum_flow(csr_array(table), x, y).flow_value) - sum(each.count for each in others)
