"""Pictures of what a run recorded: fields as slices, time series over the sensor's points, values a point.

Matplotlib is imported when a figure is drawn, with the Agg backend, so that no display is needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wavefabric.acoustics.pictures.recorded import Item, Recorded
from wavefabric.acoustics.result import meaning
from wavefabric.errors import InputError
from wavefabric.results.plots import BLUE, GREY, STYLE
from wavefabric.units import show

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Up to so many points a time series is drawn as curves above one another, beyond as a picture.
CURVES = 12
_MOST_POINTS, _MOST_SAMPLES = 1500, 3000
#: A field with no more than this part of its peak below zero is a positive one.
_SIGNED = 0.02
_SEQUENTIAL, _DIVERGING = "magma", "RdBu_r"
_SCALES = {
    "Pa": ((1e6, "MPa"), (1e3, "kPa"), (1.0, "Pa")),
    "m/s": ((1.0, "m/s"), (1e-3, "mm/s"), (1e-6, "µm/s"), (1e-9, "nm/s")),
    "W/m^2": ((1e4, "W/cm²"), (1e1, "mW/cm²"), (1e-2, "µW/cm²")),
}


def plot_recorded(
    file: Recorded,
    targets: Mapping[str, Path],
    places: Mapping[str, float] | None = None,
) -> list[Path]:
    """Draw quantities of a file, a figure each.

    Parameters
    ----------
    file : Recorded
    targets : mapping of str to Path
        Name of a quantity to the picture (PNG, PDF or SVG by its ending; 160 dots per inch).
    places : mapping of str to float, optional
        Where fields in 3-D are cut, m by axis (``{"x": 1e-3}``), in the grid's coordinates; through the
        largest magnitude by default.

    Returns
    -------
    list of Path

    Raises
    ------
    InputError
        If a place is outside the grid, a value not finite, or a picture cannot be written.
    """
    written = []
    for name, target in targets.items():
        figure = recorded_figure(file, name, places)
        try:
            figure.savefig(target, dpi=160)
        except OSError as error:
            raise InputError(f"--output: {target} cannot be written ({error.strerror})") from None
        written.append(target)
    return written


def recorded_figure(file: Recorded, name: str, places: Mapping[str, float] | None = None) -> Figure:
    """The figure of one quantity.

    A field: one plane in 2-D, three orthogonal slices in 3-D; colours from zero upwards where it is positive,
    to both sides of zero where it is not. A time series: curves, or a picture of points over time. Values of
    a sensor's points: a line; of a box: as a field.
    """
    import matplotlib as mpl

    item = file.items[name]
    with mpl.rc_context({**STYLE, "axes.titlepad": 8, "axes.grid": False}):
        if item.kind == "series":
            return _series(file, item)
        size = file.size(item)
        if item.kind == "points":
            return _line(item, file.values(item), np.arange(size[0]), "point of the sensor (from 0)")
        long = [axis for axis, n in enumerate(size) if n > 1]
        if len(long) < 2:
            axis = long[0] if long else 0
            return _line(item, file.values(item), _coordinates(file, item, axis) * 1e3, _label(item, axis))
        return _slices(file, item, size, long, places or {})


# --- Fields ------------------------------------------------------------------------------------------


def _slices(
    file: Recorded, item: Item, size: tuple[int, ...], long: list[int], places: Mapping[str, float]
) -> Figure:
    from matplotlib.figure import Figure

    low, high, peak = file.extremes(item)
    scale, label = _scale(item, max(-low, high))
    colours = _colours(low * scale, high * scale)
    where = [_coordinates(file, item, axis) * 1e3 for axis in range(len(size))]
    at = _cuts(file, item, peak, places)
    # A box may be flat; then its plane is the only one.
    normals = [n for n in range(3) if n not in long] if len(size) == 3 and len(long) == 2 else [2, 1, 0]
    normals = [2] if len(size) == 2 else normals
    pairs = [tuple(axis for axis in range(len(size)) if axis != normal) for normal in normals]
    lengths = [[float(np.ptp(where[axis])) + 1e-12 for axis in pair] for pair in pairs]
    height = 2.9 if len(pairs) > 1 else 4.6
    widths = [float(np.clip(right / up, 0.3, 3.0)) for right, up in lengths]
    width = float(np.clip(height * sum(widths) + 0.9 * len(pairs) + 1.0, 5.6, 13.0))
    figure = Figure(figsize=(width, height + 0.9), layout="constrained")
    panels = figure.subplots(1, len(pairs), squeeze=False, width_ratios=widths)[0]
    picture: Any = None
    for axes, normal, (right, up) in zip(panels, normals, pairs, strict=True):
        values = file.plane(item, normal, at[normal] if len(size) == 3 else 0) * scale
        edges = [*_ends(where[right]), *_ends(where[up])]
        picture = axes.imshow(
            values.T, origin="lower", extent=edges, interpolation="nearest", aspect="equal", **colours
        )
        axes.set(xlabel=_label(item, right), ylabel=_label(item, up))
        if len(pairs) > 1:
            axes.set_title(
                f"{'xyz'[normal]} = {where[normal][at[normal]]:.3g} mm".replace("-", "−"), fontsize=9
            )
            for draw, axis in ((axes.axvline, right), (axes.axhline, up)):
                draw(where[axis][at[axis]], color=GREY, linewidth=0.6, linestyle=(0, (4, 4)), alpha=0.8)
    bar = figure.colorbar(picture, ax=list(panels), pad=0.015, fraction=0.05, aspect=28)
    bar.set_label(label)
    bar.outline.set_visible(False)  # type: ignore[operator]
    spot = ", ".join(f"{where[axis][n]:.3g}" for axis, n in enumerate(peak))
    value = (high if high >= -low else low) * scale
    unit = label[label.rindex("(") + 1 : -1]
    words = f"{item.name}: {meaning(item.name)[1]}\nlargest: {value:.4g} {unit} at ({spot}) mm"
    figure.suptitle(words.replace("-", "−"), x=0.01, ha="left", fontsize=10)
    return figure


def _cuts(file: Recorded, item: Item, peak: tuple[int, ...], places: Mapping[str, float]) -> list[int]:
    at = list(peak)
    if item.kind != "field" or len(peak) < 3:
        return at
    for name, place in places.items():
        axis = "xyz".index(name)
        where = _coordinates(file, item, axis)
        half = abs(where[1] - where[0]) / 2
        if not where[0] - half <= place <= where[-1] + half:
            raise InputError(
                f"--slice: {name}={place * 1e3:g}mm is outside the grid; allowed: {where[0] * 1e3:.4g} to "
                f"{where[-1] * 1e3:.4g} mm"
            )
        at[axis] = int(np.argmin(np.abs(where - place)))
    return at


def _coordinates(file: Recorded, item: Item, axis: int) -> np.ndarray:
    """m: in the grid from its point N // 2, in a box from its first point."""
    count = file.size(item)[axis]
    return (np.arange(count) - (count // 2 if item.kind == "field" else 0)) * file.spacing[axis]


def _label(item: Item, axis: int) -> str:
    return f"{'xyz'[axis]} (mm)" if item.kind == "field" else f"{'xyz'[axis]} in the box (mm)"


def _ends(middles: np.ndarray) -> tuple[float, float]:
    half = (middles[-1] - middles[0]) / (2 * (len(middles) - 1))
    return float(middles[0] - half), float(middles[-1] + half)


def _colours(low: float, high: float) -> dict[str, Any]:
    top = max(-low, high)
    if top <= 0:
        return {"cmap": _SEQUENTIAL, "vmin": 0, "vmax": 1}
    if low >= -_SIGNED * top:
        return {"cmap": _SEQUENTIAL, "vmin": 0, "vmax": top}
    if high <= _SIGNED * top:
        return {"cmap": f"{_SEQUENTIAL}_r", "vmin": -top, "vmax": 0}
    return {"cmap": _DIVERGING, "vmin": -top, "vmax": top}


# --- Sensors -----------------------------------------------------------------------------------------


def _series(file: Recorded, item: Item) -> Figure:
    from matplotlib.figure import Figure

    count, samples = file.size(item)
    if not count or not samples:
        raise InputError(f"{file.path}: '{item.name}' is empty, so there is nothing to draw")
    values, points, time = file.series(item, _MOST_POINTS, _MOST_SAMPLES)
    if not np.isfinite(values).all():
        raise InputError(f"{file.path}: '{item.name}' has values that are not finite")
    scale, label = _scale(item, float(np.abs(values).max()))
    values, micro = values * scale, time * 1e6
    figure = Figure(figsize=(8.4, 4.8), layout="constrained")
    axes: Axes = figure.add_subplot()
    if count <= CURVES:
        _curves(axes, micro, values, points, label)
    else:
        top = float(np.abs(values).max()) or 1.0
        step = points[1] - points[0]
        left, right = _ends(micro) if len(micro) > 1 else (micro[0] - 0.5, micro[0] + 0.5)
        picture = axes.imshow(
            values,
            origin="lower",
            aspect="auto",
            interpolation="nearest",
            extent=(left, right, -0.5 * step, points[-1] + 0.5 * step),
            **_colours(-top, top) if values.min() < -_SIGNED * top else _colours(0.0, top),
        )
        bar = figure.colorbar(picture, ax=axes, pad=0.015, fraction=0.05, aspect=28)
        bar.set_label(label)
        bar.outline.set_visible(False)  # type: ignore[operator]
        axes.set_ylabel(f"point of the {'box' if '/' in item.name else 'sensor'} (from 0)")
    axes.set_xlabel("time (µs)")
    thinned = (("point", -(-count // _MOST_POINTS)), ("sample", -(-samples // _MOST_SAMPLES)))
    notes = [f"one {what} in {n}" for what, n in thinned if n > 1]
    _title(axes, item, "; ".join(notes))
    return figure


def _curves(axes: Axes, time: np.ndarray, values: np.ndarray, points: np.ndarray, label: str) -> None:
    """Curves above one another, all to the same scale."""
    if len(values) == 1:
        axes.plot(time, values[0], color=BLUE, linewidth=1.2)
        axes.set_ylabel(label)
    else:
        reach = 1.1 * max(float(np.ptp(line)) for line in values) or 1.0
        for k, line in enumerate(values):
            axes.axhline(k * reach, color=GREY, linewidth=0.5, alpha=0.5)
            axes.plot(time, line + k * reach, color=BLUE, linewidth=1.0)
        axes.set_yticks([k * reach for k in range(len(values))], [str(n) for n in points])
        unit = label[label.rindex("(") + 1 : -1]
        axes.set_ylabel(f"point of the sensor (from 0); apart by {reach:.3g} {unit}")
    axes.set_xlim(time[0], time[-1] if len(time) > 1 else time[0] + 1)


def _line(item: Item, values: np.ndarray, where: np.ndarray, xlabel: str) -> Figure:
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    if not values.size or not np.isfinite(values).all():
        raise InputError(f"'{item.name}': is empty, or has values that are not finite; nothing is drawn")
    scale, label = _scale(item, float(np.abs(values).max()))
    figure = Figure(figsize=(7.6, 3.8), layout="constrained")
    axes: Axes = figure.add_subplot()
    few = values.size <= 100
    axes.plot(where, values * scale, color=BLUE, linewidth=1.2, marker="o" if few else None, markersize=3.5)
    axes.axhline(0, color=GREY, linewidth=0.6)
    axes.grid(True, axis="y")
    axes.set(xlabel=xlabel, ylabel=label)
    if item.kind == "points":
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    _title(axes, item, "")
    return figure


def _title(axes: Axes, item: Item, note: str) -> None:
    axes.set_title(f"{item.name}: {meaning(item.name)[1]}" + (f" ({note})" if note else ""), fontsize=10)


def _scale(item: Item, top: float) -> tuple[float, str]:
    """What values are multiplied with, and the label of their axis."""
    unit, _ = meaning(item.name)
    scales = _SCALES[unit]
    size, name = next(((size, name) for size, name in scales if top >= 0.1 * size), scales[-1])
    if not top:
        size, name = scales[0]
    quantity = {"Pa": "pressure", "m/s": "particle velocity", "W/m^2": "intensity"}[unit]
    return 1 / size, f"{quantity} ({name})"


def chosen(file: Recorded, asked: Sequence[str]) -> list[str]:
    """Names of the quantities asked for, ``u_final`` for its components, ``p`` for all boxes; all if none is.

    Raises
    ------
    InputError
        If one is not in the file.
    """
    if not asked:
        return list(file.items)
    found: list[str] = []
    for word in asked:
        names = [name for name in file.items if word in (name, name.partition("/")[0], _vector(name))]
        if not names:
            raise InputError(
                f"--quantity: {show(word)} is not in {file.path}; allowed: {', '.join(file.items)}"
            )
        found += [name for name in names if name not in found]
    return found


def _vector(name: str) -> str:
    """``u_max`` for ``ux_max/1``."""
    stem, line, rest = name.partition("/")[0].partition("_")
    return (stem[0] if stem[0] in "uI" else stem) + line + rest
