"""When each transfer runs: a row for each sender, a bar for each transfer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wavefabric.collectives.schedule import Schedule
from wavefabric.fabric.draw import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Share of a bar by which it may begin before another in its lane ends: latencies overlap.
_TOUCH = 0.05


def gantt(axes: Axes, schedule: Schedule, times: np.ndarray) -> None:
    """Draw the transfers between ranks; `times`: begin and end of each, s, shape (transfers, 2)."""
    t = schedule.transfers
    remote = np.flatnonzero(t["src"] != t["dst"])
    last = float(times[:, 1].max(initial=0.0))
    scale, unit = time_unit(last)
    ranks, rounds = schedule.ranks, max(int(t["round"].max(initial=0)), 1)
    axes.set(xlim=(0, max(last * scale, 1e-12)), ylim=(ranks - 0.4, -0.6))
    lanes = _lanes(t["src"][remote], times[remote])
    corners, colours = [], []
    width, height = style.axes_points(axes)
    for number, (lane, count) in zip(remote, lanes, strict=True):
        begin, end = times[number] * scale
        high = 0.8 / count
        top = int(t["src"][number]) - 0.4 + lane * high
        corners.append((begin, top, max(end - begin, 1e-12), high * 0.94))
        colours.append(style.wavelength_colour(int(t["round"][number]) / rounds))
        tall, wide = high * height / ranks, (end - begin) / max(last * scale, 1e-12) * width
        if tall > 7 and wide > 16:
            centre, size = ((begin + end) / 2, top + high * 0.47), min(8.0, tall * 0.8)
            style.label(axes, *centre, f"{t['dst'][number]}", size, style.NIGHT, zorder=4)
    style.bars(axes, corners, facecolor=colours, edgecolor=style.WAFER, linewidth=0.4, zorder=3)
    shown = style.evenly(ranks, min(ranks, max(4, int(height / 11))))
    axes.set_yticks(shown, [str(r) for r in shown])
    for rank in range(ranks if ranks <= 32 else 0):
        axes.axhline(rank + 0.5, color=style.RIM, lw=0.5, zorder=1)
    style.time_axis(axes, unit, 8)
    axes.set_ylabel("from rank", color=style.DIM, fontsize=9)
    title = "bars: transfers, the number is the rank they go to; colour: round"
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
