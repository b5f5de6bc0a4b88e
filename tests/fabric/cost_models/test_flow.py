"""Flow-level simulation: closed forms, fair shares against a linear program, and what must always hold."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from schedule_cases import arbitrary
from scipy.optimize import linprog

from wavefabric.base.errors import InputError
from wavefabric.collectives import (
    TRANSFER,
    Schedule,
    levels,
    point_to_point,
    ring_all_gather,
    ring_all_reduce,
)
from wavefabric.collectives.levels import dependencies
from wavefabric.collectives.structure import moves
from wavefabric.fabric.cost_models.alpha_beta import alpha_beta
from wavefabric.fabric.cost_models.flow import SharedLinks, flow
from wavefabric.fabric.electrical.fabric import Fabric, Link
from wavefabric.fabric.io.files import load
from wavefabric.runtime.kernels.cpu_launch import call_kernel

STAR = Fabric(
    "star",
    tuple(f"g{r}" for r in range(6)),
    ("s",),
    tuple(link for r in range(6) for link in (Link(f"g{r}", "s", 2e9), Link("s", f"g{r}", 1e9))),
    1e-3,
)


def messages(*rows):
    return point_to_point("messages", 6, rows)


def ends(schedule, fabric, **options):
    """When each message has arrived, in ms."""
    return (flow(schedule, fabric, 1e6, **options).times[:, 1] * 1e3).tolist()


def test_a_transfer_alone_takes_alpha_latency_and_bytes_by_bandwidth():
    assert ends(messages((0, 1, 3)), STAR) == pytest.approx([1 + 3])
    slow = replace(STAR, links=tuple(replace(link, latency=0.5e-3) for link in STAR.links))
    assert ends(messages((0, 1, 3)), slow) == pytest.approx([1 + 2 * 0.5 + 3])
    assert ends(messages((0, 1, 3)), replace(STAR, flow_bandwidth=0.5e9)) == pytest.approx([1 + 6])
    assert ends(messages((0, 1, 3)), replace(STAR, copy_bandwidth=0.25e9)) == pytest.approx([1 + 12])


def test_transfers_into_one_gpu_share_its_link():
    assert ends(messages(*((r, 5, 2) for r in range(4))), STAR) == pytest.approx([1 + 8] * 4)


def test_when_one_of_two_ends_the_other_gets_the_whole_link():
    # 1 GB/s shared until 1 MB of each has come, after 2 ms; the other's last 2 MB take 2 ms.
    assert ends(messages((0, 5, 1), (1, 5, 3)), STAR) == pytest.approx([1 + 2, 1 + 2 + 2])


def test_one_that_starts_later_takes_its_share():
    # Rank 3 has 2 MB for 2, by way of 1; rank 0 has 6 MB for 2.
    rows = [(0, 3, 1, 0, 0, 0, 0, 1, False), (0, 0, 2, 0, 1, 0, 1, 1, False)]
    rows += [(1, 1, 2, 0, 0, 0, 0, 1, False)]
    sizes = (np.tile(np.array([2, 6], np.int64), (6, 1)),)
    relay = Schedule("relay", 6, ("data",), sizes, np.array([(*row, 0) for row in rows], TRANSFER), {}, {})
    # 3 -> 1: 1 + 2 = 3 ms. Then alpha: at 4 ms it joins 0 -> 2, of which 3 MB came. Each then gets half: the
    # relayed 2 MB end at 8 ms, when 1 MB of the other is left.
    assert ends(relay, STAR) == pytest.approx([3, 9, 8])


def test_transfers_of_a_pair_keep_their_order_and_overlap_their_latencies():
    assert ends(messages((0, 1, 1), (0, 1, 2), (0, 1, 1)), STAR) == pytest.approx([2, 4, 5])


def test_engines_queue_first_come_first_served():
    fan = messages(*((0, d, 2) for d in (1, 2, 3)))
    assert ends(fan, STAR) == pytest.approx([1 + 3] * 3)
    assert ends(fan, STAR, engines=1) == pytest.approx([3, 5, 7])
    assert ends(fan, STAR, engines=2) == pytest.approx([3, 3, 5])
    begin = flow(fan, STAR, 1e6, engines=1).times[:, 0] * 1e3
    assert begin.tolist() == pytest.approx([0, 2, 4])
    for wrong in (0, 1.5, True):
        with pytest.raises(InputError, match=r"engines: .*; allowed: whole numbers from 1"):
            flow(fan, STAR, 1e6, engines=wrong)


@pytest.mark.parametrize("ranks", [2, 3, 8, 33])
def test_a_ring_takes_its_textbook_time(ranks):
    fabric = load(f"ring:{ranks}")
    rate, size = 300 * 2.0**30, 1e6
    gathered = flow(ring_all_gather([1] * ranks), fabric, size)
    assert gathered.seconds == pytest.approx((ranks - 1) * (fabric.alpha + size / rate))
    reduced = flow(ring_all_reduce(ranks, ranks), fabric, size)
    assert reduced.seconds == pytest.approx(2 * (ranks - 1) * (fabric.alpha + size / rate))


def test_a_pipeline_overlaps_what_rounds_would_not():
    # Chunks 1 MB and 3 MB down a line of three: rounds wait for the slowest, flows do not.
    line = Fabric("line", ("a", "b", "c"), (), tuple(Link(*e, 1e9) for e in ("ab", "bc", "ca")), 0.0)
    rows = [(0, 0, 1, 0, 0, 0, 0, 1, False), (1, 0, 1, 0, 1, 0, 1, 1, False)]
    rows += [(1, 1, 2, 0, 0, 0, 0, 1, False), (2, 1, 2, 0, 1, 0, 1, 1, False)]
    sizes = (np.tile(np.array([3, 1], np.int64), (3, 1)),)
    schedule = Schedule("line", 3, ("data",), sizes, np.array([(*row, 0) for row in rows], TRANSFER), {}, {})
    assert alpha_beta(schedule, line, 1e6).seconds == pytest.approx(7e-3)
    assert ends(schedule, line) == pytest.approx([3, 4, 6, 7])
    wide = replace(line, links=(line.links[0], Link("b", "c", 3e9), line.links[2]))
    assert ends(schedule, wide) == pytest.approx([3, 4, 4, 4 + 1 / 3])


def test_nothing_that_moves_takes_no_time():
    for rows in ([], [(0, 0, 5)], [(0, 1, 0)]):
        done = flow(messages(*rows), STAR, 1e6)
        assert (done.seconds, done.busiest, done.bound.seconds) == (0.0, "nothing", 0.0)


# Fair shares.


def fractions(routes, capacity, most=np.inf, parts=None):
    first = np.cumsum([0, *map(len, routes)])
    rate, success = np.zeros(len(routes)), np.zeros(1, np.bool_)
    resource = np.array([r for route in routes for r in route], np.int64)
    part = np.ones(resource.size) if parts is None else np.concatenate(parts)
    capacity = np.asarray(capacity, float)
    links = SharedLinks(first, resource, part, capacity, float(most))
    call_kernel("fair_shares_double", np.arange(len(routes)), links, rate, success)
    assert success[0]
    return rate


def by_linear_programs(routes, capacity, most, parts):
    """Max–min fair rates: raise all that are not fixed together, fix those that cannot go on, and again."""
    fixed = {}
    n = len(routes)
    while len(fixed) < n:
        a = np.zeros((len(capacity) + n, n + 1))
        b = np.zeros(len(a))
        for f, route in enumerate(routes):
            for r, part in zip(route, parts[f], strict=True):
                a[r, f] += part
        b[: len(capacity)] = capacity
        a[len(capacity) + np.arange(n), np.arange(n)] = -1
        for f in range(n):
            if f not in fixed:
                a[len(capacity) + f, n] = 1
        bounds = [(fixed.get(f, 0), fixed.get(f, most)) for f in range(n)] + [(0, most)]
        level = linprog([0] * n + [-1], a, b, bounds=bounds).x[n]
        bounds[:n] = [(fixed.get(f, level), fixed.get(f, most)) for f in range(n)]
        for f in range(n):
            if f not in fixed:
                alone = [0.0] * (n + 1)
                alone[f] = -1.0
                if linprog(alone, a[: len(capacity)], b[: len(capacity)], bounds=bounds).x[f] < level + 1e-6:
                    fixed[f] = level
    return [fixed[f] for f in range(n)]


def test_the_textbook_example_of_fair_shares():
    # Bertsekas & Gallager, section 6.5.2: one flow over all links, others over one each.
    assert fractions([(0, 1, 2), (0,), (1,), (2,)], [1, 2, 4]).tolist() == pytest.approx([0.5, 0.5, 1.5, 3.5])
    assert fractions([(0, 1), (0,), (1,), (1,)], [1, 1]).tolist() == pytest.approx(
        [1 / 3, 2 / 3, 1 / 3, 1 / 3]
    )


@settings(max_examples=25)
@given(st.data())
def test_fair_shares_are_those_of_linear_programs(data):
    links = data.draw(st.integers(1, 4))
    capacity = data.draw(st.lists(st.integers(1, 9), min_size=links, max_size=links))
    route = st.lists(st.integers(0, links - 1), min_size=1, max_size=links, unique=True)
    routes = data.draw(st.lists(route, min_size=1, max_size=5))
    most = data.draw(st.sampled_from([2.5, 100.0]))
    part = st.sampled_from([1.0, 0.5, 0.125])
    parts = [data.draw(st.lists(part, min_size=len(route), max_size=len(route))) for route in routes]
    expected = by_linear_programs(routes, capacity, most, parts)
    np.testing.assert_allclose(fractions(routes, capacity, most, parts), expected, 1e-6)


# What always holds.


@st.composite
def message_lists(draw):
    rank = st.integers(0, 5)
    rows = draw(st.lists(st.tuples(rank, rank, st.integers(1, 9)), min_size=1, max_size=12))
    return messages(*rows)


@settings(max_examples=40)
@given(message_lists(), st.sampled_from([None, 1, 2]), st.booleans())
def test_no_link_carries_more_than_it_can(schedule, engines, limited):
    fabric = replace(STAR, copy_bandwidth=1.5e9, flow_bandwidth=0.7e9) if limited else STAR
    done = flow(schedule, fabric, 1e6, engines=engines)
    t = schedule.transfers
    assert done.seconds == done.times[:, 1].max(initial=0.0)
    assert done.seconds >= done.bound.seconds * (1 - 1e-9)
    size = schedule.sizes[0][t["src"], t["src_chunk"]] * 1e6
    out, into = min(2e9, fabric.copy_bandwidth or 2e9), 1e9
    remote = t["src"] != t["dst"]
    for key, able in (("src", out), ("dst", into)):
        for rank in range(6):
            mine = remote & (t[key] == rank)
            # All that goes through a port lies between its first beginning and its last end.
            if mine.any():
                span = done.times[mine, 1].max() - done.times[mine, 0].min() - fabric.alpha
                assert size[mine].sum() <= able * span * (1 + 1e-9)
    own = done.times[remote, 1] - done.times[remote, 0] - fabric.alpha
    assert (own >= size[remote] / min(out, into, fabric.flow_bandwidth or np.inf) * (1 - 1e-9)).all()


@settings(max_examples=35)
@given(arbitrary())
def test_transfers_wait_for_what_they_need_and_for_nothing_else(schedule):
    first, then = dependencies(schedule)
    m, t = moves(schedule), schedule.transfers
    touched = [
        {(c, False) for c in m.src[m.transfer == i]} | {(c, True) for c in m.dst[m.transfer == i]}
        for i in range(t.size)
    ]
    reach = np.zeros((t.size, t.size), bool)
    reach[first, then] = True
    for middle in range(t.size):
        reach |= reach[:, middle, None] & reach[middle]
    wanted = np.zeros_like(reach)
    for b in range(t.size):
        for a in range(b):
            wanted[a, b] = any(x[0] == y[0] and (x[1] or y[1]) for x in touched[a] for y in touched[b])
        for middle in range(b):
            wanted[:, b] |= wanted[:, middle] & wanted[middle, b]
    np.testing.assert_array_equal(reach, wanted)
    fabric = load(f"switch:{schedule.ranks}")
    times = flow(schedule, fabric, 1e6).times
    assert (times[first, 1] <= times[then, 0] * (1 + 1e-9) + 1e-15).all()
    order = levels(schedule)
    assert (order[first] < order[then]).all()


@settings(max_examples=12)
@given(st.integers(2, 9), st.sampled_from(["ring", "switch", "torus:3x3", "dgx-2"]), st.booleans())
def test_more_bytes_take_longer(ranks, kind, reduces):
    fabric = load(kind if kind[-1].isdigit() else f"{kind}:{ranks}")
    ranks = min(ranks, fabric.ranks)
    schedule = ring_all_reduce(ranks, ranks) if reduces else ring_all_gather(range(1, ranks + 1))
    times = [flow(schedule, fabric, 10.0**k).seconds for k in range(0, 10, 3)]
    assert all(a < b for a, b in pairwise(times))
