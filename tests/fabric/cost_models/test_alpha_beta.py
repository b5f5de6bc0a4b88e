"""Rounds that follow one another, against formulas and a slow, plain sum."""

from dataclasses import replace
from math import ceil, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wavefabric.collectives import point_to_point
from wavefabric.collectives.registry import build
from wavefabric.fabric.cost_models.alpha_beta import alpha_beta
from wavefabric.fabric.electrical.fabric import Fabric, Link
from wavefabric.fabric.electrical.static_routes import static_routes, transfer_bytes
from wavefabric.fabric.io.files import load

ALPHA, RATE = 0.7e-6, 300 * 2.0**30


def seconds(algorithm, collective, ranks, size, fabric=None, **options):
    schedule = build(algorithm, collective, ranks, ranks, **options)
    return alpha_beta(schedule, load(fabric or f"switch:{ranks}"), size / ranks).seconds


@pytest.mark.parametrize("ranks", [4, 32])
@pytest.mark.parametrize("size", [2.0**12, 2.0**26])
def test_formulas_of_the_paper_on_an_ideal_switch(ranks, size):
    steps, fraction = log(ranks, 2), (ranks - 1) / ranks * size / RATE
    ring = 2 * (ranks - 1) * ALPHA + 2 * fraction
    assert seconds("ring", "all-reduce", ranks, size) == pytest.approx(ring)
    assert seconds("recursive", "all-reduce", ranks, size) == pytest.approx(2 * steps * ALPHA + 2 * fraction)
    assert seconds("direct", "all-to-all", ranks, size) == pytest.approx(ALPHA + fraction)
    assert seconds("pairwise", "all-to-all", ranks, size) == pytest.approx((ranks - 1) * ALPHA + fraction)
    assert seconds("binomial", "broadcast", ranks, size) == pytest.approx(steps * (ALPHA + size / RATE))
    # Bruck's index algorithm sends half of all blocks in each of its rounds.
    bruck = ceil(steps) * (ALPHA + size / 2 / RATE)
    assert seconds("bruck", "all-to-all", ranks, size) == pytest.approx(bruck)


def test_a_ring_is_the_same_on_a_ring_and_a_switch_but_not_recursive_halving():
    for name in ("ring:16", "torus:4x4", "hypercube:4"):
        assert seconds("ring", "all-reduce", 16, 1e6, name) >= seconds("ring", "all-reduce", 16, 1e6) - 1e-18
    # Halving on a ring of 16: partners 8 apart, whose ways share links with those of 3 or 7 others.
    assert seconds("recursive", "all-reduce", 16, 1e8, "ring:16") > 2 * seconds("ring", "all-reduce", 16, 1e8)
    assert seconds("recursive", "all-reduce", 16, 1e8, "hypercube:4") == pytest.approx(
        seconds("recursive", "all-reduce", 16, 1e8)
    )


def test_rounds_say_what_limits_them():
    fabric = replace(load("dgx-1"), links=tuple(replace(k, latency=1e-6) for k in load("dgx-1").links))
    # Over QPI: both ways of the same two sockets cross PLX0 -> CPU0.
    done = alpha_beta(point_to_point("m", 8, [(0, 5, 1), (1, 6, 1), (2, 3, 1)]), fabric, 63e6)
    (only,) = done.rounds
    assert only.limit == done.busiest == "link PLX0 -> CPU0"
    assert (only.round, only.parts, only.bytes) == (0, 1, 3 * 63e6)
    assert only.latency == pytest.approx(0.7e-6 + 5e-6)
    assert only.transfer == pytest.approx(8e-3)
    assert only.seconds == done.seconds == pytest.approx(only.latency + only.transfer)


def test_limits_of_a_gpu_and_of_a_transfer():
    fabric = replace(load("switch:4"), copy_bandwidth=1e9)
    fan = point_to_point("fan", 4, [(0, 1, 1), (0, 2, 1), (3, 2, 1)])
    assert alpha_beta(fan, fabric, 1e6).rounds[0].limit == "GPU0 sends"
    into = point_to_point("fan", 4, [(1, 0, 1), (2, 0, 1)])
    assert alpha_beta(into, fabric, 1e6).rounds[0].limit == "GPU0 receives"
    assert alpha_beta(into, fabric, 1e6).rounds[0].transfer == pytest.approx(2e-3)
    slow = replace(fabric, flow_bandwidth=0.1e9)
    two = point_to_point("fan", 4, [(1, 0, 1), (2, 0, 1), (2, 0, 1)])
    assert alpha_beta(two, slow, 1e6).rounds[0].limit == "one transfer GPU2 -> GPU0"
    assert alpha_beta(two, slow, 1e6).rounds[0].transfer == pytest.approx(20e-3)


