"""Pictures of ``lumorph``: circuits on waveguides."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from wavefabric.bench.lumorph_plot_times import spread, style
from wavefabric.results.plots import BLUE, GREY, INK, ORANGE, RED, SKY

#: Colour and marker of each series of figures 5 and 6.
_SERIES = {
    "L2+MCF": (BLUE, "s", "Lumorph-2, least overlap"),
    "L2+Random": (SKY, "o", "Lumorph-2, random"),
    "L4+MCF": (RED, "D", "Lumorph-4, least overlap"),
    "L4+Random": (ORANGE, "^", "Lumorph-4, random"),
}


def routes(figures: dict[str, Any], path: Path) -> None:
    """Figures 3, 5 and 6."""
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    draws: list[Callable] = []
    if "5" in figures:
        draws.append(lambda axes: _left(axes, figures["5"]))
        draws.append(lambda axes: _right(axes, figures["5"]))
    if "3" in figures:
        draws.append(lambda axes: _figure3(axes, figures["3"]))
    if "6" in figures:
        draws.append(lambda axes: _figure6(axes, figures["6"], 20))
        draws.append(lambda axes: _figure6(axes, figures["6"], 40))
    columns = min(3, len(draws))
    rows = -(-len(draws) // columns)
    with mpl.rc_context(style()):
        figure = Figure(figsize=(0.6 + 4.0 * columns, 0.6 + 3.7 * rows), layout="constrained")
        panels = figure.subplots(rows, columns, squeeze=False).ravel()
        for axes, draw in zip(panels, draws, strict=False):
            draw(axes)
        handles = []
        for name, (colour, marker, label) in _SERIES.items():
            looks: dict[str, Any] = {"marker": marker, "markersize": 5, "linestyle": "-", "linewidth": 1.6}
            if name.endswith("Random"):
                looks |= {**_hollow(colour, marker), "linestyle": "-", "linewidth": 0.9}
            handles.append(Line2D([], [], color=colour, label=label, **looks))
        note = (
            "markers: the paper\nlines: least overlap, recomputed\n"
            "bands: our random draws, all of them and\n5 to 95 %; thin line: their median"
        )
        if len(draws) < panels.size:
            spare = panels[-1]
            spare.axis("off")
            spare.legend(handles=handles, loc="upper left", fontsize=9.5, bbox_to_anchor=(0.0, 0.95))
            spare.text(0.03, 0.42, note, transform=spare.transAxes, fontsize=9.5, color=GREY, va="top")
        else:
            figure.legend(handles=handles, loc="outside lower center", ncols=4)
        spread(figure)
        figure.savefig(path, dpi=160)


def _ranks(axes, ranks: list[int]) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xticks(ranks, [str(n) for n in ranks])
    axes.minorticks_off()
    axes.set_xlabel("GPUs")


def _least(axes, series: list[dict[str, Any]]) -> None:
    for one in series:
        colour, marker, _ = _SERIES[one["series"]]
        axes.plot(one["x"], one["ours"], "-", color=colour, linewidth=1.6, zorder=3)
        axes.plot(one["x"], one["paper"], marker, color=colour, markersize=5, zorder=4)


def _bands(axes, random: list[dict[str, Any]]) -> None:
    for name in dict.fromkeys(one["series"] for one in random):
        colour, marker, _ = _SERIES[name]
        mine = [one for one in random if one["series"] == name]
        x = [one["ranks"] for one in mine]
        for low, high, alpha in (("least", "most", 0.16), ("low", "high", 0.26)):
            axes.fill_between(
                x, [o[low] for o in mine], [o[high] for o in mine], color=colour, alpha=alpha, linewidth=0
            )
        axes.plot(x, [o["median"] for o in mine], "-", color=colour, linewidth=0.9)
        axes.plot(x, [o["paper"] for o in mine], **_hollow(colour, marker))


def _hollow(colour: str, marker: str) -> dict[str, Any]:
    """The paper's random draws: seen even where other markers lie on the same point."""
    return {
        "linestyle": "none",
        "marker": marker,
        "markersize": 8,
        "markerfacecolor": "none",
        "markeredgecolor": colour,
        "markeredgewidth": 1.4,
        "zorder": 5,
    }


def _left(axes, figure: dict[str, Any]) -> None:
    _bands(axes, figure["random"])
    _least(axes, [one for one in figure["series"] if one["panel"] == "left"])
    _ranks(axes, sorted({one["ranks"] for one in figure["random"]}))
    axes.set_ylim(bottom=0)
    axes.set_ylabel("most circuits on an edge, both directions")
    axes.set_title("Figure 5, left")


def _right(axes, figure: dict[str, Any]) -> None:
    random = {one["series"]: one for one in figure["random"] if one["ranks"] == 256}
    for one in figure["series"]:
        if one["panel"] != "right":
            continue
        name = one["series"].split(",")[0]
        colour, marker, _ = _SERIES[name]
        if name in random:
            # As above: what is over W of the draws' overlap.
            for low, high, alpha in (("least", "most", 0.16), ("low", "high", 0.26)):
                ends = ([max(0.0, random[name][key] - w) for w in one["x"]] for key in (low, high))
                axes.fill_between(one["x"], *ends, color=colour, alpha=alpha, linewidth=0)
            axes.plot(one["x"], one["paper"], **_hollow(colour, marker))
        else:
            axes.plot(one["x"], one["ours"], "-", color=colour, linewidth=1.6)
            axes.plot(one["x"], one["paper"], marker, color=colour, markersize=5)
    axes.axvline(30, color=GREY, linewidth=0.8, linestyle=":")
    axes.annotate("“30 are enough”", (30, axes.get_ylim()[1]), xytext=(5, -4), textcoords="offset points",
                  va="top", fontsize=8, color=GREY)  # fmt: skip
    axes.set_xlabel("waveguides of an edge, both directions")
    axes.set_ylabel("circuits that do not fit")
    axes.set_title("Figure 5, right: 256 GPUs")


def _figure3(axes, figure: dict[str, Any]) -> None:
    curves = sorted(figure["paper"].values(), key=lambda points: points[-1][1])
    for points, (colour, marker) in zip(curves, ((BLUE, "s"), (RED, "D")), strict=True):
        axes.plot(*zip(*points, strict=True), marker, color=colour, markersize=5)
        axes.plot(*zip(*points, strict=True), ":", color=colour, linewidth=0.9)
    for radix, colour in ((2, BLUE), (4, RED)):
        mine = [one for one in figure["ours"] if one["radix"] == radix]
        axes.plot([o["ranks"] for o in mine], [max(o["seconds"], 1e-5) for o in mine], "-", color=colour)
    axes.annotate("the paper (Gurobi)", (64, 20), ha="right", fontsize=8.5, color=INK)
    axes.annotate("ours", (64, mine[-3]["seconds"] * 4), ha="right", fontsize=8.5, color=INK)
    _ranks(axes, [one["ranks"] for one in figure["ours"] if one["radix"] == 2])
    axes.set_yscale("log")
    axes.minorticks_off()
    axes.set_ylabel("time to find the routes (s)")
    axes.set_title("Figure 3")


def _figure6(axes, figure: dict[str, Any], waveguides: int) -> None:
    random = [one for one in figure["random"] if one["waveguides"] == waveguides]
    _bands(axes, random)
    _least(axes, [one for one in figure["series"] if one["panel"].startswith(f"{waveguides} ")])
    _ranks(axes, sorted({one["ranks"] for one in random}))
    axes.set_ylim(0, 24)
    axes.set_ylabel("reconfigurations")
    axes.set_title(f"Figure 6: {waveguides} waveguides, both directions")
