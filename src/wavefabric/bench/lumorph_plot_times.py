"""Pictures of ``lumorph``: times of all-reduces."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from wavefabric.results.plots import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, RED, SKY, STYLE

#: Colour and marker of each series of figures 7 and 8.
SERIES = {
    "Ring": (GREY, "o"),
    "Tree": (ORANGE, "^"),
    "D&C": (PURPLE, "v"),
    "Lumorph-2": (BLUE, "s"),
    "Lumorph-4": (RED, "D"),
}
_BUFFERS = ("#0b2d4d", "#0f4c7d", "#0072B2", "#3d97d3", "#6fb7e6")


def style() -> Any:
    """Of all pictures of ``lumorph``."""
    return {
        **STYLE,
        "axes.titlepad": 8,
        "axes.titlesize": 10.5,
        "axes.grid.axis": "both",
        "legend.fontsize": 8.5,
    }


def spread(figure) -> None:
    """Some room between panels."""
    figure.get_layout_engine().set(w_pad=0.09, h_pad=0.09)


def sizes(axes, which: tuple[float, ...] = (0.1, 1, 8, 64)) -> None:
    """The axis of sizes."""
    axes.set_xscale("log")
    axes.set_xticks(which, [f"{x:g}" for x in which])
    axes.minorticks_off()
    axes.set_xlabel("size of the array (MiB)")


def times(figures: dict[str, Any], path: Path) -> None:
    """Figures 7 and 8."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    rows = [row for row in (_panels7(figures), _panels8(figures)) if row]
    with mpl.rc_context(style()):
        figure = Figure(figsize=(11.0, 0.5 + 3.5 * len(rows)), layout="constrained")
        parts = figure.subfigures(len(rows), 1, squeeze=False)[:, 0]
        for part, row in zip(parts, rows, strict=True):
            panels = part.subplots(1, len(row), squeeze=False)[0]
            for axes, draw in zip(panels, row, strict=True):
                draw(axes)
        spread(figure)
        figure.savefig(path, dpi=160)


def _panels7(figures: dict[str, Any]) -> list[Callable]:
    if "7" not in figures:
        return []
    panels = dict.fromkeys(one["panel"] for one in figures["7"]["series"])
    return [lambda axes, panel=panel: _figure7(axes, figures["7"], panel) for panel in panels]


def _panels8(figures: dict[str, Any]) -> list[Callable]:
    if "8" not in figures:
        return []
    return [lambda axes: _figure8a(axes, figures["8"]), lambda axes: _figure8b(axes, figures["8"])]


def _figure7(axes, figure: dict[str, Any], panel: str) -> None:
    for one in figure["series"]:
        if one["panel"] == panel:
            colour, marker = SERIES[one["series"]]
            axes.plot(one["x"], one["ours"], "-", color=colour, linewidth=1.5)
            axes.plot(one["x"], one["paper"], marker, color=colour, markersize=4.5, label=one["series"])
    for one in figure["schedules"]:
        if one["panel"] == panel:
            axes.plot(one["sizes_mib"], one["us"], ":", color=SERIES[one["series"]][0], linewidth=1.3)
    sizes(axes)
    axes.set_yscale("log")
    axes.set_ylim(7, 2e4)
    ticks = (10, 100, 1000, 10000)
    axes.set_yticks(ticks, [f"{t:g}" for t in ticks])
    axes.minorticks_off()
    axes.set_title(f"Figure 7, {panel}")
    if panel.startswith("64"):
        axes.set_ylabel("all-reduce (µs)")
        axes.legend(loc="upper left", ncols=2, columnspacing=1.0, handletextpad=0.3)
        note = "markers: the paper\nlines: formulas as printed\ndotted: schedules, costed"
        axes.text(0.98, 0.03, note, transform=axes.transAxes, ha="right", va="bottom", fontsize=8, color=GREY)


def _figure8a(axes, figure: dict[str, Any]) -> None:
    from matplotlib.lines import Line2D

    sweep = figure["sweep"]
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
    for one in figure["series"]:
        if one["figure"] == "8a":
            colour, marker = SERIES[one["series"]]
            axes.plot([1e-3 * x for x in one["x"]], one["paper"], marker, color=colour, markersize=5)
    axes.axvline(3.7, color=GREY, linewidth=0.8, linestyle=":")
    axes.set_xscale("log")
    axes.set_ylim(0, 560)
    axes.set_xlim(1e-3, 60)
    ticks = (0.001, 0.01, 0.1, 1, 10)
    axes.set_xticks(ticks, [f"{t:g}" for t in ticks])
    axes.minorticks_off()
    axes.set_xlabel("reconfiguration (µs); dotted: LIGHTPATH's, 3.7")
    axes.set_ylabel("all-reduce (µs)")
    axes.set_title("Figure 8a: 256 GPUs, 9.41 MiB")
    axes.legend(handles=handles, loc="upper left", bbox_to_anchor=(0.0, 0.74), fontsize=8)


