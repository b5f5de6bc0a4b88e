"""Candidates on a fabric: grids of its nodes, switches that reduce, and what its routes do not take."""

import pytest

from wavefabric.base.errors import InputError
from wavefabric.collectives import build
from wavefabric.collectives.candidates import Choice
from wavefabric.fabric import Fabric, Link, cost, load
from wavefabric.fabric.candidates import candidates_on, grids_of, runnable
from wavefabric.fabric.cost_models.cost import model_for


def pods():
    """Two boxes of three GPUs, each on a switch, with a slower network between."""
    gpus = tuple(f"card {n}" for n in range(6))
    ends = [(gpu, f"box {n // 3}", 100e9) for n, gpu in enumerate(gpus)]
    ends += [(f"box {n}", "spine", 20e9) for n in range(2)]
    kind = {100e9: "nvlink", 20e9: "network"}
    links = tuple(Link(a, b, rate, 0.0, kind[rate]) for x, y, rate in ends for a, b in ((x, y), (y, x)))
    return Fabric("pods", gpus, ("box 0", "box 1", "spine"), links, 1e-6)


@pytest.mark.parametrize(
    ("fabric", "gpus", "grids"),
    [
        ("nodes:2x8", range(16), [(2, 8)]),
        ("nodes:4x8", range(8), []),  # one node
        ("nodes:4x8", range(16), [(2, 8)]),
        ("nodes:4x8", range(0, 32, 2), [(4, 4)]),  # every second
        ("nodes:4x8", range(0, 32, 8), []),  # one of each
        ("nodes:2x4", (0, 4, 1, 5, 2, 6, 3, 7), []),  # not node by node
        ("mesh:2x3", range(6), [(2, 3)]),
        ("lightpath:2x4", range(8), [(2, 4)]),
        ("switch:8", range(8), []),
        (pods(), range(6), [(2, 3)]),
    ],
)
def test_grids_follow_from_the_links(fabric, gpus, grids):
    fabric = load(fabric) if isinstance(fabric, str) else fabric
    assert list(dict.fromkeys(grids_of(fabric, gpus))) == grids


def test_hierarchical_by_boxes_is_faster_than_by_others():
    fabric = pods()
    result = candidates_on(fabric, "all-reduce", range(6))

    def seconds(choice):
        return cost(build(choice.algorithm, "all-reduce", 6, 6 * 64, **choice.options), fabric, 1e6).seconds

    times, left_out = runnable(result, seconds)
    nodes = {choice: time for choice, time in times.items() if choice.algorithm == "hierarchical"}
    assert min(nodes, key=nodes.get) == Choice("hierarchical", 2, grid=(2, 3))
    assert min(nodes.values()) < 0.8 * max(nodes.values())
    assert set(left_out) == {"squares", "nvls", "nvls-tree", "nvls-one-shot"}


def test_what_has_no_route_is_left_out_and_if_all_is_that_is_said():
    gpus = tuple("ABCD")
    links = tuple(Link(gpus[a], gpus[b], 1e9) for r in range(4) for a, b in ((r, r - 1), (r - 1, r)))
    fabric = Fabric("four", gpus, (), links, 1e-6)

    def run(collective):
        return lambda choice: cost(build(choice.algorithm, collective, 4, 512, **choice.options), fabric, 4)

    results, left_out = runnable(candidates_on(fabric, "all-gather", range(4)), run("all-gather"))
    assert {choice.algorithm for choice in results} >= {"ring", "bidirectional-ring"}
    assert "no way from A to C" in left_out["direct"]
    with pytest.raises(InputError, match="no way from A to C"):
        runnable(candidates_on(fabric, "all-to-all", range(4)), run("all-to-all"))


@pytest.mark.parametrize(
    ("fabric", "ranks", "options", "model"),
    [
        ("hgx-h100", 8, {}, "kernel"),
        ("hgx-h200", 2, {}, "kernel"),
        ("hgx-h200", 8, {"kernels": False}, "alpha-beta"),
        ("hgx-h200", 8, {"model": "flow"}, "flow"),
        ("hgx-h200", 73, {}, "alpha-beta"),  # more than a plan takes
        ("dgx-1", 8, {}, "alpha-beta"),
        ("lightpath:2x4", 8, {}, "photonic"),
    ],
)
def test_the_model_by_default_is_the_most_faithful(fabric, ranks, options, model):
    assert model_for(load(fabric), ranks, **options) == model


def test_small_arrays_take_what_kernels_take():
    """No GPU signals another, and waits, within a microsecond; two announcements and a launch."""
    fabric = load("hgx-h100")
    times = fabric.kernels
    done = cost(build("direct", "all-reduce", 8, 8), fabric, 1024)
    assert done.model == "kernel"
    assert done.seconds > times.launch + min(times.signal, times.packet)


def test_kernels_need_ways_only_between_ranks_that_talk():
    """A machine without a way between some GPUs runs a ring by kernels."""
    gpus = tuple("ABCD")
    links = tuple(Link(gpus[a], gpus[b], 100e9) for r in range(4) for a, b in ((r, r - 1), (r - 1, r)))
    fabric = Fabric("four", gpus, (), links, 1e-6, kernels=load("hgx-h200").kernels)
    done = cost(build("ring", "all-reduce", 4, 64), fabric, 1e4)
    assert done.model == "kernel"
    with pytest.raises(InputError, match="no way from A to C"):
        cost(build("direct", "all-reduce", 4, 64), fabric, 1e4)
