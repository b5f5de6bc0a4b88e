"""Defines colours, shapes, headers, legends and texts common to all pictures of fabrics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Left, bottom, width and height of axes, as fractions of their figure.
Box = tuple[float, float, float, float]
#: Background, wafer, its rim, streets, tile, its rim, text, dim text.
NIGHT, WAFER, RIM, STREETS = "#0b1220", "#111b2e", "#24344f", "#16223a"
TILE, TILE_RIM, TEXT, DIM = "#1b2942", "#3a5078", "#eef4ff", "#8fa3c4"
#: Colour of a tile that has all of its result.
FULL = "#1fa971"
#: Colours of a tile's level from nothing to nearly all; of link loads from never to always busy.
_LEVELS = ("#234f8f", "#2293ab")
_LOADS = ("#2a3b5c", "#2c6fa8", "#2fc4c4", "#f4e45a", "#ffa24a", "#ff5d6c")
#: Colours of wavelengths from violet to red, light enough for a dark background.
_SPECTRUM = ("#8c6bff", "#4f9cff", "#2fd6e6", "#6cf08c", "#f4e45a", "#ffa24a", "#ff5d6c")


@contextmanager
def without_formulae() -> Iterator[None]:
    """Draw text literally within this context: dollar signs in names are not TeX."""
    import matplotlib as mpl

    with mpl.rc_context({"text.parse_math": False}):
        yield


def _gradient(stops: Sequence[str], fraction: float) -> str:
    """Return the colour at ``fraction``, 0 to 1, between equidistant stops."""
    rgb = np.array([list(bytes.fromhex(stop[1:])) for stop in stops])
    at = float(np.clip(fraction, 0, 1)) * (len(rgb) - 1)
    low = min(int(at), len(rgb) - 2)
    mixed = rgb[low] + (at - low) * (rgb[low + 1] - rgb[low])
    return "#" + "".join(f"{round(float(v)):02x}" for v in mixed)


#: Colour of a wavelength, or a round, from the first (0) to the last (1).
wavelength_colour = partial(_gradient, _SPECTRUM)
#: Colour of a link that is busy for a fraction of the time, 0 to 1.
load_colour = partial(_gradient, _LOADS)


def spectrum(lasers: int) -> list[str]:
    """Return the colour of the wavelength of each laser."""
    return [wavelength_colour(k / max(lasers - 1, 1)) for k in range(lasers)]


def level_colour(level: float) -> str:
    """Return the colour of a tile that has the fraction ``level`` of its result."""
    return FULL if level > 1 - 1e-9 else _gradient(_LEVELS, level)


def dark_figure(width: float, height: float, titles: tuple[str, str], sizes=(15.0, 9.5)) -> Figure:
    """Return an empty figure, sized in inches, whose title and subtitle take the uppermost 0.65 inches."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), facecolor=NIGHT)
    looks: Any = {"color": TEXT, "fontweight": "bold"}, {"color": DIM}
    for down, words, size, own in zip((0.29, 0.56), titles, sizes, looks, strict=True):
        figure.text(0.25 / width, 1 - down / height, words, fontsize=size, va="center", **own)
    return figure


def lines(axes: Axes, points: Sequence[Any], colours: Any, widths: Any, **look: Any) -> Any:
    """Draw lines, each of shape (n, 2), with widths in points."""
    from matplotlib.collections import LineCollection

    return axes.add_collection(LineCollection(points, colors=colours, linewidths=widths, **look))


def boxes(axes: Axes, centres: Any, half: float, rounding: float = 0.07, **look: Any) -> Any:
    """Draw squares with round corners."""
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import FancyBboxPatch

    style = f"round,pad=0,rounding_size={rounding}"
    shapes = [FancyBboxPatch((x - half, y - half), 2 * half, 2 * half, boxstyle=style) for x, y in centres]
    return axes.add_collection(PatchCollection(shapes, **look))


def bars(axes: Axes, corners: Sequence[tuple[float, float, float, float]], **look: Any) -> Any:
    """Draw rectangles, each given as (x, y, width, height)."""
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    return axes.add_collection(PatchCollection([Rectangle((x, y), w, h) for x, y, w, h in corners], **look))


def label(axes: Axes, x: float, y: float, words: str, size: float, colour: str = TEXT, **look: Any) -> Any:
    """Write text centred at a point, unless ``look`` aligns it otherwise; ``size`` is in points."""
    look = {"ha": "center", "va": "center", "zorder": 6} | look
    return axes.text(x, y, words, fontsize=size, color=colour, **look)


def legend(figure: Figure, box: Box, entries: Iterable[tuple[str, Sequence[dict[str, Any]]]]) -> None:
    """Draw a legend in one row: for each entry lines or bars, then its text.

    An entry is (text, looks). A look is a dictionary of Matplotlib's options: one line if it has a ``color``,
    else one bar.
    """
    axes = legend_axes(figure, box, width=box[2] * figure.get_size_inches()[0] * 72)
    x = 0.0  # points
    for words, looks in entries:
        for look in looks:
            if "color" in look:
                axes.plot([x, x + 14], [5, 5], **look)
            else:
                bars(axes, [(x, 2.2, 11, 5.6)], **look)
            x += 14 if "color" in look else 11
        legend_text(axes, x + 5, words)
        x += 4.9 * len(words) + 23


def legend_axes(figure: Figure, box: Box, width: float = 100) -> Axes:
    """Return empty axes with x from 0 to ``width`` and y from 0 to 10."""
    axes = figure.add_axes(box)
    axes.set(xlim=(0, width), ylim=(0, 10))
    axes.axis("off")
    return axes


def legend_text(axes: Axes, x: float, text: str, ha: Any = "left") -> None:
    """Write small dim text at half the height of `legend_axes`."""
    axes.text(x, 5, text, ha=ha, color=DIM, fontsize=8.5, va="center")


def colour_strip(
    axes: Axes, colours: Sequence[str], left: float, step: float, width: float, height: float = 0.36
) -> None:
    """Draw bars side by side, one per colour, from x = ``left`` on.

    In units of x ``step`` is the distance from one bar to the next and ``width`` the width of each;
    ``height`` is a fraction of the axes.
    """
    for k, colour in enumerate(colours):
        x = left + k * step
        axes.axvspan(x, x + width, 0.5 - height / 2, 0.5 + height / 2, color=colour, lw=0)


def points_per_unit(axes: Axes) -> float:
    """Return the length in points of one unit of the axes."""
    (x0, x1), (y0, y1) = axes.get_xlim(), axes.get_ylim()
    wide, high = axes_points(axes)
    return min(wide / abs(x1 - x0), high / abs(y1 - y0))


def axes_points(axes: Axes) -> tuple[float, float]:
    """Return width and height of axes in points."""
    figure: Any = axes.figure
    box, (wide, high) = axes.get_position(), figure.get_size_inches() * 72
    return box.width * wide, box.height * high


def evenly(count: int, most: int) -> list[int]:
    """Return up to ``most`` of the numbers 0 … ``count`` − 1, evenly spaced, first and last included."""
    return sorted({int(i) for i in np.linspace(0, count - 1, min(count, most)).round()})
