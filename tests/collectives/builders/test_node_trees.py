"""Trees over nodes: proved, on rails, with NCCL's closed forms for bytes and rounds."""

import numpy as np
import pytest

from wavefabric.collectives import build, kind, verify
from wavefabric.collectives.structure import transfer_elements

GRIDS = [(1, 4), (2, 1), (2, 3), (3, 4), (4, 2), (5, 2), (8, 4)]


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("algorithm", ["tree", "double-tree"])
@pytest.mark.parametrize("collective", ["broadcast", "reduce", "all-reduce"])
def test_trees_of_nodes_are_proved_and_stay_on_their_rails(algorithm, collective, grid):
    (nodes, gpus), ranks = grid, grid[0] * grid[1]
    for root in {0, ranks // 2, ranks - 1} if collective != "all-reduce" else {0}:
        elements = 12 * gpus
        schedule = build(algorithm, collective, ranks, elements, pieces=3, root=root, grid=grid)
        verify(schedule)
        assert kind(schedule) == (collective, root if collective != "all-reduce" else None)
        t, size = schedule.transfers, transfer_elements(schedule)
        away = t["src"] // gpus != t["dst"] // gpus
        assert (t["src"][away] % gpus == t["dst"][away] % gpus).all()
        # Every node but one sends, or receives, the whole array: in an all-reduce both.
        halves = 2 if collective == "all-reduce" else 1
        assert size[away].sum() == halves * (nodes - 1) * elements
        assert np.ptp(np.bincount(t["src"][away] % gpus, size[away], gpus)) == 0


@pytest.mark.parametrize(("nodes", "gpus", "pieces"), [(2, 8, 5), (4, 8, 16), (7, 2, 4)])
def test_rounds_are_those_of_a_pipeline(nodes, gpus, pieces):
    ranks, height = nodes * gpus, nodes.bit_length() - 1 + gpus - 1
    schedule = build("tree", "all-reduce", ranks, 2 * ranks * pieces, pieces=pieces, grid=(nodes, gpus))
    assert schedule.communication_rounds == 2 * height + pieces - 1
    broadcast = build("tree", "broadcast", ranks, 2 * ranks * pieces, pieces=pieces, grid=(nodes, gpus))
    # The root gives the parts of other channels to the ranks of its node that send them to other nodes.
    assert broadcast.communication_rounds == height + 1 + pieces - 1


@pytest.mark.parametrize("nodes", [2, 4, 8, 16])
def test_two_trees_halve_what_the_busiest_node_sends(nodes):
    """In one tree an inner node sends its sum up and the array down twice; in two, the array twice."""
    gpus, elements = 4, 2 * 4 * 6
    busiest = {}
    for algorithm in ("tree", "double-tree"):
        schedule = build(algorithm, "all-reduce", nodes * gpus, elements, pieces=3, grid=(nodes, gpus))
        t, size = schedule.transfers, transfer_elements(schedule)
        away = t["src"] // gpus != t["dst"] // gpus
        busiest[algorithm] = np.bincount(t["src"][away] // gpus, size[away], nodes).max() / elements
    assert busiest["double-tree"] == (1 if nodes == 2 else 2)
    assert busiest["tree"] == (1 if nodes == 2 else 3)
