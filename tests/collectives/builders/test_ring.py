"""Rings by all adapters of nodes: what they pass, what crosses between nodes, and closed forms of time."""

import numpy as np
import pytest

from wavefabric.collectives import build, kind, verify
from wavefabric.collectives.builders.ring import rail_rings
from wavefabric.collectives.structure import transfer_elements
from wavefabric.fabric import cost, load
from wavefabric.fabric.candidates import node_grid
from wavefabric.fabric.io.files import from_toml


@pytest.mark.parametrize("gpus", range(1, 6))
@pytest.mark.parametrize("nodes", range(1, 8))
def test_each_adapter_sends_one_ring_and_receives_one_on_its_rail(nodes, gpus):
    rings = rail_rings(nodes, gpus)
    assert rings.shape == (gpus, nodes * gpus)
    assert (np.sort(rings, axis=1) == np.arange(nodes * gpus)).all()
    assert (rings // gpus == np.arange(nodes * gpus) // gpus).all()  # node by node
    here, there = rings, np.roll(rings, -1, axis=1)
    # Within a node a rank sends to the others as often as they send to it.
    crosses = here // gpus != there // gpus
    assert crosses.sum() == nodes * gpus * (nodes > 1)
    for end in (here, there):
        assert np.unique(end[crosses]).size == crosses.sum()
    if not (nodes % 2 and gpus == 2):
        assert (here[crosses] % gpus == there[crosses] % gpus).all()


@pytest.mark.parametrize("grid", [(2, 3), (3, 2), (3, 4), (4, 2), (1, 4), (5, 1)])
@pytest.mark.parametrize("collective", ["all-gather", "reduce-scatter", "all-reduce", "broadcast", "reduce"])
def test_rings_are_proved_and_carry_equal_parts(collective, grid):
    (nodes, gpus), ranks = grid, grid[0] * grid[1]
    root = ranks - 1 if collective in ("broadcast", "reduce") else 0
    schedule = build("ring", collective, ranks, 6 * ranks * gpus, pieces=2, root=root, grid=grid)
    verify(schedule)
    assert kind(schedule) == (collective, root if collective in ("broadcast", "reduce") else None)
    plain = build("ring", collective, ranks, 6 * ranks * gpus, pieces=2, root=root)
    assert schedule.rounds == plain.rounds
    t, size = schedule.transfers, transfer_elements(schedule)
    assert size.sum() == transfer_elements(plain).sum()
    away = t["src"] // gpus != t["dst"] // gpus
    sent = np.bincount(t["src"][away], size[away], ranks)
    if nodes > 1 and collective not in ("broadcast", "reduce"):
        assert np.ptp(sent) == 0
        assert sent[0] > 0


@pytest.mark.parametrize(
    ("nodes", "gpus", "inside", "adapter"),
    [(4, 8, 450, 50), (2, 4, 450, 25), (3, 8, 100, 50), (2, 8, 450, 100)],
)
@pytest.mark.parametrize("leaves", ["rails", "nodes"])
def test_bus_bandwidth_is_that_of_all_adapters_or_of_the_links_in_a_node(
    nodes, gpus, inside, adapter, leaves
):
    """NCCL's closed form: the adapters of a node together, or a GPU's links, of which all rings but one use.

    Measured by others: 96 of 4 x 25 GB/s (NVIDIA/nccl-tests#119), 192 of 8 x 25 GB/s (NVIDIA/nccl#812).
    """
    network = f'{{ bandwidth = "{adapter} GB/s", latency = "0.5 us", leaves = "{leaves}" }}'
    family = (
        f'{{ kind = "nodes", grid = [{nodes}, {gpus}], bandwidth = "{inside} GB/s", network = {network} }}'
    )
    fabric = from_toml(f'name = "mine"\nalpha = "0.7 us"\nfamily = {family}\n')
    grid, n = node_grid(fabric, range(fabric.ranks)), nodes * gpus
    assert grid == (nodes, gpus)
    schedule, size = build("ring", "all-reduce", n, 2 * n * gpus, grid=grid), 8 * 2.0**30
    seconds = cost(schedule, fabric, size / (2 * n * gpus)).rounds
    moving = sum(each.transfer for each in seconds)
    expected = min(gpus * adapter, inside * gpus / (gpus - 1)) * 1e9
    assert 2 * (n - 1) / n * size / moving == pytest.approx(expected)


def test_nodes_are_joined_by_links_of_a_network():
    fabric = load("nodes:4x8")
    assert node_grid(fabric, range(32)) == (4, 8)
    assert node_grid(fabric, range(16)) == (2, 8)
    assert node_grid(fabric, range(8)) is None  # one node
    assert node_grid(fabric, range(0, 32, 8)) is None  # one GPU of each
    assert node_grid(fabric, [0, 1, 8, 9]) == (2, 2)
    for uneven in (range(12), [0, 8, 1, 9], [0, 1, 8, 9, 2, 3]):
        assert node_grid(fabric, uneven) is None
    for name in ("dgx-1", "switch:8", "torus:4x4"):
        assert node_grid(load(name), range(8)) is None
