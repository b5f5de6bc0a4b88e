"""`verify` accepts what the builders make, and nothing that does not do what it promises."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from schedule_cases import BUILDERS, SCHEDULES, arbitrary, joined, plain_verdict

from wavefabric.base.errors import InputError
from wavefabric.collectives import (
    TRANSFER,
    Schedule,
    ScheduleError,
    build,
    direct_all_reduce,
    point_to_point,
    ring_all_gather,
    ring_all_reduce,
    verify,
)


def accepted(schedule):
    try:
        verify(schedule)
    except ScheduleError:
        return False
    return True


def changed(schedule, number, **fields):
    transfers = schedule.transfers.copy()
    for key, value in fields.items():
        transfers[key][number] = value
    return replace(schedule, transfers=transfers)


@pytest.mark.parametrize("builder", BUILDERS)
@settings(max_examples=25)
@given(data=st.data())
def test_what_builders_make_is_right(builder, data):
    schedule = data.draw(BUILDERS[builder])
    verify(schedule)
    assert plain_verdict(schedule)
    verify(joined(schedule))


@settings(max_examples=40)
@given(schedule=SCHEDULES.filter(lambda s: s.transfers.size), data=st.data())
def test_no_transfer_can_be_left_out(schedule, data):
    number = data.draw(st.integers(0, schedule.transfers.size - 1))
    with pytest.raises(ScheduleError):
        verify(replace(schedule, transfers=np.delete(schedule.transfers, number)))


@settings(max_examples=40)
@given(schedule=SCHEDULES.filter(lambda s: s.transfers.size), data=st.data())
def test_a_flipped_reduce_is_found(schedule, data):
    number = data.draw(st.integers(0, schedule.transfers.size - 1))
    with pytest.raises(ScheduleError):
        verify(changed(schedule, number, reduce=not schedule.transfers["reduce"][number]))


@settings(max_examples=40)
@given(schedule=SCHEDULES.filter(lambda s: s.transfers.size and s.ranks > 1), data=st.data())
def test_a_changed_destination_is_found(schedule, data):
    """Of copies: somebody goes without. A sum along another tree may be right."""
    number = data.draw(st.sampled_from(np.flatnonzero(~schedule.transfers["reduce"]).tolist()))
    dst = data.draw(
        st.integers(0, schedule.ranks - 1).filter(lambda r: r != schedule.transfers["dst"][number])
    )
    with pytest.raises(ScheduleError):
        verify(changed(schedule, number, dst=dst))


@settings(max_examples=20)
@given(ranks=st.integers(3, 9), elements=st.integers(9, 30), data=st.data())
def test_a_ring_in_another_order_is_found(ranks, elements, data):
    """A chain of sums cannot be changed in source, chunk or round."""
    schedule = ring_all_reduce(ranks, elements)
    number = data.draw(st.integers(0, ranks * (ranks - 1) - 1))
    t = schedule.transfers[number]
    other = data.draw(st.integers(1, ranks - 1))
    with pytest.raises(ScheduleError):
        verify(changed(schedule, number, src=(t["src"] + other) % ranks))
    chunk = (t["src_chunk"] + other) % ranks
    with pytest.raises(ScheduleError):
        verify(changed(schedule, number, src_chunk=chunk, dst_chunk=chunk))
    later = schedule.transfers.copy()
    later["round"][number] += other
    with pytest.raises(ScheduleError):
        verify(replace(schedule, transfers=later[np.argsort(later["round"], kind="stable")]))


@settings(max_examples=140)
@given(schedule=SCHEDULES.filter(lambda s: s.transfers.size), join=st.booleans(), data=st.data())
def test_any_change_is_judged_as_by_the_definition(schedule, join, data):
    if join:
        schedule = joined(schedule)
    for _ in range(data.draw(st.integers(1, 2))):
        number = data.draw(st.integers(0, schedule.transfers.size - 1))
        key = data.draw(
            st.sampled_from([k for k in TRANSFER.names if not k.endswith("buffer") and k != "switch"])
        )
        if key == "reduce":
            value = not schedule.transfers[key][number]
        else:
            value = data.draw(st.integers(1 if key == "count" else -1, schedule.ranks))
        schedule = changed(schedule, number, **{key: value})
    if data.draw(st.booleans()):
        transfers = schedule.transfers[np.argsort(schedule.transfers["round"], kind="stable")]
        schedule = replace(schedule, transfers=transfers)
    assert accepted(schedule) == plain_verdict(schedule)


@settings(max_examples=110)
@given(schedule=arbitrary())
def test_any_transfers_are_judged_as_by_the_definition(schedule):
    assert accepted(schedule) == plain_verdict(schedule)


@pytest.mark.slow
def test_a_ring_of_256_ranks():
    schedule = ring_all_reduce(256, 1 << 20)
    verify(schedule)
    assert len(schedule.transfers) == 2 * 255 * 256
    broken = changed(schedule, 100_000, reduce=True)
    with pytest.raises(ScheduleError, match=r"transfer 100000 .*: double counting of ranks .*\d to \d"):
        verify(broken)


def small(*transfers, post=None):
    """Two ranks, each with its part of item 0 in data[0]; data[1] is as large, [2] larger, [3] empty."""
    sizes = np.tile(np.array([3, 3, 4, 0], np.int64), (2, 1))
    pre = {(0, 0, 0): (0, 1), (1, 0, 0): (0, 2)}
    rows = np.array([(*t, 1, r, 0) for *t, r in transfers], TRANSFER)
    return Schedule("small", 2, ("data",), (sizes,), rows, pre, post or pre)


COPY, REDUCE = False, True
REFUSED = {
    "nothing": (
        small((0, 0, 1, 0, 1, 0, 1, COPY)),
        "small: transfer 0 (round 0, copy data[1] of rank 0 to data[1] of rank 1): the source holds nothing",
    ),
    "nothing to add to": (
        small((0, 0, 1, 0, 0, 0, 1, REDUCE)),
        "small: transfer 0 (round 0, reduce data[0] of rank 0 to data[1] of rank 1): "
        "the destination holds nothing to add to",
    ),
    "double counting": (
        small((0, 0, 1, 0, 0, 0, 0, REDUCE), (1, 0, 1, 0, 0, 0, 0, REDUCE)),
        "small: transfer 1 (round 1, reduce data[0] of rank 0 to data[0] of rank 1): "
        "double counting of rank 0",
    ),
    "two writes": (
        small((0, 0, 1, 0, 0, 0, 1, COPY), (0, 1, 1, 0, 0, 0, 1, COPY)),
        "small: transfer 1 (round 0, copy data[0] of rank 1 to data[1] of rank 1): "
        "writes a chunk that transfer 0 writes in the same round",
    ),
    "swap": (
        small((0, 0, 1, 0, 0, 0, 0, COPY), (0, 1, 0, 0, 0, 0, 0, COPY)),
        "small: transfer 0 (round 0, copy data[0] of rank 0 to data[0] of rank 1): "
        "reads a chunk that transfer 1 writes in the same round",
    ),
    "onto itself": (
        small((0, 0, 0, 0, 0, 0, 0, COPY)),
        "small: transfer 0 (round 0, copy data[0] of rank 0 to data[0] of rank 0): "
        "reads a chunk that it also writes in the same round",
    ),
    "sizes": (
        small((0, 0, 1, 0, 0, 0, 2, COPY)),
        "small: transfer 0 (round 0, copy data[0] of rank 0 to data[2] of rank 1): "
        "the source has 3 elements, the destination 4",
    ),
    "empty": (
        small((0, 0, 1, 0, 3, 0, 3, COPY)),
        "small: transfer 0 (round 0, copy data[3] of rank 0 to data[3] of rank 1): "
        "the chunk is empty (0 elements)",
    ),
    "rank": (small((0, 0, 2, 0, 0, 0, 0, COPY)), "small: transfers[0].dst: 2; allowed: 0 to 1"),
    "chunk": (small((0, 0, 1, 0, 4, 0, 0, COPY)), "small: transfers[0].src_chunk: 4; allowed: 0 to 3"),
    "buffer": (small((0, 0, 1, 0, 0, 1, 0, COPY)), "small: transfers[0].dst_buffer: 1; allowed: 0 to 0"),
    "order": (
        small((1, 0, 1, 0, 0, 0, 1, COPY), (0, 1, 0, 0, 0, 0, 1, COPY)),
        "small: transfers[1].round: 0; allowed: from 1 (in order)",
    ),
    "post": (
        small((0, 0, 1, 0, 0, 0, 0, REDUCE)),
        "small: post: data[0] of rank 1 holds item 0 of ranks 0, 1; must hold item 0 of rank 1",
    ),
    "post, nothing": (
        small(post={(1, 0, 2): (4, 1), (0, 0, 1): (7, 3)}),
        "small: post: data[1] of rank 0 holds nothing; must hold item 7 of ranks 0, 1",
    ),
    "post, another item": (
        small(post={(1, 0, 0): (7, 2)}),
        "small: post: data[0] of rank 1 holds item 0 of rank 1; must hold item 7 of rank 1",
    ),
    "post, empty chunk": (
        small(post={(1, 0, 3): (0, 1)}),
        "small: post: data[3] of rank 1 is empty (0 elements); allowed: chunks with elements",
    ),
    "post, origins": (
        small(post={(1, 0, 0): (0, 4)}),
        "small: post: data[0] of rank 1: origins 0x4; allowed: bits of ranks 0 to 1, at least one",
    ),
    "post, key": (
        small(post={(1, 0, 4): (0, 1)}),
        "small: post: (rank 1, buffer 0, chunk 4); allowed: 2 ranks, 1 buffers, chunks [4]",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_errors_name_the_place(case):
    schedule, text = REFUSED[case]
    with pytest.raises(ScheduleError) as error:
        verify(schedule)
    assert str(error.value) == text


def test_items_are_not_mixed():
    schedule = ring_all_gather([3, 3])
    transfers = schedule.transfers.copy()
    transfers["dst_chunk"][0], transfers["reduce"][0] = 1, True
    with pytest.raises(ScheduleError, match=r"transfer 0 .*: item 0 cannot be added to item 1$"):
        verify(replace(schedule, transfers=transfers))


def test_the_first_of_several_faults_is_named():
    schedule = ring_all_reduce(4, 8)
    transfers = schedule.transfers.copy()
    transfers["dst_chunk"][20:] = 0  # several writes to one chunk
    transfers["reduce"][[17, 14, 18]] = True
    with pytest.raises(ScheduleError, match=r"transfer 14 .*double counting"):
        verify(replace(schedule, transfers=transfers))


def test_the_chunk_of_a_joined_transfer_is_named():
    schedule = build("ring", "all-reduce", 2, 8, pieces=4)
    assert schedule.transfers["count"].tolist() == [4] * 4
    del schedule.pre[0, 0, 6]
    with pytest.raises(
        ScheduleError, match=r"transfer 0 .*reduce data\[6\] of rank 0 to data\[6\] of rank 1"
    ):
        verify(schedule)


def test_tables_of_the_wrong_kind_are_refused():
    schedule = direct_all_reduce(2, 3)
    wrong = {
        "ranks: 0; allowed: from 1": {"ranks": 0},
        "buffers: ['data', 'data']; allowed: at least one, each with a name of its own": {
            "buffers": ("data",) * 2
        },
        "buffers: 'a\\nb'; allowed: text of one line, not empty": {"buffers": ("data", "a\nb")},
        "sizes: 1 tables; allowed: one a buffer, 2": {"sizes": schedule.sizes[:1]},
        "sizes of data: int32 of shape (2, 1); allowed: int64 of shape (2, chunks)": {
            "sizes": (schedule.sizes[0].astype(np.int32), schedule.sizes[1])
        },
        "sizes of data: -3; allowed: from 0": {"sizes": (-schedule.sizes[0], schedule.sizes[1])},
        "sizes of scratch: 2^63 elements or more on a rank; allowed: fewer": {
            "sizes": (schedule.sizes[0], np.full((2, 2), 2**62, np.int64))
        },
        "transfers: dtype float64; allowed: a row of TRANSFER": {"transfers": np.zeros(0)},
    }
    for text, change in wrong.items():
        with pytest.raises(ScheduleError) as error:
            verify(replace(schedule, **change))
        assert str(error.value) == f"direct all-reduce: {text}"


def test_a_name_of_two_lines_stays_out_of_errors():
    with pytest.raises(InputError, match=r"^schedule: name: 'a\\nb'; allowed: text of one line, not empty$"):
        verify(point_to_point("a\nb", 1, []))
