"""Every state is brought back as it was, in the fewest steps, for any number stored and any first step."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavefabric.runtime.device import get_device
from wavefabric.runtime.lifecycle.reversal import Reversal, StateStore, Tiers, advances
from wavefabric.runtime.lifecycle.state_copies import StateCopies

CPU = get_device("cpu", threads=1)


class Counter:
    """State k is told by its arrays, of two shapes and types; a step checks what it starts from."""

    def __init__(self):
        self._arrays = {"p": np.zeros((2, 3), np.float32), "u": np.zeros(5, complex)}
        self.begun = False

    def arrays(self):
        return self._arrays

    def _make(self, step):
        self._arrays["p"][...] = 3 * step + np.arange(6).reshape(2, 3)
        self._arrays["u"][...] = 1j * step**2

    def holds(self, step, arrays=None):
        p, u = ((arrays or self._arrays)[name] for name in ("p", "u"))
        return bool(np.all(p == 3 * step + np.arange(6).reshape(2, 3)) and np.all(u == 1j * step**2))

    def begin(self):
        self.begun = True
        self._make(0)

    def restored(self, step):
        assert self.holds(step)

    def advance(self, step):
        assert self.holds(step)
        self._make(step + 1)

    def spoil(self):
        for array in self._arrays.values():
            array[...] = -1


def reverse(steps, states, at=0, store_start=False, wanted=None):
    """States of a run in reverse, all if not told: the steps taken, the forward run's too, and the system."""
    system = Counter()
    with StateStore(CPU, system.arrays(), Tiers(states)) as store:
        system._make(at)
        reversal = Reversal(system, steps, store, at, store_start)
        if at:
            reversal.after(at)
        for step in range(at, steps):
            system.advance(step)
            reversal.after(step + 1)
        for step in reversed(range(steps) if wanted is None else sorted(wanted)):
            system.spoil()
            peeked = reversal.peek(step)
            assert peeked is None or system.holds(step, StateCopies(CPU, system.arrays()).parts(peeked))
            reversal.restore(step)
            assert system.holds(step)
    return steps - at + reversal.advanced, system


@pytest.mark.slow
@given(st.integers(0, 60), st.integers(1, 12), st.booleans())
def test_fewest_steps(steps, states, store_start):
    taken, system = reverse(steps, states - (not store_start), store_start=store_start)
    assert taken == advances(steps, states)
    assert not (store_start and system.begun)


def least_resumed(steps, at, states):
    """Steps of a run that begins at ``at``: over all first states that it can store, and none."""
    totals = [steps - at + advances(steps - 1, states + 1)]
    for m in range(max(at, 1), steps if states else 0):
        totals.append(m - at + advances(steps - m, states) + advances(m - 1, states + 1))
    return min(totals)


@pytest.mark.slow
@given(st.integers(1, 60), st.integers(0, 8), st.data())
def test_fewest_steps_of_a_resumed_run(steps, states, data):
    at = data.draw(st.integers(0, steps))
    assert reverse(steps, states, at)[0] == least_resumed(steps, at, states)


@given(st.integers(1, 40), st.integers(0, 6), st.data())
def test_states_may_be_left_out(steps, states, data):
    reverse(steps, states, wanted=data.draw(st.sets(st.integers(0, steps))))


def test_refused():
    with StateStore(CPU, Counter().arrays(), Tiers(1)) as store:
        reversal = Reversal(Counter(), 5, store)
        reversal.restore(3)
        for step in (4, -1):
            with pytest.raises(ValueError, match=r"allowed: 0 to 3"):
                reversal.restore(step)
        with pytest.raises(ValueError, match="state 0 cannot be stored"):
            Reversal(Counter(), 5, store, at=1, store_start=True)
