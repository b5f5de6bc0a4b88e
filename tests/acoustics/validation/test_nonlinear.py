"""Harmonics of a plane sine wave against Fubini's solution."""

import closed_forms
import numpy as np
import pytest

from wavefabric.acoustics import Grid, Medium, Sensor, Source, simulate

C, RHO, B_OVER_A, FREQUENCY = 1500.0, 1000.0, 5.0, 1e6


@pytest.mark.parametrize("precision", ["single", pytest.param("double", marks=pytest.mark.slow)])
def test_harmonics_grow_as_fubini_says(precision):
    per_wavelength, wavelengths, period = 24, 20, 160  # points, shock distance, steps (CFL number 0.15)
    spacing = C / FREQUENCY / per_wavelength
    amplitude = RHO * C**2 / (2 * np.pi * (1 + B_OVER_A / 2) * wavelengths)
    shock = closed_forms.shock_distance(amplitude, FREQUENCY, C, RHO, B_OVER_A)
    assert shock == pytest.approx(wavelengths * C / FREQUENCY)
    grid = Grid((480, 2), spacing, pml_size=(20, 0))
    sources = np.zeros(grid.shape, bool)
    sources[40] = True
    sensors = 40 + np.array([96, 192, 288, 336])  # σ = 0.2 … 0.7
    mask = np.zeros(grid.shape, bool)
    mask[sensors, 0] = True
    n = np.arange(4480)
    ramp = np.clip(n / (3 * period), 0, 1)
    result = simulate(
        grid,
        Medium(C, RHO, nonlinearity=B_OVER_A),
        Source(p_mask=sources, p=amplitude * ramp**2 * (3 - 2 * ramp) * np.sin(2 * np.pi * n / period)),
        Sensor(mask=mask, start=n.size - 2 * period),
        dt=1 / FREQUENCY / period,
        steps=n.size,
        precision=precision,
        device="cpu",
        threads=1,
    )
    harmonics = np.abs(np.fft.rfft(result["p"].astype(float), axis=1))[:, ::2] / period / amplitude
    sigma = (sensors - 40) * spacing / shock
    for harmonic, tolerance in ((1, 5e-4), (2, 5e-3), (3, 1e-2), (4, 2e-2)):
        wanted = closed_forms.fubini(sigma, harmonic)
        np.testing.assert_allclose(harmonics[:, harmonic], wanted, rtol=tolerance)
