"""Plans with multicasts and sums by a switch: ordered, right in any interleaving, faults refused."""

import random

import numpy as np
import pytest
from plan_cases import wrong_of_calls
from plan_mutants import dropped, misplaced, renumbered, swapped

from wavefabric.collectives import ScheduleError, build
from wavefabric.collectives.plans.check import check_execution_plan
from wavefabric.collectives.plans.moves import Move
from wavefabric.collectives.plans.plan import compile_plan
from wavefabric.collectives.registry import ALGORITHMS
from wavefabric.collectives.schedule import TRANSFER, Schedule
from wavefabric.errors import InputError

KINDS = [(name, c) for name, each in ALGORITHMS.items() if each.switched for c in each.collectives]


@pytest.mark.parametrize("ranks", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("kind", KINDS, ids="-".join)
def test_any_interleaving_gives_the_sums_of_the_schedule(kind, ranks):
    for pieces in (1, 3):
        schedule = build(*kind, ranks, 7 * ranks + 2, pieces=pieces)
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


@pytest.mark.parametrize("kind", KINDS, ids="-".join)
def test_faults_are_refused(kind):
    plan = compile_plan(build(*kind, 3, 9))
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


def test_what_a_plan_cannot_say_is_refused():
    schedule = build("nvls", "all-gather", 4, 64)
    with pytest.raises(InputError, match="protocol: packets given for multicasts or sums by a switch"):
        compile_plan(schedule, "packets")
    rows = [(0, 0, r, 0, 0, 0, 0, 1, True, 1) for r in (1, 2)]
    sizes = (np.ones((3, 1), np.int64),)
    adding = Schedule("adding", 3, ("data",), sizes, np.array(rows, TRANSFER), {}, {})
    with pytest.raises(InputError, match="adding adds what a switch sends to what is there"):
        compile_plan(adding)
