"""Index profiles: the shape at the design wavelength, material dispersion, tables."""

import math

import numpy as np
import pytest

from wavefabric.base.errors import InputError
from wavefabric.optics.fibre.modes import solve_modes
from wavefabric.optics.fibre.profile import (
    SILICA,
    ConstantIndex,
    IndexProfile,
    TableProfile,
    Trench,
    profile_62_5,
)

LAM = 1550e-9


def test_preset_has_the_stated_shape():
    p = profile_62_5()
    clad = SILICA.index(LAM)
    n = p.index([0, 15.625e-6, 31.2e-6, 32e-6, 33e-6, 35.9e-6, 36.1e-6, 1e-3], LAM)
    assert math.sqrt(n[0] ** 2 - clad**2) == pytest.approx(0.275, rel=1e-12)
    assert n[1] ** 2 == pytest.approx(n[0] ** 2 - 0.275**2 * 0.5**1.94, rel=1e-14)
    np.testing.assert_allclose(n[[3, 6, 7]], clad, rtol=1e-15)
    np.testing.assert_allclose(n[[4, 5]], clad - 6.5e-3, rtol=1e-15)
    assert p.interfaces() == pytest.approx((31.25e-6, 32.5e-6, 36e-6))


def test_index_is_continuous_in_wavelength_at_the_design_wavelength():
    p, r = profile_62_5(), np.linspace(0, 40e-6, 81)
    middle, beside = p.index(r, LAM), (p.index(r, LAM - 1e-12) + p.index(r, LAM + 1e-12)) / 2
    np.testing.assert_allclose(middle, beside, rtol=1e-11)


def test_core_disperses_more_than_the_cladding_and_the_trench_follows_it():
    p = profile_62_5()
    # Abbe numbers: silica 68, germania 41.
    change = p.index([0, 34e-6, 50e-6], 0.5e-6) - p.index([0, 34e-6, 50e-6], 0.65e-6)
    assert change[0] > change[2] > 0
    assert change[1] == pytest.approx(change[2], rel=1e-12)


def test_without_dopant_the_contrast_in_n2_is_kept():
    p = IndexProfile(10e-6, 0.2, 2, dopant=None)
    n = p.index([0.0, 20e-6], 1.3e-6)
    assert n[0] ** 2 - n[1] ** 2 == pytest.approx(0.04, rel=1e-12)


def test_infinite_exponent_is_a_step():
    p = IndexProfile(10e-6, 0.1, math.inf, cladding=ConstantIndex(1.45))
    np.testing.assert_allclose(p.index([0, 4.999e-6], LAM), math.sqrt(1.45**2 + 0.01), rtol=1e-15)
    assert p.index(5.001e-6, LAM) == 1.45


def test_table_of_the_preset_equals_the_preset():
    p = profile_62_5()
    core = np.linspace(0, 31.25e-6, 2001)
    clad = SILICA.index(LAM)
    n_core = np.append(p.index(core[:-1], LAM), clad)
    radii = (*core, 32.5e-6, 32.5e-6, 36e-6, 36e-6)
    t = TableProfile(radii, (*n_core, clad, clad - 6.5e-3, clad - 6.5e-3, clad))
    r = np.linspace(0, 45e-6, 977)
    for lam in (LAM, 1.3e-6):
        np.testing.assert_allclose(t.index(r, lam), p.index(r, lam), atol=2e-7)
    assert t.interfaces() == pytest.approx((32.5e-6, 36e-6))


def test_csv_profile(tmp_path):
    path = tmp_path / "profile.csv"
    path.write_text("# a triangle\nradius_um,index\n0,1.46\n5,1.444\n")
    p = TableProfile.from_csv(path, cladding=ConstantIndex(1.444), dopant=None)
    np.testing.assert_allclose(p.index([0, 2.5e-6, 9e-6], LAM), [1.46, 1.452, 1.444], rtol=1e-14)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: IndexProfile(-1e-6, 0.2, 2), "core_diameter"),
        (lambda: IndexProfile(1e-6, 0.0, 2), "numerical_aperture"),
        (lambda: IndexProfile(1e-6, 0.2, -2), "exponent"),
        (lambda: IndexProfile(1e-6, 0.2, math.nan), "exponent"),
        (lambda: IndexProfile(1e-6, 0.2, "2 km"), "exponent"),
        (lambda: IndexProfile(1e-6, 0.2, [2.0]), "exponent"),
        (lambda: TableProfile((0, 1e-6), "glass"), "indices"),
        (lambda: TableProfile((0, 1e-6), 1.45), "indices"),
        (lambda: solve_modes(IndexProfile("8 pm", 0.2, 2), 1550e-9), "profile: a radius of 4e-12 m given"),
        (
            lambda: solve_modes(IndexProfile("8 um", 0.2, 2), 1e300),
            "wavelength: 1e.300 m given; allowed: 1e-08 to 0.001 m",
        ),
        (lambda: Trench(-1e-6, 1e-6, 1e-3), "trench gap"),
        (lambda: Trench(1e-6, 0.0, 1e-3), "trench width"),
        (lambda: TableProfile((0, 1e-6), (1.45,)), "indices"),
        (lambda: TableProfile((1e-6, 2e-6), (1.45, 1.44)), "start at 0"),
        (lambda: TableProfile((0, 2e-6, 1e-6), (1.45, 1.44, 1.44)), "not decrease"),
        (lambda: TableProfile((0, 1e-6, 1e-6, 1e-6), (1.45,) * 4), "at most twice"),
        (lambda: TableProfile((0, 1e-6), (1.45, 0.9)), "at least 1"),
        (lambda: profile_62_5().index(0.0, -1.0), "wavelength"),
        (lambda: IndexProfile(1e-6, 1.2, 2).index(0.0, 1.3e-6), "out of reach"),
    ],
)
def test_errors_are_one_line(call, words):
    with pytest.raises(InputError, match=words) as error:
        call()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "needs radius_um"),
        ("radius_um,n\n0,1.45\n", "needs radius_um, index"),
        ("radius_um,index\n0,1.45,3\n", "row 1 has 3 cells"),
        ("radius_um,index\n0,glass\n", "row 1, index: 'glass'"),
        ("radius_um,index\n0,inf\n", "finite"),
        (
            "radius_um,index\n0,1.45\n4e-6,1.45\n4e-6,1.444\n",
            r"bad.csv: radius_um: the radii reach only 4e-06 um \(the header says micrometres\); allowed",
        ),
    ],
)
def test_bad_csv(tmp_path, text, words):
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=words):
        TableProfile.from_csv(path)


def test_missing_csv(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        TableProfile.from_csv(tmp_path / "none.csv")
