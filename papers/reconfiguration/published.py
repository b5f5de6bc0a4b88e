"""Published schedules of SWOT and Harvest, beside ours for the same machines and collectives."""

from __future__ import annotations

import csv
import sys
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2]))

from papers.common import command, run
from papers.lumorph.panels import draw_panels
from papers.reconfiguration import harvest, swot
from wavefabric.base.results.figure_style import BLUE, INK, RED
from wavefabric.fabric.execution import report
from wavefabric.fabric.photonic.reconfiguration.search import shortest

#: Partial choices kept, besides half as many of another kind, with eight switches and with fewer.
KEEP, KEEP_FEWER = 8, 32
#: Of the emulation: ms of start-up and of a hop, GB/s (30.32 us, 1 ns, 85 Gb/s); set-ups, ms.
EMULATION, SET_UPS = (0.03032, 1e-6, 10.625), (0.01, 0.1, 1.0)
#: Circuits of each step that Harvest compares there: one ring, each step's own, and those of two steps.
COMPARED = {"static": (1, 1, 1), "each step's own": (1, 2, 4), "one change": (1, 2, 2)}


def rows(source: str) -> list[dict[str, Any]]:
    """Rows of ``published.csv`` whose source begins so, without their empty cells; numbers as floats."""
    text = (Path(__file__).parent / "published.csv").read_text(encoding="utf-8")
    lines = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    words = ("source", "algorithm")
    return [
        {name: cell if name in words else float(cell) for name, cell in line.items() if cell}
        for line in lines
        if line["source"].startswith(source)
    ]


def study(say=lambda line: None) -> dict[str, Any]:
    """Times of published schedules and of ours, ms.

    Returns
    -------
    dict
        ``swot``: cases of its figures 7 and 8, with ``strawman``, ``theirs`` and ``ours``; ``harvest``:
        schedules of its figure 5, with ``theirs``, ``ours``, and how often circuits change in each;
        ``emulation``: measured times of the best schedule of Harvest's three, and of our choice by the model.
    """
    result: dict[str, Any] = {"benchmark": "published", "swot": [], "harvest": []}
    for (algorithm, nodes, switches), group in groupby(
        rows("SWOT"), lambda row: (row["algorithm"], int(row["nodes"]), int(row["switches"]))
    ):
        say(f"SWOT, {algorithm}, {nodes} GPUs, {switches} switches")
        routes: dict[Any, Any] = {}
        result["swot"] += [row | {"ours": swot_time(row, routes)} for row in group]
    for row in rows("Harvest"):
        say(f"Harvest, {row['algorithm']}, {row['MB']:g} MB")
        case = harvest.problem(row["algorithm"], int(row["nodes"]), row["MB"], row["set_up"])
        ours, circuits = harvest.best(case)
        result["harvest"].append(row | {"ours": ours, "our_changes": harvest.changes(circuits)})
    result["emulation"] = emulation()
    return result


def swot_time(row: dict[str, Any], routes: dict[Any, Any]) -> float:
    """Our time for a row of SWOT, ms; ``routes``: what cases of the same algorithm and machine share.

    Its figures do not count the first set-ups, and neither does this time.
    """
    algorithm, nodes, switches = row["algorithm"], int(row["nodes"]), int(row["switches"])
    case = swot.problem(algorithm, nodes, switches, row["MB"], row["set_up"], row["GB_per_s"])
    keep = KEEP if switches >= 8 else KEEP_FEWER
    return float(shortest(replace(case, known=routes), keep=keep)[0] - row["set_up"])


