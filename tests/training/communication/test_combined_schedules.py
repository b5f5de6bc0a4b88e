"""Schedules placed on GPUs: proved as a whole whenever the parts are, and faulty whenever one of them is."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wavefabric.base.errors import InputError
from wavefabric.collectives import ScheduleError, build, point_to_point, verify, why_refused
from wavefabric.training.communication.combined_schedules import combined, common_unit

ALGORITHMS = (
    ("ring", "all-reduce"),
    ("ring", "reduce-scatter"),
    ("bidirectional-ring", "all-gather"),
    ("recursive", "all-reduce"),
    ("double-tree", "all-reduce"),
    ("bruck", "all-to-all"),
    ("pairwise", "all-to-all"),
    ("direct", "all-reduce"),
    ("nvls", "reduce-scatter"),
    ("nvls", "reduce"),
)


@st.composite
def placements(draw, disjoint=True):
    """Parts on random GPUs, and how many GPUs there are."""
    sizes = draw(st.lists(st.integers(1, 6), min_size=1, max_size=4))
    ranks = sum(sizes) + draw(st.integers(0, 3))
    order = draw(st.permutations(range(ranks)))
    parts, first = [], 0
    for size in sizes:
        algorithm, collective = draw(st.sampled_from(ALGORITHMS))
        if why_refused(algorithm, collective, size):
            algorithm, collective = "ring", "all-reduce"
        gpus = order[first : first + size] if disjoint else draw(st.permutations(range(ranks)))[:size]
        parts.append((build(algorithm, collective, size, draw(st.integers(0, 9))), tuple(gpus)))
        first += size
    return parts, ranks


@settings(max_examples=60)
@given(placements())
def test_parts_on_disjoint_gpus_are_proved_as_one(case):
    parts, ranks = case
    whole = combined(parts, ranks, "parts")
    verify(whole)
    assert whole.communication_rounds == max(schedule.communication_rounds for schedule, _ in parts)
    assert len(whole.buffers) == len({name for schedule, _ in parts for name in schedule.buffers})
    assert len(whole.pre) == sum(len(schedule.pre) for schedule, _ in parts)
    assert len(whole.post) == sum(len(schedule.post) for schedule, _ in parts)


@settings(max_examples=40)
@given(placements(disjoint=False), st.booleans())
def test_parts_that_share_gpus_have_buffers_of_their_own(case, in_turn):
    parts, ranks = case
    starts = [0, *np.cumsum([schedule.communication_rounds for schedule, _ in parts]).tolist()]
    whole = combined(parts, ranks, "parts", starts=starts[:-1] if in_turn else None)
    verify(whole)
    if in_turn:
        assert whole.communication_rounds == starts[-1]


@pytest.mark.slow
@settings(max_examples=40)
@given(placements(), st.data())
def test_a_transfer_left_out_of_a_part_is_found_in_the_whole(case, data):
    parts, ranks = case
    number = data.draw(st.integers(0, len(parts) - 1))
    schedule, gpus = parts[number]
    if not schedule.transfers.size:
        return
    lost = data.draw(st.integers(0, schedule.transfers.size - 1))
    parts[number] = replace(schedule, transfers=np.delete(schedule.transfers, lost)), gpus
    with pytest.raises(ScheduleError):
        verify(parts[number][0])
    with pytest.raises(ScheduleError):
        verify(combined(parts, ranks, "parts"))


def test_rounds_of_all_parts_are_at_the_same_time_and_chunks_keep_their_sizes():
    ring, swap = build("ring", "all-reduce", 3, 7), point_to_point("swap", 2, [(0, 1, 5), (1, 0, 4)])
    whole = combined([(ring, (4, 0, 2)), (swap, (1, 5))], 6, "both")
    verify(whole)
    first = {tuple(row) for row in whole.transfers[whole.transfers["round"] == 0][["src", "dst"]].tolist()}
    assert first == {(4, 0), (0, 2), (2, 4), (1, 5), (5, 1)}
    assert whole.buffers == ("data", "send", "recv")
    assert whole.sizes[0].tolist() == [[3, 2, 2], [0, 0, 0], [3, 2, 2], [0, 0, 0], [3, 2, 2], [0, 0, 0]]
    assert whole.sizes[2].tolist() == [[0], [4], [0], [0], [0], [5]]
    assert all(a <= b for a, b in pairwise(whole.transfers["round"].tolist()))
    items = {item for item, _ in whole.pre.values()}
    assert items == {0, 1, 2, 3, 4}
    assert whole.post[2, 0, 1] == (1, 0b10101)  # item 1 of the ring, summed over GPUs 0, 2, 4


def test_rounds_within_ranks_do_not_delay_communication():
    slow, quick = build("recursive", "all-reduce", 4, 4, radix=4), build("ring", "all-reduce", 2, 2)
    whole = combined([(slow, (0, 1, 2, 3)), (quick, (4, 5))], 6, "both")
    verify(whole)
    t = whole.transfers
    of = [set(t["round"][(t["src"] != t["dst"]) & (t["src"] // 4 == part)].tolist()) for part in (0, 1)]
    assert of[0] == of[1]  # two rounds each, though one part adds up in rounds between
    assert whole.rounds == slow.rounds == 5


def test_nothing_combined_is_an_empty_schedule():
    empty = combined([], 4, "nothing")
    verify(empty)
    assert (empty.ranks, empty.rounds) == (4, 0)


@pytest.mark.parametrize(
    ("gpus", "fault"),
    [
        ((0, 1), "2 different GPUs given; allowed: 3"),
        ((0, 1, 1), "2 different GPUs given; allowed: 3"),
        ((0, 1, 4), "4; allowed: whole numbers from 0 to 3"),
    ],
)
def test_gpus_that_do_not_fit_are_refused(gpus, fault):
    with pytest.raises(InputError, match="parts.0.*" + fault):
        combined([(build("ring", "all-reduce", 3, 3), gpus)], 4, "wrong")


def test_a_common_unit_keeps_the_ratio_of_sizes():
    ring = build("ring", "all-reduce", 4, 4)
    assert common_unit([2.5, 2.5], [ring, ring]) == (2.5, [1, 1])
    unit, factors = common_unit([1.0, 3e5, 0.1], [ring] * 3)
    assert [unit * factor for factor in factors] == pytest.approx([1.0, 3e5, 0.1], rel=1e-5)
    large = replace(ring, sizes=(ring.sizes[0] * 2**50,))
    unit, factors = common_unit([1.0, 2.0], [large, large])
    assert int(large.sizes[0].sum(axis=1).max()) * max(factors) < 2**63
