"""What the kernels of an execution plan do through time: a row for each rank."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from wavefabric.collectives.plans.plan import ExecutionPlan
from wavefabric.errors import InputError
from wavefabric.fabric.cost_models.kernel import PlanEvent, plan_events
from wavefabric.fabric.draw import style
from wavefabric.fabric.draw.gantt import time_unit
from wavefabric.fabric.draw.pictures import check_ending, save_figure, size_words
from wavefabric.fabric.electrical.fabric import Fabric
from wavefabric.files.output import check_output
from wavefabric.units import time_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Colours of what a kernel does.
_COLOURS = {"put": "#4f9cff", "add and put": "#2fd6c0", "add": "#6cf08c", "copy": "#8fa3c4"}
#: Colours of what is on the way.
_TRANSFERS = {"signal": "#f4e45a", "packets": "#ffa24a"}
_HALF = 0.3
#: Characters of a title that there is space for.
_TITLE = 80
#: Most ranks of a picture.
MOST_RANKS = 32


@style.without_formulae()
def draw_timeline(
    plan: ExecutionPlan, fabric: Fabric, element_bytes: float, path: str | Path, *, force: bool = False
) -> Path:
    """One call of a plan on a fabric, by the cost model ``"kernel"``.

    `InputError` if the fabric says nothing of kernels, there are more than `MOST_RANKS` ranks, nothing is
    moved, or the file exists, has another ending or cannot be written.
    """
    from matplotlib.figure import Figure

    path = Path(path)
    check_ending(path, fabric)
    check_output(path, force)
    ranks = plan.schedule.ranks
    if ranks > MOST_RANKS:
        raise InputError(f"ranks: {ranks} given; allowed in a picture: up to {MOST_RANKS}")
    events = plan_events(plan, fabric, element_bytes)
    name = plan.schedule.name
    if not events:
        raise InputError(f"schedule: {name} moves nothing; allowed in a picture: one that does")
    title = name if len(name) <= _TITLE else f"{name[: _TITLE - 1]}…"
    high = 1.75 + 0.52 * ranks
    figure = Figure(figsize=(11.0, high), facecolor=style.NIGHT)
    axes = figure.add_axes((0.065, 0.57 / high, 0.915, (high - 1.6) / high))
    last = max(event.end for event in events)
    _draw(axes, events, ranks, last)
    _legend(figure, (0.065, (high - 0.95) / high, 0.915, 0.25 / high), {event.kind for event in events})
    words = f"{fabric.name}, {plan.protocol}, {time_words(last)} in the kernel"
    style.header(figure, 0.02, ((high - 0.3) / high, (high - 0.6) / high), (title, words))
    return save_figure(path, figure)


def _draw(axes: Axes, events: Sequence[PlanEvent], ranks: int, last: float) -> None:
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
            text = f"{kind} {size_words(event.nbytes)}"
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


def _legend(figure, box: tuple[float, float, float, float], kinds: set[str]) -> None:
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
