"""The picture of ``fibre-order``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

AXES = (("ffts", "FFTs of all rows"), ("exchanges", "exchanges"), ("seconds", "time (s)"))


def draw(result: dict[str, Any], path: str | Path, label: Callable[[dict], str]) -> None:
    """Error against FFTs, exchanges and time, a row of panels a case, lines named at the right edge.

    Parameters
    ----------
    result : dict
        From `wavefabric.bench.fibre_order.run`.
    path : str or Path
        Image file.
    label : callable
        Name of a curve.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    from wavefabric.results.plots import COLOURS, GREY, MARKERS, STYLE

    cases = result["cases"]
    style = {**STYLE, "axes.titlepad": 8, "axes.grid.axis": "both", "axes.spines.left": True}
    with mpl.rc_context(style):
        figure = Figure(figsize=(11.2, 0.5 + 3.9 * len(cases)), layout="constrained")
        panels = figure.subplots(len(cases), 3, squeeze=False, sharey="row")
        for row, case in zip(panels, cases, strict=True):
            low = min(p["error"] for c in case["curves"] for p in c["points"])
            high = max(min(p["error"], 1.0) for c in case["curves"] for p in c["points"])
            for axes, (key, name) in zip(row, AXES, strict=True):
                ends = []
                for curve, colour, marker, line in _styles(case["curves"], COLOURS, MARKERS, GREY):
                    x = [p[key] for p in curve["points"]]
                    y = [p["error"] for p in curve["points"]]
                    axes.loglog(
                        x,
                        y,
                        marker=marker,
                        ls=line,
                        color=colour,
                        ms=4.5,
                        lw=1.4,
                        mfc="white" if line != "-" else colour,
                    )
                    ends.append((x[-1], y[-1], label(curve) + _order(curve), colour))
                axes.set_xlabel(name)
                axes.set_ylim(low / 3, high * 3)
                axes.minorticks_off()
                if axes is row[-1]:
                    _name_lines(axes, ends)
            row[0].set_ylabel("relative error")
            row[0].set_title(case["title"])
            km, samples = case["length_m"] / 1e3, case["samples"]
            row[1].set_title(f"{km:g} km, {case['rows']} × {samples} samples", fontweight="normal")
        figure.savefig(path, dpi=160)


def _order(curve: dict[str, Any]) -> str:
    return "" if curve["order"] is None else f" ({curve['order']:.2f})"


def _styles(curves: list[dict], colours, markers, grey):
    """A colour and a marker for each integrator; dashes and hollow markers for its controlled steps."""
    names = list(dict.fromkeys(curve["name"] for curve in curves))
    for curve in curves:
        k = names.index(curve["name"])
        line = "-" if curve["control"] == "step" else "--"
        yield curve, colours[k % len(colours)] if k < len(colours) else grey, markers[k % len(markers)], line


def _name_lines(axes, ends: list[tuple[float, float, str, str]]) -> None:
    """Names right of the panel, as high as the lines' ends but moved apart, joined to them."""
    bottom, top = np.log10(axes.get_ylim())
    heights = (np.log10([end[1] for end in ends]) - bottom) / (top - bottom)
    order = np.argsort(heights)
    gap = 0.075
    placed = heights[order].clip(0.02, 0.98)
    for _ in range(200):  # Push neighbours apart until none overlap.
        for i in range(len(placed) - 1):
            lack = gap - (placed[i + 1] - placed[i])
            if lack > 1e-6:
                placed[i] -= lack / 2
                placed[i + 1] += lack / 2
        placed += max(0.0, 0.02 - placed[0])
        placed -= max(0.0, placed[-1] - 0.98)
    for height, k in zip(placed, order, strict=True):
        x, y, text, colour = ends[k]
        axes.annotate(
            text,
            xy=(x, y),
            xytext=(1.05, height),
            textcoords=axes.transAxes,
            va="center",
            fontsize=9,
            color=colour,
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": colour, "lw": 0.5, "alpha": 0.6, "shrinkB": 3},
        )
