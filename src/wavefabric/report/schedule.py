"""Build the page of a schedule: its verification, its rounds as an animation, and its time on a fabric."""

from __future__ import annotations

from typing import Any

import numpy as np

from wavefabric.base.units import binary_bytes, counted, time_words
from wavefabric.collectives import Schedule, ScheduleError, verify
from wavefabric.collectives.conditions import kind, whole_elements
from wavefabric.collectives.structure import transfer_elements
from wavefabric.fabric import AnyFabric, PhotonicFabric, cost, plan_circuits
from wavefabric.fabric.draw.circuit_geometry import ring_scene, scene
from wavefabric.fabric.draw.page import page
from wavefabric.fabric.draw.replay import replay
from wavefabric.report.content import BAD, Content, Tile, pairs
from wavefabric.report.figures import bars, macro, plot, table

#: Approximate number of transfers above which an animation shows only the first rounds.
_MOST_DRAWN = 12_000
_PARTS = "transfer", "latency", "reconfiguration"


def schedule_content(schedule: Schedule, fabric: AnyFabric | None, nbytes: float) -> Content:
    """Return the content of a schedule's page for an array of ``nbytes`` bytes, timed on ``fabric`` if given.

    `InputError` if the fabric cannot run the schedule.
    """
    rounds, ranks, t = schedule.communication_rounds, schedule.ranks, schedule.transfers
    content = Content(f"schedule, {kind(schedule)[0]}", schedule.name)
    facts = {"ranks": ranks, "rounds": rounds, "transfers": t.size, "array": binary_bytes(nbytes)}
    facts |= {"fabric": fabric.name if fabric else "none given", "buffers": ", ".join(schedule.buffers)}
    content.tiles = [Tile("Rounds", str(rounds), f"{counted(ranks, 'rank')}; --fabric gives the time")]
    about = table([], pairs(facts))
    try:
        verify(schedule)
    except ScheduleError as error:
        content.state, content.verdict = BAD, f"Wrong: {error}"
        content.add("Provenance", about)
        return content
    content.verdict = f"Proved: {ranks} ranks end with their results after {counted(rounds, 'round')}"
    element_bytes = nbytes / (whole_elements(schedule) or 1)
    circuits = {"plan": plan_circuits(schedule, fabric)} if isinstance(fabric, PhotonicFabric) else {}
    time = None if fabric is None else cost(schedule, fabric, element_bytes, **circuits)
    sizes = transfer_elements(schedule) * element_bytes * (t["src"] != t["dst"])
    if time is not None:
        note = f"{nbytes / max(time.seconds, 1e-12) / 1e9:.3g} GB/s of the array, {time.model} model"
        if (ratio := time.ratio(time.bound)) is not None:
            note += f", {ratio:.2f} × the lower bound"
        content.tiles = [Tile(f"Time on {time.fabric}", time_words(time.seconds), note)]
        content.parts = {key: sum(getattr(r, key) for r in time.rounds) for key in _PARTS if time.rounds}
        content.parts_title = "Where the time goes"
    sent = binary_bytes(float(np.bincount(t["src"], sizes, ranks).max()))
    of = f"by the rank that sends most; an array of {binary_bytes(nbytes)}"
    content.tiles.append(Tile("Sent", sent, of))
    content.thumbnail = _progress(schedule)
    if rounds:
        most = max(1, _MOST_DRAWN * rounds // max(1, int(np.count_nonzero(sizes))))
        movie = (
            scene(schedule, circuits["plan"], time, most) if circuits else ring_scene(schedule, time, most)
        )
        content.add("Rounds", macro("player", title="Round by round", content=page(movie)))
    by_round = time.rounds if time else ()
    rows = [(f"round {r.round}", {k: v for k in _PARTS if (v := getattr(r, k))}, False) for r in by_round]
    note = "the first 40" if len(rows) > 40 else ""
    content.add("Figures", content.thumbnail, bars("Time of each round", rows[:40], note=note))
    numbers = [(r.round, time_words(r.seconds), binary_bytes(r.bytes), r.limit) for r in by_round]
    content.add("Numbers", table(("round", "time", "sent", "bound by"), numbers))
    content.add("Provenance", about)
    return content


def _progress(schedule: Schedule) -> Any:
    """Return a plot of the percentage of its final result that a rank holds, over rounds."""
    percent = replay(schedule).levels
    percent = 100 * percent[:, ~np.isnan(percent).all(axis=0)]
    levels = {"mean": percent.mean(axis=1), "least": percent.min(axis=1)} if percent.size else {}
    if percent.size and np.ptp(percent, axis=1).max() <= 0.1:
        levels = {"every rank": percent[:, 0]}
    lines = {name: (np.arange(len(percent)), values) for name, values in levels.items()}
    return plot("Progress", lines, "rounds done", "% of its result that a rank holds")
