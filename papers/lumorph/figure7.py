"""Figure 7 of the LUMORPH paper: time of an all-reduce by size, from the formulas and from schedules."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2]))

from papers.common import command, run
from papers.lumorph.closed_forms import MIB, PRINTED
from papers.lumorph.data import compared, lightpath, points, switch
from papers.lumorph.panels import SERIES, deviations, draw_panels, number_ticks, size_axis
from papers.lumorph.schedule_cost import affine
from wavefabric.base.results.figure_style import GREY
from wavefabric.fabric.execution import report

#: Algorithm of each series of figure 7, its options, and whether it runs over circuits.
_SCHEDULES: dict[str, tuple[str, dict[str, Any], bool]] = {
    "Ring": ("ring", {}, False),
    "Tree": ("tree", {}, False),
    "Lumorph-2": ("recursive", {"radix": 2}, True),
    "Lumorph-4": ("recursive", {"radix": 4}, True),
    "D&C": ("squares", {}, True),
}
#: Why a schedule's cost is not that of the printed formula, by series of figure 7.
WHY = {
    "Ring": "",
    "Tree": "printed: one transfer time for all levels together; the schedule pays it at each",
    "Lumorph-2": "",
    "Lumorph-4": "128 is no power of 4: the farthest round has one peer, and all lasers for it",
    "D&C": "first round: whole arrays to three peers, not one",
}


def figure(say=lambda line: None) -> dict[str, Any]:
    """All-reduce by size of the array, for 64, 128 and 256 GPUs.

    Returns
    -------
    dict
        ``series``, from the formulas as printed (µs over MiB); ``schedules``: for each series and number of
        GPUs ``rounds``, ``latency`` (s, with reconfiguration) and ``per_byte`` (s/B), so that a time is
        latency + per_byte · B, and ``us``, the times at the figure's points.
    """
    series, costed = [], []
    for ranks in (64, 128, 256):
        for name, drawn in points(f"fig7-{ranks}").items():
            sizes = [x for x, _ in drawn]
            ours = [1e6 * PRINTED[name](ranks, x * MIB) for x in sizes]
            series.append(compared("7", f"{ranks} GPUs", name, "us", drawn, ours))
            say(f"{name}, {ranks} GPUs")
            cost = _affine(name, ranks)
            cost["us"] = [1e6 * (cost["latency"] + cost["per_byte"] * x * MIB) for x in sizes]
            cost["printed_latency"] = float(PRINTED[name](ranks, 0.0))
            cost["printed_per_byte"] = (PRINTED[name](ranks, 1e9) - cost["printed_latency"]) / 1e9
            costed.append({"panel": f"{ranks} GPUs", "series": name, "sizes_mib": sizes} | cost)
    return {"benchmark": "figure7", "series": series, "schedules": costed}


def _affine(name: str, ranks: int) -> dict[str, Any]:
    """Cost of the real schedule; both parts do not depend on the size of the array."""
    algorithm, options, circuits = _SCHEDULES[name]
    fabric = lightpath(ranks) if circuits else switch(ranks)
    if algorithm == "squares":
        options = {"grid": (fabric.rows, fabric.columns)}  # type: ignore[union-attr]
    return affine(algorithm, fabric, sharing="paper", **options)


def table(result: dict[str, Any]) -> list:
    """Deviations of the formulas from the paper, and costs of real schedules."""
    rows = []
    for one in result["schedules"]:
        times = (one["latency"], one["per_byte"]), (one["printed_latency"], one["printed_per_byte"])
        (a, b), (c, d) = times
        rows.append((
            *(one["panel"].split()[0], one["series"], str(one["rounds"])),
            *(f"{value:.2f}" for value in (1e6 * a, 1e6 * c, 1e6 * MIB * b, 1e6 * MIB * d)),
            *(f"{1e6 * (x + 64 * MIB * y):.1f}" for x, y in times),
        ))  # fmt: skip
    schedules = report.table(
        "figure 7 from schedules: built, proved, costed round by round",
        ("<GPUs", "<series", "rounds", "µs", "printed", "µs/MiB", "printed", "64 MiB, µs", "printed"),
        rows,
        "\n".join(f"{name}: {why}" for name, why in WHY.items() if why),
    )
    return [deviations(result["series"]), schedules]


def plot(result: dict[str, Any], path: Path) -> None:
    """Time over the size of the array, a panel for each number of GPUs."""
    panels = report.distinct(result["series"], "panel")
    draw_panels(path, [lambda axes, panel=panel: _panel(axes, result, panel) for panel in panels])


def _panel(axes, result: dict[str, Any], panel: str) -> None:
    for one in result["series"]:
        if one["panel"] == panel:
            colour, marker = SERIES[one["series"]]
            axes.plot(one["x"], one["ours"], "-", color=colour, linewidth=1.5)
            axes.plot(one["x"], one["paper"], marker, color=colour, markersize=4.5, label=one["series"])
    for one in result["schedules"]:
        if one["panel"] == panel:
            axes.plot(one["sizes_mib"], one["us"], ":", color=SERIES[one["series"]][0], linewidth=1.3)
    size_axis(axes)
    axes.set_yscale("log")
    axes.set_ylim(7, 2e4)
    number_ticks(axes.set_yticks, (10, 100, 1000, 10000))
    axes.minorticks_off()
    axes.set_title(f"Figure 7, {panel}")
    if panel.startswith("64"):
        axes.set_ylabel("all-reduce (µs)")
        axes.legend(loc="upper left", ncols=2, columnspacing=1.0, handletextpad=0.3)
        note = "markers: the paper\nlines: formulas as printed\ndotted: schedules, costed"
        axes.text(0.98, 0.03, note, transform=axes.transAxes, ha="right", va="bottom", fontsize=8, color=GREY)


main = command(__name__, figure)

if __name__ == "__main__":
    run(main)
