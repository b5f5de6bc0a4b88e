"""Row–column routes: straight along the row, then straight along the column, or the other way round."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from wavefabric.fabric.photonic.fabric import PhotonicFabric
from wavefabric.fabric.photonic.tile_grid import Pair, Route


def xy(fabric: PhotonicFabric, src: int, dst: int, column_first: bool = False) -> Route:
    """The shortest route with at most one turn: along the row of `src` first, or along its column.

    Examples
    --------
    >>> from wavefabric.fabric.photonic.fabric import PhotonicFabric
    >>> wafer = PhotonicFabric("w", 4, 4, 4, 4, 16, None, 28e9, 8, 8, 0.7e-6, 3.7e-6)
    >>> xy(wafer, 1, 11), xy(wafer, 1, 11, column_first=True)
    ((1, 2, 3, 7, 11), (1, 5, 9, 10, 11))
    """
    columns = fabric.columns
    row, column = divmod(src, columns)
    last_row, last_column = divmod(dst, columns)
    corner = last_row * columns + column if column_first else row * columns + last_column
    route: Route = ()
    for a, b in ((src, corner), (corner, dst)):
        if a != b:
            step = 1 if a // columns == b // columns else columns
            route += tuple(range(a, b, step if b > a else -step))
    return (*route, dst)


def xy_overlap(fabric: PhotonicFabric, pairs: Sequence[Pair], column_first: bool = False) -> int:
    """Most row–column routes on one edge in one direction, without making the routes."""
    src, dst = np.asarray(pairs, np.int64).reshape(-1, 2).T
    (r0, c0), (r1, c1) = np.divmod(src, fabric.columns), np.divmod(dst, fabric.columns)
    along, across = (r1, c0) if column_first else (r0, c1)
    return max(
        _most(along, c0, c1, fabric.rows, fabric.columns), _most(across, r0, r1, fabric.columns, fabric.rows)
    )


def _most(line: np.ndarray, start: np.ndarray, stop: np.ndarray, lines: int, length: int) -> int:
    """Most routes on an edge of a set of parallel lines; route i goes from start[i] to stop[i] on line[i]."""
    most = 0
    for sign in (1, -1):
        there = sign * (stop - start) > 0
        change = np.zeros((lines, length + 1), np.int64)
        np.add.at(change, (line[there], np.minimum(start, stop)[there]), 1)
        np.add.at(change, (line[there], np.maximum(start, stop)[there]), -1)
        most = max(most, int(change.cumsum(axis=1).max(initial=0)))
    return most
