"""Draws acoustic fields in memory: a plane with contours and outlines; profiles along a line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from wavefabric.acoustics.grid import Grid
from wavefabric.base.arguments import in_unit
from wavefabric.base.errors import choice, ensure, require
from wavefabric.base.files.output import save_figure
from wavefabric.base.results.figure_style import BLUE, GREY, INK, ORANGE, RED, Axes, Figure, new_axes, style
from wavefabric.base.units import show

_LINE_COLOURS = (BLUE, RED, ORANGE, INK)


def plane(field: Any, grid: Grid, normal: str = "y", at: float | str = 0.0) -> np.ndarray:
    """Return the plane of a 3-D field perpendicular to axis ``normal`` and nearest to coordinate ``at``, m.

    A 2-D field is returned whole.
    """
    values = np.asarray(field)
    ensure(values.shape == grid.shape, "field", f"has the shape {values.shape}", f"{grid.shape}, the grid's")
    if grid.dimensions == 2:
        return values
    choice("normal", normal, tuple("xyz"))
    axis, coordinate = "xyz".index(normal), in_unit(at, "m", "at")
    x = grid.coordinates[axis]
    require(x[0] <= coordinate <= x[-1], "at", at, f"{x[0]:g} to {x[-1]:g} m, inside the grid")
    return np.take(values, int(np.argmin(np.abs(x - coordinate))), axis)


@dataclass(frozen=True, kw_only=True)
class _Picture:
    """Holds the keywords that all kinds of pictures share."""

    title: str = ""
    scale: float = 1e-6
    axes: Axes | None = None
    path: str | Path | None = None


@dataclass(frozen=True, kw_only=True)
class FieldPicture(_Picture):
    """Holds the keywords of `plot_field`."""

    normal: str = "y"
    at: float | str = 0.0
    outlines: Any = None
    contours_db: Sequence[float] = (-3, -6)
    contours_in: Any = None
    peak: float | None = None
    origin: Sequence[float] | None = None
    label: str = "peak pressure (MPa)"


@dataclass(frozen=True, kw_only=True)
class ProfilePicture(_Picture):
    """Holds the keywords of `plot_profiles`."""

    shaded: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    dashed: Sequence[str] = ()
    xlabel: str = "distance (mm)"
    ylabel: str = "peak pressure (MPa)"


def plot_field(field: Any, grid: Grid, **options: Any) -> Figure:
    """Draw a plane of a positive field (Pa, the grid's shape), such as ``p_max_all``.

    The longer axis is horizontal. `InputError`: an argument does not fit the grid, or there is nothing to
    draw. Options:

    ``normal``, ``at``: on a 3-D grid the axis perpendicular to the plane, and the plane's position on it, m.
    ``outlines``: array of the grid's shape, such as a medium's sound speed or labels of tissue; lines are
    drawn between neighbouring points whose values differ.
    ``contours_db``: contour levels, dB relative to the peak; none if empty.
    ``contours_in``: booleans of the grid's shape; contours are drawn only where they are true, such as behind
    a skull.
    ``peak``: pressure of 0 dB and largest of the colour scale, Pa; by default the largest in the plane.
    ``origin``: zero point of the axis labels, m, one per axis of the grid; by default the grid's origin.
    ``title``, ``label``, ``scale``: title of the picture, label of its colour bar, and the factor that the
    field is multiplied by.
    ``axes``: Matplotlib axes to draw in, instead of a new figure.
    ``path``: file in which the figure is saved, 160 dots per inch.
    """
    settings = FieldPicture(**options)
    names = "xy" if grid.dimensions == 2 else "xyz".replace(settings.normal, "")

    def cut(values: Any) -> np.ndarray:
        return plane(values, grid, settings.normal, settings.at)

    values = cut(field).astype(float) * settings.scale
    ensure(np.isfinite(values).all(), "field", "has values that are not finite", "finite numbers")
    top = float(values.max()) if settings.peak is None else settings.peak * settings.scale
    ensure(top > 0, "field", "has no value above 0", "a positive field, such as p_max_all")
    zero = np.zeros(grid.dimensions) if settings.origin is None else np.asarray(settings.origin, float)
    require(zero.shape == (grid.dimensions,), "origin", settings.origin, f"{grid.dimensions} numbers, m")
    millimetres = {a: (x - x0) * 1e3 for a, x, x0 in zip("xyz", grid.coordinates, zero, strict=False)}
    right = max(names, key=lambda name: np.ptp(millimetres[name]))
    vertical = names.replace(right, "")
    x, y = millimetres[right], millimetres[vertical]

    def turned(values: np.ndarray) -> np.ndarray:
        """Return the plane's values as [vertical, horizontal] of the picture."""
        return values.T if names[0] == right else values

    values = turned(values)
    with style():
        axes = settings.axes
        if axes is None:
            axes = new_axes(7.6, 6.2 * float(np.clip(np.ptp(y) / np.ptp(x), 0.25, 1.2)) + 1.1)
        picture = show_image(axes, values, x, y, cmap="magma", vmin=0, vmax=top, interpolation="bilinear")
        clipped = values.max() > top * 1.001
        add_colour_bar(picture, axes, settings.label, extend="max" if clipped else "neither")
        if settings.outlines is not None:
            _outline(axes, turned(cut(settings.outlines)), x, y)
        if len(settings.contours_db):
            shown = values
            if settings.contours_in is not None:
                inside = turned(cut(settings.contours_in)).astype(bool)
                shown = np.ma.masked_where(~inside, values)
            _contours(axes, x, y, shown, top, settings.contours_db)
        axes.set(xlabel=f"{right} (mm)", ylabel=f"{vertical} (mm)", aspect="equal")
        axes.set(xlim=cell_edges(x)[[0, -1]], ylim=cell_edges(y)[[0, -1]])
        axes.grid(False)
        axes.set_title(settings.title, pad=8)
    return save(axes.figure, settings.path, "path")


def plot_profiles(position: Any, profiles: Mapping[str, Any], **options: Any) -> Figure:
    """Draw one or several profiles of values along a line.

    ``profiles`` is a dictionary from label to values (points,), Pa, where NaN leaves a gap. ``position``
    (points,) is the position of each value along the line, m. Options: ``shaded``, a dictionary from label to
    the range (from, to) of positions to shade, m, such as a layer of tissue; ``dashed``, the labels of
    profiles to draw dashed and on top, such as an analytical solution; ``xlabel``, ``ylabel``; ``title``,
    ``scale``, ``axes`` and ``path`` as in `plot_field`.
    """
    settings = ProfilePicture(**options)
    millimetres = np.asarray(position, float) * 1e3
    for name, values in profiles.items():
        shape, allowed = np.shape(values), millimetres.shape
        ensure(shape == allowed, f"profiles[{show(name)}]", f"has the shape {shape}", f"{allowed}")
    with style():
        axes = settings.axes if settings.axes is not None else new_axes(7.6, 6.2 * 0.45 + 1.1)
        for k, (name, (first, last)) in enumerate(settings.shaded.items()):
            alpha = 0.30 - 0.12 * (k % 2)
            axes.axvspan(first * 1e3, last * 1e3, color=GREY, alpha=alpha, linewidth=0, zorder=0)
            placing: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
            keywords: dict[str, Any] = {"ha": "center", "va": "bottom", "fontsize": 8, "color": GREY}
            axes.annotate(name, ((first + last) * 500, 1.0), (0, 3), **placing, **keywords)
        for k, (name, values) in enumerate(profiles.items()):
            line: dict[str, Any] = {"linewidth": 2, "color": _LINE_COLOURS[k % len(_LINE_COLOURS)]}
            if name in settings.dashed:
                line = {"linestyle": (0, (4, 2.5)), "linewidth": 1.2, "color": INK, "zorder": 5}
            axes.plot(millimetres, np.asarray(values, float) * settings.scale, label=name, **line)
        axes.set(xlabel=settings.xlabel, ylabel=settings.ylabel, xlim=millimetres[[0, -1]])
        axes.set_ylim(bottom=0)
        axes.legend(loc="best")
        axes.set_title(settings.title, pad=18 if settings.shaded else 8)
    return save(axes.figure, settings.path, "path")


def cell_edges(middles: np.ndarray) -> np.ndarray:
    """Return the edges of cells whose equally spaced ``middles`` are known: one edge more than cells."""
    half = (middles[-1] - middles[0]) / (2 * max(1, len(middles) - 1)) or 0.5
    return np.append(middles - half, middles[-1] + half)


def show_image(axes: Axes, values: np.ndarray, x: np.ndarray, y: np.ndarray, **options: Any) -> Any:
    """Draw ``values`` [y, x] as an image of cells centred at the coordinates ``x`` and ``y``; return it."""
    right, up = cell_edges(x), cell_edges(y)
    extent = (right[0], right[-1], up[0], up[-1])
    return axes.imshow(values, origin="lower", extent=extent, **options)


def add_colour_bar(picture: Any, axes: Any, label: str, **options: Any) -> None:
    """Draw the colour bar of an image beside ``axes``, which may be several that share its colours."""
    bar = picture.figure.colorbar(picture, ax=axes, pad=0.015, fraction=0.05, aspect=28, **options)
    bar.set_label(label)
    bar.outline.set_visible(False)


def save(figure: Any, path: str | Path | None, key: str) -> Figure:
    """Save a figure to ``path``, unless it is None; return the figure. Error messages begin with ``key``."""
    if path is not None:
        save_figure(figure, path, key, dpi=160)
    return figure


def _outline(axes: Axes, values: np.ndarray, x: np.ndarray, y: np.ndarray) -> None:
    """Draw lines between neighbouring grid cells whose ``values`` [y, x] differ."""
    from matplotlib.collections import LineCollection

    x, y = cell_edges(x), cell_edges(y)
    rows, columns = np.nonzero(values[:, 1:] != values[:, :-1])
    upright = np.stack([x[columns + 1], y[rows], x[columns + 1], y[rows + 1]], axis=1)
    rows, columns = np.nonzero(values[1:] != values[:-1])
    level = np.stack([x[columns], y[rows + 1], x[columns + 1], y[rows + 1]], axis=1)
    lines = np.concatenate([upright, level]).reshape(-1, 2, 2)
    axes.add_collection(LineCollection(list(lines), colors="#9be7ff", linewidths=0.8, alpha=0.75))


def _contours(
    axes: Axes, x: np.ndarray, y: np.ndarray, values: np.ndarray, top: float, decibels: Sequence[float]
) -> None:
    decibels = sorted(set(decibels))
    ensure(decibels[-1] < 0, "contours_db", f"{decibels[-1]:g} dB", "below 0")
    heights = {level: top * 10 ** (level / 20) for level in decibels}
    heights = {level: height for level, height in heights.items() if values.min() < height < values.max()}
    if not heights:
        return
    # The highest contour is solid.
    styles = [("solid", "dashed", "dotted")[k % 3] for k in range(len(heights))][::-1]
    line: dict[str, Any] = {"linewidth": 1.1, "color": "white"}
    axes.contour(x, y, values, list(heights.values()), colors="white", linewidths=1.1, linestyles=styles)
    for level, dashes in reversed(list(zip(heights, styles, strict=True))):
        axes.plot([], [], linestyle=dashes, label=f"{level:g} dB".replace("-", "−"), **line)
    box: dict[str, Any] = {"facecolor": "black", "framealpha": 0.55, "frameon": True, "edgecolor": "none"}
    axes.legend(loc="upper right", labelcolor="white", **box)
