"""Lower bounds on what an edge must carry: what leaves or enters a rectangle of tiles has to cross its rim.

Half planes, rows, columns and single tiles are rectangles too.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from wavefabric.fabric.photonic.fabric import PhotonicFabric
from wavefabric.fabric.photonic.tile_grid import Pair, tile_grid

#: Above this number of tiles only half planes, bands of rows and of columns, and single tiles are looked at.
_MOST_TILES = 1024


def overlap_bound(fabric: PhotonicFabric, pairs: Sequence[Pair]) -> int:
    """Every choice of one route a pair has at least so many routes on its busiest edge, in one direction.

    The maximum over rectangles of ⌈pairs that leave (or enter) / edges of the rim⌉; 0 without pairs.
    """
    if not len(pairs):
        return 0
    return _overlap_bound(fabric, np.asarray(pairs, np.int64).tobytes())


@lru_cache(maxsize=256)  # planning, routing and checking ask for the same round
def _overlap_bound(fabric: PhotonicFabric, ends: bytes) -> int:
    pairs = np.frombuffer(ends, np.int64).reshape(-1, 2)
    edges = (tile_grid(fabric).capacity > 0).astype(np.int64)
    return _ceil_most(fabric, pairs, np.ones(len(pairs), np.int64), edges)


def parts_bound(
    fabric: PhotonicFabric, pairs: Sequence[Pair], wavelengths: Sequence[int] | np.ndarray
) -> int:
    """Least number of parts in which a round fits through every rectangle's rim, 0 without pairs.

    The maximum of ⌈Σ wavelengths that cross / (lasers × waveguides of the rim)⌉, with the fewest wavelengths
    by which each pair is served.
    """
    if not len(pairs):
        return 0
    capacity = tile_grid(fabric).capacity * fabric.lasers
    return _ceil_most(fabric, np.asarray(pairs, np.int64), np.asarray(wavelengths, np.int64), capacity)


def _ceil_most(fabric: PhotonicFabric, pairs: np.ndarray, weight: np.ndarray, capacity: np.ndarray) -> int:
    rows, columns = fabric.rows, fabric.columns
    capacity = capacity.reshape(rows, columns, 4)
    # What lies between row i − 1 and row i, between column j − 1 and column j; nothing at the border. Both
    # directions have the same.
    down, right = np.zeros((rows + 1, columns), np.int64), np.zeros((rows, columns + 1), np.int64)
    down[1:], right[:, 1:] = capacity[:, :, 2], capacity[:, :, 0]
    src, dst = pairs.T
    at = [*np.divmod(src, columns), *np.divmod(dst, columns)]
    if rows * columns <= _MOST_TILES:
        return _rectangles(at, weight, down, right)
    zero = np.zeros_like(src)
    bands = _rectangles([at[0], zero, at[2], zero], weight, down.sum(axis=1)[:, None], np.zeros((rows, 2)))
    column_ends = [zero, at[1], zero, at[3]]
    bands = max(bands, _rectangles(column_ends, weight, np.zeros((2, columns)), right.sum(axis=0)[None]))
    rim = capacity.sum(axis=2).ravel()
    ends = [np.bincount(t, weight, rows * columns) for t in (src, dst)]
    return max(bands, *(int(np.ceil(e / np.maximum(rim, 1)).max()) for e in ends))


def _rectangles(at: list[np.ndarray], weight: np.ndarray, down: np.ndarray, right: np.ndarray) -> int:
    """The bound over all rectangles; `at`: row and column of sources, row and column of destinations."""
    rows, columns = right.shape[0], down.shape[1]
    # The table has (tiles)² entries: smaller numbers, where they suffice, are twice as fast.
    kind = np.int32 if weight.sum() < 2**31 else np.int64
    sums = np.zeros((rows + 1, columns + 1, rows + 1, columns + 1), kind)
    np.add.at(sums, tuple(a + 1 for a in at), weight.astype(kind))
    for axis in range(4):
        np.cumsum(sums, axis=axis, out=sums)
    top, bottom = np.triu_indices(rows + 1, 1)
    left, end = np.triu_indices(columns + 1, 1)
    # Both ends between the rows, then also between the columns.
    bands = sums[bottom, :, bottom] - sums[top, :, bottom] - sums[bottom, :, top] + sums[top, :, top]
    inside = bands[:, end, end] - bands[:, left, end] - bands[:, end, left] + bands[:, left, left]
    leaving, entering = (
        (table[bottom] - table[top])[:, end] - (table[bottom] - table[top])[:, left]
        for table in (sums[:, :, -1, -1], sums[-1, -1])
    )
    along = np.pad(down, ((0, 0), (1, 0))).cumsum(axis=1)
    across = np.pad(right, ((1, 0), (0, 0))).cumsum(axis=0)
    rim = (along[top] + along[bottom])[:, end] - (along[top] + along[bottom])[:, left]
    sides = across[bottom] - across[top]
    rim = rim + sides[:, left] + sides[:, end]
    return int(np.ceil((np.maximum(leaving, entering) - inside) / np.maximum(rim, 1)).max())