def emulation() -> list[dict[str, Any]]:
    """Measured ms on 8 GPUs, for each size and set-up: the best of Harvest's schedules, and our choice."""
    result, (start_up, hop, bandwidth) = [], EMULATION
    for size, group in groupby(rows("emulation"), lambda row: row["MB"]):
        measured = {(int(row["step"]), int(row["hops"])): row["theirs"] for row in group}
        for set_up in SET_UPS:
            case = harvest.problem("reduce-scatter", 8, size, set_up, hop, bandwidth)
            predicted, chosen = harvest.best(case, start_up)
            ours = [1 << topology for topology in chosen]

            def total(circuits, measured=measured, set_up=set_up):
                steps = (measured[k + 1, (1 << k) // s] for k, s in enumerate(circuits))
                return sum(steps) + set_up * harvest.changes(circuits)

            theirs = {name: total(circuits) for name, circuits in COMPARED.items()}
            choice = next((name for name, c in COMPARED.items() if list(c) == ours), "another")
            best = min(theirs, key=lambda name: theirs[name])
            result.append(
                {"MB": size, "set_up": set_up, "best": best, "theirs": theirs[best], "choice": choice}
                | {"ours": total(ours), "predicted": predicted}
            )
    return result


def table(result: dict[str, Any]) -> list:
    """Three tables: SWOT, Harvest's schedules, its emulation."""
    cases = [
        (
            one["source"].removeprefix("SWOT "), one["algorithm"],
            *(f"{one[name]:g}" for name in ("nodes", "switches", "MB")),
            *(f"{one[name]:.4f}" for name in ("strawman", "theirs", "ours")),
            f"{one['ours'] / one['theirs']:.3f}",
        )
        for one in result["swot"]
    ]  # fmt: skip
    schedules = [
        (
            one["algorithm"], f"{one['MB']:.3f}", f"{one['set_up'] * 1e3:g}",
            *(f"{one[name] * 1e3:.2f}" for name in ("theirs", "ours")),
            *(f"{one[name]:g}" for name in ("changes", "our_changes")),
        )
        for one in result["harvest"]
    ]  # fmt: skip
    measured = [
        (
            f"{one['MB']:.1f}", f"{one['set_up'] * 1e3:g}", one["best"], f"{one['theirs']:.3f}",
            one["choice"], *(f"{one[name]:.3f}" for name in ("ours", "predicted")),
        )
        for one in result["emulation"]
    ]  # fmt: skip
    names = ("<figure", "<algorithm", "GPUs", "switches", "MB", "strawman", "SWOT", "ours", "ours/SWOT")
    return [
        report.table("SWOT, figures 7 and 8, ms; 0.2 ms a set-up", names, cases),
        report.table(
            "Harvest, 64 GPUs, us",
            ("<collective", "MB", "set-up", "Harvest", "ours", "changes", "ours"),
            schedules,
        ),
        report.table(
            "reduce-scatter on 8 GPUs, measured, ms; set-up in us",
            ("MB", "set-up", "<best of theirs", "ms", "<our choice", "ms", "predicted"),
            measured,
        ),
    ]


def plot(result: dict[str, Any], path: Path) -> None:
    """Time over size, a panel for each part of SWOT's figure 7."""
    parts = groupby((one for one in result["swot"] if one["source"] < "SWOT 8"), lambda one: one["source"])
    draw_panels(path, [lambda axes, group=list(group): _panel(axes, group) for _, group in parts], width=3.4)


def _panel(axes, group: list[dict[str, Any]]) -> None:
    sizes = [one["MB"] for one in group]
    for series, colour, mark in (("strawman", BLUE, "--"), ("theirs", RED, "o-"), ("ours", INK, "s-")):
        label = "SWOT" if series == "theirs" else series
        axes.loglog(sizes, [one[series] for one in group], mark, color=colour, markersize=4, label=label)
    first = group[0]
    axes.set_title(f"{first['algorithm']}, {first['nodes']:g} GPUs, {first['switches']:g} switches")
    axes.set_xlabel("array (MB)")
    if first["source"] == "SWOT 7a":
        axes.set_ylabel("time (ms)")
        axes.legend(loc="upper left")


main = command(__name__, study)

if __name__ == "__main__":
    run(main)
