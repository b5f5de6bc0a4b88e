"""Times of execution plans on a fabric: against measured kernels, by hand, and what never may be."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wavefabric.base.errors import InputError
from wavefabric.collectives.plans.plan import compile_plan
from wavefabric.collectives.registry import build
from wavefabric.fabric import cost, load
from wavefabric.fabric.cost_models.kernel import plan_events
from wavefabric.fabric.electrical.fabric import Fabric, KernelTimes, Link
from wavefabric.fabric.io.files import from_toml
from wavefabric.fabric.io.writing import to_toml

#: µs a call on two H200s, in a CUDA graph (28 November 2026), by KiB.
MEASURED = {
    ("ring", "all-reduce", "signals"): {
        64: 8.0, 256: 8.4, 1 << 10: 11.05, 4 << 10: 19.6, 16 << 10: 53.6, 64 << 10: 189, 256 << 10: 739,
        1 << 20: 2931,
    },
    ("direct", "all-reduce", "packets"): {4: 4.26, 64: 4.31, 256: 5.49},
    ("direct", "all-reduce", "signals"): {64: 6.0, 256: 6.74, 1 << 10: 9.46},
    ("ring", "all-reduce", "packets"): {4: 5.04, 64: 5.48, 256: 6.25},
    ("direct", "all-gather", "packets"): {4: 3.68, 64: 4.13, 256: 4.69},
    ("direct", "all-gather", "signals"): {
        64: 6.3, 256: 6.6, 1 << 10: 7.6, 4 << 10: 12.2, 16 << 10: 29.5, 64 << 10: 98.9, 1 << 20: 1469,
    },
}  # fmt: skip


@pytest.mark.parametrize("what", MEASURED, ids="-".join)
def test_measured_kernels_within_15_percent(what):
    algorithm, collective, protocol = what
    fabric = load("hgx-h200")
    for kib, microseconds in MEASURED[what].items():
        schedule = build(algorithm, collective, 2, kib * 256)
        time = cost(schedule, fabric, 4, "kernel", protocol=protocol, graph=True)
        assert time.seconds * 1e6 == pytest.approx(microseconds, rel=0.15), kib
        assert time.busiest == f"kernels of {protocol}"


def _fabric(ranks, **times):
    gpus = tuple(f"GPU{r}" for r in range(ranks))
    links = tuple(Link(a, b, 100e9, 1e-6) for a in gpus for b in gpus if a != b)
    kernels = KernelTimes(
        **{"launch": 2e-6, "signal": 3e-6, "packet": 1e-6, "bandwidth": 50e9, "memory": 1e15} | times
    )
    return Fabric("by hand", gpus, (), links, alpha=20e-6, kernels=kernels)


def test_moves_of_what_signals_announced_take_longer():
    """Not the first of a rank, and not what packets bring."""
    late = 5e-6
    for name, collective, protocol, more in (
        ("direct", "all-gather", "signals", 0),
        ("direct", "all-reduce", "signals", 1),
        ("ring", "all-reduce", "signals", 1),
        ("ring", "all-reduce", "packets", 0),
    ):
        schedule = build(name, collective, 2, 1000)
        without, took = (
            cost(schedule, _fabric(2, move=seconds), 4, "kernel", protocol=protocol).seconds
            for seconds in (0.0, late)
        )
        assert took - without == pytest.approx(more * late), (name, collective, protocol)


def test_by_hand():
    gather = build("direct", "all-gather", 2, 1000)
    fabric = _fabric(2)
    # The receiver says that it has begun, is written to, and told so: half of 4 MB to each.
    signals = cost(gather, fabric, 4e3, "kernel", protocol="signals")
    assert signals.seconds == pytest.approx(2e-6 + 2 * (3e-6 + 1e-6) + 2e6 / 50e9)
    packets = cost(gather, fabric, 4e3, "kernel", protocol="packets")
    assert packets.seconds == pytest.approx(2e-6 + 2 * 2e6 / 50e9 + 1e-6 + 1e-6)
    assert cost(gather, fabric, 4e3, "kernel").seconds == min(signals.seconds, packets.seconds)
    # Own memory: read once and put; the sum of own and what came, stored here.
    slow = _fabric(2, memory=1e9)
    reduce = build("recursive-exchange", "all-reduce", 2, 1000)
    wanted = 2e-6 + 4e6 / 1e9 + 4e-6 + 3 * 4e6 / 1e9
    assert cost(reduce, slow, 4e3, "kernel", protocol="signals").seconds == pytest.approx(wanted)
    issued = _fabric(2, issue=1e-3)
    time = cost(gather, issued, 4, "kernel")
    assert (time.seconds, time.busiest) == (1e-3, "host that launches")
    assert cost(gather, issued, 4, "kernel", graph=True).seconds < 1e-4


def test_links_are_shared_at_a_level():
    """All that is put into one GPU crosses what it receives in all."""
    gather = build("direct", "gather", 4, 4000)
    fabric = _fabric(4)
    alone = cost(gather, fabric, 4e3, "kernel", protocol="signals").seconds
    shared = cost(gather, replace(fabric, copy_bandwidth=60e9), 4e3, "kernel", protocol="signals").seconds
    assert alone == pytest.approx(2e-6 + 2 * 4e-6 + 4e6 / 50e9)
    assert shared == pytest.approx(2e-6 + 2 * 4e-6 + 3 * 4e6 / 60e9)


@pytest.mark.slow
@settings(max_examples=30)
@given(
    st.sampled_from(["ring", "recursive", "recursive-exchange", "direct", "tree"]),
    st.sampled_from([1, 2, 3, 4, 8]),
    st.floats(0, 28),
    st.sampled_from(["signals", "packets", "auto"]),
)
def test_no_less_than_the_bound_and_more_for_more_bytes(algorithm, ranks, power, protocol):
    if algorithm.startswith("recursive") and ranks == 3:
        ranks = 4
    schedule, fabric = build(algorithm, "all-reduce", ranks, 8 * ranks), load("hgx-h200")
    few, many = (
        cost(schedule, fabric, n, "kernel", protocol=protocol, graph=True) for n in (2**power, 2**power * 2)
    )
    assert few.bound.seconds <= few.seconds <= many.seconds
    assert few.rounds == ()


def _shared_link():
    gpus = tuple(f"GPU{r}" for r in range(8))
    links = [Link(a, "in", 50e9) for a in gpus] + [Link("out", a, 50e9) for a in gpus]
    return Fabric("shared", gpus, ("in", "out"), (Link("in", "out", 60e9), *links), 1e-6)


@pytest.mark.parametrize(
    "name", ["hgx-h200", "ring:8", pytest.param("mesh:4x2", marks=pytest.mark.slow), "dgx-1", "shared"]
)
@pytest.mark.parametrize("times", [None, KernelTimes(0.0, 1e-9, 1e-9, 1e15, 1e17)], ids=["H200", "quick"])
def test_no_operation_is_quicker_than_its_bound(name, times):
    """Wherever routes go, also where levels overlap on a link, as in a gather along a binomial tree."""
    fabric = _shared_link() if name == "shared" else load(name)
    fabric = replace(fabric, kernels=times or load("hgx-h200").kernels)
    for words in ("binomial gather", "binomial broadcast", "direct all-to-all", "bruck all-gather"):
        for ranks in (2, 5, 8):
            schedule = build(*words.split(), ranks, 8 * ranks)
            for protocol in ("signals", "packets"):
                time = cost(schedule, fabric, 1e6, "kernel", protocol=protocol, graph=True)
                assert time.bound.seconds <= time.seconds * (1 + 1e-9), (words, ranks, protocol)


def test_levels_that_overlap_share_what_a_gpu_receives():
    """Four parts reach the root, one of them while two that were joined first are under way."""
    fabric = replace(_fabric(5, bandwidth=1e12), copy_bandwidth=100e9)
    time = cost(build("binomial", "gather", 5, 5000), fabric, 4e3, "kernel", protocol="signals")
    assert time.seconds == pytest.approx(2e-6 + 4 * 4e6 / 100e9 + 3e-6)


def test_a_fabric_without_kernels_is_refused():
    with pytest.raises(
        InputError, match="fabric: ring:4 says nothing of kernels; allowed: one whose file has a table"
    ):
        cost(build("ring", "all-reduce", 4, 4), load("ring:4"), 4, "kernel")
    with pytest.raises(InputError, match="protocol: 'letters' given; allowed: packets, signals"):
        cost(build("ring", "all-reduce", 4, 4), load("hgx-h200"), 4, "kernel", protocol="letters")


def test_kernels_in_files():
    fabric = load("hgx-h200")
    wanted = KernelTimes(2.5e-6, 1.7e-6, 1.25e-6, 368e9, 4.15e12, 4.7e-6, 1.2e-6, 1.3e-6)
    assert vars(fabric.kernels) == pytest.approx(vars(wanted))
    assert from_toml(to_toml(fabric)) == fabric
    text = to_toml(_fabric(2))
    assert from_toml(text) == _fabric(2)
    with pytest.raises(InputError, match=r"kernels\.signal: .*allowed"):
        from_toml(text.replace('signal = "3 us"', 'signal = "3 m"'))


@pytest.mark.parametrize("protocol", ["signals", "packets"])
def test_events_of_a_rank_follow_one_another(protocol):
    fabric = load("hgx-h200")
    schedule = build("recursive", "all-reduce", 8, 64)
    plan = compile_plan(schedule, protocol)
    events = plan_events(plan, fabric, 1e4)
    total = cost(schedule, fabric, 1e4, "kernel", protocol=protocol, graph=True).seconds
    assert max(event.end for event in events) == pytest.approx(total - fabric.kernels.launch)
    for rank in range(8):
        own = [event for event in events if event.rank == rank and event.peer < 0]
        assert own[0].begin == 0
        for before, after in pairwise(own):
            assert before.end == pytest.approx(after.begin)
        routes = [event for event in events if event.rank == rank and event.peer >= 0]
        assert {event.kind for event in routes} == {"signal" if protocol == "signals" else "packets"}
        assert all(event.end > event.begin for event in routes)
    put = next(event for event in events if event.kind == "put")
    assert put.nbytes == 32e4
    assert "add and put" in {event.kind for event in events}


def bus(name, algorithm, nbytes, ranks=8):
    """The bus bandwidth of an all-reduce in GB/s, by the model that ``auto`` selects."""
    done = cost(build(algorithm, "all-reduce", ranks, 8 * ranks), load(name), nbytes / (8 * ranks))
    assert done.model == "kernel"
    return 2 * (ranks - 1) / ranks * nbytes / done.seconds * 1e-9


# Published: H100, NVLS 475 to 480 GB/s and ring 360 to 370 (NVIDIA/nccl-tests#212, #309; table 6 of
# Azure/AI-benchmarking-guide, ND_H100_v5_results.md); NCCL takes NVLS from 2 MiB on (#309). B200, NVLS 830
# (NVIDIA/nccl#1807).
@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "hgx-h100",
        pytest.param("hgx-h200", marks=pytest.mark.slow),
        pytest.param("hgx-b200", marks=pytest.mark.slow),
    ],
)
def test_nvls_overtakes_the_ring_where_nccl_changes_to_it(name):
    sizes = [2 << 20 << k for k in range(13)]
    rates = [(bus(name, "nvls", size), bus(name, "ring", size)) for size in sizes]
    assert all(nvls >= ring for nvls, ring in rates)
    nvls, ring = zip(*rates[8:], strict=True)  # from 512 MiB on
    if name == "hgx-b200":
        assert nvls[-1] == pytest.approx(830, rel=0.01)
    else:
        assert all(rate == pytest.approx(477.5, rel=0.04) for rate in nvls)
        assert all(rate == pytest.approx(365, rel=0.02) for rate in ring)


@pytest.mark.slow
def test_a_rack_of_gb200():
    # github.com/coreweave/nccl-tests, README.md, GB200, single rack.
    assert bus("gb200-nvl72", "nvls", 4 << 30, 72) == pytest.approx(839.16, rel=0.01)
    assert load("gb200-nvl72").kernels.memory == load("hgx-b200").kernels.memory
