"""Benchmark ``ultrasound-adjoint``: what an adjoint time step costs, beside a forward one, and a gradient."""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from wavefabric.acoustics.choose_stages import make_stages, needed_bytes
from wavefabric.acoustics.problem import Problem
from wavefabric.acoustics.run_settings import PRECISIONS
from wavefabric.acoustics.solver.adjoint.step import AdjointStep, needs_states
from wavefabric.acoustics.solver.coefficients import Fields
from wavefabric.cli.bench.common import Triple, calls, silent
from wavefabric.cli.bench.ultrasound_cases import MEDIA, NO_SENSOR, Stepper, check, outline, problem
from wavefabric.cli.bench.ultrasound_step import SIZES
from wavefabric.fabric.execution import report, timing
from wavefabric.runtime.device import Device, get_device
from wavefabric.runtime.lifecycle.collective_checks import check_memory
from wavefabric.runtime.lifecycle.reversal import Reversal

#: By what is differentiated, by the name of the row.
WRT = {
    "p0": frozenset(("initial_pressure",)),
    "sound_speed": frozenset(("sound_speed",)),
    "sound_speed, density": frozenset(("sound_speed", "density")),
    "all": frozenset(("sound_speed", "density", "alpha_coeff", "nonlinearity")),
}
_SAMPLE_MS = 40.0
#: Steps of a gradient, and fields that are free for states, of which the whole cost is worked out.
_STEPS, _FREE = 10_000, (200, 60)


def run(
    sizes: Sequence[Triple] = (),
    media: Sequence[str] = MEDIA,
    *,
    precision: str = "single",
    repeats: int = 7,
    device: str | Device = "auto",
    threads: int | None = None,
    progress: Callable[[str], object] = silent,
) -> dict[str, Any]:
    """Forward and adjoint steps in turn, and copies of a state; sizes and media as of `ultrasound_step.run`.

    Each line gives ``forward``, ``adjoint`` and ``copy`` (of a state) in ms, ``ratio``, the median of adjoint
    over forward of the same round, and ``runs``: what a gradient of 10 000 steps costs in forward runs where
    so many fields are free, from these times and the steps that binomial checkpointing takes again.
    """
    device = get_device(device, threads)
    chosen = tuple(sizes) or SIZES["cpu" if device.name == "cpu" else "cuda"]
    check(chosen, media, precision, repeats, 4096)
    dtype = np.dtype(PRECISIONS[precision])
    for shape, name in product(chosen, media):
        inputs, field = outline(name, shape), math.prod(shape) * dtype.itemsize
        needed = needed_bytes(inputs, NO_SENSOR, dtype, device, indexed=False)
        needed += AdjointStep.nbytes(inputs, WRT["all"], 6 * field, field) + 6 * field
        check_memory(
            None, device, needed, f"{name}, {report.shape_words(shape)},", "allowed: a smaller --size"
        )
    bandwidth, cases = timing.copy_bandwidth(device), []
    for shape in chosen:
        field, lines = math.prod(shape) * dtype.itemsize, []
        for name, wrt in product(media, WRT):
            if (wrt == "p0") == (name == "homogeneous") or wrt.startswith("sound_speed"):
                progress(f"{report.shape_words(shape)}: {name}, {wrt}")
                line = _line(problem(name, shape, 1 << 20, precision, device), wrt, dtype, device, repeats)
                for kind in ("forward", "adjoint"):
                    line[kind]["passes"] = line[kind]["ms"] * 1e-3 * bandwidth / field
                lines.append({"name": name, "wrt": wrt} | line)
        cases.append({"shape": list(shape), "dtype": str(dtype), "field_bytes": field, "lines": lines})
    result = {"benchmark": "ultrasound-adjoint", "precision": precision, "repeats": repeats}
    result |= {"copy_bytes_per_second": bandwidth, "cases": cases}
    return result | {"machine": timing.machine(device)}