def test_rounds_within_ranks_are_free_and_not_listed():
    schedule = build("direct", "all-reduce", 4, 8)
    assert schedule.rounds > schedule.communication_rounds == 1
    done = alpha_beta(schedule, load("switch:4"), 1e6)
    assert [r.round for r in done.rounds] == [0]
    local = schedule.transfers["src"] == schedule.transfers["dst"]
    np.testing.assert_allclose(done.times[local], done.seconds)
    np.testing.assert_allclose(done.times[~local], [[0, done.seconds]] * np.count_nonzero(~local))
    inside = alpha_beta(point_to_point("copy", 4, [(1, 1, 9)]), load("switch:4"), 1e6)
    assert (inside.seconds, inside.rounds, inside.busiest) == (0.0, (), "nothing")


@st.composite
def cases(draw):
    ranks = draw(st.integers(2, 6))
    rank = st.integers(0, ranks - 1)
    rows = draw(st.lists(st.tuples(rank, rank, st.integers(1, 9)), min_size=1, max_size=12))
    name = draw(st.sampled_from(["ring:6", "mesh:2x3", "dgx-1", "hgx-h200", "pny-p40"]))
    free = {"reduce_bandwidth": None, "round_overhead": 0.0, "peer_overhead": 0.0, "reduce_overhead": 0.0}
    fabric = replace(load(name), copy_bandwidth=draw(st.sampled_from([None, 1e10])), **free)
    links = tuple(replace(k, latency=1e-6 * (len(k.target) % 3)) for k in fabric.links)
    schedule = point_to_point("messages", ranks, rows)
    schedule.transfers["round"] = np.sort(
        draw(st.lists(st.integers(0, 5), min_size=len(rows), max_size=len(rows)))
    )
    return schedule, replace(fabric, links=links)


def plainly(schedule, fabric, element_bytes):
    """The model, one transfer after the other."""
    total = 0.0
    routes = static_routes(fabric)
    w = routes.wires
    for number in np.unique(schedule.transfers["round"]):
        load_of: dict = {}
        latency = None
        for t, size in zip(schedule.transfers, transfer_bytes(schedule, element_bytes), strict=True):
            if t["round"] != number or t["src"] == t["dst"]:
                continue
            route = routes.wires_of(np.array([t["src"]]), np.array([t["dst"]]))[1].tolist()
            latency = max(latency or 0.0, sum(w.latency[k] for k in route))
            for k in route:
                load_of[k] = load_of.get(k, 0) + size / w.bandwidth[k]
            for end in ("src", "dst"):
                if fabric.copy_bandwidth:
                    key = end, int(t[end])
                    load_of[key] = load_of.get(key, 0) + size / fabric.copy_bandwidth
            if fabric.flow_bandwidth:
                key = "pair", int(t["src"]), int(t["dst"])
                load_of[key] = load_of.get(key, 0) + size / fabric.flow_bandwidth
        if latency is not None:
            total += fabric.alpha + latency + max(load_of.values())
    return total


@settings(max_examples=40)
@given(cases(), st.sampled_from([1.0, 1e3, 12345.6]))
def test_it_is_the_plain_sum(case, element_bytes):
    schedule, fabric = case
    done = alpha_beta(schedule, fabric, element_bytes)
    assert done.seconds == pytest.approx(plainly(schedule, fabric, element_bytes), rel=1e-12)
    assert done.seconds == pytest.approx(sum(r.seconds for r in done.rounds))
    assert (done.times[:, 0] <= done.times[:, 1]).all()


def test_a_name_for_each_link():
    links = (Link("a", "s", 1e9), Link("s", "b", 1e9), Link("b", "a", 1e9))
    done = alpha_beta(point_to_point("m", 2, [(1, 0, 1)]), Fabric("x", ("a", "b"), ("s",), links, 0.0), 1.0)
    assert done.busiest == "link b -> a"
