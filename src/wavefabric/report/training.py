"""The page of a training iteration, or of several compared: what ``wavefabric train --json`` prints."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from wavefabric.files.faults import checked
from wavefabric.report.content import Content, Tile, pairs
from wavefabric.report.figures import bars, pairs_table, table
from wavefabric.units import binary_bytes, counted, three_digits, time_words

_Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="allow")


class SimulatedIteration(_Table):
    """What the page needs of an iteration, s and B."""

    gpus: Annotated[int, Field(ge=1)]
    fabric: str
    collective: str
    seconds: _Seconds
    samples_per_second: _Seconds
    compute_seconds: list[_Seconds]
    exposed_seconds: _Seconds
    hidden_seconds: _Seconds
    bound_by: str
    critical_seconds: dict[str, _Seconds]
    calls: dict[str, dict[str, float]] = {}
    memory_bytes: dict[str, float] = {}
    model_flops_utilisation: float | None = None


class TrainingFacts(_Table):
    """The whole of the JSON: one iteration, or cases."""

    work: str
    cases: list[SimulatedIteration] = []


def training_content(facts: dict[str, Any], name: str) -> Content:
    """What a simulated iteration says; InputError for JSON of another form."""
    known = checked(TrainingFacts, facts)
    cases = known.cases or [checked(SimulatedIteration, facts)]
    best = min(cases, key=lambda case: case.seconds)
    several = len(cases) > 1
    words = f"{three_digits(best.samples_per_second)} samples/s on {best.gpus} GPUs of {best.fabric}, {best.collective}"
    verdict = f"Fastest of {len(cases)}: {words}" if several else f"Simulated: {words}; bound by {best.bound_by}"
    content = Content("training", known.work.partition(", ")[0] or name, verdict)
    flops = best.model_flops_utilisation
    note = f"{three_digits(best.samples_per_second / best.gpus)} samples/s a GPU" + (f", {flops:.1%} of peak FLOP/s" if flops else "")
    total = best.memory_bytes.get("total", 0.0)
    content.tiles = [
        Tile("Time an iteration", time_words(best.seconds), note),
        Tile("Memory", binary_bytes(total) if total else "not recorded", "of the GPU that needs most"),
    ]
    content.parts = {("computation" if key == "compute" else key): value for key, value in best.critical_seconds.items()}
    content.parts_title = "Where the time goes, on the critical path"
    rows = [(_label(case), _split(case), several and case is best) for case in cases]
    chart = bars("Time an iteration", rows, note="computation, and communication that it does not hide")
    memory = {key: value for key, value in best.memory_bytes.items() if key != "total"}
    held = bars("Memory of a GPU", [(key, {"": value}, False) for key, value in memory.items()], binary_bytes)
    content.thumbnail = chart
    content.add("Figures", chart, held)
    heads = ("case", "iteration", "samples/s", "exposed", "hidden", "bound by")
    cells = [
        (_label(c), time_words(c.seconds), three_digits(c.samples_per_second), _time(c.exposed_seconds), _time(c.hidden_seconds), c.bound_by)
        for c in cases
    ]
    columns = "calls", "least_bytes", "median_bytes", "largest_bytes", "bytes"
    calls = [
        (purpose, f"{values.get('calls', 0):g}", *(binary_bytes(values.get(key, 0.0)) for key in columns[1:]))
        for purpose, values in best.calls.items()
    ]
    words = ("communication of", "calls", "least", "median", "largest", "total")
    content.add("Numbers", table(heads, cells, counted(len(cases), "case")), table(words, calls, "Collective calls"))
    leave = {*SimulatedIteration.model_fields, "cases", "layouts", "written"}
    about = pairs({key: value for key, value in facts.items() if not isinstance(value, (dict, list))}, leave)
    content.add("Provenance", pairs_table(about, "What was simulated"))
    return content


def _label(case: SimulatedIteration) -> str:
    return f"{case.gpus} GPUs, {case.fabric}, {case.collective}"


def _split(case: SimulatedIteration) -> dict[str, float]:
    """Computation of the busiest stage, exposed communication, and what is left: waiting."""
    compute = min(max(case.compute_seconds, default=0.0), case.seconds)
    exposed = min(case.exposed_seconds, case.seconds - compute)
    parts = {"computation": compute, "exposed communication": exposed, "waiting": case.seconds - compute - exposed}
    return {key: value for key, value in parts.items() if value > 1e-6 * case.seconds}


def _time(seconds: float) -> str:
    return time_words(seconds) if seconds else "0 s"
