"""Recursive and direct algorithms: rounds, volumes, contiguous blocks, factors."""

from itertools import combinations_with_replacement
from math import log, prod

import numpy as np
import pytest
from schedule_cases import busiest, sent

from wavefabric.collectives import build
from wavefabric.collectives.builders.recursive import factors

CASES = [(n, r) for n in (2, 3, 4, 6, 8, 9, 12, 16, 18, 27, 32) for r in (2, 3, 4, 8, 27) if factors(n, r)]


@pytest.mark.parametrize("radix", [2, 3, 4, 5, 8, 16])
def test_factors_are_as_few_as_possible(radix):
    for ranks in range(1, 60):
        result = factors(ranks, radix)
        # All products of up to five numbers from 2 to the radix, shortest and least sum first.
        variants = [
            f[::-1]
            for count in range(6)
            for f in combinations_with_replacement(range(2, radix + 1), count)
            if prod(f) == ranks
        ]
        assert (result is None) == (not variants)
        if variants:
            assert (len(result), sum(result)) == min((len(f), sum(f)) for f in variants)
            assert result in variants


def test_factors_of_the_paper():
    assert factors(128, 4) == (4, 4, 4, 2)
    assert factors(256, 4) == (4, 4, 4, 4)
    assert factors(12, 6) == (4, 3)
    assert factors(14, 4) is None


@pytest.mark.parametrize(("ranks", "radix"), CASES)
def test_rounds_and_volumes(ranks, radix):
    elements, groups = 5 * ranks, factors(ranks, radix)
    for collective in ("all-gather", "reduce-scatter", "all-reduce"):
        both = 1 + (collective == "all-reduce")
        schedule = build("recursive", collective, ranks, elements, radix=radix)
        assert schedule.communication_rounds == both * len(groups)
        # The least possible at any radix.
        assert sent(schedule) == [both * (elements - 5)] * ranks
        assert busiest(schedule, "src") == busiest(schedule, "dst") == max(groups) - 1
        t = schedule.transfers
        remote = t[t["src"] != t["dst"]]
        # One block to each peer.
        assert remote.size == both * ranks * sum(f - 1 for f in groups)
        # Sums of two ranks need no space.
        assert (len(schedule.buffers) == 1) == (max(groups) == 2 or collective == "all-gather")
    whole = build("recursive-exchange", "all-reduce", ranks, elements, radix=radix)
    assert whole.communication_rounds == len(groups)
    assert sent(whole) == [elements * sum(f - 1 for f in groups)] * ranks


@pytest.mark.parametrize("ranks", [2, 5, 8])
def test_lower_bounds_of_rounds_and_volume_hold(ranks):
    """With k peers a round: log_(k+1) N rounds and (N − 1)/N of the array (Thakur et al. 2005)."""
    for name, radix in [("recursive", 2), ("recursive", 8), ("bruck", 2), ("bruck", 3), ("direct", None)]:
        if name == "recursive" and factors(ranks, radix) is None:
            continue
        schedule = build(name, "all-gather", ranks, ranks, radix=radix)
        peers = busiest(schedule, "dst")
        assert schedule.communication_rounds >= log(ranks) / log(peers + 1) - 1e-9
        assert min(sent(schedule)) >= ranks - 1


def test_doubling_and_halving():
    gather = build("recursive", "all-gather", 8, 8).transfers
    assert gather[gather["src"] == 5][["round", "dst", "src_chunk", "count"]].tolist() == [
        (0, 4, 5, 1), (1, 7, 4, 2), (2, 1, 4, 4)
    ]  # fmt: skip
    scatter = build("recursive", "reduce-scatter", 8, 8).transfers
    assert scatter[scatter["src"] == 5][["round", "dst", "src_chunk", "count", "reduce"]].tolist() == [
        (0, 1, 0, 4, True), (1, 7, 6, 2, True), (2, 4, 4, 1, True)
    ]  # fmt: skip


@pytest.mark.parametrize("ranks", [1, 2, 5, 8])
@pytest.mark.parametrize("pieces", [1, 3])
def test_direct_takes_one_round_of_communication(ranks, pieces):
    n, all_pairs, to_root = 6 * ranks, ranks * (ranks - 1), ranks - 1
    transfers = {
        "all-gather": (all_pairs, n - 6),
        "reduce-scatter": (all_pairs, n - 6),
        "all-reduce": (all_pairs, n * (ranks - 1)),
        "all-to-all": (all_pairs, n - 6),
        "broadcast": (to_root, None),
        "reduce": (to_root, None),
        "gather": (to_root, None),
        "scatter": (to_root, None),
    }
    for collective, (count, volume) in transfers.items():
        schedule = build("direct", collective, ranks, n, pieces=pieces)
        t = schedule.transfers
        assert schedule.communication_rounds == (ranks > 1)
        assert (t["src"] != t["dst"]).sum() == count
        assert volume is None or sent(schedule) == [volume] * ranks


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 7, 8, 16])
def test_pairwise_meets_one_rank_a_round(ranks):
    for collective in ("all-to-all", "reduce-scatter", "all-gather"):
        schedule = build("pairwise", collective, ranks, 4 * ranks, pieces=2)
        assert schedule.communication_rounds == ranks - 1
        assert max(busiest(schedule, "src"), busiest(schedule, "dst")) <= 1
        assert sent(schedule) == [4 * (ranks - 1)] * ranks
        if ranks in (4, 8, 16):
            t = schedule.transfers[["round", "src", "dst"]].tolist()
            assert {(r, d, s) for r, s, d in t} == set(t)


def test_empty_chunks_are_left_out():
    t = build("recursive", "all-gather", 4, 3).transfers
    assert t["count"].max() == 2
    assert not ((t["src_chunk"] <= 3) & (t["src_chunk"] + t["count"] > 3)).any()
    assert np.array_equal(np.unique(t["round"]), [0, 1])
