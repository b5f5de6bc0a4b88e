"""Lower bounds: against brute force over all cuts, published numbers, and every algorithm there is."""

from contextlib import suppress
from dataclasses import replace
from itertools import combinations, permutations
from math import ceil, log

import networkx as nx
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from wavefabric.base.errors import InputError
from wavefabric.collectives import point_to_point
from wavefabric.collectives.conditions import COLLECTIVES, ROOTED
from wavefabric.collectives.registry import ALGORITHMS, build, why_refused
from wavefabric.fabric import cost
from wavefabric.fabric.bounds import cuts
from wavefabric.fabric.bounds.bound import bound
from wavefabric.fabric.bounds.cuts import MOST_SEARCHED, bottleneck, port_rates, restrict, tightest_by_size
from wavefabric.fabric.electrical.fabric import Fabric, KernelTimes, Link
from wavefabric.fabric.io.files import load
from wavefabric.fabric.rank_order import reordered

GIB = 2.0**30


@st.composite
def fabrics(draw):
    gpus, switches = draw(st.integers(2, 5)), draw(st.integers(0, 3))
    names = [*(f"g{i}" for i in range(gpus)), *(f"s{i}" for i in range(switches))]
    order = draw(st.permutations(names))
    widths = st.sampled_from([1.0, 2.0, 3.5, 7e9, 0.1])
    links = [Link(a, b, draw(widths)) for a, b in zip(order, order[1:] + order[:1], strict=True)]
    node = st.sampled_from(names)
    chords = draw(st.lists(st.tuples(node, node), max_size=9))
    links += [Link(a, b, draw(widths)) for a, b in chords if a != b]
    most = st.none() | st.sampled_from([0.7, 3.0])
    limits = {"copy_bandwidth": draw(most), "flow_bandwidth": draw(most), "forwards": draw(st.booleans())}
    return Fabric("x", tuple(names[:gpus]), tuple(names[gpus:]), tuple(links), 1.0, **limits)


def flow_out(fabric, gpus, reverse=False):
    """Most that can leave a set of GPUs, by another solver: memories behind ports."""
    g = nx.DiGraph()
    limits = [fabric.copy_bandwidth, (fabric.flow_bandwidth or np.inf) * (fabric.ranks - 1)]
    most = min([k for k in limits if k is not None and np.isfinite(k)], default=None)
    port = {} if most is None else {"capacity": most}
    for i, name in enumerate(fabric.gpus):
        g.add_edge(("memory", i), ("out", name), **port)
        g.add_edge(("in", name), ("memory", i), **port)
        if fabric.forwards:
            g.add_edge(("in", name), ("out", name))
    for link in fabric.links:
        a = ("out", link.source) if link.source in fabric.gpus else link.source
        b = ("in", link.target) if link.target in fabric.gpus else link.target
        before = g.get_edge_data(a, b, {"capacity": 0.0})["capacity"]
        g.add_edge(a, b, capacity=before + link.bandwidth)
    if reverse:
        g = g.reverse()
    for i in range(fabric.ranks):
        g.add_edge(*(("source", ("memory", i)) if i in gpus else (("memory", i), "sink")))
    return nx.maximum_flow_value(g, "source", "sink")


def subsets(ranks):
    return [frozenset(c) for k in range(1, ranks) for c in combinations(range(ranks), k)]


@pytest.mark.slow
@settings(max_examples=30)
@given(fabrics(), st.booleans())
def test_the_bottleneck_is_that_of_all_cuts(fabric, reverse):
    ratios = {s: len(s) / flow_out(fabric, s, reverse) for s in subsets(fabric.ranks)}
    result = bottleneck(fabric, reverse)
    assert len(result.gpus) / result.capacity == pytest.approx(max(ratios.values()), rel=1e-6)
    assert result.capacity == pytest.approx(flow_out(fabric, result.gpus, reverse), rel=1e-6)
    root = bottleneck(fabric, reverse, (0,))
    assert 1 / root.capacity == pytest.approx(
        max(1 / flow_out(fabric, s, reverse) for s in ratios if 0 in s), rel=1e-6
    )


