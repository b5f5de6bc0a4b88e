"""Chooses the route of each circuit, and computes a lower bound that rates the choice."""

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from wavefabric.base.arguments import whole
from wavefabric.base.errors import ensure
from wavefabric.fabric.photonic.budget import rates
from wavefabric.fabric.photonic.fabric import PhotonicFabric
from wavefabric.fabric.photonic.link_budget import LinkBudget
from wavefabric.fabric.photonic.routing.cuts import overlap_bound
from wavefabric.fabric.photonic.routing.k_shortest import k_shortest
from wavefabric.fabric.photonic.routing.minimum_overlap import minimum_overlap
from wavefabric.fabric.photonic.routing.ripup import ripup
from wavefabric.fabric.photonic.tile_grid import Pair, Route, check_pairs, edge_loads, tile_grid

#: Methods of choosing routes, described in `route`.
METHODS = ("auto", "xy", "shortest", "random", "ripup", "exact")

#: Largest number of variables (sources × edges) with which "auto" uses the integer program.
_SMALL = 4000


@dataclass(frozen=True)
class Routing:
    """Holds one route for each pair, and the quality of this choice."""

    pairs: tuple[Pair, ...]
    routes: tuple[Route, ...]  # tiles, source first and destination last; one per pair
    overlap: int  # largest number of routes on one edge in one direction
    bound: int  # lower bound of the overlap for any routes
    certified: bool  # whether ``overlap == bound``: no choice of routes is better
    method: str  # ``"xy"``, ``"xy, column first"``, ``"shortest"``, ``"random"``, ``"ripup"`` or ``"exact"``
    seconds: float  # wall time
    #: Smallest number of parts for circuits that each fill a waveguide.
    set_ups: int = 1


def route(
    fabric: PhotonicFabric,
    pairs: Iterable[Pair],
    method: str = "auto",
    *,
    seed: int = 0,
    k: int = 32,
    time_limit: float = 5.0,
    budget: LinkBudget | None = None,
) -> Routing:
    """Return a route for each pair of tiles such that few share an edge, and a lower bound on the overlap.

    Methods:

    - ``"xy"``: along the row first, or for all along the column first if that is better.
    - ``"shortest"``: the first path of Yen's algorithm.
    - ``"random"``: one of the ``k`` shortest simple paths at random.
    - ``"ripup"``: row–column routes, rerouted over the busiest edges (`ripup`).
    - ``"exact"``: the smallest overlap by integer programming (`minimum_overlap`), within ``time_limit`` s.
    - ``"auto"``: row–column routes if they reach the lower bound or every edge has enough waveguides for its
      routes: they are shortest, so no other routes take less time. Else the fastest of xy, ripup, and
      exact if the program is small enough. Wavelengths carry the rate that ``budget`` allows, at most the
      fabric's `laser_bandwidth`; without ``budget`` they carry `laser_bandwidth` over any route.

    Each pair is (source, destination), given once. `InputError` for an unknown method or tiles out of range.

    Examples
    --------
    >>> from wavefabric.fabric.photonic.fabric import PhotonicFabric
    >>> wafer = PhotonicFabric("w", 4, 4, 4, 4, 16, None, 28e9, 8, 8, 0.7e-6, 3.7e-6)
    >>> halves = route(wafer, [(t, t ^ 8) for t in range(16)])
    >>> halves.overlap, halves.bound, halves.method
    (2, 2, 'xy')
    """
    ensure(method in METHODS, "routing", f"{method!r} given", ", ".join(METHODS))
    whole("k", k, 1)
    ensure(time_limit > 0, "time_limit", f"{time_limit} given", "more than 0 s")
    begin = time.perf_counter()
    checked = check_pairs(fabric, pairs)
    bound = overlap_bound(fabric, checked)
    if method in ("shortest", "random"):
        routes = random_routes(fabric, checked, k if method == "random" else 1, seed)
        return _routing(fabric, checked, routes, bound, method, begin)
    routes = [xy(fabric, s, d) for s, d in checked]
    straight = _routing(fabric, checked, routes, bound, "xy", begin)
    if not straight.certified:
        routes = [xy(fabric, s, d, column_first=True) for s, d in checked]
        turned = _routing(fabric, checked, routes, bound, "xy, column first", begin)
        straight = min(straight, turned, key=lambda routing: routing.overlap)
    if method == "xy" or (method == "auto" and (straight.certified or straight.set_ups == 1)):
        return straight
    candidates = [straight]
    if not straight.certified:
        relaid = ripup(fabric, checked, straight.routes, bound, seed=seed)
        candidates.append(_routing(fabric, checked, relaid, bound, "ripup", begin))
    best = min(candidates, key=lambda routing: routing.overlap)
    small = len({s for s, _ in checked}) * len(fabric.edges()) <= _SMALL
    if method == "exact" or (method == "auto" and small and not best.certified):
        routes, bound = minimum_overlap(fabric, checked, best.routes, bound, time_limit)
        best = _routing(fabric, checked, routes, bound, "exact", begin)
        candidates.append(best)
    if method == "auto":
        best = min(candidates, key=lambda one: (_time(fabric, one, budget), one.overlap))
    return replace(best, bound=bound, certified=best.overlap == bound, seconds=time.perf_counter() - begin)


def xy(fabric: PhotonicFabric, src: int, dst: int, column_first: bool = False) -> Route:
    """Return the shortest route with at most one turn: along the row of ``src`` first, or its column.

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


def random_routes(fabric: PhotonicFabric, pairs: Iterable[Pair], k: int, seed: int) -> list[Route]:
    """Return for each pair one of its ``k`` shortest simple paths, all equally likely."""
    rng = np.random.default_rng(seed)
    result = (k_shortest(fabric, s, d, k) for s, d in pairs)
    return [paths[int(rng.integers(len(paths)))] for paths in result]


def _time(fabric: PhotonicFabric, routing: Routing, budget: LinkBudget | None) -> float:
    """Return the relative time per byte if all pairs send equally; the slowest wavelength sets the rate."""
    if budget is None or not routing.routes:
        return routing.set_ups / fabric.laser_bandwidth
    slowest = min(float(rates(fabric, routing.routes, budget).min()), fabric.laser_bandwidth)
    return routing.set_ups / slowest if slowest else np.inf


def _routing(fabric: PhotonicFabric, pairs, routes, bound: int, method: str, begin: float) -> Routing:
    loads = edge_loads(fabric, routes) if routes else np.zeros(1, np.int64)
    overlap, used = int(loads.max(initial=0)), np.flatnonzero(loads)
    set_ups = int(np.ceil(loads[used] / tile_grid(fabric).capacity[used]).max(initial=1))
    seconds = time.perf_counter() - begin
    return Routing(tuple(pairs), tuple(routes), overlap, bound, overlap == bound, method, seconds, set_ups)
