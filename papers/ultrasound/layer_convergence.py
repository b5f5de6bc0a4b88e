"""Transmission through a layer of bone by grid spacing: cells averaged by each kernel, and sampled."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[2]))

from papers.common import command, run
from wavefabric.acoustics import Grid, Material, Medium, Sensor, Source, layered_medium, simulate
from wavefabric.cli.common.options import option
from wavefabric.fabric.execution import report

WATER, BONE = Material(1500, 1000), Material(2800, 1850)
FREQUENCY, THICKNESS = 500e3, 6.5e-3
#: Grid spacings, m, and where in a cell the layer begins.
SPACINGS = (1e-3, 0.75e-3, 0.5e-3, 0.375e-3, 0.25e-3, 0.1875e-3, 0.125e-3)
OFFSETS = (0.0, 0.25, 0.5, 0.75)
RULES = {"lanczos": "averaged, Lanczos kernel", "box": "averaged, box", "sampled": "sampled at grid points"}


def exact() -> complex:
    """p behind the layer over p that meets it."""
    k = 2 * np.pi * FREQUENCY / BONE.sound_speed
    ratio = WATER.sound_speed * WATER.density / (BONE.sound_speed * BONE.density)
    return 1 / (np.cos(k * THICKNESS) - 0.5j * (ratio + 1 / ratio) * np.sin(k * THICKNESS))


def medium(grid: Grid, front: float, rule: str) -> Medium:
    """Water with the layer from ``front`` on, m."""
    x = grid.coordinates[0]
    if rule == "sampled":
        bone = (x >= front) & (x < front + THICKNESS)
        speed = np.where(bone, BONE.sound_speed, WATER.sound_speed)
        return Medium(speed, np.where(bone, BONE.density, WATER.density))
    layers = [(WATER, front - x[0]), (BONE, THICKNESS), (WATER, None)]
    return layered_medium(grid, layers, kernel=rule)  # type: ignore[arg-type]


def transmission(grid: Grid, inside: Medium) -> complex:
    """p behind over p sent."""
    dt = 0.1 * grid.spacing[0] / BONE.sound_speed
    t = np.arange(round(250e-6 / dt)) * dt
    wave = np.exp(-(((t - 12e-6) / 3e-6) ** 2)) * np.sin(2 * np.pi * FREQUENCY * (t - 12e-6))
    near, far = np.zeros(grid.shape, bool), np.zeros(grid.shape, bool)
    near[round(5e-3 / grid.spacing[0])] = far[round(50e-3 / grid.spacing[0])] = True
    options: Any = {"dt": dt, "steps": t.size, "precision": "double", "device": "cpu"}
    source = Source(p_mask=near, p=wave)
    heard = simulate(grid, inside, source, Sensor(far), check_stability=False, **options)["p"][0]
    phasor = np.exp(2j * np.pi * FREQUENCY * t)
    return (heard @ phasor) / (wave @ phasor)


def error(spacing: float, offset: float, rule: str) -> float:
    """Relative error of the transmission."""
    grid = Grid((round(0.06 / spacing),), spacing, pml_inside=False)
    inside = medium(grid, grid.coordinates[0][0] + 0.03 + offset * spacing, rule)
    speed = float(np.max(inside.sound_speed))
    water = Medium(np.full(grid.shape, WATER.sound_speed), WATER.density, reference_speed=speed)
    turn = np.exp(2j * np.pi * FREQUENCY / WATER.sound_speed * THICKNESS)
    return abs(transmission(grid, inside) / transmission(grid, water) * turn / exact() - 1)


def measure(
    say: Callable[[str], None],
    finest: Annotated[float, option("Finest spacing, mm.")] = 0.125,
) -> dict[str, Any]:
    """Transmission through a layer of bone by grid spacing: cells averaged by each kernel, and sampled."""
    cases = []
    for rule in RULES:
        for spacing in SPACINGS:
            if spacing < finest * 1e-3 * (1 - 1e-9):
                continue
            say(f"{RULES[rule]}: {spacing * 1e3:g} mm")
            errors = [float(error(spacing, offset, rule)) for offset in OFFSETS]
            cases.append({"rule": rule, "spacing_mm": spacing * 1e3, "errors": errors})
    return {"benchmark": "layer_convergence", "offsets": list(OFFSETS), "cases": cases}


def table(result: dict[str, Any]) -> list:
    """Largest error over the places of the layer."""
    rows = []
    for spacing in report.distinct(result["cases"], "spacing_mm"):
        mine = {case["rule"]: case["errors"] for case in result["cases"] if case["spacing_mm"] == spacing}
        rows.append([f"{spacing:g}", *(f"{100 * max(mine[rule]):.2f}" for rule in RULES)])
    columns = ("Δx, mm", *(f"{RULES[rule]}, %" for rule in RULES))
    caption = "largest error over where the layer begins in a cell"
    return [report.table("6.5 mm of bone in water, 500 kHz, 1-D", columns, rows, caption)]


def plot(result: dict[str, Any], path: Path) -> None:
    """Error over spacing, the places in a cell as points, the largest as lines."""
    with report.figure(path, (6.4, 4.4)) as figure:
        axes = figure.subplots()
        for number, (rule, label) in enumerate(RULES.items()):
            mine = [case for case in result["cases"] if case["rule"] == rule]
            spacing = [case["spacing_mm"] for case in mine]
            look = report.look(number)
            axes.loglog(spacing, [max(case["errors"]) for case in mine], **look, label=label)
            for case in mine:
                axes.loglog(
                    [case["spacing_mm"]] * len(case["errors"]), case["errors"], ".", color=look["color"]
                )
        ends = np.array([0.125, 0.5])
        axes.loglog(ends, 0.25 * ends**2, color="0.6", linestyle=":", label="second order")
        axes.set_xticks([each * 1e3 for each in SPACINGS], [f"{each * 1e3:.3g}" for each in SPACINGS])
        axes.set_xticks([], minor=True)
        axes.set(xlabel="grid spacing (mm)", ylabel="relative error of the transmission")
        axes.legend(frameon=False)


main = command(__name__, measure)

if __name__ == "__main__":
    run(main)
