"""The checker accepts every plan that is compiled, and refuses faults; what does no harm is listed here."""

import random
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_cases import CASES, VARIANTS, everything, wrong_of_calls
from plan_mutants import dropped, misplaced, renumbered, swapped, with_code

from wavefabric.collectives import ScheduleError, build
from wavefabric.collectives.plans.check import check_execution_plan
from wavefabric.collectives.plans.order import Barrier, Signal, Wait
from wavefabric.collectives.plans.plan import compile_plan

#: Algorithms of different kinds: name, collective, ranks, options.
KINDS = [
    ("ring", "all-reduce", 3, {}),
    ("ring", "broadcast", 3, {"pieces": 3}),
    ("recursive", "all-reduce", 4, {"radix": 4}),
    ("recursive-exchange", "all-reduce", 4, {}),
    ("bruck", "all-to-all", 3, {}),
    ("direct", "all-reduce", 3, {}),
    ("direct", "all-gather", 3, {}),
    ("tree", "all-reduce", 4, {"pieces": 2}),
]
PLANS = [
    pytest.param(
        kind,
        variant,
        id=f"{kind[0]}-{kind[1]}-{variant[0]}-{variant[1]}",
        marks=[pytest.mark.slow] * ((number + position) % len(VARIANTS) > 0),
    )
    for number, kind in enumerate(KINDS)
    for position, variant in enumerate(VARIANTS)
]


def plan_of(kind, variant):
    name, collective, ranks, options = kind
    return compile_plan(build(name, collective, ranks, 3 * ranks + 2, **options), *variant)


def verdict(plan):
    """ "refused" by the checker, or else whether one interleaving gives "wrong" data or is "right"."""
    try:
        check_execution_plan(plan)
    except ScheduleError:
        return "refused"
    return "wrong" if wrong_of_calls(plan, random.Random(1).randrange, blocks=1, unit=100) else "right"


@pytest.mark.parametrize("ranks", [1, 2, *(pytest.param(n, marks=pytest.mark.slow) for n in range(3, 9))])
def test_every_plan_of_the_registry_is_accepted(ranks):
    for number, schedule in enumerate(everything(ranks)):
        for variant in VARIANTS if ranks < 6 else (VARIANTS[number % len(VARIANTS)],):
            check_execution_plan(compile_plan(schedule, *variant))


@pytest.mark.slow
@settings(max_examples=100)
@given(schedule=CASES, variant=st.sampled_from(VARIANTS))
def test_every_plan_is_accepted(schedule, variant):
    check_execution_plan(compile_plan(schedule, *variant))


# --- Faults -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "variant"), PLANS)
def test_nothing_can_be_left_out(kind, variant):
    """No signal, wait or barrier is there without need."""
    for _, plan in dropped(plan_of(kind, variant)):
        assert verdict(plan) == "refused"


@pytest.mark.parametrize(("kind", "variant"), PLANS)
def test_waits_for_earlier_signals_are_refused(kind, variant):
    for plan in renumbered(plan_of(kind, variant), -1):
        assert verdict(plan) == "refused"


@pytest.mark.parametrize(("kind", "variant"), PLANS)
def test_waits_for_later_signals_are_for_ever_or_merely_late(kind, variant):
    """A later signal of the same rank says at least as much, if it comes."""
    for plan in renumbered(plan_of(kind, variant), 1):
        assert verdict(plan) in ("refused", "right")


#: Neighbours that may be swapped without harm, sometimes or always, and why.
HARMLESS_SWAPS = {
    ("Move", "Move"): "they are of one step: none touches what the other writes",
    ("Signal", "Wait"): "the signal is late, but nobody needs it for what is waited for here",
    ("Signal", "Move"): "the signal is late: it says no less",
    ("Move", "Wait"): "the move is late; nobody has been told of it yet",
    ("Move", "Barrier"): "the move is after the barrier, which was there for a move before it",
    ("Move", "Signal"): "the signal was for a move before this one",
    ("Wait", "Move"): "the wait is for a move that comes later in its step",
}


@pytest.mark.parametrize(("kind", "variant"), PLANS)
def test_swapped_neighbours_are_refused_or_harmless(kind, variant):
    results = Counter()
    for what, plan in swapped(plan_of(kind, variant)):
        results[what, verdict(plan)] += 1
    for (what, result), _ in results.items():
        assert result == "refused" or (result == "right" and what in HARMLESS_SWAPS)
        if what == ("Move", "Move"):
            assert result == "right"


