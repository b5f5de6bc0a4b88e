"""Dispersion as D and slope, as a list of β, as tables of D or n_eff: the same β(ω) as by hand."""

import math
import re
import warnings

import numpy as np
import pytest

from wavefabric.base.errors import InputError
from wavefabric.base.units import SPEED_OF_LIGHT as C
from wavefabric.optics import Fibre, at_frequency, propagate, single_mode, standard_fibre
from wavefabric.optics.fibre.chromatic import beta2_beta3, table_coefficients
from wavefabric.optics.fibre.fibre import shift_expansion
from wavefabric.optics.fibre.modes import dispersion
from wavefabric.optics.fibre.presets import OM_EXPONENT, SINGLE_MODES
from wavefabric.optics.fibre.profile import SILICA, IndexProfile
from wavefabric.optics.propagation.resonance import step_limit
from wavefabric.optics.signal.transmitter import Transmitter
from wavefabric.optics.signal.wdm import WdmGrid
from wavefabric.optics.theory.gaussian_noise import Spans, nonlinear_interference

LAMBDA = 1550e-9


def parameter(beta, wavelength, centre=LAMBDA):
    """D (s/m²) of the series β1, β2, … about ``centre``, at other wavelengths."""
    w = 2 * np.pi * C * (1 / np.asarray(wavelength) - 1 / centre)
    beta2 = sum(b * w**n / math.factorial(n) for n, b in enumerate(beta[1:]))
    return -2 * np.pi * C / np.asarray(wavelength) ** 2 * beta2


# --- D and its slope --------------------------------------------------------------------------------------


def test_d_and_slope_are_those_of_the_series():
    """D and dD/dλ of the series, by differences, are the given ones; β2 of 17 ps/(nm km) is −21.68 ps²/km."""
    fibre = single_mode(dispersion_parameter="17 ps/(nm km)", dispersion_slope="0.056 ps/nm^2/km")
    assert fibre.beta[0, 1] * 1e27 == pytest.approx(-21.6826, abs=1e-4)
    step = 0.01e-9
    low, middle, high = parameter(fibre.beta[0], LAMBDA + step * np.array([-1, 0, 1]))
    assert middle == pytest.approx(17e-6, rel=1e-12)
    assert (high - low) / (2 * step) == pytest.approx(56.0, rel=1e-6)
    elsewhere = single_mode(dispersion_parameter=-2e-6, dispersion_slope=90.0, wavelength="1310 nm")
    assert parameter(elsewhere.beta[0], 1310e-9, 1310e-9) == pytest.approx(-2e-6, rel=1e-12)
    np.testing.assert_allclose(
        single_mode(dispersion_parameter=17e-6).beta[0, :2], fibre.beta[0, :2], rtol=1e-14
    )


@pytest.mark.parametrize("unit", ["ps/nm/km", "ps/(nm km)", "ps/(nm*km)", "ps/(nm·km)", "ps nm^-1 km^-1"])
def test_units_of_data_sheets(unit):
    fibre = single_mode(dispersion_parameter=f"17 {unit}")
    assert fibre.beta[0, 1] == pytest.approx(single_mode(dispersion_parameter=17e-6).beta[0, 1], rel=1e-14)


def test_gamma_from_area_and_index():
    fibre = single_mode(a_eff="80 um^2", n2="2.6e-20 m^2/W")
    assert fibre.gamma == pytest.approx(2 * math.pi * 2.6e-20 / (LAMBDA * 80e-12), rel=1e-12)
    assert single_mode(a_eff="80 um^2").gamma == 1.3e-3  # an area alone only describes the fibre
    assert single_mode(n2=0.0).gamma == 0


# --- Any order --------------------------------------------------------------------------------------------

#: β2 … β10, s²/m …, of the photonic-crystal fibre of J. M. Dudley, G. Genty, S. Coen, Rev. Mod. Phys. 78,
#: 1135 (2006), doi 10.1103/RevModPhys.78.1135, section IV, at 835 nm.
PCF = [-11.830e-27, 8.1038e-41, -9.5205e-56, 2.0737e-70, -5.3943e-85, 1.3486e-99]
PCF += [-2.5495e-114, 3.0524e-129, -1.7140e-144]


