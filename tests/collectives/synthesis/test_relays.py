"""All-to-alls over other ranks: proved, in the time that links of rings, lines and hypercubes allow."""

from itertools import pairwise, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from wavefabric.base.errors import InputError
from wavefabric.collectives import kind, verify
from wavefabric.collectives.synthesis.deadline import OutOfTime, now
from wavefabric.collectives.synthesis.relays import Pairs, relayed_schedule, relays


def joined(ends, rates=None):
    """Pairs that have a link each, of 1 B/s or the given rates, and a latency of 1 s."""
    ends = np.array(ends)
    rates = np.ones(len(ends)) if rates is None else np.array(rates)
    return Pairs(ends, csr_array(np.diag(1 / rates)), np.ones(len(ends)))


def line(n):
    return [pair for r in range(n - 1) for pair in ((r, r + 1), (r + 1, r))]


def ring(n):
    return [pair for r in range(n) for pair in ((r, (r + 1) % n), ((r + 1) % n, r))]


def hypercube(dimensions):
    return [(r, r ^ 1 << d) for r in range(1 << dimensions) for d in range(dimensions)]


@pytest.mark.parametrize(
    ("ends", "ranks", "hops", "messages"),
    [
        # The middle link carries what one half sends to the other.
        *((line(n), n, n - 1, (n // 2) * ((n + 1) // 2)) for n in (3, 4, 7)),
        # Each rank's messages take n²/4 links, or (n² − 1)/4 for odd n, of two for each rank.
        *((ring(n), n, n // 2, n * n // 4 / 2) for n in (3, 4, 5, 8)),
        # Each rank's messages take d 2^(d − 1) links, of d for each rank.
        *((hypercube(d), 1 << d, d, 1 << d - 1) for d in (2, 3)),
    ],
)
def test_the_busiest_link_carries_as_little_as_can_be(ends, ranks, hops, messages):
    result = relays(joined(ends), np.ones((ranks, ranks)), hops)
    assert result.least == pytest.approx(messages, rel=1e-3)
    assert messages * (1 - 1e-9) <= result.seconds <= messages * 1.011
    assert result.hops == hops
    schedule = relayed_schedule(result, ranks, 6 * ranks * result.parts, 3)
    verify(schedule)
    assert kind(schedule) == ("all-to-all", None)
    assert schedule.communication_rounds == hops + 2
    assert {(int(src), int(dst)) for src, dst in schedule.transfers[["src", "dst"]]} <= {
        *ends,
        *((r, r) for r in range(ranks)),
    }


def test_a_slow_link_is_helped_by_a_way_around():
    """0 → 1 carries 1 B/s; over rank 2 go 3 B/s more: a quarter of the message takes the link."""
    pairs = joined([(0, 1), (0, 2), (2, 1), (1, 0)], [1.0, 3.0, 3.0, 1.0])
    sizes = np.zeros((3, 3), int)
    sizes[0, 1] = 8
    result = relays(pairs, sizes, 2)
    assert (result.parts, result.seconds) == (4, pytest.approx(2))
    assert sorted(route.tolist() for route in result.routes) == [[0, 1, -1], *[[0, 2, 1]] * 3]
    assert relays(pairs, sizes, 1).seconds == pytest.approx(8)
    # Three pieces are not divided into four parts.
    assert relays(pairs, sizes, 2, pieces=3).seconds == pytest.approx(8 / 3)


def test_short_routes_wait_until_the_slow_link_is_used_by_all():
    """Ranks 0 and 1 send to rank 3 over the slow link 1 → 2; rank 1's message goes with that of rank 0."""
    pairs = joined([(0, 1), (1, 2), (2, 3)], [100.0, 1.0, 100.0])
    sizes = np.zeros((4, 4), int)
    sizes[0, 3] = sizes[1, 3] = 1
    result = relays(pairs, sizes, 3)
    assert result.routes.tolist() == [[0, 1, 2, 3], [1, 2, 3, -1]]
    # Both at once take 2 s; one after the other the same, and the latencies and fast links of two rounds.
    late = Pairs(pairs.ends, pairs.loads, np.array([1.0, 50.0, 1.0]))
    assert relays(late, sizes, 3).starts.tolist() == [0, 1]


@pytest.mark.slow
@settings(max_examples=30)
@given(st.data())
def test_any_sizes_over_any_links(data):
    n = data.draw(st.integers(3, 6))
    more = data.draw(st.sets(st.sampled_from(list(permutations(range(n), 2)))))
    ends = sorted({*ring(n), *more})
    rates = data.draw(st.lists(st.sampled_from([1.0, 2.0, 5.0]), min_size=len(ends), max_size=len(ends)))
    numbers = st.lists(st.integers(0, 7), min_size=n * n, max_size=n * n)
    sizes = np.array(data.draw(numbers)).reshape(n, n)
    sizes[0, n - 1] += 1
    result = relays(joined(ends, rates), sizes, n - 1)
    verify(relayed_schedule(result, n, sizes, data.draw(st.integers(1, 3))))
    busy = np.zeros((n, n))
    count = np.zeros((n, n), int)
    for route in result.routes.tolist():
        route = [rank for rank in route if rank >= 0]
        count[route[0], route[-1]] += 1
        for a, b in pairwise(route):
            busy[a, b] += sizes[route[0], route[-1]] / result.parts
    assert (count == np.where((sizes > 0) & ~np.eye(n, dtype=bool), result.parts, 0)).all()
    times = [busy[pair] / rate for pair, rate in zip(ends, rates, strict=True)]
    assert result.seconds == pytest.approx(max(times))
    assert result.least <= result.seconds * (1 + 1e-9)


def test_what_cannot_be_reached_and_time_that_is_over():
    with pytest.raises(InputError, match="links: no way from rank 0 to rank 2; allowed: links that join"):
        relays(joined(line(3)), np.ones((3, 3)), 1)
    with pytest.raises(OutOfTime):
        relays(joined(line(3)), np.ones((3, 3)), 2, until=now() - 1)
