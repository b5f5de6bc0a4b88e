"""Draw all figures of a link; this module adds spectra at the receivers, and power along the fibre."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from wavefabric.base.errors import InputError
from wavefabric.base.files.hdf5 import reading
from wavefabric.base.files.output import made_folder, save_figure
from wavefabric.base.results import plots
from wavefabric.base.results.file import Result, read_result
from wavefabric.base.results.plots import COLOURS, GREY, distance, mode_groups, numbers, received

#: Spectra in one figure: the first, the last, and some between.
_MOST = 6


def plot_result(
    path: str | Path, out_dir: str | Path | None = None, suffix: str = "png", **signal: int
) -> list[Path]:
    """Draw all figures for which the result file of a link has data; return their paths.

    These are ``<stem>-q2``, ``-penalty``, ``-constellation``, ``-spectrum`` and ``-power``, ``suffix`` png,
    pdf or svg, in ``out_dir``, created if missing, or next to the result. InputError if the file is no result
    or has nothing to draw, or the folder cannot be used. With ``mode`` or ``channel``, from 1, only their
    constellation is drawn.
    """
    with reading(path):
        result = read_result(path)
        if not received(result):
            raise InputError(f"{path}: holds no received signals (/received), so there is nothing to draw")
    folder = result.path.parent if out_dir is None else Path(out_dir)
    drawn: dict[str, Callable[[Result], plots.Figure | None]] = {
        "q2": plots.q_squared_figure,
        "penalty": plots.penalty_figure,
        "constellation": plots.constellation_figure,
        "spectrum": spectrum_figure,
        "power": power_figure,
    }
    if signal:
        drawn = {"constellation": partial(plots.constellation_figure, **signal)}
    written = []
    with made_folder(folder), reading(path):
        for name, draw in drawn.items():
            if (figure := draw(result)) is not None:
                target = folder / f"{result.path.stem}-{name}.{suffix}"
                written.append(save_figure(figure, target, dpi=160))
    return written


def spectrum_figure(result: Result) -> plots.Figure | None:
    """Draw the power spectral density, mean of the modes, at each receiver position; None without data."""
    names = [name for name in received(result) if f"received/{name}/spectrum" in result]
    if not names or "signal/spectrum_frequencies" not in result:
        return None
    frequencies = numbers(result, "signal/spectrum_frequencies", 1)
    if len(names) > _MOST:
        names = [names[k] for k in np.unique(np.linspace(0, len(names) - 1, _MOST).round().astype(int))]
    with plots.style():
        axes = plots.new_axes(8.4, 4.2)
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


def power_figure(result: Result) -> plots.Figure | None:
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
    with plots.style():
        axes = plots.new_axes(8.4, 4.2)
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
