"""Draws received signals of a link: constellations, eye diagrams, OSNR and GSNR; and delays of its modes."""

import numpy as np

from wavefabric.base.errors import InputError
from wavefabric.base.results.figure_style import BLUE, GREY, INK, RED, Axes, Figure, new_axes, style
from wavefabric.base.results.file import Result
from wavefabric.optics.link.received_signals import (
    distance,
    mean_db,
    mode_groups,
    mode_labels,
    numbers,
    position_name,
    q_squared_of,
    received,
)
from wavefabric.optics.signal.recovery import EYE_SAMPLES

#: Larger ratios are those of signals without noise, dB.
_MOST_DB = 100
#: Symbols at each end of a waveform that interpolation needs; points per symbol that are drawn.
_MARGIN, _FINE = 8, 16


def constellation_figure(
    result: Result, mode: int | None = None, channel: int | None = None
) -> Figure | None:
    """Draw the symbols of ``mode`` (from 1) at the farthest receiver; by default of three modes.

    The three are the first, the worst and the last mode. ``channel`` (from 1) is by default the middle one;
    others need a file with the symbols of all channels. None if the file has no symbols. InputError for a
    mode or channel that it lacks.
    """
    signals = _chosen(result, "constellation", mode, channel)
    if signals is None:
        return None
    points, chosen, titles = signals
    points = points.reshape(len(points), -1)
    with style():
        figure = _row_of_axes(result, len(chosen), "Received symbols", channel)
        parts = np.abs(points[chosen].astype(complex).view(float))
        parts = parts[np.isfinite(parts)]
        limit = 1.08 * float(np.quantile(parts, 0.999)) if parts.size and parts.any() else 1.0
        for k, m in enumerate(chosen):
            axes = figure.add_subplot(1, len(chosen), k + 1)
            axes.set_aspect("equal")
            shown = points[m][np.isfinite(points[m])][:4000]
            axes.plot(shown.real, shown.imag, ".", color=BLUE, markersize=3, alpha=0.35, markeredgewidth=0)
            axes.set(xlim=(-limit, limit), ylim=(-limit, limit), xlabel="in phase")
            axes.set_ylabel("" if k else "quadrature")
            axes.grid(True, axis="both")
            axes.set_title(titles[k], pad=8, fontsize=10)
    return figure


def eye_figure(result: Result, mode: int | None = None, channel: int | None = None) -> Figure | None:
    """Draw eye diagrams, two symbols long, at the farthest receiver: in phase above, quadrature below.

    With direct detection they show the photocurrent. For modes and ``channel`` see `constellation_figure`.
    None if the file has no waveforms, as after an equaliser.
    """
    signals = _chosen(result, "eye", mode, channel)
    if signals is None:
        return None
    waveforms, chosen, titles = signals
    current = not np.imag(waveforms[np.isfinite(waveforms)]).any()
    waveforms = waveforms[:, :1] if current else waveforms
    with style():
        figure = _row_of_axes(result, len(chosen), "Eye diagram", channel)
        for k, m in enumerate(chosen):
            fine = _finer(waveforms[m])
            parts = [(np.real(fine), "current" if current else "in phase"), (np.imag(fine), "quadrature")]
            for row, (values, name) in enumerate(parts[: 2 - current]):
                axes = figure.add_subplot(2 - current, len(chosen), row * len(chosen) + k + 1)
                _eye(axes, values)
                axes.set_ylabel("" if k else name)
                axes.set_xlabel("time (symbols)" if current or row else "")
                if row == 0:
                    axes.set_title(titles[k], pad=8, fontsize=10)
    return figure


