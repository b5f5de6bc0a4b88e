"""Draw the figures of report pages: lines as SVG, bars as HTML, arrays as bytes that a canvas draws."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import jinja2
import matplotlib as mpl
import numpy as np
from markupsafe import Markup
from matplotlib.image import imsave
from matplotlib.ticker import MaxNLocator

from wavefabric.base.units import time_words
from wavefabric.report.content import Content

#: The box inside the margins of a plot of 480 × 270: left, right, top, bottom.
BOX = (62.0, 468.0, 30.0, 228.0)
#: Largest numbers: points of a line, rows of a table, colours of lines.
MOST_POINTS, MOST_ROWS, COLOURS = 1000, 200, 8


@cache
def environment() -> jinja2.Environment:
    """Return the Jinja environment for page templates, which escapes all text."""
    how: dict[str, Any] = {"trim_blocks": True, "lstrip_blocks": True, "undefined": jinja2.StrictUndefined}
    return jinja2.Environment(loader=jinja2.PackageLoader("wavefabric.report"), autoescape=True, **how)


def macro(name: str, **values: Any) -> Markup:
    """Render the macro ``name`` of the template figures.html."""
    return getattr(environment().get_template("figures.html").module, name)(**values)


@dataclass(frozen=True)
class PlotAxis:
    """Describes an axis: label, base of a logarithmic scale (else 0), and format of its ticks."""

    label: str
    log: int = 0
    to_text: Callable[[float], str] = "{:.4g}".format

    def linear(self, values: Any) -> np.ndarray:
        """Return ``values`` as numbers on a linear scale: of a logarithmic axis, their logarithms."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.log(values) / math.log(self.log) if self.log else np.asarray(values, float)

    def scale(self, values: np.ndarray, first: float, last: float, pad: float = 0.0) -> tuple[Any, list[Any]]:
        """Return a function from linear values to positions on the page, and the ticks as (position, text).

        The smallest of ``values`` is near position ``first``, the largest near ``last``, with a margin of
        ``pad`` times their range.
        """
        low, high = float(values.min()), float(values.max())
        pad = pad * (high - low) if high - low > 1e-9 * max(abs(low), abs(high)) else 0.1 * abs(high) or 0.5
        low, high = low - pad, high + pad
        ticker = MaxNLocator(5, steps=[1, 2, 5, 10], integer=self.log > 0, min_n_ticks=1)
        marks = np.asarray(ticker.tick_values(low, high))

        def at(value: Any) -> Any:
            return first + (value - low) / (high - low) * (last - first)

        inside = marks[(marks >= low) & (marks <= high)].tolist()
        texts = (self.to_text(float(self.log) ** mark if self.log else mark) for mark in inside)
        ticks = zip(inside, texts, strict=True)
        return at, [(round(at(mark), 1), text.replace("-", "−")) for mark, text in ticks]


def plot(
    title: str, lines: Mapping[str, Any], x: PlotAxis | str, y: PlotAxis | str, note: str = "", dots: str = ""
) -> Markup:
    """Return a plot of ``lines``, a dictionary from the name of each line to its (x, y).

    With ``dots`` ``"dots"`` points are drawn instead of lines, with ``"fine"`` small points on a square that
    is centred at 0. Values that are not finite are gaps; without a finite value the result is empty.
    """
    x, y = (PlotAxis(axis) if isinstance(axis, str) else axis for axis in (x, y))
    finite_lines = {name: np.stack([x.linear(a), y.linear(b)]) for name, (a, b) in lines.items()}
    finite_lines = {name: both for name, both in finite_lines.items() if np.isfinite(both.sum(axis=0)).any()}
    if not finite_lines:
        return Markup()
    xs, ys = (each[np.isfinite(each)] for each in np.concatenate(list(finite_lines.values()), axis=1))
    left, right, top, bottom = BOX
    if dots == "fine":
        xs = ys = 1.05 * np.abs([*xs, *ys]).max() * np.array([-1, 1])
        left, right = (left + right - bottom + top) / 2, (left + right + bottom - top) / 2
    to_x, xticks = x.scale(xs, left, right, 0.02 if dots else 0)
    to_y, yticks = y.scale(ys, bottom, top, 0.06)
    paths = [(name, _path(to_x(a), to_y(b), bool(dots))) for name, (a, b) in finite_lines.items()]
    labels = {"title": title, "note": note, "dots": dots, "x": x.label, "y": y.label, "lines": paths}
    return macro("plot", **labels, xticks=xticks, yticks=yticks, box=(left, right, top, bottom))


