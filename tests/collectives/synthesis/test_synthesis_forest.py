"""Spanning trees over shared links, against brute force, cuts, and what ForestColl publishes."""

from collections import Counter
from fractions import Fraction
from itertools import chain, permutations, product

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from wavefabric.base.errors import InputError
from wavefabric.collectives import kind, layout
from wavefabric.collectives.synthesis import Links
from wavefabric.collectives.synthesis.deadline import OutOfTime
from wavefabric.collectives.synthesis.forest import forest_rounds, forest_schedule, forests
from wavefabric.fabric import Fabric, cost, load
from wavefabric.fabric.bounds.cuts import bottleneck
from wavefabric.fabric.electrical.fabric import Link
from wavefabric.fabric.electrical.static_routes import resource_use
from wavefabric.fabric.electrical.synthesis_problem import routed_links


def all_gather(ranks, pieces=1):
    return layout("all-gather", ranks, ranks * pieces, pieces)


def star(*ports):
    """GPUs on a switch, by links that carry so many chunks."""
    pairs = list(permutations(range(len(ports)), 2))
    groups = [(frozenset(e for e in pairs if e[end] == r), n) for r, n in enumerate(ports) for end in (0, 1)]
    return Links(len(ports), dict.fromkeys(pairs, max(ports)), tuple(groups))


@pytest.mark.parametrize(
    ("name", "trees", "rate"),
    [
        ("dgx-a100", 1, 342.857e9),  # ForestColl, arXiv:2402.06787
        ("dgx-2", 1, 160e9),
        ("p2.8xlarge", 1, 18e9),
        ("nodes:2x8", 2, 500e9 * 16 / 15),  # NVLinks and adapters together
    ],
)
def test_throughput_of_machines(name, trees, rate):
    fabric = load(name)
    (forest,) = forests(all_gather(fabric.ranks), routed_links(fabric, 1.0), trees)
    rounds = forest.rounds
    assert 1 / rounds == pytest.approx(rate, rel=1e-5)
    cut = bottleneck(fabric)
    assert float(rounds) * fabric.ranks == pytest.approx(len(cut.gpus) / cut.capacity)


def test_broadcast_is_scattered_where_there_are_trees_enough():
    (forest,) = forests(layout("broadcast", 4, 4), star(1, 1, 1, 1), 3)
    depths = [depth for tree in forest.trees for _, depth in tree.reached.values()]
    assert (forest.rounds, max(depths)) == (1, 2)


def spanning_trees(root):
    """All of three ranks, as edges."""
    a, b = {0, 1, 2} - {root}
    return [[(root, a), (root, b)], [(root, a), (a, b)], [(root, b), (b, a)]]


_PORT = st.integers(1, 6)
_TINY = st.one_of(
    st.tuples(_PORT, _PORT, _PORT).map(lambda ports: star(*ports)),
    st.tuples(*[_PORT] * 6).map(lambda n: Links(3, dict(zip(permutations(range(3), 2), n, strict=True)))),
)


@settings(max_examples=30)
@given(links=_TINY)
def test_no_trees_of_three_ranks_are_faster(links):
    (forest,) = forests(all_gather(3), links, 1)
    groups = [({e}, n) for e, n in links.capacity.items()] + list(links.groups)
    choices = (Counter(chain(*trees)) for trees in product(*map(spanning_trees, range(3))))
    times = (max(Fraction(sum(uses[e] for e in group), n) for group, n in groups) for uses in choices)
    assert 3 * forest.rounds == min(times)


@st.composite
def machines(draw):
    """GPUs on one switch, or on switches below another."""
    rate, rates, gpus = st.sampled_from([4, 8, 16, 32]), {}, []
    for i in range(draw(st.integers(1, 3))):
        rates[f"leaf{i}", "top"] = draw(rate)
        for _ in range(draw(st.integers(1, 3))):
            gpus.append(f"GPU{len(gpus)}")
            rates[gpus[-1], f"leaf{i}"] = draw(rate)
    links = tuple(Link(*e, n * 1e9) for (a, b), n in rates.items() for e in ((a, b), (b, a)))
    return Fabric("drawn", tuple(gpus), ("leaf0", "leaf1", "leaf2", "top"), links, 1e-6)


@pytest.mark.slow
@settings(max_examples=20)
@given(
    fabric=machines().filter(lambda machine: machine.ranks > 1),
    collective=st.sampled_from(["all-gather", "reduce-scatter", "all-reduce", "reduce"]),
    trees=st.integers(1, 3),
    length=st.integers(1, 3),
)
def test_drawn_machines(fabric, collective, trees, length):
    n = fabric.ranks
    base = n if collective == "all-reduce" else 1
    made = forests(layout(collective, n, 4 * n * base, base), routed_links(fabric, 1.0), trees)
    for forest in made:
        assert all(set(tree.reached) == set(range(n)) for tree in forest.trees)
        edges = [(x, y, tree.count) for tree in forest.trees for y, (x, d) in tree.reached.items() if d]
        # Of sums data go the other way; the machine is the same both ways.
        src, dst, count = (np.array(column) for column in zip(*edges, strict=True))
        use = resource_use(fabric, src, dst)
        busy = np.bincount(use.resource, count[use.pair], use.capacity.size) / use.capacity
        assert busy.max() / sum(tree.count for tree in forest.trees) <= float(forest.rounds) * (1 + 1e-12)
    elements = 4 * n * n * trees
    chunks = base * trees * length * (1 if collective in ("all-reduce", "reduce") else n)
    rounds = forest_rounds(made, chunks, 5.0)
    schedule = forest_schedule(layout(collective, n, elements * length, base * trees * length), rounds)
    time = cost(schedule, fabric, 1e9 / elements / length)
    assert (kind(schedule)[0], time.seconds >= time.bound.seconds * (1 - 1e-9)) == (collective, True)


@pytest.mark.slow
@settings(max_examples=20)
@given(ports=st.lists(st.integers(1, 7), min_size=6, max_size=6), pieces=st.integers(1, 4))
@example(ports=[3, 1, 4, 7, 4, 4], pieces=2)  # 2 trees of each root for sums, 7 for copies
def test_sums_and_copies_may_have_different_numbers_of_trees(ports, pieces):
    links = Links(3, dict(zip(permutations(range(3), 2), ports, strict=True)))
    made = forests(layout("all-reduce", 3, 9, 3), links, None)
    schedule = forest_schedule(layout("all-reduce", 3, 36, 3 * pieces), forest_rounds(made, 3 * pieces, 3.0))
    assert kind(schedule)[0] == "all-reduce"
    hops = forests(layout("all-reduce", 3, 9, 3), links, 0)
    assert all(depth <= 1 for each in hops for tree in each.trees for _, depth in tree.reached.values())


def test_what_trees_do_not_serve_is_refused():
    with pytest.raises(InputError, match="chunks for some ranks; allowed: chunks from one rank to all"):
        forests(layout("all-to-all", 3, 9), star(1, 1, 1), 1)
    with pytest.raises(InputError, match="links: they do not join the ranks"):
        forests(all_gather(3), Links(3, {(0, 1): 1, (1, 0): 1}), 1)
    with pytest.raises(OutOfTime):
        forests(all_gather(16), routed_links(load("nodes:2x8"), 1.0), 2, until=0.0)