def test_a_list_of_betas_of_any_order():
    texts = [f"{b * 10 ** (12 * n + 3)!r} ps^{n}/km" for n, b in enumerate(PCF, 2)]
    for betas in (PCF, texts):
        fibre = single_mode(betas=betas, wavelength=835e-9)
        np.testing.assert_allclose(fibre.beta, [[0.0, *PCF]], rtol=1e-12)
    assert single_mode(betas=["-21.7 ps^2/km"]).beta.shape == (1, 4)
    # About another centre, at the same frequencies, β2(ω) is the same.
    moved = at_frequency(fibre, C / 835e-9 + 20e12)
    there = C / (C / 835e-9 + 20e12 + np.linspace(-1e12, 1e12, 5))
    np.testing.assert_allclose(
        parameter(moved.beta[0], there, moved.wavelength), parameter(fibre.beta[0], there, 835e-9), rtol=1e-9
    )


def test_zero_orders_change_no_bit():
    field = 0.1 * np.random.default_rng(3).standard_normal((2, 256, 2)).view(complex)[..., 0]
    four = single_mode(beta3=0.13e-39, beta4=-1e-55)
    more = Fibre.from_coefficients([[*four.beta[0], 0, 0, 0]], 8 / 9, four.gamma, labels=("LP01",))
    same = [
        propagate(field, fibre, 1e3, sample_rate=1e12, step=100.0, device="cpu")[0] for fibre in (four, more)
    ]
    assert (same[0] == same[1]).all()
    assert step_limit(four, 2e12).step == step_limit(more, 2e12).step
    assert (shift_expansion(more.beta, 1e13)[:, :4] == shift_expansion(four.beta, 1e13)).all()


def test_a_pulse_has_the_phase_of_all_orders():
    """Without the Kerr effect: exp(−i Σ (−1)ⁿ βₙ ωⁿ/n! z) on NumPy's spectrum, here 100 THz wide."""
    fibre, n, rate, length = single_mode(betas=PCF, gamma=0.0, wavelength=835e-9), 512, 100e12, 0.5
    field = np.random.default_rng(4).standard_normal((2, n, 2)).view(complex)[..., 0]
    out, _ = propagate(field, fibre, length, sample_rate=rate, step=length, device="cpu")
    w = 2 * np.pi * np.fft.fftfreq(n, 1 / rate)
    phase = sum(b * (-w) ** k / math.factorial(k) for k, b in enumerate([0.0, *PCF], 1))
    wanted = np.fft.ifft(np.fft.fft(field) * np.exp(1j * length * phase))
    assert np.linalg.norm(out - wanted) / np.linalg.norm(wanted) < 1e-12
    assert abs(PCF[3] * w.max() ** 5 / 120 * length) > 1  # radian


@pytest.mark.parametrize("form", ["gaussian", "qpsk"])
def test_theory_sees_the_orders_beyond_four(form):
    """A channel 0.5 THz from the centre of expansion has the NLI of β expanded at its own centre."""
    beta, shift = np.array([[0, -2e-27, 0.1e-39, 1e-53, 1e-63, -1e-76]]), 2 * np.pi * 0.5e12

    def nli(series, centre):
        fibre = Fibre.from_coefficients(series, 8 / 9, 1.3e-3, 4.6e-5)
        sent = Transmitter(WdmGrid((194e12,), 32e9, 64, 256, centre), form, 0.1, 1e-3)
        return nonlinear_interference(fibre, sent, Spans(80e3))[0, 0]

    far = nli(beta, 193.5e12)
    assert far == pytest.approx(nli(shift_expansion(beta, shift), 194e12), rel=1e-6)
    assert abs(nli(beta[:, :4], 193.5e12) / far - 1) > 0.01


