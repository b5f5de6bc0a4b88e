"""Draws what a sensor recorded: fields as slices, time series, and one value per sensor point as a line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from wavefabric.acoustics.pictures.fields import add_colour_bar, save, show_image
from wavefabric.acoustics.pictures.recorded import RecordedArray, RecordedFile
from wavefabric.acoustics.recording.quantities import describe, vector_of
from wavefabric.base.errors import InputError, ensure
from wavefabric.base.results.figure_style import BLUE, GREY, Axes, Figure, new_axes, style
from wavefabric.base.units import show

#: Largest number of points whose time series are drawn as stacked curves, and not as a picture.
CURVES = 12
_MOST_POINTS, _MOST_SAMPLES = 1500, 3000
#: A field counts as positive if its values below zero are at most this fraction of its peak.
_SIGNED = 0.02
_SEQUENTIAL, _DIVERGING = "magma", "RdBu_r"
#: For each SI unit the quantity and the units in which it is shown.
_SCALES = {
    "Pa": ("pressure", ((1e6, "MPa"), (1e3, "kPa"), (1.0, "Pa"))),
    "rad": ("phase", ((1.0, "rad"),)),
    "m/s": ("particle velocity", ((1.0, "m/s"), (1e-3, "mm/s"), (1e-6, "µm/s"), (1e-9, "nm/s"))),
    "W/m^2": ("intensity", ((1e4, "W/cm²"), (1e1, "mW/cm²"), (1e-2, "µW/cm²"))),
}


def plot_recorded(
    file: RecordedFile, targets: Mapping[str, Path], cuts: Mapping[str, float] | None = None
) -> tuple[list[Path], dict[str, InputError]]:
    """Draw quantities of a file, one figure each; ``targets`` maps their names to the files to write.

    3-D fields are drawn as slices at the coordinates ``cuts``, a dictionary from axis letter to m, or else
    through the largest magnitude. Return the paths of the pictures drawn, and a dictionary from name to
    error for the quantities that could not be drawn.
    """
    drawn: list[Path] = []
    faults: dict[str, InputError] = {}
    _check_cuts(file, cuts or {})
    for name, target in targets.items():
        try:
            with file.reading(name):
                figure = recorded_figure(file, name, cuts)
        except InputError as error:
            faults[name] = error
            continue
        save(figure, target, "--output")
        drawn.append(target)
    return drawn, faults


def recorded_figure(file: RecordedFile, name: str, cuts: Mapping[str, float] | None = None) -> Figure:
    """Return the figure of the recorded array ``name``.

    A field is drawn as a line in 1-D, a plane in 2-D, and three orthogonal slices in 3-D. Its colours start
    at zero if it is positive, and are symmetric about zero if it is not. A time series is drawn as curves, or
    for many points as a picture of points over time. Single values at sensor points are drawn as a line, and
    in a sensor box like a field.
    """
    item = file.items[name]
    with style(**{"axes.titlepad": 8, "axes.grid": False}):
        if item.kind == "series":
            return _series(item)
        if item.kind == "points":
            return _line(item, np.arange(item.size[0]), "point of the sensor (from 0)")
        extended = [axis for axis, n in enumerate(item.size) if n > 1]
        if len(extended) < 2:
            axis = extended[0] if extended else 0
            return _line(item, item.coordinates(axis) * 1e3, _label(item, axis))
        return _slices(item, extended, cuts or {})


def select_quantities(file: RecordedFile, quantities: Sequence[str]) -> list[str]:
    """Return the names of a file's arrays that belong to ``quantities``; of all arrays if it is empty."""
    if not quantities:
        return list(file.items)
    names: list[str] = []
    for quantity in quantities:
        matches = [name for name in file.items if quantity in (name, name.partition("/")[0], vector_of(name))]
        ensure(matches, "--quantity", f"{show(quantity)} is not in {file.path}", ", ".join(file.items))
        names += matches
    return list(dict.fromkeys(names))


def _title(item: RecordedArray) -> str:
    text = describe(item.name)[1]
    if (frequency := item.frequency()) is not None:
        text = text.replace("a frequency", f"{frequency / 1e6:.4g} MHz")
    return f"{item.name}: {text}"


