"""Benchmark ``many-sources``: simulations and gradients of many 2-D sources, one by one and together."""

import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from wavefabric.acoustics import (
    Grid,
    Medium,
    Sensor,
    Source,
    prepare,
    simulate_and_gradient,
    simulate_and_gradients,
)
from wavefabric.base.errors import ensure
from wavefabric.base.results.figure_style import BLUE, ORANGE
from wavefabric.cli.bench.common import silent
from wavefabric.fabric.execution import report, timing
from wavefabric.runtime.device import Device, get_device

SIZES = ((128, 128), (256, 256))
#: What is timed, by the key of its results.
WORK = {"simulation": "simulation", "gradient": "simulation and gradient"}
_SPACING, _SPEED, _DENSITY = 1e-4, 1500.0, 1000.0


def run(
    sizes: Sequence[tuple[int, int]] = (),
    sources: int = 16,
    steps: int = 500,
    *,
    precision: str = "single",
    repeats: int = 3,
    device: str | Device = "auto",
    threads: int | None = None,
    progress: Callable[[str], object] = silent,
) -> dict[str, Any]:
    """Time sources on a line of elements, which all listen; the medium is heterogeneous and absorbs.

    Each case gives ``shape`` and for each of `WORK` the milliseconds per source ``alone`` and ``together``,
    medians of ``repeats`` after one call that compiles, and their ``ratio``.
    """
    device = get_device(device, threads)
    chosen, cases = tuple(sizes) or SIZES, []
    for shape in chosen:
        ensure(min(shape) >= 32, "--size", report.shape_words(shape), "NXxNY, each from 32")
    for shape in chosen:
        progress(f"{report.shape_words(shape)}: {sources} sources, {steps} steps")
        cases.append({"shape": list(shape)} | _case(shape, sources, steps, precision, repeats, device))
    facts = {"sources": sources, "steps": steps, "precision": precision, "repeats": repeats}
    return {"benchmark": "many-sources", **facts, "cases": cases, "machine": timing.machine(device)}


def _case(
    shape: tuple[int, int], count: int, steps: int, precision: str, repeats: int, device: Device
) -> dict[str, Any]:
    rng, grid = np.random.default_rng(0), Grid(shape, _SPACING, pml_size=10)
    speed, density = (low * (1 + 0.02 * rng.random(shape)) for low in (_SPEED, _DENSITY))
    medium, elements = Medium(speed, density, alpha_coeff=0.5, alpha_power=1.5), np.zeros(shape, bool)
    elements[12, 12:-12] = True
    pulse, number = 1e5 * np.hanning(60) * np.sin(np.arange(60) / 4), np.arange(elements.sum())[:, None]
    fires = np.linspace(0, number.size - 1, count).astype(int)
    sources, sensor = [Source(p_mask=elements, p=(number == k) * pulse) for k in fires], Sensor(elements, "p")
    prepared = prepare(grid, medium, device=device, steps=steps, precision=precision)
    inputs = grid, medium

    def energy(results: Any, number: int = 0) -> tuple[float, dict[str, Any]]:
        return 0.5 * float(np.sum(results["p"] ** 2)), {"p": results["p"]}

    def gradients_alone() -> None:
        for source in sources:
            simulate_and_gradient(*inputs, source, sensor, energy, prepared=prepared)

    work: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
        "simulation": (
            lambda: [prepared.simulate(source, sensor) for source in sources],
            lambda: prepared.simulate_all(sources, sensor),
        ),
        "gradient": (
            gradients_alone,
            lambda: simulate_and_gradients(*inputs, sources, sensor, energy, prepared=prepared),
        ),
    }
    result: dict[str, Any] = {}
    for key, pair in work.items():
        alone, together = (_milliseconds(call, repeats) / count for call in pair)
        result[key] = {"alone": alone, "together": together, "ratio": alone / together}
    return result


def _milliseconds(call: Callable[[], Any], repeats: int) -> float:
    """Return the median time of a call, in ms, after one that is not counted."""
    call()
    taken = []
    for _ in range(repeats):
        began = time.perf_counter()
        call()
        taken.append(1e3 * (time.perf_counter() - began))
    return statistics.median(taken)


def table(result: dict[str, Any]) -> list:
    """A table of all grids."""
    rows = [
        (report.shape_words(case["shape"]), name, *(f"{case[key][how]:.3g}" for how in ("alone", "together")),
         f"{case[key]['ratio']:.2f}")
        for case in result["cases"] for key, name in WORK.items()
    ]  # fmt: skip
    title = f"{result['sources']} sources, {result['steps']} steps, {result['precision']} precision"
    columns = ("grid", "<", "alone, ms per source", "together, ms per source", "ratio")
    return [report.table(title, columns, rows)]


def plot(result: dict[str, Any], path: str | Path) -> None:
    """Draw the times per source, alone and together, for each grid."""
    cases = result["cases"]
    with report.figure(path, (7.6, 1.2 + 0.9 * len(cases)), "x") as figure:
        axes, names = figure.subplots(), []
        for y, (case, key) in enumerate((case, key) for case in cases for key in WORK):
            for how, colour, shift in (("alone", BLUE, -0.2), ("together", ORANGE, 0.2)):
                axes.barh(y + shift, case[key][how], 0.36, color=colour, label=how if y == 0 else None)
            names.append(f"{report.shape_words(case['shape'])}, {WORK[key]}")
        report.name_bars(axes, names)
        axes.set(xlabel="time per source (ms)")
        axes.legend(fontsize=9)