def test_the_step_limit_sees_the_largest_curvature():
    """β2(ω) = β6 ω⁴/24 − β4 ω²/2 has its largest value inside the band, at ω² = 6 β4/β6."""
    half, b4, b6 = 5e12, 1e-54, 12e-81
    w = 2 * np.pi * half
    assert 0 < 6 * b4 / b6 < 0.6 * w**2
    fibre = Fibre.from_coefficients([[0, 0, 0, -b4, 0, b6]], 1.0, 1e-3)
    inside, edge = 1.5 * b4**2 / b6, abs(b6 * w**4 / 24 - b4 * w**2 / 2)
    wanted = 2 * np.pi / (max(inside, edge) * w**2)
    assert step_limit(fibre, half).dispersion == pytest.approx(wanted, rel=2e-3)


# --- Tables -----------------------------------------------------------------------------------------------


def write(path, nm, values, column="dispersion_ps_per_nm_km"):
    lines = (f"{a:.10g},{b:.17g}" for a, b in zip(nm, values, strict=True))
    path.write_text("\n".join([f"wavelength_nm,{column}", *lines, ""]))
    return path


def sellmeier_d(nm):
    """D of G.652 in ps/(nm km), by the form of ITU-T G.650.1 with λ0 = 1310 nm, S0 = 0.09 ps/(nm² km)."""
    return 0.09 / 4 * (nm - 1310.0**4 / nm**3)


@pytest.mark.parametrize("centre", [1310e-9, 1450e-9, 1550e-9])
def test_a_table_of_d_is_met_from_1260_to_1625_nm(tmp_path, centre):
    nm = np.arange(1260, 1626, 5.0)
    table = write(tmp_path / "d.csv", nm[::-1], sellmeier_d(nm[::-1]))  # in any order
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        beta = single_mode(dispersion_csv=table, wavelength=centre).beta[0]
    np.testing.assert_allclose(parameter(beta, nm * 1e-9, centre) * 1e6, sellmeier_d(nm), atol=1e-5)
    # β2 and β3 at the centre from the form itself
    at = centre * 1e9
    slope = 0.09 / 4 * (1 + 3 * 1310.0**4 / at**4)
    wanted = beta2_beta3(sellmeier_d(at) * 1e-6, slope * 1e3, centre)
    np.testing.assert_allclose(beta[1:3], wanted, rtol=1e-6, atol=1e-33)


def test_a_table_of_n_eff_is_met(tmp_path):
    """n of silica: D of 21.9 ps/(nm km) at 1550 nm, as from the Sellmeier formula, differentiated by hand."""
    nm = np.arange(1500, 1601, 5.0)
    table = write(tmp_path / "n.csv", nm, [SILICA.index(x * 1e-9) for x in nm], "n_eff")
    beta = single_mode(dispersion_csv=table).beta[0]
    h = 2e-9
    n = [SILICA.index(LAMBDA + k * h) for k in (-2, -1, 0, 1, 2)]
    curvature = np.dot(n, [-1, 16, -30, 16, -1]) / (12 * h**2)
    assert parameter(beta, LAMBDA) == pytest.approx(-LAMBDA / C * curvature, rel=2e-4)
    assert 21.5e-6 < parameter(beta, LAMBDA) < 22.2e-6


def test_noise_is_not_followed(tmp_path):
    """D measured to ±0.01 ps/(nm km): the expansion stays that close between the points, too."""
    nm, rng = np.arange(1530, 1566, 1.0), np.random.default_rng(1)
    table = write(tmp_path / "d.csv", nm, sellmeier_d(nm) + rng.normal(0, 0.01, len(nm)))
    beta = [0, *table_coefficients(table, LAMBDA)]
    fine = np.linspace(1532, 1563, 200)
    assert abs(parameter(beta, fine * 1e-9) * 1e6 - sellmeier_d(fine)).max() < 0.01


