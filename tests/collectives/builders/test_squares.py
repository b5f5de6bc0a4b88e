"""Divide and conquer on a grid: squares first, near partners before far ones."""

import numpy as np
import pytest
from schedule_cases import busiest, sent

from wavefabric.collectives import build, verify

GRIDS = [(2, 2), (2, 4), (4, 2), (4, 4), (2, 8), (4, 8), (8, 8), (16, 16)]


@pytest.mark.parametrize("grid", GRIDS)
def test_rounds_and_partners(grid):
    rows, columns = grid
    ranks = rows * columns
    schedule = build("squares", "all-reduce", ranks, 30, grid=grid)
    verify(schedule)
    rounds = int(np.log2(ranks)) - 1
    assert schedule.communication_rounds == rounds
    assert sent(schedule) == [30 * (3 + rounds - 1)] * ranks
    t = schedule.transfers[schedule.transfers["src"] != schedule.transfers["dst"]]
    first = t[t["round"] == 0]
    assert busiest(schedule, "src") == 3
    tile = [np.divmod(first[end], columns) for end in ("src", "dst")]
    assert all(np.array_equal(a // 2, b // 2) for a, b in zip(*tile, strict=True))
    steps = [np.unique(np.abs(t["dst"] - t["src"])[t["round"] == r]) for r in np.unique(t["round"])[1:]]
    # Then pairs, at distances 2, 4, … along rows and columns.
    assert all(step.size == 1 for step in steps)
    far = [2**k for k in range(1, 8)]
    wanted = {d for d in far if d < columns} | {d * columns for d in far if d < rows}
    assert {int(step[0]) for step in steps} == wanted


def test_axes_take_turns():
    t = build("squares", "all-reduce", 64, 1, grid=(8, 8)).transfers
    t = t[t["src"] != t["dst"]]
    ahead = [int(np.abs(t["dst"] - t["src"])[t["round"] == r].min()) for r in np.unique(t["round"])]
    assert ahead == [1, 2, 16, 4, 32]


def test_the_grid_is_near_a_square_by_default():
    t = build("squares", "all-reduce", 8, 1).transfers
    assert np.array_equal(t, build("squares", "all-reduce", 8, 1, grid=(2, 4)).transfers)