def scale_of(item: RecordedArray, top: float) -> tuple[float, str, str]:
    """Choose a unit, such as MPa, that suits values up to ``top``; return factor, label and unit.

    The factor converts from SI units. The label names the quantity and the unit.
    """
    quantity, scales = _SCALES[describe(item.name)[0]]
    size, unit = next(((size, unit) for size, unit in scales if top >= 0.1 * size), scales[-1])
    if not top:
        size, unit = scales[0]
    return 1 / size, f"{quantity} ({unit})", unit


def colours_of(low: float, high: float) -> dict[str, Any]:
    top = max(-low, high)
    if top <= 0:
        return {"cmap": _SEQUENTIAL, "vmin": 0, "vmax": 1}
    if low >= -_SIGNED * top:
        return {"cmap": _SEQUENTIAL, "vmin": 0, "vmax": top}
    if high <= _SIGNED * top:
        return {"cmap": f"{_SEQUENTIAL}_r", "vmin": -top, "vmax": 0}
    return {"cmap": _DIVERGING, "vmin": -top, "vmax": top}


def _slices(item: RecordedArray, extended: list[int], cuts: Mapping[str, float]) -> Figure:
    """Draw a 2-D field as one picture, or a 3-D field or box as slices perpendicular to its axes.

    ``extended`` are the axes with more than one point. With two such axes there is only one slice.
    """
    low, high, peak = item.extremes()
    scale, label, unit = scale_of(item, max(-low, high))
    colours = colours_of(low * scale, high * scale)
    if unit == "rad":
        colours = {"cmap": "twilight", "vmin": -np.pi, "vmax": np.pi}
    dimensions = len(item.size)
    millimetres = [item.coordinates(axis) * 1e3 for axis in range(dimensions)]
    cut_index = _cuts(item, peak, cuts)
    # A flat box has only one plane.
    normals = [2] if dimensions == 2 else [n for n in (2, 1, 0) if len(extended) == 3 or n not in extended]
    pairs = [tuple(axis for axis in range(dimensions) if axis != normal) for normal in normals]
    figure, panels = _panels([tuple(float(np.ptp(millimetres[a])) + 1e-12 for a in pair) for pair in pairs])
    picture: Any = None
    for axes, normal, (right, vertical) in zip(panels, normals, pairs, strict=True):
        values = item.plane(normal, cut_index[normal] if dimensions == 3 else 0) * scale
        x, y = millimetres[right], millimetres[vertical]
        picture = show_image(axes, values.T, x, y, interpolation="nearest", aspect="equal", **colours)
        axes.set(xlabel=_label(item, right), ylabel=_label(item, vertical))
        if len(pairs) > 1:
            title = f"{'xyz'[normal]} = {millimetres[normal][cut_index[normal]]:.3g} mm".replace("-", "−")
            axes.set_title(title, fontsize=9)
            line: dict[str, Any] = {"color": GREY, "linewidth": 0.6, "linestyle": (0, (4, 4)), "alpha": 0.8}
            axes.axvline(x[cut_index[right]], **line)
            axes.axhline(y[cut_index[vertical]], **line)
    add_colour_bar(picture, list(panels), label)
    spot = ", ".join(f"{millimetres[axis][n]:.3g}" for axis, n in enumerate(peak))
    value = (high if high >= -low else low) * scale
    text = _title(item)
    if unit != "rad":
        text += f"\nlargest: {value:.4g} {unit} at ({spot}) mm"
    figure.suptitle(text.replace("-", "−"), x=0.01, ha="left", fontsize=10)
    return figure


def _panels(lengths: list[tuple[float, ...]]) -> tuple[Figure, Any]:
    """Return a figure and its axes in a row, for planes of given side ``lengths`` (horizontal, vertical)."""
    from matplotlib.figure import Figure

    height = 2.9 if len(lengths) > 1 else 4.6
    widths = [float(np.clip(right / up, 0.3, 3.0)) for right, up in lengths]
    width = float(np.clip(height * sum(widths) + 0.9 * len(lengths) + 1.0, 5.6, 13.0))
    figure = Figure(figsize=(width, height + 0.9), layout="constrained")
    return figure, figure.subplots(1, len(lengths), squeeze=False, width_ratios=widths)[0]


