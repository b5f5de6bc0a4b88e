"""Build the page of a training iteration, or of several compared, from ``wavefabric train --json``."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, Field

from wavefabric.base.files.validation_errors import checked
from wavefabric.base.units import binary_bytes, significant, time_words
from wavefabric.report.content import Content, Tile, pairs
from wavefabric.report.figures import bars, table
from wavefabric.training.iteration.simulate import COMPUTATION

_Number = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class SimulatedIteration(BaseModel):
    """Holds the data, in s and bytes, of a simulated training iteration that the page needs."""

    gpus: Annotated[int, Field(ge=1)]
    fabric: str
    collective: str
    seconds: _Number
    samples_per_second: _Number
    compute_seconds: list[_Number]
    exposed_seconds: _Number
    bound_by: str
    critical_seconds: dict[str, _Number]
    memory_bytes: dict[str, _Number] = {}
    model_flops_utilisation: float | None = None
    left_out: dict[str, dict[str, str]] = {}

    @property
    def label(self) -> str:
        """Return the iteration's name in a comparison."""
        return f"{self.gpus} GPUs, {self.fabric}, {self.collective}"

    @property
    def split(self) -> dict[str, float]:
        """Return the time in s by part: computation of the busiest stage, exposed communication, waiting."""
        compute = min(max(self.compute_seconds, default=0.0), self.seconds)
        exposed = min(self.exposed_seconds, self.seconds - compute)
        waiting = self.seconds - compute - exposed
        parts = {"computation": compute, "exposed communication": exposed, "waiting": waiting}
        return {key: value for key, value in parts.items() if value > 1e-6 * self.seconds}


class TrainingFacts(BaseModel):
    """Holds the JSON of ``wavefabric train --json``; ``cases`` is empty if it has a single iteration."""

    work: str
    cases: list[SimulatedIteration] = []


def training_content(contents: dict[str, Any], name: str) -> Content:
    """Return the page content of one or more simulated iterations; `InputError` for other JSON."""
    facts = checked(TrainingFacts, contents)
    cases = facts.cases or [checked(SimulatedIteration, contents)]
    best, several = min(cases, key=lambda case: case.seconds), len(cases) > 1
    words = f"{significant(best.samples_per_second)} samples/s on {best.label}; bound by {best.bound_by}"
    verdict = f"Fastest of {len(cases)}: {words}" if several else f"Simulated: {words}"
    content = Content("training", facts.work.partition(", ")[0] or name, verdict)
    note = f"{significant(best.samples_per_second / best.gpus)} samples/s per GPU"
    if best.model_flops_utilisation:
        note += f", {best.model_flops_utilisation:.1%} of peak FLOP/s"
    total = best.memory_bytes.pop("total", 0.0)
    content.tiles = [Tile("Time per iteration", time_words(best.seconds), note)]
    memory_text = binary_bytes(total) if total else "not known"
    content.tiles.append(Tile("Memory", memory_text, "of the GPU that needs most"))
    critical = best.critical_seconds.items()
    content.parts = {COMPUTATION.get(k, f"communication of {k}"): v for k, v in critical}
    content.parts_title = "Where the time goes, on the critical path"
    rows = [(case.label, case.split, several and case is best) for case in cases]
    note = "hidden communication left out"
    content.thumbnail = bars("Time per iteration", rows, note=note, mark="fastest")
    memory = [(key, {"": value}, False) for key, value in best.memory_bytes.items()]
    content.add("Figures", content.thumbnail, bars("Memory of a GPU", memory, binary_bytes))
    missing = [(kind, *pair) for kind, each in best.left_out.items() for pair in each.items()]
    content.add("Left out", table(("calls", "algorithm", "why"), missing, "Algorithms not compared"))
    about = {key: value for key, value in contents.items() if not isinstance(value, (dict, list))}
    shown = pairs(about, tuple(SimulatedIteration.model_fields))
    content.add("Provenance", table([], shown, "What was simulated"))
    return content
