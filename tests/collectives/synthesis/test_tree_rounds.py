"""Rounds of trees: limits of links, order of data, and times against closed forms."""

from collections import Counter, defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wavefabric.collectives import layout
from wavefabric.collectives.synthesis import Links
from wavefabric.collectives.synthesis.forest import forest_rounds, forests
from wavefabric.collectives.synthesis.tree_rounds import EqualTrees, tree_rounds

CHAIN = EqualTrees(0, 1, 0, 1, {0: (0, 0), 1: (0, 1), 2: (1, 2), 3: (2, 3)})


def chain(*capacities):
    return Links(4, dict(zip([(0, 1), (1, 2), (2, 3)], capacities, strict=True)))


@pytest.mark.parametrize("pieces", [1, 5, 20])
def test_a_chain_takes_pieces_and_depth_minus_one_rounds(pieces):
    rounds = tree_rounds([CHAIN], chain(1, 1, 1), {0: pieces}, pace=pieces)
    assert rounds.seconds == [1.0] * (pieces + 2)


def test_all_data_go_on_at_once_at_pace_one():
    assert tree_rounds([CHAIN], chain(2, 2, 2), {0: 12}, pace=1).seconds == [6.0] * 3


def test_a_chain_gains_nothing_from_short_rounds():
    """A round lasts as long as the most that any link sends: the largest piece counts depth − 1 times."""
    even, short = (sum(tree_rounds([CHAIN], chain(1, 1, 1), {0: 160}, 10, p).seconds) for p in (1, 1 / 16))
    assert even == 12 * 16
    assert short >= even


def test_links_that_serve_all_depths_are_hardly_ever_idle():
    """On a ring each link serves edges of all depths; a pipeline of 14 pieces would take 20 rounds of 7."""
    ring = Links(8, {(r, (r + 1) % 8): 1 for r in range(8)})
    trees = [
        EqualTrees(r, 1, 0, 1, {(r + d) % 8: ((r + max(0, d - 1)) % 8, d) for d in range(8)})
        for r in range(8)
    ]
    rounds = tree_rounds(trees, ring, dict.fromkeys(range(8), 14), pace=14)
    assert 7 * 14 <= sum(rounds.seconds) <= 7 * 14 * 1.02


@settings(max_examples=30)
@given(
    capacities=st.lists(st.integers(1, 4), min_size=6, max_size=6),
    hub=st.integers(1, 6),
    length=st.integers(1, 6),
    pace=st.floats(1, 12),
    part=st.sampled_from([1.0, 1 / 16]),
)
def test_drawn_links_carry_what_they_can_and_data_that_are_there(capacities, hub, length, pace, part):
    pairs = [(a, b) for a in range(3) for b in range(3) if a != b]
    links = Links(3, dict(zip(pairs, capacities, strict=True)), ((frozenset(pairs[:4]), hub),))
    (forest,) = forests(layout("all-gather", 3, 3), links, 1)
    (rounds,) = forest_rounds([forest], 3 * length, pace, part)
    moves = rounds.moves({root: [(root, i) for i in range(length)] for root in range(3)})
    assert len(moves) == len({(chunk, y) for _, chunk, _, y in moves}) == 3 * 2 * length
    there, used = {(chunk, chunk[0]): -1 for _, chunk, _, _ in moves}, defaultdict(Counter)
    for r, chunk, x, y in moves:
        assert there[chunk, x] < r
        there[chunk, y] = r
        used[r][x, y] += 1
    groups = [({pair}, most) for pair, most in links.capacity.items()] + list(links.groups)
    busy = [max(sum(used[r][pair] for pair in group) / most for group, most in groups) for r in sorted(used)]
    assert rounds.seconds == pytest.approx(busy)
