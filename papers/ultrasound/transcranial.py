"""Transcranial benchmarks 1 to 6 (Aubry et al. 2022, doi:10.1121/10.0013426): error against exact fields."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[2]))

from papers.common import DeviceName, Json, Output, Plot, Threads, run, show
from papers.ultrasound.layered_field import Layer, Piston, field
from papers.ultrasound.published_fields import read_published
from wavefabric.acoustics import (
    ContinuousWave,
    Grid,
    Material,
    Medium,
    Sensor,
    bowl,
    disc,
    layered_medium,
    shaped_medium,
    simulate,
)
from wavefabric.base.errors import InputError
from wavefabric.cli.common.options import option
from wavefabric.cli.common.parse import parse_list
from wavefabric.cli.common.show import status_line
from wavefabric.fabric.execution import report, timing
from wavefabric.runtime.device import get_device

FREQUENCY = 500e3
#: Spacing of the fields that are compared, m, and how far they reach along the axis and beside it.
STEP, LENGTH, RADIUS = 0.5e-3, 120e-3, 35e-3
#: The grid reaches this far before the source, beyond the fields, and beside the axis.
BEFORE, BEYOND, BESIDE = 6e-3, 2e-3, 45e-3
#: Where the comparison looks for the peak, m: behind 30 mm of water and 6.5 mm of bone.
BRAIN = 37e-3
#: Until the field is steady, s, and periods over which it is then measured.
STEADY, PERIODS = 150e-6, 4
#: Radius of the outer bone of the curved cases, m.
OUTER = 75e-3


@dataclass(frozen=True)
class Tissue:
    """Sound speed, m/s, density, kg/m³, and attenuation at 500 kHz, dB/cm."""

    sound_speed: float
    density: float
    attenuation: float = 0.0

    def material(self) -> Material:
        return Material.at_frequency(FREQUENCY, self.sound_speed, self.density, 100 * self.attenuation)

    def layer(self, start: float) -> Layer:
        return Layer(start, self.sound_speed, self.density, 100 * self.attenuation * math.log(10) / 20)


WATER, LOSSY = Tissue(1500, 1000), Tissue(1500, 1000, 1.0)
SKIN, CORTICAL = Tissue(1610, 1090, 0.2), Tissue(2800, 1850, 4.0)
TRABECULAR, BRAIN_TISSUE = Tissue(2300, 1700, 8.0), Tissue(1560, 1040, 0.3)
_SKULL = [(0.0, WATER), (26e-3, SKIN), (30e-3, CORTICAL), (31.5e-3, TRABECULAR), (35.5e-3, CORTICAL),
          (36.5e-3, BRAIN_TISSUE)]  # fmt: skip
#: Where each tissue begins on the axis, m; 5 and 6 are 3 and 4 on spheres.
CASES: dict[int, list[tuple[float, Tissue]]] = {
    1: [(0.0, WATER)],
    2: [(0.0, LOSSY)],
    3: [(0.0, WATER), (30e-3, CORTICAL), (36.5e-3, WATER)],
    4: _SKULL,
    5: [(0.0, WATER), (30e-3, CORTICAL), (36.5e-3, WATER)],
    6: _SKULL,
}
SOURCES = {"bowl": Piston(64e-3, 64e-3), "disc": Piston(20e-3)}
#: First point along the axis that is compared, as the comparison's own script has it.
FIRST = {"bowl": 19, "disc": 1}


def axes() -> tuple[np.ndarray, np.ndarray]:
    """x and distance from the axis of the points that are compared, m."""
    return np.arange(round(LENGTH / STEP) + 1) * STEP, np.arange(round(RADIUS / STEP) + 1) * STEP


def exact(case: int, source: str) -> np.ndarray:
    """|p|/p₀ (x, r) of a flat case, from its first point on; NaN before."""
    x, r = axes()
    layers = [tissue.layer(start) for start, tissue in CASES[case]]
    result = np.full((x.size, r.size), np.nan)
    first = FIRST[source]
    result[first:] = np.abs(field(SOURCES[source], layers, FREQUENCY, x[first:], r))
    return result


def medium_on(grid: Grid, case: int, apex: float) -> Medium:
    """A case's medium on a grid whose source has its apex at x = ``apex``."""
    starts = [apex + start for start, _ in CASES[case]]
    materials = [tissue.material() for _, tissue in CASES[case]]
    if case < 5:
        thick = [*np.diff(starts), None]
        return layered_medium(grid, list(zip(materials, thick, strict=True)), start=starts[0])
    middle = apex + 30e-3 + OUTER

    def ball(radius: float) -> Callable[..., np.ndarray]:
        return lambda x, *across: (x - middle) ** 2 + sum(y**2 for y in across) < radius**2

    shapes = [(ball(middle - start), each) for start, each in zip(starts[1:], materials[1:], strict=True)]
    return shaped_medium(grid, materials[0], *shapes)


