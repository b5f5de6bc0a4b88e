"""The fastest schedule of all methods: proved, never slower than any, and close to what machines can do."""

import math
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wavefabric.collectives import kind, verify
from wavefabric.collectives.conditions import ArrayCut
from wavefabric.collectives.synthesis import Undecided
from wavefabric.collectives.synthesis.deadline import now
from wavefabric.fabric import Fabric, load
from wavefabric.fabric.bounds.bound import bound
from wavefabric.fabric.electrical.fabric import Link
from wavefabric.fabric.fastest import fastest_schedule
from wavefabric.fabric.io.files import from_toml
from wavefabric.fabric.rank_order import reordered

GIB = 2.0**30
DATA = Path(__file__).parents[1] / "data" / "fabric"


def planes(nodes=2, gpus=4):
    """Nodes with a switch; the adapters of even GPUs are in one network, those of odd GPUs in another."""
    links = []
    for gpu in range(nodes * gpus):
        for switch, rate in ((f"node{gpu // gpus}", 300e9), (f"plane{gpu % 2}", 25e9)):
            links += [Link(f"GPU{gpu}", switch, rate), Link(switch, f"GPU{gpu}", rate)]
    names = tuple(f"GPU{gpu}" for gpu in range(nodes * gpus))
    switches = (*(f"node{node}" for node in range(nodes)), "plane0", "plane1")
    return Fabric("planes", names, switches, tuple(links), 0.7e-6)


def check(fastest, collective):
    verify(fastest.schedule)
    assert kind(fastest.schedule)[0] == collective
    assert all(math.isinf(attempt.seconds) == bool(attempt.why) for attempt in fastest.attempts)
    assert fastest.cost.seconds == pytest.approx(min(each.seconds for each in fastest.attempts), rel=1e-9)
    assert fastest.cost.seconds >= fastest.cost.bound.seconds * (1 - 1e-9)


@pytest.mark.parametrize(
    "collective",
    [
        "all-gather",
        "broadcast",
        *(pytest.param(each, marks=pytest.mark.slow) for each in ("reduce-scatter", "all-reduce")),
    ],
)
def test_pairs_without_a_route_are_no_obstacle(collective):
    said = []
    fastest = fastest_schedule(collective, planes(), 64 * 2.0**20, progress=said.append)
    check(fastest, collective)
    assert fastest.method.startswith("trees")
    assert fastest.gap < 0.12
    assert said[-1].endswith(fastest.method)
    assert any("no way from" in attempt.why for attempt in fastest.attempts)


@pytest.mark.parametrize(
    "name",
    [
        "torus:2x3",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("ring:7", "torus:4x4", "hypercube:4")),
    ],
)
@pytest.mark.parametrize("collective", ["all-gather", "reduce-scatter", "all-reduce"])
def test_machines_that_repeat_are_within_a_percent_of_the_bound(name, collective):
    fastest = fastest_schedule(collective, load(name), GIB)
    check(fastest, collective)
    assert fastest.gap < 0.01


