"""The page of a plan: what a run was predicted to take in each configuration."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, Field

from wavefabric.errors import InputError
from wavefabric.files.faults import checked
from wavefabric.report.content import Content, Tile, pairs
from wavefabric.report.figures import bars, table
from wavefabric.units import binary_bytes, counted, time_words

_Number = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class PlannedSeconds(BaseModel):
    """Of a step, s: in all, of its parts, and what of the exchange is not hidden behind computation."""

    step: _Number
    compute: _Number = 0.0
    pack: _Number = 0.0
    exchange: _Number = 0.0
    exposed: _Number = 0.0


class PlannedRun(BaseModel):
    """A configuration and its prediction; ``bytes`` of the GPU that needs most."""

    configuration: str
    reason: str = ""
    device: str = ""
    fabric: str | None = ""
    ranks: int = 1
    steps: Annotated[int, Field(ge=0)] = 0
    seconds: PlannedSeconds
    bytes: _Number = 0.0
    error: str | float | None = ""


class PlanTable(BaseModel):
    """The file of a plan; ``choice`` is the index of a candidate."""

    problem: dict[str, Any] = {}
    choice: Annotated[int, Field(ge=0)] = 0
    candidates: Annotated[list[PlannedRun], Field(min_length=1)]


def plan_content(facts: Any, name: str) -> Content:
    """What a plan says; InputError for one of another form."""
    plan = checked(PlanTable, facts)
    if plan.choice >= len(plan.candidates):
        raise InputError(
            f"choice: {plan.choice}; allowed: below {len(plan.candidates)}, an index of candidates"
        )
    best, count = plan.candidates[plan.choice], counted(len(plan.candidates), "configuration")
    why = f"; {best.reason}" if best.reason else ""
    content = Content("plan", name, f"Chosen of {count}: {best.configuration}{why}")
    rows, cells = [], []
    for each in sorted(plan.candidates, key=lambda each: each.seconds.step):
        own = each.seconds
        parts = {"compute": own.compute, "pack": own.pack, "exposed exchange": own.exposed}
        parts["the rest"] = max(0.0, own.step - sum(parts.values()))
        parts = {key: value for key, value in parts.items() if value > 1e-3 * own.step}
        rows.append((each.configuration, parts, each is best))
        times = [time_words(value) if value else "0" for value in vars(own).values()]
        cells.append([each.configuration, *times, binary_bytes(each.bytes), each.error or "", each.reason])
        if each is best:
            content.parts = parts
    total = time_words(best.seconds.step * best.steps) if best.steps else "unknown time"
    where = f"of the GPU that needs most; {counted(best.ranks, 'rank')} on {best.device} {best.fabric or ''}"
    content.tiles = [
        Tile("Predicted step", time_words(best.seconds.step), f"{total} for {counted(best.steps, 'step')}"),
        Tile("Predicted memory", binary_bytes(best.bytes), where.strip()),
    ]
    content.parts_title = "Where a step's time should go"
    content.thumbnail = bars("Predicted time a step", rows, note="fastest first")
    heads = "configuration", "step", "compute", "pack", "exchange", "exposed", "memory", "error", "why"
    content.add("Configurations", content.thumbnail, table(heads, cells))
    content.add("Provenance", table([], pairs(plan.problem), "What was planned"))
    return content
