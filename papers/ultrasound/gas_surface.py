"""Reflection at the surface of a light material by points per wavelength: arrays, and each kernel."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[2]))

from papers.common import command, run
from wavefabric.acoustics import Grid, Material, Medium, Sensor, Source, layered_medium, simulate
from wavefabric.base.errors import InputError
from wavefabric.fabric.execution import report

WATER = Material(1500, 1000)
PAIRS = {
    "water, air": (WATER, Material(343, 1.2)),
    "bone, air": (Material(2800, 1850), Material(343, 1.2)),
    "steel, air": (Material(5900, 7850), Material(343, 1.2)),
    "water, 100 times lighter": (WATER, Material(375, 10)),
    "water, 30 times lighter": (WATER, Material(375, 33)),
    "water, 10 times lighter": (WATER, Material(1500, 100)),
    "steel, water": (Material(5900, 7850), WATER),
    "bone, water": (Material(2800, 1850), WATER),
}
RULES = ("arrays", "box", "lanczos", "geometric")
#: Points per wavelength in the denser material; where the surface lies in a cell.
POINTS = (80, 40, 20)
OFFSETS = (-0.25, 0.0, 0.3, 0.5)
SPACING, CELLS, SURFACE = 1e-4, 1000, 600


def medium(grid: Grid, pair: tuple[Material, Material], offset: float, rule: str) -> Medium:
    """The denser material up to so many cells behind the surface's grid point."""
    if rule == "arrays":
        light = np.arange(CELLS) >= SURFACE + offset
        dense, gas = pair
        speed = np.where(light, gas.sound_speed, dense.sound_speed)
        return Medium(speed, np.where(light, gas.density, dense.density))
    layers = [(pair[0], (SURFACE + offset) * SPACING), (pair[1], None)]
    return layered_medium(grid, layers, kernel=rule)  # type: ignore[arg-type]


def reflection(pair: tuple[Material, Material], offset: float, rule: str) -> np.ndarray:
    """|R| at each of `POINTS`, from a pulse that passes a sensor before and after."""
    grid = Grid((CELLS,), SPACING, pml_inside=False)
    sensor = np.zeros(CELLS, bool)
    sensor[350] = True
    pulse = np.exp(-(((np.arange(CELLS) - 250) / 4.0) ** 2))
    speed, cells = float(pair[0].sound_speed), np.array([100, 600])  # travelled by both pulses
    end = 720 * SPACING / speed
    inside = medium(grid, pair, offset, rule)
    options: Any = {"t_end": end, "precision": "double", "device": "cpu"}
    heard = simulate(grid, inside, Source(p0=pulse, smooth=False), Sensor(sensor), **options)
    cells_travelled = heard.time * speed / SPACING
    parts = [heard["p"][0] * (np.abs(cells_travelled - each) < 100) for each in cells]
    phase = np.exp(2j * np.pi * np.outer(1 / np.array(POINTS), cells_travelled))
    sent, back = (np.abs(phase @ part) for part in parts)
    return back / sent


def measure(say: Callable[[str], None]) -> dict[str, Any]:
    """Reflection at the surface of a light material: arrays, and cells averaged by each kernel."""
    warnings.simplefilter("ignore")
    cases = []
    for name, pair in PAIRS.items():
        z1, z2 = (float(each.sound_speed) * float(each.density) for each in pair)
        for rule in RULES:
            say(f"{name}: {rule}")
            case: dict[str, Any] = {"pair": name, "rule": rule, "right": (z2 - z1) / (z2 + z1)}
            try:
                reflections = [reflection(pair, offset, rule).tolist() for offset in OFFSETS]
            except InputError:
                reflections = []
            cases.append(case | {"reflections": reflections})
    return {"benchmark": "gas_surface", "points": list(POINTS), "offsets": list(OFFSETS), "cases": cases}


def table(result: dict[str, Any]) -> list:
    """Largest error over the places of the surface."""
    rows = []
    for case in result["cases"]:
        errors = np.abs(np.abs(case["reflections"]) - abs(case["right"]))
        shown = (
            [f"{100 * each:.2g}" for each in errors.max(axis=0)] if len(errors) else ["refused"] * len(POINTS)
        )
        rows.append([case["pair"], case["rule"], f"{case['right']:.4f}", *shown])
    columns = ("dense, light", "rule", "R", *(f"{each} points, %" for each in result["points"]))
    caption = "largest error of |R| over where the surface lies in a cell; points per wavelength, dense part"
    return [report.table("Surfaces of light materials, 1-D", columns, rows, caption)]


main = command(__name__, measure)

if __name__ == "__main__":
    run(main)
