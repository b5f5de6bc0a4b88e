"""All-to-alls over electrical links: bounds by links and cuts, and schedules that meet them."""

from itertools import product
from math import prod

import pytest
import synthesis_cases as cases
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from synthesis_cases import both_directions, check_links, fewest_steps

from wavefabric.collectives import layout
from wavefabric.collectives.synthesis import Links, least_steps, link_search
from wavefabric.collectives.synthesis.bounds import link_bound, link_bounds, nearer_sets
from wavefabric.collectives.synthesis.deadline import Deadline
from wavefabric.collectives.synthesis.demand import ChunkDemand, Demand, distances, task
from wavefabric.collectives.synthesis.known_links import farthest_first, open_shop


def grid(sizes, around):
    """Ranks row by row on a grid, joined to their neighbours, at the ends too if `around`."""
    number = {at: n for n, at in enumerate(product(*map(range, sizes)))}
    pairs = {}
    for at, n in number.items():
        for axis, size in enumerate(sizes):
            if at[axis] + 1 < size or (around and size > 2):
                to = (*at[:axis], (at[axis] + 1) % size, *at[axis + 1 :])
                pairs[n, number[to]] = 1
    return Links(len(number), both_directions(pairs))


def all_to_all(ranks, pieces=1):
    return layout("all-to-all", ranks, ranks * pieces, pieces)


# N k/8 for a torus of N ranks whose longest side is k, an even one; N (k² - 1)/(8 k) for odd k; N/2 for
# k = 2, where a side has one link (Edelman 1991). A mesh of even side k: N k/4 by the cut through its middle.
KNOWN = [
    (grid((4, 4), True), 8),
    (grid((2, 4), True), 4),
    (grid((4, 8), True), 32),
    (grid((3, 3), True), 3),
    (grid((3, 5), True), 9),
    (grid((3, 3, 3), True), 9),
    (cases.hypercube(3), 4),
    (cases.hypercube(4), 8),
    (cases.hypercube(5), 16),
    (cases.ring(4), 2),
    (cases.ring(5), 3),
    (cases.ring(8), 8),
    (cases.ring(16), 32),
    (grid((2, 4), False), 8),
    (grid((4, 8), False), 64),
    (grid((3, 3), False), 6),
    (cases.line(4), 4),
    (cases.everybody(6), 1),
]


@pytest.mark.parametrize(("links", "steps"), KNOWN)
def test_least_steps_without_a_solver(links, steps, monkeypatch):
    monkeypatch.setattr(link_search, "decide", None)
    result = least_steps(all_to_all(links.ranks), links)
    assert (result.rounds, result.lower_bound, result.optimal) == (steps, steps, True)
    check_links(result, links)


def test_wide_links():
    wide = Links(16, dict.fromkeys(grid((4, 4), True).capacity, 2))
    result = least_steps(all_to_all(16), wide)
    assert (result.rounds, result.optimal) == (4, True)
    check_links(result, wide)


@settings(max_examples=25)
@given(st.lists(st.integers(2, 5), min_size=1, max_size=4), st.integers(1, 2))
def test_tori_are_open_shops(sizes, pieces):
    assume(prod(sizes) <= 24)
    links = grid(sizes, True)
    demand = task(all_to_all(links.ranks, pieces)).copies
    moves = open_shop(demand, links, Deadline())
    steps = 1 + max(m[0] for m in moves)
    assert_delivered(demand, links, moves)
    lower = max(b[0] for b in link_bounds(demand, links, float("inf")))
    assert lower <= steps
    # Halfway round an even ring there are two ways; they are shared evenly if chunks are even in number.
    odd = [size for size in sizes if size == 4 and (links.ranks // size * pieces) % 2]
    assert steps == lower or odd


def assert_delivered(demand, links, moves):
    """Every chunk reaches what needs it over links that carry what they can, once received."""
    at = [{rank: -1 for rank in chunk.have} for chunk in demand.chunks]
    used = {}
    for step, chunk, s, d in moves:
        assert at[chunk][s] < step
        at[chunk].setdefault(d, step)
        used[step, s, d] = used.get((step, s, d), 0) + 1
    assert all(n <= links.capacity[s, d] for (_, s, d), n in used.items())
    assert all(chunk.need <= set(has) for chunk, has in zip(demand.chunks, at, strict=True))


@st.composite
def any_links(draw, ranks):
    pairs = [(a, b) for a in range(ranks) for b in range(ranks) if a != b]
    ring = {(r, (r + 1) % ranks): draw(st.integers(1, 2)) for r in range(ranks)}
    more = draw(st.dictionaries(st.sampled_from(pairs), st.integers(0, 2), max_size=5))
    groups = ()
    if draw(st.booleans()):
        groups = ((frozenset(draw(st.sets(st.sampled_from(sorted(ring)), min_size=1))), 1),)
    return Links(ranks, more | ring, groups)


@settings(max_examples=60)
@given(st.data(), st.integers(2, 6), st.integers(0, 5))
def test_farthest_first_on_any_links(data, ranks, seed):
    links = data.draw(any_links(ranks))
    demand = task(all_to_all(ranks)).copies
    moves = farthest_first(demand, links, seed, Deadline())
    assert_delivered(demand, links, moves)
    assert max(b[0] for b in link_bounds(demand, links, float("inf"))) <= 1 + max(m[0] for m in moves)


@settings(max_examples=60)
@given(st.data())
def test_bounds_against_trying_everything(data):
    links = data.draw(any_links(3))
    chunks = []
    for _ in range(data.draw(st.integers(1, 3))):
        have = data.draw(st.sets(st.integers(0, 2), min_size=1, max_size=2))
        chunks.append(ChunkDemand(frozenset(have), frozenset(data.draw(st.sets(st.integers(0, 2)))) - have))
    demand = Demand(3, tuple(chunks))
    least = fewest_steps(links, [c.have for c in chunks], [c.need for c in chunks], 6)
    lower = max(b[0] for b in link_bounds(demand, links, float("inf")))
    assert least is None or lower <= least


def test_what_links_carry():
    links = cases.line(3)
    hops = distances(3, links.capacity)
    # 8 uses (two chunks of two links), four links.
    assert link_bound(task(all_to_all(3)).copies, links, hops)[0] == 2
    # One chunk for rank 2 alone takes two links, but so does one for ranks 1 and 2.
    for need in ({2}, {1, 2}):
        demand = Demand(3, (ChunkDemand(frozenset({0}), frozenset(need)),) * 3)
        assert link_bound(demand, Links(3, {(0, 1): 1, (1, 2): 1}), hops)[0] == 3
    # Edge 0 - 1 parts rank 0 from the others, edge 1 - 2 rank 2.
    assert nearer_sets(hops, links.capacity) == [0b001, 0b011, 0b100, 0b110]
