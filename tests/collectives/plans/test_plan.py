"""Compiling: what is refused, what a plan holds, and slices of blocks."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_cases import CASES, VARIANTS
from plan_interpreter import slice_of

from wavefabric.base.errors import InputError
from wavefabric.collectives import ScheduleError, build
from wavefabric.collectives.plans.moves import STAGING, Move, joined, moves
from wavefabric.collectives.plans.order import Signal, Wait
from wavefabric.collectives.plans.plan import MOST_RANKS, compile_plan


@settings(max_examples=60)
@given(schedule=CASES, variant=st.sampled_from(VARIANTS))
def test_a_plan_holds_all_moves_and_counts_its_signals(schedule, variant):
    protocol, slots = variant
    plan = compile_plan(schedule, protocol, slots)
    made, staging = moves(schedule, plan.packets)
    assert plan.staging == tuple(staging)
    assert plan.slots in ({slots} if slots else {1, 2})
    assert len(plan.instructions) == schedule.ranks
    sent, most = {}, {}
    for rank, code in enumerate(plan.instructions):
        own = [m for m in joined(made) if m.rank == rank]
        assert [each for each in code if isinstance(each, Move)] == own
        for each in code:
            if isinstance(each, Signal):
                assert rank not in each.to
                for peer in each.to:
                    sent[rank, peer] = sent.get((rank, peer), 0) + 1
            elif isinstance(each, Wait):
                for peer, number in each.signals:
                    assert most.get((peer, rank), 0) < number  # none is waited for twice
                    most[peer, rank] = number
    assert plan.signals == sent
    assert all(number <= sent[pair] for pair, number in most.items())


def test_packets_in_two_slots_may_need_no_signal():
    for name in ("recursive", "recursive-exchange", "direct"):
        plan = compile_plan(build(name, "all-reduce", 4, 64), "packets")
        assert (plan.signals, plan.slots) == ({}, 2)
    # In a ring nothing comes from the rank to which one sends: it says that it has begun.
    plan = compile_plan(build("ring", "all-reduce", 4, 64), "packets")
    assert plan.signals == {(rank, (rank - 1) % 4): 1 for rank in range(4)}


def test_one_slot_where_nobody_has_to_wait_for_it():
    chosen = {
        (name, kind): compile_plan(build(name, kind, 4, 64)).slots
        for name, kind in (("ring", "all-reduce"), ("direct", "all-reduce"), ("direct", "all-gather"))
    }
    assert chosen == {("ring", "all-reduce"): 1, ("direct", "all-reduce"): 2, ("direct", "all-gather"): 1}
    with_one = compile_plan(build("direct", "all-reduce", 4, 64), slots=1)
    assert sum(with_one.signals.values()) > sum(compile_plan(with_one.schedule).signals.values())


def test_one_rank_and_nothing_to_move():
    for schedule in (build("direct", "all-reduce", 1, 8), build("ring", "all-reduce", 3, 0)):
        for protocol, slots in VARIANTS:
            plan = compile_plan(schedule, protocol, slots)
            assert not any(isinstance(each, Move) for code in plan.instructions for each in code)
            assert (plan.staging, plan.signals) == ((), {})


def test_staging_buffers_lie_where_they_are_read():
    plan = compile_plan(build("direct", "all-reduce", 3, 9), "packets")
    read = [p for code in plan.instructions for m in code if isinstance(m, Move) for p in m.sources]
    for address in (address for address in read if address.buffer == STAGING):
        staging_buffer = plan.staging[-1 - address.key]
        assert (staging_buffer.rank, staging_buffer.size, staging_buffer.first) == (
            address.rank,
            9,
            0,
        )  # in line with the numbers that it is added to


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("light",), "protocol: 'light' given; allowed: packets, signals"),
        (("signals", 0), "rooms: 0 given; allowed: 1 or 2, 2 for packets"),
        (("signals", 3), "rooms: 3 given; allowed: 1 or 2, 2 for packets"),
        (("packets", 1), "rooms: 1 given; allowed: 1 or 2, 2 for packets"),
    ],
)
def test_refused(options, message):
    with pytest.raises(InputError) as error:
        compile_plan(build("ring", "all-reduce", 2, 4), *options)
    assert str(error.value) == message


def test_too_many_ranks_and_wrong_numbers_are_refused():
    compile_plan(build("ring", "all-gather", MOST_RANKS, MOST_RANKS))
    with pytest.raises(InputError, match=f"ranks: {MOST_RANKS + 1} given; allowed: up to {MOST_RANKS}"):
        compile_plan(build("ring", "all-gather", MOST_RANKS + 1, 1))
    schedule = build("ring", "all-reduce", 2, 4)
    wrong = replace(schedule, transfers=schedule.transfers.copy())
    wrong.transfers["dst"][0] = 2
    with pytest.raises(ScheduleError, match=r"transfers\[0\]\.dst: 2; allowed: 0 to 1"):
        compile_plan(wrong)


@given(size=st.integers(0, 2000), blocks=st.integers(1, 130), unit=st.sampled_from([1, 2, 4, 8, 16]))
def test_slices_tile_a_piece_in_whole_units(size, blocks, unit):
    slices = [slice_of(size, block, blocks, unit) for block in range(blocks)]
    assert slices[0][0] == 0
    assert slices[-1][1] == size
    assert all(last == first for (_, last), (first, _) in pairwise(slices))
    assert all(first <= last and first % unit == 0 for first, last in slices)
    assert max(last - first for first, last in slices) <= -(-size // (unit * blocks)) * unit
