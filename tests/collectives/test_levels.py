"""Levels: the smallest that respect the data, whatever the order within one."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from schedule_cases import BUILDERS, SCHEDULES, Numbers, arbitrary, ends, joined

from wavefabric.collectives import ScheduleError, direct_all_reduce, levels, ring_all_reduce
from wavefabric.collectives.structure import units


def plain_levels(schedule):
    """Pair by pair."""
    chunks = [(set(), set()) for _ in schedule.transfers]
    for (read, written), t in zip(chunks, schedule.transfers, strict=True):
        for src, dst in ends(t):
            read.add(src)
            written.add(dst)
    level = []
    for i, (read, written) in enumerate(chunks):
        waits = [level[j] for j in range(i) if chunks[j][1] & (read | written) or chunks[j][0] & written]
        level.append(max(waits, default=-1) + 1)
    return level


@settings(max_examples=60)
@given(schedule=SCHEDULES, join=st.booleans())
def test_levels_are_the_smallest(schedule, join):
    schedule = joined(schedule) if join else schedule
    assert levels(schedule).tolist() == plain_levels(schedule)
    assert (levels(schedule) <= schedule.transfers["round"]).all()


@settings(max_examples=150)
@given(schedule=arbitrary(), seed=st.integers(0, 2**32 - 1))
def test_levels_of_any_transfers(schedule, seed):
    depth = levels(schedule)
    assert depth.tolist() == plain_levels(schedule)
    in_order, shuffled = Numbers(schedule, seed), Numbers(schedule, seed)
    in_order.carry_out_all(schedule.transfers)
    order = np.lexsort((np.random.default_rng(seed).random(depth.size), depth))
    shuffled.carry_out_all(schedule.transfers[order])
    for at in schedule.pre:
        assert np.array_equal(shuffled.chunk(at), in_order.chunk(at))


@settings(max_examples=60)
@given(schedule=SCHEDULES, merge=st.integers(2, 50))
def test_position_orders_conflicts_within_a_round(schedule, merge):
    transfers = schedule.transfers.copy()
    transfers["round"] //= merge
    assert levels(replace(schedule, transfers=transfers)).tolist() == plain_levels(schedule)


@pytest.mark.parametrize("builder", BUILDERS)
@settings(max_examples=25)
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_any_order_within_a_level_gives_the_same_bits(builder, data, seed):
    schedule = data.draw(BUILDERS[builder])
    schedule = joined(schedule) if data.draw(st.booleans()) else schedule
    rng = np.random.default_rng(seed)
    depth = levels(schedule)
    in_order, shuffled = Numbers(schedule, seed), Numbers(schedule, seed)
    in_order.carry_out_all(schedule.transfers)
    turn = rng.random(depth.size)[units(schedule).of]  # rows of an operation of a switch stay together
    shuffled.carry_out_all(schedule.transfers[np.lexsort((turn, depth))])
    for at in schedule.post:
        assert np.array_equal(shuffled.chunk(at), in_order.chunk(at))
        np.testing.assert_allclose(shuffled.chunk(at), shuffled.wanted(at), rtol=0, atol=1e-14)


@pytest.mark.parametrize("ranks", range(1, 10))
def test_direct_all_reduce_adds_in_rank_order(ranks):
    schedule = direct_all_reduce(ranks, 100)
    numbers = Numbers(schedule, ranks)
    numbers.carry_out_all(schedule.transfers)
    for at in schedule.post:
        assert np.array_equal(numbers.chunk(at), numbers.wanted(at))


@pytest.mark.parametrize("ranks", range(1, 10))
def test_ring_all_reduce_gives_all_ranks_the_same_bits(ranks):
    schedule = ring_all_reduce(ranks, 100)
    numbers = Numbers(schedule, ranks)
    numbers.carry_out_all(schedule.transfers)
    for rank in range(ranks):
        assert np.array_equal(numbers.buffers[rank, 0], numbers.buffers[0, 0])


def test_levels_of_256_ranks():
    schedule = ring_all_reduce(256, 1 << 20)
    assert np.array_equal(levels(schedule), schedule.transfers["round"])


def test_numbers_out_of_range_are_refused():
    schedule = ring_all_reduce(2, 4)
    schedule.transfers["dst"][1] = 2
    with pytest.raises(ScheduleError, match=r"transfers\[1\]\.dst: 2; allowed: 0 to 1"):
        levels(schedule)
