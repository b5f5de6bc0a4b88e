"""Time over circuits: closed forms of the paper, and what is paid when."""

import time
from dataclasses import replace
from itertools import pairwise
from math import log2

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wavefabric.base.errors import InputError
from wavefabric.collectives import point_to_point, verify
from wavefabric.collectives.registry import build
from wavefabric.fabric import load
from wavefabric.fabric.cost_models.photonic import photonic
from wavefabric.fabric.photonic.fabric import PhotonicFabric
from wavefabric.fabric.photonic.link_budget import LinkBudget
from wavefabric.fabric.photonic.planning import plan_circuits

ALPHA, RHO, BANDWIDTH = 0.7e-6, 3.7e-6, 300 * 2.0**30
GRIDS = {4: (2, 2), 8: (2, 4), 16: (4, 4), 64: (8, 8), 256: (16, 16)}
MIB = 2.0**20


def wafer(rows, columns, **changes):
    numbers = {"lasers": 16, "serdes_ports": None, "laser_bandwidth": BANDWIDTH / 16, "waveguides": 40}
    numbers |= {
        "wafer_rows": rows,
        "wafer_columns": columns,
        "alpha": ALPHA,
        "reconfiguration": RHO,
        "fibres": 40,
    }
    return PhotonicFabric("wafer", rows, columns, **numbers | changes)


def near(value):
    return pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize(
    ("ranks", "nbytes"),
    [
        (4, 64 * MIB),
        pytest.param(8, 1.0, marks=pytest.mark.slow),
        pytest.param(16, 3 * MIB, marks=pytest.mark.slow),
        pytest.param(64, 0.1 * MIB, marks=pytest.mark.slow),
        (256, MIB),
    ],
)
def test_halving_and_doubling_take_what_the_paper_s_formula_says(ranks, nbytes):
    schedule = build("recursive", "all-reduce", ranks, ranks)
    result = photonic(schedule, wafer(*GRIDS[ranks]), nbytes / ranks)
    rounds = 2 * log2(ranks)
    assert result.seconds == near(rounds * (ALPHA + RHO) + 2 * nbytes * (ranks - 1) / (ranks * BANDWIDTH))
    assert len(result.rounds) == rounds
    assert all(r.parts == 1 for r in result.rounds)


@pytest.mark.parametrize("ranks", [4, 16, 64])
@pytest.mark.parametrize(("sharing", "factor"), [("paper", 4 / 3), ("even", 16 / 15)])
def test_quartering_and_quadrupling_take_what_the_paper_s_formula_says(ranks, sharing, factor):
    schedule = build("recursive", "all-reduce", ranks, ranks, radix=4)
    nbytes = 64 * MIB
    result = photonic(schedule, wafer(*GRIDS[ranks]), nbytes / ranks, sharing=sharing)
    beta = 2 * nbytes * (ranks - 1) / (ranks * BANDWIDTH)
    assert result.seconds == near(log2(ranks) * (ALPHA + RHO) + factor * beta)


@pytest.mark.slow
def test_figure_7_of_the_paper_at_256_tiles_and_64_mib():
    fabric = wafer(16, 16)
    times = [
        photonic(
            build("recursive", "all-reduce", 256, 256, radix=r), fabric, MIB / 4, sharing="paper"
        ).seconds
        for r in (2, 4)
    ]
    assert [round(t * 1e6) for t in times] == [485, 589]


@pytest.mark.parametrize("ranks", [8, 64])
def test_divide_and_conquer_pays_for_three_peers_in_its_first_round(ranks):
    nbytes = 8 * MIB
    rows, columns = GRIDS[ranks]
    schedule = build("squares", "all-reduce", ranks, ranks, grid=(rows, columns))
    result = photonic(schedule, wafer(rows, columns), nbytes / ranks)
    paper = (log2(ranks) - 1) * (ALPHA + RHO + nbytes / BANDWIDTH)
    # The formula has the whole bandwidth for each of the three; there are five lasers of sixteen.
    assert result.seconds == near(paper + (16 / 5 - 1) * nbytes / BANDWIDTH)


