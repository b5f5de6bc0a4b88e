"""Computes lower bounds on edge loads: pairs that leave or enter a rectangle of tiles must cross its rim.

Half planes, rows, columns and single tiles are rectangles too.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from wavefabric.fabric.photonic.fabric import PhotonicFabric
from wavefabric.fabric.photonic.tile_grid import Pair, tile_grid

#: Above this number of tiles only half planes, bands of rows and of columns, and single tiles are compared.
_MOST_TILES = 1024


def overlap_bound(fabric: PhotonicFabric, pairs: Sequence[Pair] | np.ndarray) -> int:
    """Return a lower bound on the number of routes over the busiest edge, however each pair is routed.

    It is the largest ⌈pairs ÷ edges⌉ over rectangles of tiles: pairs that leave (or enter) the rectangle, and
    edges that cross its rim in this direction.
    """
    if not len(pairs):
        return 0
    (crossing, edges), _ = _tightest(fabric, np.asarray(pairs, np.int64).tobytes(), b"")
    return -(-crossing // edges)


def parts_bound(
    fabric: PhotonicFabric, pairs: Sequence[Pair] | np.ndarray, wavelengths: Sequence[int] | np.ndarray
) -> int:
    """Return a lower bound on the number of parts into which a round must be split; 0 without pairs.

    It is the largest ⌈wavelengths ÷ (lasers × waveguides)⌉ over rectangles of tiles: wavelengths of the pairs
    that cross the rim, and waveguides that cross it. ``wavelengths``: least number for each pair.
    """
    if not len(pairs):
        return 0
    weight = np.asarray(wavelengths, np.int64)
    # If all pairs have equal wavelengths, count pairs, as for the overlap.
    unit = max(int(np.gcd.reduce(weight)), 1)
    weights = b"" if (weight == unit).all() else (weight // unit).tobytes()
    _, (crossing, guides) = _tightest(fabric, np.asarray(pairs, np.int64).tobytes(), weights)
    return -(-unit * crossing // (fabric.lasers * guides))


@lru_cache(maxsize=256)  # planning, routing and checking use the same round
def _tightest(fabric: PhotonicFabric, ends: bytes, weights: bytes) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return (weight of the pairs that cross it, its edges) for the rim with the largest quotient of the two.

    Rims are those of rectangles of tiles. A second result is the same with waveguides for edges. ``ends``:
    (source, destination) of all pairs as bytes; ``weights``: their weights as bytes, if empty 1.
    """
    rows, columns = fabric.rows, fabric.columns
    pairs = np.frombuffer(ends, np.int64).reshape(-1, 2)
    weight = np.frombuffer(weights, np.int64) if weights else np.ones(len(pairs), np.int64)
    row, column = np.divmod(pairs, columns)
    if rows * columns <= _MOST_TILES:
        crossings = [_crossing(row, column, weight, rows, columns)]
    else:
        zero = np.zeros_like(row)
        bands = _crossing(row, zero, weight, rows, 1), _crossing(zero, column, weight, 1, columns)
        crossings = [*bands, np.maximum(*(np.bincount(t, weight, rows * columns) for t in pairs.T))]
    crossing = np.concatenate([table.ravel() for table in crossings])
    # Rounding moves no quotient of numbers below 2⁵³ to or past a whole number, so ⌈ratio⌉ is exact.
    most = [(int(np.argmax(crossing / rim)), rim) for rim in _rims(fabric)]
    by_edges, by_guides = ((int(crossing[at]), int(rim[at])) for at, rim in most)
    return by_edges, by_guides


