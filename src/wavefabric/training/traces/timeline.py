"""Draw a simulated iteration over time: computation and communication calls of each worker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from wavefabric.base.errors import InputError
from wavefabric.base.units import time_words
from wavefabric.fabric.draw import style
from wavefabric.fabric.draw.pictures import check_picture, save_figure
from wavefabric.fabric.draw.timeline import lanes, time_axis
from wavefabric.training.iteration.simulate import Iteration
from wavefabric.training.iteration.task_graph import PURPOSES
from wavefabric.training.traces.order import worker_names

#: Colours of computation by kind, for even and odd microbatches; colours of calls by purpose.
COMPUTE = {
    "forward": ("#3f86e8", "#2b66bd"),
    "backward": ("#22b07d", "#17835d"),
    "update": ("#dfe8f7", "#dfe8f7"),
}
CALLS: dict[str, str] = dict(
    zip(PURPOSES, ("#ffa24a", "#f4e45a", "#ff7ad9", "#b69bff", "#7df0c8", "#6fb8ff"), strict=True)
)
#: Colours of exposed communication, for which a worker waits: front and background.
EXPOSED, _BEHIND = "#ff5d6c", "#3b1a2a"
_HATCHED: dict[str, Any] = {"facecolor": _BEHIND, "edgecolor": EXPOSED, "hatch": "//////", "linewidth": 0.0}
#: Maximum number of rows in a picture.
MOST_ROWS = 64
#: Lower edges of computation and of calls in a worker's row of height 1.
_COMPUTE_END, _CALLS_END = 0.62, 0.92
#: Widths in points: bars up to `_NARROW` join touching bars of equal colour; wider bars keep a gap.
_NARROW, _GAP = 3.0, 0.6
#: Minimum width of a call in points, so that short calls are visible.
_LEAST = 0.8


@dataclass(frozen=True)
class _Track:
    """A horizontal lane of bars in the picture: top and height in rows, name, and numbers of the tasks."""

    top: float
    height: float
    name: str
    tasks: list[int]


@style.without_formulae()
def draw_timeline(
    path: str | Path, iteration: Iteration, *, title: str | None = None, force: bool = False
) -> Path:
    """Draw a row per worker over time: computation above, calls below, hatched where the worker waits.

    A single worker has one track per purpose of calls. Microbatches alternate in shade and are numbered;
    without microbatches, layer names are shown where they fit. ``title`` defaults to model, GPUs and batch.

    Raises `InputError` if no task takes time, if there are more than 64 workers, if the extension is not
    ``.png``, ``.svg`` or ``.pdf``, if the file exists without ``force``, or if it cannot be written.
    """
    path = check_picture(path, force)
    if not iteration.seconds > 0:
        raise InputError("tasks: none that take time; allowed: an iteration with something to draw")
    if iteration.graph.workers > MOST_ROWS:
        actual = f"workers: {iteration.graph.workers} given"
        raise InputError(f"{actual}; allowed: {MOST_ROWS} at most in a picture")
    return save_figure(path, timeline_figure(iteration, title))


def timeline_figure(iteration: Iteration, title: str | None = None) -> style.Figure:
    """Return a picture of a simulated iteration over time, as a figure; `draw_timeline` writes it."""
    tracks, several = _tracks(iteration), iteration.graph.workers > 1
    rows = iteration.graph.workers if several else tracks[-1].top + tracks[-1].height + 0.12
    # Inches: above the axes for the titles, below for the axis and the legend.
    above, below, inches = 0.78, 0.92, max(1.0, min(0.62 * rows, 16.0))
    high = above + inches + below
    if title is None and (work := iteration.workload) is not None:
        title = f"{work.model.name} on {work.strategy.gpus} GPUs, batch {work.strategy.batch:,}"
    fraction, hidden = iteration.exposed_seconds / iteration.seconds, "communication hidden"
    waits = f"{time_words(iteration.exposed_seconds)} of it ({fraction:.1%}) are exposed communication"
    words = f"{time_words(iteration.seconds)} an iteration; {waits if fraction >= 5e-4 else hidden}"
    titles = title or "An iteration", f"{words}; bound by {iteration.bound_by}"
    figure = style.dark_figure(13.0, high, titles)
    left, right = 0.105, 0.905 if several else 0.985
    axes = figure.add_axes((left, below / high, right - left, inches / high))
    scale = time_axis(axes, iteration.seconds, (rows, 0.0))
    axes.set_yticks([])
    for track in tracks:
        _bars(axes, iteration, track, scale)
    exposed = _exposed(axes, iteration, tracks, scale)
    _rows(axes, iteration, tracks, exposed)
    _legend(figure, iteration, (left, 0.10 / high, right - left, 0.26 / high), bool(exposed.any()))
    return figure


def _tracks(iteration: Iteration) -> list[_Track]:
    """Return the lanes of bars of all workers, from top to bottom."""
    graph, times = iteration.graph, iteration.timeline
    if graph.workers == 1:
        result = [_Track(0.06, 1.28, "compute", list(graph.program[0]))]
        for purpose in PURPOSES:
            mine = [t for t, call in enumerate(graph.call) if call is not None and call.purpose == purpose]
            if mine:
                result.append(_Track(result[-1].top + result[-1].height + 0.12, 0.55, purpose, mine))
        return result
    result = []
    for worker, program in enumerate(graph.program):
        result.append(_Track(worker + 0.07, _COMPUTE_END - 0.07, "compute", list(program)))
        mine = [task for task, ports in enumerate(graph.ports) if worker in ports]
        lane = lanes(times.begin[mine], times.end[mine])
        count = max(lane, default=0) + 1
        high = (_CALLS_END - _COMPUTE_END) / count
        for number in range(count):
            tasks = [task for task, at in zip(mine, lane, strict=True) if at == number]
            result.append(_Track(worker + _COMPUTE_END + number * high, high, "calls", tasks))
    return result


def _bars(axes: style.Axes, iteration: Iteration, track: _Track, scale: float) -> None:
    """Draw the bars of a track: wide bars with gaps, narrow ones joined with equal-coloured neighbours."""
    points = _points(axes)
    begin, end = iteration.timeline.begin * scale, iteration.timeline.end * scale
    least = 0.0 if track.name == "compute" else _LEAST / points
    shown: list[tuple[float, float, str]] = []
    joined = False
    graph = iteration.graph
    for task in sorted(track.tasks, key=lambda t: (begin[t], end[t])):
        a, b, call = float(begin[task]), float(end[task]), graph.call[task]
        shade = max(graph.microbatch[task], 0) % 2
        colour = COMPUTE[graph.kind[task]][shade] if call is None else CALLS[call.purpose]
        if b <= a:
            continue
        narrow = (b - a) * points < _NARROW
        if joined and narrow and shown[-1][2] == colour and (a - shown[-1][1]) * points < 0.3:
            shown[-1] = shown[-1][0], max(b, shown[-1][1]), colour
        else:
            shown.append((a, max(b if narrow else b - _GAP / points, a + least), colour))
        joined = narrow
    corners = [(a, track.top, b - a, track.height) for a, b, _ in shown]
    colours = [colour for *_, colour in shown]
    style.bars(axes, corners, facecolor=colours, linewidth=0.0, zorder=3, snap=False).set_gid(track.name)
    if track.name == "compute":
        _labels(axes, iteration, track, scale)


def _points(axes: style.Axes) -> float:
    """Return the length of one unit of the time axis, in points."""
    return style.axes_points(axes)[0] / axes.get_xlim()[1]


def _labels(axes: style.Axes, iteration: Iteration, track: _Track, scale: float) -> None:
    """Write labels where they fit: microbatch numbers over the tasks of a pass, or task names."""
    graph, times = iteration.graph, iteration.timeline
    parts = _has_parts(iteration)
    # Tasks of one pass over a microbatch share a label; without microbatches each task has a label.
    named = graph.microbatch if parts else graph.name
    groups = groupby(track.tasks, lambda task: (graph.kind[task], named[task], parts or task))
    tall = track.height * style.axes_points(axes)[1] / abs(axes.get_ylim()[0])
    for (kind, words, _), group in groups:
        tasks = list(group)
        words = "" if words == -1 else str(words)
        a, b = float(times.begin[tasks[0]]) * scale, float(times.end[tasks[-1]]) * scale
        wide = (b - a) * _points(axes) - 2
        size = min(8.0, tall * 0.62, wide / (0.64 * max(len(words), 1)))
        look: dict[str, Any] = {"zorder": 5, "fontweight": "bold" if parts else "normal"}
        if size < 5 and not parts and wide >= 8:
            # Vertical text, cut at its beginning to fit the track: layer names differ at their ends.
            size, look["rotation"], most = 7.0, 90, int((tall - 4) / 4.2)
            words = words if len(words) <= most else f"…{words[len(words) - max(most - 1, 0) :]}"
        if words and size >= 5:
            colour = style.NIGHT if kind == "update" else style.TEXT
            style.label(axes, (a + b) / 2, track.top + track.height / 2, words, size, colour, **look)


def _has_parts(iteration: Iteration) -> bool:
    """Return whether the iteration has several microbatches."""
    return max(iteration.graph.microbatch, default=-1) > 0


def exposed_times(iteration: Iteration, worker: int) -> np.ndarray:
    """Return when a worker is in a call and computes nothing: begins and ends in s, shape (intervals, 2)."""
    graph, times = iteration.graph, iteration.timeline
    computing = graph.program[worker]
    calls = [t for t, ports in enumerate(graph.ports) if graph.call[t] is not None and worker in ports]
    edges = np.unique(np.concatenate([times.begin[computing], times.end[computing],
                                      times.begin[calls], times.end[calls], [0.0]]))  # fmt: skip
    middles = (edges[1:] + edges[:-1]) / 2
    alone = _covered(middles, times, calls) & ~_covered(middles, times, computing)
    changes = np.diff(np.concatenate(([False], alone, [False])).astype(int))
    return np.stack([edges[changes > 0], edges[changes < 0]], axis=1)


def _covered(moments: np.ndarray, times: Any, tasks: Sequence[int]) -> np.ndarray:
    """Return for each of ``moments``, in s, whether one of ``tasks`` is running."""
    begun, ended = (np.searchsorted(np.sort(each[tasks]), moments) for each in (times.begin, times.end))
    return begun > ended


def _exposed(axes: style.Axes, iteration: Iteration, tracks: Sequence[_Track], scale: float) -> np.ndarray:
    """Hatch the times in which workers only wait for calls; return their sums in s, shape (workers,)."""
    total, points = np.zeros(iteration.graph.workers), _points(axes)
    corners: dict[bool, list[tuple[float, float, float, float]]] = {True: [], False: []}
    for worker, track in enumerate(track for track in tracks if track.name == "compute"):
        result = exposed_times(iteration, worker)
        total[worker] = np.diff(result).sum()
        for a, b in (result * scale).tolist():
            # Hatching is not visible in a narrow bar.
            narrow = (b - a) * points < 2 * _NARROW
            corners[narrow].append((a, track.top, max(b - a, _LEAST / points), track.height))
    for narrow, look in ((True, {"facecolor": EXPOSED, "linewidth": 0.0}), (False, _HATCHED)):
        if corners[narrow]:
            style.bars(axes, corners[narrow], zorder=2, **look).set_gid("exposed")
    return total


def _rows(axes: style.Axes, iteration: Iteration, tracks: Sequence[_Track], exposed: np.ndarray) -> None:
    """Label the rows: worker names on the left, percentages of computing and exposed time on the right."""
    names, span = worker_names(iteration), axes.get_ylim()[0]
    if iteration.graph.workers == 1:
        for track in tracks:
            mine = track.name == "compute"
            words, colour = (names[0], style.TEXT) if mine else (track.name, CALLS[track.name])
            _beside(axes, -1, 1 - (track.top + track.height / 2) / span, words, 9.0, colour)
        return
    size = min(8.5, style.axes_points(axes)[1] / len(names) * 0.36)
    for worker, name in enumerate(names):
        high, low = 1 - (worker + 0.34) / span, 1 - (worker + 0.72) / span
        head, _, tail = name.partition(", ")
        _beside(axes, -1, high, head, size, style.TEXT)
        _beside(axes, -1, low, tail, 0.85 * size, style.DIM)
        computing, waiting = iteration.compute_seconds[worker] / iteration.seconds, exposed[worker]
        fraction = waiting / iteration.seconds
        _beside(axes, 1, high, f"{computing:.0%} computing", size, style.TEXT)
        colour = EXPOSED if fraction >= 5e-4 else style.DIM
        _beside(axes, 1, low, f"{fraction:.1%} exposed", 0.85 * size, colour)
        if worker:
            axes.axhline(worker, color=style.RIM, lw=0.6, zorder=1)


def _beside(axes: style.Axes, side: int, y: float, words: str, size: float, colour: str) -> None:
    """Write text on the left (``side`` -1) or right (1) of the axes; ``y``: fraction of their height."""
    x, ha = (-0.008, "right") if side < 0 else (1.008, "left")
    axes.text(x, y, words, color=colour, fontsize=size, ha=ha, va="center", transform=axes.transAxes)


def _legend(
    figure: style.Figure, iteration: Iteration, box: tuple[float, float, float, float], exposed: bool
) -> None:
    """Draw the legend of colours."""
    graph = iteration.graph
    parts = _has_parts(iteration)
    kinds, purposes = set(graph.kind), {call.purpose for call in graph.call if call is not None}

    def plain(*colours: str) -> list[dict[str, Any]]:
        return [{"facecolor": colour, "linewidth": 0.0} for colour in dict.fromkeys(colours)]

    entries = [(kind, plain(*colours[: 1 + parts])) for kind, colours in COMPUTE.items() if kind in kinds]
    entries += [(purpose, plain(colour)) for purpose, colour in CALLS.items() if purpose in purposes]
    entries += [("exposed: waits for a call", [_HATCHED])] * exposed
    entries += [("numbers: microbatches", [])] * parts
    style.legend(figure, box, entries)
