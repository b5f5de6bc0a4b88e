"""Shows a tuning: tables of the fastest choices, and a plot of all times with a strip of the fastest."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from itertools import cycle, groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wavefabric.base.results.figure_style import COLOURS, GREY, INK, STYLE
from wavefabric.base.units import time_words
from wavefabric.collectives.tuning import Choice, TimedChoice, TunedCollective, Tuning, tuning_to_json
from wavefabric.fabric.cost_models.bus_bandwidth import operation_bandwidths
from wavefabric.fabric.draw.pictures import save_figure
from wavefabric.fabric.execution import report
from wavefabric.fabric.execution.tune import TuningSearch

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Colours of choices that are the fastest somewhere: those of all figures, and matching ones (Tol's).
_PALETTE = (*COLOURS, "#332288", "#882255", "#999933", "#44AA99")
_REST = "#c9ced6"
#: Width of a letter in the strip, as a fraction of its width.
_LETTER = 0.0137


def table(search: TuningSearch) -> list[Any]:
    """Return a table for each collective operation and transport, the source of the times, and `notes`."""
    tuning = search.tuning
    lines: list[Any] = [_table(tuning, each) for each in tuning.tables]
    if tuning.device is not None:
        lines.append(f"measured: {tuning.dtype} on {tuning.device}")
    if tuning.fabric is not None:
        lines.append(f"predicted: {tuning.model} model on {tuning.fabric}")
    return lines + notes(search)


def notes(search: TuningSearch) -> list[str]:
    """Return lines about what a search left out: times, algorithms, wrong choices, transports."""
    timed, possible = search.measured
    lines = []
    if timed < possible:
        within = f"predicted within {search.within:g} times the fastest"
        lines.append(f"measured are {timed} of {possible} times: of candidates {within}")
    lines += [f"left out: {name} ({why})" for name, why in search.left_out.items()]
    lines += [f"wrong, left out: {line}" for line in search.wrong]
    return lines + report.unavailable({"unavailable": search.unavailable})


def _table(tuning: Tuning, each: TunedCollective) -> Any:
    keys = [key for key in ("measured_us", "predicted_us") if _has(each, key)]
    rows = []
    for size, rates in zip(each.sizes, _bandwidths(tuning, each), strict=True):
        second = size.candidates[1] if len(size.candidates) > 1 else None
        if second and (second.measured_us is None) != (size.best.measured_us is None):
            second = None  # not measured, so not comparable
        rows.append([
            report.size_words(size.bytes),
            str(size.best.choice),
            *("-" if (us := getattr(size.best, key)) is None else time_words(us * 1e-6) for key in keys),
            *("-" if not rate else f"{rate * 1e-9:.3g}" for rate in rates.values()),
            str(second.choice) if second else "-",
            _slower(size.best, second) if second else "-",
        ])  # fmt: skip
    times = (key.removesuffix("_us") for key in keys)
    columns = ["size", "<fastest", *times, "algbw", "busbw", "<second", "slower by"]
    count = len(each.sizes[0].candidates)
    caption = f"{count} candidate{'s' if count > 1 else ''}; algbw, busbw of the fastest in GB/s"
    return report.table(_title(tuning, each), columns, rows, caption, plain=True)


def _has(each: TunedCollective, key: str) -> bool:
    return any(getattr(one, key) is not None for size in each.sizes for one in size.candidates)


def _slower(best: TimedChoice, second: TimedChoice) -> str:
    """Return in words how much longer ``second`` takes than ``best``: percent, or a factor from 2 on."""
    if best.us <= 0:
        return "-"
    ratio = second.us / best.us
    if ratio >= 2:
        return f"{ratio:.3g} x"
    return "equal" if ratio < 1.0005 else f"{(ratio - 1) * 100:.2g} %"


def _title(tuning: Tuning, each: TunedCollective) -> str:
    where = tuning.fabric if each.transport is None else report.transport_name(each.transport)
    return f"{each.collective}, {tuning.ranks} ranks, {where}"


def _bandwidths(tuning: Tuning, each: TunedCollective) -> list[dict[str, float | None]]:
    """Return ``algbw`` and ``busbw``, B/s, of the fastest choice for each size; None if it has no time."""
    timed = ((size.bytes, size.best.us * 1e-6) for size in each.sizes)
    rates = (operation_bandwidths(each.collective, tuning.ranks, *pair) for pair in timed)
    return [{name: rate or None for name, rate in row.items()} for row in rates]


def facts(search: TuningSearch) -> dict[str, Any]:
    """Return the content of the tuning's file, with algbw and busbw of each size, and `notes`, for JSON."""
    content = json.loads(tuning_to_json(search.tuning))
    for table, each in zip(content["tables"], search.tuning.tables, strict=True):
        table["sizes"] = [
            a | b for a, b in zip(table["sizes"], _bandwidths(search.tuning, each), strict=True)
        ]
    return content | {"notes": notes(search)}