@pytest.mark.parametrize(
    ("name", "most_ms"),
    [
        ("a100x1", 3.14),  # ForestColl's 3.13 ms at 1 GB, of which 3.13 are the bound of any schedule
        pytest.param("a100x2", 3.13, marks=pytest.mark.slow),
        pytest.param("mi250x1", 3.2, marks=pytest.mark.slow),
        pytest.param("ndv2x2", 43.6, marks=pytest.mark.slow),  # TE-CCL: 46.98
    ],
)
def test_published_machines(name, most_ms):
    fastest = fastest_schedule("all-gather", load(DATA / f"{name}.toml"), GIB)
    check(fastest, "all-gather")
    assert fastest.cost.seconds * 1e3 < most_ms
    assert fastest.gap < 0.0205


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "nbytes", "published_ms"),
    [
        ("ndv2x2", 1e9, 53.77),  # TACCL, in TE-CCL's tables
        ("ndv2x2-15", 937.5e6, 43.75),  # TE-CCL, in its provided outputs, and the next
        ("ndv2x4", 1e9, 65.0),
        ("tacos/mesh-5x5", GIB, 9.606),  # TACOS, in its tests, and the next
        ("tacos/torus-3x3x3", GIB, 3.7062),
    ],
)
def test_not_slower_than_published_schedules(name, nbytes, published_ms):
    fastest = fastest_schedule("all-gather", load(DATA / f"{name}.toml"), nbytes)
    check(fastest, "all-gather")
    assert fastest.cost.seconds * 1e3 <= published_ms * (1 + 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    "order", [(5, 2, 7, 0, 3, 6, 1, 4), pytest.param((7, 6, 5, 4, 3, 2, 1, 0), marks=pytest.mark.slow)]
)
def test_renumbered_gpus_take_as_long(order):
    first, other = (
        fastest_schedule("all-gather", fabric, 64 * 2.0**20).cost
        for fabric in (planes(), reordered(planes(), order))
    )
    assert other.bound.seconds == pytest.approx(first.bound.seconds, rel=1e-9)
    assert other.seconds == pytest.approx(first.seconds, rel=0.02)


@pytest.mark.slow
def test_direct_links_are_used_side_by_side():
    """On DGX-1 the fewest steps take 10.7 ms; trees over all NVLinks do not wait for the slowest link."""
    fastest = fastest_schedule("all-gather", load("dgx-1"), GIB)
    check(fastest, "all-gather")
    assert fastest.cost.seconds < 6.25e-3
    steps = [attempt.seconds for attempt in fastest.attempts if "fewest steps" in attempt.method]
    assert min(steps) > 10e-3


@pytest.mark.parametrize("collective", ["all-gather", pytest.param("broadcast", marks=pytest.mark.slow)])
def test_four_planes_are_as_fast_as_one_switch(collective):
    def switched(count):
        names = [f"plane{plane}" for plane in range(count)]
        ends = [(gpu, name) for gpu in range(8) for name in names]
        links = [
            Link(*pair, 400e9 / count)
            for gpu, name in ends
            for pair in ((f"GPU{gpu}", name), (name, f"GPU{gpu}"))
        ]
        return Fabric(
            f"{count} planes", tuple(f"GPU{gpu}" for gpu in range(8)), tuple(names), tuple(links), 1e-6
        )

    one, four = (fastest_schedule(collective, switched(count), GIB).cost for count in (1, 4))
    assert four.seconds == pytest.approx(one.seconds, rel=1e-9)
    assert four.bound.seconds == pytest.approx(one.bound.seconds, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("collective", "halves", "words"),
    [("all-gather", 1, "3 steps, 7 rounds, 6 pieces"), ("all-reduce", 2, "6 steps, 14 rounds, 48 pieces")],
)
def test_a_dgx1_takes_what_sccl_found(collective, halves, words):
    """Cai et al. (doi:10.1145/3437801.3441620): 7 rounds of 1/48 of the array in 3 steps."""
    fastest = fastest_schedule(collective, load(DATA / "dgx1-nvlinks.toml"), GIB)
    check(fastest, collective)
    assert fastest.method == words
    assert fastest.cost.seconds == pytest.approx(halves * (3 * 0.7e-6 + 7 * GIB / 48 / 25e9), rel=1e-9)


@pytest.mark.slow
def test_small_arrays_on_two_dgx2_take_three_hops():
    fastest = fastest_schedule("all-gather", load(DATA / "dgx2x2.toml"), 16e3)
    check(fastest, "all-gather")
    assert fastest.method == "trees of fewest hops, 3 deep, 1 piece"
    assert fastest.schedule.communication_rounds == 3
    assert fastest.cost.seconds < 6.4e-6


@pytest.mark.slow
def test_small_arrays_take_few_rounds():
    fastest = fastest_schedule("all-gather", load("dgx-1"), 8192.0)
    check(fastest, "all-gather")
    assert fastest.schedule.communication_rounds <= 3


