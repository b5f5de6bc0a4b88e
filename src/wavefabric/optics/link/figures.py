"""Draws the figures of a link: Q², penalty, constellations, spectra at the receivers, power along z."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from wavefabric.base.errors import InputError
from wavefabric.base.files.hdf5 import reading
from wavefabric.base.files.output import made_folder, save_figure
from wavefabric.base.results.figure_style import (
    BAND,
    BLUE,
    COLOURS,
    GREEN,
    GREY,
    INK,
    MARKERS,
    RED,
    Axes,
    Figure,
    new_axes,
    style,
)
from wavefabric.base.results.file import Result, read_result
from wavefabric.optics.link.received_signals import (
    NOISELESS_DB,
    distance,
    expected_db,
    mean_db,
    mode_groups,
    numbers,
    position_name,
    q_squared_of,
    received,
)
from wavefabric.optics.link.signal_figures import constellation_figure, delay_figure, eye_figure, ratio_figure
from wavefabric.optics.signal.constellation import DIRECT

#: Largest number of spectra in one figure: the first, the last, and some between.
_MOST = 6


def plot_result(
    path: str | Path,
    out_dir: str | Path | None = None,
    suffix: str = "png",
    brief: bool = False,
    **signal: int,
) -> list[Path]:
    """Draw all figures for which the result file of a link has data; return their paths.

    The files ``<stem>-q2``, ``-penalty``, ``-constellation``, ``-eye``, ``-snr``, ``-spectrum``, ``-power``
    and ``-delays``, with ``suffix`` png, pdf or svg, are in ``out_dir``, created if missing, or next to the
    result. InputError if ``path`` is no result or has nothing to draw, or the folder cannot be used. With
    ``mode`` or ``channel``, from 1, only constellation and eye of this mode or channel are drawn. ``brief``
    leaves out eyes, except of direct detection in place of constellations, and ratios.
    """
    with reading(path):
        result = read_result(path)
        if not received(result):
            raise InputError(f"{path}: holds no received signals (/received), so there is nothing to draw")
    folder = result.path.parent if out_dir is None else Path(out_dir)
    signals = {"constellation": constellation_figure, "eye": eye_figure}
    drawn: dict[str, Callable[[Result], Figure | None]] = {
        "q2": q_squared_figure,
        "penalty": penalty_figure,
        **signals,
        "snr": ratio_figure,
        "spectrum": spectrum_figure,
        "power": power_figure,
        "delays": delay_figure,
    }
    if brief:
        signal_attrs = result.attrs("signal") if "signal" in result.groups() else {}
        formats = str(signal_attrs.get("modulation", "")).split(", ")
        drawn.pop("constellation" if set(formats) <= set(DIRECT) else "eye")
        drawn.pop("snr")
    if signal:
        drawn = {name: partial(draw, **signal) for name, draw in signals.items()}
    written = []
    with made_folder(folder), reading(path):
        for name, draw in drawn.items():
            if (figure := draw(result)) is not None:
                target = folder / f"{result.path.stem}-{name}.{suffix}"
                written.append(save_figure(figure, target, dpi=160))
    return written


def spectrum_figure(result: Result) -> Figure | None:
    """Draw the power spectral density, mean of the modes, at each receiver position; None without data."""
    names = [name for name in received(result) if f"received/{name}/spectrum" in result]
    if not names or "signal/spectrum_frequencies" not in result:
        return None
    frequencies = numbers(result, "signal/spectrum_frequencies", 1)
    if len(names) > _MOST:
        names = [names[k] for k in np.unique(np.linspace(0, len(names) - 1, _MOST).round().astype(int))]
    with style():
        axes = new_axes(8.4, 4.2)
        highest = -np.inf
        for k, name in enumerate(names):
            density = numbers(result, f"received/{name}/spectrum", 2)
            if density.shape[1] != len(frequencies):
                actual = f"has {density.shape[1]} bins; allowed: {len(frequencies)}"
                raise InputError(f"{result.path}: 'received/{name}/spectrum' {actual}")
            with np.errstate(divide="ignore"):
                level = 10 * np.log10(density.mean(axis=0) * 12.5e9 / 1e-3)
            highest = max(highest, float(level.max()))
            where = "sent" if name == "back_to_back" else f"{distance(result, name) / 1e3:g} km"
            colour = GREY if name == "back_to_back" else COLOURS[k % len(COLOURS)]
            axes.plot(
                frequencies / 1e12, level, color=colour, linewidth=1, label=where, drawstyle="steps-mid"
            )
        if not np.isfinite(highest):
            return None
        axes.set_ylim(highest - 60, highest + 3)
        axes.set(xlabel="optical frequency (THz)", ylabel="dBm in 12.5 GHz")
        axes.set_title("Spectrum, mean over the modes", pad=8)
        axes.legend(ncols=6, loc="lower right", bbox_to_anchor=(1.0, 1.0), borderaxespad=0)
    return axes.figure


def power_figure(result: Result) -> Figure | None:
    """Draw the mean power per mode along the link for each mode group; None with fewer than two positions."""
    import matplotlib as mpl

    if "along_z/power" not in result or "along_z/distance" not in result:
        return None
    z, power = numbers(result, "along_z/distance", 1), numbers(result, "along_z/power", 2)
    if len(z) != len(power):
        actual = f"has {len(power)} positions; allowed: {len(z)}, those of along_z/distance"
        raise InputError(f"{result.path}: 'along_z/power' {actual}")
    if len(z) < 2:
        return None
    groups = mode_groups(result, power.shape[1])
    different = np.unique(groups)
    with style():
        axes = new_axes(8.4, 4.2)
        colours = mpl.colormaps["viridis"](np.linspace(0, 0.85, len(different)))
        for number, colour in zip(different, colours, strict=True):
            with np.errstate(divide="ignore"):
                level = 10 * np.log10(power[:, groups == number].mean(axis=1) / 1e-3)
            axes.plot(z / 1e3, level, ".-", color=colour, linewidth=1.2, markersize=4, label=f"{number}")
        axes.set(xlabel="distance (km)", ylabel="dBm, mean of a mode, all channels")
        axes.set_title("Power along the link", pad=8)
        if len(different) > 1:
            axes.legend(title="mode group", ncols=2, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return axes.figure


def q_squared_figure(result: Result) -> Figure:
    """Draw each mode's Q² (minimum, mean, maximum) at the farthest receiver, as Brehler et al., figure 4."""
    name = received(result)[-1]
    q = q_squared_of(result, name)
    modes, channels = q.shape
    axes, x, size = _mode_axes(result, modes)
    low, high = q.min(axis=1), q.max(axis=1)
    if channels > 1:
        width = 0.45 * float(np.clip(60 / modes, 1.2, 8))
        axes.vlines(x, low, high, color=GREY, linewidth=width, alpha=0.55, zorder=2)
        axes.plot(x, high, "^", color=GREEN, markersize=size, label="maximum", zorder=3)
    axes.plot(x, mean_db(q), "o", color=BLUE, markersize=1.15 * size, label="mean", zorder=4)
    if (theory := expected_db(result, name, q.shape)) is not None:
        axes.plot(x, mean_db(theory), "_", color=INK, markersize=2.2 * size, label="theory", zorder=5)
    if channels > 1:
        axes.plot(x, low, "v", color=RED, markersize=size, label="minimum", zorder=3)
    axes.set_ylabel("Q² (dB)")
    count = f"over {channels} WDM channels" if channels > 1 else "of the channel"
    _finish(axes, f"Q² {count}, {position_name(result, name)}")
    return axes.figure