def _finer(waveforms: np.ndarray) -> np.ndarray:
    """Interpolate waveforms (rows, samples) to `_FINE` points per symbol; cut off `_MARGIN` symbols."""
    count = waveforms.shape[1]
    fine = np.zeros((len(waveforms), count * _FINE // EYE_SAMPLES), complex)
    spectrum, half = np.fft.fft(waveforms, axis=1), count // 2
    fine[:, :half], fine[:, -half:] = spectrum[:, :half], spectrum[:, -half:]
    edge = _MARGIN * _FINE
    return np.fft.ifft(fine, axis=1)[:, edge:-edge] * (_FINE / EYE_SAMPLES)


def _eye(axes: Axes, values: np.ndarray) -> None:
    """Draw ``values`` (rows, points) from one symbol before to one after each symbol."""
    length = 2 * _FINE
    starts = np.arange(0, values.shape[1] - length, _FINE)
    traces = np.concatenate([row[starts[:, None] + np.arange(length + 1)] for row in values])
    time = np.arange(length + 1) / _FINE - 1
    axes.plot(time, traces.T, color=BLUE, linewidth=0.5, alpha=max(0.04, min(0.5, 20 / len(traces))))
    axes.set_xlim(-1, 1)
    axes.grid(True, axis="both")


def ratio_figure(result: Result) -> Figure | None:
    """Draw OSNR and GSNR in 12.5 GHz over the channels, or over distance for one channel.

    None if the file has none.
    """
    names = [name for name in received(result) if f"received/{name}/osnr_db" in result]
    if not names:
        return None
    several = len(result["signal/frequencies"]) > 1
    drawn = False
    with style():
        axes = new_axes(8.4, 4.2)
        for key, colour, marker in (("osnr", GREY, "s"), ("gsnr", BLUE, "o")):
            levels = np.array([numbers(result, f"received/{name}/{key}_db", 2) for name in names])
            levels = np.where(np.abs(levels) < _MOST_DB, levels, np.nan)
            if several:
                order = np.argsort(result["signal/frequencies"])
                x = np.asarray(result["signal/frequencies"])[order] / 1e12
                values = levels[-1][:, order]
            else:
                x = np.array([distance(result, name) for name in names]) / 1e3
                values = levels[..., 0].T
            lit = ~np.isnan(values).all(axis=0)
            mean, least = mean_db(values.T), np.fmin.reduce(values, axis=0)
            drawn |= bool(lit.any())
            axes.plot(x[lit], mean[lit], marker, color=colour, markersize=5, label=key.upper())
            axes.vlines(x[lit], least[lit], mean[lit], color=colour, linewidth=1.2)
        title = f"Signal to noise {position_name(result, names[-1])}" if several else "Signal to noise"
        axes.set(xlabel="optical frequency (THz)" if several else "distance (km)", ylabel="dB in 12.5 GHz")
        axes.set_title(f"{title}, mean and worst of the modes", pad=8)
        axes.legend(ncols=2, loc="lower right", bbox_to_anchor=(1.0, 1.0), borderaxespad=0)
    return axes.figure if drawn else None


def delay_figure(result: Result) -> Figure | None:
    """Draw the delay spread over frequency, and its distribution; None if the file has no ``/modal``.

    For one mode it is the differential group delay, beside a Maxwellian distribution of the same mean.
    """
    if "modal/delay_spread" not in result:
        return None
    from matplotlib.figure import Figure

    frequency, spread = numbers(result, "modal/frequency", 1), numbers(result, "modal/delay_spread", 1) * 1e12
    one = numbers(result, "modal/delay", 2).shape[1] == 2
    name = "differential group delay (ps)" if one else "delay spread (ps)"
    with style():
        figure = Figure(figsize=(8.4, 4.2), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=(3, 2))
        left.plot(frequency / 1e12, spread, ".-", color=BLUE, linewidth=1, markersize=3)
        left.set(xlabel="optical frequency (THz)", ylabel=name)
        left.set_ylim(bottom=0)
        left.set_title("Over the channels' band", pad=8)
        right.hist(spread, bins=max(5, len(spread) // 8), density=True, color=BLUE, alpha=0.6)
        if one and spread.any():
            x, scale = np.linspace(0, 1.5 * spread.max(), 200), spread.mean() * np.sqrt(np.pi / 8)
            density = np.sqrt(2 / np.pi) * x**2 / scale**3 * np.exp(-((x / scale) ** 2) / 2)
            right.plot(x, density, color=RED, linewidth=1.2, label="Maxwellian of the same mean")
            right.legend(loc="upper right", fontsize=8)
        right.set(xlabel=name, ylabel="probability density (1/ps)")
        right.set_title(f"Mean {spread.mean():.3g} ps", pad=8, color=INK)
    return figure


def _row_of_axes(result: Result, count: int, title: str, channel: int | None) -> Figure:
    """Return a figure for ``count`` axes side by side, titled as of a signal at the farthest receiver."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.4 * count + 0.4, 4.1), layout="constrained")
    of = "" if channel is None else f" of channel {channel}"
    text = f"{title}{of} {position_name(result, received(result)[-1])}"
    figure.suptitle(text, x=0.02, ha="left", fontsize=11, fontweight="bold")
    return figure


def _chosen(
    result: Result, dataset: str, mode: int | None, channel: int | None
) -> tuple[np.ndarray, list[int], list[str]] | None:
    """Return a channel's signals at the farthest receiver, (modes, 2, samples), modes to draw, titles."""
    name = received(result)[-1]
    if (key := f"received/{name}/{dataset}") not in result:
        return None
    q = q_squared_of(result, name)
    points = np.asarray(result[key])
    if points.dtype.kind != "c" or not points.size or points.size % len(q):
        actual = f"has {points.size} values of type {points.dtype}"
        allowed = f"complex symbols of each of {len(q)} modes"
        raise InputError(f"{result.path}: '{key}' {actual}; allowed: {allowed}")
    if channel is not None or points.ndim == 4:
        points = _of_channel(result, points, q.shape[1], channel)
    if mode is not None and not 1 <= mode <= len(q):
        raise InputError(f"mode: {mode} given; allowed: 1 to {len(q)}")
    mean, groups, labels = mean_db(q), mode_groups(result, len(q)), mode_labels(result, len(q))
    chosen = sorted({0, int(np.argmin(mean)), len(q) - 1}) if mode is None else [mode - 1]
    titles = [f"{labels[m]}, group {groups[m]}: Q² = {mean[m]:.2f} dB" for m in chosen]
    return points, chosen, titles


def _of_channel(result: Result, points: np.ndarray, channels: int, channel: int | None) -> np.ndarray:
    """Return the symbols of one ``channel`` (from 1; None: the middle channel), (modes, 2, symbols).

    ``points`` are the symbols in the result: of all ``channels`` channels, or only of the middle one.
    """
    if channel is not None and not 1 <= channel <= channels:
        raise InputError(f"channel: {channel} given; allowed: 1 to {channels}")
    index = channels // 2 if channel is None else channel - 1
    if points.ndim == 4 and index < points.shape[1]:
        return points[:, index]
    if index == channels // 2:
        return points
    kept = f"{result.path} keeps symbols of channel {channels // 2 + 1} alone"
    raise InputError(f'channel: {channel} given, {kept}; allowed: a run with receiver.constellations = "all"')
