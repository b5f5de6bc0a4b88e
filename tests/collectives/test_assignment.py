"""The search for an assignment of GPUs to ranks: all where they are few, else descents to a local minimum."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from wavefabric.collectives.assignment import all_assignments, descend, lexicographic_order


def exchanged(assignment, a, b):
    changed = assignment.copy()
    changed[[a, b]] = changed[[b, a]]
    return changed


def test_all_assignments_are_in_order_of_numbers():
    every = all_assignments(2, 3, 6)
    assert every.tolist() == [[0, 1], [0, 2], [1, 0], [1, 2], [2, 0], [2, 1]]
    assert all_assignments(2, 3, 5) is None
    assert all_assignments(40, 40, 10**6) is None


def test_the_first_of_equal_values_comes_first():
    assert lexicographic_order(np.array([[2, 0], [1, 5], [1, 4], [1, 5]])).tolist() == [2, 1, 3, 0]
    assert lexicographic_order(np.zeros((3, 0))).tolist() == [0, 1, 2]


@settings(max_examples=40)
@given(st.integers(2, 5), st.integers(0, 2**32 - 1))
def test_a_descent_ends_where_no_change_helps(ranks, seed):
    rng = np.random.default_rng(seed)
    price = rng.integers(0, 20, (ranks, ranks))

    def value(assignment):
        return int(price[np.arange(ranks), assignment].sum())

    pairs = list(itertools.combinations(range(ranks), 2))
    start = rng.permutation(ranks)
    end, least, valued = descend(start, value, exchanged, itertools.cycle(pairs), len(pairs))
    assert sorted(end) == list(range(ranks))
    assert value(end) == least <= value(start)
    assert valued > len(pairs)
    assert all(value(exchanged(end, *pair)) >= least for pair in pairs)
    every = all_assignments(ranks, ranks, 1000)
    best = every[lexicographic_order(np.array([[value(each)] for each in every]))[0]]
    assert value(best) == min(map(value, every)) <= least


def test_a_descent_values_no_more_than_it_may():
    valued = []

    def value(assignment):
        valued.append(assignment)
        return len(valued)  # nothing is ever better

    assert descend(np.arange(3), value, exchanged, itertools.cycle([(0, 1)]), 100, 7)[2] == 7
    assert len(valued) == 7
