"""Routes of the rounds of an all-reduce: those of least overlap, and random ones."""

from __future__ import annotations

import time
from functools import lru_cache
from typing import Any

import numpy as np

from papers.lumorph.data import GRIDS, UPRIGHT, lightpath
from papers.lumorph.random_routes import Draws
from wavefabric.fabric.photonic.fabric import PhotonicFabric

Pairs = tuple[tuple[int, int], ...]
#: Figure 5 counts circuits of both directions of an edge.
DIRECTIONS = 2
#: Waveguides of an edge in figure 6.
WAVEGUIDES = (20, 40)


@lru_cache(maxsize=32)
def rounds_of(ranks: int, radix: int) -> tuple[Pairs, ...]:
    """Who sends to whom in each round of the first half of the all-reduce; the second half is its reverse."""
    from wavefabric.collectives.registry import build

    transfers = build("recursive", "reduce-scatter", ranks, ranks, radix=radix).transfers
    apart = transfers[transfers["src"] != transfers["dst"]]
    result = []
    for number in np.unique(apart["round"]):
        mine = apart[apart["round"] == number]
        result.append(tuple(sorted(set(zip(mine["src"].tolist(), mine["dst"].tolist(), strict=True)))))
    return tuple(result)


def grid_of(ranks: int, radix: int) -> tuple[int, int]:
    """Rows and columns that give the paper's overlaps."""
    return UPRIGHT if (ranks, radix) == (8, 4) else GRIDS[ranks]


@lru_cache(maxsize=32)
def least_overlap(ranks: int, radix: int, grid: tuple[int, int]) -> dict[str, Any]:
    """Routes with the least overlap for every round, and what finding them took.

    Returns
    -------
    dict
        ``overlaps`` and ``bounds``, one number a round, in one direction of an edge; ``certified``: whether
        all are proved least; ``seconds``: of the processor; ``methods``.
    """
    from wavefabric.fabric.photonic.routing.routes import route

    fabric, rounds = lightpath(ranks, grid=grid), rounds_of(ranks, radix)
    route(fabric, [(0, 1)])  # what is done once only, such as imports
    begun = time.process_time()
    result = [route(fabric, pairs) for pairs in rounds]
    return {
        "overlaps": [one.overlap for one in result],
        "bounds": [one.bound for one in result],
        "certified": all(one.certified for one in result),
        "methods": sorted({one.method for one in result}),
        "seconds": time.process_time() - begun,
    }


def fewest_waveguides(ranks: int, radix: int) -> tuple[int, int]:
    """Waveguides of an edge, in each direction, with which no round has to be split.

    Circuits of different wavelengths share a waveguide; lasers are shared evenly among peers.

    Returns
    -------
    found, bound : int
        With `result` wavelengths were dealt out such that all circuits fit; with less than `bound` none can
        be.
    """
    from wavefabric.fabric.photonic.routing.routes import route
    from wavefabric.fabric.photonic.wavelengths import assign_wavelengths, fewest_wavelengths

    plenty = lightpath(ranks)
    rounds = []
    bound = 1
    for pairs in rounds_of(ranks, radix):
        ends, routes = np.array(pairs), route(plenty, pairs)
        lasers = fewest_wavelengths(plenty, "even", ends)
        bound = max(bound, -(-routes.bound * int(lasers.min()) // plenty.lasers))
        rounds.append((ends, routes.routes, lasers))
    result = bound
    while any(assign_wavelengths(lightpath(ranks, result), *one) is None for one in rounds):
        result += 1
    return result, bound


@lru_cache(maxsize=32)
def random_draws(ranks: int, radix: int, seeds: int, k: int = 32) -> np.ndarray:
    """Overlaps of routes drawn at random, both directions of an edge counted: shape (seeds, rounds)."""
    fabric: PhotonicFabric = lightpath(ranks, grid=grid_of(ranks, radix))
    columns = [Draws(fabric, pairs, k) for pairs in rounds_of(ranks, radix)]
    rng = np.random.default_rng(0)
    return np.array([[draws.overlap(rng) for draws in columns] for _ in range(seeds)])


def spread(result: np.ndarray, seen: float) -> dict[str, Any]:
    """Quantiles of random draws, and the share of them below and up to the paper's."""
    return {
        "least": int(result.min()),
        "median": float(np.median(result)),
        "most": int(result.max()),
        "low": float(np.quantile(result, 0.05)),
        "high": float(np.quantile(result, 0.95)),
        "below": float((result < seen).mean()),
        "up_to": float((result <= seen).mean()),
    }
