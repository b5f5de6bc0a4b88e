"""Photoacoustic image by time reversal: half a ring of sensors, one pass and ten iterations.

It takes some seconds on one core.

Usage: python examples/time_reversal.py [folder]
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from wavefabric.acoustics import Grid, Medium, Sensor, Source, simulate, time_reversal
from wavefabric.base.files.output import check_output

WATER, DT, STEPS = Medium(1500.0, 1000.0), 20e-9, 500


def main(folder="."):
    Path(folder).mkdir(parents=True, exist_ok=True)
    path = check_output(Path(folder) / "time_reversal.png", force=True)  # before the work
    grid = Grid((96, 96), "0.1 mm", pml_size="auto", pml_inside=False)
    x, y = np.meshgrid(*grid.coordinates, indexing="ij")
    p0 = np.zeros(grid.shape)
    for middle_x, middle_y, width, peak in (
        (1.2e-3, 0, 5e-4, 1.0),
        (-1e-3, 1e-3, 6e-4, 0.6),
        (0, -1.5e-3, 4e-4, 0.8),
    ):
        p0 += peak * np.exp(-((x - middle_x) ** 2 + (y - middle_y) ** 2) / width**2)
    sensors = (abs(np.hypot(x, y) - 4e-3) < 0.7e-4) & (x < 0)
    inside = np.hypot(x, y) < 4e-3
    heard = simulate(grid, WATER, Source(p0=p0, smooth=False), Sensor(sensors), dt=DT, steps=STEPS)["p"]
    images = {"initial pressure": p0}
    for iterations, label in ((1, "one pass"), (10, "ten iterations, not negative")):
        result = time_reversal(
            grid, WATER, sensors, heard, DT, iterations=iterations, non_negative=iterations > 1, region=inside
        )
        error = np.linalg.norm(result.image - p0) / np.linalg.norm(p0)
        images[f"{label}: error {100 * error:.0f} %"] = result.image
        print(f"{label}: error {100 * error:.1f} %, last residual {result.residuals[-1]:.3f}")
    figure = Figure(figsize=(11, 3.8), layout="constrained")
    panels = figure.subplots(1, 3, sharey=True)
    ends = [1e3 * float(end) for end in (y[0, 0], y[0, -1], x[0, 0], x[-1, 0])]
    for panel, (title, image) in zip(panels, images.items(), strict=True):
        shown = panel.imshow(image, extent=ends, origin="lower", vmin=0, vmax=1, cmap="magma")
        panel.plot(1e3 * y[sensors], 1e3 * x[sensors], ".", color="0.7", markersize=2)
        panel.set(title=title, xlabel="y (mm)")
    panels[0].set_ylabel("x (mm)")
    figure.colorbar(shown, ax=panels, label="pressure (Pa)")
    figure.savefig(path, dpi=120)
    print(f"wrote {path}")


if __name__ == "__main__":
    main(*sys.argv[1:])
