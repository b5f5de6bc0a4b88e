"""Hierarchical algorithms: proved on many grids, and what crosses between nodes."""

from dataclasses import replace

import numpy as np
import pytest

from wavefabric.collectives import build, kind, verify
from wavefabric.collectives.structure import transfer_elements

#: How many times the array is sent to other nodes, for each node but one.
CROSSINGS = {"all-gather": 1, "reduce-scatter": 1, "all-reduce": 2, "broadcast": 1}


@pytest.mark.parametrize("grid", [(1, 4), (2, 1), (2, 3), (3, 2), (4, 4), (5, 3), (7, 2), (2, 8), (8, 3)])
@pytest.mark.parametrize("collective", CROSSINGS)
def test_what_crosses_crosses_once_and_keeps_its_local_rank(collective, grid):
    (nodes, gpus), ranks = grid, grid[0] * grid[1]
    for radix, pieces in ((2, 1), (4, 2)):
        options = {"radix": radix, "root": ranks - 1 if collective == "broadcast" else 0, "grid": grid}
        schedule = build("hierarchical", collective, ranks, 6 * ranks * pieces, pieces=pieces, **options)
        verify(schedule)
        assert kind(schedule)[0] == collective
        t = schedule.transfers
        t = t[t["src"] // gpus != t["dst"] // gpus]
        assert (t["src"] % gpus == t["dst"] % gpus).all()
        sent = np.bincount(t["src"] % gpus, transfer_elements(replace(schedule, transfers=t)), gpus)
        assert (sent == CROSSINGS[collective] * (nodes - 1) * 6 * nodes * pieces).all()


@pytest.mark.parametrize(("radix", "rounds"), [(2, 8), (4, 6), (16, 4)])
def test_radix_is_between_nodes(radix, rounds):
    schedule = build("hierarchical", "all-reduce", 64, 64, radix=radix, grid=(8, 8))
    assert schedule.communication_rounds == rounds
    assert build("hierarchical", "all-gather", 14, 14, grid=(7, 2)).communication_rounds == 2


@pytest.mark.parametrize("grid", [(1, 3), (2, 1), (2, 3), (3, 2), (4, 4)])
@pytest.mark.parametrize("pieces", [1, 3])
def test_an_all_to_all_is_relayed_by_the_rank_on_the_rail_of_the_receiver(grid, pieces):
    (nodes, gpus), ranks = grid, grid[0] * grid[1]
    schedule = build("hierarchical", "all-to-all", ranks, 2 * ranks * pieces, pieces=pieces, grid=grid)
    verify(schedule)
    assert kind(schedule)[0] == "all-to-all"
    assert schedule.communication_rounds == pieces + (nodes > 1 and gpus > 1)
    t = schedule.transfers
    away = t["src"] // gpus != t["dst"] // gpus
    assert (t["src"][away] % gpus == t["dst"][away] % gpus).all()
    sent = np.bincount(t["src"][away], transfer_elements(schedule)[away], ranks)
    assert (sent == (nodes - 1) * gpus * 2 * pieces).all()  # what is for other nodes, once
