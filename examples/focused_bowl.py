"""A focused bowl sends 500 kHz ultrasound through a flat skull: how much pressure arrives, and where?

Bowl, layers and tissue are those of benchmark 4 for transcranial ultrasound (Aubry et al. 2022,
doi:10.1121/10.0013426). The grid is just fine enough: half a millimetre along the beam, to resolve the layers
of the skull, and 2.4 points per wavelength across it. It takes about half a minute on two cores; the pressure
behind the skull is then within 5 % of the exact answer for plane layers.

Usage: python examples/focused_bowl.py [folder [refinement]]
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from wavefabric.acoustics import Grid, Medium, Sensor, focused_bowl, simulate
from wavefabric.acoustics.pictures.fields import plot_field, plot_profiles
from wavefabric.acoustics.transducers.elements import bowl
from wavefabric.base.files.output import check_output
from wavefabric.cli.common.progress import make_progress

FREQUENCY, RADIUS, DIAMETER, SURFACE_PRESSURE = 500e3, 64e-3, 64e-3, 60e3  # Hz, m, m, Pa
WATER = 1500.0  # m/s
LAYERS = {  # from z (m); m/s, kg/m³, dB/cm at 500 kHz
    "water": (-1.0, WATER, 1000.0, 0.0),
    "skin": (26e-3, 1610.0, 1090.0, 0.2),
    "outer table": (30e-3, 2800.0, 1850.0, 4.0),
    "diploë": (31.5e-3, 2300.0, 1700.0, 8.0),
    "inner table": (35.5e-3, 2800.0, 1850.0, 4.0),
    "brain": (36.5e-3, 1560.0, 1040.0, 0.3),
}
SKULL_END = LAYERS["brain"][0]
POWER = 1.1  # of the absorption; at a single frequency it hardly matters


def tissue(z):
    """Number of the layer at distances from the bowl, m."""
    return np.searchsorted([layer[0] for layer in LAYERS.values()], z) - 1


def steady(grid, medium, transducer, longest_step, periods, label):
    """Peak pressure everywhere over so many periods of the steady state."""
    # A period is no whole number of time steps: each period samples other phases of the wave.
    per_period = np.ceil(1 / FREQUENCY / longest_step) + 1 / periods
    dt = 1 / FREQUENCY / per_period
    start = round(41 * per_period)  # 35 periods from the bowl's edge to the farthest corner
    steps = start + round(periods * per_period)
    ramp = np.clip(np.arange(steps) / (4 * per_period), 0, 1)
    wave = ramp**2 * (3 - 2 * ramp) * np.sin(2 * np.pi * np.arange(steps) / per_period)
    print(f"{label}: {' × '.join(map(str, grid.shape))} points, {steps} steps of {dt * 1e9:.0f} ns")
    return simulate(
        grid,
        medium,
        transducer.source(SURFACE_PRESSURE * wave),
        Sensor(record="p_max_all", start=start),
        dt=dt,
        steps=steps,
        progress=make_progress(),
    )


def main(folder="demo", refinement="1"):
    folder, fine = Path(folder), int(refinement)
    folder.mkdir(parents=True, exist_ok=True)
    path = check_output(folder / "focused-bowl.png", force=True)  # before the work
    shape = (56 * fine, 56 * fine, 148 * fine)
    spacing = (1.25e-3 / fine, 1.25e-3 / fine, 0.5e-3 / fine)
    grid = Grid(shape, spacing, pml_size=(8, 8, 10), pml_inside=False)
    apex = grid.coordinates[2][0] + 3.25e-3
    z = grid.coordinates[2] - apex  # from here on measured from the bowl, as in the paper
    transducer = bowl(grid, (0, 0, apex), RADIUS, DIAMETER, focus=(0, 0, 1))

    _, speed, density, loss = np.array(list(LAYERS.values()))[tissue(z)].T
    skull = Medium(
        np.broadcast_to(speed, shape),
        np.broadcast_to(density, shape),
        np.broadcast_to(loss / (FREQUENCY / 1e6) ** POWER, shape),
        alpha_power=POWER,
        dispersion=False,  # the speeds are those at 500 kHz
        reference_speed=WATER,  # nearly all of the way is water: time steps are exact there
    )
    water = Medium(WATER, 1000.0)
    free = steady(grid, water, transducer, 0.3e-6 / fine, 7, "water")
    through = steady(grid, skull, transducer, 0.097e-6 / fine, 3, "skull")
    through.save(folder / "focused-bowl.h5", force=True)

    fields = [result["p_max_all"] for result in (free, through)]
    peaks = []
    for name, field in zip(("water", "skull"), fields, strict=True):
        beyond = np.where(z > SKULL_END, field, 0)
        position = np.unravel_index(np.argmax(beyond), shape)
        peaks.append(beyond[position])
        x, y, depth = (axis[i] * 1e3 for axis, i in zip((*grid.coordinates[:2], z), position, strict=True))
        print(f"{name}: {peaks[-1] / 1e6:.3f} MPa at x = {x:.1f}, y = {y:.1f}, z = {depth:.1f} mm")
    print(f"insertion loss of the skull: {20 * np.log10(peaks[0] / peaks[1]):.1f} dB")
    exact = SURFACE_PRESSURE * abs(
        focused_bowl.bowl_on_axis(np.maximum(z, 0), RADIUS, DIAMETER, FREQUENCY, WATER)
    )
    lit = z > 10e-3
    error = np.linalg.norm((fields[0][shape[0] // 2, shape[1] // 2] - exact)[lit]) / np.linalg.norm(
        exact[lit]
    )
    print(f"water, on the axis: {100 * error:.1f} % from O'Neill's solution")
    draw(grid, apex, fields, exact, peaks, path)


def draw(grid, apex, fields, exact, peaks, path):
    """Axial plane through the skull, and the axis with and without it."""
    z = grid.coordinates[2] - apex
    figure = Figure(figsize=(8.2, 9.4), layout="constrained")
    above, below = figure.subplots(2, 1, height_ratios=[1.75, 1])
    plot_field(
        fields[1],
        grid,
        outlines=np.broadcast_to(tissue(z), grid.shape),
        contours_in=np.broadcast_to(z > SKULL_END, grid.shape),
        peak=peaks[1],
        origin=(0, 0, apex),
        title="Peak pressure behind a flat skull, 500 kHz",
        axes=above,
    )
    angle = np.linspace(-1, 1, 101) * np.arcsin(DIAMETER / RADIUS / 2)
    above.plot(1e3 * RADIUS * (1 - np.cos(angle)), 1e3 * RADIUS * np.sin(angle), color="white", linewidth=2.5)
    on_axis = [field[grid.shape[0] // 2, grid.shape[1] // 2] for field in fields]
    curves = {"water": on_axis[0], "through the skull": on_axis[1], "water, O'Neill 1949": exact}
    shown = z > 5e-3
    plot_profiles(
        z[shown],
        {name: curve[shown] for name, curve in curves.items()},
        shaded={"skin": (26e-3, 30e-3), "skull": (30e-3, SKULL_END)},
        dashed=["water, O'Neill 1949"],
        title="On the axis",
        xlabel="z (mm)",
        axes=below,
    )
    figure.savefig(path, dpi=160)
    print(path)


if __name__ == "__main__":
    main(*sys.argv[1:])