@pytest.mark.slow
@settings(max_examples=20)
@given(fabrics(), st.integers(0, 1))
def test_rooted_operations_are_bound_by_the_tightest_cut(fabric, root):
    n, size = fabric.ranks, 12.0
    out = {s: flow_out(fabric, s) for s in subsets(n)}
    into = {s: flow_out(fabric, s, reverse=True) for s in subsets(n)}
    volume = (n - 1) * size / sum(port_rates(fabric)[0]), (n - 1) * size / sum(port_rates(fabric)[1])
    expected = {
        "broadcast": max(*volume, *(size / out[s] for s in out if root in s)),
        "reduce": max(*volume, *(size / into[s] for s in into if root in s)),
        "gather": max(len(s) * size / n / out[s] for s in out if root not in s),
        "scatter": max(len(s) * size / n / into[s] for s in into if root not in s),
        "all-gather": max(*volume, *(len(s) * size / n / out[s] for s in out)),
        "reduce-scatter": max(*volume, *(len(s) * size / n / into[s] for s in into)),
    }
    for collective, transfer in expected.items():
        result = bound(collective, fabric, size, root=root).transfer
        assert result == pytest.approx(transfer, rel=1e-6), collective


def test_capacities_near_the_most_that_is_counted():
    """Links there and back between two GPUs, one of them a thousand million times as wide as all others."""
    ends = [("g4", "g1"), ("g3", "g2"), ("g2", "g0"), ("g0", "s0"), ("s0", "g4"), ("g3", "g1")]
    links = [Link(a, b, 1.0) for a, b in ends] + [Link("g1", "g0", 5.0), Link("g0", "g3", 2.0)]
    links.append(Link("g1", "g3", 7e9))
    fabric = Fabric("x", tuple(f"g{i}" for i in range(5)), ("s0",), tuple(links), 1.0)
    into = {s: flow_out(fabric, s, reverse=True) for s in subsets(5) if 0 not in s}
    wanted = max(len(s) * 12.0 / 5 / rate for s, rate in into.items())
    assert bound("scatter", fabric, 12.0, root=0).transfer == pytest.approx(wanted) == pytest.approx(3.2)


@settings(max_examples=15)
@given(fabrics(), st.booleans())
def test_no_cut_lets_less_through_than_said(fabric, large):
    with pytest.MonkeyPatch.context() as patch:
        if large:  # as fabrics of more nodes are searched
            patch.setattr(cuts, "MOST_SEARCHED", 1)
            cuts.tightest_by_size.cache_clear()
        for gpus, out, into in tightest_by_size(fabric):
            assert out >= flow_out(fabric, gpus) * (1 - 1e-9)
            assert into >= flow_out(fabric, gpus, reverse=True) * (1 - 1e-9)
    cuts.tightest_by_size.cache_clear()


@settings(max_examples=15)
@given(fabrics())
def test_of_small_fabrics_the_tightest_cut_of_all_bounds_an_all_reduce_and_an_all_to_all(fabric):
    free = replace(fabric, copy_bandwidth=None, flow_bandwidth=None)  # what ports let through is bound apart
    n, out = free.ranks, {s: flow_out(free, s) for s in subsets(free.ranks)}
    assert bound("all-reduce", free, 12.0).transfer >= max(12 / out[s] for s in out) * (1 - 1e-9)
    crossing = max(len(s) * (n - len(s)) * 12 / n / out[s] for s in out)
    assert bound("all-to-all", free, 12.0).transfer >= crossing * (1 - 1e-9)


def renumbered(fabric, order, rng):
    """The same machine, whose GPUs, switches and links are listed in another order."""
    switches, links = rng.permutation(fabric.switches).tolist(), [*fabric.links]
    rng.shuffle(links)
    gpus = tuple(fabric.gpus[g] for g in order)
    return replace(fabric, gpus=gpus, switches=tuple(switches), links=tuple(links))


