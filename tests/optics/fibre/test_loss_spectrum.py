"""Attenuation over frequency: polynomials by hand, tables at their points, modes about a wavelength."""

import numpy as np
import pytest

from wavefabric.base.errors import InputError
from wavefabric.base.units import SPEED_OF_LIGHT
from wavefabric.optics.fibre.presets import graded_index_62_5
from wavefabric.optics.fibre.spectra import LossSpectrum

DB_PER_KM = np.log(10) / 1e4


def test_polynomial():
    loss = LossSpectrum.polynomial(["0.2 dB/km", "-1e-3 dB/km/THz", "2e-4 dB/km/THz^2"], "193 THz")
    expected = np.array([[0.2 + 3e-3 + 1.8e-3, 0.2], [0.2 - 2e-3 + 8e-4, 0.2 - 5e-3 + 5e-3]]) * DB_PER_KM
    np.testing.assert_allclose(
        loss.at([["190 THz", "193 THz"], ["195 THz", "198 THz"]]), expected, rtol=1e-12
    )


def test_table(tmp_path):
    path = tmp_path / "loss.csv"
    path.write_text("frequency_thz,attenuation_db_per_km\n196,0.19\n186,0.21\n191,0.195\n")
    loss = LossSpectrum.from_csv(path)
    np.testing.assert_allclose(loss.at([186e12, 191e12, 196e12]), np.array([0.21, 0.195, 0.19]) * DB_PER_KM)
    assert 0.195 < loss.at([188e12])[0] / DB_PER_KM < 0.21
    with pytest.raises(InputError, match=r"frequencies: 1\.97e\+14 Hz given; allowed: 186 to 196 THz"):
        loss.at(["197 THz"])
    path.write_text("frequency_thz,attenuation_db_per_km\n196,0.19\n186,-0.21\n")
    with pytest.raises(InputError, match=r"loss\.csv: alpha: -4\.\d+e-05 1/m given; allowed: attenuation"):
        LossSpectrum.from_csv(path)


def test_modes_keep_their_differences():
    alpha = np.arange(1, 4) * 0.1 * DB_PER_KM
    fibre = graded_index_62_5(groups=2, attenuation=alpha.tolist())
    here = SPEED_OF_LIGHT / fibre.wavelength
    loss = LossSpectrum.polynomial(["7 dB/km", "0.01 dB/km/THz"], "180 THz")
    expected = alpha + np.array([[0], [0.02], [-0.01]]) * DB_PER_KM
    np.testing.assert_allclose(loss.of_modes([here, here + 2e12, here - 1e12], fibre), expected, rtol=1e-9)
    with pytest.raises(InputError, match=r"alpha: -.* allowed: attenuation, finite and 0 or more"):
        loss.of_modes([here - 20e12], fibre)


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (lambda: LossSpectrum.table([190e12], [1e-5]), r"alpha: shape \(1,\) given"),
        (lambda: LossSpectrum.table([191e12, 190e12], [1e-5, 1e-5]), "frequencies: .* increasing"),
        (
            lambda: LossSpectrum.polynomial("0.2 dB/km", 190e12),
            'coefficients: "0.2 dB/km" given; allowed: a list',
        ),
        (
            lambda: LossSpectrum.polynomial(["0.2 dB/km", "0.2 dB/km"], 190e12),
            'coefficients: "0.2 dB/km" has',
        ),
        (lambda: LossSpectrum.polynomial([1e-5], 0), "reference: 0.0 Hz given"),
    ],
)
def test_refused(make, line):
    with pytest.raises(InputError, match=line):
        make()