def test_a_ring_keeps_its_circuits_if_asked_to():
    schedule = build("ring", "all-reduce", 16, 16)
    fabric = wafer(4, 4, synchronisation=0.2e-6)
    beta = 2 * MIB * 15 / (16 * BANDWIDTH)
    assert photonic(schedule, fabric, MIB / 16).seconds == near(30 * (ALPHA + 0.2e-6 + RHO) + beta)
    kept = photonic(schedule, fabric, MIB / 16, incremental=True)
    assert kept.seconds == near(30 * (ALPHA + 0.2e-6) + RHO + beta)
    assert [r.reconfiguration for r in kept.rounds] == [RHO] + 29 * [0.0]
    assert kept.bound.seconds < kept.seconds


def test_circuits_that_changed_are_paid_for_again():
    # There and back again: the second half begins with the circuits that the first ended with.
    schedule = build("recursive", "all-reduce", 16, 16)
    kept = photonic(schedule, wafer(4, 4), MIB / 16, incremental=True)
    assert [r.reconfiguration for r in kept.rounds] == 4 * [RHO] + [0.0] + 3 * [RHO]


def test_a_round_in_parts_pays_for_each():
    schedule = point_to_point("messages", 32, [(t, t ^ 8, 1) for t in range(32)])
    result = photonic(schedule, wafer(2, 16, waveguides=2), 1e6)
    (only,) = result.rounds
    assert only.parts == 4
    assert (only.latency, only.reconfiguration) == (near(4 * ALPHA), near(4 * RHO))
    assert only.transfer == near(4 * 1e6 / BANDWIDTH)
    thin = photonic(schedule, wafer(2, 16, waveguides=2), 1e6, oversubscribed="thin")
    assert thin.seconds == near(ALPHA + RHO + 4 * 1e6 / BANDWIDTH)
    assert thin.rounds[0].limit.endswith("4 wavelengths")


def test_parts_are_as_slow_as_their_slowest_pair():
    schedule = point_to_point("messages", 4, [(0, 1, 6), (2, 3, 2), (3, 2, 1)])
    result = photonic(schedule, wafer(2, 2), 1e6)
    assert result.seconds == near(ALPHA + RHO + 6e6 / BANDWIDTH)
    assert result.rounds[0].bytes == 9e6
    assert result.rounds[0].limit == "circuit 0 -> 1, 16 wavelengths"
    assert result.busiest == "tile 0 sends"
    assert np.allclose(result.times[:, 0], ALPHA + RHO, rtol=1e-12)
    assert np.allclose(result.times[:, 1] - ALPHA - RHO, [6e6 / BANDWIDTH, 2e6 / BANDWIDTH, 1e6 / BANDWIDTH])


def test_times_of_transfers_lie_within_their_rounds_and_follow_the_data():
    schedule = build("recursive", "all-reduce", 16, 16, radix=4)
    verify(schedule)
    result = photonic(schedule, wafer(4, 4), 1e5)
    ends = np.cumsum([r.seconds for r in result.rounds])
    numbers = [r.round for r in result.rounds]
    t = schedule.transfers
    for i, number in enumerate(numbers):
        mine = result.times[(t["round"] == number) & (t["src"] != t["dst"])]
        assert mine[:, 1].max() == near(ends[i])
        assert mine[:, 0].min() >= (ends[i - 1] if i else 0) + ALPHA + RHO - 1e-15
    local = result.times[t["src"] == t["dst"]]
    assert (local[:, 0] == local[:, 1]).all()
    assert result.seconds == near(ends[-1])


def test_rounds_within_ranks_are_free():
    schedule = point_to_point("messages", 4, [(0, 0, 5), (1, 1, 2)])
    result = photonic(schedule, wafer(2, 2), 1e6)
    assert (result.seconds, result.rounds, result.busiest) == (0.0, (), "nothing")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "collective"),
    [
        ("recursive", "all-reduce"),
        ("direct", "all-to-all"),
        ("ring", "all-gather"),
        ("binomial", "broadcast"),
        ("direct", "gather"),
    ],
)
@pytest.mark.parametrize("incremental", [False, True])
def test_no_schedule_beats_the_bound(algorithm, collective, incremental):
    schedule = build(algorithm, collective, 16, 256)
    for waveguides in (1, 40):
        result = photonic(schedule, wafer(4, 4, waveguides=waveguides), 1e3, incremental=incremental)
        assert result.bound.seconds <= result.seconds * (1 + 1e-12)