@pytest.mark.slow
@settings(max_examples=25)
@given(fabrics(), st.booleans(), st.randoms(use_true_random=False))
def test_a_bound_does_not_depend_on_how_gpus_are_numbered(fabric, large, random):
    rng = np.random.default_rng(random.getrandbits(32))
    order = rng.permutation(fabric.ranks).tolist()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cuts, "MOST_SEARCHED", 1 if large else MOST_SEARCHED)
        cuts.tightest_by_size.cache_clear()
        for collective in COLLECTIVES:
            one = bound(collective, fabric, 7e6, root=order[0])
            for other in (renumbered(fabric, order, rng), reordered(fabric, order)):
                assert bound(collective, other, 7e6).seconds == pytest.approx(one.seconds, rel=1e-9)
    cuts.tightest_by_size.cache_clear()


@pytest.mark.parametrize(
    "name",
    [
        "dgx-1",
        pytest.param("nodes:3x4", marks=pytest.mark.slow),
        pytest.param("mesh:3x8", marks=pytest.mark.slow),
        pytest.param("torus:4x6", marks=pytest.mark.slow),
        pytest.param("hypercube:5", marks=pytest.mark.slow),
        "p2.8xlarge",
    ],
)
def test_bounds_of_presets_do_not_depend_on_how_gpus_are_numbered(name):
    fabric, rng = load(name), np.random.default_rng(1)
    order = rng.permutation(fabric.ranks).tolist()
    for collective in COLLECTIVES:
        one = bound(collective, fabric, 2e9, root=order[0])
        for other in (renumbered(fabric, order, rng), reordered(fabric, order)):
            assert bound(collective, other, 2e9).transfer == pytest.approx(one.transfer, rel=1e-9)


@pytest.mark.slow
@settings(max_examples=40)
@given(fabrics(), st.sampled_from(sorted(ALGORITHMS)), st.data())
def test_no_schedule_that_is_costed_beats_the_bound(fabric, name, data):
    collective = data.draw(st.sampled_from(ALGORITHMS[name].collectives))
    options = {"ranks": fabric.ranks} | ({"root": fabric.ranks - 1} if collective in ROOTED else {})
    assume(why_refused(name, collective, **options) is None and not ALGORITHMS[name].switched)
    schedule = build(name, collective, elements=24 * fabric.ranks, **options)
    fabric = replace(fabric, kernels=KernelTimes(1.0, 1.0, 1.0, 2e9, 1e12))
    for model in ("alpha-beta", "flow", "kernel"):
        with suppress(InputError):  # two GPUs without a route, or a plan with more than kernels can do
            done = cost(schedule, fabric, 1e6, model)
            assert done.seconds >= done.bound.seconds * (1 - 1e-9)


def test_two_sockets_are_cut_between_them_however_they_are_numbered():
    """Two sockets of four GPUs with QPI of 16 GB/s between; pairs of GPUs have bridges."""
    ends = [(f"GPU{g}", f"CPU{g // 4}", 24e9) for g in range(8)] + [("CPU0", "CPU1", 16e9)]
    ends += [(f"GPU{g}", f"GPU{g + 1}", 240e9) for g in (0, 2, 4, 6)]
    links = tuple(Link(*pair, rate) for a, b, rate in ends for pair in ((a, b), (b, a)))
    sockets = Fabric("sockets", tuple(f"GPU{g}" for g in range(8)), ("CPU0", "CPU1"), links, 0.0)
    for order in (range(8), (0, 2, 4, 6, 1, 3, 5, 7), (0, 4, 1, 5, 2, 6, 3, 7)):
        fabric = reordered(sockets, order)
        assert bound("all-reduce", fabric, GIB).transfer == pytest.approx(GIB / 16e9)
        assert bound("all-to-all", fabric, GIB).transfer == pytest.approx(16 * GIB / 8 / 16e9)
        assert bound("all-gather", fabric, GIB).transfer == pytest.approx(GIB / 2 / 16e9)