@pytest.mark.parametrize(("digits", "blurred"), [(5, True), (6, True), (7, False)])
def test_a_rounded_index_leaves_d_uncertain(tmp_path, digits, blurred):
    """With 5 digits n_eff is a straight line, and D 0: the rounding counts too, not the scatter alone."""
    nm = np.arange(1500, 1601, 5.0)
    rounded = [round(SILICA.index(x * 1e-9), digits) for x in nm]
    table, notes = write(tmp_path / "n.csv", nm, rounded, "n_eff"), []
    d = 1e6 * parameter([0, *table_coefficients(table, LAMBDA, warn=notes.append)], LAMBDA)
    assert len(notes) == blurred
    if blurred:
        blur = float(re.search(r"n.csv: the scatter of n_eff blurs D by (\S+) ps", notes[0])[1])
        assert 0.5 < abs(d - 21.96) < 4 * blur
    else:
        assert d == pytest.approx(21.96, abs=0.1)


def test_an_expansion_that_misses_the_table_says_so(tmp_path):
    nm = np.arange(1500, 1600, 2.0)
    kink = np.where(nm < 1550, 17.0, 20.0)
    table, notes = write(tmp_path / "d.csv", nm, kink), []
    table_coefficients(table, LAMBDA, (1540e-9, 1560e-9), notes.append)
    assert "d.csv: the expansion misses D by 1." in notes[0]
    assert "ps/(nm km) at 15" in notes[0]
    with pytest.warns(UserWarning, match="misses D"):
        single_mode(dispersion_csv=table)
    notes.clear()
    smooth = write(tmp_path / "s.csv", nm, sellmeier_d(nm))
    table_coefficients(smooth, LAMBDA, (1520e-9, 1610e-9), notes.append)
    assert notes == [f"dispersion_csv: {smooth}: the table reaches from 1500 to 1598 nm, the channels from "
                     "1520 to 1610 nm; dispersion is extrapolated"]  # fmt: skip


@pytest.mark.parametrize("points", [2, 3, 4])
def test_few_points_are_met(tmp_path, points):
    nm = np.linspace(1540, 1560, points)
    beta = [0, *table_coefficients(write(tmp_path / "d.csv", nm, sellmeier_d(nm)), LAMBDA)]
    np.testing.assert_allclose(parameter(beta, nm * 1e-9) * 1e6, sellmeier_d(nm), rtol=1e-8)


# --- Standard fibres --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "least", "most", "area"),
    [
        ("G.652", 13.3, 18.6, 80),  # D of table 2 of ITU-T G.652 (11/2016)
        ("G.652-1310", -3.5, 3.5, 66.5),
        ("G.654.E", 17, 23, 125),  # ITU-T G.654, table 5
        ("G.655", 1, 10, 72),  # ITU-T G.655, table 3
        ("DCF", -300, -50, 20),
    ],
)
def test_standard_fibres_meet_their_standards(name, least, most, area):
    fibre = standard_fibre(name)
    assert fibre.name == name
    assert least < 1e6 * parameter(fibre.beta[0], fibre.wavelength, fibre.wavelength) < most
    assert fibre.gamma == pytest.approx(2 * math.pi * 2.6e-20 / (fibre.wavelength * area * 1e-12), rel=1e-12)
    assert fibre.a_eff[0] == pytest.approx(area * 1e-12)


def test_g652_of_the_two_windows_agree():
    """D of G.652 at 1550 nm by the form of ITU-T G.650.1 from the values of the preset at 1310 nm."""
    o_band = SINGLE_MODES["G.652-1310"]
    # D = S0/4 (λ − λ0⁴/λ³), zero where the line of slope S0 through D(1310 nm) is
    zero = 1310 - o_band["dispersion_parameter"] * 1e6 / (o_band["dispersion_slope"] * 1e-3)
    d = o_band["dispersion_slope"] * 1e-3 / 4 * (1550 - zero**4 / 1550**3)
    assert d == pytest.approx(SINGLE_MODES["G.652"]["dispersion_parameter"] * 1e6, rel=0.02)


