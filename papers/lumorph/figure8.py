"""Figure 8 of the LUMORPH paper: all-reduce of 256 GPUs by reconfiguration delay and laser bandwidth."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2]))

from papers.common import command, run
from papers.lumorph import closed_forms as forms
from papers.lumorph.closed_forms import MIB, PAPER, PRINTED
from papers.lumorph.data import compared, points
from papers.lumorph.panels import SERIES, deviations, draw_panels, number_ticks
from wavefabric.base.results.figure_style import BLUE, GREEN, GREY, INK, RED

#: Colours of the buffers of panel b, the largest first.
_BUFFERS = ("#0b2d4d", "#0f4c7d", "#0072B2", "#3d97d3", "#6fb7e6")


def figure(say=lambda line: None) -> dict[str, Any]:
    """All-reduce of 256 GPUs by reconfiguration delay (a) and by bandwidth of a laser (b).

    All-reduce of 256 GPUs by reconfiguration (a) and by bandwidth of a laser (b), from the formulas.

    Returns
    -------
    dict
        ``series``; and ``reconfiguration``: times over a fine sweep of ρ, with radix 16 and honest laser
        sharing.
    """
    series = []
    for name, drawn in points("fig8a").items():
        ours = [
            1e6 * PRINTED[name](256, forms.BUFFER_8A, replace(PAPER, reconfiguration=ns * 1e-9))
            for ns, _ in drawn
        ]
        series.append(compared("8a", "256 GPUs, 9.41 MiB", name, "us", drawn, ours))
    for name, drawn in points("fig8b").items():
        nbytes = float(name.removesuffix("MB")) * MIB
        ours = [1e6 * forms.lumorph2(256, nbytes, replace(PAPER, bandwidth=16 * x * 2**30)) for x, _ in drawn]
        series.append(compared("8b", "256 GPUs, Lumorph-2", name, "us", drawn, ours))
    return {"benchmark": "figure8", "series": series, "sweep": _sweep()}


def _sweep() -> dict[str, Any]:
    """Time by reconfiguration delay, on a fine grid, for what the paper draws and for what it leaves out."""
    delays = [0.0] + [10 ** (-9 + exponent / 10) for exponent in range(51)]
    buffer = forms.BUFFER_8A
    lines: dict[str, list[float]] = {}
    for delay in delays:
        numbers = replace(PAPER, reconfiguration=delay)
        times = {
            "ring, ideal switch": forms.ring(256, buffer),
            "recursive halving/doubling, ideal switch": forms.recursive(256, buffer, forms.SWITCH),
            "Lumorph-2": forms.lumorph2(256, buffer, numbers),
            "Lumorph-4": forms.lumorph4(256, buffer, numbers),
            "radix 4, 5 lasers a peer": forms.recursive(256, buffer, numbers, 4),
            "radix 16": forms.recursive(256, buffer, numbers, 16),
        }
        for name, seconds in times.items():
            lines.setdefault(name, []).append(1e6 * seconds)
    return {"seconds": delays, "us": lines}


def table(result: dict[str, Any]) -> list:
    """Deviations from the paper."""
    return [deviations(result["series"])]


def plot(result: dict[str, Any], path: Path) -> None:
    """Time over the reconfiguration delay (a) and over the bandwidth of a laser (b)."""
    draw_panels(path, [lambda axes: _panel_a(axes, result), lambda axes: _panel_b(axes, result)], width=5.2)


def _panel_a(axes, result: dict[str, Any]) -> None:
    from matplotlib.lines import Line2D

    sweep = result["sweep"]
    lines = {
        "ring, ideal switch": (GREY, "-", "o"),
        "recursive halving/doubling, ideal switch": (INK, "--", None),
        "Lumorph-2": (BLUE, "-", "s"),
        "Lumorph-4": (RED, "-", "D"),
        "radix 4, 5 lasers a peer": (RED, "--", None),
        "radix 16": (GREEN, "--", None),
    }
    delays = [1e6 * seconds for seconds in sweep["seconds"][1:]]
    handles = []
    for name, (colour, line, marker) in lines.items():
        axes.plot(delays, sweep["us"][name][1:], line, color=colour, linewidth=1.5)
        handles.append(
            Line2D([], [], color=colour, linestyle=line, marker=marker, markersize=4.5, label=name)
        )
    for one in result["series"]:
        if one["figure"] == "8a":
            colour, marker = SERIES[one["series"]]
            axes.plot([1e-3 * x for x in one["x"]], one["paper"], marker, color=colour, markersize=5)
    axes.axvline(3.7, color=GREY, linewidth=0.8, linestyle=":")
    axes.set_xscale("log")
    axes.set_ylim(0, 560)
    axes.set_xlim(1e-3, 60)
    ticks = (0.001, 0.01, 0.1, 1, 10)
    number_ticks(axes.set_xticks, ticks)
    axes.minorticks_off()
    axes.set_xlabel("reconfiguration (µs); dotted: LIGHTPATH's, 3.7")
    axes.set_ylabel("all-reduce (µs)")
    axes.set_title("Figure 8a: 256 GPUs, 9.41 MiB")
    axes.legend(handles=handles, loc="upper left", bbox_to_anchor=(0.0, 0.74), fontsize=8)


def _panel_b(axes, result: dict[str, Any]) -> None:
    mine = sorted(
        (one for one in result["series"] if one["figure"] == "8b"),
        key=lambda one: -float(one["series"].removesuffix("MB")),
    )
    for colour, one in zip(_BUFFERS, mine, strict=True):
        axes.plot(one["x"], one["ours"], "-", color=colour, linewidth=1.5)
        axes.plot(one["x"], one["paper"], "s", color=colour, markersize=4.5)
        axes.annotate(
            one["series"].replace("MB", " MiB"),
            (one["x"][0], one["paper"][0]),
            xytext=(-7, 0),
            textcoords="offset points",
            ha="right",
            va="center",
            fontsize=8.5,
            color=colour,
        )
    axes.axvline(18.75, color=GREY, linewidth=0.8, linestyle=":")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(4.2, 55)
    ticks = mine[0]["x"]
    number_ticks(axes.set_xticks, ticks)
    axes.set_yticks((100, 300, 1000, 3000), ["100", "300", "1000", "3000"])
    axes.minorticks_off()
    axes.set_xlabel("bandwidth of a laser (GiB/s); dotted: 16 lasers make 300")
    axes.set_title("Figure 8b: Lumorph-2, 256 GPUs")


main = command(__name__, figure)

if __name__ == "__main__":
    run(main)
