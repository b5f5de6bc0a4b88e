"""Fewer routes on the busiest edge: routes over it are taken out and laid again where there is room.

Negotiated congestion (McMurchie & Ebeling 1995, doi:10.1145/201310.201328): an edge that is too full too
often becomes dearer, so that routes with another way leave it to those without.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from wavefabric.fabric.photonic.edges import Grid, Route, flat_edges, grid, route_edges
from wavefabric.fabric.photonic.wafer import PhotonicFabric


class Ways:
    """Cheapest paths on a grid whose edges have prices."""

    def __init__(self, g: Grid):
        from scipy.sparse import csr_array

        self.grid = g
        self._graph = csr_array((np.ones(g.edge.size), g.indices, g.indptr), shape=(g.tiles, g.tiles))

    def cheapest(self, src: int, dst: int, price: np.ndarray) -> tuple[Route, float]:
        """A cheapest path and its price; `price`: of each edge, shape (4 tiles,), > 0."""
        from scipy.sparse.csgraph import dijkstra

        self._graph.data[:] = price[self.grid.edge]
        far, before = dijkstra(self._graph, indices=src, return_predecessors=True)
        path = [dst]
        while path[-1] != src:
            path.append(int(before[path[-1]]))
        return tuple(reversed(path)), float(far[dst])


def ripup(
    fabric: PhotonicFabric,
    pairs: Sequence[tuple[int, int]],
    routes: Sequence[Route],
    bound: int,
    *,
    seed: int = 0,
    passes: int = 20,
    searches: int = 6000,
) -> list[Route]:
    """Routes with a busiest edge that carries no more than before, fewer where that is found.

    Parameters
    ----------
    fabric : PhotonicFabric
    pairs : sequence of (int, int)
    routes : sequence of tuple of int, one a pair
        To begin with.
    bound : int
        Routes on the busiest edge at which to stop.
    seed : int
        For the order in which routes are taken out.
    passes : int
        How often all routes over edges that are too full are laid again before one gives up.
    searches : int
        Paths looked for in all.

    Returns
    -------
    list of tuple of int
    """
    g = grid(fabric)
    ways, rng = Ways(g), np.random.default_rng(seed)
    best = list(routes)
    edges, first = flat_edges(g.columns, best)
    load = np.bincount(edges, minlength=g.capacity.size)
    lines = [edges[i:j] for i, j in pairwise(first)]
    now = list(best)
    left = searches
    while load.max(initial=0) > max(bound, 1):
        target = int(load.max()) - 1
        left = _relieve(ways, pairs, now, lines, load, target, rng, passes, left)
        if load.max() > target:
            break
        best = list(now)
    return best


def _relieve(ways: Ways, pairs, routes, lines, load, target: int, rng, passes: int, left: int) -> int:
    """Lay routes again, in place, until no edge has more than `target`; returns what is left of `left`."""
    history = np.zeros(load.size)
    for _ in range(passes):
        over = load > target
        if not over.any() or left <= 0:
            break
        history += over
        users = np.array([i for i, line in enumerate(lines) if over[line].any()])
        rng.shuffle(users)
        for i in users:
            if not (load[lines[i]] > target).any():
                continue
            load[lines[i]] -= 1
            price = 1 + (load / target) ** 2 + (load >= target) * (8 + 8 * history)
            routes[i], _ = ways.cheapest(pairs[i][0], pairs[i][1], price)
            lines[i] = route_edges(ways.grid.columns, routes[i])
            load[lines[i]] += 1
            left -= 1
    return left
