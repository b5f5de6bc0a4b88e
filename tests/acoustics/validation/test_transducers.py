"""Fields of transducers, simulated, against O'Neill's bowl, the circular piston and a focused array."""

import closed_forms
import numpy as np
import pytest

from wavefabric.acoustics import Grid, Medium, Sensor, focused_bowl, simulate
from wavefabric.acoustics.transducers.arrays import linear_array
from wavefabric.acoustics.transducers.elements import bowl, disc

C, RHO, DX = 1500.0, 1000.0, 1e-3


def on_axis(make, shape, per_wavelength, diameter):
    """Amplitude along z of what ``make(grid, apex)`` gives, and z from the apex, m; and the frequency, Hz."""
    frequency = C / (per_wavelength * DX)
    period = int(np.ceil(per_wavelength / 0.5))  # CFL number about 0.5: time steps are exact without losses.
    dt = 1 / frequency / period
    grid = Grid(shape, DX, pml_size=8)
    apex = grid.coordinates[2][12]
    mask = np.zeros(shape, bool)
    seen = np.arange(18, shape[2] - 8)
    mask[shape[0] // 2, shape[1] // 2, seen] = True
    steps = int((np.hypot(diameter / 2, grid.size[2]) / C + 5 / frequency) / dt) + 2 * period
    n = np.arange(steps)
    ramp = np.clip(n / (3 * period), 0, 1)
    signal = ramp**2 * (3 - 2 * ramp) * np.sin(2 * np.pi * n / period)
    result = simulate(
        grid,
        Medium(C, RHO),
        make(grid, apex).source(signal),
        Sensor(mask=mask, start=steps - 2 * period),
        dt=dt,
        steps=steps,
        device="cpu",
        threads=1,
    )
    amplitude = np.abs(np.fft.rfft(result["p"], axis=1))[:, 2] / period
    return amplitude, grid.coordinates[2][seen] - apex, frequency


@pytest.mark.slow
@pytest.mark.parametrize(
    ("per_wavelength", "tolerance"), [(3, 0.012), pytest.param(4.5, 0.008, marks=pytest.mark.slow)]
)
def test_focused_bowl_is_oneills(per_wavelength, tolerance):
    radius, diameter = 30e-3, 28e-3
    result, z, frequency = on_axis(
        lambda grid, apex: bowl(grid, (0, 0, apex), radius, diameter, (0, 0, 0)),
        (48, 48, 72),
        per_wavelength,
        diameter,
    )
    wanted = abs(focused_bowl.bowl_on_axis(z, radius, diameter, frequency, C))
    assert wanted.max() > 4  # It does focus.
    assert np.linalg.norm(result - wanted) < tolerance * np.linalg.norm(wanted)
    assert result.max() == pytest.approx(wanted.max(), rel=tolerance)


@pytest.mark.slow
def test_circular_piston_is_within_half_a_percent():
    result, z, frequency = on_axis(
        lambda grid, apex: disc(grid, (0, 0, apex), 16e-3, (0, 0, 1)), (40, 40, 60), 5, 16e-3
    )
    wanted = abs(closed_forms.piston_on_axis(z, 16e-3, frequency, C))
    assert np.linalg.norm(result - wanted) < 5e-3 * np.linalg.norm(wanted)
    far = z > 8e-3  # The nulls are nearer.
    np.testing.assert_allclose(result[far], wanted[far], rtol=1e-2)


def test_array_focuses_where_it_is_told():
    grid = Grid((96, 96), 0.5e-3, pml_size=12)
    focus = np.array([10e-3, 5e-3])
    array = linear_array(grid, (-15e-3, 0), 16, 1.5e-3, None, "2 mm", (0, 0))
    frequency, dt = 0.6e6, 1e-7
    t = np.arange(200) * dt
    burst = np.exp(-(((t - 6e-6) / 2.5e-6) ** 2)) * np.sin(2 * np.pi * frequency * (t - 6e-6))
    signals = array.signals(burst, array.delays(C, focus=tuple(focus)), dt)
    result = simulate(
        grid,
        Medium(C, RHO),
        array.source(signals),
        Sensor(record="p_max_all"),
        dt=dt,
        steps=480,
        device="cpu",
        threads=1,
    )["p_max_all"]
    front = result * (grid.coordinates[0] > -8e-3)[:, None]
    peak = np.unravel_index(np.argmax(front), front.shape)
    at = np.array([grid.coordinates[i][p] for i, p in enumerate(peak)])
    # Sideways it is where it should be; diffraction draws a focus of this aperture towards the array.
    axis = focus - np.array([-15e-3, 0])
    axis /= np.linalg.norm(axis)
    along, across = (at - focus) @ axis, axis[0] * (at - focus)[1] - axis[1] * (at - focus)[0]
    assert abs(across) < 0.7e-3
    assert -6e-3 < along < 1e-3
