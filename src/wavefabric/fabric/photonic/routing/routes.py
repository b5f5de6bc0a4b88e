"""The route of each circuit, and a lower bound that says how good the choice is."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from wavefabric.collectives.arguments import whole
from wavefabric.errors import InputError
from wavefabric.fabric.photonic.fabric import PhotonicFabric
from wavefabric.fabric.photonic.routing.cuts import overlap_bound
from wavefabric.fabric.photonic.routing.k_shortest import k_shortest
from wavefabric.fabric.photonic.routing.ripup import ripup
from wavefabric.fabric.photonic.routing.xy import xy, xy_overlap
from wavefabric.fabric.photonic.tile_grid import Pair, Route, check_pairs, edge_loads, tile_grid

if TYPE_CHECKING:
    from wavefabric.fabric.photonic.budget import LinkBudget

#: Methods of choosing routes; `route` says what each is.
METHODS = ("auto", "xy", "shortest", "random", "ripup", "exact")

#: "auto" uses the solver where the integer program has at most so many variables (sources × edges).
_SMALL = 4000


@dataclass(frozen=True)
class Routing:
    """One route for each pair."""

    pairs: tuple[Pair, ...]
    routes: tuple[Route, ...]  # tiles, source first and destination last; one a pair
    overlap: int  # most routes on one edge in one direction
    bound: int  # no choice of routes has fewer
    certified: bool  # whether ``overlap == bound``: no choice of routes is better
    method: str  # ``"xy"``, ``"xy, column first"``, ``"shortest"``, ``"random"``, ``"ripup"`` or ``"exact"``
    seconds: float  # wall time
    #: Least number of parts in which circuits that each fill a waveguide are up.
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
    """A route for each pair of tiles, such that few share an edge, and a lower bound on the overlap.

    Parameters
    ----------
    fabric : PhotonicFabric
    pairs : iterable of (int, int)
        Source and destination; every pair once.
    method : str
        ``"xy"``: along the row first, or for all along the column first if that is better.
        ``"shortest"``: the first that Yen's algorithm yields.
        ``"random"``: one of the `k` shortest simple paths at random.
        ``"ripup"``: row–column routes; those over the busiest edges are laid again (`ripup`).
        ``"exact"``: the least overlap as an integer program (`minimum_overlap`), within `time_limit`.
        ``"auto"``: row–column routes if they reach the lower bound or no edge has fewer waveguides than
        routes: they are shortest, so no others take less time. Else what takes least time of these, ripup,
        and exact if that is small enough.
    seed : int
        Of random choices.
    k : int
    time_limit : float
        s, of the solver.
    budget : LinkBudget, optional
        ``"auto"`` counts what wavelengths carry by it, up to the fabric's `laser_bandwidth`. By default that
        over any route.

    Raises
    ------
    InputError
        For an unknown method or tiles out of range.

    Examples
    --------
    >>> from wavefabric.fabric.photonic.fabric import PhotonicFabric
    >>> wafer = PhotonicFabric("w", 4, 4, 4, 4, 16, None, 28e9, 8, 8, 0.7e-6, 3.7e-6)
    >>> halves = route(wafer, [(t, t ^ 8) for t in range(16)])
    >>> halves.overlap, halves.bound, halves.method
    (2, 2, 'xy')
    """
    if method not in METHODS:
        raise InputError(f"routing: {method!r} given; allowed: {', '.join(METHODS)}")
    whole("k", k, 1)
    if not time_limit > 0:
        raise InputError(f"time_limit: {time_limit} given; allowed: more than 0 s")
    begin = time.perf_counter()
    checked = check_pairs(fabric, pairs)
    bound = overlap_bound(fabric, checked)
    if method == "shortest":
        shortest = [k_shortest(fabric, s, d, 1)[0] for s, d in checked]
        made = _routing(fabric, checked, shortest, bound, "shortest")
    elif method == "random":
        made = _routing(fabric, checked, random_routes(fabric, checked, k, seed), bound, "random")
    else:
        straight = _straight(fabric, checked, bound)
        made = _improve(fabric, straight, method, seed=seed, time_limit=time_limit, budget=budget)
    return replace(made, seconds=time.perf_counter() - begin)


def random_routes(fabric: PhotonicFabric, pairs: Iterable[Pair], k: int, seed: int) -> list[Route]:
    """For each pair one of its k shortest simple paths, all equally likely."""
    rng = np.random.default_rng(seed)
    routes = []
    for s, d in pairs:
        paths = k_shortest(fabric, s, d, k)
        routes.append(paths[int(rng.integers(len(paths)))])
    return routes


def _straight(fabric: PhotonicFabric, pairs: list[Pair], bound: int) -> Routing:
    column_first = xy_overlap(fabric, pairs, True) < xy_overlap(fabric, pairs)
    routes = [xy(fabric, s, d, column_first) for s, d in pairs]
    return _routing(fabric, pairs, routes, bound, "xy, column first" if column_first else "xy")


def _improve(
    fabric: PhotonicFabric,
    straight: Routing,
    method: str,
    *,
    seed: int,
    time_limit: float,
    budget: LinkBudget | None,
) -> Routing:
    """What `method` makes of row–column routes."""
    pairs, best = list(straight.pairs), straight
    if method == "xy" or (method == "auto" and (straight.certified or straight.set_ups == 1)):
        return straight
    if not best.certified:
        routes = ripup(fabric, pairs, best.routes, best.bound, seed=seed)
        relaid = _routing(fabric, pairs, routes, best.bound, "ripup")
        best = relaid if relaid.overlap < best.overlap else best
    small = len({s for s, _ in pairs}) * len(fabric.edges()) <= _SMALL
    candidates = [straight, best]
    if method == "exact" or (method == "auto" and small and not best.certified):
        from wavefabric.fabric.photonic.routing.minimum_overlap import minimum_overlap

        routes, bound = minimum_overlap(fabric, pairs, best.routes, best.bound, time_limit)
        best = _routing(fabric, pairs, routes, bound, "exact")
        candidates.append(best)
    if method != "auto":
        return best
    fastest = min(candidates, key=lambda one: (_time(fabric, one, budget), one.overlap))
    return replace(fastest, bound=best.bound, certified=fastest.overlap == best.bound)


def _time(fabric: PhotonicFabric, routing: Routing, budget: LinkBudget | None) -> float:
    """s a byte when all pairs send as much: set-ups, each as long as its slowest wavelength at worst."""
    if budget is None or not routing.routes:
        return routing.set_ups / fabric.laser_bandwidth
    from wavefabric.fabric.photonic.budget import rates

    slowest = min(float(rates(fabric, routing.routes, budget).min()), fabric.laser_bandwidth)
    return routing.set_ups / slowest if slowest else np.inf


def _routing(fabric: PhotonicFabric, pairs, routes, bound: int, method: str) -> Routing:
    loads = edge_loads(fabric, routes) if routes else np.zeros(1, np.int64)
    overlap, used = int(loads.max(initial=0)), np.flatnonzero(loads)
    set_ups = int(np.ceil(loads[used] / tile_grid(fabric).capacity[used]).max(initial=1))
    return Routing(tuple(pairs), tuple(routes), overlap, bound, overlap == bound, method, 0.0, set_ups)
