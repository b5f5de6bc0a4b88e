"""Part of a fabric: its GPUs reach each other as in the whole fabric, and alike parts are equal."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavefabric.fabric import load
from wavefabric.fabric.candidates import own_grid
from wavefabric.fabric.electrical.static_routes import resource_use, static_routes
from wavefabric.fabric.electrical.subfabric import subfabric
from wavefabric.fabric.rank_order import reordered


def pairs(fabric, gpus):
    """Latency, and rate of a pair of GPUs that send alone, for pairs that have a route; and those pairs."""
    src, dst = np.array(list(permutations(gpus, 2))).T
    joined = static_routes(fabric).table[src, dst] >= 0
    use = resource_use(fabric, src[joined], dst[joined])
    slowest = np.zeros(joined.sum())
    np.maximum.at(slowest, use.pair, use.fraction / use.capacity[use.resource])
    return joined.tolist(), use.latency, slowest


@pytest.mark.parametrize(
    "name",
    [
        "nodes:3x4",
        pytest.param("switch:9", marks=pytest.mark.slow),
        pytest.param("dgx-1", marks=pytest.mark.slow),
        pytest.param("hgx-h100", marks=pytest.mark.slow),
    ],
)
@given(data=st.data())
def test_pairs_of_a_part_are_as_far_and_as_fast_as_in_the_whole(name, data):
    """On `dgx-1` GPUs do not forward, and some pairs have no link."""
    whole = load(name)
    gpus = data.draw(st.permutations(range(whole.ranks)))[: data.draw(st.integers(2, whole.ranks))]
    part = subfabric(whole, gpus)
    assert part.ranks == len(gpus)
    (before, *numbers), (after, *others) = pairs(whole, gpus), pairs(part, range(part.ranks))
    assert before == after
    for a, b in zip(numbers, others, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_alike_parts_are_equal_and_others_are_not():
    torus, nodes = load("torus:4x4"), load("nodes:4x8")
    rows = {subfabric(torus, range(4 * k, 4 * k + 4)) for k in range(4)}
    assert rows == {subfabric(torus, range(k, 16, 4)) for k in range(4)}
    (row,) = rows
    assert (row.switches, len(row.links)) == ((), 8)
    assert subfabric(torus, (0, 1, 2, 4)) not in rows
    assert subfabric(nodes, range(16)) == subfabric(nodes, range(16, 32)) != subfabric(nodes, range(8, 32))
    # A rail is a switch of its own, and no other link is needed.
    rail = subfabric(nodes, range(0, 32, 8))
    assert (len(rail.switches), len(rail.links)) == (1, 8)


def test_gpus_that_forward_become_switches():
    corner = subfabric(load("torus:4x4"), (0, 5))  # each sends along its row first
    assert (corner.gpus, corner.switches, len(corner.links)) == (("GPU0", "GPU1"), ("switch0", "switch1"), 4)


def test_what_a_whole_fabric_keeps():
    torus = subfabric(load("torus:4x4"), range(16))
    assert own_grid(torus) == (4, 4)
    assert len(torus.links) == 64
    assert subfabric(load("hgx-h100"), range(4)).multicast_switches == ("switch0",)
    turned = reordered(load("ring:4"), (2, 0))
    assert subfabric(turned, range(4)).numbering == ("GPU1", "GPU2", "GPU0", "GPU3")