def penalty_figure(
    result: Result, extrapolated: Mapping[str, Sequence[float]] | None = None
) -> Figure | None:
    """Draw the mean Q² of each mode relative to back-to-back, for each distance, as Brehler et al., figure 5.

    Returns None without a back-to-back result, or if that was received without noise. ``extrapolated`` is a
    dictionary from receiver position to the penalty (dB) of each mode for a step that tends to zero; hollow
    markers show it.
    """
    names = received(result)
    if names[0] != "back_to_back" or len(names) < 2:
        return None
    reference = mean_db(q_squared_of(result, "back_to_back"))
    if np.any(reference > NOISELESS_DB):
        return None
    modes = len(reference)
    axes, x, size = _mode_axes(result, modes)
    size *= 1.15
    axes.axhline(0, color=GREY, linewidth=1, zorder=1)
    for k, name in enumerate(names[1:]):
        q = q_squared_of(result, name)
        if len(q) != modes:
            actual = f"has {len(q)} modes; allowed: {modes}, those of back_to_back"
            raise InputError(f"{result.path}: 'received/{name}/q_squared_db' {actual}")
        with np.errstate(invalid="ignore"):  # Lost in both: the penalty is unknown.
            penalty = mean_db(q) - reference
        marker, colour = MARKERS[k % len(MARKERS)], COLOURS[k % len(COLOURS)]
        label = f"{distance(result, name) / 1e3:g} km"
        axes.plot(x, penalty, marker, color=colour, markersize=size, label=label, zorder=3 + k)
        theory, sent = (expected_db(result, each, q.shape) for each in (name, "back_to_back"))
        if theory is not None and sent is not None:
            keywords = {"color": colour, "markersize": 2.2 * size, "zorder": 2.8}
            penalty = mean_db(theory) - mean_db(sent)
            axes.plot(x, penalty, "_", label="theory" if k == 0 else None, **keywords)
        if extrapolated and name in extrapolated:
            hollow = {"mec": colour, "mfc": "white", "mew": 0.9, "zorder": 2.5}
            axes.plot(x, extrapolated[name], marker, ms=size, label=f"{label}, step → 0", **hollow)
    axes.set_ylabel("mean Q² − back-to-back (dB)")
    # With extrapolated penalties the legend is twice as long and shares the title's line.
    _finish(axes, "Nonlinear penalty" if extrapolated else "Nonlinear penalty of each spatial mode")
    return axes.figure