def _figure8b(axes, figure: dict[str, Any]) -> None:
    mine = sorted(
        (one for one in figure["series"] if one["figure"] == "8b"),
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
    axes.set_xticks(ticks, [f"{t:g}" for t in ticks])
    axes.set_yticks((100, 300, 1000, 3000), ["100", "300", "1000", "3000"])
    axes.minorticks_off()
    axes.set_xlabel("bandwidth of a laser (GiB/s); dotted: 16 lasers make 300")
    axes.set_title("Figure 8b: Lumorph-2, 256 GPUs")


# --- what the paper leaves out ----------------------------------------------------------------------------


def others(figures: dict[str, Any], path: Path) -> None:
    """Radices, baselines, and few waveguides."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    draws: list[Callable] = []
    if "radix" in figures:
        draws.append(lambda axes: _radix(axes, figures["radix"]))
        draws.append(lambda axes: _waveguides(axes, figures["radix"]))
    if "baselines" in figures:
        draws.append(lambda axes: _baselines(axes, figures["baselines"]))
    with mpl.rc_context(style()):
        figure = Figure(figsize=(1.0 + 4.4 * len(draws), 4.4), layout="constrained")
        panels = figure.subplots(1, len(draws), squeeze=False)[0]
        for axes, draw in zip(panels, draws, strict=True):
            draw(axes)
        spread(figure)
        figure.savefig(path, dpi=160)


def _radix(axes, figure: dict[str, Any]) -> None:
    colours = {"2": BLUE, "4": RED, "8": ORANGE, "16": GREEN}
    for radix, values in figure["times_us"].items():
        colour = colours[str(radix)]
        axes.plot(figure["sizes_mib"], values, "-", color=colour, linewidth=1.6, label=f"radix {radix}")
        row = next(one for one in figure["rows"] if str(one["radix"]) == str(radix))
        axes.plot(figure["table_mib"], row["schedule_us"], "o", color=colour, markersize=4.5)
    sizes(axes)
    axes.set_yscale("log")
    axes.set_yticks((20, 50, 100, 200, 500), ["20", "50", "100", "200", "500"])
    axes.minorticks_off()
    axes.set_ylabel("all-reduce (µs)")
    axes.set_title("LIGHTPATH, 256 GPUs, by radix")
    axes.legend(loc="upper left")
    axes.text(
        0.97,
        0.04,
        "lines: formula\ndots: schedules",
        transform=axes.transAxes,
        ha="right",
        fontsize=8,
        color=GREY,
    )


def _baselines(axes, figure: dict[str, Any]) -> None:
    shown = {
        "ring": (GREY, "--"),
        "double binary tree, pipelined": (ORANGE, "--"),
        "tree, as printed": (SKY, "--"),
        "LUMORPH-2": (BLUE, "-"),
        "LUMORPH-4, as printed": (RED, "-"),
        "radix 16": (GREEN, "-"),
    }
    lines = {one["name"]: one for one in figure["lines"]}
    base = lines["recursive halving/doubling"]["us"]
    for name, (colour, line) in shown.items():
        ratio = [a / b for a, b in zip(lines[name]["us"], base, strict=True)]
        axes.plot(figure["sizes_mib"], ratio, line, color=colour, linewidth=1.6, label=name)
    axes.axhline(1.0, color=INK, linewidth=1.0, linestyle="--")
    sizes(axes)
    axes.set_yscale("log", base=2)
    axes.set_ylim(0.8, 400)
    ticks = (1, 2, 4, 8, 16, 32)
    axes.set_yticks(ticks, [f"{t:g}" for t in ticks])
    axes.minorticks_off()
    axes.set_ylabel("time over that of recursive halving/doubling\non the ideal switch")
    axes.set_title("256 GPUs: ideal switch (dashed), LIGHTPATH")
    axes.legend(loc="upper right")


def _waveguides(axes, figure: dict[str, Any]) -> None:
    rows = figure["rows"]
    bars = (
        ("circuits, both directions (the paper's count)", GREY, [2 * one["overlap"] for one in rows]),
        ("circuits, one direction", SKY, [one["overlap"] for one in rows]),
        ("waveguides, shared by wavelengths", GREEN, [one["waveguides"] for one in rows]),
    )
    for number, (label, colour, heights) in enumerate(bars):
        places = [place + 0.27 * (number - 1) for place in range(len(rows))]
        drawn = axes.bar(places, heights, width=0.25, color=colour, label=label)
        axes.bar_label(drawn, fontsize=8, padding=1, color=INK)
    axes.set_yscale("log", base=2)
    axes.set_ylim(2, 512)
    ticks = (2, 4, 8, 16, 32, 64, 128)
    axes.set_yticks(ticks, [str(t) for t in ticks])
    axes.minorticks_off()
    axes.set_xticks(range(len(rows)), [str(one["radix"]) for one in rows])
    axes.grid(visible=False, axis="x")
    axes.set_xlabel("radix")
    axes.set_ylabel("waveguides of an edge that are needed")
    axes.set_title("Waveguides, 256 GPUs")
    axes.legend(loc="upper left")
