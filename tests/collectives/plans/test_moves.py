"""Moves carried out one after the other give what the schedule gives, joined or not, to the bit."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_cases import CASES, messages, noise, verified, wrong

from wavefabric.collectives import build, verify
from wavefabric.collectives.plans import moves as module
from wavefabric.collectives.plans.moves import MOST, STAGING, joined, moves


def carried_out(schedule, made, staging, inputs):
    """What moves leave in the buffers, in the order given."""
    buffers = [[array.copy() for array in rank] for rank in inputs]
    slots = [np.full(staging_buffer.size, np.nan, inputs[0][0].dtype) for staging_buffer in staging]

    def part(address, size):
        if address.buffer == STAGING:
            assert (address.rank, size) == (staging[-1 - address.key].rank, staging[-1 - address.key].size)
            return slots[-1 - address.key]
        return buffers[address.rank][address.buffer][address.first : address.first + size]

    for move in made:
        total = part(move.sources[0], move.size).copy()
        for address in move.sources[1:]:
            total += part(address, move.size)
        for address in move.targets:
            part(address, move.size)[...] = total
    return buffers


def any_order(made, rng):
    """Moves of a level and phase, rank by rank in any order of ranks; those of a rank stay in order."""
    ranks = {}
    for number, move in enumerate(made):
        ranks.setdefault((move.level, move.phase, move.rank), []).append(number)
    keys = sorted(ranks, key=lambda key: (*key[:2], rng.random()))
    return [made[number] for key in keys for number in ranks[key]]


@pytest.mark.slow
@settings(max_examples=120)
@given(
    schedule=st.one_of(CASES, verified()),
    packets=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
    most=st.sampled_from([1, 2, 3, MOST]),
)
def test_moves_give_what_the_schedule_gives(schedule, packets, seed, most):
    verify(schedule)
    rng = np.random.default_rng(seed)
    inputs = noise(schedule, "f4", rng)
    made, staging = moves(schedule, packets)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MOST", most)
        fewer = joined(made)
    for some in (made, fewer):
        for order in (some, any_order(some, rng)):
            assert wrong(schedule, carried_out(schedule, order, staging, inputs), inputs) == []


@settings(max_examples=60)
@given(schedule=CASES, packets=st.booleans())
def test_sources_are_the_ranks_own_and_each_staging_buffer_comes_and_is_read_once(schedule, packets):
    made, staging = moves(schedule, packets)
    for some in (made, joined(made)):
        assert [(m.level, m.phase) for m in some] == sorted((m.level, m.phase) for m in some)
        read = [address for move in some for address in move.sources if address.buffer == STAGING]
        came = [(address, move) for move in some for address in move.targets if address.buffer == STAGING]
        numbers = list(range(len(staging)))
        assert sorted(-1 - address.key for address in read) == numbers
        assert sorted(-1 - address.key for address, _ in came) == numbers
        assert all(staging[-1 - address.key].sender == move.rank for address, move in came)
        for move in some:
            assert all(address.rank == move.rank for address in move.sources)
            assert 1 <= len(move.sources) <= MOST
            assert 1 <= len(move.targets) <= MOST
            if packets:
                away = [address for address in move.targets if address.rank != move.rank]
                assert all(address.buffer == STAGING for address in away)


@pytest.mark.parametrize("ranks", [(0, 1), (1, 0)])
def test_what_another_rank_overwrites_in_the_same_level_is_read_before(ranks):
    """b, a copy of a, travels on in the round in which a is overwritten: it must not be read from a then."""
    mine, other = ranks
    rows = [
        (0, f"{mine}a", f"{mine}b"),
        (1, f"{mine}b", f"{other}c"),
        (1, f"{other}d", f"{mine}a"),
    ]
    for order in (rows, [rows[0], rows[2], rows[1]]):
        schedule = messages(order)
        inputs = noise(schedule, "f4", np.random.default_rng(1))
        made, staging = moves(schedule, False)
        for seed in range(4):
            some = any_order(joined(made), np.random.default_rng(seed))
            assert wrong(schedule, carried_out(schedule, some, staging, inputs), inputs) == []


def test_a_copy_beside_another_does_not_overtake():
    """c goes to rank 1 and over a in one round, in which the copy of a that was made before travels too."""
    rows = [(0, "0a", "0b"), (0, "1e", "0c"), (1, "0c", "1c"), (1, "0b", "1d"), (1, "0c", "0a")]
    schedule = messages(rows)
    inputs = noise(schedule, "f4", np.random.default_rng(1))
    made, staging = moves(schedule, False)
    assert wrong(schedule, carried_out(schedule, joined(made), staging, inputs), inputs) == []


# --- What is joined ----------------------------------------------------------------------------------------


def shapes(schedule, packets, rank=0):
    """(sources, targets) of each move of a rank."""
    made = joined(moves(schedule, packets)[0])
    return [(len(m.sources), len(m.targets)) for m in made if m.rank == rank]


def test_what_has_arrived_is_added_and_goes_on_in_one_pass():
    ring = build("ring", "all-reduce", 4, 16)
    # Sends; adds and sends on, twice; adds, keeps and sends; the sums of others go through.
    assert shapes(ring, False) == [(1, 1), (2, 1), (2, 1), (2, 2), (1, 1), (1, 1)]
    assert shapes(ring, True) == [(1, 1), (2, 1), (2, 1), (2, 2), (1, 2), (1, 2), (1, 1)]


def test_a_chunk_goes_to_all_and_all_that_come_are_added_in_one_pass():
    direct = build("direct", "all-reduce", 4, 16)
    for packets in (False, True):
        assert shapes(direct, packets) == [(1, 3), (4, 1)]
        made = joined(moves(direct, packets)[0])
        assert all(address.buffer in (0, STAGING) for m in made for address in (*m.sources, *m.targets))


def test_a_pass_has_so_many_sources_and_targets_at_most():
    many = build("direct", "all-reduce", 2 * MOST + 2, 4)
    sums = [(MOST, 1), (MOST, 1), (4, 1)]
    assert shapes(many, False) == [(1, MOST), (1, MOST), (1, 1), *sums]


def test_sums_are_taken_in_the_order_of_the_schedule():
    """A pass that adds them backwards gives other bits."""
    schedule = build("direct", "all-reduce", 4, 8)
    made, staging = moves(schedule, False)
    inputs = noise(schedule, "f4", np.random.default_rng(0))
    backwards = [replace(m, sources=m.sources[::-1]) for m in joined(made)]
    assert wrong(schedule, carried_out(schedule, backwards, staging, inputs), inputs)


def test_what_is_overwritten_in_between_is_read_before():
    """b, a copy of a, travels on two levels later; a is overwritten in the level between."""
    rows = [(0, "0a", "0b"), (0, "0e", "1c"), (1, "0f", "1c"), (1, "1d", "0a"), (2, "0b", "1c")]
    schedule = messages(rows)
    inputs = noise(schedule, "f4", np.random.default_rng(1))
    made, staging = moves(schedule, False)
    assert wrong(schedule, carried_out(schedule, joined(made), staging, inputs), inputs) == []
