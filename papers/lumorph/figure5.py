"""Figure 5 of the LUMORPH paper: most circuits on an edge, and those that do not fit."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2]))

from papers.common import Seeds, command, run
from papers.lumorph.data import GRIDS, compared, points
from papers.lumorph.panels import (
    ROUTES,
    deviations,
    draw_panels,
    hollow,
    least_lines,
    random_bands,
    rank_axis,
    spreads,
)
from papers.lumorph.routes import DIRECTIONS, grid_of, least_overlap, random_draws, spread
from wavefabric.base.errors import InputError
from wavefabric.base.results.figure_style import GREY


def figure(seeds: Seeds = 1000, say=lambda line: None) -> dict[str, Any]:
    """Most circuits on an edge, of routes with the least overlap and of random ones.

    Most circuits on an edge (left), and what is above the number of waveguides (right).

    Returns
    -------
    dict
        ``series`` of least overlap; ``random``: distribution of the largest overlap of an all-reduce, with
        the share of draws below and up to the paper's (one) draw; ``lying``: LUMORPH-4 at 8 GPUs as 2 × 4.
    """
    if seeds < 1:
        raise InputError(f"--seeds: {seeds} given; allowed: at least 1")
    series, random = [], []
    left, right = points("fig5L"), points("fig5R")
    for radix in (2, 4):
        name = f"L{radix}+MCF"
        drawn = left[name]
        ours = [
            DIRECTIONS * max(least_overlap(int(n), radix, grid_of(int(n), radix))["overlaps"])
            for n, _ in drawn
        ]
        series.append(compared("5", "left", name, "circuits", drawn, ours))
        over = [max(0.0, ours[-1] - w) for w, _ in right[name]]
        series.append(compared("5", "right", name, "circuits", right[name], over))
        name = f"L{radix}+Random"
        for ranks, seen in left[name]:
            say(f"random routes, radix {radix}, {ranks:.0f} GPUs")
            most = random_draws(int(ranks), radix, seeds).max(axis=1)
            random.append({"series": name, "ranks": int(ranks), "paper": seen} | spread(most, seen))
        over = [max(0.0, left[name][-1][1] - w) for w, _ in right[name]]
        series.append(compared("5", "right", f"{name}, from the left", "circuits", right[name], over))
    return {
        "benchmark": "figure5",
        "seeds": seeds,
        "series": series,
        "random": random,
        "lying": DIRECTIONS * max(least_overlap(8, 4, GRIDS[8])["overlaps"]),
    }


def table(result: dict[str, Any]) -> list:
    """Deviations from the paper, and random draws."""
    lines = spreads(
        "figure 5: most circuits on an edge, routes drawn at random",
        "series",
        result["random"],
        lambda one: one["series"],
    )
    lines.caption += f"\nLumorph-4 at 8 GPUs: tiles as 4 x 2; as 2 x 4 the least overlap is {result['lying']}"
    return [deviations(result["series"]), lines]


def plot(result: dict[str, Any], path: Path) -> None:
    """Circuits on an edge (left) and those above the number of waveguides (right)."""
    draw_panels(path, [lambda axes: _left(axes, result), lambda axes: _right(axes, result)], legend=True)


def _left(axes, result: dict[str, Any]) -> None:
    random_bands(axes, result["random"])
    least_lines(axes, [one for one in result["series"] if one["panel"] == "left"])
    rank_axis(axes, sorted({one["ranks"] for one in result["random"]}))
    axes.set_ylim(bottom=0)
    axes.set_ylabel("most circuits on an edge, both directions")
    axes.set_title("Figure 5, left")


def _right(axes, result: dict[str, Any]) -> None:
    random = {one["series"]: one for one in result["random"] if one["ranks"] == 256}
    for one in result["series"]:
        if one["panel"] != "right":
            continue
        name = one["series"].split(",")[0]
        colour, marker, _ = ROUTES[name]
        if name in random:
            # As above: what is over W of the draws' overlap.
            for low, high, alpha in (("least", "most", 0.16), ("low", "high", 0.26)):
                ends = ([max(0.0, random[name][key] - w) for w in one["x"]] for key in (low, high))
                axes.fill_between(one["x"], *ends, color=colour, alpha=alpha, linewidth=0)
            axes.plot(one["x"], one["paper"], **hollow(colour, marker))
        else:
            axes.plot(one["x"], one["ours"], "-", color=colour, linewidth=1.6)
            axes.plot(one["x"], one["paper"], marker, color=colour, markersize=5)
    axes.axvline(30, color=GREY, linewidth=0.8, linestyle=":")
    axes.annotate("“30 are enough”", (30, axes.get_ylim()[1]), xytext=(5, -4), textcoords="offset points",
                  va="top", fontsize=8, color=GREY)  # fmt: skip
    axes.set_xlabel("waveguides of an edge, both directions")
    axes.set_ylabel("circuits that do not fit")
    axes.set_title("Figure 5, right: 256 GPUs")


main = command(__name__, figure)

if __name__ == "__main__":
    run(main)
