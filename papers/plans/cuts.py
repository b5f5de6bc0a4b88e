"""Figure 4 of the SC19 poster: every cut of 512 × 512 × 1024 points, with and without data over QPI."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2]))

from papers.common import command, run
from papers.lumorph.panels import draw_panels
from papers.plans import machines
from papers.plans.machines import step, words
from wavefabric.acoustics.decomposition.decompose import block_grids
from wavefabric.base.results.figure_style import BLUE, ORANGE
from wavefabric.fabric.execution import report

RUNS = (("P40", 8), ("DGX-2", 8), ("DGX-2", 16))
NOTES = ["the poster: cuts matter on both machines; data over QPI slow the P40 server, NVLink is immune"]


def tables(say=lambda line: None) -> dict[str, Any]:
    """512 × 512 × 1024 points, overlap 16: ``cuts``, each with the ``best`` and ``worst`` order of GPUs."""
    cuts = []
    for machine, ranks, cut in [(m, n, cut) for m, n in RUNS for cut in block_grids(n)]:
        say(f"{machine}, {words(cut)}")
        orders = machines.placed(step(machine, (512, 512, 1024), cut))
        slower = orders["worst"]["step"] / orders["best"]["step"]
        cuts.append({"machine": machine, "ranks": ranks, "cut": words(cut), "slower": slower} | orders)
    return {"benchmark": "cuts", "cuts": cuts, "notes": NOTES}


def table(result: dict[str, Any]) -> list:
    """ms of a step by machine, cut and order."""
    columns = {"<machine": "{ranks} GPUs, {machine}", "<cut": "{cut}"}
    for name in ("best", "worst"):
        columns |= {f"{name}, ms": f"{{{name}[step]:.1f}}", f"{name}, QPI": f"{{{name}[crossings]}}"}
    title = "512 × 512 × 1024 points, overlap 16, P2P"
    return [
        machines.table(title, columns | {"slower": "{slower:.2f}"}, result["cuts"]),
        machines.notes(result),
    ]


def plot(result: dict[str, Any], path: Path) -> None:
    """A step by cut, GPUs in the best order and in the worst."""
    draw_panels(path, [lambda axes, of=of: _panel(axes, result, *of) for of in RUNS], width=4.2)


def _panel(axes, result: dict[str, Any], machine: str, ranks: int) -> None:
    mine = [c for c in result["cuts"] if (c["machine"], c["ranks"]) == (machine, ranks)]
    for shift, order, colour in ((-0.2, "best", BLUE), (0.2, "worst", ORANGE)):
        at = [y + shift for y in range(len(mine))]
        axes.barh(at, [c[order]["step"] for c in mine], 0.36, color=colour, label=f"{order} order of GPUs")
    report.name_bars(axes, [c["cut"] for c in mine])
    axes.set(xlabel="time of one step (ms)", title=f"{ranks} GPUs, {machine}", ylim=(1.25 * len(mine), -0.7))
    axes.legend(loc="lower right")


main = command(__name__, tables)

if __name__ == "__main__":
    run(main)
