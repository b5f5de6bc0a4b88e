"""Build the page of a plan: the predicted cost of a run in each configuration."""

from __future__ import annotations

from typing import Any

from wavefabric.base.units import binary_bytes, counted, time_words
from wavefabric.fabric.planner.plan import error_words, read_plan
from wavefabric.report.content import Content, Tile, pairs
from wavefabric.report.figures import bars, table

#: Parts of a step's time, with their labels.
_PARTS = {"compute": "compute", "pack": "pack", "exposed": "exposed exchange"}


def plan_content(contents: Any, name: str) -> Content:
    """Return the content of a plan's page; `InputError` if ``contents`` is no JSON of a plan."""
    plan = read_plan(contents)
    best, count = plan.choice, counted(len(plan.candidates), "configuration")
    content = Content("plan", name, f"Chosen of {count}: {best.words}; {plan.reason}")
    rows, cells = [], []
    for each in plan.candidates:
        times = vars(each.seconds)
        parts = {words: times[key] for key, words in _PARTS.items() if times[key] > 1e-3 * times["step"]}
        rows.append((each.words, parts, each is best))
        shown = (time_words(seconds) if seconds else "0" for seconds in times.values())
        cells.append([each.words, *shown, binary_bytes(each.bytes), error_words(each.error)])
        if each is best:
            content.parts = parts
    total = time_words(best.seconds.step * plan.steps) if plan.steps else "unknown time"
    where = f"of the GPU that needs most; {counted(plan.ranks, 'rank')} on {plan.device}, {plan.fabric}"
    content.tiles = [
        Tile("Predicted step", time_words(best.seconds.step), f"{total} for {counted(plan.steps, 'step')}"),
        Tile("Predicted memory", binary_bytes(best.bytes), where),
    ]
    content.parts_title = "Where a step's time should go"
    content.thumbnail = bars("Predicted time per step", rows, note="fastest first")
    heads = "configuration", "step", "compute", "pack", "exchange", "exposed", "memory", "error"
    content.add("Configurations", content.thumbnail, table(heads, cells))
    about = {"problem": plan.problem, "device": plan.device, "fabric": plan.fabric, "ranks": plan.ranks}
    content.add("Provenance", table([], pairs(about), "What was planned"))
    return content
