"""Circuits that outlive rounds on tiles: proved apart from the search, and within its extremes."""

from dataclasses import replace

import numpy as np
import pytest

from wavefabric.base.errors import InputError
from wavefabric.collectives import point_to_point
from wavefabric.collectives.conditions import whole_elements
from wavefabric.collectives.registry import build
from wavefabric.fabric import load
from wavefabric.fabric.cost_models.photonic import photonic
from wavefabric.fabric.photonic.check import PlanError, check_reconfiguration
from wavefabric.fabric.photonic.reconfiguration.plan import plan_reconfiguration


def case(algorithm="recursive", nbytes=2.0**20, reconfiguration=3.7e-6, **changes):
    fabric = replace(load("lightpath:2x4"), reconfiguration=reconfiguration, **changes)
    schedule = build(algorithm, "all-reduce", 8, 8)
    return schedule, fabric, nbytes / whole_elements(schedule)


@pytest.mark.parametrize("algorithm", ["recursive", "ring"])
@pytest.mark.parametrize(
    ("reconfiguration", "nbytes"),
    [
        (1e-8, 2.0**12),
        pytest.param(3.7e-6, 2.0**24, marks=pytest.mark.slow),
        pytest.param(1e-3, 2.0**24, marks=pytest.mark.slow),
    ],
)
def test_the_best_is_proved_and_within_the_extremes(algorithm, reconfiguration, nbytes):
    schedule, fabric, element = case(algorithm, nbytes, reconfiguration)
    best, never = (photonic(schedule, fabric, element, reconfigure=r) for r in ("best", "never"))
    always, plan, more = photonic(schedule, fabric, element).seconds, best.reconfiguration, 1 + 1e-12
    assert plan.bound <= plan.least * more
    assert plan.least <= plan.seconds == best.seconds <= plan.never == never.seconds
    assert best.seconds <= always * more
    assert plan.always == pytest.approx(always, rel=1e-12)
    assert best.bound.seconds <= best.seconds * more
    parts = np.array([[r.latency, r.reconfiguration, r.transfer] for r in best.rounds])
    assert parts.min() >= -1e-15
    assert parts.sum() == pytest.approx(best.seconds, rel=1e-9)


def test_synchronisation_is_paid_with_set_ups_alone():
    result = photonic(*case("ring", synchronisation=1e-6), reconfigure="never")
    assert [r.reconfiguration for r in result.rounds] == [pytest.approx(4.7e-6), *[0.0] * 13]


@pytest.mark.slow
def test_the_next_circuits_are_set_up_while_a_long_round_runs():
    plan = plan_reconfiguration(*case())
    assert "ahead" in [step.choice for _, _, step, _, _ in plan.rounds]


def test_planes_that_stop_early_are_proved_to_carry_their_part():
    _, fabric, _ = case(reconfiguration=1e-5)
    schedule = build("bruck", "all-to-all", 8, 8)
    element = 2.0**22 / whole_elements(schedule)
    plan = plan_reconfiguration(schedule, fabric, element)
    assert any(min(step.free) < step.end for _, _, step, *_ in plan.rounds)
    check_reconfiguration(plan, schedule, element)
    with pytest.raises(PlanError, match="in time"):
        check_reconfiguration(plan, schedule, element * 1.01)


def test_circuits_of_both_rounds_work_while_others_change():
    # 0 -> 1 is in both rounds, and sends on while the one laser of tile 2 is switched from tile 3 to tile 6.
    one, two = (point_to_point("", 8, [(0, 1, 1000), (2, to, 1)]) for to in (3, 6))
    transfers = np.concatenate([one.transfers, two.transfers])
    transfers["round"][2:] = 1
    fabric = replace(load("lightpath:2x4"), lasers=1, reconfiguration=1e-6)
    plan = plan_reconfiguration(replace(two, transfers=transfers), fabric, 1e3)
    long = 1e6 / fabric.laser_bandwidth
    assert plan.seconds == pytest.approx(1e-6 + 2 * (long + fabric.alpha), rel=1e-12)
    assert [start for b, start, _ in plan.circuits if b.src == 0] == [0.0]


@pytest.mark.parametrize("fault", ["in time", "once", "no route", "each pair once"])
def test_a_wrong_plan_is_refused(fault):
    # Set-up is dear, and most pairs have no circuit of their own.
    fabric = replace(load("lightpath:2x4"), lasers=2, reconfiguration=1.0)
    schedule, element = build("pairwise", "all-to-all", 8, 8), 1e3
    plan = plan_reconfiguration(schedule, fabric, element)
    assert any("forward" in each[2].choice for each in plan.rounds)
    rounds, circuits = list(plan.rounds), list(plan.circuits)
    number, part, step, *more = rounds[-1]
    if fault == "in time":
        rounds[-1] = number, part, step._replace(end=step.begin + 0.5 * (step.end - step.begin)), *more
    elif fault == "once":
        circuits.append(circuits[0])
    elif fault == "no route":
        rounds.pop()
    else:
        rounds.append((number, part, step._replace(begin=step.end, end=2 * step.end), *more))
    check_reconfiguration(plan, schedule, element)
    with pytest.raises(PlanError, match=fault):
        check_reconfiguration(plan._replace(rounds=rounds, circuits=circuits), schedule, element)


@pytest.mark.parametrize("more", [{"reconfigure": "often"}, {"reconfigure": "best", "incremental": True}])
def test_bad_options_are_refused(more):
    with pytest.raises(InputError, match="reconfigure: "):
        photonic(*case(), **more)