def test_pieces_that_are_given_stay():
    fastest = fastest_schedule("all-gather", planes(), GIB, ArrayCut(3, 48))
    assert {sizes.shape for sizes in fastest.schedule.sizes} == {(8, 24)}


def test_out_of_time():
    with pytest.raises(Undecided, match="--fabric: planes is too large; allowed: fewer GPUs, or more time"):
        fastest_schedule("all-gather", planes(), GIB, until=-math.inf)


def islands():
    """Two switches with two GPUs each, and one link between a GPU of each."""
    ends = [("GPU0", "left"), ("GPU1", "left"), ("GPU2", "right"), ("GPU3", "right"), ("GPU1", "GPU2")]
    links = tuple(Link(*pair, 100e9) for a, b in ends for pair in ((a, b), (b, a)))
    return Fabric("islands", tuple(f"GPU{i}" for i in range(4)), ("left", "right"), links, 1e-6)


def test_what_no_method_serves_is_said_with_the_reason():
    """No gather passes data on."""
    with pytest.raises(Undecided, match=r"no gather found on islands: .*no way from GPU2 to GPU0"):
        fastest_schedule("gather", islands(), GIB)


def test_an_all_to_all_passes_through_other_gpus_where_pairs_have_no_route():
    """Four messages of a quarter of the array cross the link between the islands: 100 GB/s."""
    fastest = fastest_schedule("all-to-all", islands(), GIB)
    check(fastest, "all-to-all")
    assert fastest.method.startswith("relays, 3 deep")
    assert fastest.cost.bound.transfer == pytest.approx(GIB / 100e9)
    assert fastest.gap < 0.02
    assert fastest_schedule("all-to-all", islands(), 64.0).schedule.communication_rounds == 3


def test_an_all_to_all_of_unequal_sizes_passes_through_other_gpus():
    sizes = 1000 * np.random.default_rng(5).integers(0, 9, (4, 4))
    fastest = fastest_schedule("all-to-all", islands(), GIB, ArrayCut(elements=sizes))
    verify(fastest.schedule)
    assert fastest.method.startswith("relays")
    # Each message has one way: over the link between the islands, and GPU1 or GPU2 to GPU0 or GPU3.
    off = sizes - np.diag(np.diag(sizes))
    ends = max(max(off[gpu].sum(), off[:, gpu].sum()) for gpu in (0, 3))
    busiest = max(sizes[:2, 2:].sum(), sizes[2:, :2].sum(), ends) / sizes.sum() * GIB / 100e9
    assert fastest.cost.bound.seconds <= fastest.cost.seconds
    assert busiest < fastest.cost.seconds < 1.04 * busiest


@pytest.mark.parametrize(
    ("name", "nbytes", "published_us"),
    [  # TE-CCL, in its provided outputs
        ("ndv2x2-15", 937.5e3, 290.0),
        pytest.param("ndv2x2-15", 937.5e6, 283750.0, marks=pytest.mark.slow),
        pytest.param("dgx2x2", 1e6, 84.25, marks=pytest.mark.slow),
        pytest.param("dgx2x2", 1e9, 80500.0, marks=pytest.mark.slow),
    ],
)
def test_all_to_alls_of_published_machines(name, nbytes, published_us):
    fastest = fastest_schedule("all-to-all", load(DATA / f"{name}.toml"), nbytes)
    check(fastest, "all-to-all")
    assert fastest.method.startswith("relays")
    # Its transfers wait for their data alone, our rounds for their slowest transfer.
    assert fastest.cost.seconds * 1e6 < published_us * (1 if nbytes > 1e8 else 1.12)


@pytest.mark.slow
def test_messages_avoid_the_slow_links_of_a_dgx_1():
    """Half of the pairs have no NVLink; over other GPUs an all-to-all is four times as fast as `direct`."""
    fastest = fastest_schedule("all-to-all", load("dgx-1"), GIB)
    check(fastest, "all-to-all")
    assert fastest.method.startswith("relays, 2 deep")
    assert fastest.gap < 0.04
    direct = next(each for each in fastest.attempts if each.method == "algorithm direct")
    assert direct.seconds > 4 * fastest.cost.seconds


