"""Pieces: exactly the runs of chunks that the definition gives, found slowly, boundary by boundary."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_cases import CASES
from schedule_cases import arbitrary, joined

from wavefabric.collectives import build, point_to_point
from wavefabric.collectives.plans.moves import pieces


def plain_cuts(schedule):
    """(rank, buffer, boundary) of all cuts: until transfers carry none to a new place."""
    cuts, before = set(), None
    while cuts != before:
        before = set(cuts)
        for t in schedule.transfers.tolist():
            _, src, dst, src_buffer, src_chunk, dst_buffer, dst_chunk, count, *_ = t
            for k in range(count + 1):
                ends = {(src, src_buffer, src_chunk + k), (dst, dst_buffer, dst_chunk + k)}
                if k in (0, count) or ends & cuts:
                    cuts |= ends
    return cuts


def plain_pieces(schedule):
    """(transfer, size, first element at the source, first at the destination) of each piece."""
    cuts, out = plain_cuts(schedule), []
    for number, t in enumerate(schedule.transfers.tolist()):
        _, src, dst, src_buffer, src_chunk, dst_buffer, dst_chunk, count, *_ = t
        here = [k for k in range(count + 1) if (src, src_buffer, src_chunk + k) in cuts]
        a, b = schedule.offsets(src_buffer, src), schedule.offsets(dst_buffer, dst)
        for k, after in pairwise(here):
            size = a[src_chunk + after] - a[src_chunk + k]
            out.append((number, size, a[src_chunk + k], b[dst_chunk + k]))
    return out


def cut(schedule):
    """What `pieces` finds, as rows, and its addresses as {key: (rank, buffer, first, size)}."""
    result, addresses = pieces(schedule), {}
    rows = [(number, size, source.first, target.first) for number, size, source, target in result]
    for _, size, *ends in result:
        for *where, key in ends:
            assert addresses.setdefault(key, (*where, size)) == (*where, size)
    return rows, addresses


@pytest.mark.slow
@settings(max_examples=150)
@given(schedule=st.one_of(CASES, arbitrary()), join=st.booleans())
def test_pieces_are_the_longest_that_always_move_together(schedule, join):
    schedule = joined(schedule) if join else schedule
    rows, addresses = cut(schedule)
    assert rows == plain_pieces(schedule)
    assert len(set(addresses.values())) == len(addresses)
    ordered = sorted(addresses.values())
    for (rank, buffer, first, size), after in pairwise(ordered):
        assert (rank, buffer) != after[:2] or first + size <= after[2]


def test_uneven_chunks():
    schedule = build("ring", "all-reduce", 3, 11)  # chunks of 4, 4 and 3
    rows, addresses = cut(schedule)
    assert {size for _, size, _, _ in rows} == {4, 3}
    assert sorted(set(addresses.values())) == [
        (r, 0, f, s) for r in range(3) for f, s in ((0, 4), (4, 4), (8, 3))
    ]


def test_chunks_that_always_travel_together_are_one_piece():
    schedule = joined(build("direct", "broadcast", 4, 12, pieces=3))
    assert [row[:2] for row in cut(schedule)[0]] == [(number, 12) for number in range(3)]


def test_no_transfers():
    schedule = build("ring", "all-gather", 1, 5)
    assert cut(schedule) == ([], {})


def test_the_same_transfer_more_often_than_a_byte_counts():
    schedule = point_to_point("message", 2, [(0, 1, 4)])
    many = replace(schedule, transfers=np.repeat(schedule.transfers, 256))
    many.transfers["round"] = np.arange(256)
    rows, addresses = cut(many)
    assert len(rows) == 256
    assert len(addresses) == 2
