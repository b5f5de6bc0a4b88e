"""The medium: what it is on a grid, the staggered density, what is refused."""

import numpy as np
import pytest

from wavefabric.acoustics import Grid, Medium
from wavefabric.acoustics.medium import stagger
from wavefabric.base.errors import InputError

GRID = Grid((8, 6, 5), 1e-4, pml_size=1)


def field(low=1.0, high=2.0, seed=0):
    return low + (high - low) * np.random.default_rng(seed).random(GRID.shape)


def test_a_uniform_medium_stays_scalar():
    facts = Medium("1.5 km/s", "1 g/cm^3").on(GRID)
    assert facts == {
        "sound_speed": pytest.approx(1500.0),
        "density": pytest.approx(1000.0),
        "density_staggered": pytest.approx((1000.0,) * 3),
        "reference_speed": pytest.approx(1500.0),
    }


def test_density_lies_half_a_spacing_further():
    rho = field(900, 1100)
    staggered = Medium(1500.0, rho).on(GRID)["density_staggered"]
    for axis, got in enumerate(staggered):
        wanted = rho.copy()
        here = [slice(None)] * 3
        here[axis] = slice(0, -1)
        wanted[tuple(here)] += 0.5 * np.diff(rho, axis=axis)
        np.testing.assert_allclose(got.transpose(), wanted, rtol=1e-15)


def test_staggering_a_linear_field_is_exact():
    z, y, x = np.mgrid[0:4, 0:5, 0:6].astype(float)
    ramp = 3 * x - 2 * y + z
    for axis, slope in enumerate((3, -2, 1)):
        inner = [slice(None)] * 3
        inner[2 - axis] = slice(0, -1)
        moved = stagger(ramp, axis)
        np.testing.assert_array_equal(moved[tuple(inner)], (ramp + slope / 2)[tuple(inner)])
        last = [slice(None)] * 3
        last[2 - axis] = -1
        np.testing.assert_array_equal(moved[tuple(last)], ramp[tuple(last)])


def test_single_precision_is_kept_and_nothing_is_copied():
    c = np.asfortranarray(field(1400, 1600).astype(np.float32))
    facts = Medium(c, c).on(GRID)
    assert np.shares_memory(facts["sound_speed"], c)
    assert facts["density_staggered"][1].dtype == np.float32
    assert facts["reference_speed"] == c.max()


def test_absorption_and_nonlinearity():
    facts = Medium(1500.0, 1000.0, field(), 1.5, nonlinearity=field(5, 6), dispersion=False).on(GRID)
    assert facts["absorption"] == "power_law"
    assert facts["alpha_power"] == 1.5
    assert facts["dispersion"] is False
    assert facts["alpha_coeff"].shape == facts["nonlinearity"].shape == (5, 6, 8)
    assert Medium(1500.0, 1000.0, 0.5, absorption="stokes").on(GRID)["alpha_power"] == 2.0
    assert Medium(1500.0, 1000.0, reference_speed="1600 m/s").on(GRID)["reference_speed"] == 1600.0


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"density": None}, "medium.density: is missing"),
        ({"density": "12 m"}, "medium.density"),
        ({"sound_speed": "fast"}, "medium.sound_speed"),
        ({"sound_speed": [1 + 2j]}, "medium.sound_speed"),
        ({"alpha_coeff": 0.5}, "medium.alpha_power: is missing"),
        ({"alpha_coeff": 0.5, "alpha_power": 1}, "medium.alpha_power: 1"),
        ({"alpha_coeff": 0.5, "alpha_power": 3}, "medium.alpha_power: 3"),
        ({"alpha_coeff": 0.5, "alpha_power": "two"}, "medium.alpha_power"),
        ({"alpha_coeff": 0.5, "alpha_power": 1.5, "absorption": "stokes"}, "with Stokes"),
        ({"absorption": "none"}, "medium.absorption"),
        ({"reference_speed": 0.0}, "medium.reference_speed"),
        ({"reference_speed": [1500.0, 1600.0]}, "medium.reference_speed"),
    ],
)
def test_bad_media_are_refused(arguments, text):
    with pytest.raises(InputError, match=text):
        Medium(**{"sound_speed": 1500.0, "density": 1000.0, **arguments})


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf])
def test_sound_speeds_that_are_none(bad):
    c = np.full(GRID.shape, 1500.0)
    c[1, 2, 3] = bad
    with pytest.raises(InputError, match=r"medium\.sound_speed"):
        GRID.time_step(Medium(c, 1000.0))


def test_fields_of_another_shape_are_refused():
    with pytest.raises(InputError, match=r"medium\.nonlinearity: has the shape"):
        Medium(1500.0, 1000.0, nonlinearity=np.ones((5, 6, 8))).on(GRID)


def test_a_power_of_one_has_no_dispersion():
    assert Medium(1500.0, 1000.0, 0.5, 1, dispersion=False).on(GRID)["alpha_power"] == 1
    with pytest.raises(InputError, match="1 only with dispersion=False"):
        Medium(1500.0, 1000.0, 0.5, 1.0)
