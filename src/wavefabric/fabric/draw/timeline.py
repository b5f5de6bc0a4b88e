"""When transfers of a schedule, and the kernels of an execution plan, run: a row for each rank."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from wavefabric.collectives.schedule import Schedule
from wavefabric.collectives.structure import issuers, units
from wavefabric.fabric.cost_models.kernel import PlanEvent
from wavefabric.fabric.draw import style
from wavefabric.units import binary_bytes

#: Share of a bar by which it may begin before another in its lane ends: latencies overlap.
_TOUCH = 0.05
#: Colours of what a kernel does.
_COLOURS = {"put": "#4f9cff", "add and put": "#2fd6c0", "add": "#6cf08c", "copy": "#8fa3c4"}
#: Colours of what is on the way.
_TRANSFERS = {"signal": "#f4e45a", "packets": "#ffa24a"}
_HALF = 0.3


def gantt(axes: style.Axes, schedule: Schedule, times: np.ndarray) -> None:
    """Draw the transfers between ranks; `times`: begin and end of each, s, shape (transfers, 2)."""
    t, u = schedule.transfers, units(schedule)
    # Of an operation of a switch one bar, at the rank that issues it.
    remote = np.flatnonzero(u.leads & ((t["switch"] > 0) | (t["src"] != t["dst"])))
    sums, rank = u.sums[u.of], issuers(schedule)
    last = float(times[:, 1].max(initial=0.0))
    scale, unit = time_unit(last)
    ranks, rounds = schedule.ranks, max(int(t["round"].max(initial=0)), 1)
    axes.set(xlim=(0, max(last * scale, 1e-12)), ylim=(ranks - 0.4, -0.6))
    lanes = _lanes(rank[remote], times[remote])
    corners, colours = [], []
    width, height = style.axes_points(axes)
    for number, (lane, count) in zip(remote, lanes, strict=True):
        begin, end = times[number] * scale
        high = 0.8 / count
        top = int(rank[number]) - 0.4 + lane * high
        corners.append((begin, top, max(end - begin, 1e-12), high * 0.94))
        colours.append(style.wavelength_colour(int(t["round"][number]) / rounds))
        tall, wide = high * height / ranks, (end - begin) / max(last * scale, 1e-12) * width
        if tall > 7 and wide > 16:
            centre, size = ((begin + end) / 2, top + high * 0.47), min(8.0, tall * 0.8)
            word = "sum" if sums[number] else "all" if t["switch"][number] else f"{t['dst'][number]}"
            style.label(axes, *centre, word, size, style.NIGHT, zorder=4)
    style.bars(axes, corners, facecolor=colours, edgecolor=style.WAFER, linewidth=0.4, zorder=3)
    shown = style.evenly(ranks, min(ranks, max(4, int(height / 11))))
    axes.set_yticks(shown, [str(r) for r in shown])
    for rank in range(ranks if ranks <= 32 else 0):
        axes.axhline(rank + 0.5, color=style.RIM, lw=0.5, zorder=1)
    style.time_axis(axes, unit, 8)
    axes.set_ylabel("from rank", color=style.DIM, fontsize=9)
    title = "bars: transfers, the number is the rank they go to; colour: round"
    if t["switch"].any():
        title = "bars: a rank reads a sum from the switch, or writes to all or to a rank; colour: round"
    axes.set_title(title, color=style.DIM, fontsize=8.5, loc="left", pad=5)


def time_unit(seconds: float) -> tuple[float, str]:
    """How many of a unit are in a second, and the unit, for an axis that ends at so many seconds."""
    for factor, name in ((1.0, "s"), (1e3, "ms")):
        if seconds * factor >= 2:
            return factor, name
    return 1e6, "µs"


def _lanes(sources: np.ndarray, times: np.ndarray) -> list[tuple[int, int]]:
    """For each transfer its lane within its sender's row, and how many lanes that row needs."""
    lane = np.zeros(len(sources), int)
    count: dict[int, int] = {}
    for source in np.unique(sources):
        mine = np.flatnonzero(sources == source)
        free_from: list[float] = []  # end of the last bar of each lane
        for number in mine[np.argsort(times[mine, 0], kind="stable")]:
            begin, end = times[number]
            touch = _TOUCH * (end - begin)
            at = next((k for k, until in enumerate(free_from) if until - begin <= touch), len(free_from))
            free_from[at : at + 1] = [end]
            lane[number] = at
        count[int(source)] = len(free_from)
    return [(int(k), count[int(s)]) for k, s in zip(lane, sources, strict=True)]


def kernels(axes: style.Axes, events: Sequence[PlanEvent], ranks: int, last: float) -> None:
    """Draw what kernels do until the time `last`, s."""
    scale, unit = time_unit(last)
    axes.set(xlim=(0, max(last * scale, 1e-12) * 1.01), ylim=(ranks - 0.45, -0.55))
    width, height = style.axes_points(axes)
    for kind, colour in _COLOURS.items():
        mine = [event for event in events if event.kind == kind]
        corners = [
            (e.begin * scale, e.rank - _HALF, max((e.end - e.begin) * scale, last * scale * 1e-3), 2 * _HALF)
            for e in mine
        ]
        style.bars(axes, corners, facecolor=colour, edgecolor=style.WAFER, linewidth=0.5, zorder=3)
        for event in mine:
            wide = (event.end - event.begin) / max(last, 1e-300) * width
            text = f"{kind} {binary_bytes(event.nbytes)}"
            if wide > 5.0 * len(text) and height / ranks > 16:
                middle = (event.begin + event.end) / 2 * scale
                style.label(axes, middle, event.rank, text, 8, style.NIGHT, zorder=4)
    waits = [
        (e.begin * scale, e.rank - _HALF / 3, (e.end - e.begin) * scale, _HALF / 1.5)
        for e in events
        if e.kind == "wait"
    ]
    style.bars(axes, waits, facecolor=style.STREETS, edgecolor=style.RIM, linewidth=0.5, zorder=2)
    for kind, colour in _TRANSFERS.items():
        routes = [event for event in events if event.kind == kind]
        points = [((e.begin * scale, e.rank), (e.end * scale, e.peer)) for e in routes]
        style.lines(axes, points, colour, 1.0, alpha=0.8, zorder=2.5)
        ends = [end for _, end in points]
        if ends:
            axes.scatter(*zip(*ends, strict=True), s=9, color=colour, zorder=6)
    axes.set_yticks(range(ranks), [f"rank {rank}" for rank in range(ranks)])
    style.time_axis(axes, unit, 8.5)


def kernels_legend(figure: style.Figure, box: style.Box, kinds: set[str]) -> None:
    """Colours of those kinds of events that there are."""
    axes = style.legend_axes(figure, box)
    at = 0.0
    looks = {**_COLOURS, "wait": style.STREETS, **_TRANSFERS}
    for kind in (kind for kind in looks if kind in kinds):
        if kind in _TRANSFERS:
            style.lines(axes, [((at, 5), (at + 2.2, 5))], looks[kind], 1.4)
            axes.scatter([at + 2.2], [5], s=10, color=looks[kind])
        else:
            style.bars(axes, [(at, 2, 2.2, 6)], facecolor=looks[kind], edgecolor=style.RIM, linewidth=0.5)
        style.legend_text(axes, at + 3.0, kind)
        at += 5.0 + 0.72 * len(kind)