def _cuts(item: RecordedArray, peak: tuple[int, ...], cuts: Mapping[str, float]) -> list[int]:
    """Return the index along each axis at which a field is sliced: that of its peak, or nearest to ``cuts``.

    ``cuts`` is a dictionary from axis letter to coordinate, m.
    """
    index = list(peak)
    if item.kind != "field" or len(peak) < 3:
        return index
    _check_cuts(item.file, cuts)
    for name, coordinate in cuts.items():
        axis = "xyz".index(name)
        index[axis] = int(np.argmin(np.abs(item.coordinates(axis) - coordinate)))
    return index


def _check_cuts(file: RecordedFile, cuts: Mapping[str, float]) -> None:
    for name, coordinate in cuts.items():
        axis = "xyz".index(name)
        count, step, origin = file.shape[axis], file.spacing[axis], file.origin(axis)
        first, last = -origin * step, (count - 1 - origin) * step
        if not first - step / 2 <= coordinate <= last + step / 2:
            raise InputError(
                f"--slice: {name}={coordinate * 1e3:g}mm is outside the grid; allowed: {first * 1e3:.4g} to "
                f"{last * 1e3:.4g} mm"
            )


def _label(item: RecordedArray, axis: int) -> str:
    return f"{'xyz'[axis]} (mm)" if item.kind == "field" else f"{'xyz'[axis]} in the box (mm)"


def _series(item: RecordedArray) -> Figure:
    count, samples = item.size
    if not count or not samples:
        raise item.fault("is empty, so there is nothing to draw")
    values, points, time = item.series(_MOST_POINTS, _MOST_SAMPLES)
    if not np.isfinite(values).all():
        raise item.fault("has values that are not finite")
    scale, label, unit = scale_of(item, float(np.abs(values).max()))
    values, time = values * scale, time * 1e6
    axes = new_axes(8.4, 4.8)
    if count <= CURVES:
        _curves(axes, time, values, points, label, unit)
    else:
        top = float(np.abs(values).max()) or 1.0
        colours = colours_of(-top if values.min() < -_SIGNED * top else 0.0, top)
        picture = show_image(axes, values, time, points, aspect="auto", interpolation="nearest", **colours)
        add_colour_bar(picture, axes, label)
        axes.set_ylabel(f"point of the {'box' if '/' in item.name else 'sensor'} (from 0)")
    axes.set_xlabel("time (µs)")
    thinned = (("point", -(-count // _MOST_POINTS)), ("sample", -(-samples // _MOST_SAMPLES)))
    note = "; ".join(f"one {what} in {n}" for what, n in thinned if n > 1)
    axes.set_title(_title(item) + (f" ({note})" if note else ""), fontsize=10)
    return axes.figure  # type: ignore[return-value]


def _curves(
    axes: Axes, time: np.ndarray, values: np.ndarray, points: np.ndarray, label: str, unit: str
) -> None:
    """Draw the time series of each point as a curve, one above the other, all to the same scale."""
    if len(values) == 1:
        axes.plot(time, values[0], color=BLUE, linewidth=1.2)
        axes.set_ylabel(label)
    else:
        offset = 1.1 * max(float(np.ptp(line)) for line in values) or 1.0
        for k, line in enumerate(values):
            axes.axhline(k * offset, color=GREY, linewidth=0.5, alpha=0.5)
            axes.plot(time, line + k * offset, color=BLUE, linewidth=1.0)
        axes.set_yticks([k * offset for k in range(len(values))], [str(n) for n in points])
        axes.set_ylabel(f"point of the sensor (from 0); apart by {offset:.3g} {unit}")
    axes.set_xlim(time[0], time[-1] if len(time) > 1 else time[0] + 1)


def _line(item: RecordedArray, x: np.ndarray, xlabel: str) -> Figure:
    from matplotlib.ticker import MaxNLocator

    values = item.values()
    if not values.size or not np.isfinite(values).all():
        raise item.fault("is empty, or has values that are not finite; nothing is drawn")
    scale, label, _ = scale_of(item, float(np.abs(values).max()))
    axes = new_axes(7.6, 3.8)
    marker = "o" if values.size <= 100 else None
    axes.plot(x, values * scale, color=BLUE, linewidth=1.2, marker=marker, markersize=3.5)
    axes.axhline(0, color=GREY, linewidth=0.6)
    axes.grid(True, axis="y")
    axes.set(xlabel=xlabel, ylabel=label)
    if item.kind == "points":
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_title(_title(item), fontsize=10)
    return axes.figure  # type: ignore[return-value]
