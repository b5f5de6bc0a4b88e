"""The SC18 poster's server of 8 P40 GPUs: overlaps, two cuts, and what carries the data."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2]))

from papers.common import command, run
from papers.lumorph.panels import draw_panels
from papers.plans import machines
from papers.plans.machines import step, times, words
from wavefabric.base.results.figure_style import BLUE, GREEN, GREY, ORANGE, RED, SKY

SIZES, CUTS, OVERLAPS = (1024, 512), ((1, 1, 8), (2, 2, 2)), (2, 4, 8, 16, 32)
PARTS = {"compute": BLUE, "pack": GREEN, "exposed": ORANGE}
#: What the poster says, and why ours differ.
NOTES = [
    "waits: staged MPI; the poster 66 to 80 % at overlaps 16 and 32",
    "aware: CUDA-aware over staged MPI; the poster up to 1.8 at 2 and 4, else 2 to 3.6 (fitted), 1-D more",
    "P2P: over CUDA-aware MPI, the poster up to 1.06. In 3-D the larger blocks have 576 points a side",
    "QPI: the poster 4 and 32 overlaps; a field has 16 messages here, 32 counts sent and received",
]


def tables(say=lambda line: None) -> dict[str, Any]:
    """1024³ and 512³ points on 8 P40 GPUs: ``rows`` by overlap, cut and transport; ``placement``, 1024³."""
    rows = []
    for size, cut, overlap in [(s, c, o) for s in SIZES for c in CUTS for o in OVERLAPS]:
        say(f"{size}³, {words(cut)}, overlap {overlap}")
        one = {t: times(step("P40", [size] * 3, cut, overlap, t)) for t in ("mpi", "mpi-cuda", "p2p")}
        staged, aware, direct = (each["step"] for each in one.values())
        case = {"size": size, "cut": words(cut), "overlap": overlap, "aware": staged / aware}
        rows.append(case | one | {"p2p_gain": aware / direct})
    placement = [{"cut": words(cut)} | machines.placed(step("P40", [1024] * 3, cut)) for cut in CUTS]
    return {"benchmark": "p40", "rows": rows, "placement": placement, "notes": NOTES}


def table(result: dict[str, Any]) -> list:
    """Breakdown and speed-ups; placement."""
    columns = {"<points": "{size}³", "<cut": "{cut}", "overlap": "{overlap}", "staged, ms": "{mpi[step]:.0f}"}
    columns |= {part: f"{{mpi[{part}]:.0f}}" for part in PARTS} | {"waits": "{mpi[waiting]:.0%}"}
    columns |= {"aware, ms": "{mpi-cuda[step]:.0f}", "P2P, ms": "{p2p[step]:.0f}", "aware": "{aware:.2f}"}
    order = {"<cut": "{cut}"}
    for name in ("best", "worst"):
        order |= {f"{name}, ms": f"{{{name}[step]:.0f}}", f"{name}, QPI": f"{{{name}[crossings]}}"}
    return [
        machines.table("8 P40 GPUs", columns | {"P2P": "{p2p_gain:.3f}"}, result["rows"]),
        machines.table("placement, 1024³, overlap 16, P2P", order, result["placement"]),
        machines.notes(result),
    ]


def plot(result: dict[str, Any], path: Path) -> None:
    """Parts of a step with staged MPI, and speed-ups by overlap."""
    draw_panels(path, [lambda a: _breakdown(a, result), lambda a: _gains(a, result)], width=5.0)


def _breakdown(axes, result: dict[str, Any]) -> None:
    for number, row in enumerate(r for r in result["rows"] if r["size"] == 1024):
        x, bottom = number % 5 + (0.2 if number > 4 else -0.2), 0.0
        for part, colour in PARTS.items():
            label = None if number else part.replace("exposed", "waiting for data")
            axes.bar(x, row["mpi"][part], 0.34, bottom=bottom, color=colour, label=label)
            bottom += row["mpi"][part]
        axes.text(x, bottom + 20, f"{row['mpi']['waiting']:.0%}", ha="center", fontsize=8)
    axes.set_xticks(range(5), OVERLAPS)
    axes.set(xlabel="overlap (left 1x1x8, right 2x2x2)", ylabel="time of one step (ms)")
    axes.set_title("1024³ points on 8 P40s, MPI through hosts")
    axes.legend()


def _gains(axes, result: dict[str, Any]) -> None:
    gains = [[r["aware"] for r in result["rows"][n : n + 5]] for n in (0, 5, 10, 15)]
    names = [f"{size}³, {words(cut)}" for size in SIZES for cut in CUTS]
    lines = zip(names, gains, ["o-"] * 4, (BLUE, RED, SKY, ORANGE), strict=True)
    axes.fill_between([8, 32], 2, 3.6, color=GREY, alpha=0.18, linewidth=0, label="the poster, 8 to 32")
    axes.plot([2, 4], [1.8, 1.8], "--", color=GREY, label="the poster's highest, 2 and 4")
    machines.curves(axes, OVERLAPS, lines, "CUDA-aware over staged MPI", "speed-up")
    axes.set(xlabel="overlap", ylim=(1, None))


main = command(__name__, tables)

if __name__ == "__main__":
    run(main)
