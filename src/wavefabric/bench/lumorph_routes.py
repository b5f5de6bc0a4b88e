"""Figures 3, 5 and 6 of the LUMORPH paper: routes that overlap least, and routes drawn at random."""

from __future__ import annotations

import time
from functools import lru_cache
from typing import Any

import numpy as np

from wavefabric.bench.lumorph_data import GRIDS, SIZES, UPRIGHT, beside, lightpath, points
from wavefabric.bench.lumorph_random import Draws
from wavefabric.fabric.photonic.fabric import PhotonicFabric

Pairs = tuple[tuple[int, int], ...]
#: Figure 5 counts circuits of both directions of an edge.
DIRECTIONS = 2
WAVEGUIDES = (20, 40)


@lru_cache(maxsize=32)
def rounds_of(ranks: int, radix: int) -> tuple[Pairs, ...]:
    """Who sends to whom in each round of the first half of the all-reduce; the second half is its reverse."""
    from wavefabric.collectives.registry import build

    transfers = build("recursive", "reduce-scatter", ranks, ranks, radix=radix).transfers
    apart = transfers[transfers["src"] != transfers["dst"]]
    found = []
    for number in np.unique(apart["round"]):
        mine = apart[apart["round"] == number]
        found.append(tuple(sorted(set(zip(mine["src"].tolist(), mine["dst"].tolist(), strict=True)))))
    return tuple(found)


def grid_of(ranks: int, radix: int) -> tuple[int, int]:
    """Rows and columns that give the paper's overlaps."""
    return UPRIGHT if (ranks, radix) == (8, 4) else GRIDS[ranks]


@lru_cache(maxsize=32)
def least(ranks: int, radix: int, grid: tuple[int, int]) -> dict[str, Any]:
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
    found = [route(fabric, pairs) for pairs in rounds]
    return {
        "overlaps": [one.overlap for one in found],
        "bounds": [one.bound for one in found],
        "certified": all(one.certified for one in found),
        "methods": sorted({one.method for one in found}),
        "seconds": time.process_time() - begun,
    }