def _line(inputs: Problem, wrt: str, dtype: np.dtype, device: Device, repeats: int) -> dict[str, Any]:
    inputs = replace(inputs, initial_pressure=None)
    stages = make_stages(device, inputs, dtype, indexed=False)
    stepper, adjoint = Stepper(stages, 2), AdjointStep(stages, WRT[wrt])
    state, held, number = stages.fields.named(), Fields(stages.coefficients), 1 << 19

    def back() -> None:
        adjoint.transpose_pressure(number, held)
        adjoint.transpose_motion(number, stages.fields, held)

    def copy() -> None:
        for name, target in held.named().items():
            device.copy(target, state[name])

    work = {"forward": stepper, "adjoint": back, "copy": copy}
    each = {kind: calls(device, call, _SAMPLE_MS) for kind, call in work.items()}
    times: dict[str, list[float]] = {kind: [] for kind in work}
    for _ in range(repeats):
        for kind, call in work.items():
            times[kind] += timing.milliseconds(device, call, 1, each[kind])
    ratio, copies = (
        statistics.median(a / f for a, f in zip(times[kind], times["forward"], strict=True))
        for kind in ("adjoint", "copy")
    )
    fields, runs = sum(array.size for array in state.values()) / math.prod(inputs.shape), {}
    for free in _FREE:
        again = _runs(int(free / fields)) if needs_states(inputs, WRT[wrt]) else np.array([1, 1, 0])
        runs[str(free)] = again @ np.array([1.0, ratio, copies])
    line: dict[str, Any] = {kind: timing.summary(samples) for kind, samples in times.items()}
    return line | {"ratio": ratio, "copy_ratio": copies, "state_fields": fields, "runs": runs}


def _runs(states: int) -> np.ndarray:
    """Forward steps, adjoint steps and copies of a state, of a gradient, over the steps of its run."""
    # A system without arrays, and its store, all on the device: only the numbers of steps and states count.
    methods = "arrays", "begin", "restored", "advance", "peek", "read", "write"
    nothing: Any = SimpleNamespace(states=states, **dict.fromkeys(methods, lambda *_: {}))
    reversal = Reversal(nothing, _STEPS, nothing)
    for step in range(1, _STEPS + 1):
        reversal.after(step)
    copies = 0
    for step in range(_STEPS - 1, -1, -1):
        if reversal.peek(step) is None:
            reversal.restore(step)
            copies += 2  # of the state after the step, and one that is read
    return np.array([1 + reversal.advanced / _STEPS, 1.0, copies / _STEPS])


def table(result: dict[str, Any]) -> list:
    """A table a grid."""
    return [_case_table(case) for case in result["cases"]]


def _name(line: dict[str, Any]) -> str:
    return f"{line['name']}: {line['wrt']}"


def _case_table(case: dict[str, Any]) -> Any:
    rows = []
    for line in case["lines"]:
        cells = [f"{line[kind]['ms']:.3g}" for kind in ("forward", "adjoint", "copy")]
        passes = [f"{line[kind]['passes']:.0f}" for kind in ("forward", "adjoint")]
        runs = [f"{line['runs'][str(free)]:.2f}" for free in _FREE]
        rows.append((_name(line), *cells, f"{line['ratio']:.2f}", *passes, *runs))
    return report.table(
        f"{' x '.join(map(str, case['shape']))} {case['dtype']}",
        ("medium: with respect to", "forward ms", "adjoint ms", "copy ms", "ratio", "passes", "passes back",
         *(f"runs, {free} fields" for free in _FREE)),
        rows,
        f"ratio: median of adjoint / forward step of the same round; runs: a gradient of {_STEPS} steps in "
        "forward runs, where so many fields are free for states",
    )  # fmt: skip


def plot(result: dict[str, Any], path: str | Path) -> None:
    """Draw a bar an adjoint step: as much as a forward step takes in one colour, and the rest in another."""
    panels = []
    for case in result["cases"]:
        bars = [(_name(line), line["forward"]["ms"], line["adjoint"]["ms"]) for line in case["lines"]]
        panels.append((f"{'×'.join(map(str, case['shape']))}, {case['dtype']}", bars))
    report.step_bars(path, panels, "a forward step")
