"""Finds the k shortest simple paths between two tiles (Yen's algorithm, doi:10.1090/qam/253822)."""

from collections.abc import Collection
from heapq import heappop, heappush

import numpy as np

from wavefabric.base.arguments import whole
from wavefabric.fabric.photonic.fabric import PhotonicFabric
from wavefabric.fabric.photonic.tile_grid import Route, TileGrid, check_pairs, tile_grid, trace


def k_shortest(fabric: PhotonicFabric, src: int, dst: int, k: int) -> list[Route]:
    """Return up to ``k`` simple paths from ``src`` to ``dst``, shortest first, ties in Yen's order.

    New candidates branch off each known path, at each of its tiles in turn. A candidate continues by the
    shortest way that avoids the tiles passed before, and the edges by which known paths with the same
    beginning leave the tile. Tiles before the one at which a path itself branched off need not be tried again
    (Lawler 1972, doi:10.1287/mnsc.18.7.401). On grids this is several times as fast as
    `networkx.shortest_simple_paths`, since the distance to the destination is known.

    Examples
    --------
    >>> from wavefabric.fabric.photonic.fabric import PhotonicFabric
    >>> wafer = PhotonicFabric("w", 2, 2, 2, 2, 16, None, 28e9, 8, 8, 0.7e-6, 3.7e-6)
    >>> k_shortest(wafer, 0, 1, 5)
    [(0, 1), (0, 2, 3, 1)]
    """
    check_pairs(fabric, [(src, dst)])
    whole("k", k, 1)
    g = tile_grid(fabric)
    (row, column), tiles = divmod(dst, g.columns), np.arange(g.tiles)
    away = (abs(tiles // g.columns - row) + abs(tiles % g.columns - column)).tolist()
    first = _shortest(g, away, src, dst, (), ())
    paths: list[Route] = []
    # Candidates: length, number of insertion, path, index of the tile at which it left its parent.
    heap = [(len(first), 0, first, 0)]
    seen = {first}
    while heap and len(paths) < k:
        _, _, path, split = heappop(heap)
        paths.append(path)
        for at in range(split, len(path) - 1 if len(paths) < k else 0):
            root = path[: at + 1]
            used = {other[at + 1] for other in paths if other[: at + 1] == root}
            spur = _shortest(g, away, path[at], dst, root[:-1], used)
            candidate = root[:-1] + spur
            if spur and candidate not in seen:
                seen.add(candidate)
                heappush(heap, (len(candidate), len(seen), candidate, at))
    return paths


def _shortest(
    g: TileGrid, away: list[int], src: int, dst: int, tiles: Collection[int], first: Collection[int]
) -> Route:
    """Return a shortest path that avoids ``tiles`` and, as the first step, ``first``; () if there is none.

    The search is A* with the distances to ``dst`` on the whole grid, ``away``: every step brings the path
    nearer to ``dst``, or makes it two longer, so two stacks serve as the queue.
    """
    parent: dict[int, int] = {}
    done = set(tiles)
    near, far = [(src, src)], []
    while near or far:
        if not near:
            near, far = far, []
        tile, before = near.pop()
        if tile in done:
            continue
        done.add(tile)
        parent[tile] = before
        if tile == dst:
            return trace(parent, src, dst)
        for step in g.neighbours[tile]:
            if step not in done and not (tile == src and step in first):
                (near if away[step] < away[tile] else far).append((step, tile))
    return ()
