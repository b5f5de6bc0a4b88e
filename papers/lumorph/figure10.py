"""Figure 10 of the LUMORPH paper: sizes of the all-reduces in an iteration of three models."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[2]))

from papers.common import command, run
from papers.lumorph.closed_forms import MIB
from papers.lumorph.logged import LOGGED, NAMES
from papers.lumorph.panels import draw_panels
from wavefabric.base.results.figure_style import BLUE, GREY, ORANGE, RED
from wavefabric.fabric.execution import report
from wavefabric.training.iteration.tasks import build_tasks

_RANKS = 256
#: MiB up to which the paper's BERT has most of its calls: 16, and a bias.
_SMALL = 16.1
_COLOURS = dict(zip(NAMES.values(), (BLUE, ORANGE, RED), strict=True))


def figure(say=lambda line: None) -> dict[str, Any]:
    """Sizes of all-reduces of the models in the authors' logs, as in figure 11.

    Returns
    -------
    dict
        ``series``: for each model the ``sizes`` of its all-reduces (bytes, ascending), how many there are,
        ``small``, the share of them up to 16.1 MiB (weights of 16 MiB and a bias), ``small_bytes``, the share
        of all bytes that those have, ``median`` and ``mean`` (bytes).
    """
    series = []
    for case in LOGGED:
        say(NAMES[case.figure])
        calls = build_tasks(case.workload(_RANKS)).call
        sizes = np.sort([c.bytes for c in calls if c is not None and c.purpose == "gradients"])
        few = sizes <= _SMALL * MIB
        series.append({
            "model": NAMES[case.figure],
            "sizes": sizes.tolist(),
            "calls": sizes.size,
            "small": float(few.mean()),
            "small_bytes": float(sizes[few].sum() / sizes.sum()),
            "median": float(np.median(sizes)),
            "mean": float(sizes.mean()),
        })  # fmt: skip
    return {"benchmark": "figure10", "series": series}


def table(result: dict[str, Any]) -> list:
    """How many all-reduces there are and how large."""
    rows = [
        (
            *(one["model"], str(one["calls"]), f"{one['small']:.0%}", f"{one['small_bytes']:.0%}"),
            *(f"{one[key] / MIB:.2g}" for key in ("median", "mean")),
            f"{one['sizes'][-1] / MIB:.3g}",
        )
        for one in result["series"]
    ]
    headings = ("<model", "calls", "up to 16.1 MiB", "of the bytes", "median, MiB", "mean", "largest")
    return [report.table("all-reduces of an iteration, one a tensor", headings, rows)]


def plot(result: dict[str, Any], path: Path) -> None:
    """Shares of calls, and of bytes, in all-reduces up to a size."""
    panels = [lambda axes, which=which: _panel(axes, result, which) for which in (False, True)]
    draw_panels(path, panels, width=5.2)


def _panel(axes, result: dict[str, Any], by_bytes: bool) -> None:
    for one in result["series"]:
        sizes = np.array(one["sizes"])
        fraction = np.cumsum(sizes if by_bytes else np.ones(sizes.size))
        x = np.concatenate(([sizes[0]], sizes, [256 * MIB])) / MIB
        y = np.concatenate(([0.0], fraction, fraction[-1:])) / fraction[-1]
        label = f"{one['model']}, {one['calls']} calls"
        axes.step(x, y, where="post", color=_COLOURS[one["model"]], linewidth=1.9, label=label)
    axes.axvline(16, color=GREY, linewidth=1.0, linestyle=":")
    axes.set_xscale("log")
    ticks = (0.001, 0.01, 0.1, 1, 16, 128)
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlim(2e-4, 256)
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("size of the all-reduce (MiB)")
    axes.set_title("Bytes in all-reduces up to a size" if by_bytes else "Figure 10: all-reduces up to a size")
    axes.set_ylabel("share of the bytes" if by_bytes else "share of the calls")
    if not by_bytes:
        axes.legend(loc="upper left")


main = command(__name__, figure)

if __name__ == "__main__":
    run(main)
