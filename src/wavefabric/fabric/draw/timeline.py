"""Draws timelines, one row per rank: transfers of a schedule, or kernels of an execution plan."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from wavefabric.base.units import binary_bytes
from wavefabric.collectives.schedule import Schedule
from wavefabric.collectives.structure import issuers, units
from wavefabric.fabric.cost_models.kernel import PlanEvent
from wavefabric.fabric.draw import style

#: Fraction of a bar by which it may overlap the previous bar in its lane, as latencies overlap.
_TOUCH = 0.05
#: Colours of kernel activities.
_COLOURS = {"put": "#4f9cff", "add and put": "#2fd6c0", "add": "#6cf08c", "copy": "#8fa3c4"}
_COLOURS["wait"] = style.STREETS
#: Colours of signals and packets under way.
_TRANSFERS = {"signal": "#f4e45a", "packets": "#ffa24a"}
_HALF = 0.3


def gantt(axes: style.Axes, schedule: Schedule, times: np.ndarray) -> None:
    """Draw transfers as bars, one row per rank; ``times``: begin and end of each in s, (transfers, 2)."""
    t, u = schedule.transfers, units(schedule)
    # A switch operation is one bar, at the rank that issues it.
    remote = np.flatnonzero(u.leads & ((t["switch"] > 0) | (t["src"] != t["dst"])))
    sums, rank = u.sums[u.of], issuers(schedule)
    last = float(times[:, 1].max(initial=0.0))
    ranks, rounds = schedule.ranks, max(int(t["round"].max(initial=0)), 1)
    scale = time_axis(axes, last, (ranks - 0.4, -0.6))
    lane, high = np.zeros(t.size, int), np.zeros(t.size)
    for source in np.unique(rank[remote]):
        mine = remote[rank[remote] == source]
        lane[mine] = lanes(*times[mine].T, touch=_TOUCH)
        high[mine] = 0.8 / (lane[mine].max() + 1)
    corners, colours = [], []
    width, height = style.axes_points(axes)
    for number in remote:
        begin, end = times[number] * scale
        top, tall = int(rank[number]) - 0.4 + lane[number] * high[number], high[number] * height / ranks
        corners.append((begin, top, max(end - begin, 1e-12), high[number] * 0.94))
        colours.append(style.wavelength_colour(int(t["round"][number]) / rounds))
        wide = (end - begin) / max(last * scale, 1e-12) * width
        if tall > 7 and wide > 16:
            centre, size = ((begin + end) / 2, top + high[number] * 0.47), min(8.0, tall * 0.8)
            word = "sum" if sums[number] else "all" if t["switch"][number] else f"{t['dst'][number]}"
            style.label(axes, *centre, word, size, style.NIGHT, zorder=4)
    style.bars(axes, corners, facecolor=colours, edgecolor=style.WAFER, linewidth=0.4, zorder=3)
    shown = style.evenly(ranks, min(ranks, max(4, int(height / 11))))
    axes.set_yticks(shown, [str(r) for r in shown])
    for rank in range(ranks if ranks <= 32 else 0):
        axes.axhline(rank + 0.5, color=style.RIM, lw=0.5, zorder=1)
    axes.set_ylabel("from rank", color=style.DIM, fontsize=9)
    title = "bars: transfers, the number is the rank they go to; colour: round"
    if t["switch"].any():
        title = "bars: a rank reads a sum from the switch, or writes to all or to a rank; colour: round"
    axes.set_title(title, color=style.DIM, fontsize=8.5, loc="left", pad=5)


def time_axis(axes: style.Axes, seconds: float, rows: tuple[float, float], spare: float = 1.0) -> float:
    """Format axes with a time axis from 0 to ``seconds``; return how many of its units a second has.

    The unit is s, ms or µs, whichever suits. ``rows``: limits of y; ``spare``: factor on the end of x.
    """
    units = ((1.0, "s"), (1e3, "ms"), (1e6, "µs"))
    scale, unit = next((each for each in units if seconds * each[0] >= 2), units[-1])
    axes.set(xlim=(0, max(seconds * scale, 1e-12) * spare), ylim=rows, facecolor=style.WAFER)
    axes.set_xlabel(f"time ({unit})", color=style.DIM, fontsize=9)
    axes.tick_params(colors=style.DIM, labelsize=8, length=0)
    axes.grid(True, axis="x", color=style.RIM, lw=0.6)
    axes.set_axisbelow(True)
    for spine in axes.spines.values():
        spine.set_color(style.RIM)
    return scale


def lanes(begin: np.ndarray, end: np.ndarray, touch: float = 0.0) -> list[int]:
    """Return for each interval of time the number of its lane, so that no two in a lane overlap.

    It is the first free lane. Intervals may touch, or overlap by a fraction ``touch`` of the later one.
    """
    result = [0] * len(begin)
    free_from: list[float] = []
    for number in np.lexsort((end, begin)).tolist():
        latest = begin[number] + touch * (end[number] - begin[number])
        lane = next((k for k, until in enumerate(free_from) if until <= latest), len(free_from))
        free_from[lane : lane + 1] = [float(end[number])]
        result[number] = lane
    return result


def kernels(axes: style.Axes, events: Sequence[PlanEvent], ranks: int, last: float) -> None:
    """Draw what kernels do until time ``last`` in s, one row per rank."""
    scale = time_axis(axes, last, (ranks - 0.45, -0.55), spare=1.01)
    width, height = style.axes_points(axes)
    for kind, colour in _COLOURS.items():
        waits = kind == "wait"
        half, edge = (_HALF / 3, style.RIM) if waits else (_HALF, style.WAFER)
        mine = [event for event in events if event.kind == kind]
        wide = [max((e.end - e.begin) * scale, last * scale * 1e-3) for e in mine]
        corners = [(e.begin * scale, e.rank - half, w, 2 * half) for e, w in zip(mine, wide, strict=True)]
        style.bars(axes, corners, facecolor=colour, edgecolor=edge, linewidth=0.5, zorder=3 - waits)
        for event in () if waits else mine:
            wide = (event.end - event.begin) / max(last, 1e-300) * width
            text = f"{kind} {binary_bytes(event.nbytes)}"
            if wide > 5.0 * len(text) and height / ranks > 16:
                middle = (event.begin + event.end) / 2 * scale
                style.label(axes, middle, event.rank, text, 8, style.NIGHT, zorder=4)
    for kind, colour in _TRANSFERS.items():
        routes = [event for event in events if event.kind == kind]
        points = [((e.begin * scale, e.rank), (e.end * scale, e.peer)) for e in routes]
        style.lines(axes, points, colour, 1.0, alpha=0.8, zorder=2.5)
        ends = [end for _, end in points]
        if ends:
            axes.scatter(*zip(*ends, strict=True), s=9, color=colour, zorder=6)
    axes.set_yticks(range(ranks), [f"rank {rank}" for rank in range(ranks)])


def kernels_legend(figure: style.Figure, box: style.Box, kinds: set[str]) -> None:
    """Draw a legend of the kinds of events in ``kinds``."""
    bar, line = {"edgecolor": style.RIM, "linewidth": 0.5}, {"marker": "o", "markevery": [1], "markersize": 3}
    looks = [(kind, bar | {"facecolor": colour}) for kind, colour in _COLOURS.items()]
    looks += [(kind, line | {"color": colour, "lw": 1.4}) for kind, colour in _TRANSFERS.items()]
    style.legend(figure, box, [(kind, [look]) for kind, look in looks if kind in kinds])
