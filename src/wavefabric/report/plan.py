"""The page of a plan: what a run was predicted to take in each configuration."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from wavefabric.errors import InputError
from wavefabric.files.faults import checked
from wavefabric.report.content import Content, Tile, pairs
from wavefabric.report.figures import bars, pairs_table, table
from wavefabric.units import binary_bytes, counted, time_words

KIND = "wavefabric plan"
_Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="ignore")


class PlannedSeconds(_Table):
    """Of a step, s: in all, of its parts, and what of the exchange is not hidden behind computation."""

    step: _Seconds
    compute: _Seconds = 0.0
    pack: _Seconds = 0.0
    exchange: _Seconds = 0.0
    exposed: _Seconds = 0.0


class PlannedRun(_Table):
    """A configuration and its prediction; ``bytes`` of the GPU that needs most."""

    configuration: str
    reason: str = ""
    device: str = ""
    fabric: str = ""
    ranks: int = 1
    steps: Annotated[int, Field(ge=0)] = 0
    seconds: PlannedSeconds
    bytes: Annotated[float, Field(ge=0)] = 0
    error: str = ""


class PlanTable(_Table):
    """The file of a plan; ``choice`` is the index of a candidate."""

    problem: dict[str, Any] = {}
    choice: Annotated[int, Field(ge=0)] = 0
    candidates: Annotated[list[PlannedRun], Field(min_length=1)]


def plan_of(attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    """The prediction that a result keeps in its attributes; empty without one, or for one that is none."""
    try:
        return checked(PlannedRun, json.loads(str(attributes.get("plan") or ""))).model_dump()
    except (ValueError, RecursionError):  # InputError too
        return {}


def plan_content(facts: Any, name: str) -> Content:
    """What a plan says; InputError for one of another form."""
    plan = checked(PlanTable, facts)
    if plan.choice >= len(plan.candidates):
        allowed = f"allowed: below {len(plan.candidates)}, an index of candidates"
        raise InputError(f"choice: {plan.choice}; {allowed}")
    best = plan.candidates[plan.choice]
    order = sorted(range(len(plan.candidates)), key=lambda k: plan.candidates[k].seconds.step)
    rows = []
    for k in order:
        each = plan.candidates[k].seconds
        parts = {"compute": each.compute, "pack": each.pack, "exposed exchange": each.exposed}
        rest = each.step - sum(parts.values())
        parts = {n: v for n, v in parts.items() if v > 0} | ({"the rest": rest} if rest > 1e-3 * each.step else {})
        rows.append((plan.candidates[k].configuration, parts, k == plan.choice))
    verdict = f"Chosen of {counted(len(rows), 'configuration')}: {best.configuration}"
    content = Content("plan", name, f"{verdict}; {best.reason}" if best.reason else verdict)
    total = best.seconds.step * best.steps
    note = f"{time_words(total)} for {counted(best.steps, 'step')}" if best.steps else ""
    where = f"of the GPU that needs most, {counted(best.ranks, 'rank')} on {best.device} {best.fabric}"
    content.tiles = [
        Tile("Predicted step", time_words(best.seconds.step), note),
        Tile("Predicted memory", binary_bytes(best.bytes), where.strip()),
    ]
    content.parts, content.parts_title = rows[order.index(plan.choice)][1], "Where a step's time should go"
    chart = content.thumbnail = bars("Predicted time a step", rows, note="fastest first")
    heads = ["configuration", "step", "compute", "pack", "exchange", "exposed", "memory", "error", "why"]
    cells = [
        [c.configuration, *(time_words(s) if s else "0" for s in vars(c.seconds).values()), binary_bytes(c.bytes), c.error, c.reason]
        for c in (plan.candidates[k] for k in order)
    ]
    content.add("Configurations", chart)
    content.add("Numbers", table(heads, cells))
    content.add("Provenance", pairs_table(pairs(plan.problem), "What was planned"))
    return content
