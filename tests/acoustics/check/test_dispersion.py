"""How far absorption moves the phase speed: against waves that travel, and what is said of it."""

import math
import warnings

import closed_forms
import numpy as np
import pytest

from wavefabric.acoustics import Grid, Medium, Sensor, Source, simulate, to_problem
from wavefabric.acoustics.check.warnings import largest_shift, phase_speed
from wavefabric.acoustics.solver.formulas import absorption_factors

DT, STEPS = 1e-8, 1200
STRIP = Grid((320, 2), "0.1 mm", pml_size=(20, 0))
NUMBERS = np.arange(STEPS)
TONE = np.sin(2 * np.pi * 1e6 * NUMBERS * DT) * np.clip(NUMBERS / 150, 0, 1)


def plane(signal=TONE, **kind):
    mask = np.zeros(STRIP.shape, bool)
    mask[40] = True
    return Source(p_mask=mask, p=1e3 * signal, **kind)


def speaking(medium, source, grid=STRIP):
    return largest_shift(to_problem(grid, medium, source, Sensor(record="p_final"), DT, STEPS)[0])


@pytest.mark.parametrize(
    ("power", "coefficient", "wanted"), [(1.05, 8.0, 1928), (0.95, 8.0, 1019), (1.1, 2.0, 1594)]
)
def test_it_is_how_fast_a_tone_travels(power, coefficient, wanted):
    medium = Medium(1540.0, 1000.0, coefficient, power)
    points = np.zeros(STRIP.shape, bool)
    points[[70, 100], 0] = True
    with pytest.warns(
        UserWarning, match=r"alpha_power: .* 1 MHz travel at \d+ instead of 1540 m/s; dispersion="
    ):
        result = simulate(
            STRIP, medium, plane(), Sensor(points), dt=DT, steps=STEPS, precision="double", device="cpu"
        )
    # The last four periods.
    turn = np.exp(-2j * np.pi * 1e6 * result.time[-400:])
    first, second = result["p"][:, -400:] @ turn
    late = -np.angle(second / first) % (2 * np.pi) / (2 * np.pi * 1e6)
    distance = 30 * 1e-4
    late += round((distance / wanted - late) * 1e6) / 1e6
    shift = speaking(medium, plane())
    assert shift.phase_speed == pytest.approx(wanted, abs=5)
    assert shift.frequency == pytest.approx(1e6, rel=0.01)
    assert distance / late == pytest.approx(shift.phase_speed, rel=0.005)


def test_a_small_shift_is_that_of_causality():
    """1/c = 1/c₀ + α₀ tan(πy/2) ω^(y−1), the first order of it (`closed_forms.phase_speed`)."""
    problem = to_problem(STRIP, Medium(1540.0, 1000.0, 0.1, 1.3), plane(), Sensor(record="p_final"), DT, 2)[0]
    eta = absorption_factors(problem)[1] * 0.1 * 1540.0**1.3
    for frequency in (0.5e6, 3e6):
        result = phase_speed(frequency, 1540.0, eta, 1.3)
        assert result - 1540 == pytest.approx(
            closed_forms.phase_speed(frequency, 1540.0, 0.1, 1.3) - 1540, rel=0.01
        )
    assert phase_speed(1e6, 1540.0, 1e9, 0.5) == 0


def test_harmless_media_are_not_warned_of():
    for medium in (
        Medium(1540.0, 1000.0, 0.75, 1.5),
        Medium(1540.0, 1000.0, 0.5, 1.1),
        Medium(1540.0, 1000.0, 0.02, 1.02),
        Medium(1540.0, 1000.0, 8.0, 1.05, dispersion=False),
        Medium(1540.0, 1000.0, 8.0, 1.0, dispersion=False),
        Medium(1540.0, 1000.0, 8.0, absorption="stokes"),
        Medium(1540.0, 1000.0),
    ):
        assert speaking(medium, plane()) is None
    lossy = Medium(1540.0, 1000.0, 8.0, 1.05)
    assert speaking(lossy, plane(np.zeros(STEPS))) is None


def test_every_kind_of_source_has_a_frequency():
    lossy = Medium(1540.0, 1000.0, 8.0, 1.05)
    mask = np.zeros(STRIP.shape, bool)
    mask[40] = True
    assert speaking(lossy, Source(u_mask=mask, ux=TONE)).frequency == pytest.approx(1e6, rel=0.01)
    x = np.meshgrid(*STRIP.coordinates, indexing="ij")[0]
    k = 2 * math.pi / 16e-4
    wave = speaking(lossy, Source(p0=np.cos(k * x), smooth=False))
    assert wave.frequency == pytest.approx(1540 * k / (2 * math.pi), rel=0.02)
    # The largest: the more a medium absorbs, the more it is off.
    uneven = Medium(np.where(x > 0, 1600.0, 1500.0), 1000.0, np.where(x > 0, 8.0, 0.1), 1.05)
    shift = speaking(uneven, plane())
    assert (shift.sound_speed, shift.alpha_coeff) == (1600.0, 8.0)


def test_power_one_attenuates_as_its_law():
    medium = Medium(1540.0, 1000.0, 2.0, 1.0, dispersion=False)
    points = np.zeros(STRIP.shape, bool)
    points[[70, 110], 0] = True
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = simulate(
            STRIP, medium, plane(), Sensor(points), dt=DT, steps=STEPS, precision="double", device="cpu"
        )
    turn = np.exp(-2j * np.pi * 1e6 * result.time[-400:])
    first, second = result["p"][:, -400:] @ turn
    assert np.log(abs(first / second)) / 40e-4 == pytest.approx(
        closed_forms.attenuation(1e6, 2.0, 1.0), rel=0.01
    )
    late = -np.angle(second / first) % (2 * np.pi) / (2 * np.pi * 1e6)
    late += round((40e-4 / 1540 - late) * 1e6) / 1e6
    assert 40e-4 / late == pytest.approx(1540, rel=1e-3)
