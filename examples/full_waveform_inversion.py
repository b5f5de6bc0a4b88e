"""Full-waveform inversion: the sound speed of a breast phantom from what a ring of 32 elements hears.

Every fourth element fires in turn. L-BFGS of SciPy minimises ½‖A(c) − y‖² over the sound speeds inside the
ring, from water, in bands from low to high frequency (Bunks et al. 1995, doi:10.1190/1.1443880). The signals
y are of a grid of half the spacing with half the time step, and have noise. It takes a minute on one core.

Usage: python examples/full_waveform_inversion.py [folder] [iterations]
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from scipy.optimize import minimize

from wavefabric import acoustics
from wavefabric.base.files.output import check_output

WATER, DT, STEPS, NOISE = 1500.0, 0.4e-6, 270, 0.01  # m/s; s; noise of the largest signal
RING, ELEMENTS, SHOTS, INSIDE = 53e-3, 32, range(0, 32, 4), 44e-3  # radii, m
BANDS, UNIT = (80e3, 130e3, 210e3, 320e3), 600.0  # Hz; m/s for an unknown of 1, the first step of L-BFGS
TISSUES = (  # sound speed, m/s; middle and semi-axes, m
    (1600, 0, (41e-3, 37e-3)),  # skin
    (1450, 0, (38.5e-3, 34.5e-3)),  # fat
    (1530, 4e-3 + 1e-3j, (24e-3, 21e-3)),  # glands
    (1480, 9e-3 + 9e-3j, (7e-3, 5e-3)),  # a cyst and two lesions
    (1580, -4e-3 - 8e-3j, (5.5e-3, 4.5e-3)),
    (1570, 14e-3 - 7e-3j, (3.5e-3, 3.5e-3)),
)


def breast(z):
    """Sound speed at the points z = x + iy, m/s."""
    speed = np.full(z.shape, WATER)
    for value, middle, (a, b) in TISSUES:
        radius, angle = np.hypot((z - middle).real / a, (z - middle).imag / b), np.angle(z - middle)
        edge = 1 + (0.18 * np.cos(5 * angle + 0.6) if value == 1530 else 0)
        speed += (value - speed) / (1 + np.exp((radius - edge) * b / 0.5e-3))
    return speed


def rms(speed, z):
    """RMS error of the sound speed inside the breast, m/s."""
    return float(np.sqrt(np.mean((speed - breast(z))[np.hypot(z.real / 41e-3, z.imag / 37e-3) < 1] ** 2)))


def scene(points):
    """Grid, its points x + iy, the ring of arcs of 3 mm, the pulse, Pa, and the time steps."""
    grid = acoustics.Grid((points, points), 0.12 / points, pml_size="auto", pml_inside=False)
    x, y = np.meshgrid(*grid.coordinates, indexing="ij")
    around = 2 * np.pi / ELEMENTS * np.arange(ELEMENTS)[:, None] + np.linspace(-1, 1, 40) * 1.5e-3 / RING
    run = {"dt": DT * 96 / points, "steps": STEPS * points // 96}
    t = np.pi * 170e3 * ((np.arange(run["steps"]) - 0.5) * run["dt"] - 20e-6)  # sources act in mid-step
    ring = acoustics.surfaces(grid, RING * np.stack([np.cos(around), np.sin(around)], 2), [3e-3] * ELEMENTS)
    return grid, x + 1j * y, ring, 1e5 * (1 - 2 * t**2) * np.exp(-(t**2)), run


def shots(grid, speed, ring, pulse, run):
    """What all shots share, prepared, the source of each, and the sensor: one element fires, all listen."""
    medium = acoustics.Medium(speed, 1000.0, reference_speed=WATER)
    sources = [ring.source((np.arange(ELEMENTS)[:, None] == shot) * pulse) for shot in SHOTS]
    return acoustics.prepare(grid, medium, **run), sources, acoustics.Sensor.elements(ring)


def band(signals, frequency):
    """A band of signals around a frequency."""
    f = np.fft.rfftfreq(2 * STEPS, DT)
    spectrum = np.fft.rfft(signals, 2 * STEPS) * np.exp(-(((f - frequency) / (0.4 * frequency)) ** 2))
    return np.fft.irfft(spectrum)[..., :STEPS]


def main(folder=".", iterations=8):
    Path(folder).mkdir(parents=True, exist_ok=True)
    path = check_output(Path(folder) / "full_waveform_inversion.png", force=True)  # before the work
    fine, z, ring, pulse, run = scene(192)
    prepared, sources, sensor = shots(fine, breast(z), ring, pulse, run)
    heard = [results["p"][:, ::2] for results in prepared.simulate_all(sources, sensor)]
    apart = abs((np.arange(ELEMENTS) - np.array(SHOTS)[:, None] + 16) % ELEMENTS - 16)
    kept = (apart > 3)[:, :, None]  # not the elements beside the one that fires
    noise = NOISE * abs(kept * heard).max() * np.random.default_rng(1).standard_normal(np.shape(heard))
    heard, (grid, z, ring, pulse, run) = kept * (heard + noise), scene(96)

    def misfit(unknowns, pulse, signals):
        """½‖A(c) − y‖²/‖y‖² and its derivatives."""
        speed, scale = WATER + UNIT * unknowns.reshape(z.shape), np.sum(signals**2)
        prepared, sources, sensor = shots(grid, speed, ring, pulse, run)

        def objective(results, number):
            rest = kept[number] * results["p"] - signals[number]
            return 0.5 * np.sum(rest**2) / scale, {"p": rest / scale}

        inputs = grid, prepared.medium, sources, sensor, objective
        gradients = acoustics.simulate_and_gradients(*inputs, prepared=prepared)
        total = sum(each["sound_speed"] for each in gradients)
        return sum(each.value for each in gradients), UNIT * (total * (abs(z) < INSIDE)).ravel()

    unknowns, maps = np.zeros(z.size), {"truth": breast(z), "start, water": np.full(z.shape, WATER)}
    how = {"method": "L-BFGS-B", "jac": True, "options": {"maxiter": int(iterations)}}
    for frequency in BANDS:
        data, name = (band(pulse, frequency), band(heard, frequency)), f"up to {frequency / 1e3:.0f} kHz"
        unknowns = minimize(misfit, unknowns, data, **how).x
        maps[name] = WATER + UNIT * unknowns.reshape(z.shape)
        print(f"{name}: RMS error {rms(maps[name], z):.1f} m/s, at the start {rms(WATER, z):.1f} m/s")
    figure = Figure(figsize=(11, 6.6), layout="constrained")
    for panel, (name, speed) in zip(figure.subplots(2, 3).flat, maps.items(), strict=True):
        shown = panel.imshow(speed.T, extent=(-60, 59, -60, 59), origin="lower", vmin=1440, vmax=1610)
        panel.plot(*1e3 * ring.centres.T, "s", color="white", markersize=2)
        panel.set(title=f"{name}, error {rms(speed, z):.1f} m/s", xlabel="x (mm)", ylabel="y (mm)")
    figure.colorbar(shown, ax=figure.axes, label="sound speed (m/s)", shrink=0.8)
    figure.savefig(path, dpi=90)
    return [rms(speed, z) for speed in maps.values()]


if __name__ == "__main__":
    main(*sys.argv[1:])
