"""Messages in rounds: never more lasers than there are, and few rounds."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wavefabric.base.errors import InputError
from wavefabric.collectives import greedy, point_to_point, verify

RANK = st.integers(0, 5)


@settings(max_examples=60)
@given(
    messages=st.lists(st.tuples(RANK, RANK, st.integers(0, 3)), max_size=40),
    lasers=st.integers(1, 4),
    seed=st.integers(0, 9),
)
def test_lasers_of_both_ends_are_enough(messages, lasers, seed):
    schedule = greedy(6, messages, lasers, seed)
    verify(schedule)
    inputs, t = point_to_point("p", 6, messages), schedule.transfers
    assert (schedule.pre, schedule.post) == (inputs.pre, inputs.post)
    assert t.size == inputs.transfers.size
    degree = 0
    for end in ("src", "dst"):
        remote = t[t["src"] != t["dst"]]
        assert max(Counter(remote[["round", end]].tolist()).values(), default=0) <= lasers
        degree = max([degree, *Counter(remote[end].tolist()).values()])
    rounds = schedule.communication_rounds
    assert -(-degree // lasers) <= rounds <= (2 * ((degree - 1) // lasers) + 1 if degree else 0)
    # No message could go earlier: at one end or the other all lasers are taken.
    for row in remote:
        for earlier in range(row["round"]):
            here = remote[remote["round"] == earlier]
            busy = [(here[end] == row[end]).sum() for end in ("src", "dst")]
            assert max(busy) == lasers


def test_the_paper_overloads_sources_and_this_does_not():
    """One source and six destinations: the printed algorithm would send to all at once."""
    schedule = greedy(7, [(0, d, 1) for d in range(1, 7)], lasers=2)
    assert schedule.rounds == 3


def test_enough_lasers_need_one_round():
    everybody = [(s, d, 4) for s in range(9) for d in range(9) if s != d]
    assert greedy(9, everybody, lasers=8).rounds == 1
    assert greedy(9, everybody, lasers=4).rounds >= 2


def test_the_seed_decides():
    messages = [(s, d, 1) for s in range(12) for d in range(12) if s != d]
    orders = [greedy(12, messages, 3, seed).transfers for seed in (1, 1, 2)]
    assert np.array_equal(orders[0], orders[1])
    assert not np.array_equal(orders[0], orders[2])


REFUSED = {
    "lasers: 0; allowed: whole numbers from 1": (2, [], 0),
    "seed: -1; allowed: whole numbers from 0": (2, [], 1, -1),
    "messages[0] dst: 2; allowed: whole numbers from 0 to 1": (2, [(0, 2, 1)], 1),
}


@pytest.mark.parametrize("text", REFUSED)
def test_bad_arguments_are_refused(text):
    with pytest.raises(InputError) as error:
        greedy(*REFUSED[text])
    assert str(error.value) == text
