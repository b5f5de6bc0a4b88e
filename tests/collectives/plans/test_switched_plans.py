"""Plans with multicasts and sums by a switch: ordered, right in any interleaving, faults refused."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_cases import wrong_of_calls
from plan_mutants import dropped, misplaced, renumbered, swapped

from wavefabric.base.errors import InputError
from wavefabric.collectives import ScheduleError, build, verify
from wavefabric.collectives.plans.check import check_execution_plan
from wavefabric.collectives.plans.moves import Move
from wavefabric.collectives.plans.plan import compile_plan
from wavefabric.collectives.registry import ALGORITHMS
from wavefabric.collectives.schedule import TRANSFER, Schedule

KINDS = [(name, c) for name, each in ALGORITHMS.items() if each.switched for c in each.collectives]


def nodes(kind, ranks):
    """Two nodes where the algorithm needs several and the ranks can be divided, else one."""
    return {"grid": (2, ranks // 2) if ranks % 2 == 0 else (1, ranks)} if kind[0] == "nvls-tree" else {}


@pytest.mark.parametrize(
    "ranks",
    [
        1,
        pytest.param(2, marks=pytest.mark.slow),
        pytest.param(3, marks=pytest.mark.slow),
        5,
        pytest.param(8, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("kind", KINDS, ids="-".join)
def test_any_interleaving_gives_the_sums_of_the_schedule(kind, ranks):
    for pieces in (1, 3):
        schedule = build(*kind, ranks, 7 * ranks + 2, pieces=pieces, **nodes(kind, ranks))
        for slots in (1, 2, None):
            plan = compile_plan(schedule, "signals", slots)
            check_execution_plan(plan)
            for seed in range(3):
                assert wrong_of_calls(plan, random.Random(seed).randrange, seed=seed) == []


def test_what_is_added_up_goes_to_all_in_one_pass():
    plan = compile_plan(build("nvls", "all-reduce", 4, 64))
    for rank, code in enumerate(plan.instructions):
        (move,) = [each for each in code if isinstance(each, Move)]
        assert (move.summed, move.multicast) == (True, True)
        assert [a.rank for a in move.sources] == [a.rank for a in move.targets] == [0, 1, 2, 3]
        assert {a.first for a in (*move.sources, *move.targets)} == {16 * rank}


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=[pytest.mark.slow] * (kind[1] != "all-reduce")) for kind in KINDS],
    ids="-".join,
)
def test_faults_are_refused(kind):
    plan = compile_plan(build(*kind, 3, 9, **nodes(kind, 3)))
    faults = [each for _, each in (*dropped(plan), *swapped(plan)) if each.instructions != plan.instructions]
    faults += [each for _, each in misplaced(plan)]
    for fault in faults + list(renumbered(plan, 1)):
        try:
            check_execution_plan(fault)
        except ScheduleError:
            continue
        # What is accepted does no harm.
        for seed in range(20):
            assert wrong_of_calls(fault, random.Random(seed).randrange, blocks=1, unit=100, seed=seed) == []


@st.composite
def mixed(draw):
    """Copies within ranks, multicasts and sums by a switch, of any buffers, which `verify` accepts."""
    rows, held = [], {(r, b, 0): (0, 1 << r) for r in range(3) for b in range(2)}
    for round_ in range(draw(st.integers(1, 6))):
        kind = draw(st.sampled_from(("copy", "multicast", "sum")))
        one, src, dst = draw(st.integers(0, 2)), draw(st.integers(0, 2)), draw(st.integers(0, 2))
        others = range(3) if kind != "copy" else [one]
        pairs = [(other, one) if kind == "sum" else (one, other) for other in others]
        parts = [held.get((a, src, 0), (0, 0))[1] for a, _ in pairs]
        if not all(parts) or (kind == "copy" and src == dst) or (kind == "sum" and sum(parts) != 7):
            continue
        rows += [(round_, a, b, src, 0, dst, 0, 1, False, int(kind != "copy")) for a, b in pairs]
        for _, b in pairs:
            held[b, dst, 0] = (0, 7 if kind == "sum" else parts[0])
    pre = {(r, b, 0): (0, 1 << r) for r in range(3) for b in range(2)}
    post = {at: value for at, value in held.items() if at[1] in draw(st.sets(st.integers(0, 2)))}
    sizes = (np.full((3, 1), 4, np.int64),) * 3
    made = Schedule("mixed", 3, ("a", "b", "c"), sizes, np.array(rows, TRANSFER), pre, post)
    verify(made)
    return made


@pytest.mark.slow
@settings(max_examples=150)
@given(schedule=mixed(), seed=st.integers(0, 99))
def test_any_mixture_gives_the_sums_of_the_schedule(schedule, seed):
    plan = compile_plan(schedule)
    check_execution_plan(plan)
    assert wrong_of_calls(plan, random.Random(seed).randrange, seed=seed) == []
    for move in (each for code in plan.instructions for each in code if isinstance(each, Move)):
        assert move.summed == any(a.rank != move.rank for a in move.sources)


def test_what_a_plan_cannot_say_is_refused():
    schedule = build("nvls", "all-gather", 4, 64)
    with pytest.raises(InputError, match="protocol: packets given for multicasts or sums by a switch"):
        compile_plan(schedule, "packets")
    rows = [(0, 0, r, 0, 0, 0, 0, 1, True, 1) for r in (1, 2)]
    sizes = (np.ones((3, 1), np.int64),)
    adding = Schedule("adding", 3, ("data",), sizes, np.array(rows, TRANSFER), {}, {})
    with pytest.raises(InputError, match="adding adds what a switch sends to what is there"):
        compile_plan(adding)
