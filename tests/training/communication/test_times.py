"""Time of calls: closed forms, exactness in the number of bytes, calls that run together."""

import math
from contextlib import suppress
from dataclasses import replace
from functools import cache
from itertools import product
from math import log

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wavefabric.base.errors import InputError
from wavefabric.collectives import ALGORITHMS, build, point_to_point, verify, why_refused
from wavefabric.fabric import Fabric, Link, check_plan, cost, load, plan_circuits
from wavefabric.training.communication.combined_schedules import combined
from wavefabric.training.communication.times import Communication, communication
from wavefabric.training.iteration.engine import FreeCommunication
from wavefabric.training.iteration.task_graph import Call

ALPHA, RHO, BANDWIDTH, MIB = 0.7e-6, 3.7e-6, 300 * 2.0**30, 2.0**20
GRIDS = {4: "2x2", 8: "2x4", 16: "4x4", 64: "8x8", 256: "16x16"}


def near(value, rel=1e-9):
    return pytest.approx(value, rel=rel)


def call(groups, nbytes=MIB, collective="all-reduce", purpose="gradients", messages=()):
    return Call(collective, tuple(map(tuple, groups)), float(nbytes), purpose, tuple(messages))


def everybody(ranks, nbytes=MIB, collective="all-reduce"):
    return call([range(ranks)], nbytes, collective)


@pytest.mark.parametrize(("ranks", "nbytes"), [(2, 1.0), (4, 64 * MIB), (30, 0.1 * MIB), (96, 64 * MIB)])
def test_a_ring_on_an_ideal_switch_takes_what_the_closed_form_says(ranks, nbytes):
    result = Communication(load(f"switch:{ranks}"), "ring")
    beta = (ranks - 1) / ranks * nbytes / BANDWIDTH
    assert result.seconds([everybody(ranks, nbytes)]) == near(2 * (ranks - 1) * ALPHA + 2 * beta)
    for half in ("reduce-scatter", "all-gather"):
        assert result.seconds([everybody(ranks, nbytes, half)]) == near((ranks - 1) * ALPHA + beta)


@pytest.mark.parametrize(
    ("collective", "sharing", "factor", "ranks"),
    [
        *[("lumorph-2", "even", 1, ranks) for ranks in (4, 16, 64)],
        *[("lumorph-4", "paper", 4 / 3, ranks) for ranks in (4, 16, 64)],
        pytest.param("lumorph-4", "paper", 4 / 3, 256, marks=pytest.mark.slow),
        *[("lumorph-4", "even", 16 / 15, ranks) for ranks in (4, 16, 64)],
    ],
)
def test_lumorph_on_its_wafer_takes_what_the_paper_s_formula_says(ranks, collective, sharing, factor):
    fabric = load(f"lightpath:{GRIDS[ranks]}")
    rounds = 2 * round(log(ranks, int(collective[-1])))
    result = Communication(fabric, collective, sharing=sharing)
    for nbytes in (1.0, 64 * MIB):
        beta = 2 * (ranks - 1) / ranks * nbytes / BANDWIDTH
        assert result.seconds([everybody(ranks, nbytes)]) == near(rounds * (ALPHA + RHO) + factor * beta)


CASES = [
    pytest.param("switch:12", "ring", marks=pytest.mark.slow),
    ("switch:12", "auto"),
    ("torus:4x4", "recursive:2"),
    pytest.param("mesh:3x4", "double-tree", marks=pytest.mark.slow),
    ("hgx-h200", "ring"),
    pytest.param("hgx-h200", "double-tree:4", marks=pytest.mark.slow),
    pytest.param("lightpath:3x4", "lumorph-2", marks=pytest.mark.slow),
    ("lightpath:3x4", "lumorph-4"),
    ("lightpath:3x4", "auto"),
]


