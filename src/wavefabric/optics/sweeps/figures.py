"""Draw a parameter sweep: a quantity over one axis or distance, a line for each point of the other axes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wavefabric.base.errors import InputError
from wavefabric.base.files.hdf5 import reading
from wavefabric.base.files.output import made_folder, save_figure
from wavefabric.base.results.figure_style import (
    COLOURS,
    GREY,
    MARKERS,
    Axes,
    Figure,
    new_axes,
    plain_text,
    style,
)
from wavefabric.optics.link.received_signals import NOISELESS_DB
from wavefabric.optics.sweeps.result import SweepResult, mean

_Q, _PENALTY, _DISTANCE = "q_squared_db", "penalty_db", "distance"
_LABELS = {_Q: "Q² (dB)", _PENALTY: "Q² − back-to-back (dB)", "evm": "EVM", "delay": "delay (symbols)"}
_LABELS |= {"ber_counted": "bit error ratio, counted", "ber_from_q": "bit error ratio from Q²"}
#: Axes that only change the randomness: a figure shows the mean over them.
_SEEDS = ("seed", "receiver.noise_seed")
#: Largest number of lines in the legend.
_MOST_NAMED = 12


@dataclass(frozen=True)
class SweepFigure:
    """Describes a figure: a quantity (default Q²) over an axis of a sweep (default the first) or "distance".

    ``mode`` and ``channel``, from 1, select signals, by default all. Their mean is drawn (of Q² in linear
    units), with a band from the minimum to the maximum.
    """

    quantity: str = _Q
    over: str | None = None
    mode: int | None = None
    channel: int | None = None


def plot_sweep(
    result: SweepResult, out_dir: str | Path | None = None, suffix="png", figure: SweepFigure | None = None
) -> list[Path]:
    """Draw ``figure``, or Q² over the first axis and the penalty over distance; return the files' paths.

    Files ``<stem>-<quantity>-over-<axis>`` are in ``out_dir``, created if missing, or next to the result.
    InputError for a quantity, an axis, a mode or a channel that the result does not contain.
    """
    figures = [figure or SweepFigure()]
    folder, written = result.path.parent if out_dir is None else Path(out_dir), []
    with made_folder(folder), reading(result.path):
        if figure is None and len(result["position"]) > 2 and np.isfinite(_values(result, _PENALTY)).any():
            figures.append(SweepFigure(_PENALTY, _DISTANCE))
        for each in figures:
            axis = (each.over or next(iter(result.axes))).rpartition(".")[2]
            name = f"{result.path.stem}-{each.quantity}-over-{axis}.{suffix}".replace("_", "-")
            written.append(save_figure(draw_sweep(result, each), folder / name, dpi=160))
    return written


def draw_sweep(result: SweepResult, figure: SweepFigure) -> Figure:
    """Return the figure of one quantity; its theory, if in the file, is a dashed line in the same colour."""
    axis = figure.over or next(iter(result.axes))
    if axis not in (allowed := [*result.axes, _DISTANCE]):
        raise InputError(f"--over: {axis} given; allowed: {', '.join(allowed)}")
    values = _values(result, figure.quantity)
    centre, low, high = _reduced(result, figure, axis, values)
    theory = _theory(result) if figure.quantity == _Q else np.full_like(values, np.nan)
    expected = _reduced(result, figure, axis, theory)[0]
    shape, names = centre.shape[:-1], [name for name in result.axes if name not in (axis, *_SEEDS)]
    with style():
        axes = new_axes(8.8, 4.6)
        x = _abscissa(result, axis, centre.shape, axes)
        for line in np.ndindex(shape):
            keep = np.flatnonzero(np.isfinite(centre[line]))
            keep = keep[np.argsort(x[line][keep], kind="stable")]
            x_values, (colour, marker) = x[line][keep], _style_of(line, shape)
            axes.plot(x_values, centre[line][keep], color=colour, marker=marker, ms=4.5, lw=1.4, zorder=3)
            alpha = 0.25 / np.prod(shape) ** 0.75
            axes.fill_between(x_values, low[line][keep], high[line][keep], color=colour, alpha=alpha, lw=0)
            if np.isfinite(expected[line]).any():
                axes.plot(x_values, expected[line][keep], "--", color=colour, lw=1.4, zorder=4)
        for number, name in enumerate(names):
            for i in range(min(_MOST_NAMED, len(result.axes[name]))):
                colour, marker = _style_of(tuple(i if k == number else 0 for k in range(len(names))), shape)
                keywords: Any = {"color": GREY, "marker": marker} if number else {"color": colour}
                label = plain_text(f"{name.rpartition('.')[2]} {result.label(name, i)}")
                axes.plot([], [], label=label, ms=4.5, lw=1.4, **keywords)
        if np.isfinite(expected).any():
            axes.plot([], [], "--", color=GREY, label="theory")
        if figure.quantity == _PENALTY:
            axes.axhline(0, color=GREY, lw=1, zorder=1)
        if figure.quantity.startswith("ber") and np.fmin.reduce(low, None) > 0:
            axes.set_yscale("log")
        axes.set_ylabel(_LABELS.get(figure.quantity, figure.quantity))
        axes.set_title(_title(result, figure, axis, values.shape[-2:]), pad=10)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize=8.5, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return axes.figure


def _style_of(line: tuple[int, ...], shape: tuple[int, ...]) -> tuple[Any, str]:
    """Return the colour and marker of a curve from ``line``, its index along the axes that are not drawn.

    The first of these axes sets the colour, all others the marker.
    """
    import matplotlib as mpl

    if not line:
        return COLOURS[0], MARKERS[0]
    marker = MARKERS[int(np.ravel_multi_index((0, *line[1:]), shape)) % len(MARKERS)]
    if shape[0] <= len(COLOURS):
        return COLOURS[line[0]], marker
    return mpl.colormaps["viridis"](0.92 * line[0] / (shape[0] - 1)), marker


def _values(result: SweepResult, quantity: str) -> np.ndarray:
    """Return a quantity as an array over the axes of the sweep, receiver positions, modes and channels.

    Modes and channels have length 1 if the quantity does not depend on them.
    """
    axis, names = len(result.shape), list(result["position"])
    values = result.numbers(_Q if quantity == _PENALTY else quantity)
    if values.ndim - axis in (0, 2):  # a number of the solver, or the launch power
        values = np.repeat(np.expand_dims(values, axis), len(names), axis)
    if quantity == _PENALTY:
        sent = np.array([name == "back_to_back" for name in names])[:, None, None]
        reference = np.fmax.reduce(np.where(sent, values, np.nan), axis, keepdims=True)
        return np.where((reference <= NOISELESS_DB) & ~sent, values - reference, np.nan)
    return values if values.ndim - axis > 1 else values[..., None, None]


def _theory(result: SweepResult) -> np.ndarray:
    """Return Q² from theory in the shape of received Q², NaN where the file has none."""
    out = np.full_like(result.numbers(_Q), np.nan)
    for number, name in enumerate(result["position"]):
        if (key := f"theory/{name}/{_Q}") in result:
            values = result.numbers(key)
            out[..., number, :, :] = values if values.ndim > len(result.shape) else values[..., None, None]
    return out


def _reduced(result: SweepResult, figure: SweepFigure, abscissa: str, values: np.ndarray) -> list[np.ndarray]:
    """Return mean, minimum and maximum of ``values`` over the selected modes and channels and all seeds.

    Each is an array over the other axes, then over the abscissa ``abscissa``.
    """
    for name, number, axis in (("mode", figure.mode, -2), ("channel", figure.channel, -1)):
        if number is not None:
            if not 1 <= number <= values.shape[axis]:
                allowed = f"1 to {values.shape[axis]} for {figure.quantity}"
                raise InputError(f"--{name}: {number} given; allowed: {allowed}")
            values = np.take(values, [number - 1], axis)
    names = list(result.axes)
    if abscissa != _DISTANCE:
        values = np.moveaxis(result.at_farthest(values), names.index(abscissa), len(names) - 1)
        names.remove(abscissa)
    seeds = (number for number, name in enumerate(names) if name in _SEEDS)
    axis = (*seeds, values.ndim - 2, values.ndim - 1)
    ends = np.fmin.reduce(values, axis), np.fmax.reduce(values, axis)
    return [mean(values, axis, figure.quantity == _Q), *ends]


def _abscissa(result: SweepResult, axis: str, shape: tuple[int, ...], axes: Axes) -> np.ndarray:
    """Set label, scale and ticks of the abscissa of ``axes``; return the abscissa values of each curve."""
    if axis == _DISTANCE:
        axes.set_xlabel("distance (km)")
        return _reduced(result, SweepFigure(_DISTANCE), axis, _values(result, _DISTANCE))[0] / 1e3
    x, unit = np.asarray(result.axes[axis]), result.attrs(axis)["units"]
    axes.set_xlabel(f"{axis} ({unit})" if unit else axis)
    if x.dtype.kind not in "fiu":
        axes.set_xticks(range(len(x)), [plain_text(text) for text in x])
        return np.broadcast_to(np.arange(len(x)), shape)
    ordered = np.unique(x)
    if len(ordered) > 2 and ordered[0] > 0 and np.ptp(np.diff(np.log(ordered))) < 0.05:  # e.g. halved steps
        axes.set_xscale("log")
        axes.set_xticks(ordered, [f"{value:g}" for value in ordered])
        axes.minorticks_off()
    return np.broadcast_to(x.astype(float), shape)


def _title(result: SweepResult, figure: SweepFigure, axis: str, signals: tuple[int, ...]) -> str:
    """Return a title that says over which signals mean and range are taken, and where."""
    chosen = ("mode", figure.mode, signals[0]), ("channel", figure.channel, signals[1])
    many = [f"{name} {number}" if number else f"{n} {name}s" for name, number, n in chosen if number or n > 1]
    many += [f"{len(result.axes[name])} seeds" for name in result.axes if name in _SEEDS and name != axis]
    where = "" if axis == _DISTANCE else " at the farthest receiver position"
    return f"Mean and range of {', '.join(many)}{where}" if many else ""
