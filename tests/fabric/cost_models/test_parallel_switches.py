"""Several switches between the same GPUs carry what one of their total carries, in every model."""

from dataclasses import replace

import numpy as np
import pytest

from wavefabric.collectives.registry import build
from wavefabric.fabric import cost, load
from wavefabric.fabric.electrical.fabric import Fabric, KernelTimes, Link
from wavefabric.fabric.electrical.static_routes import static_routes
from wavefabric.fabric.rank_order import best_order, depends_on_pair

KERNELS = KernelTimes(2e-6, 1e-6, 1e-6, 450e9, 4e12)


def planes(rates, gpus=8, spines=0, **limits):
    """GPUs that are joined to several switches; with spines these are leaves of half of the GPUs each."""
    names, links = tuple(f"GPU{i}" for i in range(gpus)), []
    for i, rate in enumerate(rates):
        for side in range(2 if spines else 1):
            leaf, half = f"plane{i}.{side}", names[side::2] if spines else names
            links += [(gpu, leaf, rate) for gpu in half]
            links += [(leaf, f"spine{i}.{j}", rate * gpus / 2 / spines) for j in range(spines)]
    switches = tuple(dict.fromkeys(end for a, b, _ in links for end in (a, b) if end not in names))
    both = tuple(Link(*pair, rate, 1e-6) for a, b, rate in links for pair in ((a, b), (b, a)))
    return Fabric("planes", names, switches, both, 0.7e-6, kernels=KERNELS, **limits)


@pytest.mark.parametrize("model", ["alpha-beta", "flow", "kernel"])
@pytest.mark.parametrize("algorithm", ["ring", "direct", "recursive"])
@pytest.mark.parametrize(
    ("rates", "spines"), [([112.5e9] * 4, 0), ([300e9, 100e9, 50e9], 0), ([225e9] * 2, 3)]
)
def test_planes_take_as_long_as_one_switch_of_the_same_total(model, algorithm, rates, spines):
    schedule = build(algorithm, "all-reduce", 8, 64)
    some, one = (cost(schedule, planes(each, spines=spines), 1e6, model) for each in (rates, [450e9]))
    assert some.seconds == pytest.approx(one.seconds, rel=1e-9)
    assert some.bound.seconds == pytest.approx(one.bound.seconds, rel=1e-9)


@pytest.mark.parametrize("model", ["alpha-beta", "flow", "kernel"])
@pytest.mark.parametrize("collective", ["all-reduce", "all-gather", "reduce-scatter", "broadcast"])
def test_operations_of_switches_use_all_planes(model, collective):
    def aided(rates):
        fabric = planes(rates, copy_bandwidth=450e9)
        return replace(fabric, multicast_switches=fabric.switches)

    schedule = build("nvls", collective, 8, 64)
    some, one = (cost(schedule, aided(rates), 1e6, model) for rates in ([112.5e9] * 4, [450e9]))
    # What a header beside the data takes on a link is as large on each: none where stores fill a link.
    assert some.seconds == pytest.approx(one.seconds, rel=1e-9)


def test_sums_that_one_of_two_switches_adds_up_are_crossed_by_parts_of_the_bytes():
    """The other switch copies nothing: each of three GPUs gets its half of the bytes separately."""
    fabric = replace(planes([1.0, 1.0], gpus=4), multicast_switches=("plane0.0",), alpha=0.0)
    fabric = replace(fabric, links=tuple(replace(link, latency=0.0) for link in fabric.links))
    schedule = build("nvls", "broadcast", 4, 1)
    assert cost(schedule, fabric, 2.0, "alpha-beta").seconds == pytest.approx(3)
    both = replace(fabric, multicast_switches=fabric.switches)
    assert cost(schedule, both, 2.0, "alpha-beta").seconds == pytest.approx(1)


@pytest.mark.slow
def test_orders_do_not_matter_where_all_pairs_have_the_same_planes():
    fabric = planes([112.5e9] * 4)
    assert not depends_on_pair(fabric)
    # Two halves below thin spines: a ring that changes sides twice is the best.
    thin = planes([10e9, 10e9], spines=2)
    thin = replace(
        thin,
        links=tuple(
            replace(k, bandwidth=5e9)
            if k.source[0] == k.target[0] == "s" or "spine" in k.source + k.target
            else k
            for k in thin.links
        ),
    )
    schedule = build("ring", "all-reduce", 8, 8)
    order = best_order(schedule, thin, 1e9)
    assert sum(order[i] % 2 != order[i - 1] % 2 for i in range(8)) == 2


def test_a_link_that_all_routes_share_is_crossed_by_all_bytes():
    """Two planes meet in one link to a GPU: what is split at the sender comes together again."""
    pairs = [("GPU0", "a", 1.0), ("GPU0", "b", 3.0), ("a", "c", 1.0), ("b", "c", 3.0), ("c", "GPU1", 2.0)]
    links = tuple(Link(*pair, rate) for x, y, rate in pairs for pair in ((x, y), (y, x)))
    fabric = Fabric("funnel", ("GPU0", "GPU1"), ("a", "b", "c"), links, 0.0)
    for model in ("alpha-beta", "flow"):
        assert cost(build("ring", "broadcast", 2, 1), fabric, 8.0, model).seconds == pytest.approx(4)
    assert cost(build("ring", "broadcast", 2, 1), fabric, 8.0).busiest == "link c -> GPU1"


@pytest.mark.parametrize("name", ["dgx-1", "dgx-a100", "nodes:2x4", "hgx-h200", "p2.8xlarge", "torus:4x4"])
def test_presets_have_one_route_for_each_pair(name):
    fabric = load(name)
    src, dst = np.nonzero(~np.eye(fabric.ranks, dtype=bool))
    assert set(static_routes(fabric).wires_of(src, dst).fraction) == {1.0}


def _fabric(pairs, gpus, **options):
    """Links (from, to, B/s) both ways."""
    links = tuple(Link(*pair, rate) for a, b, rate in pairs for pair in ((a, b), (b, a)))
    names = tuple(f"GPU{g}" for g in range(gpus))
    switches = tuple(dict.fromkeys(end for a, b, _ in pairs for end in (a, b) if end not in names))
    return Fabric("odd", names, switches, links, 0.0, **options)


ODD = {
    # Rates of planes, GB/s of two GPUs to each other: all planes together, whatever their number and rates.
    "600 planes": ([(f"GPU{g}", f"s{i}", 1.0) for g in (0, 1) for i in range(600)], 600.0),
    "1 B/s beside 1e17": ([(f"GPU{g}", f"s{i}", (1.0, 1e17)[i]) for g in (0, 1) for i in (0, 1)], 1e17),
    "a dead end": ([("GPU0", "a", 2.0), ("GPU1", "a", 2.0), ("GPU0", "b", 5.0)], 2.0),
    "a detour that is wider": ([("GPU0", "GPU1", 1.0), ("GPU0", "a", 9.0), ("GPU1", "a", 9.0)], 1.0),
    "one wide and one narrow way on": (
        [("GPU0", "a", 4.0), ("GPU0", "b", 4.0), ("a", "GPU1", 4.0), ("b", "GPU1", 1.0)],
        5.0,
    ),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_planes_carry_what_their_routes_carry(name):
    pairs, rate = ODD[name]
    fabric, schedule = _fabric(pairs, 2), build("ring", "broadcast", 2, 1)
    for model in ("alpha-beta", "flow"):
        done = cost(schedule, fabric, 7 * rate, model)
        assert done.seconds == pytest.approx(7)
        assert done.seconds >= done.bound.seconds * (1 - 1e-9)
