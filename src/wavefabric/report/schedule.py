"""The page of a schedule: proved, its rounds as an animation, and its time on a fabric."""

from __future__ import annotations

from typing import Any

import numpy as np

from wavefabric.collectives import Schedule, ScheduleError, verify
from wavefabric.collectives.conditions import kind, whole_elements
from wavefabric.collectives.structure import transfer_elements
from wavefabric.fabric import AnyFabric, PhotonicFabric, cost, plan_circuits
from wavefabric.fabric.cost_models.cost import Cost
from wavefabric.fabric.draw.page import page
from wavefabric.fabric.draw.replay import replay
from wavefabric.fabric.draw.ring import ring_scene
from wavefabric.fabric.draw.scene import scene
from wavefabric.report.content import BAD, Content, Tile
from wavefabric.report.figures import Axis, bars, macro, pairs_table, plot, table, timeline
from wavefabric.units import binary_bytes, counted, time_words

#: Circuits of an animation, at most: more rounds are shown in part.
_MOST_CIRCUITS = 12_000


def schedule_content(schedule: Schedule, fabric: AnyFabric | None, nbytes: float) -> Content:
    """What a schedule does with an array of so many bytes, timed on a fabric if there is one.

    InputError if the fabric does not take it.
    """
    rounds = counted(schedule.communication_rounds, "round")
    content = Content(f"schedule, {kind(schedule)[0]}", schedule.name, "")
    element_bytes = nbytes / (whole_elements(schedule) or 1)
    try:
        verify(schedule)
    except ScheduleError as error:
        content.state, content.verdict = BAD, f"Wrong: {error}"
        content.tiles = [Tile("Rounds", str(schedule.communication_rounds), counted(schedule.ranks, "rank"))]
        content.add("Provenance", pairs_table(_about(schedule, fabric, nbytes)))
        return content
    content.verdict = f"Proved: every rank ends with its result, {schedule.ranks} ranks, {rounds}"
    plan = plan_circuits(schedule, fabric) if isinstance(fabric, PhotonicFabric) else None
    options = {} if plan is None else {"plan": plan}
    time = None if fabric is None else cost(schedule, fabric, element_bytes, **options)
    t = schedule.transfers
    sizes = transfer_elements(schedule) * element_bytes * (t["src"] != t["dst"])
    sent = np.bincount(t["src"], sizes, schedule.ranks)
    note = f"by the rank that sends most, of an array of {binary_bytes(nbytes)}"
    content.tiles = [_speed(schedule, time, nbytes), Tile("Sent", binary_bytes(sent.max()), note)]
    if time is not None and time.rounds:
        parts = {key: sum(getattr(r, key) for r in time.rounds) for key in ("transfer", "latency", "reconfiguration")}
        content.parts, content.parts_title = parts, "Where the time goes"
    held = replay(schedule).levels
    x, held = np.arange(len(held)), 100 * held[:, ~np.isnan(held).all(axis=0)]
    levels = {"mean": (x, held.mean(axis=1)), "least": (x, held.min(axis=1))} if held.size else {}
    progress = plot("Progress", levels, Axis("rounds done"), Axis("% of its result that a rank holds"))
    content.thumbnail = progress
    if schedule.communication_rounds:
        most = max(1, _MOST_CIRCUITS * schedule.communication_rounds // max(1, np.count_nonzero(sizes)))
        made = ring_scene(schedule, time, most) if plan is None else scene(schedule, plan, time, most)
        content.add("Rounds", macro("player", title="Round by round", content=page(made)))
    content.add("Figures", progress, _by_round(time), _timeline(schedule, time))
    content.add("Numbers", *_tables(schedule, sizes, time))
    content.add("Provenance", pairs_table(_about(schedule, fabric, nbytes)))
    return content


def _speed(schedule: Schedule, time: Cost | None, nbytes: float) -> Tile:
    if time is None:
        return Tile("Rounds", str(schedule.communication_rounds), "with --fabric: its time")
    note = f"{nbytes / max(time.seconds, 1e-12) / 1e9:.3g} GB/s of the array, {time.model} model"
    if time.bound.seconds > 0:
        note += f", {time.seconds / time.bound.seconds:.2f} × the lower bound"
    return Tile(f"Time on {time.fabric}", time_words(time.seconds), note)


def _by_round(time: Cost | None) -> Any:
    keys = "transfer", "latency", "reconfiguration"
    rounds = () if time is None else time.rounds
    rows = [(f"round {r.round}", {k: getattr(r, k) for k in keys if getattr(r, k)}, False) for r in rounds]
    return bars("Time of each round", rows[:40], note="the first 40" if len(rows) > 40 else "")


def _timeline(schedule: Schedule, time: Cost | None) -> Any:
    """When each transfer runs, a row for each rank that sends."""
    if time is None or time.times is None or not time.times.size:
        return ""
    t, last = schedule.transfers, max(int(schedule.transfers["round"].max(initial=0)), 1)
    columns = t["src"].tolist(), t["dst"].tolist(), t["round"].tolist(), time.times.tolist()
    spans = {
        (src, begin, end): (src, begin, end, now / last, f"round {now}: {src} to {dst}")
        for src, dst, now, (begin, end) in zip(*columns, strict=True)
        if src != dst
    }
    rows = [str(rank) for rank in range(schedule.ranks)]
    return timeline("When each rank sends, by round", rows, list(spans.values()))


def _tables(schedule: Schedule, sizes: np.ndarray, time: Cost | None) -> tuple[Any, ...]:
    if time is not None and time.rounds:
        heads = "round", "time", "bytes sent", "bound by"
        return (table(heads, [(r.round, time_words(r.seconds), binary_bytes(r.bytes), r.limit) for r in time.rounds]),)
    numbers, which = np.unique(schedule.transfers["round"], return_inverse=True)
    total, count = np.bincount(which, sizes), np.bincount(which, sizes > 0)
    rows = [(n, int(c), binary_bytes(b)) for n, c, b in zip(numbers, count, total, strict=True) if c]
    return (table(("round", "transfers", "bytes sent"), rows),)


def _about(schedule: Schedule, fabric: AnyFabric | None, nbytes: float) -> list[tuple[str, str]]:
    where = "none given" if fabric is None else fabric.name
    facts = {"name": schedule.name, "ranks": schedule.ranks, "transfers": schedule.transfers.size}
    facts |= {"buffers": ", ".join(schedule.buffers), "fabric": where, "array": binary_bytes(nbytes)}
    return [(key, str(value)) for key, value in facts.items()]