@lru_cache(maxsize=4)
def _rims(fabric: PhotonicFabric) -> tuple[np.ndarray, np.ndarray]:
    """Return how many edges, and waveguides, the rim of each compared rectangle of tiles has; at least 1.

    Rectangles are in the order of `_crossing`, or on large grids: bands of rows, bands of columns, tiles.
    """
    rows, columns = fabric.rows, fabric.columns
    capacity = tile_grid(fabric).capacity
    result = []
    for space in ((capacity > 0).astype(np.int64), capacity):
        space = space.reshape(rows, columns, 4)
        # Capacity between rows i − 1 and i, and between columns j − 1 and j, the same in both directions;
        # 0 at the border.
        down, right = np.pad(space[:, :, 2], ((1, 0), (0, 0))), np.pad(space[:, :, 0], ((0, 0), (1, 0)))
        if rows * columns <= _MOST_TILES:
            rims = [_rim(down, right)]
        else:
            bands = _rim(down.sum(axis=1)[:, None], np.zeros((rows, 2), np.int64))
            across = _rim(np.zeros((2, columns), np.int64), right.sum(axis=0)[None])
            rims = [bands, across, space.sum(axis=2)]
        result.append(np.maximum(np.concatenate([rim.ravel() for rim in rims]), 1))
    return result[0], result[1]


def _rim(down: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the capacity of the rim of each rectangle: shape (intervals of columns, intervals of rows).

    ``down``, ``right``: capacity between adjacent rows, and between adjacent columns; 0 at the border.
    """
    (top, bottom), (left, end) = _intervals(right.shape[0]), _intervals(down.shape[1])
    return _sums((down[top] + down[bottom + 1]).T) + _sums(right[:, left] + right[:, end + 1]).T


def _crossing(row: np.ndarray, column: np.ndarray, weight: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """Return, for each rectangle, the weight of the pairs that leave it, or that enter it if that is larger.

    Its shape is (intervals of columns, intervals of rows). ``row`` and ``column`` have the shape (pairs, 2),
    for the source and the destination of each pair.
    """
    # 32-bit sums are twice as fast.
    kind = np.int32 if weight.sum() < 2**30 else np.int64
    weight = weight.astype(kind)
    ends = []
    for r, c in zip(row.T, column.T, strict=True):
        tiles = np.zeros((rows, columns), kind)
        np.add.at(tiles, (r, c), weight)
        ends.append(_sums(np.ascontiguousarray(_sums(tiles).T)))
    # Both ends are inside if the smallest interval that contains them is.
    band, span = (_number(np.sort(at), n) for at, n in ((row, rows), (column, columns)))
    inside = np.zeros((rows * (rows + 1) // 2, columns * (columns + 1) // 2), kind)
    np.add.at(inside, (band, span), weight)
    _add_contained(inside, rows)
    inside = np.ascontiguousarray(inside.T)
    _add_contained(inside, columns)
    return np.maximum(*ends) - inside


# Intervals of 0, …, n − 1 are numbered by length, then by their first member.


def _intervals(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the first, and the last, member of each interval of 0, …, n − 1."""
    first = np.concatenate([np.arange(n - more) for more in range(n)])
    return first, first + np.repeat(np.arange(n), np.arange(n, 0, -1))


def _number(ends: np.ndarray, n: int) -> np.ndarray:
    """Return the index in `_intervals` of intervals; ``ends``: their first and last member, shape (…, 2)."""
    more = ends[..., 1] - ends[..., 0]
    return more * n - more * (more - 1) // 2 + ends[..., 0]


def _sums(values: np.ndarray) -> np.ndarray:
    """Return the sums of ``values`` over each interval of the first axis, in the order of `_intervals`."""
    result = [values]
    for more in range(1, len(values)):
        result.append(result[-1][:-1] + values[more:])
    return np.concatenate(result)


def _add_contained(counts: np.ndarray, n: int) -> None:
    """Add to each interval's count (first axis) the counts of all intervals inside the interval, in place."""
    first = np.cumsum(np.arange(n, 0, -1))
    length = np.split(counts, first[:-1])  # views
    for more in range(1, n):
        length[more] += length[more - 1][:-1]
        length[more] += length[more - 1][1:]
        if more > 1:
            length[more] -= length[more - 2][1:-1]
