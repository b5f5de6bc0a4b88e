"""Figures of a page: lines, bars and timelines as SVG and HTML; arrays as bytes that a canvas draws."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import jinja2
import numpy as np
from markupsafe import Markup

from wavefabric.fabric.draw.style import wavelength_colour
from wavefabric.report.content import Content
from wavefabric.units import time_words

#: Of a plot: its size, and the box inside its margins (left, right, top, bottom).
WIDTH, HEIGHT, BOX = 480, 270, (62.0, 468.0, 30.0, 228.0)
#: Points of a line, bars of a timeline, rows of a table, colours of lines.
MOST_POINTS, MOST_BARS, MOST_ROWS, COLOURS = 1000, 3000, 200, 8


@cache
def environment() -> jinja2.Environment:
    """Templates of pages; all text is escaped."""
    how: dict[str, Any] = {"trim_blocks": True, "lstrip_blocks": True, "undefined": jinja2.StrictUndefined}
    return jinja2.Environment(loader=jinja2.PackageLoader("wavefabric.report"), autoescape=True, **how)


def macro(name: str, **values: Any) -> Markup:
    """A figure of the template of figures."""
    return getattr(environment().get_template("figures.html").module, name)(**values)


@dataclass(frozen=True)
class PlotAxis:
    """What an axis shows, the base of a logarithmic scale (else 0), and how its ticks are written."""

    label: str
    log: int = 0
    words: Callable[[float], str] = "{:.4g}".format


class _Scale:
    """From values to positions between two ends, and the ticks there."""

    def __init__(self, values: np.ndarray, axis: PlotAxis, ends: tuple[float, float], pad: float = 0.0):
        known = values[np.isfinite(values) & ((values > 0) | (axis.log == 0))]
        self.log, self.ends = axis.log, ends
        low, high = (
            (float(v) for v in self._own(np.array([known.min(), known.max()]))) if known.size else (0, 1)
        )
        pad = pad * (high - low) if high - low > 1e-9 * max(abs(low), abs(high)) else 0.1 * abs(high) or 0.5
        self.low, self.high = low - pad, high + pad
        marks = [(round(float(self(mark)), 1), axis.words(float(mark))) for mark in self._marks()]
        self.ticks = [(at, words.replace("-", "−")) for at, words in marks]

    def _own(self, values: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.log(values) / math.log(self.log) if self.log else values

    def _marks(self) -> np.ndarray:
        step = (self.high - self.low) / 5
        size = 1 if self.log else 10.0 ** math.floor(math.log10(step))
        step = max(1, round(step)) if self.log else next(k for k in (1, 2, 5, 10) if k * size >= step) * size
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        marks = np.arange(first, last + 1) * step
        return float(self.log) ** marks if self.log else np.round(marks, 12)

    def __call__(self, values: Any) -> np.ndarray:
        at = (self._own(np.asarray(values, float)) - self.low) / (self.high - self.low)
        return self.ends[0] + at * (self.ends[1] - self.ends[0])


def plot(
    title: str, lines: Mapping[str, tuple[Any, Any]], x: PlotAxis, y: PlotAxis, note: str = "", dots: str = ""
) -> Markup:
    """Lines by name, of x and y; ``dots``: points instead, ``"dots"``, or ``"fine"`` ones on a square.

    Values that are not finite are gaps; without a value there is no figure.
    """
    made = {name: tuple(np.asarray(v, float).ravel() for v in both) for name, both in lines.items()}
    made = {name: (a, b) for name, (a, b) in made.items() if np.isfinite(a + b).any()}
    if not made:
        return Markup()
    xs, ys = (np.concatenate([both[k] for both in made.values()]) for k in (0, 1))
    left, right, top, bottom = BOX
    if dots == "fine":
        xs = ys = 1.05 * float(np.nanmax(np.abs([xs, ys]))) * np.array([-1, 1])
        left, right = (left + right - bottom + top) / 2, (left + right + bottom - top) / 2
    to_x, to_y = _Scale(xs, x, (left, right), 0.02 if dots else 0), _Scale(ys, y, (bottom, top), 0.06)
    paths = [(name, _path(to_x(a), to_y(b), bool(dots))) for name, (a, b) in made.items()]
    what = {"title": title, "note": note, "dots": dots, "x": x.label, "y": y.label, "lines": paths}
    return macro("plot", **what, xticks=to_x.ticks, yticks=to_y.ticks, box=(left, right, top, bottom))


def _path(x: np.ndarray, y: np.ndarray, dots: bool) -> str:
    """A path of SVG, of lines with gaps or of dots, thinned out evenly."""
    keep, parts, pen = slice(None, None, max(1, math.ceil(x.size / MOST_POINTS))), [], False
    for a, b in zip(x[keep], y[keep], strict=True):
        good = math.isfinite(a) and math.isfinite(b)
        if good:
            parts.append(f"{'L' if pen and not dots else 'M'}{a:.1f} {b:.1f}{'h0' if dots else ''}")
        pen = good
    return "".join(parts)


def bars(
    title: str,
    rows: Sequence[Any],
    words: Callable[[float], str] = time_words,
    note: str = "",
    mark: str = "chosen",
) -> Markup:
    """Horizontal bars of stacked parts: rows of a label, parts by name, and whether it has the mark."""
    names = list(dict.fromkeys(name for _, parts, _ in rows for name in parts))
    longest = max((sum(parts.values()) for _, parts, _ in rows), default=0.0)
    if not longest > 0:
        return Markup()
    made = []
    for label, parts, chosen in rows[:MOST_ROWS]:
        each = [(names.index(n) % COLOURS, 100 * v / longest, f"{n} {words(v)}") for n, v in parts.items()]
        made.append((label, each, words(sum(parts.values())), chosen))
    return macro("bars", title=title, note=note, rows=made, names=names, mark=mark)


def stacked(parts: Mapping[str, float], words: Callable[[float], str] = time_words) -> Markup:
    """One bar of a whole and its parts, with a legend of values and fractions."""
    known = {name: value for name, value in parts.items() if math.isfinite(value) and value > 0}
    total = sum(known.values())
    return macro("stacked", rows=[(name, words(v), 100 * v / total) for name, v in known.items()])


def timeline(title: str, rows: int, spans: Sequence[tuple[int, float, float, float, str]]) -> Markup:
    """Bars over time: the number of the row, begin and end (s), colour from 0 to 1, and what it is."""
    last = max((span[2] for span in spans), default=0.0)
    if not last > 0:
        return Markup()
    high = max(5.0, min(22.0, 400 / rows))
    scale = _Scale(np.array([0.0, last]), PlotAxis("", words=time_words), (44, WIDTH - 14))
    shown = spans[:: max(1, math.ceil(len(spans) / MOST_BARS))]
    made = []
    for row, begin, end, colour, words in shown:
        a, b = scale([begin, end]).round(1).tolist()
        made.append((a, row * high + 1, max(b - a, 0.6), wavelength_colour(colour), words))
    labels = [(row * high + high / 2 + 4, row) for row in range(0, rows, max(1, math.ceil(rows / 24)))]
    note = "" if len(shown) == len(spans) else f"{len(shown)} of {len(spans)} shown"
    size = {"bar": high - 2, "bottom": high * rows, "ticks": scale.ticks}
    return macro("timeline", title=title, note=note, bars=made, labels=labels, **size)


def table(heads: Sequence[str], rows: Sequence[Sequence[Any]], title: str = "") -> Markup:
    """A table, whose first column names the rows; without heads pairs of names and values."""
    cut = {"rows": rows[:MOST_ROWS], "left_out": max(0, len(rows) - MOST_ROWS)}
    return macro("table", title=title, heads=heads, **cut) if rows else Markup()


def text(title: str, content: str) -> Markup:
    """A text that unfolds."""
    return macro("text", title=title, content=content[:200_000]) if content else Markup()


def slices(
    content: Content,
    title: str,
    values: np.ndarray,
    axes: Sequence[tuple[str, float, float, str]],
    cuts: Mapping[int, int],
    colours: Mapping[str, Any],
) -> Markup:
    """Canvases of an array of finite values, which becomes one of the page's.

    ``axes``: name, first coordinate, step and unit of each; ``cuts``: axes across which there are slices,
    with the index shown first; of a plane none. ``colours``: cmap, vmin, vmax, unit and note.
    """
    name, low, high = f"array{len(content.arrays)}", float(colours["vmin"]), float(colours["vmax"])
    scaled = ((values - low) * (255 / ((high - low) or 1))).round().clip(0, 255).astype(np.uint8)
    content.arrays[name] = {
        "shape": values.shape,
        "ends": (low, high, colours["unit"]),
        "map": _base64(colour_map(colours["cmap"]).tobytes()),
        "data": _base64(scaled.tobytes()),
    }
    views = []
    for across, at in (cuts or {-1: 0}).items():
        plane = [a for a in range(values.ndim) if a != across]
        # The longer axis to the right.
        up, right = sorted(plane, key=lambda a: values.shape[a] * axes[a][2])
        aspect = values.shape[right] * axes[right][2] / (values.shape[up] * axes[up][2])
        views.append({"across": across, "at": at, "right": right, "up": up, "axes": axes})
        views[-1] |= {"aspect": round(float(np.clip(aspect, 0.35, 6)), 3), "count": values.shape[across]}
        if not content.thumbnail:
            shown = np.take(scaled, at, across) if cuts else scaled
            content.thumbnail = _picture(shown.T if right < up else shown, colours["cmap"], title)
    ends = [f"{end:.3g}".replace("-", "−") for end in (low, high)]
    gradient = ", ".join(f"#{bytes(colour).hex()}" for colour in colour_map(colours["cmap"])[::15])
    scale = {"ends": ends, "unit": colours["unit"], "gradient": gradient}
    return macro("slices", title=title, note=colours.get("note", ""), array=name, views=views, scale=scale)


def colour_map(name: str) -> np.ndarray:
    """256 colours of Matplotlib's map, uint8, shape (256, 3)."""
    import matplotlib as mpl

    return (np.asarray(mpl.colormaps[name](np.arange(256)))[:, :3] * 255).round().astype(np.uint8)


def _picture(levels: np.ndarray, name: str, about: str) -> Markup:
    """A small picture of bytes, [row from below, column]."""
    from PIL import Image

    Image.fromarray(colour_map(name)[levels[::-1]]).save(file := io.BytesIO(), "PNG")
    return image(file.getvalue(), about)


def image(png: bytes, about: str) -> Markup:
    """A PNG inside the page."""
    return macro("image", data=_base64(png), about=about)


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")
