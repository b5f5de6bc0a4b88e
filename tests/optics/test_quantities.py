"""Quantities of the constructors: numbers in SI, or text with a unit, alone and in lists."""

import math
import re

import numpy as np
import pytest

from wavefabric.base.errors import InputError
from wavefabric.optics import Fibre, coupled_group, fibre_from_csv, fibre_from_profile, single_mode
from wavefabric.optics.fibre.presets import graded_index_62_5
from wavefabric.optics.fibre.profile import IndexProfile, TableProfile, Trench
from wavefabric.optics.signal.transmitter import Transmitter
from wavefabric.optics.signal.wdm import WdmGrid

DB_PER_KM = math.log(10) / 1e4


def same(one: Fibre, other: Fibre, rtol=1e-12) -> None:
    assert (one.labels, one.kappa_of) == (other.labels, other.kappa_of)
    for key in ("alpha", "beta", "gamma", "kappa", "a_eff", "wavelength", "groups"):
        np.testing.assert_allclose(getattr(one, key), getattr(other, key), rtol=rtol, err_msg=key)


def test_a_single_mode_fibre_from_text():
    fibre = single_mode(
        beta2="-21 ps^2/km",
        gamma="1.3 1/W/km",
        alpha="0.2 dB/km",
        beta3="0.1 ps^3/km",
        beta1="2 ps/km",
        beta4="-3e-4 ps^4/km",
        a_eff="80 um^2",
        wavelength="1540 nm",
    )
    np.testing.assert_allclose(fibre.beta, [[2e-15, -21e-27, 0.1e-39, -3e-55]], rtol=1e-14)
    assert fibre.alpha[0] == pytest.approx(0.2 * DB_PER_KM, rel=1e-14)
    assert (fibre.gamma, fibre.a_eff[0], fibre.wavelength) == pytest.approx((1.3e-3, 80e-12, 1540e-9))
    assert (fibre.labels, fibre.kappa_of, fibre.kappa[0, 0]) == (("LP01",), "mode", 8 / 9)


def test_a_coupled_group_from_text():
    wanted = coupled_group(3, -21e-27, 1.3e-3, 0.2 * DB_PER_KM, 1e-40, a_eff=90e-12)
    same(wanted, coupled_group(3, "-21 ps^2/km", "1.3 1/W/km", "0.2 dB/km", "0.1 ps^3/km", a_eff="90 um^2"))
    assert (wanted.kappa_of, wanted.groups.tolist()) == ("group", [1, 1, 1])
    assert coupled_group(1).kappa_of == "group"


def test_profiles_and_what_is_made_of_them_from_text():
    profile = IndexProfile(
        "50 um", 0.2, 2.0, trench=Trench("1 um", "4 um", 4e-3), design_wavelength="1550 nm"
    )
    plain = IndexProfile(50e-6, 0.2, 2.0, trench=Trench(1e-6, 4e-6, 4e-3), design_wavelength=1550 * 1e-9)
    np.testing.assert_allclose(profile.interfaces(), plain.interfaces(), rtol=1e-14)
    assert profile.design_wavelength == plain.design_wavelength
    table = TableProfile(("0 um", "4 um", 5e-6), (1.45, 1.449, 1.444), design_wavelength="1550 nm")
    np.testing.assert_allclose(table.radii, (0, 4e-6, 5e-6), rtol=1e-14)
    number = fibre_from_profile(plain, 1550 * 1e-9, 2, 0.2 * DB_PER_KM, 2.6e-20, step=0.1 * 1e-6)
    text = fibre_from_profile(profile, "1550 nm", 2, "0.2 dB/km", "0.026 nm^2/W", step="0.1 um")
    same(number, text, rtol=1e-4)  # the last digit of a length moves what is solved for
    preset = graded_index_62_5(2, attenuation="0.2 dB/km", wavelength="1550 nm", n2="2.6e-20 m^2/W")
    same(graded_index_62_5(2, attenuation=0.2 * DB_PER_KM), preset, rtol=1e-9)


def test_tables_with_text(tmp_path):
    (tmp_path / "modes.csv").write_text("mode_group,l,m,a_eff_um2\n1,0,1,80\n")
    (tmp_path / "groups.csv").write_text("mode_group,dmgd_ps_per_km,beta2_ps2_per_km\n1,0,-21\n")
    (tmp_path / "kappa.csv").write_text("0.9\n")
    files = [tmp_path / name for name in ("modes.csv", "groups.csv", "kappa.csv")]
    number = fibre_from_csv(*files, attenuation=0.2 * DB_PER_KM, gamma=1.2e-3, wavelength=1540e-9)
    same(number, fibre_from_csv(*files, attenuation="0.2 dB/km", gamma="1.2 1/W/km", wavelength="1540 nm"))