def plot(search: TuningSearch, path: str | Path) -> Path:
    """Plot every candidate's time over size, the fastest in colour, and a strip of the fastest by size."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    tuning = search.tuning
    colours = _colours(tuning)
    across = min(2, len(tuning.tables))
    down = math.ceil(len(tuning.tables) / across)
    settings: Any = {**STYLE, "axes.titlepad": 10, "axes.grid.axis": "both", "text.parse_math": False}
    with mpl.rc_context(settings):
        figure = Figure(figsize=(6.6 * across, 5.2 * down))
        figure.set_layout_engine("constrained", h_pad=0.09)
        grid = figure.add_gridspec(2 * down, across, height_ratios=[10, 1] * down)
        for number, each in enumerate(tuning.tables):
            row, column = divmod(number, across)
            upper = figure.add_subplot(grid[2 * row, column])
            lower = figure.add_subplot(grid[2 * row + 1, column], sharex=upper)
            _lines(upper, each, colours)
            _strip(lower, each, colours)
            upper.set_title(_title(tuning, each))
            upper.tick_params(labelbottom=False)
            upper.set_ylabel(f"{'measured' if each.transport else 'predicted'} time")
            lower.set_xlabel("bytes of the whole array")
        return save_figure(Path(path), figure)


def _colours(tuning: Tuning) -> dict[Choice, str]:
    """Return a dictionary from each choice that is the fastest somewhere to its colour."""
    winners = dict.fromkeys(size.best.choice for each in tuning.tables for size in each.sizes)
    return dict(zip(winners, cycle(_PALETTE), strict=False))


def _lines(axes: Axes, each: TunedCollective, colours: dict[Choice, str]) -> None:
    """Plot time over size: choices that are the fastest somewhere coloured and named, the others grey."""
    sizes = [size.bytes for size in each.sizes]
    key = "measured_us" if each.transport else "predicted_us"
    winners = list(dict.fromkeys(size.best.choice for size in each.sizes))
    rest = dict.fromkeys(one.choice for size in each.sizes for one in size.candidates)
    others = [choice for choice in rest if choice not in winners]
    for k, choice in enumerate(others):
        label = f"{len(others)} other{'s' if len(others) > 1 else ''}" if k == 0 else None
        axes.plot(
            sizes, _series(each, choice, key), color=_REST, linewidth=1, marker=".", markersize=3, label=label
        )
    for choice in winners:
        times = _series(each, choice, key)
        axes.plot(sizes, times, color=colours[choice], linewidth=1.8, label=str(choice), zorder=3)
        best = [k for k, size in enumerate(each.sizes) if size.best.choice == choice]
        look = {"color": colours[choice], "markeredgecolor": "white", "zorder": 4}
        axes.plot([sizes[k] for k in best], [times[k] for k in best], "o", markersize=7, **look)
        if each.transport and _has(each, "predicted_us"):
            predicted = _series(each, choice, "predicted_us")
            axes.plot(sizes, predicted, color=colours[choice], linewidth=1, linestyle=":", zorder=2)
    if each.transport and _has(each, "predicted_us"):
        axes.plot([], [], color=INK, linewidth=1, linestyle=":", label="predicted")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    _time_ticks(axes)
    handles, labels = axes.get_legend_handles_labels()
    grey = bool(others)  # drawn first, to be below, but named last
    box: Any = {"fontsize": 9, "loc": "best", "frameon": True, "framealpha": 0.85, "edgecolor": "none"}
    axes.legend(handles[grey:] + handles[:grey], labels[grey:] + labels[:grey], **box)


def _time_ticks(axes: Axes) -> None:
    """Label times at powers of ten, and at 2 and 5 in between if there are few powers."""
    from matplotlib.ticker import LogLocator, NullFormatter

    low, high = axes.get_ylim()
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < 100 * low else (1.0,)))
    axes.yaxis.set_major_formatter(lambda value, _: time_words(value * 1e-6))
    axes.yaxis.set_minor_formatter(NullFormatter())


def _series(each: TunedCollective, choice: Choice, key: str) -> list[float]:
    """Return the time of a choice for each size, NaN if it has none."""
    known = [{one.choice: getattr(one, key) for one in size.candidates} for size in each.sizes]
    return [math.nan if times.get(choice) is None else times[choice] for times in known]


def _strip(axes: Axes, each: TunedCollective, colours: dict[Choice, str]) -> None:
    """Draw a strip of colours for the fastest choice at each size; it changes half-way between sizes."""
    sizes = [size.bytes for size in each.sizes]
    ends = _borders(sizes)
    span = math.log(ends[-1] / ends[0])
    for choice, group in groupby(range(len(sizes)), lambda k: each.sizes[k].best.choice):
        numbers = list(group)
        left, right = ends[numbers[0]], ends[numbers[-1] + 1]
        axes.axvspan(left, right, color=colours[choice], linewidth=0)
        axes.axvline(right, color="white", linewidth=1.5)
        words = str(choice).replace(", ", "\n", 1)
        if math.log(right / left) / span > _LETTER * max(map(len, words.splitlines())):
            look: Any = {"ha": "center", "va": "center", "fontsize": 8, "fontweight": "bold"}
            look["color"] = INK if _is_light(colours[choice]) else "white"
            axes.text(math.sqrt(left * right), 0.48, words, transform=axes.get_xaxis_transform(), **look)
    axes.set_yticks([])
    axes.set_ylabel("fastest", rotation=0, ha="right", va="center", color=GREY)
    axes.grid(visible=False)
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.set_xlim(ends[0], ends[-1])
    every = -(-len(sizes) // 8)
    axes.set_xticks(sizes[::every], [report.size_words(size) for size in sizes[::every]])
    axes.minorticks_off()


def _is_light(colour: str) -> bool:
    """Return whether dark text is easier to read than white on this colour (luma of ITU-R BT.601)."""
    red, green, blue = bytes.fromhex(colour[1:])
    return 0.299 * red + 0.587 * green + 0.114 * blue > 152


def _borders(sizes: Sequence[int]) -> list[float]:
    """Return the borders between sizes, half-way on a logarithmic scale, and an outer border at each end."""
    middles = [math.sqrt(a * b) for a, b in pairwise(sizes)]
    step = [sizes[0] / middles[0], sizes[-1] / middles[-1]] if middles else [0.5, 2.0]
    return [sizes[0] * step[0], *middles, sizes[-1] * step[1]]
