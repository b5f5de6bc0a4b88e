"""Figures of a page: lines, bars and timelines as SVG and HTML; arrays as bytes that a canvas draws."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import jinja2
import numpy as np
from markupsafe import Markup

from wavefabric.units import time_words

#: Size of a plot, and of its margins: left, right, top, bottom.
WIDTH, HEIGHT, MARGINS = 480, 270, (62, 12, 30, 42)
#: Points of a line, bars of a timeline, rows of a table, at most.
MOST_POINTS, MOST_BARS, MOST_ROWS = 1000, 3000, 200


@cache
def environment() -> jinja2.Environment:
    """Templates of pages; all text is escaped."""
    how: dict[str, Any] = {"trim_blocks": True, "lstrip_blocks": True, "undefined": jinja2.StrictUndefined}
    made = jinja2.Environment(loader=jinja2.PackageLoader("wavefabric.report"), autoescape=True, **how)
    made.filters["time"] = time_words
    return made


def macro(name: str, **values: Any) -> Markup:
    """A figure of the template of figures."""
    return getattr(environment().get_template("figures.html").module, name)(**values)


@dataclass(frozen=True)
class Axis:
    """What an axis shows, whether its scale is logarithmic, and how its ticks are written."""

    label: str
    log: bool = False
    words: Callable[[float], str] = "{:.4g}".format


class _Scale:
    """From values to positions between two ends, and the ticks there."""

    def __init__(self, values: np.ndarray, axis: Axis, ends: tuple[float, float], pad: float = 0.0):
        known = values[np.isfinite(values) & ((values > 0) | (not axis.log))]
        self.log, self.ends = axis.log, ends
        low, high = (float(known.min()), float(known.max())) if known.size else (1.0, 2.0)
        low, high = self._own(np.array([low, high]))
        if high - low <= 1e-9 * max(abs(low), abs(high), 1e-300):
            low, high = low - (0.5 if self.log or not low else 0.05 * abs(low)), high + 0.5 * (abs(high) or 1)
        self.low, self.high = low - pad * (high - low), high + pad * (high - low)
        marks = self._marks()
        self.ticks = [(round(float(self(mark)), 1), axis.words(float(mark)).replace("-", "−")) for mark in marks]

    def _own(self, values: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.log10(values) if self.log else values

    def _marks(self) -> np.ndarray:
        span = self.high - self.low
        if self.log and span > 0.8:
            return 10.0 ** np.arange(math.ceil(self.low), math.floor(self.high) + 1, max(1, round(span / 5)))
        low, high = (10**self.low, 10**self.high) if self.log else (self.low, self.high)
        rough = (high - low) / 5
        size = 10.0 ** math.floor(math.log10(rough))
        step = size * next(k for k in (1, 2, 5, 10) if k * size >= rough * 0.999)
        return np.round(np.arange(math.ceil(low / step), math.floor(high / step + 1e-9) + 1) * step, 12)

    def __call__(self, values: Any) -> np.ndarray:
        at = (self._own(np.asarray(values, float)) - self.low) / (self.high - self.low)
        return self.ends[0] + at * (self.ends[1] - self.ends[0])


def plot(
    title: str,
    series: Mapping[str, tuple[Any, Any]],
    x: Axis,
    y: Axis,
    note: str = "",
    dots: str = "",
    square: bool = False,
) -> Markup:
    """Lines by name, of x and y; ``dots``: draw points instead (``"dots"``), or small ones (``"fine"``).

    Values that are not finite are gaps. ``square``: both axes have one scale around zero. No figure without
    a value.
    """
    drawn = {name: tuple(np.asarray(v, float).ravel() for v in both) for name, both in series.items()}
    drawn = {name: (a, b) for name, (a, b) in drawn.items() if np.isfinite(a + b).any()}
    if not drawn:
        return Markup()
    left, right, top, bottom = MARGINS
    across, down = (left, WIDTH - right), (HEIGHT - bottom, top)
    xs, ys = (np.concatenate([both[k] for both in drawn.values()]) for k in (0, 1))
    if square:
        most = float(np.nanmax(np.abs(np.concatenate([xs, ys])))) * np.array([-1.05, 1.05])
        xs, ys, middle, half = most, most, (across[0] + across[1]) / 2, (down[0] - down[1]) / 2
        across = middle - half, middle + half
    to_x, to_y = _Scale(xs, x, across, 0.02 if dots else 0), _Scale(ys, y, down, 0.06)
    lines = [{"name": name, "d": _path(to_x(a), to_y(b), bool(dots))} for name, (a, b) in drawn.items()]
    box = {"left": across[0], "right": across[1], "top": top, "bottom": HEIGHT - bottom}
    words = {"title": title, "note": note, "dots": dots, "x": x.label, "y": y.label}
    size = {"width": WIDTH, "height": HEIGHT}
    return macro("plot", p={**words, **size, "box": box, "lines": lines, "xticks": to_x.ticks, "yticks": to_y.ticks})


def _path(x: np.ndarray, y: np.ndarray, dots: bool) -> str:
    """A path of SVG, of lines with gaps or of dots, thinned out evenly."""
    keep = slice(None, None, max(1, math.ceil(x.size / MOST_POINTS)))
    parts, pen = [], False
    for a, b in zip(x[keep], y[keep], strict=True):
        good = math.isfinite(a) and math.isfinite(b)
        if good:
            parts.append(f"{'L' if pen and not dots else 'M'}{a:.1f} {b:.1f}{'h0' if dots else ''}")
        pen = good
    return "".join(parts)


def bars(title: str, rows: Sequence[tuple[str, Mapping[str, float], bool]], words=time_words, note="") -> Markup:
    """Horizontal bars of stacked parts: label, parts by name, and whether the row is marked as chosen."""
    names = list(dict.fromkeys(name for _, parts, _ in rows for name in parts))
    longest = max((sum(parts.values()) for _, parts, _ in rows), default=0.0)
    if not longest > 0:
        return Markup()
    made = [
        {
            "label": label,
            "chosen": chosen,
            "total": words(sum(parts.values())),
            "parts": [(names.index(n) % 8, 100 * v / longest, f"{n}: {words(v)}") for n, v in parts.items()],
        }
        for label, parts, chosen in rows[:MOST_ROWS]
    ]
    return macro("bars", title=title, note=note, rows=made, names=names if len(names) > 1 else [])


def stacked(parts: Mapping[str, float]) -> Markup:
    """One bar of where the time went, with a legend of times and fractions."""
    known = {name: value for name, value in parts.items() if math.isfinite(value) and value > 0}
    total = sum(known.values())
    rows = [(k % 8, name, time_words(v), 100 * v / total) for k, (name, v) in enumerate(known.items())]
    return macro("stacked", rows=rows)


def timeline(title: str, rows: Sequence[str], spans: Sequence[tuple[int, float, float, float, str]]) -> Markup:
    """Bars over time, a row each: row, begin and end (s), colour from 0 to 1, and what it is."""
    shown = spans[:: max(1, math.ceil(len(spans) / MOST_BARS))]
    last = max((end for _, _, end, _, _ in spans), default=0.0)
    if not last > 0:
        return Markup()
    high = max(5.0, min(22.0, 400 / len(rows)))
    scale = _Scale(np.array([0.0, last]), Axis("time", words=time_words), (44, WIDTH - 14))
    from wavefabric.fabric.draw.style import wavelength_colour

    made = [
        {"x": a, "y": row * high + 1, "w": max(b - a, 0.6), "fill": wavelength_colour(colour), "words": words}
        for row, begin, end, colour, words in shown
        for a, b in [scale([begin, end]).round(1).tolist()]
    ]
    every = max(1, math.ceil(len(rows) / 24))
    labels = [(row * high + high / 2 + 4, name) for row, name in enumerate(rows) if row % every == 0]
    note = "" if len(shown) == len(spans) else f"{len(shown)} of {len(spans)} shown"
    size = {"width": WIDTH, "bar": high - 2, "bottom": high * len(rows)}
    return macro("timeline", p={"title": title, "note": note, "bars": made, "labels": labels, "ticks": scale.ticks, **size})


def table(heads: Sequence[str], rows: Sequence[Sequence[Any]], title: str = "") -> Markup:
    """A table; the first column is a row's name. Long ones are cut, and say so."""
    left_out = max(0, len(rows) - MOST_ROWS)
    return macro("table", title=title, heads=heads, rows=rows[:MOST_ROWS], left_out=left_out) if rows else Markup()