def simulated(case: int, source: str, spacing: float, dimensions: int, **options: Any) -> dict[str, Any]:
    """|p|/p₀ (x, r) at the points that are compared, and what it took."""
    along = 2 * round((LENGTH + BEFORE + BEYOND) / spacing / 2)
    beside = round(BESIDE / spacing)
    shape = (along, beside) if dimensions == 2 else (along, 2 * beside, 2 * beside)
    grid = Grid(
        shape,
        spacing,
        pml_size="auto",
        pml_inside=False,
        axisymmetric=dimensions == 2,
    )
    first = -(along // 2) * spacing
    apex = first + round(BEFORE / spacing) * spacing
    zeros = (0.0,) * (dimensions - 1)
    position, ahead = (apex, *zeros), (apex + 1.0, *zeros)
    piston = SOURCES[source]
    tolerance = 0.01 if dimensions == 2 else 0.05  # smaller ones take long in 3-D
    if piston.radius:
        transducer = bowl(grid, position, piston.radius, piston.diameter, ahead, tolerance=tolerance)
    else:
        transducer = disc(grid, position, piston.diameter, ahead, tolerance=tolerance)
    medium = medium_on(grid, case, apex)
    began = time.perf_counter()
    samples = math.ceil(1 / (FREQUENCY * grid.time_step(medium, cfl=0.3)))
    stable = time.perf_counter()
    dt = 1 / (FREQUENCY * samples)
    steps = math.ceil(STEADY / dt) + PERIODS * samples
    result = simulate(
        grid,
        medium,
        transducer.source(ContinuousWave(FREQUENCY)),
        Sensor(record="p_amp_all", start=steps - PERIODS * samples, frequencies=FREQUENCY),
        dt=dt,
        steps=steps,
        **options,
    )
    took = time.perf_counter() - stable
    amplitude = result["p_amp_all"][0]
    every = round(STEP / spacing)
    x, r = axes()
    start = round((apex - first) / spacing)
    amplitude = amplitude[start::every][: x.size]
    beam = amplitude[:, ::every] if dimensions == 2 else amplitude[:, beside::every, beside]
    return {
        "field": np.asarray(beam[:, : r.size], float),
        "points": list(grid.total_shape),
        "steps": steps,
        "samples_per_period": samples,
        "seconds": took,
        "seconds_time_step": stable - began,
    }


def metrics(ours: np.ndarray, reference: np.ndarray, source: str) -> dict[str, float]:
    """The comparison's metrics of |p| (x, r): in % of the reference's largest value; mm."""
    x, r = axes()
    first, brain = FIRST[source], round(BRAIN / STEP)
    whole, other = reference[first:], ours[first:]
    largest = float(np.max(whole))
    behind = slice(brain, None)
    # Of the plane through the axis: each radius on both sides, the axis once.
    sides = np.where(r > 0, 2.0, 1.0)

    def l2(a: np.ndarray, b: np.ndarray) -> float:
        return 100 * math.sqrt(float(((a - b) ** 2 @ sides).sum() / (b**2 @ sides).sum()))

    peaks = [each[behind] for each in (ours, reference)]
    at = [np.unravel_index(int(np.argmax(each)), each.shape) for each in peaks]
    move = math.hypot(*((a - b) * STEP for a, b in zip(*at, strict=True)))
    top = [float(each.max()) for each in peaks]
    results = {
        "linf_percent": 100 * float(np.max(np.abs(other - whole))) / largest,
        "l2_percent": l2(other, whole),
        "l2_behind_percent": l2(*peaks),
        "linf_behind_percent": 100 * float(np.max(np.abs(peaks[0] - peaks[1]))) / top[1],
        "peak": top[0],
        "peak_reference": top[1],
        "peak_percent": 100 * (top[0] / top[1] - 1),
        "moved_mm": 1e3 * move,
    }
    for level in (3, 6):
        for name, vectors in (("axial", x[behind]), ("lateral", r)):
            widths = [
                _width(each[:, at[1][1]] if name == "axial" else each[at[1][0]], vectors, level)
                for each in peaks
            ]
            if all(map(math.isfinite, widths)):
                results[f"width_{level}db_{name}_mm"] = 1e3 * (widths[0] - widths[1])
    return results


def _width(profile: np.ndarray, position: np.ndarray, level: float) -> float:
    """Distance between the points at −``level`` dB on both sides of the peak, m; half from an end."""
    peak, limit = int(np.argmax(profile)), profile.max() * 10 ** (-level / 20)
    ends = []
    for step in (-1, 1):
        i = peak
        while 0 <= i + step < profile.size and profile[i] > limit:
            i += step
        if profile[i] > limit:
            ends.append(position[0] if step < 0 and position[0] == 0 else math.nan)
            continue
        part = (limit - profile[i]) / (profile[i - step] - profile[i])
        ends.append(position[i] + part * (position[i - step] - position[i]))
    return ends[1] - ends[0]


def measure(
    cases: Sequence[int],
    sources: Sequence[str],
    spacings: Sequence[float],
    dimensions: int,
    folder: Path | None,
    say: Callable[[str], None],
    **options: Any,
) -> dict[str, Any]:
    """Every case, source and spacing, against the exact field, or the extrapolated one of curved cases."""
    rows, fields = [], {}
    for case in cases:
        for source in sources:
            runs = []
            for spacing in sorted(spacings, reverse=True):
                say(f"case {case}, {source}, {spacing * 1e3:g} mm")
                runs.append((spacing, simulated(case, source, spacing, dimensions, **options)))
            reference = exact(case, source) if case < 5 else _extrapolated(runs)
            known = "exact" if case < 5 else "extrapolated" if len(runs) > 1 else "itself"
            for spacing, each in runs:
                mine = each.pop("field")
                row = {"case": case, "source": source, "spacing_mm": spacing * 1e3, "reference": known}
                rows.append(row | each | metrics(mine, reference, source))
                both = {"ours": mine, "reference": reference}
                fields[f"{case}-{source}"] = {name: _thinned(each) for name, each in both.items()}
                for code, theirs in read_published(folder, case, source, axes()) if folder else ():
                    say(f"case {case}, {source}: {code}")
                    rows.append(row | {"reference": code} | metrics(mine, theirs, source))
    return {
        "benchmark": "transcranial",
        "dimensions": dimensions,
        "rows": rows,
        "fields": fields,
        "precision": options["precision"],
    }


def _thinned(values: np.ndarray) -> list[list[float]]:
    """Every second point, three digits: for the picture."""
    return [[round(float(value), 3) for value in row] for row in values[::2, ::2]]


def _extrapolated(runs: list[tuple[float, dict[str, Any]]]) -> np.ndarray:
    """Richardson's extrapolation from the two finest grids, at second order."""
    (_, fine) = runs[-1]
    if len(runs) < 2:
        return fine["field"]
    ratio = (runs[-2][0] / runs[-1][0]) ** 2
    return np.abs(fine["field"] + (fine["field"] - runs[-2][1]["field"]) / (ratio - 1))


def table(result: dict[str, Any]) -> list:
    """Errors by case, source and spacing."""
    columns = ("<case", "<source", "Δx, mm", "<against", "peak, %", "moved, mm", "L2 behind, %", "L∞, %", "s")
    rows = [
        [
            str(row["case"]),
            row["source"],
            f"{row['spacing_mm']:g}",
            row["reference"],
            f"{row['peak_percent']:+.2f}",
            f"{row['moved_mm']:.2f}",
            f"{row['l2_behind_percent']:.2f}",
            f"{row['linf_percent']:.2f}",
            f"{row['seconds']:.1f}",
        ]
        for row in result["rows"]
    ]
    solver = "axisymmetric" if result["dimensions"] == 2 else "3-D"
    return [report.table(f"transcranial benchmarks, {solver}, {result['precision']}", columns, rows)]


def plot(result: dict[str, Any], path: Path) -> None:
    """Fields in the plane of the axis, and pressure on it with the reference."""
    size = (8.5, 1.9 * len(result["fields"]) + 0.6)
    with report.figure(path, size, "y") as figure:
        _draw(figure, result)


def _draw(figure: Any, result: dict[str, Any]) -> None:
    x = axes()[0][::2]
    names = list(result["fields"])
    panels = figure.subplots(len(names), 2, squeeze=False, sharex=True, width_ratios=[1.1, 1])
    for (left, right), name in zip(panels, names, strict=True):
        case, _, source = name.partition("-")
        ours, reference = (np.array(result["fields"][name][key], float) for key in ("ours", "reference"))
        both = np.concatenate([ours[:, :0:-1], ours], axis=1).T
        extent = (0, LENGTH * 1e3, -RADIUS * 1e3, RADIUS * 1e3)
        top = np.nanmax(reference[round(BRAIN / STEP / 2) :]) * 1.2
        image = left.imshow(both, extent=extent, aspect="equal", origin="lower", vmin=0, vmax=top)
        left.grid(False)
        figure.colorbar(image, ax=left, label="|p|/p₀")
        left.set(ylabel="y (mm)", title=f"case {case}, {source}")
        for start, _ in CASES[int(case)][1:]:
            _boundary(left, int(case), start)
            right.axvline(start * 1e3, color="0.7", linewidth=0.8)
        label = "exact" if int(case) < 5 else "extrapolated"
        right.plot(x * 1e3, reference[:, 0], color="0.6", linewidth=3, label=label)
        right.plot(x * 1e3, ours[:, 0], linewidth=1, label="simulated")
        right.set(ylabel="|p|/p₀ on the axis", ylim=(0, None))
        right.legend(frameon=False)
    for panel in panels[-1]:
        panel.set_xlabel("x (mm)")


def _boundary(panel: Any, case: int, start: float) -> None:
    y = np.linspace(-RADIUS, RADIUS, 101)
    radius = OUTER - (start - 30e-3)
    x = np.full(y.size, start) if case < 5 else 30e-3 + OUTER - np.sqrt(radius**2 - y**2)
    panel.plot(x * 1e3, y * 1e3, color="w", linewidth=0.6)


def main(
    cases: Annotated[str, option("Which of 1 to 6.")] = "1,2,3,4,5,6",
    sources: Annotated[str, option("bowl, disc.")] = "bowl,disc",
    spacings: Annotated[str, option("mm; 0.5 over a whole number.")] = "0.5,0.25",
    dimensions: Annotated[int, option("2 for the axisymmetric solver, 3.")] = 2,
    fields: Annotated[Path | None, option("Folder with the published fields.")] = None,
    precision: Annotated[str, option("single or double.")] = "single",
    device: DeviceName = "auto",
    threads: Threads = None,
    as_json: Json = False,
    output: Output = None,
    plot: Plot = None,
) -> None:
    """Transcranial benchmarks 1 to 6: error against exact fields."""
    steps = [float(each) * 1e-3 for each in parse_list(spacings)]
    numbers = [int(each) for each in parse_list(cases)]
    pistons = parse_list(sources)
    if any(abs(STEP / step - round(STEP / step)) > 1e-9 for step in steps):
        raise InputError(f"--spacings: {spacings}; allowed: 0.5 mm over whole numbers")
    for key, values, known in (("--cases", numbers, CASES), ("--sources", pistons, SOURCES)):
        if unknown := set(values) - set(known):
            raise InputError(f"{key}: {sorted(unknown)[0]}; allowed: {', '.join(map(str, known))}")
    if dimensions not in (2, 3):
        raise InputError(f"--dimensions: {dimensions}; allowed: 2, 3")
    with status_line(as_json) as say:
        options = {"device": device, "threads": threads, "precision": precision}
        result = measure(numbers, pistons, steps, dimensions, fields, say, **options)
    result["machine"] = timing.machine(get_device(device))
    show(__name__, result, as_json, output, plot)


if __name__ == "__main__":
    run(main)
