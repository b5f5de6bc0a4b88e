"""Draws schedules and fabrics into files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from wavefabric.base.errors import InputError, ensure
from wavefabric.base.files import output
from wavefabric.base.files.output import check_output, replacing, write_text
from wavefabric.base.system.progress import Progress
from wavefabric.base.units import binary_bytes, counted, time_words
from wavefabric.collectives.plans.plan import ExecutionPlan
from wavefabric.collectives.schedule import Schedule
from wavefabric.fabric.cost_models.cost import AnyFabric, Cost
from wavefabric.fabric.cost_models.flow import flow
from wavefabric.fabric.cost_models.kernel import plan_events
from wavefabric.fabric.draw import graph, style, timeline, wafers
from wavefabric.fabric.draw.animate import gif
from wavefabric.fabric.draw.circuit_geometry import MOST_FRAMES, scene
from wavefabric.fabric.draw.page import page
from wavefabric.fabric.electrical.fabric import Fabric
from wavefabric.fabric.electrical.flows import flows
from wavefabric.fabric.electrical.static_routes import transfer_bytes
from wavefabric.fabric.photonic.circuit_plan import CircuitPlan
from wavefabric.fabric.photonic.fabric import PhotonicFabric

#: File name endings of still pictures, and of animations.
STILL, ANIMATED = (".png", ".svg", ".pdf"), (".gif", ".html")
ENDINGS = (*STILL, *ANIMATED)
#: Largest number of rounds in a still picture, and in a GIF; a page has up to `circuit_geometry.MOST_FRAMES`.
PANELS, FILM = 12, 40
#: Largest number of ranks in a picture of kernels, and of characters in a title.
MOST_RANKS, _TITLE = 32, 80


def check_ending(path: Path, fabric: AnyFabric | None = None) -> None:
    """Raise `InputError` unless the ending of ``path`` is allowed: an animation only for photonic fabrics."""
    light = isinstance(fabric, PhotonicFabric)
    allowed = ENDINGS if light else STILL
    if path.suffix.lower() not in allowed:
        kind = "" if fabric is None else f" for {'photonic' if light else 'electrical'} fabrics"
        raise InputError(f"output: {path} given; allowed{kind}: names that end in {', '.join(allowed)}")


def check_picture(path: str | Path, force: bool, fabric: AnyFabric | None = None) -> Path:
    """Return ``path`` as a `Path`; `InputError` as in `check_ending`, or if it may not be written."""
    check_ending(Path(path), fabric)
    return check_output(path, force)


def _check_sends(schedule: Schedule, wanted: str) -> None:
    """Raise `InputError` for a schedule without communication, whose picture would lack ``wanted``."""
    allowed = f"a schedule with {wanted} to draw"
    ensure(schedule.communication_rounds, "schedule", f"{schedule.name} sends nothing", allowed)


@style.without_formulae()
def draw_circuits(
    schedule: Schedule,
    plan: CircuitPlan,
    path: str | Path,
    cost: Cost | None = None,
    *,
    most: int | None = None,
    progress: Progress | None = None,
    force: bool = False,
) -> Path:
    """Draw the circuits of a plan over the tiles of its fabric, round by round, into the file ``path``.

    The schedule must be verified; times are from ``cost``. The ending of ``path`` selects rounds side by side
    (``.png``, ``.svg``, ``.pdf``), an animation (``.gif``, whose pictures ``progress`` counts), or a page
    (``.html``). At most ``most`` rounds are shown, evenly selected; by default 12, in an animation 40, in a
    page 600. ``force`` replaces an existing file. Raises `InputError` if nothing is sent, or the file exists,
    has another ending or cannot be written.
    """
    path = check_picture(path, force, plan.fabric)
    _check_sends(schedule, "circuits")
    ending = path.suffix.lower()
    default = {".gif": FILM, ".html": MOST_FRAMES}.get(ending, PANELS)
    shown = scene(schedule, plan, cost, default if most is None else min(most, MOST_FRAMES))
    if ending == ".html":
        return write_text(path, page(shown), "output", force=True)
    if ending == ".gif":
        with replacing(path) as partial:
            gif(shown, partial, progress)
        return path
    return save_figure(path, wafers.circuits_figure(shown))


@style.without_formulae()
def draw_flow(
    schedule: Schedule,
    fabric: Fabric,
    element_bytes: float,
    path: str | Path,
    cost: Cost | None = None,
    *,
    force: bool = False,
) -> Path:
    """Draw link loads on an electrical fabric, beside a timeline of a schedule's transfers.

    Times are from ``cost``, by default of the cost model ``"flow"``; errors as in `check_picture`.
    """
    path = check_picture(path, force, fabric)
    _check_sends(schedule, "transfers")
    cost = cost or flow(schedule, fabric, element_bytes)
    assert cost.times is not None
    loads = link_loads(schedule, fabric, element_bytes, cost.seconds)
    numbers = [fabric.numbering.index(name) for name in fabric.gpus[: schedule.ranks] if fabric.numbering]
    words = fabric.name
    if numbers != list(range(len(numbers))):  # ranks are not in the order of the machine
        order = f"the order {','.join(map(str, numbers))}" if len(numbers) <= 16 else "another order"
        words += f" in {order}"
    words += f", {counted(schedule.communication_rounds, 'round')}, {time_words(cost.seconds)}"
    if (ratio := cost.ratio(cost.bound)) is not None:
        words += f" ({ratio:.2f} times the bound)"
    words += f"; busiest: {cost.busiest}" if cost.busiest else ""
    figure = style.dark_figure(12.6, 6.3, (schedule.name, words))
    graph.graph(figure, (0.015, 0.07, 0.45, 0.80), fabric, loads)
    timeline.gantt(figure.add_axes((0.525, 0.115, 0.455, 0.715)), schedule, cost.times)
    return save_figure(path, figure)


def link_loads(schedule: Schedule, fabric: Fabric, element_bytes: float, seconds: float) -> np.ndarray:
    """Return the fraction of ``seconds`` in which a schedule keeps each wire busy: shape (wires,)."""
    over = flows(schedule, fabric)
    use, moves = over.use, over.route >= 0
    size = np.bincount(over.route[moves], transfer_bytes(schedule, element_bytes)[moves], use.latency.size)
    return use.seconds(size)[: use.wires.source.size] / max(seconds, 1e-300)


@style.without_formulae()
def draw_timeline(
    plan: ExecutionPlan, fabric: Fabric, element_bytes: float, path: str | Path, *, force: bool = False
) -> Path:
    """Draw one call of an execution plan over time, simulated by the cost model ``"kernel"``.

    Raises `InputError` if the fabric has no data on kernels, there are more than `MOST_RANKS` ranks, nothing
    is moved, or the file exists, has another ending or cannot be written.
    """
    path = check_picture(path, force, fabric)
    ranks = plan.schedule.ranks
    if ranks > MOST_RANKS:
        raise InputError(f"ranks: {ranks} given; allowed in a picture: up to {MOST_RANKS}")
    events = plan_events(plan, fabric, element_bytes)
    name = plan.schedule.name
    if not events:
        raise InputError(f"schedule: {name} moves nothing; allowed in a picture: one that does")
    title = name if len(name) <= _TITLE else f"{name[: _TITLE - 1]}…"
    high, last = 1.75 + 0.52 * ranks, max(event.end for event in events)
    words = f"{fabric.name}, {plan.protocol}, {time_words(last)} in the kernel"
    figure = style.dark_figure(11.0, high, (title, words))
    timeline.kernels(figure.add_axes((0.065, 0.57 / high, 0.915, (high - 1.6) / high)), events, ranks, last)
    box = (0.065, (high - 0.95) / high, 0.915, 0.25 / high)
    timeline.kernels_legend(figure, box, {event.kind for event in events})
    return save_figure(path, figure)


@style.without_formulae()
def draw_fabric(fabric: AnyFabric, path: str | Path, *, force: bool = False) -> Path:
    """Draw a fabric alone: tiles and waveguides, or GPUs, switches, links; errors as in `check_picture`."""
    path = check_picture(path, force)
    if isinstance(fabric, PhotonicFabric):
        return save_figure(path, wafers.fabric_figure(fabric))
    figure = style.dark_figure(7.4, 7.6, (fabric.name, fabric.description[:110]), sizes=(15.0, 9.0))
    graph.graph(figure, (0.02, 0.06, 0.96, 0.83), fabric)
    return save_figure(path, figure)


@style.without_formulae()
def draw_routes(fabric: PhotonicFabric, title: str, routings: wafers.Routings, path: str | Path) -> Path:
    """Draw the number of routes on each edge between tiles, one panel per routing."""
    return save_figure(Path(path), wafers.routes_figure(fabric, title, routings))


def draw_costs(
    path: str | Path, sizes: Sequence[float], costs: Mapping[str, Sequence[Cost]], fabric: str
) -> Path:
    """Plot the times of schedules, and the lower bound on them, over the size of the array in bytes.

    ``costs``: from the name of each schedule to its `Cost` for each of ``sizes``; ``fabric``: its name.
    """
    from wavefabric.base.results.figure_style import COLOURS, GREY, MARKERS, new_axes, plain_text, style

    with style(**{"axes.titlepad": 8, "axes.grid.axis": "both"}):
        axes = new_axes(8.4, 4.8)
        for k, (name, of_size) in enumerate(costs.items()):
            look = {"color": COLOURS[k % len(COLOURS)], "linestyle": "-" if k < len(COLOURS) else "--"}
            if len(sizes) < 25:
                look |= {"marker": MARKERS[k % len(MARKERS)], "markersize": 4.5}
            axes.plot(sizes, [c.seconds * 1e6 for c in of_size], label=plain_text(name), **look)
        bound = np.min([[c.bound.seconds * 1e6 for c in of_size] for of_size in costs.values()], axis=0)
        if (bound > 0).all():
            axes.plot(sizes, bound, color=GREY, linewidth=1, linestyle=":", label="bound")
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.xaxis.set_major_formatter(lambda value, _: binary_bytes(value))
        axes.set(xlabel="size of the array", ylabel="time (µs)")
        axes.set_title(f"{plain_text(fabric)}, {next(iter(costs.values()))[0].model} model")
        axes.legend(loc="upper left")
    return save_figure(Path(path), axes.figure)


def save_figure(path: Path, figure: style.Figure) -> Path:
    """Write a figure atomically, in the format of the path's ending."""
    return output.save_figure(figure, path, dpi=130, facecolor=figure.get_facecolor())
