"""Focusing through a skull in 2-D: phases of 48 elements that maximise the pressure at a target.

L-BFGS of SciPy ascends from geometric delays, by the gradient with respect to the elements' signals. Beside
it: time reversal, a simulation from the target to the elements. It takes a minute on one core.

Usage: python examples/skull_phase_correction.py [folder] [iterations]
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from scipy.optimize import minimize

from wavefabric import acoustics
from wavefabric.acoustics import ContinuousWave, Grid, Medium, Sensor, Source
from wavefabric.base.files.output import check_output

FREQUENCY, PERIOD, PERIODS = 500e3, 32, 42  # Hz; time steps; simulated, of which the last 4 are recorded
DT, STEPS, WATER, PRESSURE = 1 / FREQUENCY / PERIOD, PERIOD * PERIODS, 1500.0, 50e3  # s; ; m/s; Pa
RUN = {"dt": DT, "steps": STEPS, "check_stability": False}
HEARD = {"start": STEPS - 4 * PERIOD, "frequencies": FREQUENCY}


def skull(x, y):
    """Medium: tables and diploë, whose thickness varies along the skull; and where the brain is."""
    angle = np.arctan2(y, 40e-3 - x)
    depth = 65e-3 + 0.8e-3 * np.sin(9 * angle) - np.hypot(x - 40e-3, y)
    thickness = 6.5e-3 + 1.4e-3 * np.sin(7 * angle + 1) + 1e-3 * np.cos(15 * angle)
    bone = (depth > 0) & (depth < thickness)
    middle = (depth > 0.3 * thickness) & (depth < 0.7 * thickness)
    speed = np.where(bone, np.where(middle, 2200.0, 2900.0), WATER)  # m/s
    density = np.where(bone, np.where(middle, 1600.0, 1900.0), 1000.0)  # kg/m³
    absorption = np.where(bone, 16.0, 0.0)  # dB/(MHz² cm): 4 dB/cm at 500 kHz
    return Medium(speed, density, absorption, absorption="stokes"), depth > thickness


def main(folder=".", iterations=6):
    Path(folder).mkdir(parents=True, exist_ok=True)
    path = check_output(Path(folder) / "skull_phase_correction.png", force=True)  # before the work
    grid = Grid((144, 176), "0.5 mm", pml_size="auto", pml_inside=False)
    x, y = np.meshgrid(*grid.coordinates, indexing="ij")
    medium, brain = skull(x, y)
    array = acoustics.linear_array(grid, (-33e-3, 0), 48, 1.4e-3, None, 1.6e-3, (1, 0))
    target, goal = np.zeros(grid.shape, bool), np.array([x[115, 0], y[0, 102]])
    target[115, 102] = True
    angle = 2 * np.pi * np.arange(STEPS) / PERIOD
    rise = 0.5 - 0.5 * np.cos(np.minimum(angle / 4, np.pi))  # over two periods

    def misfit(phases):
        """Minus the amplitude at the target, kPa, and its derivatives with respect to the phases, rad."""
        waves = PRESSURE * rise * np.exp(1j * (angle + phases[:, None]))

        def objective(results):
            return -1e-3 * results["p_amp"][0, 0], {"p_amp": np.full((1, 1), -1e-3)}

        inputs = grid, medium, array.source(waves.real), Sensor(target, "p_amp", **HEARD)
        gradient = acoustics.simulate_and_gradient(*inputs, objective, "p", **RUN)
        print(f"  amplitude {-gradient.value:.1f} kPa", flush=True)
        return gradient.value, np.sum(array.element_signals(gradient["p"]) * -waves.imag, axis=1)

    def amplitude_of(phases):
        source = array.source(ContinuousWave(FREQUENCY, PRESSURE, phases, 2))
        sensor = Sensor(None, "p_amp_all", **HEARD)
        return acoustics.simulate(grid, medium, source, sensor, **RUN)["p_amp_all"][0]

    phases = {"geometric delays": -2 * np.pi * FREQUENCY * array.delays(WATER, goal)}
    how = {"method": "L-BFGS-B", "jac": True, "options": {"maxiter": int(iterations)}}
    phases["gradient"] = minimize(misfit, phases["geometric delays"], **how).x
    back = Source(p_mask=target, p=ContinuousWave(FREQUENCY, PRESSURE, ramp=2))
    heard = acoustics.simulate(grid, medium, back, Sensor.elements(array, "p_amp", **HEARD), **RUN)
    phases["time reversal"] = -heard["p_phase"][0]
    figures = {}
    for name, each in phases.items():
        amplitude = amplitude_of(each)
        focus = acoustics.focus_of(amplitude, grid, inside=brain)
        at, off = 1e-3 * float(amplitude[target][0]), 1e3 * float(np.linalg.norm(focus.position - goal))
        print(f"{name}: {at:.1f} kPa at the target; {focus.pressure / 1e3:.1f} kPa {off:.2f} mm off it")
        figures[name] = at, off, amplitude
    draw(path, medium.sound_speed, figures, phases, array, goal, x, y)
    return figures


def draw(path, speed, figures, phases, array, goal, x, y):
    """The skull, the amplitudes without and with correction, and the correction."""
    figure = Figure(figsize=(10.5, 7.2), layout="constrained")
    (top, field), (below, last) = figure.subplots(2, 2)
    ends = [1e3 * float(end) for end in (y[0, 0], y[0, -1], x[-1, 0], x[0, 0])]
    figure.colorbar(top.imshow(speed, extent=ends, cmap="bone_r"), ax=top, label="sound speed (m/s)")
    top.plot(*1e3 * array.centres.T[::-1], "s", color="tab:green", markersize=4)
    for panel, name in zip((field, last), ("geometric delays", "gradient"), strict=True):
        at, off, amplitude = figures[name]
        shown = panel.imshow(1e-3 * amplitude, extent=ends, vmin=0, vmax=90, cmap="magma")
        panel.contour(1e3 * y[0], 1e3 * x[:, 0], speed > WATER, [0.5], colors="0.7", linewidths=0.7)
        panel.set_title(f"{name}: {at:.0f} kPa at the target, focus {off:.1f} mm off")
        figure.colorbar(shown, ax=panel, label="pressure amplitude (kPa)")
    top.set_title("skull between the array and the target (×)")
    for panel in (top, field, last):
        panel.plot(*1e3 * goal[::-1], "x", color="tab:cyan", markersize=10, mew=2)
        panel.set(xlabel="y (mm)", ylabel="x (mm)")
    for name, line in (("gradient", "o"), ("time reversal", "-")):
        turn = np.exp(1j * (phases[name] - phases["geometric delays"]))
        turn /= np.sum(turn)  # a phase that all share changes no amplitude
        below.plot(1e3 * array.centres[:, 1], np.degrees(np.angle(turn)), line, label=name)
    below.set(title="correction of the phases", xlabel="element at y (mm)", ylabel="phase (°)")
    below.legend()
    figure.savefig(path, dpi=90)
    print(f"wrote {path}")


if __name__ == "__main__":
    main(*sys.argv[1:])