def test_groups_of_fast_links_are_found_among_many_gpus():
    """Twenty GPUs, all linked to each other, by wide links within two groups and by thin ones between."""
    names = tuple(f"GPU{g}" for g in range(20))
    links = tuple(
        Link(names[a], names[b], 10e9 if a % 2 == b % 2 else 1e9) for a, b in permutations(range(20), 2)
    )
    groups = Fabric("groups", names, (), links, 0.0)
    assert bound("all-to-all", groups, GIB).transfer == pytest.approx(10 * 10 * GIB / 20 / (10 * 10 * 1e9))


def test_forestcoll_finds_slow_links_between_fast_groups():
    # Two groups of four on switches of 300 GB/s; 10 GB/s each way between them.
    names = tuple(f"g{i}" for i in range(8))
    ends = [(f"g{i}", f"s{i // 4}") for i in range(8)]
    links = [Link(*e, 3e11) for a, b in ends for e in ((a, b), (b, a))]
    links += [Link("s0", "s1", 1e10), Link("s1", "s0", 1e10)]
    fabric = Fabric("two", names, ("s0", "s1"), tuple(links), 0.0)
    for reverse in (False, True):
        cut = bottleneck(fabric, reverse)
        assert cut.gpus in (frozenset(range(4)), frozenset(range(4, 8)))
        assert cut.capacity == 1e10
    assert bound("all-gather", fabric, 8e9).transfer == pytest.approx(0.4)
    assert bound("reduce-scatter", fabric, 8e9).transfer == pytest.approx(0.4)
    assert bound("all-reduce", fabric, 8e9).transfer == pytest.approx(0.8)
    assert bound("all-to-all", fabric, 8e9).transfer == pytest.approx(16 * 1e9 / 1e10)
    assert bound("broadcast", fabric, 8e9, root=3).transfer == pytest.approx(0.8)
    assert bound("gather", fabric, 8e9, root=5).transfer == pytest.approx(0.4)
    assert bound("gather", fabric, 8e9, root=5).why == "1 round at least; 3.725 GiB out of 4 GPUs (g0, …)"


@pytest.mark.parametrize("ranks", [2, 5, 8])
def test_bounds_of_thakur_rabenseifner_and_gropp(ranks):
    fabric, size = load(f"switch:{ranks}"), 2.0**30
    part, whole = (ranks - 1) / ranks * size / (300 * GIB), size / (300 * GIB)
    expected = dict.fromkeys(("all-gather", "reduce-scatter", "all-to-all", "gather", "scatter"), part)
    expected |= {"all-reduce": 2 * part, "broadcast": whole, "reduce": whole}
    for collective in COLLECTIVES:
        assert bound(collective, fabric, size).transfer == pytest.approx(expected[collective]), collective


@pytest.mark.parametrize("peers", [1, 3, 15])
@pytest.mark.parametrize("ranks", [2, 8, 17, 64])
def test_rounds_needed_grow_like_a_logarithm(ranks, peers):
    fabric = replace(load("lightpath"), rows=8, columns=8, serdes_ports=peers, reconfiguration=0.0)
    least = bound("all-gather", replace(fabric, synchronisation=0.0, alpha=0.7e-6), 1e6, ranks=ranks)
    rounds = ceil(round(log(ranks, 1 + peers), 9))
    assert least.latency == pytest.approx(rounds * 0.7e-6)
    assert least.seconds == least.latency + least.transfer
    assert bound("all-gather", load(f"switch:{ranks}"), 1e6).latency == pytest.approx(0.7e-6)


