"""Numbers the edges of a grid of tiles, so that edge loads are arrays.

The edge from a tile to its neighbour right, left, below, above has the number 4 tile + 0, 1, 2, 3. Edges that
would leave the grid have numbers too, and no capacity.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np

from wavefabric.base.arguments import whole
from wavefabric.base.errors import InputError
from wavefabric.fabric.photonic.fabric import PhotonicFabric

Route = tuple[int, ...]
Pair = tuple[int, int]


@dataclass(frozen=True, eq=False)
class TileGrid:
    """Holds the edges between the tiles of a fabric as arrays."""

    rows: int
    columns: int
    capacity: np.ndarray  # waveguides or fibres of each edge, 0 where there is none: shape (4 tiles,)
    indptr: np.ndarray  # with `indices`: the grid as a compressed sparse graph
    indices: np.ndarray
    edge: np.ndarray  # number of the edge of each entry of `indices`
    neighbours: tuple[tuple[int, ...], ...]  # tiles next to each tile

    @property
    def tiles(self) -> int:
        """Return the number of tiles."""
        return self.rows * self.columns

    def name(self, edge: int) -> str:
        """Return the description of an edge, such as ``3 -> 4``."""
        tile, direction = divmod(int(edge), 4)
        return f"{tile} -> {tile + (1, -1, self.columns, -self.columns)[direction]}"


@lru_cache(maxsize=32)
def tile_grid(fabric: PhotonicFabric) -> TileGrid:
    """Return the numbered edges of a fabric; `InputError` for sizes below 1 or edges without waveguides."""
    for key in ("rows", "columns", "wafer_rows", "wafer_columns", "lasers", "waveguides"):
        whole(key, getattr(fabric, key), 1)
    if fabric.serdes_ports is not None:
        whole("serdes_ports", fabric.serdes_ports, 1)
    edges = fabric.edges()
    a, b = np.array(edges, np.int64).reshape(-1, 2).T
    number = edge_numbers(fabric.columns, a, b)
    capacity = np.zeros(4 * fabric.ranks, np.int64)
    capacity[number] = [fabric.capacity(s, t) for s, t in edges]
    if number.size and capacity[number].min() < 1:
        raise InputError(f"fibres: {fabric.fibres} given; allowed: from 1, as there are several wafers")
    indptr = np.concatenate(([0], np.cumsum(np.bincount(a, minlength=fabric.ranks)))).astype(np.int32)
    indices = b.astype(np.int32)
    ends = tuple(tuple(indices[i:j].tolist()) for i, j in pairwise(indptr))
    return TileGrid(fabric.rows, fabric.columns, capacity, indptr, indices, number, ends)


def edge_numbers(columns: int, a, b) -> np.ndarray:
    """Return the numbers of the edges from tiles ``a`` to neighbours ``b``, arrays of equal shape."""
    a, b = np.asarray(a, np.int64), np.asarray(b, np.int64)
    return 4 * a + np.where(a // columns == b // columns, 0, 2) + (b < a)


def route_edges(columns: int, route: Sequence[int]) -> np.ndarray:
    """Return the numbers of the edges of one route."""
    tiles = np.asarray(route, np.int64)
    return edge_numbers(columns, tiles[:-1], tiles[1:])


def flat_edges(columns: int, routes: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Return the edge numbers of all routes in sequence, and where each route begins: shape (routes + 1,)."""
    length = np.fromiter((len(r) for r in routes), np.int64, len(routes))
    first = np.concatenate(([0], np.cumsum(np.maximum(length - 1, 0))))
    tiles = np.fromiter((t for r in routes for t in r), np.int64, int(length.sum()))
    inside = np.ones(tiles.size, bool)
    inside[np.cumsum(length) - 1] = False
    at = np.flatnonzero(inside)
    return edge_numbers(columns, tiles[at], tiles[at + 1]), first


def edge_loads(fabric: PhotonicFabric, routes: Sequence[Sequence[int]]) -> np.ndarray:
    """Return the number of routes on each edge: shape (4 tiles,)."""
    edges, _ = flat_edges(fabric.columns, routes)
    return np.bincount(edges, minlength=4 * fabric.ranks)


def check_pairs(fabric: PhotonicFabric, pairs: Iterable[Pair]) -> list[Pair]:
    """Return pairs as plain integers; `InputError` for bad tiles, equal ends, or a pair given twice."""
    checked = [(int(s), int(d)) for s, d in pairs]
    for s, d in checked:
        whole("pairs: source", s, 0, fabric.ranks - 1)
        whole("pairs: destination", d, 0, fabric.ranks - 1)
        if s == d:
            raise InputError(f"pairs: {s} -> {d} given; allowed: two different tiles")
    if len(set(checked)) < len(checked):
        s, d = next(p for i, p in enumerate(checked) if p in checked[:i])
        raise InputError(f"pairs: {s} -> {d} given twice; allowed: every pair once")
    return checked


def trace(before: Mapping[int, int] | np.ndarray, src: int, dst: int) -> Route:
    """Return the route from ``src`` to ``dst``; ``before``: the predecessor of each tile on the route."""
    path = [dst]
    while path[-1] != src:
        path.append(int(before[path[-1]]))
    return tuple(reversed(path))
