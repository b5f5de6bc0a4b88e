"""Improves routes by rip-up and reroute: routes over the busiest edges are removed and routed again.

The method is negotiated congestion (McMurchie & Ebeling 1995, doi:10.1145/201310.201328): the price of an
edge rises each time it is overloaded, so that routes with an alternative leave it to those without.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from wavefabric.fabric.photonic.fabric import PhotonicFabric
from wavefabric.fabric.photonic.tile_grid import Route, TileGrid, flat_edges, route_edges, tile_grid, trace

#: Number of passes that reroute all routes over overloaded edges, and limit of path searches in total.
_PASSES, _SEARCHES = 20, 6000


def cheapest(g: TileGrid, src: int, dst: int, price: np.ndarray) -> tuple[Route, float]:
    """Return the cheapest path from ``src`` to ``dst`` and its price; ``price``: of each edge, (4 tiles,)."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import dijkstra

    graph = csr_array((price[g.edge], g.indices, g.indptr), shape=(g.tiles, g.tiles))
    far, before = dijkstra(graph, indices=src, return_predecessors=True)
    return trace(before, src, dst), float(far[dst])


def ripup(
    fabric: PhotonicFabric,
    pairs: Sequence[tuple[int, int]],
    routes: Sequence[Route],
    bound: int,
    *,
    seed: int = 0,
) -> list[Route]:
    """Return routes with a smaller overlap (most routes on an edge) if such are found, else ``routes``.

    The search ends at the overlap ``bound``. ``seed`` sets the order in which routes are removed.
    """
    g, rng = tile_grid(fabric), np.random.default_rng(seed)
    best = list(routes)
    flat, first = flat_edges(g.columns, best)
    load = np.bincount(flat, minlength=g.capacity.size)
    edges = [flat[i:j] for i, j in pairwise(first)]
    now, left = list(best), _SEARCHES
    while load.max(initial=0) > max(bound, 1):
        target = int(load.max()) - 1
        left = _relieve(g, pairs, now, edges, load, target, rng, left)
        if load.max() > target:
            break
        best = list(now)
    return best


def _relieve(g: TileGrid, pairs, routes, edges, load, target: int, rng, left: int) -> int:
    """Reroute ``routes`` in place until no edge has more than ``target`` routes.

    At most about ``left`` paths are searched; the result is how many of these searches remain.
    """
    history = np.zeros(load.size)
    for _ in range(_PASSES):
        over = load > target
        if not over.any() or left <= 0:
            break
        history += over
        first = np.cumsum([0, *map(len, edges[:-1])])
        users = np.flatnonzero(np.logical_or.reduceat(over[np.concatenate(edges)], first))
        rng.shuffle(users)
        for i in users:
            if (load[edges[i]] > target).any():
                load[edges[i]] -= 1
                price = 1 + (load / target) ** 2 + (load >= target) * (8 + 8 * history)
                routes[i], _ = cheapest(g, pairs[i][0], pairs[i][1], price)
                edges[i] = route_edges(g.columns, routes[i])
                load[edges[i]] += 1
                left -= 1
    return left
