"""Raman gain of silica against its impulse response and published values; tables; coupling of frequencies."""

import numpy as np
import pytest

from wavefabric.base.errors import InputError
from wavefabric.base.units import SPEED_OF_LIGHT
from wavefabric.optics.fibre import spectra
from wavefabric.optics.fibre.spectra import RamanGain, silica_spectrum

#: A pump of 1454 nm, Hz, for which gains of standard fibre are published.
PUMP = SPEED_OF_LIGHT / 1454e-9


def test_the_spectrum_is_the_transform_of_the_impulse_response():
    """Σ A exp(−γt − Γ²t²/4) sin(ωt), by quadrature."""
    t = np.linspace(0, 12e-12, 400_001)
    radian = 2 * np.pi * 100 * SPEED_OF_LIGHT
    response = np.zeros_like(t)
    for wavenumber, amplitude, gaussian, lorentz in zip(
        spectra._WAVENUMBER, spectra._AMPLITUDE, spectra._GAUSS, spectra._LORENTZ, strict=True
    ):
        envelope = np.exp(-radian * lorentz / 2 * t - (radian * gaussian / 2 * t) ** 2 / 4)
        response += amplitude * envelope * np.sin(radian * wavenumber * t)
    for shift in (0.3e12, 2e12, 9e12, 13.2e12, 14.9e12, 18e12, 24.5e12, 37e12):
        expected = np.trapezoid(response * np.sin(2 * np.pi * shift * t), t)
        np.testing.assert_allclose(silica_spectrum(shift), expected, rtol=1e-6)


def test_silica_peaks_where_published():
    """At 13.2 THz; g_R/2 of standard fibre at 1454 nm: 3.33e-14 m/W there, and so much of it at 1, 3, 8 THz.

    Measured, as gnpy has it after A. D'Amico et al., J. Lightwave Technol. 40, 3499 (2022).
    """
    shift = np.linspace(0, 50e12, 50001)
    gain = RamanGain.silica()
    assert abs(shift[gain.at(shift).argmax()] - 13.2e12) < 0.1e12
    peak = gain.coupling([PUMP - 13.2e12], [PUMP])[0, 0]
    np.testing.assert_allclose(peak, 3.33e-14, rtol=0.05)
    relative = gain.at([1e12, 3e12, 8e12]) / gain.efficiency.max()
    np.testing.assert_allclose(relative, [0.079, 0.254, 0.524], atol=0.04)
    np.testing.assert_allclose(gain.coupling([PUMP / 2], [PUMP]), 0)


def test_the_table_follows_the_spectrum():
    shift = np.linspace(-45e12, 45e12, 7331)
    gain, exact = RamanGain.silica(), silica_spectrum(shift)
    np.testing.assert_allclose(gain.at(shift) / gain.efficiency.max(), exact / exact.max(), atol=5e-5)


@pytest.mark.parametrize(
    "gain", [RamanGain.silica(), RamanGain.triangular(2.8e-17)], ids=["silica", "triangular"]
)
def test_photons_are_conserved_between_two_frequencies(gain):
    f = np.array([188e12, 190e12, 196e12, 197.5e12])
    coupling = gain.coupling(f, f)
    np.testing.assert_allclose(coupling / f[:, None], -(coupling / f[:, None]).T, rtol=1e-12)
    assert np.all(np.diag(coupling) == 0)
    assert coupling[0, 1] > 0 > coupling[1, 0]


def test_gain_grows_with_the_pump():
    gain = RamanGain([1e12, 2e12], [1e-4, 2e-4], 80e-12, 200e12)
    np.testing.assert_allclose(gain.coupling([199e12, 149e12], [200e12])[0, 0], 80e-12 * 1e-4)
    np.testing.assert_allclose(gain.coupling([149e12], [150e12])[0, 0], 80e-12 * 1e-4 * 0.75)


def test_without_quantum_defect_powers_are_conserved():
    coupling = RamanGain.triangular("0.028 1/W/km/THz", quantum_defect=False).coupling(
        [190e12, 195e12], [190e12, 195e12]
    )
    np.testing.assert_allclose(coupling, 0.14e-3 * 80e-12 * np.array([[0, 1], [-1, 0]]))


def test_from_csv(tmp_path):
    path = tmp_path / "gain.csv"
    path.write_text("shift_thz,efficiency_per_w_per_km\n0,0\n5,0.12\n13.2,0.42\n15,0.3\n42,0\n")
    gain = RamanGain.from_csv(path, "80 um^2", pump_frequency="206.2 THz")
    np.testing.assert_allclose(gain.at([5e12, -13.2e12, 43e12]), [0.12e-3, -0.42e-3, 0], rtol=1e-12)
    assert 0.12e-3 < gain.at(9e12) < 0.42e-3
    path.write_text("shift_thz,efficiency_per_w_per_km\n0,0.1\n5,0.12\n")
    with pytest.raises(
        InputError, match=r"gain\.csv: efficiency: 0\.0001 1/\(W m\) given at shift 0; allowed: 0"
    ):
        RamanGain.from_csv(path, "80 um^2")
    path.write_text("shift_thz,efficiency_per_w_per_km\n0,0\n13.2e12,0.4\n")
    with pytest.raises(InputError, match=r"gain\.csv: shift_thz: the shifts reach 1\.32e\+13 THz"):
        RamanGain.from_csv(path, "80 um^2")
    path.write_text("shift_thz,gain\n0,0.1\n5,0.12\n")
    with pytest.raises(InputError, match="needs shift_thz, efficiency_per_w_per_km"):
        RamanGain.from_csv(path, "80 um^2")


@pytest.mark.parametrize(
    ("values", "line"),
    [
        (([2e12, 1e12], [1, 1], 80e-12), "shift: .* allowed: increasing"),
        (([-1e12, 1e12], [1, 1], 80e-12), "shift: .* allowed: increasing"),
        (([0, 1e12], [0, -1], 80e-12), "efficiency: -1 .* allowed: finite, 0 or more"),
        (([0, 1e12], [0, np.nan], 80e-12), "efficiency: nan"),
        (([0, 1e12], [0], 80e-12), r"efficiency: shape \(1,\) given for shifts of shape \(2,\)"),
        (([0, 1e12], [0, 1], 0), "area: 0.0 m"),
        (([0, 1e12], [0, 1], 80e-12, "1 km"), "pump_frequency: "),
    ],
)
def test_refused(values, line):
    with pytest.raises(InputError, match=line):
        RamanGain(*values)
