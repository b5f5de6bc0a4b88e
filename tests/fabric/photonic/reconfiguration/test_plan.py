"""Circuits that outlive rounds on tiles: proved apart from the search, and within its extremes."""

from dataclasses import replace

import numpy as np
import pytest

from wavefabric.collectives import point_to_point
from wavefabric.collectives.conditions import whole_elements
from wavefabric.collectives.registry import build
from wavefabric.errors import InputError
from wavefabric.fabric import load
from wavefabric.fabric.cost_models.photonic import photonic
from wavefabric.fabric.photonic.check import PlanError, check_reconfiguration
from wavefabric.fabric.photonic.reconfiguration.plan import plan_reconfiguration


def case(algorithm="recursive", tiles="2x4", nbytes=2.0**20, reconfiguration=3.7e-6, **changes):
    fabric = replace(load(f"lightpath:{tiles}"), reconfiguration=reconfiguration, **changes)
    name, _, radix = algorithm.partition(":")
    more = {"radix": int(radix)} if radix else {}
    schedule = build(name, "all-reduce", fabric.ranks, fabric.ranks, **more)
    return schedule, fabric, nbytes / whole_elements(schedule)


@pytest.mark.parametrize("algorithm", ["recursive", "ring", "recursive:4"])
@pytest.mark.parametrize("reconfiguration", [1e-8, 3.7e-6, 1e-3])
@pytest.mark.parametrize("nbytes", [2.0**12, 2.0**24])
def test_the_best_is_proved_and_within_the_extremes(algorithm, reconfiguration, nbytes):
    schedule, fabric, element = case(algorithm, nbytes=nbytes, reconfiguration=reconfiguration)
    best, never = (photonic(schedule, fabric, element, reconfigure=r) for r in ("best", "never"))
    always, plan = photonic(schedule, fabric, element).seconds, best.reconfiguration
    assert plan.bound <= plan.least * (1 + 1e-12)
    assert plan.least <= plan.seconds == best.seconds <= never.seconds
    assert best.seconds <= always * (1 + 1e-12)
    assert plan.always == pytest.approx(always, rel=1e-12)
    assert plan.never == never.seconds
    assert never.reconfiguration.never == never.seconds
    assert best.bound.seconds <= best.seconds * (1 + 1e-12)
    parts = np.array([[r.latency, r.reconfiguration, r.transfer] for r in best.rounds])
    assert parts.min() >= -1e-15
    assert parts.sum() == pytest.approx(best.seconds, rel=1e-9)


def test_set_up_that_takes_nothing_is_always_and_endless_set_up_is_never():
    schedule, fabric, element = case(nbytes=2.0**24, reconfiguration=0.0)
    free = photonic(schedule, fabric, element, reconfigure="best")
    assert free.seconds == pytest.approx(photonic(schedule, fabric, element).seconds, rel=1e-12)
    slow = replace(fabric, reconfiguration=1.0)
    best, never = (photonic(schedule, slow, element, reconfigure=r) for r in ("best", "never"))
    assert 1.0 < best.seconds <= never.seconds < 1.01
    assert all(r.limit.startswith(("keep", "forward", "change", "ahead")) for r in best.rounds)


def test_synchronisation_is_paid_with_set_ups_alone():
    schedule, fabric, element = case("ring", synchronisation=1e-6)
    result = photonic(schedule, fabric, element, reconfigure="never")
    assert [r.reconfiguration for r in result.rounds] == [pytest.approx(4.7e-6), *[0.0] * 13]


def test_the_next_circuits_are_set_up_while_a_long_round_runs():
    schedule, fabric, element = case()
    plan = plan_reconfiguration(schedule, fabric, element)
    assert "ahead" in [step.choice for _, _, step, _, _ in plan.rounds]
    check_reconfiguration(plan, schedule, element)


def forwarded():
    """Set-up is dear, and a pair has no circuit of its own."""
    schedule = build("pairwise", "all-to-all", 8, 8)
    fabric = replace(load("lightpath:2x4"), lasers=2, reconfiguration=1.0)
    return plan_reconfiguration(schedule, fabric, 1e3), schedule, 1e3


def test_data_are_forwarded_where_set_up_is_dear():
    plan, schedule, element = forwarded()
    assert any("forward" in step.choice for _, _, step, _, _ in plan.rounds)
    check_reconfiguration(plan, schedule, element)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("early", "in time"),
        ("short", "in time"),
        ("twice", "once"),
        ("missing", "no route"),
        ("again", "each pair once"),
        ("down", "in time"),
    ],
)
def test_a_wrong_plan_is_refused(fault, words):
    plan, schedule, element = forwarded()
    rounds, circuits = list(plan.rounds), list(plan.circuits)
    number, part, step, name, paths = rounds[-1]
    bundle, start, end = circuits[0]
    if fault == "early":
        rounds[0] = (*rounds[0][:2], rounds[0][2]._replace(begin=0.0, end=0.5), *rounds[0][3:])
    elif fault == "short":
        rounds[-1] = number, part, step._replace(end=step.begin + 0.5 * (step.end - step.begin)), name, paths
    elif fault == "twice":
        circuits.append((bundle, start, end))
    elif fault == "missing":
        rounds.pop()
    elif fault == "again":
        rounds.append((number, part, step._replace(begin=step.end, end=2 * step.end), name, paths))
    else:
        circuits[0] = bundle, start, 0.9 * end
    with pytest.raises(PlanError, match=words):
        check_reconfiguration(plan._replace(rounds=rounds, circuits=circuits), schedule, element)


def test_circuits_of_both_rounds_work_while_others_change():
    # 0 -> 1 is in both rounds, and sends on while the one laser of tile 2 is switched from tile 3 to tile 6.
    one, two = (point_to_point("one", 8, [(0, 1, 1000), (2, to, 1)]) for to in (3, 6))
    transfers = np.concatenate([one.transfers, two.transfers])
    transfers["round"][2:] = 1
    fabric = replace(load("lightpath:2x4"), lasers=1, reconfiguration=1e-6)
    plan = plan_reconfiguration(replace(two, transfers=transfers), fabric, 1e3)
    long = 1e6 / fabric.laser_bandwidth
    assert [step.choice for _, _, step, _, _ in plan.rounds] == ["change", "change"]
    assert plan.seconds == pytest.approx(1e-6 + 2 * (long + fabric.alpha), rel=1e-12)
    assert [start for b, start, _ in plan.circuits if b.src == 0] == [0.0]


@pytest.mark.parametrize("more", [{"reconfigure": "often"}, {"reconfigure": "best", "incremental": True}])
def test_bad_options_are_refused(more):
    with pytest.raises(InputError, match="reconfigure: "):
        photonic(*case(), **more)
