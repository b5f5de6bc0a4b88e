"""Fabrics are recovered from tables of nccl-tests that were made of their own predictions."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wavefabric.base.errors import InputError
from wavefabric.collectives.registry import BY_RAILS, build
from wavefabric.fabric import cost, load
from wavefabric.fabric.cost_models.bus_bandwidth import bandwidths
from wavefabric.fabric.execution.calibrate import NCCL_ALGORITHMS, calibrate
from wavefabric.fabric.execution.fitted_fabric import robust_fit
from wavefabric.fabric.io.nccl_tests import read_nccl_tests

SIZES = [8 << k for k in range(0, 31, 2)]


def printed(fabric, collective="all-reduce", ranks=8, algorithms=(), grid=None):
    """What nccl-tests would print if NCCL took as long as the fastest of its algorithms is predicted to."""
    elements = 2 * ranks * ranks * 64
    names = algorithms or NCCL_ALGORITHMS[collective]
    names = [name for name in names if not name.startswith("nvls") or fabric.multicast_switches]
    pieces = (
        dict.fromkeys(("double-tree", "nvls", "nvls-tree"), (1, 4, 16)) if collective == "all-reduce" else {}
    )
    pieces |= {"ring": (1, 4, 16)} if collective == "broadcast" else {}
    options = [(name, each) for name in names for each in pieces.get(name, (1,))]
    grids = dict.fromkeys(BY_RAILS, grid)
    schedules = [build(n, collective, ranks, elements, pieces=p, grid=grids.get(n)) for n, p in options]
    program = collective.replace("-to-", "to").replace("-", "_")
    lines = [f"# Collective test starting: {program}_perf", f"# nThread 1 nGpus {ranks}"]
    lines += ["#  size  count  type  redop  root  time  algbw  busbw  #wrong  time  algbw  busbw  #wrong"]
    for size in SIZES:
        times = [cost(each, fabric, size / elements).seconds for each in schedules]
        seconds = min(times)
        rates = [rate * 1e-9 for rate in bandwidths(schedules[0], size / elements, seconds)]
        half = f"{seconds * 1e6:.7g} {rates[0]:.2f} {rates[1]:.2f} 0"
        lines.append(f"{size} {size // 4} float sum -1 {half} {half}")
    return read_nccl_tests("\n".join(lines))


@pytest.mark.slow
@settings(max_examples=5)
@given(st.sampled_from(["switch:8", "dgx-a100", "ring:8"]), st.floats(0.05, 100), st.floats(0.1, 10))
def test_alpha_and_bandwidth_are_recovered(name, slower, faster):
    start = load(name)
    links = tuple(replace(link, bandwidth=link.bandwidth * faster) for link in start.links)
    true = replace(start, alpha=start.alpha * slower, links=links)
    fitted, facts = calibrate(start, printed(true))
    assert fitted.alpha == pytest.approx(true.alpha, rel=0.01)
    assert fitted.links[0].bandwidth == pytest.approx(true.links[0].bandwidth, rel=0.01)
    assert facts["error"]["alpha-beta"]["worst"] < 0.01


@pytest.mark.parametrize(
    "collective",
    [
        "all-gather",
        pytest.param("all-to-all", marks=pytest.mark.slow),
        pytest.param("broadcast", marks=pytest.mark.slow),
    ],
)
def test_other_operations_have_the_algorithms_of_nccl(collective):
    start = load("switch:8")
    true = replace(start, alpha=3e-6)
    fitted, facts = calibrate(start, printed(true, collective), "mine")
    assert fitted.alpha == pytest.approx(3e-6, rel=0.01)
    used = {each["algorithm"].split(",")[0] for each in facts["compared"]["alpha-beta"]}
    assert used == {"direct" if collective == "all-to-all" else "ring"}
    assert fitted.name == facts["fabric"] == "mine"
    assert "nccl-tests" in fitted.source


@pytest.mark.slow
def test_each_kind_of_links_has_its_own_bandwidth():
    start = load("nodes:2x4")
    speed = {"network": 0.5, "nvlink": 0.8}
    links = tuple(replace(link, bandwidth=link.bandwidth * speed[link.kind]) for link in start.links)
    true = replace(start, links=links)
    tables = printed(true, grid=(2, 4)) + printed(true, "all-gather", 4)
    numbers = calibrate(start, tables)[1]["numbers"]
    assert numbers["links.network"]["after"] == pytest.approx(
        50e9, rel=0.01
    )  # of the rails: adapters have half
    assert numbers["links.nvlink"]["after"] == pytest.approx(360e9, rel=0.01)


@pytest.mark.slow
def test_nodes_whose_switches_add_up_have_nccls_nvls_tree():
    start = replace(load("nodes:2x4"), multicast_switches=("node0", "node1"))
    true = replace(start, alpha=3e-6)
    tables = printed(true, algorithms=("nvls-tree",), grid=(2, 4))
    fitted, facts = calibrate(start, tables, algorithms=("nvls-tree",))
    assert fitted.alpha == pytest.approx(3e-6, rel=0.01)
    assert {each["algorithm"].split(",")[0] for each in facts["compared"]["alpha-beta"]} == {"nvls-tree"}
    everything = calibrate(start, tables)[1]["compared"]["alpha-beta"]
    assert any(each["algorithm"].startswith("nvls-tree, 2x4") for each in everything)


@pytest.mark.slow
def test_kinds_of_links_keep_their_ratio_where_one_limits():
    start = load("nodes:2x4")
    links = tuple(replace(link, bandwidth=10 * link.bandwidth) for link in start.links)
    true = replace(start, alpha=70e-6, links=links)
    fitted, _ = calibrate(start, printed(true, grid=(2, 4)))
    assert fitted.alpha == pytest.approx(70e-6, rel=0.01)
    for link, expected in zip(fitted.links, links, strict=True):
        assert link.bandwidth == pytest.approx(expected.bandwidth, rel=0.01)


def test_times_of_kernels_are_recovered():
    start = load("hgx-h100")
    k = start.kernels
    slower = {name: 1.5 * getattr(k, name) for name in ("signal", "packet", "move")}
    true = replace(start, kernels=replace(k, launch=6e-6, bandwidth=300e9, **slower))
    tables = printed(true, algorithms=("ring",)) + printed(true, "all-gather", algorithms=("ring",))
    fitted, facts = calibrate(start, tables, algorithms=("ring",))
    for name in ("launch", "signal", "packet", "move", "bandwidth"):
        assert getattr(fitted.kernels, name) == pytest.approx(getattr(true.kernels, name), rel=0.01)
    assert fitted.links == start.links
    assert list(facts["compared"]) == ["alpha-beta", "kernel"]
    assert facts["error"]["kernel"]["worst"] < 0.01


def test_terms_of_copy_engines_are_dropped():
    start = replace(load("dgx-a100"), reduce_bandwidth=1e9, round_overhead=1e-3, copy_bandwidth=1e9)
    fitted, _ = calibrate(start, printed(load("dgx-a100")))
    assert (fitted.reduce_bandwidth, fitted.round_overhead, fitted.copy_bandwidth) == (None, 0.0, None)
    assert fitted.alpha == pytest.approx(0.7e-6, rel=0.01)


@pytest.mark.slow
def test_outliers_hardly_count():
    tables = printed(load("switch:8"))
    rows = tables[0].rows
    rows[5] = rows[5]._replace(seconds=4 * rows[5].seconds)
    fitted, facts = calibrate(load("switch:8"), tables)
    assert fitted.alpha == pytest.approx(0.7e-6, rel=0.02)
    assert facts["error"]["alpha-beta"]["worst"] == pytest.approx(0.75, rel=0.02)


def test_refusals():
    tables = printed(load("switch:8"))
    for fabric, measured, algorithms, words in (
        ("lightpath:4x4", tables, (), "photonic lightpath:4x4 given; allowed: electrical ones"),
        ("switch:4", tables, (), "ranks: 8 given; allowed: up to 4"),
        ("switch:8", tables, ("recursive",), "recursive.* given; allowed: ring, double-tree, nvls"),
        ("switch:8", tables, ("nvls",), "no switch of switch:8 multicasts"),
        ("switch:8", [replace(tables[0], rows=tables[0].rows[:1])], (), "1 size given; allowed: two"),
    ):
        with pytest.raises(InputError, match=words):
            calibrate(load(fabric), measured, algorithms=algorithms)


def test_what_is_left_open_stays_as_it_was():
    times = np.array([1.0, 2.0, 3.0])
    columns = np.column_stack([times, times, np.zeros(3)])
    x = robust_fit(columns, 2 * times, times, np.array([1.5, 0.5, 7.0]))
    assert x == pytest.approx([1.5, 0.5, 7.0], rel=1e-3)
    assert robust_fit(columns[:, :1], 2 * times, times) == pytest.approx([2.0])
