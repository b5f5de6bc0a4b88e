"""Bruck's algorithms: rounds and volumes for any number of ranks."""

import numpy as np
import pytest
from schedule_cases import busiest, sent

from wavefabric.collectives import build, verify


def ceil_log(n, radix):
    rounds = 0
    while radix**rounds < n:
        rounds += 1
    return rounds


def digits(number, radix):
    result = []
    while number:
        result.append(number % radix)
        number //= radix
    return result


@pytest.mark.parametrize("radix", [2, 3, 4, 40])
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 27, 33])
def test_rounds_and_volumes(ranks, radix):
    gather = build("bruck", "all-gather", ranks, 2 * ranks, radix=radix)
    assert gather.communication_rounds == ceil_log(ranks, radix)
    assert sent(gather) == [2 * (ranks - 1)] * ranks
    exchange = build("bruck", "all-to-all", ranks, 2 * ranks, radix=radix)
    assert exchange.communication_rounds == ceil_log(ranks, radix)
    # A part that goes ahead by i ranks travels once for each digit of i that is not 0.
    hops = sum(np.count_nonzero(digits(i, radix)) for i in range(ranks))
    assert sent(exchange) == [2 * hops] * ranks
    for schedule in (gather, exchange):
        verify(schedule)
        assert busiest(schedule, "src") <= radix - 1


@pytest.mark.parametrize("elements", [0, 1, 4, 7, 100])
@pytest.mark.parametrize("radix", [2, 3])
def test_parts_may_differ_in_size(elements, radix):
    for pieces in (1, 3):
        verify(build("bruck", "all-to-all", 7, elements, pieces=pieces, radix=radix))


def test_parts_travel_together():
    """One transfer a rank and round, but the last: some of its blocks go around the end of the array."""
    t = build("bruck", "all-to-all", 16, 64).transfers
    remote = t[t["src"] != t["dst"]]
    for number in np.unique(remote["round"])[:-1]:
        assert (remote["round"] == number).sum() == 16
    assert (remote["round"] == remote["round"].max()).sum() <= 2 * 16
    assert remote[remote["round"] < remote["round"].max()]["count"].tolist() == [8] * 48


def test_a_radix_as_large_as_the_ranks_is_direct():
    bruck = build("bruck", "all-to-all", 6, 60, radix=6)
    assert bruck.buffers == ("send", "recv")
    assert np.array_equal(bruck.transfers, build("direct", "all-to-all", 6, 60).transfers)
