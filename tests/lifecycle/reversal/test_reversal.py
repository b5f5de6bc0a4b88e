"""Every state is brought back as it was, in the fewest steps, however many are stored and where a run begins."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavefabric.device import get_device
from wavefabric.lifecycle.reversal.binomial import advances
from wavefabric.lifecycle.reversal.reversal import Reversal
from wavefabric.lifecycle.reversal.store import StateStore, Tiers

CPU = get_device("cpu", threads=1)


class Counter:
    """State k is told by its arrays, of two shapes and types; a step checks what it starts from."""

    def __init__(self):
        self._arrays = {
            "p": np.zeros((2, 3), np.float32),
            "u": np.zeros(5, complex),
            "none": np.zeros((0, 2)),
        }
        self.log = []

    def arrays(self):
        return self._arrays

    def _make(self, step):
        self._arrays["p"][...] = 3 * step + np.arange(6).reshape(2, 3)
        self._arrays["u"][...] = 1j * step**2

    def holds(self, step, arrays=None):
        p, u = ((arrays or self._arrays)[name] for name in ("p", "u"))
        return bool(np.all(p == 3 * step + np.arange(6).reshape(2, 3)) and np.all(u == 1j * step**2))

    def begin(self):
        self.log.append("begin")
        self._make(0)

    def restored(self, step):
        self.log.append(("restored", step))
        assert self.holds(step)

    def advance(self, step):
        assert self.holds(step)
        self._make(step + 1)

    def spoil(self):
        for array in self._arrays.values():
            array[...] = -1


def reverse(steps, states, at=0, store_start=False):
    """All states of a run in reverse: the steps taken, with those of the forward run, and the system."""
    system = Counter()
    with StateStore(CPU, 104, Tiers(states)) as store:
        system._make(at)
        reversal = Reversal(system, steps, store, at, store_start)
        if at:
            reversal.after(at)
        for step in range(at, steps):
            system.advance(step)
            reversal.after(step + 1)
        for step in reversed(range(steps)):
            system.spoil()
            peeked = reversal.peek(step)
            assert peeked is None or system.holds(step, peeked)
            reversal.bring(step)
            assert system.holds(step)
    return steps - at + reversal.advanced, system


@given(st.integers(0, 120), st.integers(0, 12))
def test_fewest_steps(steps, states):
    assert reverse(steps, states)[0] == advances(steps, states + 1)


@given(st.integers(0, 120), st.integers(1, 12))
def test_fewest_steps_with_the_start_stored(steps, states):
    taken, system = reverse(steps, states, store_start=True)
    assert taken == advances(steps, states)
    assert "begin" not in system.log


@cache
def least_resumed(steps, at, states):
    """Steps of a run that begins at ``at``: over all first states that it can store."""
    again = [steps - at + (advances(steps - 1, states + 1) if steps else 0)]
    if states:
        again += [
            m - at + advances(steps - m, states) + advances(m - 1, states + 1)
            if m
            else advances(steps, states)
            for m in range(at, steps)
        ]
    return min(again)


@given(st.integers(1, 60), st.integers(0, 8), st.data())
def test_fewest_steps_of_a_resumed_run(steps, states, data):
    at = data.draw(st.integers(0, steps))
    assert reverse(steps, states, at)[0] == least_resumed(steps, at, states)


@given(st.integers(1, 40), st.integers(0, 6), st.data())
def test_states_may_be_left_out(steps, states, data):
    """Whoever needs every third state only, or has seen one by `peek`, brings fewer."""
    wanted = sorted(data.draw(st.sets(st.integers(0, steps))), reverse=True)
    system = Counter()
    with StateStore(CPU, 104, Tiers(states)) as store:
        reversal = Reversal(system, steps, store)
        system._make(0)
        for step in range(steps):
            system.advance(step)
            reversal.after(step + 1)
        for step in wanted:
            reversal.bring(step)
            assert system.holds(step)


def test_refused():
    with StateStore(CPU, 104, Tiers(1)) as store:
        reversal = Reversal(Counter(), 5, store)
        reversal.bring(3)
        for step in (4, -1):
            with pytest.raises(ValueError, match=r"allowed: 0 to 3"):
                reversal.bring(step)
        with pytest.raises(ValueError, match="state 0 cannot be stored"):
            Reversal(Counter(), 5, store, at=1, store_start=True)
