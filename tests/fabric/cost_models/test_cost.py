"""Costs of every algorithm on many fabrics: never below the bound, growing with the bytes, fast."""

import time
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wavefabric.base.errors import InputError
from wavefabric.collectives import point_to_point
from wavefabric.collectives.conditions import ROOTED
from wavefabric.collectives.registry import ALGORITHMS, build, why_refused
from wavefabric.fabric import cost, load
from wavefabric.fabric.cost_models.alpha_beta import alpha_beta

FABRICS = ["switch:8", "ring:6", "mesh:2x4", "torus:3x3", "hypercube:3", "dgx-1", "pny-p40", "hgx-h200"]


@st.composite
def schedules(draw, most):
    algorithm = ALGORITHMS[draw(st.sampled_from(sorted(ALGORITHMS)))]
    collective = draw(st.sampled_from(algorithm.collectives))
    ranks = draw(st.integers(1, most))
    options = {}
    if "pieces" in algorithm.options:
        options["pieces"] = draw(st.integers(1, 3))
    if "radix" in algorithm.options:
        options["radix"] = draw(st.integers(2, 4))
    if "root" in algorithm.options and collective in ROOTED:
        options["root"] = draw(st.integers(0, ranks - 1))
    if "grid" in algorithm.options:
        options["grid"] = draw(st.sampled_from([(1, ranks), (2, max(ranks // 2, 1))]))
    elements = draw(st.sampled_from([1, 7, 40, 1000]))
    if why_refused(algorithm.name, collective, ranks, **options):
        algorithm, collective, options = ALGORITHMS["direct"], "all-gather", {}
    return build(algorithm.name, collective, ranks, elements, **options)


@settings(max_examples=25)
@given(st.data())
def test_no_schedule_beats_the_bound(data):
    fabric = load(data.draw(st.sampled_from(FABRICS)))
    if data.draw(st.booleans()):
        most = st.sampled_from([None, 1e10, 3e11])
        fabric = replace(fabric, copy_bandwidth=data.draw(most), flow_bandwidth=data.draw(most))
    schedule = data.draw(schedules(min(fabric.ranks, 8)))
    if schedule.transfers["switch"].any():
        # Where a switch is all that joins GPUs; elsewhere such schedules are refused.
        if fabric.switches != ("switch",):
            return
        fabric = replace(fabric, multicast_switches=fabric.switches)
    element_bytes = 10.0 ** data.draw(st.integers(-2, 7))
    for options in ({"model": "alpha-beta"}, {"model": "flow"}, {"model": "flow", "engines": 1}):
        done = cost(schedule, fabric, element_bytes, **options)
        assert done.seconds >= done.bound.seconds * (1 - 1e-9)
        last = done.times.max(initial=0.0)
        # Where hosts take time to issue rounds, they may be what is last.
        assert done.seconds == pytest.approx(last) or (fabric.round_overhead and done.seconds > last)
        assert cost(schedule, fabric, element_bytes * 1.5, **options).seconds >= done.seconds * (1 - 1e-12)


@pytest.mark.parametrize("model", ["alpha-beta", "flow"])
def test_a_direct_all_to_all_meets_the_bound_on_a_switch(model):
    done = cost(build("direct", "all-to-all", 8, 64), load("switch:8"), 1e6, model)
    assert done.seconds == pytest.approx(done.bound.seconds)
    assert (done.schedule, done.fabric, done.model) == ("direct all-to-all", "switch:8", model)


def test_flows_meet_the_bound_of_an_all_to_all_on_tori():
    schedule = build("direct", "all-to-all", 32, 32)
    for name in ("torus:4x8", "hypercube:5", "ring:32"):
        done = cost(schedule, load(name), 1e6, "flow")
        assert done.seconds == pytest.approx(done.bound.seconds, rel=1e-6), name


def test_models_that_do_not_fit():
    schedule = point_to_point("m", 2, [(0, 1, 1)])
    for fabric, model, message in (
        (
            "ring:2",
            "photonic",
            "model: 'photonic' given for electrical ring:2; allowed: auto, alpha-beta, flow, kernel",
        ),
        ("lightpath", "flow", "model: 'flow' given for photonic lightpath; allowed: auto, photonic"),
        ("switch:2", "guess", 'model: "guess" given; allowed: auto, alpha-beta, flow, kernel, photonic'),
    ):
        with pytest.raises(InputError) as error:
            cost(schedule, load(fabric), 1.0, model)
        assert str(error.value) == message


@pytest.mark.parametrize("size", [0, -1.0, float("nan"), float("inf"), "4", True, None, 1e18])
def test_bad_sizes_of_an_element(size):
    with pytest.raises(InputError, match=r"element_bytes: .* given; allowed: above 0 and below 1e18"):
        cost(point_to_point("m", 2, [(0, 1, 1)]), load("switch:2"), size)


def test_more_ranks_than_gpus():
    for name in ("switch:2", "lightpath:1x2"):
        with pytest.raises(InputError) as error:
            cost(point_to_point("m", 3, [(0, 1, 1)]), load(name), 1.0)
        assert str(error.value) == f"ranks: 3 in m; allowed: at most the 2 GPUs of {name}"


def test_auto_is_alpha_beta_on_electrical_and_photonic_on_light():
    schedule = build("recursive", "all-reduce", 8, 8)
    assert cost(schedule, load("torus:2x4"), 1e6) == alpha_beta(schedule, load("torus:2x4"), 1e6)
    light = cost(schedule, load("lightpath:2x4"), 1e6)
    assert light.model == "photonic"
    assert light.seconds >= light.bound.seconds


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "collective", "model", "limit"),
    [
        ("ring", "all-reduce", "alpha-beta", 2),
        pytest.param("ring", "all-reduce", "flow", 4, marks=pytest.mark.slow),
        pytest.param("pairwise", "all-to-all", "alpha-beta", 4, marks=pytest.mark.slow),
    ],
)
def test_256_ranks_are_costed_at_once(algorithm, collective, model, limit):
    schedule = build(algorithm, collective, 256, 65536)
    fabric = load("torus:16x16")
    cost(build("ring", "all-gather", 4, 4), load("ring:4"), 1.0, model)  # imports, and what is compiled
    begin = time.process_time()
    done = cost(schedule, fabric, 4.0, model)
    assert time.process_time() - begin < limit
    assert done.seconds > done.bound.seconds