def test_dcf_compensates_g652_in_dispersion_and_slope():
    smf, dcf = standard_fibre("G.652").beta[0], standard_fibre("DCF").beta[0]
    np.testing.assert_allclose(80e3 * smf + 80e3 * 17 / 100 * dcf, 0, atol=1e-12 * abs(80e3 * smf).max())
    np.testing.assert_allclose(17 / 100 * dcf[2], -smf[2], rtol=1e-12)


def test_options_replace_values_of_a_standard():
    base = standard_fibre("G.652")
    sloped = standard_fibre("G.652", dispersion_slope="0.06 ps/nm^2/km", alpha="0.18 dB/km")
    assert sloped.beta[0, 1] == base.beta[0, 1]
    assert sloped.beta[0, 2] > base.beta[0, 2]
    assert sloped.alpha[0] == pytest.approx(0.18e-4 * math.log(10))
    assert standard_fibre("G.652", beta2=-21e-27).beta.tolist() == [[0, -21e-27, 0, 0]]
    assert standard_fibre("G.652", gamma="1.2 1/W/km").gamma == pytest.approx(1.2e-3)
    assert standard_fibre("single-mode").beta[0, 1] == -21.7e-27


@pytest.mark.slow
def test_om4_has_the_least_delay_spread_of_its_exponents():
    """rms delay over groups 1–14: below the 40 ps/km that EMB 4700 MHz km (0.187/σ) asks for, and least."""
    spread = {}
    for exponent in (OM_EXPONENT - 0.02, OM_EXPONENT, OM_EXPONENT + 0.02):
        profile = IndexProfile(50e-6, 0.2, exponent, design_wavelength=850e-9)
        fit = dispersion(profile, 850e-9, groups=range(1, 15), step=0.08e-6)
        delay = np.repeat(fit.beta[:, 1], fit.modes.degeneracy)
        spread[exponent] = delay.std() * 1e15
    assert spread[OM_EXPONENT] == min(spread.values())
    assert spread[OM_EXPONENT] < 0.187 / 4.7e9 * 1e12
    fibre = standard_fibre("OM3", groups=3, step=0.08e-6)
    assert fibre.modes == 6
    assert fibre.wavelength == 850e-9
    assert fibre.alpha[0] == pytest.approx(2.5e-4 * math.log(10))


def test_wrong_arguments_have_one_line(tmp_path):
    table = write(tmp_path / "d.csv", [1540, 1560], [16.0, 17.0])
    for call, line in {
        lambda: single_mode(-21e-27, dispersion_parameter=17e-6): "dispersion_parameter: given together with",
        lambda: single_mode(betas=[1e-27], dispersion_csv=table): "dispersion_csv: given together with betas",
        lambda: single_mode(
            dispersion_slope=56.0
        ): "dispersion_parameter: missing; dispersion_slope needs it",
        lambda: single_mode(betas=-21e-27): "betas: -2.1e-26 given; allowed: a list of β2, β3, … up to β15",
        lambda: single_mode(betas=[1e-27] * 15): "betas: ",
        lambda: single_mode(betas=np.array(1e-27)): "betas: 1e-27 given; allowed: a list of β2",
        lambda: single_mode(wavelength=1550): "wavelength: 1550 m given; allowed: 1e-08 to 0.001 m",
        lambda: single_mode(dispersion_parameter="17 ps^2/km"): "dispersion_parameter: ",
        lambda: single_mode(gamma=1e-3, n2=2.6e-20): "n2: given together with gamma",
        lambda: single_mode(
            dispersion_csv=table, wavelength=1310e-9
        ): f"{table}: wavelength_nm: the table rea",
        lambda: single_mode(dispersion_csv=tmp_path / "no.csv"): f"{tmp_path / 'no.csv'}",
        lambda: standard_fibre("G.651"): "name: ",
        lambda: standard_fibre("G.652", wavelength=1540e-9): "wavelength: given with G.652",
        lambda: Fibre.from_coefficients(np.zeros((1, 16)), 1.0, 1e-3): "beta: shape (1, 16); needs (modes, 1",
    }.items():
        with pytest.raises(InputError) as error:
            call()
        assert str(error.value).startswith(line)
        assert "\n" not in str(error.value)
