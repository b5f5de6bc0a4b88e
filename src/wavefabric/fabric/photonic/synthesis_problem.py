"""Converts a photonic fabric to a problem of schedule synthesis, and a synthesised schedule to circuits."""

import math
from collections import defaultdict
from dataclasses import replace
from itertools import permutations

import numpy as np

from wavefabric.base.arguments import whole
from wavefabric.base.errors import InputError, ensure
from wavefabric.collectives.synthesis.deadline import check
from wavefabric.collectives.synthesis.problem import OpticalNetwork, Synthesis
from wavefabric.fabric.photonic.check import check_plan
from wavefabric.fabric.photonic.circuit_plan import CircuitPlan, CircuitRound
from wavefabric.fabric.photonic.fabric import PhotonicFabric
from wavefabric.fabric.photonic.routing.cuts import overlap_bound, parts_bound
from wavefabric.fabric.photonic.routing.k_shortest import k_shortest
from wavefabric.fabric.photonic.routing.routes import xy
from wavefabric.fabric.photonic.tile_grid import Route, edge_loads, tile_grid
from wavefabric.fabric.photonic.wavelengths import circuit_round

#: Routes that a synthesis may use: row–column routes (one or two per pair), or the k shortest.
METHODS = ("xy", "shortest")
#: Limit of tiles in all routes together, which bounds memory.
_MOST_TILES = 1 << 24


def optical_network(
    fabric: PhotonicFabric, k: int = 4, method: str = "xy", until: float = math.inf
) -> OpticalNetwork:
    """Return a photonic fabric as the network of a synthesis problem.

    Each pair has the routes of ``"xy"`` (row first, and column first) or its ``k`` ``"shortest"`` simple
    routes. `OutOfTime` is raised after the time ``until`` of `wavefabric.collectives.synthesis.deadline.now`,
    `InputError` for an unknown method, ``k`` below 1, or too many tiles to list all routes.
    """
    ensure(method in METHODS, "method", f"{method!r} given", ", ".join(METHODS))
    whole("k", k, 1)
    length = (fabric.rows + fabric.columns) // 3 + 1
    if fabric.ranks**2 * (2 if method == "xy" else k) * length > _MOST_TILES:
        actual = f"{fabric.ranks} tiles given, whose routes have some {length} tiles each"
        raise InputError(f"fabric: {actual}; allowed: {_MOST_TILES} in all routes, as of 24x24 tiles by xy")
    tile_grid(fabric)
    routes: dict[tuple[int, int], tuple[Route, ...]] = {}
    for s, d in permutations(range(fabric.ranks), 2):
        check(until)
        both = (xy(fabric, s, d, column_first) for column_first in (False, True))
        routes[s, d] = tuple(dict.fromkeys(both) if method == "xy" else k_shortest(fabric, s, d, k))
    fibres = {e: fabric.fibres for e in fabric.edges() if fabric.wafer(e[0]) != fabric.wafer(e[1])}
    numbers = fabric.ranks, fabric.lasers, fabric.waveguides, fabric.serdes_ports
    return OpticalNetwork(*numbers, routes, fibres or None)


def circuit_plan(synthesis: Synthesis, fabric: PhotonicFabric) -> CircuitPlan:
    """Return the circuits, with waveguides, of a schedule synthesised for ``fabric``; each round is one part.

    Raises `InputError` if an edge has too few waveguides for a wavelength, or as `check.check_plan`.
    """
    of_round: dict[int, dict[tuple[int, int, Route], int]] = defaultdict(dict)
    for c in synthesis.circuits:
        masks, key = of_round[c.round], (c.src, c.dst, tuple(c.route))
        actual = f"circuit {c.src} -> {c.dst}, wavelength {c.wavelength} twice"
        ensure(not masks.get(key, 0) >> c.wavelength & 1, f"round {c.round}", actual, "one")
        masks[key] = masks.get(key, 0) | 1 << c.wavelength
    rounds = tuple(_round(fabric, number, of_round[number]) for number in sorted(of_round))
    plan = CircuitPlan(synthesis.schedule.name, fabric, rounds)
    check_plan(plan, synthesis.schedule)
    return plan


def _round(
    fabric: PhotonicFabric, number: int, wavelengths: dict[tuple[int, int, Route], int]
) -> CircuitRound:
    """Return the circuits of a round; ``wavelengths``: from (source, destination, route) to a bit mask."""
    g, routes, masks = tile_grid(fabric), [key[2] for key in wavelengths], list(wavelengths.values())
    for r in routes:
        if min(r) < 0 or max(r) >= fabric.ranks:
            raise InputError(f"round {number}: route {list(r)}; allowed: tiles 0 to {fabric.ranks - 1}")
    for w in range(max(masks).bit_length()):
        load = edge_loads(fabric, [r for r, m in zip(routes, masks, strict=True) if m >> w & 1])
        for edge in np.flatnonzero(load > g.capacity).tolist():
            actual = f"wavelength {w} {load[edge]} times on edge {g.name(edge)}"
            raise InputError(f"round {number}: {actual}; allowed: {g.capacity[edge]}, its waveguides")
    ends = np.array([key[:2] for key in wavelengths])
    served = np.unique(ends, axis=0)
    made = circuit_round(fabric, ends, routes, masks, overlap_bound(fabric, served))
    return replace(made, round=number, parts_bound=max(1, parts_bound(fabric, served, [1] * len(served))))