def test_circuits_must_be_set_up_each_round_or_once():
    fabric = replace(load("lightpath-256"), synchronisation=1e-6)
    least = bound("all-reduce", fabric, 2.0**20)
    assert least.latency == pytest.approx(2 * (0.7e-6 + 3.7e-6 + 1e-6))
    once = bound("all-reduce", fabric, 2.0**20, incremental=True)
    assert once.latency == pytest.approx(2 * 1.7e-6 + 3.7e-6)
    assert least.transfer == pytest.approx(2 * 255 / 256 * 2.0**20 / (300 * GIB))
    # With one waveguide and 16 tiles' worth of traffic over it, the seam of a wafer is what counts.
    narrow = replace(load("lightpath-256"), waveguides=1, fibres=1)
    crossing = 128 * 128 * 2.0**20 / 256 / (16 * 300 * GIB)
    assert bound("all-to-all", narrow, 2.0**20).transfer >= crossing * (1 - 1e-9)
    assert bound("all-to-all", narrow, 2.0**20).transfer > 2 * bound("all-to-all", fabric, 2.0**20).transfer
    few = replace(fabric, serdes_ports=1)
    assert bound("all-reduce", few, 1.0).latency == pytest.approx(8 * 5.4e-6)


def test_grids_are_bound_by_their_middle_and_by_distance():
    size, rate = 1e9, 300 * GIB
    mesh = bound("all-to-all", load("mesh:4x8"), size)
    assert mesh.transfer == pytest.approx(16 * 16 * size / 32 / (4 * rate))
    # Around an even ring of N, N/4 links on average in each of two directions; on a torus along two axes.
    assert bound("all-to-all", load("torus:8x8"), size).transfer == pytest.approx(8 / 8 * size / rate)
    assert bound("all-to-all", load("ring:16"), size).transfer == pytest.approx(16 / 8 * size / rate)


def test_messages_are_bound_by_what_each_rank_lacks():
    rows = [(0, 1, 4), (2, 1, 3), (1, 1, 9), (0, 2, 5)]
    # 21 elements in all, of 100 GiB each.
    least = bound(point_to_point("m", 3, rows), load("switch:3"), 21 * 100 * GIB)
    assert least.transfer == pytest.approx(3)
    assert least.why.endswith("GPU0 sends at least 900 GiB")
    assert bound(point_to_point("m", 3, [(1, 1, 9)]), load("switch:3"), 1e6).seconds == 0


def test_a_part_of_a_fabric():
    assert restrict(load("dgx-2"), 4).gpus == ("GPU0", "GPU1", "GPU2", "GPU3")
    assert not [k for k in restrict(load("dgx-2"), 4).links if "GPU4" in (k.source, k.target)]
    # Tiles that take no part still pass on.
    assert len(restrict(load("torus:4x4"), 2).switches) == 14
    least = bound("all-gather", load("dgx-2"), 4e9, ranks=4)
    assert least.transfer == pytest.approx(3e9 / 150e9)
    assert bound("all-reduce", load("dgx-2"), 1e9, ranks=1).seconds == 0
    sends, receives = port_rates(load("hgx-h200"))
    assert set(sends) == set(receives) == {394e9}


def test_bad_arguments():
    fabric = load("switch:4")
    for message, call in {
        'collective: "sum" given; allowed: all-gather': lambda: bound("sum", fabric, 1.0),
        "ranks: 5 given; allowed: 1 to the 4 GPUs of switch:4": lambda: bound("reduce", fabric, 1.0, ranks=5),
        "root: 4 given; allowed: 0 to 3": lambda: bound("reduce", fabric, 1.0, root=4),
    }.items():
        with pytest.raises(InputError, match=message):
            call()


def test_an_operation_without_data_needs_no_time():
    schedule = build("direct", "gather", 4, 1)  # one element, which the root has already
    assert bound(schedule, load("switch:4"), 8.0).seconds == 0


def test_exact_numbers_are_made_once_a_graph(monkeypatch):
    """Not once a flow: with 300 GPUs linked to each other that took half a minute."""
    calls = []
    exact = cuts._whole_multiples
    monkeypatch.setattr(cuts, "_whole_multiples", lambda values: calls.append(len(values)) or exact(values))
    cuts.bottleneck.cache_clear()
    ring = load("ring:64")
    assert cuts.bottleneck(ring, roots=(0,)).capacity == 2 * ring.links[0].bandwidth
    assert calls == [128]