def test_a_plan_that_is_given_is_used_and_checked():
    schedule = build("recursive", "all-reduce", 16, 16)
    fabric = wafer(4, 4)
    made = plan_circuits(schedule, fabric, sharing="paper", routing="shortest")
    faster = replace(fabric, laser_bandwidth=2 * fabric.laser_bandwidth)
    assert photonic(schedule, faster, 1e5, plan=made).seconds < photonic(schedule, fabric, 1e5).seconds
    first = made.rounds[0]
    broken = replace(made, rounds=(replace(first, bundles=first.bundles[1:]), *made.rounds[1:]))
    with pytest.raises(InputError, match="round 0: no circuit from tile 0"):
        photonic(schedule, fabric, 1e5, plan=broken)
    with pytest.raises(InputError, match="plan: 4 rows; allowed: the 2 of wafer"):
        photonic(schedule, wafer(2, 8), 1e5, plan=made)


def test_a_link_budget_slows_circuits_down_and_refuses_dark_ones():
    fabric = wafer(1, 16)
    schedule = point_to_point("messages", 16, [(0, 1, 1), (3, 11, 1)])
    free = photonic(schedule, fabric, 1e6)
    near_, far = (photonic(schedule, fabric, 1e6, budget=LinkBudget(launch_power=p)) for p in (40.0, 10.0))
    assert near_.seconds == free.seconds
    # Eight edges of a wafer close at 112 Gbit/s and not at 161.
    assert far.seconds == near(ALPHA + RHO + 1e6 / (16 * 112e9 / 8))
    assert far.rounds[0].limit == "circuit 3 -> 11, 16 wavelengths"
    words = "budget: round 0: circuit 3 -> 11 carries nothing over 8 edges; allowed: losses with which"
    with pytest.raises(InputError, match=words):
        photonic(schedule, fabric, 1e6, budget=LinkBudget(launch_power=2.0))


@settings(max_examples=15)
@given(
    st.sampled_from([("recursive", "all-reduce"), ("ring", "all-gather"), ("direct", "all-to-all")]),
    st.lists(st.floats(1e-3, 1e9), min_size=2, max_size=4).map(sorted),
    st.booleans(),
)
def test_more_bytes_never_take_less_time(which, sizes, incremental):
    schedule, fabric = build(which[0], which[1], 8, 64), wafer(2, 4, waveguides=2)
    circuits = plan_circuits(schedule, fabric)
    done = [photonic(schedule, fabric, b, plan=circuits, incremental=incremental) for b in sizes]
    for less, more in pairwise(done):
        assert less.seconds <= more.seconds
        assert all(a.transfer <= b.transfer for a, b in zip(less.rounds, more.rounds, strict=True))
        assert less.bound.seconds <= more.bound.seconds


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "collective", "elements", "limit"),
    [("recursive", "all-reduce", 256, 2), ("direct", "all-to-all", 65536, 10)],
)
def test_256_ranks_are_built_verified_and_costed_in_seconds(algorithm, collective, elements, limit):
    fabric = load("lightpath-256")
    assert isinstance(fabric, PhotonicFabric)
    photonic(build(algorithm, collective, 4, 16), fabric, 4.0)  # imports, and what is compiled
    begin = time.process_time()
    schedule = build(algorithm, collective, 256, elements)
    verify(schedule)
    done = photonic(schedule, fabric, 4.0)
    assert time.process_time() - begin < limit
    assert len(done.rounds) == schedule.communication_rounds
    if algorithm == "direct":
        # 255 peers and 16 ports; that circuits fit in so few parts is not said of every schedule.
        assert done.rounds[0].parts == 16
    assert done.bound.seconds <= done.seconds


@pytest.mark.parametrize("size", [0, -1.0, float("nan"), "4"])
def test_element_sizes_that_are_none_are_refused(size):
    with pytest.raises(InputError, match="element_bytes: "):
        photonic(build("ring", "all-gather", 4, 4), wafer(2, 2), size)