@pytest.mark.parametrize(("kind", "variant"), PLANS)
def test_wrong_places_are_refused(kind, variant):
    """Without harm only: a target that is written again before it is read, or is never promised."""
    results = Counter((end, verdict(plan)) for end, plan in misplaced(plan_of(kind, variant)))
    assert results["targets", "refused"] > 0
    assert results["targets", "right"] * 10 <= results["targets", "refused"]
    assert {result for end, result in results if end == "sources"} <= {"refused"}
    assert {result for _, result in results} <= {"refused", "right"}


def test_waits_that_are_merely_cautious():
    """In two slots a rank ends when it knows that receivers have begun; here the next call would tell it."""
    schedule = build("double-tree", "reduce", 3, 11)
    results = Counter((what, verdict(plan)) for what, plan in dropped(compile_plan(schedule, "signals", 2)))
    assert results.pop(("Wait", "right")) == 2
    assert {result for _, result in results} == {"refused"}
    results = Counter((what, verdict(plan)) for what, plan in dropped(compile_plan(schedule, "signals", 1)))
    assert {result for _, result in results} == {"refused"}


# --- Messages -----------------------------------------------------------------------------------------


def gather(ranks=2):
    """A plan of two ranks: each says that it has begun, waits, puts, says so, waits."""
    return compile_plan(build("direct", "all-gather", ranks, 4 * ranks))


def refusal(plan):
    with pytest.raises(ScheduleError) as error:
        check_execution_plan(plan)
    return str(error.value)


def test_the_plan_that_messages_are_of():
    code = gather().instructions[0]
    assert [type(each).__name__ for each in code] == ["Signal", "Wait", "Move", "Signal", "Wait"]
    assert code[1] == Wait(((1, 1),))
    check_execution_plan(gather())


def test_a_write_that_may_come_too_early():
    code = gather().instructions[0]
    message = refusal(with_code(gather(), 0, (code[0], *code[2:])))
    assert message == (
        "direct all-gather: rank 1, its caller between calls writes buffer 0 of rank 1, written by rank 0, "
        "and nothing orders them"
    )
    code = gather().instructions[1]
    message = refusal(with_code(gather(), 1, (code[0], *code[2:])))
    assert message.startswith("direct all-gather: rank 1, instruction 1, Move(rank=1, ")
    assert message.endswith(" writes buffer 0 of rank 0, written by rank 0, and nothing orders them")


def test_ranks_that_wait_for_ever():
    for each in (Wait(((1, 3),)), Wait(((0, 1),))):
        code = gather().instructions[0]
        message = refusal(with_code(gather(), 0, (*code[:4], each)))
        assert message == f"direct all-gather: rank 0 waits for ever: instruction 4, {each}"


def test_a_wait_for_no_signal_teaches_nothing():
    code = gather().instructions[0]
    assert "nothing orders them" in refusal(with_code(gather(), 0, (code[0], Wait(((1, 0),)), *code[2:])))


def test_packets_that_never_come():
    plan = compile_plan(build("direct", "all-reduce", 2, 4), "packets")
    code = plan.instructions[0]
    message = refusal(with_code(plan, 0, code[1:]))
    assert message.startswith("direct all-reduce: rank 0 waits for ever: instruction 1, Move(rank=0, ")
    # The other way round: both want to read before they put.
    backwards = replace(plan, instructions=tuple(code[::-1] for code in plan.instructions))
    assert "waits for ever: instruction 0, Move(" in refusal(backwards)


def test_threads_of_a_block_need_barriers():
    plan = compile_plan(build("ring", "all-reduce", 2, 8), "packets")
    code = plan.instructions[0]
    (at,) = (k for k, each in enumerate(code) if each == Barrier())
    message = refusal(with_code(plan, 0, (*code[:at], *code[at + 1 :])))
    assert message.startswith(f"ring all-reduce: rank 0, instruction {at}, Move(")
    assert message.endswith("of rank 0, read by rank 0, and nothing orders them")
    # Signals have a barrier of their own.
    assert verdict(with_code(gather(), 0, (Barrier(), *gather().instructions[0]))) == "right"
    assert isinstance(gather().instructions[0][0], Signal)
