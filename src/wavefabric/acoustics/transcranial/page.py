"""Draws one page about a planned sonication: CT, pressure, temperature, and the measures as text."""

import math
from pathlib import Path
from typing import Any

import numpy as np

from wavefabric.acoustics.transcranial.plan import Plan
from wavefabric.base.files.output import save_figure
from wavefabric.base.results.figure_style import BLUE, GREY, RED, STYLE


def draw_page(plan: Plan, path: str | Path) -> Path:
    """Draw the page of a plan to ``path``, a png, pdf or svg file by its ending; whole or not at all."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({**STYLE, "axes.titlepad": 6, "axes.grid": False}):
        figure = Figure(figsize=(13, 7.4), layout="constrained")
        rows: Any = [["ct", "y", "words"], ["heat", "z", "line"]]
        _draw(figure, figure.subplot_mosaic(rows, width_ratios=(1, 1, 0.85)), plan)
        return save_figure(figure, path, dpi=130)


def _draw(figure: Any, panels: Any, plan: Plan) -> None:
    x, y, z = (1e3 * each for each in plan.sonication.grid.coordinates)
    focus = plan.sonication.focus
    x = x - x[focus[0]]
    pressure = plan.amplitude * 1e-6
    top = 1.1 * float(pressure[plan.brain].max())
    planes = {"y": (slice(None), slice(None), focus[2]), "z": (slice(None), focus[1], slice(None))}
    across = {"y": y, "z": z}
    bone = plan.hounsfield

    def show(panel: Any, field: np.ndarray, letter: str, title: str, label: str, **keywords: Any) -> None:
        cut, side = planes[letter], across[letter]
        extent = (x[0], x[-1], side[0], side[-1])
        image = panel.imshow(field[cut].T, extent=extent, origin="lower", aspect="equal", **keywords)
        figure.colorbar(image, ax=panel, label=label, shrink=0.7, location="bottom", aspect=30)
        panel.contour(x, side, bone[cut].T, [300], colors=GREY if "cmap" in keywords else "w", linewidths=0.7)
        panel.plot(0, 0, "+", color=RED, markersize=10)
        panel.set(title=title, xlabel="x, along the beam from the target (mm)", ylabel=f"{letter} (mm)")

    show(panels["ct"], plan.hounsfield, "y", "CT and elements", "HU", cmap="gray", vmin=-1000, vmax=2000)
    centres = plan.sonication.transducer.centres * 1e3
    if len(centres) == 1:
        sonication = plan.sonication
        half = math.asin(min(1.0, sonication.diameter / (2 * sonication.radius)))
        angle = np.linspace(-half, half, 61)
        forward = sonication.radius * (1 - np.cos(angle)) - sonication.distance
        panels["ct"].plot(1e3 * forward, 1e3 * sonication.radius * np.sin(angle), color=BLUE, linewidth=2)
    else:
        shift = float(plan.sonication.grid.coordinates[0][focus[0]]) * 1e3
        panels["ct"].plot(centres[:, 0] - shift, centres[:, 1], ".", color=BLUE, markersize=4)
    for letter in "yz":
        panel = panels[letter]
        show(panel, pressure, letter, f"pressure, x and {letter}", "amplitude (MPa)", vmin=0, vmax=top)
        inside = np.where(plan.brain, pressure, 0)[planes[letter]].T
        level = plan.focus.pressure * 1e-6 * 10 ** (-6 / 20)
        if inside.max() > level:
            panel.contour(x, across[letter], inside, [level], colors=[RED], linewidths=0.9)
    heated = np.asarray(plan.heated["temperature_max"])
    show(panels["heat"], heated, "y", "highest temperature", "°C")
    line = panels["line"]
    line.plot(x, pressure[:, focus[1], focus[2]], color=BLUE, linewidth=1.2)
    is_bone = bone[:, focus[1], focus[2]] >= 300
    line.fill_between(x, 0, top, where=is_bone, color="0.88", step="mid", label="bone")
    line.set(title="pressure on the beam axis", xlabel="x (mm)", ylabel="amplitude (MPa)")
    line.set(ylim=(0, None), xlim=(x[0], x[-1]))
    line.legend()
    _write_summary(panels["words"], plan)


def _write_summary(panel: Any, plan: Plan) -> None:
    sonication = plan.sonication
    phases = sonication.correction.replace("_", " ")
    kind = "bowl" if sonication.elements == 1 else f"{sonication.elements} elements, phases by {phases}"
    lines = [
        f"{sonication.frequency / 1e6:g} MHz, {sonication.pressure / 1e3:g} kPa at the surface",
        kind,
        f"duty cycle {sonication.duty_cycle:g}, {sonication.on:g} s on, {sonication.off:g} s off",
        "",
    ]
    lines += [f"{name}: {value:.3g} {unit}".rstrip() for name, (value, unit) in plan.figures().items()]
    panel.axis("off")
    text = panel.text(
        0, 1, "\n".join(lines), va="top", fontsize=8.5, linespacing=1.5, transform=panel.transAxes
    )
    text.set_in_layout(False)