def pairs_table(rows: Sequence[tuple[str, str]], title: str = "") -> Markup:
    """Names and values."""
    return macro("table", title=title, heads=[], rows=rows, left_out=0) if rows else Markup()


def text(title: str, content: str, most: int = 200_000) -> Markup:
    """A text that unfolds."""
    return macro("text", title=title, content=content[:most]) if content else Markup()


def eight_bits(values: np.ndarray, low: float, high: float) -> str:
    """Values from low to high as bytes from 0 to 255, in base 64, the last axis fastest."""
    scaled = (np.nan_to_num(values) - low) * (255 / ((high - low) or 1))
    return base64.b64encode(np.clip(scaled.round(), 0, 255).astype(np.uint8).tobytes()).decode("ascii")


def colour_map(name: str) -> np.ndarray:
    """256 colours of Matplotlib's map, uint8, shape (256, 3)."""
    import matplotlib as mpl

    return (np.asarray(mpl.colormaps[name](np.arange(256)))[:, :3] * 255).round().astype(np.uint8)


def gradient(name: str) -> str:
    """A colour map as a gradient of CSS."""
    return ", ".join("#" + bytes(colour).hex() for colour in colour_map(name)[::15])


def picture(values: np.ndarray, name: str, low: float, high: float, about: str) -> Markup:
    """A small picture, [row from below, column], as an image of its own."""
    import io

    from PIL import Image

    fraction = (np.nan_to_num(values) - low) / ((high - low) or 1)
    pixels = colour_map(name)[np.clip((fraction * 255).round(), 0, 255).astype(int)][::-1]
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return image(file.getvalue(), about)


def image(png: bytes, about: str) -> Markup:
    """A PNG inside the page."""
    return macro("image", data=base64.b64encode(png).decode("ascii"), about=about)