def fewest_waveguides(ranks: int, radix: int) -> tuple[int, int]:
    """Waveguides of an edge, in each direction, with which no round has to be split.

    Circuits of different wavelengths share a waveguide; lasers are shared evenly among peers.

    Returns
    -------
    found, bound : int
        With `found` wavelengths were dealt out such that all circuits fit; with less than `bound` none can
        be.
    """
    from wavefabric.fabric.photonic.routing.routes import route
    from wavefabric.fabric.photonic.wavelengths import assign_wavelengths, fewest_wavelengths

    plenty = lightpath(ranks)
    rounds = []
    bound = 1
    for pairs in rounds_of(ranks, radix):
        ends, ways = np.array(pairs), route(plenty, pairs)
        lasers = fewest_wavelengths(plenty, "even", ends)
        bound = max(bound, -(-ways.bound * int(lasers.min()) // plenty.lasers))
        rounds.append((ends, ways.routes, lasers))
    found = bound
    while any(assign_wavelengths(lightpath(ranks, found), *one) is None for one in rounds):
        found += 1
    return found, bound


@lru_cache(maxsize=32)
def random_draws(ranks: int, radix: int, seeds: int, k: int = 32) -> np.ndarray:
    """Overlaps of routes drawn at random, both directions of an edge counted: shape (seeds, rounds)."""
    fabric: PhotonicFabric = lightpath(ranks, grid=grid_of(ranks, radix))
    columns = [Draws(fabric, pairs, k) for pairs in rounds_of(ranks, radix)]
    rng = np.random.default_rng(0)
    return np.array([[draws.overlap(rng) for draws in columns] for _ in range(seeds)])


def figure3(say=lambda line: None) -> dict[str, Any]:
    """Time to find routes with the least overlap for all rounds of an all-reduce.

    Returns
    -------
    dict
        ``ours``: for each radix and number of GPUs ``seconds``, ``overlap``, ``bound``, ``certified``;
        ``paper``: seconds by curve. The paper's two curves are the two radices; which is which is not said
        here, but the slower has to be radix 4, which has three times the circuits a round.
    """
    ours = []
    for radix in (2, 4):
        for ranks in SIZES:
            say(f"figure 3: radix {radix}, {ranks} GPUs")
            found = least(ranks, radix, grid_of(ranks, radix))
            ours.append({"radix": radix, "ranks": ranks} | found)
    return {"ours": ours, "paper": points("fig3")}


def figure5(seeds: int, say=lambda line: None) -> dict[str, Any]:
    """Most circuits on an edge (left), and what is above the number of waveguides (right).

    Returns
    -------
    dict
        ``series`` of least overlap; ``random``: distribution of the largest overlap of an all-reduce, with
        the share of draws below and up to the paper's (one) draw; ``lying``: LUMORPH-4 at 8 GPUs as 2 × 4.
    """
    series, random = [], []
    left, right = points("fig5L"), points("fig5R")
    for radix in (2, 4):
        name = f"L{radix}+MCF"
        drawn = left[name]
        ours = [DIRECTIONS * max(least(int(n), radix, grid_of(int(n), radix))["overlaps"]) for n, _ in drawn]
        series.append(beside("5", "left", name, "circuits", drawn, ours))
        over = [max(0.0, ours[-1] - w) for w, _ in right[name]]
        series.append(beside("5", "right", name, "circuits", right[name], over))
        name = f"L{radix}+Random"
        for ranks, seen in left[name]:
            say(f"figure 5: random routes, radix {radix}, {ranks:.0f} GPUs")
            most = random_draws(int(ranks), radix, seeds).max(axis=1)
            random.append({"series": name, "ranks": int(ranks), "paper": seen} | _spread(most, seen))
        over = [max(0.0, left[name][-1][1] - w) for w, _ in right[name]]
        series.append(beside("5", "right", f"{name}, from the left", "circuits", right[name], over))
    return {"series": series, "random": random, "lying": DIRECTIONS * max(least(8, 4, GRIDS[8])["overlaps"])}


def figure6(seeds: int, say=lambda line: None) -> dict[str, Any]:
    """Reconfigurations in an all-reduce: rounds, each as often as its circuits need to fit the waveguides.

    Returns
    -------
    dict
        ``series`` of least overlap, and ``random`` as in `figure5`.
    """
    series, random = [], []
    for waveguides in WAVEGUIDES:
        for name, drawn in points(f"fig6W{waveguides}").items():
            radix = int(name[1])
            if name.endswith("MCF"):
                ours = [_reconfigurations(_least_row(int(n), radix), waveguides)[0] for n, _ in drawn]
                series.append(beside("6", f"{waveguides} waveguides", name, "rounds", drawn, ours))
                continue
            for ranks, seen in drawn:
                say(f"figure 6: random routes, radix {radix}, {ranks:.0f} GPUs")
                count = _reconfigurations(random_draws(int(ranks), radix, seeds), waveguides)
                random.append(
                    {"series": name, "waveguides": waveguides, "ranks": int(ranks), "paper": seen}
                    | _spread(count, seen)
                )
    return {"series": series, "random": random}


def _least_row(ranks: int, radix: int) -> np.ndarray:
    return DIRECTIONS * np.array([least(ranks, radix, grid_of(ranks, radix))["overlaps"]])


def _reconfigurations(overlaps: np.ndarray, waveguides: int) -> np.ndarray:
    """2 Σ ⌈overlap/W⌉ over rounds: shape (draws,)."""
    return 2 * (-(-overlaps // waveguides)).sum(axis=1)


def _spread(found: np.ndarray, seen: float) -> dict[str, Any]:
    return {
        "least": int(found.min()),
        "median": float(np.median(found)),
        "most": int(found.max()),
        "low": float(np.quantile(found, 0.05)),
        "high": float(np.quantile(found, 0.95)),
        "below": float((found < seen).mean()),
        "up_to": float((found <= seen).mean()),
    }