@pytest.mark.slow
@settings(max_examples=15)
@given(st.data())
def test_all_to_alls_over_any_links_take_no_less_than_the_bound(data):
    n = data.draw(st.integers(3, 6))
    more = data.draw(st.sets(st.sampled_from(list(permutations(range(n), 2)))))
    rates = st.sampled_from([10e9, 25e9, 100e9])
    pairs = sorted({*((r, (r + 1) % n) for r in range(n)), *more})
    links = tuple(Link(f"GPU{a}", f"GPU{b}", data.draw(rates), 1e-6) for a, b in pairs)
    fabric = Fabric("any", tuple(f"GPU{r}" for r in range(n)), (), links, 1e-6)
    nbytes = data.draw(st.sampled_from([64.0, 1e6, 1e9]))
    fastest = fastest_schedule("all-to-all", fabric, nbytes, until=now() + 2)
    check(fastest, "all-to-all")
    least = bound("all-to-all", fabric, nbytes).seconds
    assert all(each.seconds >= least * (1 - 1e-9) for each in fastest.attempts)


def test_pieces_of_relays_stay():
    fastest = fastest_schedule("all-to-all", islands(), GIB, ArrayCut(pieces=3))
    assert fastest.schedule.sizes[0].shape == (4, 12)


def test_what_has_no_trees():
    fastest = fastest_schedule("all-to-all", load("nodes:2x8"), GIB)
    check(fastest, "all-to-all")
    assert "allowed: chunks from one rank to all others" in fastest.attempts[-1].why


@pytest.mark.slow
def test_small_arrays_of_two_ndv2_take_as_long_as_te_ccl_says():
    """TE-CCL (arXiv:2305.13479): 4.44 µs for 16 KiB, where transfers wait for their data alone."""
    fastest = fastest_schedule("all-gather", load(DATA / "ndv2x2.toml"), 2.0**14, model="flow")
    check(fastest, "all-gather")
    assert fastest.cost.model == "flow"
    assert fastest.cost.seconds < 4.46e-6


@pytest.mark.slow
def test_an_all_to_all_of_unequal_sizes_meets_the_bound_of_the_busiest_gpu():
    sizes = np.random.default_rng(3).integers(0, 9, (16, 16))
    fastest = fastest_schedule("all-to-all", load("switch:16"), GIB, ArrayCut(elements=sizes))
    verify(fastest.schedule)
    off = sizes - np.diag(np.diag(sizes))
    busiest = max(off.sum(axis=0).max(), off.sum(axis=1).max()) / sizes.sum()
    rate = load("switch:16").links[0].bandwidth
    assert fastest.gap < 1e-9
    assert fastest.cost.seconds == pytest.approx(load("switch:16").alpha + busiest * GIB / rate)


@pytest.mark.slow
def test_unequal_sizes_pass_through_rails_where_the_spine_is_narrow():
    sizes = 60 * np.random.default_rng(4).integers(1, 9, (32, 32))
    network = '{ bandwidth = "50 GB/s", oversubscription = 4 }'
    family = f'{{ kind = "nodes", grid = [4, 8], bandwidth = "450 GB/s", network = {network} }}'
    fabric = from_toml(f'name = "narrow"\nalpha = "1 us"\nfamily = {family}\n')
    fastest = fastest_schedule("all-to-all", fabric, GIB, ArrayCut(elements=sizes))
    hierarchical = [each.seconds for each in fastest.attempts if "hierarchical" in each.method]
    assert fastest.method.startswith("relays, 2 deep")
    assert fastest.cost.seconds < 0.9 * min(hierarchical)
    assert fastest.gap < 0.1  # the bound counts what leaves one node, not what leaves its busiest adapter
