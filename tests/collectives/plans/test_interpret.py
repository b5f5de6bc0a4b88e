"""Plans in any interleaving give, to the bit, what the schedule gives in its order, call after call."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_cases import CASES, CHOICES, VARIANTS, everything, noise, verified, wrong_of_calls
from plan_interpreter import Interpreter
from plan_mutants import dropped, with_code

from wavefabric.collectives import ScheduleError, build
from wavefabric.collectives.plans.check import check_execution_plan
from wavefabric.collectives.plans.order import Wait
from wavefabric.collectives.plans.plan import compile_plan


@pytest.mark.slow
@settings(max_examples=100)
@given(
    schedule=st.one_of(CASES, verified()),
    variant=st.sampled_from(VARIANTS),
    choose=CHOICES,
    dtype=st.sampled_from(["f4", "c8"]),
    blocks=st.integers(1, 3),
    unit=st.integers(1, 3),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_interleaving_gives_the_same_bits(schedule, variant, choose, dtype, blocks, unit, seed):
    plan = compile_plan(schedule, *variant)
    check_execution_plan(plan)
    assert wrong_of_calls(plan, choose, dtype, calls=3, blocks=blocks, unit=unit, seed=seed) == []


@pytest.mark.parametrize("ranks", [1, 2, *(pytest.param(n, marks=pytest.mark.slow) for n in range(3, 9))])
def test_everything_of_the_registry(ranks):
    """In all ways up to 4 ranks, then each schedule in one of them."""
    for number, schedule in enumerate(everything(ranks)):
        for variant in VARIANTS if ranks < 5 else (VARIANTS[number % len(VARIANTS)],):
            choose = random.Random(number).randrange
            assert wrong_of_calls(compile_plan(schedule, *variant), choose, seed=number) == []


@settings(max_examples=25)
@given(data=st.data(), variant=st.sampled_from(VARIANTS), seed=st.integers(0, 2**32 - 1))
def test_interleavings_chosen_one_by_one(data, variant, seed):
    """Few steps, so that every choice is hypothesis' own."""
    name = data.draw(st.sampled_from(["ring", "direct", "recursive"]))
    plan = compile_plan(build(name, "all-reduce", 2, 4), *variant)
    assert (
        wrong_of_calls(plan, lambda n: data.draw(st.integers(0, n - 1)), calls=2, blocks=1, seed=seed) == []
    )


def test_ranks_are_in_different_calls():
    """The root of a broadcast goes on to the next call, no further: then its slot is not free."""
    plan = compile_plan(build("direct", "broadcast", 2, 4), "packets")
    begun, ahead = [0, 0], []

    def before(rank, call):
        begun[rank] = call
        ahead.append(begun[0] - begun[1])

    memory = noise(plan.schedule, "f4", np.random.default_rng(0))
    Interpreter(plan, memory).run(lambda n: 0, 5, before)
    assert max(ahead) == 1


#: Plans in which every single wait that is missing gives wrong data in some order of two ranks' instructions.
SMALL = [
    ("ring", "all-reduce", ("signals", 1)),
    ("ring", "all-reduce", ("signals", 2)),
    ("direct", "all-gather", ("signals", None)),
    ("direct", "all-reduce", ("signals", 1)),
    ("direct", "all-reduce", ("signals", 2)),
    ("direct", "all-to-all", ("signals", None)),
    ("direct", "broadcast", ("signals", None)),
    ("direct", "broadcast", ("packets", None)),
]


@pytest.mark.parametrize(("name", "collective", "variant"), SMALL, ids=lambda v: str(v))
def test_a_missing_wait_shows(name, collective, variant):
    """What the checker refuses is wrong indeed: some interleaving gives wrong data, or never ends."""
    choices = [lambda n: 0, lambda n: n - 1, *(random.Random(seed).randrange for seed in range(200))]
    plan = compile_plan(build(name, collective, 2, 4), *variant)
    faulty = [each for what, each in dropped(plan) if what == "Wait"]
    assert faulty

    def shows(each, choose):
        try:
            return wrong_of_calls(each, choose, calls=5, blocks=1, unit=1)
        except ScheduleError:
            return True

    for each in faulty:
        assert any(shows(each, choose) for choose in choices)


def test_ranks_that_wait_for_ever():
    plan = compile_plan(build("direct", "all-gather", 2, 4))
    code, wait = plan.instructions[1], Wait(((0, 3),))
    for stuck, ranks in (((*code[:-1], wait), r"\[1\]"), ((wait, *code), r"\[0, 1\]")):
        with pytest.raises(ScheduleError, match=f"^direct all-gather: ranks {ranks} wait for ever$"):
            wrong_of_calls(with_code(plan, 1, stuck), lambda n: 0)


@pytest.mark.parametrize("variant", VARIANTS)
def test_whole_numbers(variant):
    plan = compile_plan(build("recursive", "all-reduce", 4, 30), *variant)
    assert wrong_of_calls(plan, random.Random(0).randrange, "i4", blocks=3, unit=1) == []


def test_every_block_has_its_slice():
    """Block after block, its slice comes and no other."""
    plan = compile_plan(build("direct", "broadcast", 2, 12), "packets")
    memory = [[np.arange(1.0, 13)], [np.zeros(12)]]
    seen = []

    def choose(n):
        seen.append(tuple(memory[1][0][::4] > 0))
        return 0

    Interpreter(plan, memory, blocks=3, unit=4).run(choose)
    assert np.array_equal(memory[1][0], memory[0][0])
    assert list(dict.fromkeys(seen)) == [(False, False, False), (True, False, False), (True, True, False)]
