"""Halo exchanges on grids of ranks."""

from math import prod

import numpy as np
import pytest

from wavefabric.collectives import build, verify
from wavefabric.collectives.builders.messages import near_square

GRIDS = [(1,), (2,), (5,), (3, 4), (1, 4), (2, 2), (2, 3, 4)]


def plain_neighbours(grid, periodic):
    """Sorted (src, dst), from coordinates."""
    pairs = []
    for at in np.ndindex(*grid):
        for axis, extent in enumerate(grid):
            for ahead in (-1, 1):
                to = list(at)
                to[axis] += ahead
                if periodic:
                    to[axis] %= extent
                if 0 <= to[axis] < extent and extent > 1:
                    pairs.append((np.ravel_multi_index(at, grid), np.ravel_multi_index(to, grid)))
    return sorted(pairs)


@pytest.mark.parametrize("name", ["torus", "mesh"])
@pytest.mark.parametrize("grid", GRIDS)
def test_everybody_sends_to_the_neighbours(grid, name):
    schedule = build(name, "halo", prod(grid), 7, grid=grid)
    verify(schedule)
    assert schedule.name == f"{name} halo, {'x'.join(map(str, grid))}"
    assert schedule.rounds == (1 if max(grid) > 1 else 0)
    t = schedule.transfers
    pairs = np.repeat(t[["src", "dst"]], t["count"])
    assert sorted(pairs.tolist()) == plain_neighbours(grid, name == "torus")
    assert set(schedule.sizes[0][schedule.sizes[0] > 0]) <= {7}


def test_messages_lie_in_the_order_of_axes_down_before_up():
    t = build("torus", "halo", 9, 1, grid=(3, 3)).transfers
    from_centre = t[t["src"] == 4]
    assert from_centre[np.argsort(from_centre["src_chunk"])]["dst"].tolist() == [1, 7, 3, 5]


def test_grids_by_default():
    assert [near_square(n) for n in (1, 2, 7, 8, 12, 32, 128, 256)] == [
        (1, 1), (1, 2), (1, 7), (2, 4), (3, 4), (4, 8), (8, 16), (16, 16)
    ]  # fmt: skip
    t = build("mesh", "halo", 12, 1).transfers
    assert np.array_equal(t, build("mesh", "halo", 12, 1, grid=(3, 4)).transfers)