def _mode_axes(result: Result, modes: int) -> tuple[Any, np.ndarray, float]:
    """Create axes over the spatial modes; return the axes, the abscissa of each mode, and a marker size.

    Every other mode group is shaded, with the group numbers on top.
    """
    groups = mode_groups(result, modes)
    with style():
        axes = new_axes(8.4, 4.4)
        ends = [0, *(np.flatnonzero(np.diff(groups)) + 1), modes]
        several = len(ends) > 2
        text = {"ha": "center", "va": "bottom", "fontsize": 8 if len(ends) > 9 else 9, "color": GREY}
        for k, (start, end) in enumerate(pairwise(ends)):
            if k % 2 == 0 and several:
                axes.axvspan(start + 0.5, end + 0.5, color=BAND, linewidth=0, zorder=0)
            above = axes.get_xaxis_transform()
            axes.text((start + end + 1) / 2, 1.012, str(groups[start]), transform=above, **text)
        axes.set(xlim=(0.5, modes + 0.5), xlabel="spatial mode (mode group on top)")
        every = 1 if modes <= 20 else 5 if modes <= 50 else 10
        axes.set_xticks([1, *range(max(2, every), modes + 1, every)])
    return axes, np.arange(1, modes + 1), float(np.clip(60 / modes + 2.2, 2.8, 6))


def _finish(axes: Axes, title: str) -> None:
    low, high = axes.get_ylim()
    axes.set_ylim(low - 0.02 * (high - low), high + 0.02 * (high - low))
    with style():
        axes.set_title(title)
        if len(axes.get_legend_handles_labels()[0]) > 1 or "penalty" in title:
            # Right of the title, above the group numbers.
            keywords = {"loc": "lower right", "bbox_to_anchor": (1.0, 1.05), "borderaxespad": 0}
            axes.legend(ncols=6, handletextpad=0.2, columnspacing=1.2, **keywords)
