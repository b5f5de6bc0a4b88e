"""Attenuation and phase speed of a broadband plane pulse, measured between two points."""

from functools import cache

import closed_forms
import numpy as np
import pytest

from wavefabric.acoustics import Grid, Medium, Sensor, Source, simulate

C = 1500.0
FREQUENCIES = np.array([1e6, 2e6, 3e6])  # 15 to 5 points per wavelength
CASES = [(1.1, 0.1, "power_law"), (1.5, 0.5, "power_law"), (2.0, 0.3, "power_law"), (2.0, 0.3, "stokes")]


@cache
def measured(power, coefficient, kind, precision="double", dispersion=True):
    """Attenuation (Np/m) and phase speed (m/s) over 40 mm."""
    grid = Grid((1024, 2), 0.1e-3, pml_size=(20, 0))
    first, second = 300, 700
    distance = (second - first) * grid.spacing[0]
    pulse = np.exp(-(((grid.coordinates[0] + 30e-3) / 0.2e-3) ** 2))
    mask = np.zeros(grid.shape, bool)
    mask[[first, second], 0] = True
    result = simulate(
        grid,
        Medium(C, 1000.0, alpha_coeff=coefficient, alpha_power=power, absorption=kind, dispersion=dispersion),
        Source(p0=np.repeat(pulse[:, None], 2, axis=1), smooth=False),
        Sensor(mask=mask),
        cfl=0.1,
        t_end=50e-6,
        precision=precision,
        device="cpu",
        threads=1,
    )
    p = result["p"].astype(float)
    turn = np.exp(-2j * np.pi * np.outer(result.time, FREQUENCIES))
    ratio = (p[1] @ turn) / (p[0] @ turn)
    # Less the phase at the sound speed, what is left is small and needs no unwrapping.
    late = -np.angle(ratio * np.exp(2j * np.pi * FREQUENCIES * distance / C)) / (2 * np.pi * FREQUENCIES)
    return -np.log(np.abs(ratio)) / distance, distance / (distance / C + late)


#: The end of the range of powers that Stokes' law, power 2, does not show: see below.
QUICK = [CASES[0], *(pytest.param(*case, marks=pytest.mark.slow) for case in CASES[1:])]


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["single", pytest.param("double", marks=pytest.mark.slow)])
@pytest.mark.parametrize(("power", "coefficient", "kind"), QUICK)
def test_attenuation_follows_the_power_law(power, coefficient, kind, precision):
    result, _ = measured(power, coefficient, kind, precision)
    np.testing.assert_allclose(result, closed_forms.attenuation(FREQUENCIES, coefficient, power), rtol=0.01)


@pytest.mark.slow
@pytest.mark.parametrize(("power", "coefficient", "kind"), CASES)
def test_phase_speed_follows_from_it(power, coefficient, kind):
    _, result = measured(power, coefficient, kind)
    wanted = closed_forms.phase_speed(FREQUENCIES, C, coefficient, power)
    # The scheme is of first order here: 0.25 m/s at this time step, of up to 3.8 m/s that are looked for.
    np.testing.assert_allclose(result, wanted, atol=0.3)


@pytest.mark.slow
@pytest.mark.parametrize("power", [1.1, 1.5])
def test_without_dispersion_the_speed_is_the_same_at_all_frequencies(power):
    result, speed = measured(power, 0.1, "power_law", dispersion=False)
    np.testing.assert_allclose(speed, C, atol=0.1)
    np.testing.assert_allclose(result, closed_forms.attenuation(FREQUENCIES, 0.1, power), rtol=0.01)


def test_stokes_is_the_power_two():
    grid = Grid((128, 2), 0.1e-3, pml_size=(20, 0))
    pulse = np.exp(-((grid.coordinates[0] / 0.2e-3) ** 2))
    stokes, power, lossless = (
        simulate(
            grid,
            Medium(C, 1000.0, alpha_coeff=coefficient, alpha_power=2.0, absorption=kind),
            Source(p0=np.repeat(pulse[:, None], 2, axis=1), smooth=False),
            Sensor(mask=np.ones(grid.shape, bool)),
            cfl=0.1,
            t_end=4e-6,
            precision="double",
            device="cpu",
            threads=1,
        )["p"]
        for coefficient, kind in ((3.0, "stokes"), (3.0, "power_law"), (0.0, "power_law"))
    )
    np.testing.assert_allclose(stokes, power, rtol=0, atol=1e-9 * abs(power).max())
    assert abs(stokes - lossless).max() > 0.01 * abs(power).max()
