"""Tables and panels that several figures of the paper share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from papers.common import log2_ticks
from wavefabric.base.results.figure_style import BLUE, GREY, ORANGE, PURPLE, RED, SKY
from wavefabric.fabric.execution import report

#: Colour and marker of each series of figures 7 and 8.
SERIES = {
    "Ring": (GREY, "o"),
    "Tree": (ORANGE, "^"),
    "D&C": (PURPLE, "v"),
    "Lumorph-2": (BLUE, "s"),
    "Lumorph-4": (RED, "D"),
}
#: Colour, marker and label of each series of figures 5 and 6.
ROUTES = {
    "L2+MCF": (BLUE, "s", "Lumorph-2, least overlap"),
    "L2+Random": (SKY, "o", "Lumorph-2, random"),
    "L4+MCF": (RED, "D", "Lumorph-4, least overlap"),
    "L4+Random": (ORANGE, "^", "Lumorph-4, random"),
}


def draw_panels(
    path: Path, panels: Sequence[Callable[[Any], None]], width: float = 4.0, legend: bool = False
) -> None:
    """A row of panels, each drawn by a function of its axes; `legend`: the series of routes below."""
    style = {"axes.titlesize": 10.5, "legend.fontsize": 8.5}
    with report.figure(path, (0.6 + width * len(panels), 3.9 + 0.6 * legend), style=style) as figure:
        for axes, draw in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
            draw(axes)
        if legend:
            figure.legend(handles=_handles(), loc="outside lower center", ncols=2)
        figure.get_layout_engine().set(w_pad=0.09, h_pad=0.09)


def _handles() -> list[Any]:
    from matplotlib.lines import Line2D

    handles = []
    for name, (colour, marker, label) in ROUTES.items():
        looks: dict[str, Any] = {"marker": marker, "markersize": 5, "linestyle": "-", "linewidth": 1.6}
        if name.endswith("Random"):
            looks |= {**hollow(colour, marker), "linestyle": "-", "linewidth": 0.9}
        handles.append(Line2D([], [], color=colour, label=label, **looks))
    return handles


def size_axis(axes, which: tuple[float, ...] = (0.1, 1, 8, 64)) -> None:
    """The axis of sizes of an array."""
    axes.set_xscale("log")
    axes.set_xticks(which, [f"{x:g}" for x in which])
    axes.minorticks_off()
    axes.set_xlabel("size of the array (MiB)")


def rank_axis(axes, ranks: list[int]) -> None:
    """The axis of numbers of GPUs."""
    log2_ticks(axes, ranks)
    axes.set_xlabel("GPUs")


def number_ticks(axis: Callable[..., Any], ticks: Sequence[float]) -> None:
    """Ticks at these numbers, written plainly; `axis` is ``axes.set_xticks`` or ``axes.set_yticks``."""
    axis(ticks, [f"{tick:g}" for tick in ticks])


def least_lines(axes, series: list[dict[str, Any]]) -> None:
    """Ours as lines and the paper's as markers, for routes of least overlap."""
    for one in series:
        colour, marker, _ = ROUTES[one["series"]]
        axes.plot(one["x"], one["ours"], "-", color=colour, linewidth=1.6, zorder=3)
        axes.plot(one["x"], one["paper"], marker, color=colour, markersize=5, zorder=4)


def random_bands(axes, random: list[dict[str, Any]]) -> None:
    """Our random draws as bands (all of them, 5 to 95 %) and their median; the paper's as hollow markers."""
    for name in dict.fromkeys(one["series"] for one in random):
        colour, marker, _ = ROUTES[name]
        mine = [one for one in random if one["series"] == name]
        x = [one["ranks"] for one in mine]
        for low, high, alpha in (("least", "most", 0.16), ("low", "high", 0.26)):
            axes.fill_between(
                x, [o[low] for o in mine], [o[high] for o in mine], color=colour, alpha=alpha, linewidth=0
            )
        axes.plot(x, [o["median"] for o in mine], "-", color=colour, linewidth=0.9)
        axes.plot(x, [o["paper"] for o in mine], **hollow(colour, marker))


def hollow(colour: str, marker: str) -> dict[str, Any]:
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


def deviations(series: list[dict[str, Any]]) -> Any:
    """Table of the largest difference of each series from the paper's points."""
    rows = []
    for one in series:
        time = one["unit"] == "us"
        rows.append((
            *(one["figure"], one["panel"], one["series"], str(len(one["x"]))),
            f"{one['largest']:.3f} µs" if time else f"{one['largest']:.0f}",
            f"{one['relative']:.2%}" if time else "",
        ))  # fmt: skip
    return report.table(
        "ours and the paper's figures",
        ("<figure", "<panel", "<series", "points", "largest deviation", "relative"),
        rows,
        "times from the formulas as printed; overlaps from least-overlap routes",
    )


def spreads(title: str, first: str, rows: list[dict[str, Any]], label: Callable[[dict], str]) -> Any:
    """Table of random draws: quantiles, and where the paper's single draw lies among ours."""
    return report.table(
        title,
        (
            f"<{first}",
            "GPUs",
            "paper's draw",
            "least",
            "5 %",
            "median",
            "95 %",
            "most",
            "below it",
            "up to it",
        ),
        [
            (
                label(one),
                str(one["ranks"]),
                *(f"{one[key]:g}" for key in ("paper", "least", "low", "median", "high", "most")),
                *(f"{one[key]:.0%}" for key in ("below", "up_to")),
            )
            for one in rows
        ],
        "below, up to: share of our draws",
    )
