"""What a plan leaves is compared with its schedule as expressions: no order of sums but the schedule's."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_cases import VARIANTS, messages, verified, wrong_of_calls
from plan_mutants import misplaced, with_code

from wavefabric.collectives import ScheduleError, build
from wavefabric.collectives.plans import moves as module
from wavefabric.collectives.plans.check import check_execution_plan, check_values
from wavefabric.collectives.plans.moves import STAGING, Move
from wavefabric.collectives.plans.order import Signal, Wait
from wavefabric.collectives.plans.plan import compile_plan


def refusal(plan):
    with pytest.raises(ScheduleError) as error:
        check_execution_plan(plan)
    return str(error.value)


@pytest.mark.slow
@settings(max_examples=60)
@given(schedule=verified(), variant=st.sampled_from(VARIANTS), data=st.data())
def test_a_wrong_place_is_refused_where_it_gives_wrong_data(schedule, variant, data):
    plan = compile_plan(schedule, *variant)
    check_execution_plan(plan)
    faulty = [each for _, each in misplaced(plan)]
    if not faulty:
        return
    plan = faulty[data.draw(st.integers(0, len(faulty) - 1))]
    try:
        check_execution_plan(plan)
    except ScheduleError:
        return
    assert wrong_of_calls(plan, lambda n: 0) == []


@pytest.mark.parametrize(
    "rows",
    [
        [(0, "1a", "1b"), (1, "1b", "0c"), (1, "0d", "1a")],
        [(0, "0a", "0b"), (0, "1e", "0c"), (1, "0c", "1c"), (1, "0b", "1d"), (1, "0c", "0a")],
    ],
)
def test_what_is_read_too_late_is_refused(rows, monkeypatch):
    """Ordered, but the wrong way round: moves joined where another overwrites their sources."""
    schedule = messages(rows)
    check_execution_plan(compile_plan(schedule))
    monkeypatch.setattr(module, "_may_wait", lambda first, move, writes: first.rank == move.rank)
    message = refusal(compile_plan(schedule))
    assert message.startswith("messages: ")
    assert message.endswith(" does not hold the schedule's sum at the end")


def sum_of(plan, rank=0):
    """Number of the rank's move that adds, and that move."""
    return next(
        (at, each)
        for at, each in enumerate(plan.instructions[rank])
        if isinstance(each, Move) and len(each.sources) > 2
    )


@pytest.mark.parametrize("variant", VARIANTS)
def test_sums_in_another_order_are_refused(variant):
    plan = compile_plan(build("direct", "all-reduce", 3, 6), *variant)
    at, move = sum_of(plan)

    def reordered(*order):
        code = plan.instructions[0]
        sources = tuple(move.sources[k] for k in order)
        return with_code(plan, 0, (*code[:at], replace(move, sources=sources), *code[at + 1 :]))

    for order in ((0, 2, 1), (2, 1, 0), (1, 2, 0), (2, 0, 1)):
        message = refusal(reordered(*order))
        assert message == "direct all-reduce: data[0] of rank 0 does not hold the schedule's sum at the end"
    check_execution_plan(reordered(1, 0, 2))  # a + b is b + a


@pytest.mark.parametrize("variant", VARIANTS[:3])
def test_places_must_be_those_of_the_schedule(variant):
    """Their key, and where they lie, and how long they are."""
    plan = compile_plan(build("direct", "all-reduce", 3, 6), *variant)
    at, move = sum_of(plan)
    staging_buffer = next(address for address in move.sources if address.buffer == STAGING)
    own = move.sources[0]
    faulty = [
        replace(move, sources=(own._replace(first=1), *move.sources[1:])),
        replace(move, sources=(own._replace(buffer=1), *move.sources[1:])),
        replace(move, size=5),
        replace(move, sources=(own, staging_buffer._replace(rank=1))),
        replace(move, sources=(own, staging_buffer._replace(key=-1 - len(plan.staging)))),
    ]
    for each in faulty:
        code = plan.instructions[0]
        with pytest.raises(
            ScheduleError, match=r"^direct all-reduce: Address\(.* is none of the schedule's addresses$"
        ):
            check_values(with_code(plan, 0, (*code[:at], each, *code[at + 1 :])))


def test_a_staging_buffer_that_is_read_too_early_is_refused():
    plan = compile_plan(build("direct", "all-reduce", 2, 6))
    code = [tuple(each for each in code if not isinstance(each, Wait)) for code in plan.instructions]
    assert [type(each) for each in code[0]] == [Move, Signal, Move]
    with pytest.raises(
        ScheduleError, match=r"rank 0, instruction 2, .* reads staging buffer 1 before it has come$"
    ):
        check_values(replace(plan, instructions=tuple(code)))
