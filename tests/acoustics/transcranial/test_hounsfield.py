"""Media of CTs: the constants of the relation, its bounds, and that the solver attenuates as it says."""

import numpy as np
import pytest

from wavefabric.acoustics import Grid, Sensor, Source, media_from_hounsfield, simulate
from wavefabric.acoustics.transcranial.ct import CT
from wavefabric.base.errors import InputError


def at(hounsfield, **options):
    """Sound speed, density and α₀ at one value."""
    medium = media_from_hounsfield([float(hounsfield)], **{"frequency": 1e6, **options})
    return [float(array[0]) for array in (medium.sound_speed, medium.density, medium.alpha_coeff)]


@pytest.mark.parametrize(
    ("hounsfield", "expected"),
    [
        (-1000, (1500, 1000, 0)),  # air becomes water
        (-201, (1500, 1000, 0)),
        (-200, (1560, 1040, 0.6)),
        (40, (1560, 1040, 0.6)),
        (299, (1560, 1040, 0.6)),
        (300, (1740, 1180, 0.2 + 7.8 * 0.85**0.5)),
        (1000, (2300, 1600, 0.2 + 7.8 * 0.5**0.5)),
        (2000, (3100, 2200, 0.2)),
        (3500, (3100, 2200, 0.2)),  # clipped: metal is no bone
    ],
)
def test_the_relation(hounsfield, expected):
    np.testing.assert_allclose(at(hounsfield), expected, rtol=1e-6)


def test_air_may_stay():
    np.testing.assert_allclose(at(-900, air="air"), (343, 1.2, 0), rtol=1e-6)
    np.testing.assert_allclose(at(0, air="air"), at(0), rtol=0)


def test_speed_and_density_never_fall():
    medium = media_from_hounsfield(np.arange(-1100, 3200, 0.5), frequency=5e5)
    assert np.all(np.diff(medium.sound_speed) >= 0)
    assert np.all(np.diff(medium.density) >= 0)


@pytest.mark.parametrize("power", [1.0, 1.3, 2.0])
def test_attenuation_at_the_frequency_is_that_of_the_relation(power):
    medium = media_from_hounsfield([1000.0], frequency="500 kHz", alpha_power=power)
    assert medium.alpha_coeff[0] * 0.5**medium.alpha_power == pytest.approx(0.5 * (0.2 + 7.8 * 0.5**0.5))
    assert (medium.absorption, medium.dispersion) == (
        ("stokes" if power == 2 else "power_law"),
        power != 1,
    )


def test_a_plane_wave_loses_what_the_relation_says():
    grid = Grid((320,), 2e-4, pml_size=20)
    medium = media_from_hounsfield(np.full(grid.shape, 1000.0), frequency="500 kHz")
    dt = 2e-8
    time = np.arange(2000) * dt
    drive = 1e5 * np.sin(2 * np.pi * 5e5 * time) * np.minimum(1, time * 5e5 / 4)
    x = grid.coordinates[0]
    source = Source(p_mask=np.isclose(x, -20e-3), p=drive[None])
    sensor = Sensor((x > -10e-3) & (x < 15e-3), record=("p_amp",), frequencies=(5e5,), start=1500)
    amplitude = simulate(grid, medium, source, sensor, dt=dt, t_end=time[-1], device="cpu", threads=1)[
        "p_amp"
    ]
    decibels = 20 * np.log10(np.ravel(amplitude))
    slope = np.polyfit(np.arange(decibels.size) * grid.spacing[0] * 100, decibels, 1)[0]
    assert -slope == pytest.approx(0.5 * (0.2 + 7.8 * 0.5**0.5), rel=0.01)  # dB/cm


def test_arrays_are_as_the_solver_takes_them(monkeypatch):
    values = np.random.default_rng(0).uniform(-1000, 2500, (7, 6, 5)).astype(np.float32)
    medium = media_from_hounsfield(CT.of(values, 1e-3), frequency=1e6)
    for array in (medium.sound_speed, medium.density, medium.alpha_coeff):
        assert array.flags.f_contiguous
        assert (array.dtype, array.shape) == (np.float32, values.shape)
    assert medium.sound_speed[3, 2, 1] == np.float32(at(values[3, 2, 1])[0])
    flat = media_from_hounsfield(values[:, :, 2], frequency=1e6)
    np.testing.assert_array_equal(flat.density, medium.density[:, :, 2])


@pytest.mark.parametrize(
    ("ct", "options", "message"),
    [
        ([np.nan], {}, "ct: .*not finite.*allowed: Hounsfield units"),
        ([True], {}, "ct: is of type bool"),
        (np.zeros((2, 0)), {}, "ct.shape"),
        ([0.0], {"relation": "mine"}, 'relation: "mine" given; allowed: porosity'),
        ([0.0], {"air": "vacuum"}, 'air: "vacuum" given; allowed: water, air'),
        ([0.0], {"frequency": 0}, "frequency: 0.0 Hz given; allowed: a positive number"),
        ([0.0], {"alpha_power": 3.5}, "medium.alpha_power: 3.5"),
    ],
)
def test_what_is_refused(ct, options, message):
    with pytest.raises(InputError, match=message):
        media_from_hounsfield(ct, **{"frequency": 1e6, **options})
