"""Which circuits are up when: an all-reduce of 1 MiB on 32 tiles of LIGHTPATH, plane by plane."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2]))

from papers.common import command, run
from papers.lumorph.panels import draw_panels
from wavefabric.base.results.figure_style import GREY, INK
from wavefabric.collectives.conditions import whole_elements
from wavefabric.collectives.registry import build
from wavefabric.fabric import load
from wavefabric.fabric.execution import report
from wavefabric.fabric.photonic.reconfiguration.plan import plan_reconfiguration

TILES, SIZE = "lightpath:4x8", 2.0**20


def study(say=lambda line: None) -> dict[str, Any]:
    """Recursive halving and doubling, when circuits change as is best.

    Returns
    -------
    dict
        ``rounds``: begin and end (us), choice, and the circuits; ``planes``, a list of bars each: circuits,
        when their set-up begins, when they are up and down (us), and when rounds use them.
    """
    fabric = load(TILES)
    schedule = build("recursive", "all-reduce", 32, 32)
    plan = plan_reconfiguration(schedule, fabric, SIZE / whole_elements(schedule))
    planes: list[list[dict[str, Any]]] = [
        [] for _ in range(1 + max(max(s.planes) for _, _, s, *_ in plan.rounds))
    ]
    rounds = []
    for number, _, step, circuits, _ in plan.rounds:
        rounds.append({"round": number, "begin": step.begin, "end": step.end, "choice": step.choice})
        for j, ready in zip(step.planes, step.ready, strict=True):
            bars = planes[j]
            if not bars or bars[-1]["circuits"] != circuits:
                start = ready - fabric.reconfiguration - fabric.synchronisation
                if bars:
                    bars[-1]["down"] = start
                bars.append({"circuits": circuits, "start": start, "ready": ready, "used": []})
            bars[-1]["used"].append((max(step.begin, ready), step.end))
            bars[-1]["down"] = plan.seconds
    return {"benchmark": "timeline", "seconds": plan.seconds, "rounds": rounds, "planes": planes}


def table(result: dict[str, Any]) -> list:
    """Rounds and their choices."""
    rows = [
        (str(one["round"]), f"{one['begin'] * 1e6:.2f}", f"{one['end'] * 1e6:.2f}", one["choice"])
        for one in result["rounds"]
    ]
    return [report.table("1 MiB, us", ("round", "begin", "end", "<choice"), rows)]


def plot(result: dict[str, Any], path: Path) -> None:
    """A row for each plane: set-up grey, circuits that are up pale, and full while a round uses them."""
    draw_panels(path, [lambda axes: _bars(axes, result)], width=9.0)


def _bars(axes, result: dict[str, Any]) -> None:
    from matplotlib import color_sequences
    from matplotlib.patches import Patch

    names = sorted(dict.fromkeys(bar["circuits"] for bars in result["planes"] for bar in bars))
    colours = dict(zip(names, color_sequences["tab10"], strict=False))
    for row, bars in enumerate(result["planes"]):
        for bar in bars:
            colour, start, ready, down = (
                colours[bar["circuits"]],
                *(bar[k] * 1e6 for k in ("start", "ready", "down")),
            )
            axes.barh(
                row, ready - start, 0.7, start, color="white", edgecolor=GREY, hatch="///", linewidth=0.6
            )
            axes.barh(row, down - ready, 0.7, ready, color=colour, alpha=0.25)
            for begin, end in bar["used"]:
                axes.barh(
                    row, (end - begin) * 1e6, 0.7, begin * 1e6, color=colour, edgecolor="white", linewidth=0.6
                )
    for one in result["rounds"]:
        axes.axvline(one["end"] * 1e6, color=INK, linewidth=0.5, linestyle=":")
        axes.text(
            (one["begin"] + one["end"]) * 5e5,
            len(result["planes"]) - 0.45,
            one["round"],
            ha="center",
            fontsize=8,
        )
    axes.set_yticks(range(len(result["planes"])), [f"plane {j}" for j in range(len(result["planes"]))])
    axes.set_xlabel("time (µs); numbers: rounds; hatched: set-up; pale: up and not used")
    axes.grid(False)
    axes.legend(
        handles=[Patch(color=colours[name], label=f"circuits of {name}") for name in names],
        loc="upper left", bbox_to_anchor=(1.0, 1.0),
    )  # fmt: skip


main = command(__name__, study)

if __name__ == "__main__":
    run(main)
