"""Rings and trees: rounds, who talks to whom in a round, how far and how much."""

import numpy as np
import pytest
from schedule_cases import busiest, sent

from wavefabric.collectives import build, verify
from wavefabric.collectives.builders.trees import complementary_trees, depths, in_order_tree

RANKS = [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 31, 32, 33]
positions = pytest.mark.parametrize(
    "positions", [pytest.param(n, marks=[pytest.mark.slow] * (n not in RANKS)) for n in range(1, 70)]
)


def log2(n):
    """Floor."""
    return n.bit_length() - 1


def plain_children(parent):
    return {p: np.flatnonzero(parent[1:] == p) + 1 for p in range(1, parent.size)}


@positions
def test_the_tree_is_a_search_tree_of_least_depth(positions):
    parent = in_order_tree(positions)
    children = plain_children(parent)

    def walk(position, depth):
        below = children[position]
        assert len(below) <= 2
        assert depth <= log2(positions)
        left = [x for c in below if c < position for x in walk(c, depth + 1)]
        right = [x for c in below if c > position for x in walk(c, depth + 1)]
        result.append((position, depth))
        return [*left, position, *right]

    result = []
    roots = np.flatnonzero(parent[1:] == 0) + 1
    assert len(roots) == 1
    assert walk(int(roots[0]), 0) == list(range(1, positions + 1))
    assert depths(parent)[1:].tolist() == [d for _, d in sorted(result)]


@positions
def test_no_place_is_inside_both_of_two_trees(positions):
    first, second = complementary_trees(positions)
    inside = [set(parent[1:].tolist()) - {0} for parent in (first, second)]
    assert not inside[0] & inside[1]
    for parent in (first, second):
        assert max(map(len, plain_children(parent).values())) <= 2
        assert depths(parent)[1:].min() == 0
        assert depths(parent).max() == log2(positions)
        assert np.count_nonzero(parent[1:] == 0) == 1


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("pieces", [1, pytest.param(3, marks=pytest.mark.slow), 8])
def test_pipelines_take_few_rounds(ranks, pieces):
    for collective in ("broadcast", "reduce", "all-reduce"):
        both = collective == "all-reduce"
        tree = build("tree", collective, ranks, 16 * ranks, pieces=pieces)
        depth = log2(ranks) * (1 + both)
        assert tree.communication_rounds == (depth + pieces - 1 if ranks > 1 else 0)
        assert busiest(tree, "src") <= (2 if collective == "broadcast" else 1 + 2 * both)
        assert busiest(tree, "dst") <= (2 if collective == "reduce" else 1 + 2 * both)
        assert sum(sent(tree)) == (ranks - 1) * 16 * ranks * (1 + both)
        two = build("double-tree", collective, ranks, 16 * ranks, pieces=pieces)
        if ranks > 1:
            most = pieces + 2 * log2(ranks) - 1 if both else pieces + log2(ranks - 1)
            assert 2 * pieces <= two.rounds <= 2 * most
        assert len(two.buffers) == 1
        assert busiest(two, "src") <= 1 + both
        assert busiest(two, "dst") <= 1 + both
        assert sum(sent(two)) == (ranks - 1) * 16 * ranks * (1 + both)
        if not both:
            ring = build("ring", collective, ranks, 16 * ranks, pieces=pieces)
            assert ring.rounds == (ranks + pieces - 2 if ranks > 1 else 0)
            assert max(busiest(ring, "src"), busiest(ring, "dst")) <= 1


@pytest.mark.parametrize("ranks", RANKS)
def test_no_rank_of_a_double_tree_sends_more_than_the_array(ranks):
    """A rank sends one half to each of two others at most, the root one half along each tree."""
    volume = sent(build("double-tree", "broadcast", ranks, 200, pieces=2))
    assert max(volume) <= 200
    volume = sent(build("double-tree", "all-reduce", ranks, 200, pieces=2))
    assert max(volume) <= 400


def test_a_tree_sums_in_rank_order():
    """The places below one's own, then the own, then those above."""
    tree = build("tree", "reduce", 7, 7, root=3)
    assert tree.transfers[["round", "src", "dst", "src_buffer", "dst_buffer", "reduce"]].tolist() == [
        (0, 0, 1, 0, 0, True), (0, 4, 5, 0, 0, True), (0, 2, 1, 0, 1, False), (0, 6, 5, 0, 1, False),
        (1, 1, 1, 1, 0, True), (1, 5, 5, 1, 0, True),
        (2, 1, 3, 0, 0, True), (2, 5, 3, 0, 1, False),
        (3, 3, 3, 1, 0, True),
    ]  # fmt: skip


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("root", [0, -1])
def test_binomial_trees(ranks, root):
    root %= ranks
    for collective in ("broadcast", "reduce", "gather", "scatter"):
        schedule = build("binomial", collective, ranks, 3 * ranks, root=root)
        verify(schedule)
        assert schedule.rounds == (ranks - 1).bit_length()
        assert max(busiest(schedule, "src"), busiest(schedule, "dst")) <= 1
        t = schedule.transfers
        assert np.unique(t[["src", "dst"]]).size == ranks - 1
        if collective == "scatter":
            assert sent(schedule)[root] == 3 * (ranks - 1)
        if root == 0:
            assert t.size == ranks - 1


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("pieces", [1, 2, 3])
def test_rings_both_ways(ranks, pieces):
    elements = 6 * ranks
    for collective in ("all-gather", "reduce-scatter", "all-reduce"):
        both = 1 + (collective == "all-reduce")
        one_direction = build("ring", collective, ranks, elements, pieces=pieces)
        two_directions = build("bidirectional-ring", collective, ranks, elements, pieces=pieces)
        assert one_direction.communication_rounds == both * (ranks - 1)
        assert two_directions.communication_rounds == both * (ranks // 2)
        assert set((one_direction.transfers["dst"] - one_direction.transfers["src"]) % ranks) <= {1 % ranks}
        t = two_directions.transfers[two_directions.transfers["src"] != two_directions.transfers["dst"]]
        assert set((t["dst"] - t["src"]) % ranks) <= {1 % ranks, (ranks - 1) % ranks}
        for schedule in (one_direction, two_directions):
            assert sent(schedule) == [both * (elements - 6)] * ranks


def test_an_even_ring_shares_the_opposite_rank_between_both_ways():
    t = build("bidirectional-ring", "all-gather", 6, 24, pieces=2).transfers
    assert t[t["round"] == 2]["count"].tolist() == [1] * 12
