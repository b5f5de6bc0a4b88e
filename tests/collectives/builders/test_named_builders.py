"""What the builders make: layout, order, volume; and what they refuse."""

import doctest
import sys

import numpy as np
import pytest

import wavefabric.collectives as collectives
from wavefabric.base.errors import InputError
from wavefabric.collectives import (
    all_to_all,
    direct_all_gather,
    direct_all_reduce,
    levels,
    point_to_point,
    ring_all_gather,
    ring_all_reduce,
    verify,
)


def volume(schedule):
    """Elements that each rank sends to others."""
    t = schedule.transfers
    sent = np.zeros(schedule.ranks, int)
    for row in t[t["src"] != t["dst"]]:
        sent[row["src"]] += schedule.sizes[row["src_buffer"]][row["src"], row["src_chunk"]]
    return sent.tolist()


@pytest.mark.parametrize("ranks", range(1, 10))
def test_every_rank_sends_the_least_possible(ranks):
    assert volume(ring_all_gather([6] * ranks)) == [6 * (ranks - 1)] * ranks
    assert volume(direct_all_gather([6] * ranks)) == [6 * (ranks - 1)] * ranks
    assert volume(ring_all_reduce(ranks, 12 * ranks)) == [24 * (ranks - 1)] * ranks
    assert volume(direct_all_reduce(ranks, 6)) == [6 * (ranks - 1)] * ranks


@pytest.mark.parametrize("ranks", range(2, 10))
def test_rings_send_to_one_neighbour_only(ranks):
    for schedule in (ring_all_gather([2] * ranks), ring_all_reduce(ranks, 50)):
        t = schedule.transfers
        assert ((t["src"] + 1) % ranks == t["dst"]).all()
        # As many rounds as levels: nothing could start earlier.
        assert np.array_equal(levels(schedule), t["round"])


@pytest.mark.parametrize("ranks", range(2, 10))
def test_in_a_round_no_two_meet_at_one_rank(ranks):
    schedule = all_to_all(np.ones((ranks, ranks), int))
    assert not levels(schedule).any()
    for r in range(schedule.rounds):
        here = schedule.transfers[schedule.transfers["round"] == r]
        assert len(set(here["src"])) == len(set(here["dst"])) == len(here) == ranks


@pytest.mark.parametrize("ranks", range(2, 10))
def test_a_direct_all_gather_is_one_round_in_which_ranks_that_start_together_do_not_meet(ranks):
    schedule = direct_all_gather([2] * ranks)
    assert schedule.rounds == 1
    assert not levels(schedule).any()
    for first in range(0, len(schedule.transfers), ranks):
        here = schedule.transfers[first : first + ranks]
        assert len(set(here["src"])) == len(set(here["dst"])) == len(here) == ranks


def test_order_of_the_direct_all_gather():
    t = direct_all_gather([1] * 5).transfers
    assert t[t["src"] == 3]["dst"].tolist() == [4, 0, 1, 2]


def test_chunks_of_a_ring_are_even():
    assert ring_all_reduce(3, 8).sizes[0].tolist() == [[3, 3, 2]] * 3
    assert ring_all_reduce(3, 2).sizes[0].tolist() == [[1, 1, 0]] * 3


def test_offsets_follow_from_sizes():
    schedule = point_to_point("p", 2, [(0, 1, 8), (0, 0, 0), (0, 1, 2)])
    assert schedule.offsets(0, 0).tolist() == [0, 8, 8, 10]
    assert schedule.offsets(1, 1).tolist() == [0, 8, 10]


def test_parts_of_an_all_to_all_lie_in_rank_order():
    sizes = np.array([[0, 1, 2], [3, 4, 5], [6, 7, 8]])
    schedule = all_to_all(sizes)
    assert np.array_equal(schedule.sizes[0], sizes)
    assert np.array_equal(schedule.sizes[1], sizes.T)
    t = schedule.transfers
    assert np.array_equal(t["src_chunk"], t["dst"])
    assert np.array_equal(t["dst_chunk"], t["src"])
    assert len(t) == 8


def test_messages_are_chunks_in_their_order():
    schedule = point_to_point("exchange", 2, [(0, 1, 4), (1, 0, 4), (0, 1, 4), (1, 1, 2)])
    verify(schedule)
    assert schedule.rounds == 1
    assert schedule.transfers[["src", "dst", "src_chunk", "dst_chunk"]].tolist() == [
        (0, 1, 0, 0), (1, 0, 0, 0), (0, 1, 1, 1), (1, 1, 1, 2)
    ]  # fmt: skip


@pytest.mark.parametrize("ranks", [1, 4])
def test_nothing_to_send(ranks):
    empty = [
        ring_all_gather([0] * ranks),
        direct_all_gather([0] * ranks),
        ring_all_reduce(ranks, 0),
        direct_all_reduce(ranks, 0),
        point_to_point("none", ranks, []),
        all_to_all(np.zeros((ranks, ranks), int)),
    ]
    for schedule in empty:
        verify(schedule)
        assert (schedule.rounds, levels(schedule).size) == (0, 0)


REFUSED = {
    "sizes: none; allowed: one per rank, at least one": lambda: ring_all_gather([]),
    "sizes[1]: -1; allowed: whole numbers from 0": lambda: direct_all_gather([1, -1]),
    "sizes[0]: 1.5; allowed: whole numbers from 0": lambda: ring_all_gather([1.5]),
    "ranks: 0; allowed: whole numbers from 1": lambda: ring_all_reduce(0, 1),
    "ranks: True; allowed: whole numbers from 1": lambda: direct_all_reduce(True, 1),
    "elements: -1; allowed: whole numbers from 0": lambda: direct_all_reduce(2, -1),
    "messages[1] dst: 2; allowed: whole numbers from 0 to 1": lambda: point_to_point(
        "h", 2, [(0, 1, 1), (1, 2, 1)]
    ),
    "messages[0]: (0, 1); allowed: (src, dst, elements)": lambda: point_to_point("t", 2, [(0, 1)]),
    "sizes: 2 rows of 1, 2; allowed: one row a rank with one number a rank": lambda: all_to_all(
        [[1], [1, 2]]
    ),
    "sizes: 0 rows of nothing; allowed: one row a rank with one number a rank": lambda: all_to_all([]),
    "sizes[1][0]: 'x'; allowed: whole numbers from 0": lambda: all_to_all([[1, 2], ["x", 2]]),
}


@pytest.mark.parametrize("text", REFUSED)
def test_bad_arguments_are_refused(text):
    with pytest.raises(InputError) as error:
        REFUSED[text]()
    assert str(error.value) == text


@pytest.mark.parametrize(
    "name", ["builders.direct", "builders.messages", "builders.ring", "formats.json_file", "levels", "verify"]
)
def test_examples_of_the_docstrings(name):
    failed, tried = doctest.testmod(sys.modules[f"{collectives.__name__}.{name}"])
    assert tried
    assert not failed
