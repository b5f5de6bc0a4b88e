"""Binomial checkpointing beside dynamic programmes, and a search that knows no formula."""

import heapq
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavefabric.lifecycle.reversal.binomial import advances, capacity, repetitions, split

STEPS, STATES = 60, 12


@cache
def least(steps, states):
    """Steps from a stored state to make those ``steps`` after it, then all before them, down to itself."""
    if steps == 0:
        return 0
    again = steps + least(steps - 1, states)
    if states == 1:
        return again
    return min([again] + [m + least(steps - m, states - 1) + least(m - 1, states) for m in range(1, steps)])


@cache
def searched(steps, states):
    """Least steps of any order of loads, stores, drops and steps: Dijkstra's search over what is in memory."""
    # What is stored, the working state, the next state that is needed; state 0 is stored for good.
    start = (frozenset({0}), 0, steps)
    costs, waiting = {start: 0}, [(0, 0, start)]
    while waiting:
        cost, _, node = heapq.heappop(waiting)
        stored, working, needed = node
        if cost > costs[node]:
            continue
        if needed < 0:
            return cost
        moves = [(0, (stored, other, needed)) for other in stored]
        moves += [(0, (stored - {other}, working, needed)) for other in stored - {0}]
        if len(stored) < states:
            moves.append((0, (stored | {working}, working, needed)))
        if working == needed:
            moves.append((0, (stored, working, needed - 1)))
        if working < needed:
            moves.append((1, (stored, working + 1, needed)))
        for price, following in moves:
            if cost + price < costs.get(following, 1 << 30):
                costs[following] = cost + price
                heapq.heappush(waiting, (cost + price, len(costs), following))
    raise AssertionError("a state cannot be made")


@pytest.mark.parametrize("states", range(1, STATES + 1))
def test_fewest_steps(states):
    for steps in range(STEPS + 1):
        assert advances(steps, states) == least(steps, states), steps


@pytest.mark.parametrize(("steps", "states"), [(1, 1), (4, 1), (5, 2), (7, 2), (6, 3), (7, 4)])
def test_no_other_order_takes_fewer(steps, states):
    assert advances(steps, states) == searched(steps, states)


@pytest.mark.parametrize("states", range(2, STATES + 1))
def test_the_split_is_optimal(states):
    for steps in range(2, STEPS + 1):
        m = split(steps, states)
        assert 1 <= m <= steps
        if m < steps:
            cost = m + least(steps - m, states - 1) + least(m - 1, states)
            assert cost == least(steps, states), steps
        else:
            assert steps + least(steps - 1, states) == least(steps, states)


def test_published_numbers():
    """t of the article: 7 states of a run by 2 repetitions are C(4, 2) − … of 2 stored; see its equation (5)."""
    assert [capacity(3, r) for r in range(4)] == [1, 4, 10, 20]
    assert advances(9, 3) == 2 * 10 - 5
    assert advances(0, 1) == 0


@given(st.integers(0, 10**6), st.integers(2, 10**4))
def test_repetitions_are_the_fewest(steps, states):
    number = repetitions(steps, states)
    assert capacity(states, number) > steps
    assert number == 0 or capacity(states, number - 1) <= steps


def test_a_run_that_fits_is_taken_once():
    for steps in range(1, 30):
        assert advances(steps, steps) == steps
        assert repetitions(steps, steps) == 1


def test_something_must_be_stored():
    for function in (repetitions, advances, split):
        with pytest.raises(ValueError, match="1 or more"):
            function(3, 0)