def _path(x: np.ndarray, y: np.ndarray, dots: bool) -> str:
    """Return an SVG path of lines with gaps or of dots, thinned out evenly."""
    parts, pen = [], "M"
    for a, b in np.stack([x, y], axis=1)[:: max(1, math.ceil(x.size / MOST_POINTS))].tolist():
        good = math.isfinite(a + b)
        if good:
            parts.append(f"{pen}{a:.1f} {b:.1f}{'h0' if dots else ''}")
        pen = "L" if good and not dots else "M"
    return "".join(parts)


def bars(
    title: str,
    rows: Sequence[Any],
    to_text: Callable[[float], str] = time_words,
    note: str = "",
    mark: str = "chosen",
) -> Markup:
    """Return a chart of horizontal bars of stacked parts; ``rows``: (label, parts by name, marked or not)."""
    names = list(dict.fromkeys(name for _, parts, _ in rows for name in parts))
    longest = max((sum(parts.values()) for _, parts, _ in rows), default=0.0)
    if not longest > 0:
        return Markup()
    bar_rows = []
    for label, parts, chosen in rows[:MOST_ROWS]:
        each = [(names.index(n) % COLOURS, 100 * v / longest, f"{n} {to_text(v)}") for n, v in parts.items()]
        bar_rows.append((label, each, to_text(sum(parts.values())), chosen))
    return macro("bars", title=title, note=note, rows=bar_rows, names=names, mark=mark)


def table(heads: Sequence[str], rows: Sequence[Sequence[Any]], title: str = "") -> Markup:
    """Return a table whose first column names the rows; without ``heads`` a table of name-value pairs."""
    cut = {"rows": rows[:MOST_ROWS], "left_out": max(0, len(rows) - MOST_ROWS)}
    return macro("table", title=title, heads=heads, **cut) if rows else Markup()


def text(title: str, content: str) -> Markup:
    """Return a section, closed at first, that unfolds to show ``content``."""
    return macro("text", title=title, content=content[:200_000]) if content else Markup()


def slices(
    content: Content,
    title: str,
    values: np.ndarray,
    axes: Sequence[tuple[str, float, float, str]],
    cuts: Mapping[int, int],
    colours: Mapping[str, Any],
) -> Markup:
    """Return canvases that show slices of an array, and add the array to ``content``.

    ``values`` must be finite. ``axes``: name, first coordinate, step and unit of each axis. ``cuts``: axes
    across which there are slices, each with the index shown first; empty for a plane. ``colours``: cmap,
    vmin, vmax, unit and note.
    """
    name, low, high = f"array{len(content.arrays)}", float(colours["vmin"]), float(colours["vmax"])
    scaled = ((values - low) * (255 / ((high - low) or 1))).round().clip(0, 255).astype(np.uint8)
    colour_table, unit = mpl.colormaps[colours["cmap"]](np.arange(256), bytes=True), colours["unit"]
    data = {"map": _base64(colour_table.tobytes()), "data": _base64(scaled.tobytes())}
    content.arrays[name] = {"shape": values.shape, "ends": (low, high, unit), **data}
    views, lengths = [], [n * axis[2] for n, axis in zip(values.shape, axes, strict=True)]
    for across, index in (cuts or {-1: 0}).items():
        # The longer axis is horizontal.
        vertical, right = sorted((a for a in range(values.ndim) if a != across), key=lengths.__getitem__)
        aspect = round(float(np.clip(lengths[right] / lengths[vertical], 0.35, 6)), 3)
        view = {"across": across, "at": index, "right": right, "up": vertical}
        views.append(view | {"axes": axes, "aspect": aspect})
        views[-1]["count"] = values.shape[across]
        if not content.thumbnail:
            plane = np.take(scaled, index, across) if cuts else scaled
            plane = plane.T if right < vertical else plane
            imsave(file := io.BytesIO(), colour_table[plane], origin="lower", format="png")
            content.thumbnail = image(file.getvalue(), title)
    ends = [f"{end:.3g}".replace("-", "−") for end in (low, high)]
    gradient = ", ".join(f"#{bytes(c).hex()}" for c in colour_table[::15])
    scale = {"ends": ends, "unit": unit, "gradient": gradient}
    return macro("slices", title=title, note=colours.get("note", ""), array=name, views=views, scale=scale)


def image(png: bytes, about: str) -> Markup:
    """Return a PNG image embedded in the page."""
    return macro("image", data=_base64(png), about=about)


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")
