"""Operations of switches: what they mean, how they are checked, and what they depend on."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from schedule_cases import plain_verdict

from wavefabric.collectives import (
    TRANSFER,
    Schedule,
    ScheduleError,
    build,
    from_json,
    levels,
    to_json,
    verify,
)
from wavefabric.collectives.conditions import layout
from wavefabric.collectives.levels import dependencies
from wavefabric.collectives.structure import in_rounds, units
from wavefabric.fabric.execution.run_schedule import as_run


def schedule_of(rows, ranks=3, chunks=3):
    """An all-reduce of ``chunks`` elements, by rows of `TRANSFER`."""
    made = layout("all-reduce", ranks, chunks, chunks)
    return Schedule("any", ranks, made.buffers, made.sizes, np.array(rows, TRANSFER), made.pre, made.post)


@st.composite
def operations(draw):
    """Up to five multicasts, reductions and transfers, in order."""
    rows, rank, chunk = [], st.integers(0, 2), st.integers(0, 2)
    for number, round_ in enumerate(sorted(draw(st.lists(st.integers(0, 2), min_size=1, max_size=5)))):
        kind, one, reduce = (
            draw(st.sampled_from(("multicast", "reduction", "transfer"))),
            draw(rank),
            draw(st.booleans()),
        )
        src, dst = draw(chunk), draw(chunk)
        count = draw(st.integers(1, 3 - max(src, dst)))
        others = sorted(draw(st.sets(rank, min_size=2))) if kind != "transfer" else [draw(rank)]
        for other in others:
            ends = (other, one) if kind == "reduction" else (one, other)
            rows.append(
                (round_, *ends, 0, src, 0, dst, count, reduce, number + 1 if kind != "transfer" else 0)
            )
    return schedule_of(rows)


@pytest.mark.slow
@settings(max_examples=300)
@given(schedule=operations())
def test_rounds_are_judged_as_by_the_definition(schedule):
    promised = replace(schedule, post={})
    accepted = True
    try:
        verify(promised)
    except ScheduleError:
        accepted = False
    assert accepted == plain_verdict(promised)
    if accepted:
        assert (levels(promised) <= promised.transfers["round"]).all()


@settings(max_examples=50)
@given(schedule=operations())
def test_files_keep_them(schedule):
    again = from_json(to_json(schedule))
    assert (again.transfers == schedule.transfers).all()


def test_all_rows_wait_and_are_waited_for_as_one():
    rows = [(0, 0, 1, 0, 0, 0, 0, 1, True, 0)]
    rows += [(1, 1, r, 0, 0, 0, 0, 1, False, 1) for r in (0, 2)] + [(2, 2, 0, 0, 1, 0, 1, 1, True, 0)]
    schedule = schedule_of(rows)
    assert levels(schedule).tolist() == [0, 1, 1, 0]
    assert units(schedule).of.tolist() == [0, 1, 1, 2]
    assert [pairs.tolist() for pairs in dependencies(schedule)] == [[0], [1]]


def test_operations_that_come_together_stay_apart():
    """Whatever their numbers in the rounds that they had."""
    rows = [(r, 0, d, 0, r, 0, r, 1, False, 1) for r in (0, 1) for d in (1, 2)]
    schedule = schedule_of(rows)
    together = in_rounds(schedule, np.zeros(4, int))
    assert units(together).of.tolist() == units(schedule).of.tolist() == [0, 0, 1, 1]
    for pieces in (1, 2, 3):
        verify(as_run(build("nvls", "all-reduce", 3, 18, pieces=pieces)))


@pytest.mark.parametrize("ranks", [4, 8, 72])
@pytest.mark.parametrize("algorithm", ["nvls", "nvls-one-shot"])
def test_all_reduces_are_proved(algorithm, ranks):
    schedule = build(algorithm, "all-reduce", ranks, 3 * ranks + 1)
    verify(schedule)
    assert schedule.communication_rounds == (2 if algorithm == "nvls" else 1)
    missing = replace(schedule, transfers=np.delete(schedule.transfers, 1))
    with pytest.raises(ScheduleError, match="item 0 of rank"):
        verify(missing)


_MULTICAST = [(0, 1, r, 0, 0, 0, 0, 1, False, 1) for r in (0, 2)]
WRONG = {
    "a multicast by a switch: src_chunk: [0, 1]; allowed: the same in all its rows": [
        _MULTICAST[0],
        (0, 1, 2, 0, 1, 0, 1, 1, False, 1),
    ],
    "transfers[0] and the next, a reduction by a switch: src: [1]; allowed: each src once": _MULTICAST[:1]
    * 2,
    "transfers[0].switch: -2; allowed: from 0": [(0, 2, 1, 0, 1, 0, 1, 1, False, -2)],
    "double counting of rank 1": [(0, r, 1, 0, 0, 0, 0, 1, True, 1) for r in (0, 1)],
    "writes a chunk that transfer 1 writes in the same round": [
        *_MULTICAST,
        (0, 1, 2, 0, 1, 0, 0, 1, False, 0),
    ],
}


@pytest.mark.parametrize("fault", WRONG)
def test_a_fault_is_named(fault):
    with pytest.raises(ScheduleError) as caught:
        verify(schedule_of(WRONG[fault]))
    assert fault in str(caught.value)
