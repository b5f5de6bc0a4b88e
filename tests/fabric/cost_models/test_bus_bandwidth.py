"""Bandwidths as nccl-tests define them, against their formulas and what rings really send."""

from dataclasses import replace

import pytest

from wavefabric.collectives.registry import ALGORITHMS, build
from wavefabric.fabric.cost_models.bus_bandwidth import bandwidths, bus_factor, most_elements


@pytest.mark.parametrize(
    ("collective", "factor"),
    [
        ("all-reduce", 7 / 4),  # 2 (n - 1)/n, github.com/NVIDIA/nccl-tests, PERFORMANCE.md
        ("all-gather", 7 / 8),
        ("reduce-scatter", 7 / 8),
        ("all-to-all", 7 / 8),
        ("broadcast", 1),
        ("reduce", 1),
        ("custom", None),
    ],
)
def test_factors(collective, factor):
    assert bus_factor(collective, 8) == factor


@pytest.mark.parametrize("collective", ALGORITHMS["ring"].collectives)
def test_a_ring_uses_its_links_at_the_bus_bandwidth(collective):
    schedule = build("ring", collective, 8, 1 << 10)
    algbw, busbw = bandwidths(schedule, 4.0, 1e-3)
    assert algbw == pytest.approx(4096 / 1e-3)
    assert busbw == pytest.approx(most_elements(schedule) * 4 / 1e-3)


def test_a_schedule_without_a_name_counts_what_the_busiest_rank_moves():
    ring = build("ring", "all-gather", 4, 64)
    half = replace(ring, post=dict(list(ring.post.items())[:7]))
    assert bandwidths(half, 2.0, 0.5)[1] == most_elements(half) * 2 / 0.5
