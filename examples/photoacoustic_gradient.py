"""Photoacoustic image of vessels by gradients: two linear arrays of wide elements, fat and muscle, noise.

FISTA (doi:10.1137/080716542) minimises ½‖A p₀ − y‖² + λ Σ √(|∇p₀|² + ε²) (total variation) over p₀ ≥ 0,
beside time reversal, one pass and ten iterations. The signals y are of a grid of half the spacing with half
the time step, and have noise of 3 % of their largest. It takes a minute on one core.

Usage: python examples/photoacoustic_gradient.py [folder] [iterations]
"""

import sys
import warnings
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from wavefabric import acoustics
from wavefabric.acoustics import Grid, Medium, Sensor, Source
from wavefabric.base.files.output import check_output

DT, STEPS, NOISE, WEIGHT, EPSILON = 30e-9, 420, 0.03, 2.0, 30.0  # s; of the largest signal; λ, ε, Pa
EDGE, ROW = -6.1e-3, (15, 0.7e-3, None, 0.8e-3)  # m: where arrays are; number, width, –, pitch of elements


def vessels(z):
    """Initial pressure of two trees of vessels at the points z = x + iy, Pa."""
    rng, p0 = np.random.default_rng(4), np.zeros(z.shape)

    def grow(start, angle, width, length):
        step = length * np.exp(1j * angle)
        away = abs(z - start - step * np.clip(((z - start) / step).real, 0, 1))
        np.maximum(p0, 1e3 / (1 + np.exp((away - width) / 0.09e-3)), out=p0)
        for side in (-1, 1) if width > 0.2e-3 else ():
            turn, shorter = side * rng.uniform(0.3, 0.75), rng.uniform(0.7, 0.95)
            grow(start + step, angle + turn, 0.75 * width, shorter * length)

    grow(-5e-3 - 0.8e-3j, 0.1, 0.45e-3, 2.8e-3)
    grow(-4.2e-3 + 4.6e-3j, -0.35, 0.32e-3, 2.2e-3)
    return p0


def scene(points, spacing):
    """Grid, medium (fat, below it faster muscle), arrays at the least x and the least y, initial pressure."""
    grid = Grid((points, points), spacing, pml_size="auto", pml_inside=False)
    x, y = np.meshgrid(*grid.coordinates, indexing="ij")
    muscle = 60 * np.exp(-((x - 2e-3) ** 2 + (y + 1e-3) ** 2) / 4e-6)
    speed = 1520 - 70 / (1 + np.exp((x + 3e-3) / 3e-4)) + muscle
    sides = ((EDGE, 0), (1, 0)), ((0, EDGE), (0, 1))
    array = acoustics.join(*(acoustics.linear_array(grid, at, *ROW, to) for at, to in sides))
    return grid, Medium(speed, 1000.0, reference_speed=1520.0), array, vessels(x + 1j * y)


def variation(image):
    """The gradient of λ times the total variation."""
    steps = [np.diff(image, axis=axis, append=np.take(image, [-1], axis)) for axis in (0, 1)]
    x, y = np.array(steps) / np.sqrt(steps[0] ** 2 + steps[1] ** 2 + EPSILON**2)
    return WEIGHT * (np.roll(x, 1, 0) - x + np.roll(y, 1, 1) - y)


def fista(misfit, shape, iterations):
    """The image p₀ ≥ 0 of the least objective. The largest eigenvalue of AᵀA says how long steps may be."""
    probe, zero = np.random.default_rng(2).standard_normal(shape), misfit(np.zeros(shape))
    for _ in range(8):
        probe = misfit(probe / np.linalg.norm(probe)) - zero
    step, image, ahead, t = 1.2 * np.linalg.norm(probe) + 8 * WEIGHT / EPSILON, 0, np.zeros(shape), 1.0
    for _ in range(iterations):
        image, before = np.maximum(ahead - (misfit(ahead) + variation(ahead)) / step, 0), image
        t, last = (1 + np.sqrt(1 + 4 * t * t)) / 2, t
        ahead = image + (last - 1) / t * (image - before)
    return image


def main(folder=".", iterations=35):
    Path(folder).mkdir(parents=True, exist_ok=True)
    path = check_output(Path(folder) / "photoacoustic_gradient.png", force=True)  # before the work
    fine, medium, array, p0 = scene(256, 0.05e-3)
    inputs = fine, medium, Source(p0=p0, smooth=False), Sensor.elements(array)
    heard = acoustics.simulate(*inputs, dt=DT / 2, steps=2 * STEPS - 1)["p"][:, ::2]
    heard = heard + NOISE * abs(heard).max() * np.random.default_rng(1).standard_normal(heard.shape)
    grid, medium, array, p0 = scene(128, 0.1e-3)
    inputs, images = (grid, medium, Sensor.elements(array), heard, DT), {"initial pressure": p0}
    warnings.filterwarnings("ignore", "source.p: ")  # white noise goes beyond the grid's frequencies
    for name, number in (("time reversal, one pass", 1), ("time reversal, ten iterations", 10)):
        images[name] = acoustics.time_reversal(*inputs, iterations=number, non_negative=True).image

    def objective(results):
        rest = results["p"] - heard
        return 0.5 * np.sum(rest**2), {"p": rest}

    def misfit(image):
        inputs = grid, medium, Source(p0=image, smooth=False), Sensor.elements(array)
        return acoustics.simulate_and_gradient(*inputs, objective, "p0", dt=DT, steps=STEPS)["p0"]

    images["gradients, total variation"] = fista(misfit, grid.shape, int(iterations))
    figure, errors = Figure(figsize=(13, 3.6), layout="constrained"), []
    for panel, (name, image) in zip(figure.subplots(1, 4, sharey=True), images.items(), strict=True):
        shown = panel.imshow(image, extent=(-6.4, 6.3, 6.3, -6.4), vmin=0, vmax=1000, cmap="inferno")
        panel.plot(*1e3 * array.centres.T[::-1], "s", color="tab:green", markersize=3)
        panel.set(title=name, xlabel="y (mm)", ylabel="x (mm)" if image is p0 else None)
        if image is not p0:
            errors.append(np.linalg.norm(image - p0) / np.linalg.norm(p0))
            psnr = 10 * np.log10(p0.max() ** 2 / np.mean((image - p0) ** 2))
            print(f"{name}: error {100 * errors[-1]:.1f} %, PSNR {psnr:.1f} dB")
            panel.set_title(f"{name}\nerror {100 * errors[-1]:.0f} %")
    figure.colorbar(shown, ax=figure.axes, label="initial pressure (Pa)", shrink=0.85)
    figure.savefig(path, dpi=100)
    return errors


if __name__ == "__main__":
    main(*sys.argv[1:])
