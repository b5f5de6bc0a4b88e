"""Full-waveform inversion: the sound speed of a breast phantom from what a ring of 32 elements hears.

Every fourth element fires in turn. L-BFGS of SciPy minimises ½‖A(c) − y‖² over the sound speeds inside the
ring, from water, in bands from low to high frequency (Bunks et al. 1995, doi:10.1190/1.1443880). The signals
y are of a grid of half the spacing with half the time step, and have noise. It takes two minutes on one core.

Usage: python examples/full_waveform_inversion.py [folder] [iterations]
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from scipy.optimize import minimize

from wavefabric import acoustics
from wavefabric.acoustics import Grid, Medium, Sensor

WATER, DT, STEPS, NOISE = 1500.0, 0.4e-6, 270, 0.01  # m/s; s; noise of the largest signal
RING, ELEMENTS, SHOTS, INSIDE = 53e-3, 32, range(0, 32, 4), 44e-3  # radii, m
BANDS = (80e3, 130e3, 200e3, 280e3)  # Hz
UNIT = 600.0  # m/s that an unknown of 1 stands for: the first step of L-BFGS has a length of 1
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


def scene(points):
    """Grid, its points x + iy, the ring of arcs of 3 mm, the pulse, Pa, and the time steps."""
    grid = Grid((points, points), 0.12 / points, pml_size="auto", pml_inside=False)
    x, y = np.meshgrid(*grid.coordinates, indexing="ij")
    around = 2 * np.pi / ELEMENTS * np.arange(ELEMENTS)[:, None] + np.linspace(-1, 1, 40) * 1.5e-3 / RING
    arcs = RING * np.stack([np.cos(around), np.sin(around)], axis=2)
    run = {"dt": DT * 96 / points, "steps": STEPS * points // 96}
    t = np.pi * 170e3 * (np.arange(run["steps"]) * run["dt"] - 20e-6)
    pulse = 1e5 * (1 - 2 * t**2) * np.exp(-(t**2))
    return grid, x + 1j * y, acoustics.surfaces(grid, arcs, [3e-3] * ELEMENTS), pulse, run


def shots(grid, speed, ring, pulse):
    """What `simulate` takes, for each shot: one element fires, all listen."""
    medium = Medium(speed, 1000.0, reference_speed=1700.0)
    for shot in SHOTS:
        yield grid, medium, ring.source((np.arange(ELEMENTS)[:, None] == shot) * pulse), Sensor.elements(ring)


def band(signals, frequency):
    """A band of signals around a frequency."""
    f = np.fft.rfftfreq(2 * STEPS, DT)
    spectrum = np.fft.rfft(signals, 2 * STEPS) * np.exp(-(((f - frequency) / (0.4 * frequency)) ** 2))
    return np.fft.irfft(spectrum)[..., :STEPS]


def main(folder=".", iterations=7):
    fine, z, ring, pulse, run = scene(192)
    heard = [acoustics.simulate(*each, **run)["p"][:, ::2] for each in shots(fine, breast(z), ring, pulse)]
    apart = abs((np.arange(ELEMENTS) - np.array(SHOTS)[:, None] + 16) % ELEMENTS - 16)
    kept = (apart > 3)[:, :, None]  # not the elements beside the one that fires
    noise = NOISE * abs(kept * heard).max() * np.random.default_rng(1).standard_normal(np.shape(heard))
    grid, z, ring, pulse, run = scene(96)
    truth, options = breast(z), {"maxiter": int(iterations)}

    def misfit(unknowns, pulse, signals):
        """½‖A(c) − y‖²/‖y‖² and its derivatives."""
        value, total, scale = 0.0, np.zeros(grid.shape), np.sum(signals**2)
        speed = WATER + UNIT * unknowns.reshape(grid.shape)
        for number, shot in enumerate(shots(grid, speed, ring, pulse)):

            def objective(results, number=number):
                rest = kept[number] * results["p"] - signals[number]
                return 0.5 * np.sum(rest**2) / scale, {"p": rest / scale}

            gradient = acoustics.simulate_and_gradient(*shot, objective, **run)
            value, total = value + gradient.value, total + gradient["sound_speed"]
        return value, UNIT * (total * (abs(z) < INSIDE)).ravel()

    unknowns, maps = np.zeros(z.size), {"truth": truth, "start": np.full(z.shape, WATER)}
    for frequency in BANDS:
        data = band(pulse, frequency), band(kept * (heard + noise), frequency)
        unknowns = minimize(misfit, unknowns, data, "L-BFGS-B", jac=True, options=options).x
        maps[f"up to {frequency / 1e3:.0f} kHz"] = WATER + UNIT * unknowns.reshape(z.shape)
    figure, errors = Figure(figsize=(11, 7), layout="constrained"), []
    for panel, (name, speed) in zip(figure.subplots(2, 3).flat, maps.items(), strict=True):
        rest = (speed - truth)[np.hypot(z.real / 41e-3, z.imag / 37e-3) < 1]
        errors.append(float(np.sqrt(np.mean(rest**2))))
        print(f"{name}: RMS error inside the breast {errors[-1]:.1f} m/s")
        shown = panel.imshow(speed.T, extent=(-60, 58.75, -60, 58.75), origin="lower", vmin=1440, vmax=1610)
        panel.plot(*1e3 * ring.centres.T, "s", color="white", markersize=2)
        panel.set(title=f"{name}: RMS error {errors[-1]:.1f} m/s", xlabel="x (mm)", ylabel="y (mm)")
    figure.colorbar(shown, ax=figure.axes, label="sound speed (m/s)", shrink=0.8)
    figure.savefig(Path(folder) / "full_waveform_inversion.png", dpi=90)
    return errors[1:]


if __name__ == "__main__":
    main(*sys.argv[1:])
