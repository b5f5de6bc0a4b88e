"""Binomial checkpointing beside dynamic programmes, and a search that knows no formula."""

import heapq
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavefabric.runtime.lifecycle.reversal import advances, capacity, next_stored_distance, repetitions

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


def searched(steps, states):
    """Least steps of any order of loads, stores, drops and steps: Dijkstra's search over memory."""
    # What is stored (state 0 for good), the working state, the next state that is needed.
    waiting, done = [(0, (0,), 0, steps)], set()
    while True:
        cost, stored, working, needed = heapq.heappop(waiting)
        if (stored, working, needed) in done:
            continue
        done.add((stored, working, needed))
        needed -= working == needed
        if needed < 0:
            return cost
        moves = [(cost + 1, stored, working + 1, needed)] if working < steps else []
        moves += [(cost, stored, other, needed) for other in stored]
        moves += [
            (cost, tuple(each for each in stored if each != other), working, needed) for other in stored[1:]
        ]
        if len(stored) < states and working not in stored:
            moves.append((cost, tuple(sorted((*stored, working))), working, needed))
        for move in moves:
            heapq.heappush(waiting, move)


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
        m = next_stored_distance(steps, states)
        assert 1 <= m <= steps
        assert m + least(steps - m, states - 1) + least(m - 1, states) == least(steps, states), steps


@given(st.integers(0, 10**6), st.integers(2, 10**4))
def test_repetitions_are_the_fewest(steps, states):
    number = repetitions(steps, states)
    assert capacity(states, number) > steps
    assert number == 0 or capacity(states, number - 1) <= steps


@pytest.mark.parametrize("function", [repetitions, advances, next_stored_distance])
def test_something_must_be_stored(function):
    with pytest.raises(ValueError, match="1 or more"):
        function(3, 0)
