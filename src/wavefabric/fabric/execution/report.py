"""Shows results in a common style: tables, figures, and the words in them."""

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

from wavefabric.base.files.output import save_figure
from wavefabric.base.results import figure_style
from wavefabric.base.results.figure_style import BLUE, COLOURS, GREY, MARKERS, ORANGE
from wavefabric.runtime.exchange.transports import TRANSPORTS


def table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    caption: str = "",
    *,
    plain: bool = False,
    wrap: bool = False,
) -> Any:
    """Return a `rich.table.Table`; a heading that begins with ``<`` makes its column left-aligned text.

    With ``plain`` there is only a line under the headings; ``wrap`` lets columns of text break.
    """
    from rich import box
    from rich.table import Table

    lines = Table(title=title, caption=caption or None, box=box.SIMPLE_HEAD if plain else box.HEAVY_HEAD)
    for heading in columns:
        text = heading.startswith("<")
        lines.add_column(heading.lstrip("<"), justify="left" if text else "right", no_wrap=text and not wrap)
    for row in rows:
        lines.add_row(*row)
    return lines


@contextlib.contextmanager
def figure(
    path: str | Path, size: tuple[float, float], grid: str = "both", style: dict[str, Any] | None = None
) -> Iterator[Any]:
    """Yield a Matplotlib figure of ``size`` inches in the style of all results; then save it to ``path``."""
    from matplotlib.figure import Figure

    with figure_style.style(**{"axes.titlepad": 8, "axes.grid.axis": grid, **(style or {})}):
        drawn = Figure(figsize=size, layout="constrained")
        yield drawn
        save_figure(drawn, path, "--output", dpi=160)


def look(number: int) -> dict[str, Any]:
    """Return Matplotlib's options for the colour and marker of the line with index ``number``."""
    return {"color": COLOURS[number % len(COLOURS)], "marker": MARKERS[number % len(MARKERS)]}


def name_bars(axes: Any, names: Sequence[str]) -> None:
    """Label horizontal bars from the top down, and leave space for a number behind each."""
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.margins(x=0.14)
    axes.set_xlim(left=0)


def step_bars(
    path: str | Path, panels: Sequence[tuple[str, list[tuple[str, float, float]]]], fraction: str
) -> None:
    """Draw bars for the times of steps, one panel per (title, bars), and save the figure as ``path``.

    A bar is (name, ms of one part of the step, ms of the whole step), 0 if not known; ``fraction`` is the
    text for the part in the legend.
    """
    heights = [1 + len(bars) for _, bars in panels]
    with figure(path, (8.4, 0.9 + 0.4 * (sum(heights) + len(panels))), "x") as drawn:
        rows = drawn.subplots(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0]
        for axes, (title, bars) in zip(rows, panels, strict=True):
            for y, (_, transforms, total) in enumerate(bars):
                first, rest = min(transforms, total) if total else transforms, max(total - transforms, 0.0)
                axes.barh(y, first, color=BLUE, height=0.62)
                axes.barh(y, rest, left=first, color=ORANGE if transforms else GREY, height=0.62)
                axes.text(max(first, total), y, f"  {max(first, total):.3g} ms", va="center", fontsize=9)
            name_bars(axes, [name for name, *_ in bars])
            axes.set_title(title)
        rows[-1].set_xlabel("time of one step (ms)")
        for colour, label in ((BLUE, fraction), (ORANGE, "the rest"), (GREY, "not known apart")):
            rows[0].barh(0, 0, color=colour, label=label)
        drawn.legend(loc="outside lower right", ncols=3, fontsize=9)


def log_axes(axes: Any, x: str, y: str) -> None:
    """Make both axes logarithmic, x in powers of 2, and label them."""
    axes.set_xscale("log", base=2)
    axes.set(yscale="log", xlabel=x, ylabel=y)


def transport_name(transport: str) -> str:
    """Return a transport's name for tables and figures; a protocol may follow it after a comma."""
    name, *protocol = transport.split(", ", 1)
    return ", ".join([TRANSPORTS[name].label if name in TRANSPORTS else name, *protocol])


def unavailable(result: dict[str, Any]) -> list[str]:
    """Return a line of text for each transport, or protocol, that could not be used, with the reason."""
    return [f"{transport_name(name)}: not measured; {why}" for name, why in result["unavailable"].items()]


def size_words(size: int) -> str:
    """Return a number of bytes as text, in the largest unit of 2¹⁰ that divides it."""
    for exponent, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if size % (1 << exponent) == 0:
            return f"{size >> exponent} {unit}"
    return f"{size} B"


def shape_words(shape: Sequence[int]) -> str:
    """Return a shape as ``NXxNYxNZ``."""
    return "x".join(map(str, shape))


def distinct(cases: Iterable[dict[str, Any]], *keys: str) -> list[Any]:
    """Return the distinct values of a key of ``cases`` (tuples for several), in order of appearance."""
    return list(dict.fromkeys(map(itemgetter(*keys), cases)))
