"""Translated trees: proved on every grid, spanning, and as fast as the links of a torus allow."""

from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wavefabric.collectives import kind, verify
from wavefabric.collectives.synthesis.deadline import OutOfTime
from wavefabric.collectives.synthesis.translated_trees import (
    SERVED,
    shifted,
    translated_schedule,
    translated_trees,
)


def torus(shape):
    """The steps to all neighbours on a torus, and the loads of its links: one byte takes a second."""
    steps = sorted(
        {int(sign % n * prod(shape[axis + 1 :])) for axis, n in enumerate(shape) if n > 1 for sign in (1, -1)}
    )
    return np.array(steps, np.int64), np.kron(np.eye(len(steps)), np.ones((prod(shape), 1)))


@pytest.mark.slow
@settings(max_examples=40)
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=3).filter(lambda shape: 1 < prod(shape) <= 30),
    st.sampled_from(SERVED),
    st.integers(1, 3),
    st.integers(0, 70),
)
def test_any_torus_is_proved(shape, collective, pieces, elements):
    trees = translated_trees(tuple(shape), *torus(shape))
    schedule = translated_schedule(collective, trees, elements, pieces)
    verify(schedule)
    if elements >= prod(shape) * len(trees.parent) * pieces:
        assert kind(schedule) == (collective, None)
        halves = 2 if collective == "all-reduce" else 1
        assert schedule.communication_rounds == halves * (trees.depth + pieces - 1)


@pytest.mark.parametrize("shape", [(8,), (4, 4), (3, 4, 5), (2, 2, 2, 2), (3, 3)])
def test_links_of_a_torus_are_used_evenly(shape):
    steps, loads = torus(shape)
    trees = translated_trees(shape, steps, loads)
    ranks = prod(shape)
    assert trees.seconds == pytest.approx((ranks - 1) / len(steps), rel=0.006)
    for parent in trees.parent:
        # Each tree reaches every rank by the steps, from a rank that is one level closer.
        assert (trees.level[parent[1:]] == trees.level[1:] - 1).all()
        assert all(y in shifted(x, steps, shape) for y, x in enumerate(parent[1:], 1))


@pytest.mark.slow
def test_a_slower_axis_gets_less():
    steps, loads = torus((4, 4))
    loads = loads * np.where(steps < 4, 1.0, 3.0)  # the first axis is three times as slow
    trees = translated_trees((4, 4), steps, loads)
    # Both axes are equally busy: a quarter of the 15 steps of a tree over two links of 3 s a byte.
    assert trees.seconds == pytest.approx(15 / 4 * 3 / 2)


def test_steps_that_do_not_reach_all_ranks_make_no_trees():
    assert translated_trees((2, 2), np.array([1]), np.ones((1, 1))) is None
    assert translated_trees((4,), np.zeros(0, np.int64), np.zeros((0, 0))) is None


def test_a_deadline_ends_the_search():
    with pytest.raises(OutOfTime):
        translated_trees((4, 4, 4), *torus((4, 4, 4)), until=0.0)