@pytest.mark.parametrize(("fabric", "collective"), CASES)
def test_every_size_costs_what_the_cost_model_says_of_that_size(fabric, collective):
    fabric = load(fabric)
    result = Communication(fabric, collective)
    groups = [(0, 3, 5), (6, 1, 2)]
    messages = [(0, 5, 1.5), (5, 1, 0.25), (0, 1, 1.0), (2, 3, 7.0)]
    patterns = [(kind, groups, ()) for kind in ("all-reduce", "reduce-scatter", "all-gather", "all-to-all")]
    for kind, some, sent in [*patterns, ("messages", [range(6)], messages)]:
        for nbytes in (1e3, 3.3e4, 1e5, 7e5, 2e6, 1e9):
            one = call(some, nbytes, kind, messages=sent)
            assert result.seconds([one]) == near(result.cost([one]).seconds)
            verify(result.combined([one]))


@settings(max_examples=25)
@given(st.floats(1.0, 1e12), st.sampled_from(["hgx-h200", "switch:8", "lightpath:2x4"]))
def test_a_size_not_seen_before_costs_as_if_it_were_costed_alone(nbytes, fabric):
    result, schedule = ring(fabric), build("ring", "all-reduce", 8, 8)
    alone = cost(schedule, result.fabric, nbytes / 8, result.model)
    assert result.seconds([everybody(8, nbytes)]) == near(alone.seconds)


@cache
def ring(fabric):
    """Rings on a fabric."""
    return Communication(load(fabric), "ring")


@pytest.mark.parametrize("collective", ["ring", "recursive:2", "double-tree:4"])
@pytest.mark.parametrize("fabric", ["switch:12", "hgx-h200"])
def test_groups_on_an_ideal_switch_do_not_disturb_each_other(fabric, collective):
    fabric = load(fabric)
    result = Communication(fabric, collective)
    one, all_ = call([(4, 1, 6)], 1e6), call([(0, 3, 2), (4, 1, 6)], 1e6)
    assert result.seconds([all_]) == result.seconds([one]) == near(result.cost([one]).seconds)
    assert result.seconds([all_]) == near(result.cost([all_]).seconds)


def test_calls_on_an_ideal_switch_wait_for_none_of_the_others():
    switch = Communication(load("switch:12"), "ring")
    calls = [call([(0, 1, 2)], 1e6), call([(3, 4, 5, 6)], 1e3), call([(7, 8)], 1e7, "all-to-all")]
    assert switch.seconds(calls) == max(switch.seconds([each]) for each in calls)


def test_groups_share_the_links_of_other_fabrics():
    mesh = Communication(load("mesh:1x4"), "ring")
    apart, crossing = call([(0, 1), (2, 3)]), call([(0, 2), (1, 3)])
    alone = mesh.seconds([call([(0, 1)])])
    assert mesh.seconds([apart]) == near(alone)
    # Both cross the link in the middle, each over two links.
    assert mesh.seconds([crossing]) == near(2 * alone - 2 * ALPHA)
    assert mesh.seconds([call([(0, 2)]), call([(1, 3)])]) == near(mesh.seconds([crossing]))


@st.composite
def batches(draw, tiles):
    """Calls of disjoint GPUs, of random collectives and sizes."""
    order = draw(st.permutations(range(tiles)))
    calls, first = [], 0
    for _ in range(draw(st.integers(2, 4))):
        width, number = draw(st.sampled_from([(2, 1), (2, 2), (3, 1), (4, 1), (1, 2)]))
        if first + width * number > tiles:
            break
        gpus = order[first : first + width * number]
        first += width * number
        groups = [gpus[i * width : (i + 1) * width] for i in range(number)]
        kind = draw(st.sampled_from(["all-reduce", "all-to-all", "all-gather", "messages"]))
        nbytes = draw(st.sampled_from([0.0, 1e3, 1e6, 64e6]))
        sent = []
        if kind == "messages":
            groups = [gpus]
            pair = st.tuples(st.sampled_from(gpus), st.sampled_from(gpus), st.sampled_from([0.0, 0.5, 3.0]))
            sent = draw(st.lists(pair, max_size=6))
        calls.append(call(groups, nbytes, kind, messages=sent))
    return calls


@cache
def wafer(collective, waveguides=40):
    """Calls on 3 x 4 tiles."""
    fabric = replace(load("lightpath:3x4"), waveguides=waveguides, fibres=waveguides)
    return Communication(fabric, collective)


