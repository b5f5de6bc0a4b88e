"""Figure 3 of the LUMORPH paper: time to find routes with the least overlap."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2]))

from papers.common import command, run
from papers.lumorph.data import SIZES, points
from papers.lumorph.panels import draw_panels, rank_axis
from papers.lumorph.routes import grid_of, least_overlap
from wavefabric.base.results.figure_style import BLUE, INK, RED
from wavefabric.fabric.execution import report


def figure(say=lambda line: None) -> dict[str, Any]:
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
            say(f"radix {radix}, {ranks} GPUs")
            best = least_overlap(ranks, radix, grid_of(ranks, radix))
            ours.append({"radix": radix, "ranks": ranks} | best)
    return {"benchmark": "figure3", "ours": ours, "paper": points("fig3")}


def table(result: dict[str, Any]) -> list:
    """Seconds and overlaps by number of GPUs."""
    sizes = sorted({one["ranks"] for one in result["ours"]})
    rows = []
    for radix in (2, 4):
        mine = {one["ranks"]: one for one in result["ours"] if one["radix"] == radix}
        rows.append((f"radix {radix}, s", *(f"{mine[n]['seconds']:.3f}" for n in sizes)))
        rows.append((f"radix {radix}, overlap", *(_overlap(mine[n]) for n in sizes)))
    curves = sorted((dict(map(tuple, drawn)) for drawn in result["paper"].values()), key=lambda at: at[256])
    for name, at in zip(("faster", "slower"), curves, strict=True):
        rows.append((f"paper, {name} curve, s", *(f"{at[n]:g}" for n in sizes)))
    return [
        report.table(
            "figure 3: seconds to find routes with the least overlap, all rounds of an all-reduce",
            ("<routes", *(str(n) for n in sizes)),
            rows,
            "ours: time of the processor; overlap in one direction of an edge; certified: proved least",
        )
    ]


def _overlap(one: dict[str, Any]) -> str:
    return f"{max(one['overlaps'])}" + ("" if one["certified"] else f" (≥ {max(one['bounds'])})")


def plot(result: dict[str, Any], path: Path) -> None:
    """Seconds over the number of GPUs."""
    draw_panels(path, [lambda axes: _panel(axes, result)], width=6.0)


def _panel(axes, result: dict[str, Any]) -> None:
    curves = sorted(result["paper"].values(), key=lambda curve: curve[-1][1])
    for curve, (colour, marker) in zip(curves, ((BLUE, "s"), (RED, "D")), strict=True):
        axes.plot(*zip(*curve, strict=True), marker, color=colour, markersize=5)
        axes.plot(*zip(*curve, strict=True), ":", color=colour, linewidth=0.9)
    for radix, colour in ((2, BLUE), (4, RED)):
        mine = [one for one in result["ours"] if one["radix"] == radix]
        axes.plot([o["ranks"] for o in mine], [max(o["seconds"], 1e-5) for o in mine], "-", color=colour)
    axes.annotate("the paper (Gurobi)", (64, 20), ha="right", fontsize=8.5, color=INK)
    axes.annotate("ours", (64, mine[-3]["seconds"] * 4), ha="right", fontsize=8.5, color=INK)
    rank_axis(axes, [one["ranks"] for one in result["ours"] if one["radix"] == 2])
    axes.set_yscale("log")
    axes.minorticks_off()
    axes.set_ylabel("time to find the routes (s)")
    axes.set_title("Figure 3")


main = command(__name__, figure)

if __name__ == "__main__":
    run(main)
