"""When circuits change: the best choice beside always and never, and beside Bridge and SWOT."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2]))

import numpy as np

from papers.common import command, run
from papers.lumorph.panels import draw_panels
from papers.reconfiguration import bridge, swot
from wavefabric.base.results.figure_style import BLUE, GREY, INK, ORANGE, RED
from wavefabric.collectives.conditions import whole_elements
from wavefabric.collectives.registry import build
from wavefabric.fabric import load
from wavefabric.fabric.execution import report
from wavefabric.fabric.photonic.reconfiguration.plan import ReconfigurationPlan, plan_reconfiguration
from wavefabric.fabric.photonic.reconfiguration.search import shortest

ALGORITHMS = (
    ("recursive", 2, "all-reduce"),
    ("recursive", 4, "all-reduce"),
    ("ring", None, "all-reduce"),
    ("bruck", None, "all-to-all"),
    ("pairwise", None, "all-to-all"),
)
SERIES = ("best", "always", "never", "least", "bound")
TILES, DELAYS = "lightpath:4x8", np.logspace(-8, -2, 13)
SIZES = {"64 KiB": 2.0**16, "1 MiB": 2.0**20, "64 MiB": 2.0**26}
SWOT_CASES = [("halving", 8, 2), ("bruck", 16, 2), ("bruck", 16, 4)]


def study(say=lambda line: None) -> dict[str, Any]:
    """Times by reconfiguration delay on 32 tiles of LIGHTPATH; cases of Bridge and SWOT.

    Returns
    -------
    dict
        ``delays``, s, and ``sweep``: seconds of each of `SERIES` by size, recursive halving and doubling;
        ``algorithms``: the same of 1 MiB for several delays; ``bridge``: steps that change in its table, and
        how far our search is from the best of its divisions; ``swot``: ms of ours and of its program.
    """
    rows = []
    for algorithm, radix, collective in ALGORITHMS:
        for delay in (1e-7, 3.7e-6, 1e-4):
            say(f"{algorithm} {collective}, {delay * 1e6:g} us")
            one = _seconds(algorithm, radix, collective, delay, 2.0**20)
            rows.append(
                {"algorithm": f"{algorithm} {radix or ''}".strip(), "collective": collective, "delay": delay}
                | one
            )
    sweep = {}
    for name, size in SIZES.items():
        say(f"sweep, {name}")
        sweep[name] = [_seconds("recursive", 2, "all-reduce", delay, size) for delay in DELAYS]
    say("Bridge and SWOT")
    return {
        "benchmark": "reconfiguration",
        "delays": DELAYS.tolist(),
        "sweep": sweep,
        "algorithms": rows,
        "bridge": [_bridge(collective) for collective in bridge.MESSAGES],
        "swot": [_swot(*case, array) for case in SWOT_CASES for array in (0.5, 8.0, 32.0, 128.0)],
    }


def _seconds(
    algorithm: str, radix: int | None, collective: str, delay: float, size: float
) -> dict[str, float]:
    fabric = replace(load(TILES), reconfiguration=delay)
    options: dict[str, Any] = {"radix": radix} if radix else {}
    schedule = _schedules.setdefault((algorithm, radix), build(algorithm, collective, 32, 32, **options))
    plan: ReconfigurationPlan = plan_reconfiguration(schedule, fabric, size / whole_elements(schedule))
    return {name: getattr(plan, "seconds" if name == "best" else name) for name in SERIES}


_schedules: dict[Any, Any] = {}


def _bridge(collective: str) -> dict[str, Any]:
    """Changes of its table, 64 nodes, where only bytes count; ours over its best, for 26 delays and hops."""
    worst = 0.0
    for hop in (0.0, 0.3):
        for delay in np.logspace(-2, 2, 13):
            ours = shortest(bridge.problem(collective, 64, 1.0, hop, delay))[0]
            theirs = min(bridge.groups(collective, 64, 1.0, hop, r)[0] + (r + 1) * delay for r in range(6))
            worst = max(worst, abs(ours / theirs - 1))
    changes = {r: bridge.groups(collective, 64, 1.0, 0.0, r)[1] for r in (1, 2)}
    return {"collective": collective, "changes": changes, "worst_difference": worst}


def _swot(algorithm: str, ranks: int, switches: int, array: float) -> dict[str, Any]:
    """One case with its delay of 0.2 ms."""
    problem = swot.problem(algorithm, ranks, switches, array, 0.2)
    ours, _, least = shortest(problem)
    theirs, proved = swot.program(algorithm, ranks, switches, array, 0.2, 60.0)
    case = {"algorithm": algorithm, "ranks": ranks, "switches": switches, "MB": array}
    return case | {"ours": ours, "least": least, "program": theirs, "proved": proved}


def table(result: dict[str, Any]) -> list:
    """Algorithms and delays, and the published cases."""
    rows = [
        (
            one["algorithm"],
            one["collective"],
            f"{one['delay'] * 1e6:g}",
            *(f"{one[s] * 1e6:.1f}" for s in SERIES),
        )
        for one in result["algorithms"]
    ]
    cases = [
        (
            one["algorithm"],
            *(f"{one[k]:g}" for k in ("ranks", "switches", "MB")),
            *(f"{one[k]:.3f}" for k in ("ours", "program", "proved")),
        )
        for one in result["swot"]
    ]
    groups = [
        (
            one["collective"],
            *(str(tuple(changes)) for changes in one["changes"].values()),
            f"{one['worst_difference']:.1e}",
        )
        for one in result["bridge"]
    ]
    return [
        report.table(f"1 MiB on {TILES}, µs", ("<algorithm", "<collective", "delay", *SERIES), rows),
        report.table("Bridge, 64 nodes", ("<collective", "<one change", "<two", "ours to its best"), groups),
        report.table(
            "SWOT, ms", ("<algorithm", "GPUs", "switches", "MB", "ours", "its program", "proved"), cases
        ),
    ]


def plot(result: dict[str, Any], path: Path) -> None:
    """Time over the reconfiguration delay, a panel for each size."""
    draw_panels(path, [lambda axes, n=n: _panel(axes, result, n) for n in result["sweep"]], width=3.6)


def _panel(axes, result: dict[str, Any], name: str) -> None:
    looks = {"always": (RED, "--"), "never": (BLUE, "--"), "bound": (GREY, ":"), "best": (INK, "-")}
    delays = np.array(result["delays"]) * 1e6
    for series, (colour, line) in looks.items():
        times = [one[series] * 1e6 for one in result["sweep"][name]]
        axes.loglog(
            delays, times, line, color=colour, linewidth=2.2 if series == "best" else 1.5, label=series
        )
    axes.axvline(3.7, color=ORANGE, linewidth=0.8)
    axes.set_xlabel("reconfiguration delay (µs)")
    axes.set_title(f"{name}, 32 tiles")
    if name == next(iter(result["sweep"])):
        axes.set_ylabel("all-reduce (µs)")
        axes.legend(loc="upper left")


main = command(__name__, study)

if __name__ == "__main__":
    run(main)
