"""Division of links among pairs, against brute force over cuts, and what published machines carry."""

from itertools import chain, combinations, permutations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from wavefabric.collectives import layout
from wavefabric.collectives.synthesis import Links
from wavefabric.collectives.synthesis.deadline import OutOfTime
from wavefabric.collectives.synthesis.division import divide
from wavefabric.collectives.synthesis.forest import forests
from wavefabric.fabric import load
from wavefabric.fabric.electrical.synthesis_problem import routed_links

#: Topologies as ForestColl (arXiv:2402.06787) and TE-CCL (arXiv:2305.13479) describe them.
DATA = Path(__file__).parents[2] / "data" / "fabric"


def star(ports):
    """GPUs on a switch; each port carries so many chunks per round in each direction."""
    pairs = list(permutations(range(len(ports)), 2))
    groups = [(frozenset(e for e in pairs if e[end] == r), n) for r, n in enumerate(ports) for end in (0, 1)]
    return Links(len(ports), dict.fromkeys(pairs, max(ports)), tuple(groups))


def sets_of(ranks):
    return chain(*(combinations(range(ranks), size) for size in range(1, ranks)))


def check(links, weights, division):
    """The trees fit the links in the time stated, and flows to all ranks show that they exist."""
    n, carried = links.ranks, division.carried
    uses = [(carried[a, b], chunks) for (a, b), chunks in links.capacity.items()]
    uses += [(sum(carried[e] for e in group), chunks) for group, chunks in links.groups]
    assert all(used <= division.rounds * division.trees * chunks for used, chunks in uses)
    assert carried[tuple(np.array(sorted(set(np.ndindex(n, n)) - {*links.usable})).T)].sum() == 0
    supply = np.append(weights * division.trees, 0)
    graph = csr_array(np.vstack((np.pad(carried, ((0, 0), (0, 1))), supply)).astype(np.int32))
    assert all(maximum_flow(graph, n, rank).flow_value == supply.sum() for rank in range(n))
    assert float(division.rounds) >= division.least * (1 - 1e-6)


@pytest.mark.slow
@settings(max_examples=40)
@given(ports=st.lists(st.integers(1, 6), min_size=2, max_size=5), data=st.data())
def test_on_a_switch_the_time_is_that_of_the_tightest_cut(ports, data):
    n = len(ports)
    weights = np.array(data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n).filter(any)))
    division = divide(star(ports), weights)
    assert division is not None
    # Out of a set go the bytes that its ports send, or that the ports of the others receive.
    out = {s: sum(ports[rank] for rank in s) for s in sets_of(n)}
    times = (sum(weights[list(s)]) / min(rate, sum(ports) - rate) for s, rate in out.items())
    assert division.least == pytest.approx(max(times), rel=1e-6)
    check(star(ports), weights, division)


@pytest.mark.slow
@settings(max_examples=40)
@given(data=st.data(), ranks=st.integers(2, 5))
def test_of_any_links_no_set_sends_more_than_it_can(data, ranks):
    rates = st.integers(0, 4)
    links = Links(ranks, {pair: data.draw(rates) for pair in permutations(range(ranks), 2)})
    weights = np.ones(ranks, int)
    division = divide(links, weights)
    out = {s: sum(n for (a, b), n in links.capacity.items() if a in s and b not in s) for s in sets_of(ranks)}
    if 0 in out.values():
        assert division is None
        return
    assert division is not None
    assert division.least == pytest.approx(max(len(s) / rate for s, rate in out.items()), rel=1e-6)
    check(links, weights, division)


@pytest.mark.parametrize(
    ("name", "trees", "gigabytes"),
    [
        ("a100x1", 1, 8 * 300 / 7),  # ForestColl, arXiv:2402.06787: a GPU receives 7/8 of the array
        ("a100x2", 13, 16 * 325 / 15),  # NVLink and adapter together
        ("ndv2x2", 1, 25),  # one link of 12.5 GB/s into each chassis carries the half of the other one
    ],
)
def test_published_machines(name, trees, gigabytes):
    fabric = load(DATA / f"{name}.toml")
    division = divide(routed_links(fabric, 1.0), np.ones(fabric.ranks, int))
    assert division is not None
    assert division.trees == trees
    assert fabric.ranks / float(division.rounds) == pytest.approx(gigabytes * 1e9, rel=1e-6)
    assert division.least == pytest.approx(float(division.rounds), rel=1e-6)


@pytest.mark.slow
@settings(max_examples=20)
@given(ports=st.lists(st.integers(1, 5), min_size=3, max_size=5))
def test_trees_grow_on_every_division(ports):
    n, links = len(ports), star(ports)
    best, even = (forests(layout("all-gather", n, n), links, trees)[0] for trees in (None, 1))
    assert all(set(tree.reached) == set(range(n)) for tree in best.trees)
    assert best.rounds <= even.rounds * (1 + 1e-9)


def test_time_that_is_over():
    with pytest.raises(OutOfTime):
        divide(star((1, 2, 3)), np.ones(3, int), until=0.0)
