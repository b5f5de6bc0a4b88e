"""Finds routes with the smallest overlap by integer programming (LUMORPH paper, algorithm 2, corrected)."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from wavefabric.fabric.photonic.fabric import PhotonicFabric
from wavefabric.fabric.photonic.tile_grid import Route, TileGrid, edge_loads, route_edges, tile_grid, trace

_INFEASIBLE = 2


def minimum_overlap(
    fabric: PhotonicFabric,
    pairs: Sequence[tuple[int, int]],
    routes: Sequence[Route],
    bound: int,
    time_limit: float,
) -> tuple[list[Route], int]:
    """Return the routes with the smallest overlap found in time, and a proved lower bound on the overlap.

    The overlap is the largest number of routes on an edge; ``routes`` are kept unless better ones are found.
    The LUMORPH paper has a binary variable per pair and edge, and an error in (16): the edges into a
    destination must carry 1, not 0. As circuits of one source are interchangeable, this program has one
    variable per source and edge, the number of circuits: at each destination one stays, elsewhere as many
    leave as enter; the counts are then divided into paths. Bounds are the same and there are fewer variables.
    A price on length prevents cycles; it is too small to outweigh one route of overlap. Cycles that remain
    within the solver's tolerances are cut off. The solver is HiGHS through SciPy; ``time_limit`` in s.
    """
    known = int(edge_loads(fabric, routes).max(initial=0)) if len(pairs) else 0
    if known <= bound:
        return list(routes), bound
    flows, proved = _solve(tile_grid(fabric), pairs, bound, known - 1, time_limit)
    bound = max(bound, min(proved, known))
    if flows is None:
        return list(routes), bound
    solved = _paths(tile_grid(fabric), pairs, flows)
    better = int(edge_loads(fabric, solved).max()) < known
    return (solved if better else list(routes)), bound


def _solve(g: TileGrid, pairs, low: int, high: int, time_limit: float) -> tuple[np.ndarray | None, int]:
    """Return the number of circuits of each source on each edge, shape (sources, edges), and a lower bound.

    The bound is one on the overlap, which may be from ``low`` to ``high``. The numbers are None if no
    solution was found in time, or if none exists.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array, eye_array, hstack, kron, vstack

    sources, source = np.unique([s for s, _ in pairs], return_inverse=True)
    destination = np.array([d for _, d in pairs])
    edges, tail = g.edge.size, np.repeat(np.arange(g.tiles), np.diff(g.indptr))
    each = np.arange(edges)
    # Circuits that end at a tile: in minus out.
    came, left = (csr_array((np.ones(edges), (at, each)), shape=(g.tiles, edges)) for at in (g.indices, tail))
    stays = np.zeros((sources.size, g.tiles))
    np.add.at(stays, (source, destination), 1)
    stays[np.arange(sources.size), sources] -= np.bincount(source)
    balance = hstack([kron(eye_array(sources.size), came - left), csr_array((stays.size, 1))])
    load = hstack([kron(np.ones((1, sources.size)), eye_array(edges)), csr_array(-np.ones((edges, 1)))])
    # No circuit returns to its source, and an edge carries at most all circuits of the source.
    most = np.minimum(np.bincount(source), high).astype(float)
    upper = np.repeat(most, edges).reshape(sources.size, edges)
    upper[g.indices[None, :] == sources[:, None]] = 0
    price = np.append(np.full(upper.size, 0.5 / max(float(upper.sum()), 1.0)), 1.0)
    # Typed loosely, because SciPy's stubs only accept scalar bounds.
    least: Any = np.concatenate((stays.ravel(), np.full(edges, -np.inf)))
    greatest: Any = np.concatenate((stays.ravel(), np.zeros(edges)))
    bottom: Any = np.append(np.zeros(upper.size), low)
    top: Any = np.append(upper.ravel(), high)
    result = milp(
        price,
        integrality=np.ones(price.size),
        bounds=Bounds(bottom, top),
        constraints=LinearConstraint(vstack([balance, load]).tocsr(), least, greatest),
        options={"time_limit": time_limit, "mip_rel_gap": 0.0},
    )
    if result.status == _INFEASIBLE:
        return None, high + 1
    # The total price of length is at most 1/2: subtract it from the solver's bound, then round up.
    dual = getattr(result, "mip_dual_bound", None)
    proved = low if dual is None or not np.isfinite(dual) else int(np.ceil(dual - 0.5 - 1e-6))
    if result.x is None:
        return None, max(low, proved)
    return np.rint(result.x[:-1]).astype(np.int64).reshape(sources.size, edges), max(low, proved)


def _paths(g: TileGrid, pairs, flows: np.ndarray) -> list[Route]:
    """Divide ``flows``, numbers of circuits by source and edge, into one shortest path per pair."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order

    row = {s: i for i, s in enumerate(sorted({s for s, _ in pairs}))}
    entry = np.zeros(g.capacity.size, np.int64)
    entry[g.edge] = np.arange(g.edge.size)
    paths = []
    for s, d in pairs:
        left = csr_array((flows[row[s]], g.indices, g.indptr), shape=(g.tiles, g.tiles), copy=True)
        left.eliminate_zeros()
        path = trace(breadth_first_order(left, s)[1], s, d)
        flows[row[s], entry[route_edges(g.columns, path)]] -= 1
        paths.append(path)
    return paths
