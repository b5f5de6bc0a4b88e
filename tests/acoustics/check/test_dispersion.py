"""How far absorption moves the phase speed: against waves that travel, and what is said of it."""

import math
import re
import warnings

import closed_forms
import numpy as np
import pytest

from wavefabric.acoustics import Grid, Medium, Sensor, Source, simulate, to_problem
from wavefabric.acoustics.check.warnings import power_law_line
from wavefabric.acoustics.stability.power_law import PowerLaw
from wavefabric.acoustics.stability.stable_time_step import stability
from wavefabric.base.errors import InputError

DT, STEPS = 1e-8, 1200
STRIP = Grid((320, 2), "0.1 mm", pml_size=(20, 0))
NUMBERS = np.arange(STEPS)
TONE = np.sin(2 * np.pi * 1e6 * NUMBERS * DT) * np.clip(NUMBERS / 150, 0, 1)


def plane(signal=TONE, **kind):
    mask = np.zeros(STRIP.shape, bool)
    mask[40] = True
    return Source(p_mask=mask, p=1e3 * signal, **kind)


def line_of(medium, source, grid=STRIP):
    return power_law_line(to_problem(grid, medium, source, Sensor(record="p_final"), DT, STEPS)[0])


def law_of(medium, grid=STRIP):
    return PowerLaw.strongest(grid.silent_problem(medium, DT))


@pytest.mark.parametrize(
    ("power", "coefficient", "wanted"), [(1.05, 8.0, 1928), (0.95, 8.0, 1019), (1.1, 2.0, 1594)]
)
def test_it_is_how_fast_a_tone_travels(power, coefficient, wanted):
    medium = Medium(1540.0, 1000.0, coefficient, power)
    points = np.zeros(STRIP.shape, bool)
    points[[70, 100], 0] = True
    line = (
        r"alpha_power: .* 1 MHz travel at \d+ instead of 1540 m/s, attenuated by [\d.]+ instead of [\d.]+ dB"
    )
    with pytest.warns(UserWarning, match=line):
        result = simulate(
            STRIP, medium, plane(), Sensor(points), dt=DT, steps=STEPS, precision="double", device="cpu"
        )
    # The last four periods.
    turn = np.exp(-2j * np.pi * 1e6 * result.time[-400:])
    first, second = result["p"][:, -400:] @ turn
    late = -np.angle(second / first) % (2 * np.pi) / (2 * np.pi * 1e6)
    distance = 30 * 1e-4
    late += round((distance / wanted - late) * 1e6) / 1e6
    speed = law_of(medium).wave(1e6)[0]
    assert speed == pytest.approx(wanted, abs=5)
    assert distance / late == pytest.approx(speed, rel=0.005)


@pytest.mark.parametrize(
    ("power", "coefficient", "kind", "attenuation"),
    [
        (1.05, 8.0, {}, 5.0),
        pytest.param(0.95, 8.0, {}, 17.34, marks=pytest.mark.slow),
        (1.5, 30.0, {}, 23.9),
        pytest.param(2.5, 3.0, {}, 3.132, marks=pytest.mark.slow),
        pytest.param(1.05, 20.0, {"dispersion": False}, 20.0, marks=pytest.mark.slow),
        (2.0, 30.0, {"absorption": "stokes"}, 29.49),
    ],
)
def test_it_is_how_a_pulse_decays(power, coefficient, kind, attenuation):
    """A force source, since a mass source also leaves a mean pressure."""
    grid = Grid((320,), 1e-4, pml_inside=False)
    line, points = np.zeros(320, bool), np.zeros(320, bool)
    line[60], points[[100, 160]] = True, True
    time = np.arange(2600) * DT - 6e-6
    source = Source(u_mask=line, ux=np.sin(2 * np.pi * 1e6 * time) * np.exp(-((time / 1.5e-6) ** 2)))
    medium = Medium(1540.0, 1000.0, coefficient, power, **kind)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = simulate(
            grid, medium, source, Sensor(points), dt=DT, steps=2600, precision="double", device="cpu"
        )
    first, second = np.abs(result["p"] @ np.exp(-2j * np.pi * 1e6 * result.time))
    assert law_of(medium, grid).wave(1e6)[1] == pytest.approx(attenuation, rel=1e-3)
    assert 20 * np.log10(first / second) / 0.6 == pytest.approx(attenuation, rel=0.01)


