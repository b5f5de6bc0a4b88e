"""A linear array sends plane waves into a phantom, listens, and makes a B-mode image of what it hears.

The phantom has speckle, a cyst without echoes and four wires. Five plane waves of 2 MHz, each under another
angle, are simulated, together on a GPU; their images are added before the envelope is taken (coherent
compounding). It takes about half a minute on two cores.

Usage: python examples/b_mode.py [folder]
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from wavefabric.acoustics import Grid, Medium, Sensor, delay_and_sum, linear_array, log_compress, prepare
from wavefabric.base.files.output import check_output
from wavefabric.cli.common.progress import make_progress

SPEED, FREQUENCY, SPACING = 1540.0, 2e6, 0.2e-3  # m/s, Hz, m
ANGLES = np.radians([-12, -6, 0, 6, 12])
CYST = (18e-3, -5e-3, 4e-3)  # depth, lateral position, radius, m
WIRES = [(10e-3, 6e-3), (16e-3, 6e-3), (22e-3, 6e-3), (26e-3, -3e-3)]


def phantom(grid, surface):
    """Tissue whose speed and density vary by 0.5 and 1 %, behind the array at x = ``surface``."""
    x, y = np.meshgrid(*grid.coordinates, indexing="ij")
    depth = x - surface
    speckle = np.random.default_rng(7).normal(size=grid.shape)
    speckle[(depth < 3e-3) | (np.hypot(depth - CYST[0], y - CYST[1]) < CYST[2])] = 0
    speed, density = SPEED * (1 + 0.005 * speckle), 1000 * (1 + 0.01 * speckle)
    for wire in WIRES:
        density[np.unravel_index(np.argmin(np.hypot(depth - wire[0], y - wire[1])), grid.shape)] = 3000
    return Medium(speed, density, alpha_coeff=0.5, alpha_power=1.5), depth, y


def main(folder="."):
    Path(folder).mkdir(parents=True, exist_ok=True)
    path = check_output(Path(folder) / "b_mode.png", force=True)  # before the work
    grid = Grid((190, 216), SPACING, pml_size="auto", pml_inside=False)
    surface = grid.coordinates[0][8]
    array = linear_array(grid, (surface, 0), 64, 0.4e-3, None, 0.5e-3, (1, 0))
    medium, depth, lateral = phantom(grid, surface)
    prepared = prepare(grid, medium, t_end=52e-6, progress=make_progress(False))
    dt = prepared.dt
    t = np.arange(round(2.5e-6 / dt)) * dt
    pulse = 1e5 * np.exp(-(((t - 1.25e-6) / 0.35e-6) ** 2)) * np.sin(2 * np.pi * FREQUENCY * (t - 1.25e-6))
    pixels = np.stack([depth, lateral], axis=-1)[22:170]  # 3 to 32 mm deep
    wavefronts = [array.centres[:, 1] * np.sin(angle) / SPEED for angle in ANGLES]
    signals = [array.signals(pulse, each - each.min(), dt) for each in wavefronts]
    results = prepared.simulate_all(map(array.source, signals), Sensor.elements(array))
    image = 0
    for angle, wavefront, signal, result in zip(ANGLES, wavefronts, signals, results, strict=True):
        sent = pixels @ [np.cos(angle), np.sin(angle)] / SPEED + 1.25e-6 - wavefront.min()
        at = pixels + np.array([surface, 0])
        heard = result["p"].copy()
        heard[:, : signal.shape[1]] = 0  # while it sends
        how = {"dt": dt, "sound_speed": SPEED, "sent": sent, "f_number": 1.2}
        image = image + delay_and_sum(heard, array.centres, at, **how)
    depths = pixels[:, 0, 0]
    # What absorption took on the way there and back: 0.5 dB/(MHz^1.5 cm).
    image = image * 10 ** (2 * 50 * (FREQUENCY / 1e6) ** 1.5 * depths[:, None] / 20)
    draw(path, log_compress(image, 45), medium, pixels)


def draw(path, levels, medium, pixels):
    """The image beside the density that it shows."""
    extent = [1e3 * float(end) for end in (*pixels[0, [0, -1], 1], pixels[-1, 0, 0], pixels[0, 0, 0])]
    figure = Figure(figsize=(10, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    shown = left.imshow(medium.density[22:170], extent=extent, vmin=970, vmax=1030, cmap="gray")
    figure.colorbar(shown, ax=left, label="density (kg/m³)")
    shown = right.imshow(levels, extent=extent, vmin=-45, vmax=0, cmap="gray")
    figure.colorbar(shown, ax=right, label="echo (dB)")
    left.set(title="phantom", xlabel="y (mm)", ylabel="depth (mm)")
    right.set(title=f"B-mode, {len(ANGLES)} plane waves of {FREQUENCY / 1e6:g} MHz", xlabel="y (mm)")
    figure.savefig(path, dpi=130)
    print(f"wrote {path}")


if __name__ == "__main__":
    main(*sys.argv[1:])
