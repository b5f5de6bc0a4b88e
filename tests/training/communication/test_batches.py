"""Which calls go together: sets of disjoint GPUs, blocking calls first."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavefabric.errors import InputError
from wavefabric.training.calls import Call
from wavefabric.training.communication.batches import POLICIES, held, maximal_independent_sets, next_batch

GROUPS = st.lists(st.integers(0, 9), min_size=1, max_size=5, unique=True)
CALLS = st.lists(
    st.builds(
        lambda group, purpose: Call("all-reduce", (tuple(group),), 8.0, purpose),
        GROUPS,
        st.sampled_from(["gradients", "layer-to-layer", "tensor", "parameters"]),
    ),
    max_size=8,
)


def disjoint(calls):
    return all(a.gpus.isdisjoint(b.gpus) for a, b in combinations(calls, 2))


@given(CALLS)
def test_sets_are_independent_maximal_and_cover_all_calls(calls):
    sets = maximal_independent_sets(calls)
    assert sorted(number for some in sets for number in some) == list(range(len(calls)))
    for place, some in enumerate(sets):
        assert disjoint([calls[number] for number in some])
        for later in (number for others in sets[place + 1 :] for number in others):
            assert not all(calls[later].gpus.isdisjoint(calls[number].gpus) for number in some)


@given(CALLS, st.sampled_from(["batched", "boundaries"]))
def test_a_batch_is_a_maximal_set_of_the_blocking_calls_or_of_all(calls, policy):
    chosen = next_batch(calls, policy)
    urgent = [number for number, call in enumerate(calls) if call.blocking]
    among = urgent or list(range(len(calls)))
    assert set(chosen) <= set(among)
    assert bool(chosen) == bool(calls)
    assert disjoint([calls[number] for number in chosen])
    for other in set(among) - set(chosen):
        assert not disjoint([calls[number] for number in (*chosen, other)])
    assert (
        chosen == [among[n] for n in maximal_independent_sets([calls[n] for n in among])[0]]
        if calls
        else True
    )


def test_one_at_a_time():
    slow, urgent = (Call("all-reduce", ((0, 1),), 8.0, purpose) for purpose in ("gradients", "tensor"))
    apart = Call("all-reduce", ((2, 3),), 8.0, "gradients")
    ready = [slow, apart, urgent]
    assert next_batch(ready, "in-order") == [0]
    assert next_batch(ready, "end") == [2]
    assert next_batch([slow, apart], "end") == [0]
    assert next_batch([slow, apart], "batched") == [0, 1]
    assert next_batch(ready, "batched") == [2]


@pytest.mark.parametrize(
    ("policy", "boundary", "end", "wanted"),
    [
        ("batched", False, False, False),
        ("in-order", False, False, False),
        ("boundaries", False, False, True),
        ("boundaries", True, False, False),
        ("boundaries", False, True, False),
        ("end", True, False, True),
        ("end", False, True, False),
    ],
)
def test_which_calls_are_held_back(policy, boundary, end, wanted):
    gradients = Call("all-reduce", ((0, 1),), 8.0, "gradients")
    assert held(gradients, policy, boundary=boundary, end=end) is wanted
    layer = Call("messages", ((0, 1),), 8.0, "layer-to-layer", ((0, 1, 1.0),))
    assert not held(layer, policy, boundary=boundary, end=end)


@pytest.mark.parametrize("policy", POLICIES)
def test_nothing_ready_is_no_batch(policy):
    assert next_batch([], policy) == []


def test_unknown_policies_are_refused():
    with pytest.raises(InputError, match='policy: "fifo" given; allowed: batched, boundaries, end, in-order'):
        next_batch([], "fifo")