def test_a_fibre_from_its_coefficients():
    fibre = Fibre.from_coefficients(
        [["0 ps/km", "-21 ps^2/km"], ["8 ps/km", -22e-27]], [[0.9, 0.6], [0.6, 0.7]], "1.3 1/W/km"
    )
    np.testing.assert_allclose(fibre.beta, [[0, -21e-27, 0, 0], [8e-15, -22e-27, 0, 0]], rtol=1e-14)
    assert (fibre.labels, fibre.groups.tolist(), fibre.kappa_of) == (("M1", "M2"), [1, 2], "mode")
    assert np.isnan(fibre.a_eff).all()
    assert not fibre.alpha.any()
    rows = Fibre.from_coefficients(np.zeros((2, 4)), np.eye(4), 1e-3, ["0.2 dB/km", "0.3 dB/km"])
    assert rows.kappa_of == "row"
    np.testing.assert_allclose(rows.alpha, [0.2 * DB_PER_KM, 0.3 * DB_PER_KM])
    groups = Fibre.from_coefficients(np.zeros((3, 2)), [[1, 2], [2, 1]], 1e-3, groups=[1, 2, 2], labels="abc")
    assert (groups.kappa_of, groups.labels) == ("group", ("a", "b", "c"))
    np.testing.assert_array_equal(groups.kappa_rows()[0], [1, 1, 2, 2, 2, 2])
    one = Fibre.from_coefficients([["0 ps/km", "-21 ps^2/km"]], 8 / 9, 1.3e-3, a_eff=["80 um^2"])
    same(
        single_mode("-21 ps^2/km"),
        Fibre.from_coefficients(one.beta, 8 / 9, 1.3e-3, labels=["LP01"], a_eff=[80e-12]),
    )


BAD = [
    (lambda: single_mode(beta2="-21 ps/km"), r'beta2: "-21 ps/km" has the unit "ps/km"; allowed: .*ps\^2/km'),
    (lambda: single_mode(beta2=[1, 2]), "beta2: .*allowed: one number in s\\^2/m"),
    (lambda: single_mode(gamma=[1, 2]), "gamma: .*allowed: one number in 1/W/m"),
    (lambda: single_mode(gamma=True), "gamma: true given"),
    (lambda: single_mode(alpha="0.2"), 'alpha: "0.2" has no unit'),
    (lambda: single_mode(wavelength="1550 THz"), 'wavelength: "1550 THz" has the unit "THz"'),
    (lambda: Fibre.from_coefficients([1, 2], 1, 1), r"beta: \[1, 2\] given; allowed: a list of β1"),
    (lambda: Fibre.from_coefficients("x", 1, 1), 'beta: "x" given'),
    (lambda: Fibre.from_coefficients([], 1, 1), "beta: "),
    (lambda: Fibre.from_coefficients([[1], [1, 2]], 1, 1), "beta: rows of 1, 2 values"),
    (lambda: Fibre.from_coefficients([[0] * 16], 1, 1), "beta: rows of 16 values"),
    (lambda: Fibre.from_coefficients(np.zeros((1, 16)), 1, 1), r"beta: shape \(1, 16\)"),
    (lambda: Fibre.from_coefficients([["0 ps", 0]], 1, 1), 'beta: "0 ps" has the unit'),
    (
        lambda: Fibre.from_coefficients([[0], [0]], np.eye(3), 1),
        r"kappa: shape \(3, 3\); needs a square of 2",
    ),
    (lambda: Fibre.from_coefficients([[0]], 1, 1, a_eff=[0]), "a_eff: .*positive"),
    (lambda: Fibre.from_coefficients([[0]], 1, 1, a_eff=[np.inf]), "a_eff: holds values that are not finite"),
    (lambda: Trench("1 kg", 1e-6, 1e-3), 'trench gap: "1 kg" has the unit'),
    (lambda: WdmGrid(["193.4 m"], 32e9, 4, 16), 'frequencies: "193.4 m" has the unit'),
]


@pytest.mark.parametrize("number", range(len(BAD)))
def test_what_is_no_quantity_is_one_line(number):
    make, message = BAD[number]
    with pytest.raises(InputError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_grid_and_transmitter_from_text():
    grid = WdmGrid.centred("193.4 THz", "50 GHz", 3, "32 GBaud", 8, 16)
    assert grid == WdmGrid.centred(193.4e12, 50e9, 3, 32e9, 8, 16)
    between = WdmGrid.between("193.35 THz", "193.45 THz", "50 GHz", "32 GBaud", 8, 16)
    assert between.channels == 3
    assert WdmGrid(["193.4 THz"], 32e9, 4, 16, centre="193.41 THz").centre_frequency == 193.41e12
    sender = Transmitter(grid, "qpsk", 0.1, [["0 dBm"], ["3 dBm"]])
    np.testing.assert_allclose(sender.powers(2), [[1e-3] * 3, [10**-2.7] * 3], rtol=1e-14)


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda: single_mode(alpha="-0.2 dB/km"), r"alpha: -4\.6\d+e-05 1/m; attenuation must be 0 or more"),
        (lambda: single_mode(alpha=np.float64(-1)), "alpha: -1.0 1/m; attenuation must be 0 or more"),
        (lambda: single_mode(a_eff=np.float64(-1)), "a_eff: -1.0 m²; effective areas must be positive"),
        (lambda: coupled_group(np.int64(-3)), "modes: -3; allowed: whole numbers from 1 .*"),
        (lambda: Trench(np.float32(-1), 1e-6, 1e-3), "trench gap: -1.0 m; give a length of 0 or more"),
        (lambda: graded_index_62_5([np.int64(0)]), r"groups: \[0\]; give a whole number from 1 to 1000, .*"),
        (lambda: graded_index_62_5(coupling=np.int64(7)), "coupling: 7 given; allowed: groups, modes"),
        (
            lambda: graded_index_62_5(np.zeros((2, 2))),
            r"groups: array\(\[\[0., 0.\], +\[0., 0.\]\]\); give a whole number .*",
        ),
        (lambda: coupled_group(np.zeros((2, 2))), "modes: array.*; allowed: whole numbers from 1 .*"),
        (lambda: graded_index_62_5(coupling=np.zeros(2)), "coupling: .*; allowed: groups, modes"),
    ],
)
def test_numbers_of_numpy_are_shown_as_numbers(call, line):
    with pytest.raises(InputError) as error:
        call()
    assert re.fullmatch(line, str(error.value))