def test_a_small_error_is_that_of_causality():
    """1/c = 1/c₀ + α₀ tan(πy/2) ω^(y−1), the first order of it (`closed_forms.phase_speed`)."""
    law = PowerLaw(1540.0, 0.1, 1.3, math.tan(math.pi * 0.65))
    for frequency in (0.5e6, 3e6):
        speed, attenuation = law.wave(frequency)
        assert speed - 1540 == pytest.approx(
            closed_forms.phase_speed(frequency, 1540.0, 0.1, 1.3) - 1540, rel=0.01
        )
        assert attenuation * 100 == pytest.approx(
            20 / math.log(10) * closed_forms.attenuation(frequency, 0.1, 1.3), rel=0.01
        )
    assert PowerLaw(1540.0, 1e9, 0.5, 1.0).wave(1e6) == (0, math.inf)


@pytest.mark.parametrize("dispersion", [True, False])
@pytest.mark.parametrize("power", [0.0, 0.6, 0.95, 1.05, 1.5, 2.0, 2.5])
def test_the_wavenumber_is_a_root_of_the_equation(power, dispersion):
    tangent = math.tan(math.pi * power / 2) if dispersion else 0.0
    c, omega = 1540.0, 2e6 * np.pi
    law = PowerLaw(c, 3.0, power, tangent)
    speed, attenuation = law.wave(1e6)
    k = omega / speed + 1j * attenuation * 100 * math.log(10) / 20
    alpha = closed_forms.attenuation(1e6, 3.0, power) / omega**power  # Np/m (rad/s)^-y
    loss, shift = 2 * alpha * c ** (power - 1), 2 * alpha * c**power * tangent
    right = c**2 * k**2 * (1 - 1j * omega * loss * k ** (power - 2) - shift * k ** (power - 1))
    assert abs(right / omega**2 - 1) < 1e-12
    assert k.real > 0
    assert k.imag > 0


@pytest.mark.parametrize(
    ("y", "a"), [(1.0001, 0.5), (1.001, 12), (0.9999, 0.5), (0.99, 12), (2.5, 300), (0.1, 300)]
)
@pytest.mark.parametrize("dt", [None, 2e-8])
def test_powers_near_the_pole_are_refused_by_name(y, a, dt):
    """The nearest powers that the line allows do run."""
    source, steps = plane(TONE[:20]), 30
    with pytest.raises(
        InputError, match=r"^alpha_power: .*dispersion.*tan.*; allowed: .*dispersion=False"
    ) as error:
        simulate(
            STRIP, Medium(1540.0, 1000.0, a, y), source, record="p_final", dt=dt, steps=steps, device="cpu"
        )
    assert "strong absorption" not in str(error.value)
    allowed = [float(number) for number in re.findall(r"at (?:most|least) ([\d.]+)", str(error.value))]
    assert allowed
    for power in allowed:
        medium = Medium(1540.0, 1000.0, a, power)
        assert "alpha_power" not in str(stability(STRIP.silent_problem(medium, 1e-8), trials=False).warning)


def test_harmless_media_are_not_warned_of():
    for medium in (
        Medium(1540.0, 1000.0, 0.75, 1.5),
        Medium(1540.0, 1000.0, 0.5, 1.1),
        Medium(1540.0, 1000.0, 3.0, 2.5),
        Medium(1540.0, 1000.0, 0.02, 1.02),
        Medium(1540.0, 1000.0, 8.0, 1.05, dispersion=False),
        Medium(1540.0, 1000.0, 8.0, 1.0, dispersion=False),
        Medium(1540.0, 1000.0, 8.0, absorption="stokes"),
        Medium(1540.0, 1000.0),
    ):
        assert line_of(medium, plane()) is None
    # The attenuation alone is off.
    assert "1521 instead of 1540 m/s, attenuated by 4.76 instead of 4.46 dB" in line_of(
        Medium(1540.0, 1000.0, 4.5, 2.5), plane()
    )
    lossy = Medium(1540.0, 1000.0, 8.0, 1.05)
    assert line_of(lossy, plane(np.zeros(STEPS))) is None


def test_every_kind_of_source_has_a_frequency():
    lossy = Medium(1540.0, 1000.0, 8.0, 1.05)
    mask = np.zeros(STRIP.shape, bool)
    mask[40] = True
    assert "sound of 1 MHz" in line_of(lossy, Source(u_mask=mask, ux=TONE))
    x = np.meshgrid(*STRIP.coordinates, indexing="ij")[0]
    k = 2 * math.pi / 16e-4
    assert f"sound of {1540 * k / 2e6 / math.pi:.2g} MHz" in line_of(
        lossy, Source(p0=np.cos(k * x), smooth=False)
    )
    # The largest: the more a medium absorbs, the more it is off.
    uneven = Medium(np.where(x > 0, 1600.0, 1500.0), 1000.0, np.where(x > 0, 8.0, 0.1), 1.05)
    assert "instead of 1600 m/s" in line_of(uneven, plane())
    assert (law_of(uneven).sound_speed, law_of(uneven).alpha_coeff) == (1600.0, 8.0)


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
