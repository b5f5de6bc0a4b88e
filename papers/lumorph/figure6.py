"""Figure 6 of the LUMORPH paper: reconfigurations in an all-reduce, by number of waveguides."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2]))

import numpy as np

from papers.common import Seeds, command, run
from papers.lumorph.data import compared, points
from papers.lumorph.panels import deviations, draw_panels, least_lines, random_bands, rank_axis, spreads
from papers.lumorph.routes import DIRECTIONS, WAVEGUIDES, grid_of, least_overlap, random_draws, spread
from wavefabric.base.errors import InputError


def figure(seeds: Seeds = 1000, say=lambda line: None) -> dict[str, Any]:
    """Reconfigurations of an all-reduce whose circuits share 20 or 40 waveguides an edge.

    Reconfigurations in an all-reduce: rounds, each as often as its circuits need to fit the waveguides.

    Returns
    -------
    dict
        ``series`` of least overlap, and ``random`` as in figure 5.
    """
    if seeds < 1:
        raise InputError(f"--seeds: {seeds} given; allowed: at least 1")
    series, random = [], []
    for waveguides in WAVEGUIDES:
        for name, drawn in points(f"fig6W{waveguides}").items():
            radix = int(name[1])
            if name.endswith("MCF"):
                ours = [_reconfigurations(_least_row(int(n), radix), waveguides)[0] for n, _ in drawn]
                series.append(compared("6", f"{waveguides} waveguides", name, "rounds", drawn, ours))
                continue
            for ranks, seen in drawn:
                say(f"random routes, radix {radix}, {ranks:.0f} GPUs")
                count = _reconfigurations(random_draws(int(ranks), radix, seeds), waveguides)
                random.append(
                    {"series": name, "waveguides": waveguides, "ranks": int(ranks), "paper": seen}
                    | spread(count, seen)
                )
    return {"benchmark": "figure6", "seeds": seeds, "series": series, "random": random}


def _least_row(ranks: int, radix: int) -> np.ndarray:
    return DIRECTIONS * np.array([least_overlap(ranks, radix, grid_of(ranks, radix))["overlaps"]])


def _reconfigurations(overlaps: np.ndarray, waveguides: int) -> np.ndarray:
    """2 Σ ⌈overlap/W⌉ over rounds: shape (draws,)."""
    return 2 * (-(-overlaps // waveguides)).sum(axis=1)


def table(result: dict[str, Any]) -> list:
    """Deviations from the paper, and random draws."""
    lines = spreads(
        "figure 6: reconfigurations, routes drawn at random",
        "series, waveguides",
        result["random"],
        lambda one: f"{one['series']}, {one['waveguides']}",
    )
    return [deviations(result["series"]), lines]


def plot(result: dict[str, Any], path: Path) -> None:
    """A panel for each number of waveguides."""
    panels = [lambda axes, number=number: _panel(axes, result, number) for number in WAVEGUIDES]
    draw_panels(path, panels, legend=True)


def _panel(axes, result: dict[str, Any], waveguides: int) -> None:
    random = [one for one in result["random"] if one["waveguides"] == waveguides]
    random_bands(axes, random)
    least_lines(axes, [one for one in result["series"] if one["panel"].startswith(f"{waveguides} ")])
    rank_axis(axes, sorted({one["ranks"] for one in random}))
    axes.set_ylim(0, 24)
    axes.set_ylabel("reconfigurations")
    axes.set_title(f"Figure 6: {waveguides} waveguides, both directions")


main = command(__name__, figure)

if __name__ == "__main__":
    run(main)