@pytest.mark.slow
@settings(max_examples=40)
@given(batches(12), st.sampled_from(["lumorph-2", "lumorph-4", "ring"]), st.sampled_from([1, 2, 40]))
def test_a_batch_takes_no_less_than_its_slowest_call_and_no_more_than_all_in_turn(
    calls, collective, waveguides
):
    result = wafer(collective, waveguides)
    alone = [result.seconds([each]) for each in calls]
    together = result.seconds(calls)
    assert together <= sum(alone) * (1 + 1e-12)
    if waveguides == 40:  # with few of them a batch may happen to get better circuits than a call alone
        assert together >= max(alone) * (1 - 1e-12)
    for each in calls:
        if each.collective == "all-reduce" and each.bytes and len(each.groups[0]) > 1:
            fraction = (len(each.groups[0]) - 1) / len(each.groups[0])
            assert together >= 2 * fraction * each.bytes / BANDWIDTH * (1 - 1e-12) + ALPHA + RHO
    assert together == near(result.seconds(calls[::-1]), 1e-12)
    assert together == near(result.cost(calls).seconds)
    whole = result.combined(calls)
    verify(whole)
    check_plan(result.circuits(calls), whole)


def test_a_batch_of_any_sizes_costs_what_its_combined_schedule_does():
    result = wafer("lumorph-4")
    for sizes in ((1e6, 1e6), (1e6, 3e3), (1.0, 1e9)):
        calls = [call([(0, 1, 2, 3)], sizes[0]), call([(8, 11), (10, 9)], sizes[1])]
        schedules = [build("recursive", "all-reduce", n, n, radix=4) for n in (4, 2)]
        parts = [(schedules[0], (0, 1, 2, 3)), (schedules[1], (8, 11)), (schedules[1], (10, 9))]
        by_hand = combined(parts, 12, "by hand")
        plan = plan_circuits(by_hand, result.fabric)
        first, second = (cost(by_hand, result.fabric, sizes[k] / n, plan=plan) for k, n in ((0, 4), (1, 2)))
        assert result.seconds(calls) <= first.seconds + second.seconds
        # Four tiles in a group talk to three others, 5 wavelengths each; tiles in a pair to one, with all 16.
        rounds = 2 * (ALPHA + RHO)
        slow = max(sizes[0] / 4 / 5, sizes[1] / 2 / 16) * 16 / BANDWIDTH
        assert result.seconds(calls) == near(rounds + 2 * slow)


def test_circuits_that_are_in_each_other_s_way_are_set_up_for_one_call_after_the_other():
    result = wafer("ring", 1)
    calls = [call([(3, 0, 11, 8, 9, 7)], 1e9), call([(4, 2, 5, 1, 6, 10)], 1e9)]
    alone = [result.seconds([each]) for each in calls]
    parts = [(build("ring", "all-reduce", 6, 6), each.groups[0]) for each in calls]
    at_once = cost(combined(parts, 12, "at once"), result.fabric, 1e9 / 6)
    assert result.seconds(calls) == near(sum(alone))
    assert sum(alone) < at_once.seconds
    whole = result.combined(calls)
    verify(whole)
    assert whole.communication_rounds == 20
    check_plan(result.circuits(calls), whole)


def test_messages_take_the_rounds_of_algorithm_3_on_a_wafer_and_one_round_on_a_switch():
    fabric = replace(load("lightpath:3x4"), lasers=2, laser_bandwidth=BANDWIDTH / 2)
    sent = [(0, d, 1.0) for d in (1, 2, 3, 4, 5)]
    one = call([range(6)], MIB, "messages", "layer-to-layer", sent)
    wafer_of_two = Communication(fabric, "ring")
    result = wafer_of_two.cost([one])
    assert len(result.rounds) == 3  # five messages, two lasers
    assert wafer_of_two.seconds([one]) == near(3 * (ALPHA + RHO) + 5 * MIB / BANDWIDTH)
    switch = Communication(load("switch:8"), "ring")
    assert switch.seconds([one]) == near(ALPHA + 5 * MIB / BANDWIDTH)
    assert switch.algorithm(one) == "point-to-point"
    assert cost(
        point_to_point("m", 8, [(0, d, 1) for d in (1, 2, 3, 4, 5)]), switch.fabric, MIB
    ).seconds == near(switch.seconds([one]))


@pytest.mark.parametrize(
    ("name", "fastest"), [("switch:6", ""), ("nodes:2x4", "hierarchical, 2x4"), ("hgx-h100", "nvls")]
)
@pytest.mark.parametrize("collective", [pytest.param("all-reduce", marks=pytest.mark.slow), "all-gather"])
def test_auto_is_as_fast_as_the_fastest_of_the_registry_at_every_size(name, fastest, collective):
    """Schedules are built and costed here one by one, whatever list of candidates there is."""
    fabric = load(name)
    auto, n = Communication(fabric, "auto"), fabric.ranks
    schedules = []
    for algorithm in ALGORITHMS.values():
        grids = [(g, n // g) for g in range(2, n) if n % g == 0] if "grid" in algorithm.options else [None]
        radices = range(2, n + 1) if "radix" in algorithm.options else [None]
        pieces = (1, 4, 16, 64) if algorithm.name in ("tree", "double-tree", "nvls", "nvls-tree") else (1,)
        for grid, radix, parts in product(grids, radices, pieces):
            options = {"grid": grid, "radix": radix, "pieces": parts}
            if collective in algorithm.collectives and not why_refused(
                algorithm.name, collective, n, **options
            ):
                schedules.append(build(algorithm.name, collective, n, 128 * n, **options))
    chosen = set()
    for nbytes in (1.0, 1e4, 1e6, 1e9):
        least = math.inf
        for schedule in schedules:
            with suppress(InputError):  # no switch that multicasts
                least = min(least, cost(schedule, fabric, nbytes / (128 * n), "alpha-beta").seconds)
        one = Call(collective, (tuple(range(n)),), nbytes, "gradients")
        assert auto.seconds([one]) == near(least)
        chosen.add(auto.algorithm(one))
        assert {choice.algorithm for choice in auto._time(one).choices} | set(auto.left_out(one)) == {
            name for name, each in ALGORITHMS.items() if collective in each.collectives
        }
    if collective == "all-reduce":
        assert len(chosen) > 1
        assert any(algorithm.startswith(fastest) for algorithm in chosen)


@pytest.mark.slow
def test_an_nvls_tree_has_what_nccl_has_in_groups_within_a_node_and_across_nodes():
    fabric = replace(load("nodes:2x4"), multicast_switches=("node0", "node1"))
    trees = Communication(fabric, "nvls-tree")
    for parts in (4, 16):
        schedule = build("nvls-tree", "all-reduce", 8, 64 * parts, pieces=parts, grid=(2, 4))
        one = Communication(fabric, f"nvls-tree:{parts}")
        assert one.seconds([everybody(8, 64 * MIB)]) == near(cost(schedule, fabric, MIB / parts).seconds)
    assert trees.algorithm(everybody(8, 64 * MIB)).startswith("nvls-tree, 2x4")
    assert trees.algorithm(call([range(4), range(4, 8)], 64 * MIB)).startswith("nvls")
    assert trees.algorithm(call([[r, r + 4] for r in range(4)], 64 * MIB)).startswith("double-tree")
    assert trees.algorithm(everybody(8, 64 * MIB, "all-gather")) == "ring, 2x4"


def test_what_auto_leaves_out_is_named():
    one = everybody(8)
    assert Communication(load("hgx-h100"), "auto").left_out(one) == {
        "nvls-tree": "grid: none given; allowed: nodes and GPUs of each, such as 4x8 (nvls-tree)"
    }
    left_out = Communication(load("ring:6"), "auto").left_out(everybody(6))
    assert set(left_out) == {"squares", "nvls", "nvls-tree", "nvls-one-shot"}
    assert left_out["nvls"] == "no switch of ring:6 multicasts and reduces"
    assert Communication(load("ring:6"), "ring").left_out(everybody(6)) == {}
    # Neighbours alone have a way.
    gpus = tuple(f"GPU{r}" for r in range(6))
    links = tuple(Link(gpus[a], gpus[b], 1e9) for r in range(6) for a, b in ((r, r - 1), (r - 1, r)))
    auto = Communication(Fabric("six", gpus, (), links, 1e-6), "auto")
    assert auto.algorithm(everybody(6)) == "bidirectional-ring"
    assert "no way from GPU0 to GPU2" in auto.left_out(everybody(6))["direct"]
    with pytest.raises(InputError, match="no way from"):
        auto.seconds([everybody(6, collective="all-to-all")])


def test_circuits_that_stay_are_not_set_up_again():
    fabric = load("lightpath:2x4")
    every, kept = Communication(fabric, "ring"), Communication(fabric, "ring", incremental=True)
    one = everybody(8)
    assert every.seconds([one]) - kept.seconds([one]) == near(13 * RHO)  # 14 rounds of the same circuits


def test_what_moves_nothing_takes_no_time():
    for fabric in ("switch:8", "mesh:2x4", "lightpath:2x4"):
        result = Communication(load(fabric), "auto")
        idle = [
            call([(0,), (1,)]),
            everybody(8, 0.0),
            call([(0,)], MIB, "all-to-all"),
            call([range(4)], MIB, "messages", messages=[(1, 1, 5.0), (0, 2, 0.0)]),
            call([], MIB, "messages"),
        ]
        assert [result.seconds([each]) for each in idle] == [0.0] * 5
        assert result.seconds(idle) == result.seconds([]) == 0.0
        assert result.combined(idle).transfers.size == 0
        assert result.algorithm(idle[0]) == "none"
        busy = call([(2, 3)])
        assert result.seconds([idle[0], busy]) == result.seconds([busy])


def test_bad_calls_and_options_are_refused_in_one_line():
    switch, light = Communication(load("switch:8"), "ring"), wafer("ring")
    for result, size in ((switch, 8), (light, 12)):
        allowed = f"gpus: {size + 1} given; allowed: up to {size}, the GPUs of "
        with pytest.raises(InputError, match=allowed):
            result.seconds([everybody(size + 1)])
        with pytest.raises(InputError, match="calls: GPU 2 in two given; allowed: calls of disjoint GPUs"):
            result.seconds([call([(0, 2)]), call([(2, 3)])])
        with pytest.raises(InputError, match="groups: a GPU twice in all-reduce given"):
            result.seconds([call([(0, 1), (1, 2)])])
        with pytest.raises(InputError, match="groups: several sizes in all-reduce given"):
            result.seconds([call([(0, 1), (2, 3, 4)])])
        with pytest.raises(InputError, match="messages: 0 to 5 given; allowed: GPUs of the call"):
            result.seconds([call([(0, 1)], MIB, "messages", messages=[(0, 5, 1.0)])])
    with pytest.raises(InputError, match="fabric: switch:8 given; allowed: photonic ones"):
        switch.circuits([everybody(8)])
    with pytest.raises(InputError, match="incremental: given for electrical switch:8"):
        Communication(switch.fabric, "ring", incremental=True)
    with pytest.raises(InputError, match="sharing: given for electrical switch:8"):
        Communication(switch.fabric, "ring", sharing="paper")
    with pytest.raises(InputError, match="collective: zero given"):
        Communication(switch.fabric, "zero")


def test_free_communication_and_what_a_fabric_is_said_to_be():
    free = communication(load("switch:8"), "zero")
    assert isinstance(free, FreeCommunication)
    assert free.seconds([everybody(8)]) == 0
    assert free.concurrent
    light = communication(load("lightpath:2x4"), "lumorph-4")
    assert (light.concurrent, light.latency) == (False, ALPHA + RHO)
    assert light.description == "recursive:4 on lightpath:2x4"
    assert communication(load("switch:8"), "ring").concurrent


def test_a_pattern_is_costed_once_and_then_a_multiplication(monkeypatch):
    import wavefabric.training.communication.times as times

    costed = []
    monkeypatch.setattr(times, "cost", lambda *a, **k: costed.append(a) or cost(*a, **k))
    result = Communication(load("lightpath:4x8"), "lumorph-2")
    for number in range(3):
        for nbytes in (1e3, 1e6, 1e7):
            # Groups that are equal, but not the same object.
            result.seconds([call([list(range(16)), list(range(16, 32))], nbytes + number)])
            result.seconds([call([range(8)], nbytes), call([range(8, 16)], 3 * nbytes + number)])
    assert len(costed) == 4  # three patterns alone, and one batch
    calls = [call([range(16)], size) for size in (1e5, 2e5)]
    result.seconds(calls[:1])
    result.seconds(calls[1:])
    assert len(costed) == 5  # one more pattern, of two sizes


def test_the_same_calls_take_the_same_time_in_any_communication_and_order():
    calls = [call([(0, 1, 2)], 1e6), call([(5, 4), (7, 8)], 1e5), call([(9, 10, 11)], 1e4, "all-to-all")]
    fabric = load("lightpath:3x4")
    results = set()
    for order in (calls, calls[::-1], [calls[1], calls[0], calls[2]]):
        result = Communication(fabric, "lumorph-4")
        results.add(result.seconds(order))
    assert len(results) == 1


@pytest.mark.slow
def test_sharded_calls_of_many_gpus_in_rings():
    """1536 GPUs have more chunks than a schedule may; two rings at once share no link of a switch."""
    for fabric in (load("switch:3072"), replace(load("switch:3072"), flow_bandwidth=1e30)):
        there = Communication(fabric, "ring")
        one = Call("all-gather", (tuple(range(1536)),), 1536e6, "parameters")
        wanted = 1535 * (fabric.alpha + 1e6 / fabric.links[0].bandwidth)
        assert there.seconds([one]) == pytest.approx(wanted, rel=1e-3)
        other = replace(one, groups=(tuple(range(1536, 3072)),))
        assert there.seconds([one, other]) == pytest.approx(there.seconds([one]))


@pytest.mark.parametrize(("nodes", "gpus"), [(4, 8), (64, 8), (8, 3), (3, 2)])
@pytest.mark.parametrize("collective", ["all-reduce", "all-gather"])
def test_rings_of_nodes_use_all_adapters(nodes, gpus, collective):
    """A GPU sends to the next node for one of the rings, and for the others to the next GPU of its node."""
    fabric, ranks, nbytes = load(f"nodes:{nodes}x{gpus}"), nodes * gpus, 2.0**36
    adapter, inside, latency = 50e9, 450e9, 2 * 0.5e-6
    rate = min(gpus * adapter, inside * gpus / (gpus - 1))
    rounds = (ranks - 1) * (1 + (collective == "all-reduce"))
    result, one = Communication(fabric, "ring"), everybody(ranks, nbytes, collective)
    assert result.algorithm(one) == f"ring, {nodes}x{gpus}"
    if (nodes % 2, gpus) != (1, 2):  # no two rings by rails pass an odd number of pairs
        assert result.seconds([one]) == near(rounds * (fabric.alpha + latency + nbytes / ranks / rate))
    bus_bandwidth = rounds / ranks * nbytes / result.seconds([one])
    assert bus_bandwidth == pytest.approx(rate, rel=1e-2)
    if ranks <= 64:
        assert result.seconds([one]) == near(result.cost([one]).seconds)


def test_groups_of_half_nodes_share_no_adapter():
    fabric = load("nodes:8x8")
    rings = Communication(fabric, "ring")
    both = call([range(0, 64, 2), range(1, 64, 2)], 2.0**33)
    assert rings.algorithm(both) == "ring, 8x4"
    assert rings.seconds([both]) == near(rings.seconds([call([range(0, 64, 2)], 2.0**33)]))
    assert rings.seconds([both]) == pytest.approx(2 * 31 / 32 * 2.0**33 / (4 * 50e9), rel=5e-3)
    verify(rings.combined([both]))


@pytest.mark.parametrize("name", ["torus:4x4", "hgx-h200", "lightpath:2x4", "nodes:2x4", "nodes:3x2"])
def test_folded_rings_take_as_long_as_whole_ones(name):
    fabric = load(name)
    there = Communication(fabric, "ring")
    for collective in ("all-gather", "reduce-scatter", "all-reduce"):
        for nbytes in (8.0, 1e9):
            one = Call(collective, (tuple(range(min(8, fabric.ranks))),), nbytes, "gradients")
            assert there.seconds([one]) == pytest.approx(there.cost([one]).seconds)
