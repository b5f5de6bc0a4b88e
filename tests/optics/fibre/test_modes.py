"""The mode solver against characteristic equations, closed forms and the paper's table 2."""

import math
from importlib.resources import files

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import jn_zeros, jv, kv

from wavefabric.base.errors import InputError
from wavefabric.base.units import SPEED_OF_LIGHT
from wavefabric.optics.fibre import modes
from wavefabric.optics.fibre.csv_files import read_columns
from wavefabric.optics.fibre.modes import dispersion, extrapolate, lp_label, solve_mesh, solve_modes
from wavefabric.optics.fibre.profile import ConstantIndex, IndexProfile, TableProfile, profile_62_5

LAM = 1550e-9
PARABOLA = IndexProfile(100e-6, 0.3, 2, cladding=ConstantIndex(1.444))


def step_index_n_eff(radius, na, clad):
    """{(l, m): n_eff} from u J_{l+1}(u)/J_l(u) = w K_{l+1}(w)/K_l(w), u² + w² = V²."""
    k = 2 * math.pi / LAM
    v = k * radius * na
    result = {}
    for order in range(40):
        # Without division by J_l: a root lies in every interval between zeros of J_l.
        def residual(u, order=order):
            w = math.sqrt(v * v - u * u)
            return u * jv(order + 1, u) * kv(order, w) - w * kv(order + 1, w) * jv(order, u)

        grid = np.linspace(1e-6, v * (1 - 1e-12), 4000)
        values = np.array([residual(u) for u in grid])
        roots = [
            brentq(residual, grid[i], grid[i + 1], xtol=1e-14)
            for i in np.flatnonzero(values[1:] * values[:-1] < 0)
        ]
        roots = [u for u in roots if u < v * (1 - 1e-9)]
        if not roots:
            break
        for m, u in enumerate(roots, start=1):
            result[order, m] = math.sqrt(clad**2 + na**2 - (u / (k * radius)) ** 2)
    return result


@pytest.mark.parametrize(("radius", "na"), [(4.1e-6, 0.12), (12.5e-6, 0.2)])
def test_step_index_fibre_matches_characteristic_equation(radius, na):
    clad = 1.444
    profile = IndexProfile(2 * radius, na, math.inf, cladding=ConstantIndex(clad))
    modes = solve_modes(profile, LAM)
    exact = step_index_n_eff(radius, na, clad)
    ours = {(int(a), int(b)): n for a, b, n in zip(modes.l, modes.m, modes.n_eff, strict=True)}
    assert ours.keys() == exact.keys()
    assert max(abs(ours[key] - exact[key]) for key in exact) < 1e-6
    better = extrapolate(profile, LAM)
    keys = list(zip(modes.l.tolist(), modes.m.tolist(), strict=True))
    assert max(abs(n - exact[key]) for n, key in zip(better, keys, strict=True)) < 2e-9


def test_lp11_cutoff_of_step_index_fibre():
    cutoff = jn_zeros(0, 1)[0]
    for v, expected in ((0.98 * cutoff, 1), (1.03 * cutoff, 3)):
        radius = v * LAM / (2 * math.pi * 0.12)
        profile = IndexProfile(2 * radius, 0.12, math.inf, cladding=ConstantIndex(1.444))
        assert solve_modes(profile, LAM, radius / 200).spatial_modes == expected


@pytest.mark.slow
def test_parabola_matches_laguerre_gauss():
    k, na, radius = 2 * math.pi / LAM, 0.3, 50e-6
    n0 = math.hypot(1.444, na)
    modes = solve_modes(PARABOLA, LAM).select(range(1, 9))
    exact = np.sqrt((k * n0) ** 2 - 2 * modes.group * k * na / radius)
    np.testing.assert_allclose(modes.beta / k, exact / k, atol=2e-7)
    waist2 = 2 * radius / (k * na)
    a_eff = dict(zip(modes.labels, modes.a_eff, strict=True))
    assert a_eff["LP01"] == pytest.approx(math.pi * waist2, rel=1e-5)
    assert a_eff["LP11"] == pytest.approx(4 / 3 * math.pi * waist2, rel=1e-5)
    assert a_eff["LP02"] == pytest.approx(2 * math.pi * waist2, rel=1e-5)


def test_dispersion_of_parabola_matches_closed_form():
    # β = a √(K² − c²) with K = k − c, c = g NA/(R n0²), a = n0, k = ω/c0.
    k, na, radius = 2 * math.pi / LAM, 0.3, 25e-6
    profile = IndexProfile(2 * radius, na, 2, cladding=ConstantIndex(1.444))
    result = dispersion(profile, LAM, groups=[1, 4], step=0.05e-6)
    a = math.hypot(1.444, na)
    c = result.modes.group * na / (radius * a**2)
    shifted = k - c
    d = shifted**2 - c**2
    derivatives = [
        a * shifted / d**0.5,
        -a * c**2 / d**1.5,
        3 * a * c**2 * shifted / d**2.5,
        3 * a * c**2 * (1 / d**2.5 - 5 * shifted**2 / d**3.5),
    ]
    for n, (value, tolerance) in enumerate(zip(derivatives, (1e-7, 1e-3, 1e-3, 1e-2), strict=True), start=1):
        np.testing.assert_allclose(result.beta[:, n], value / SPEED_OF_LIGHT**n, rtol=tolerance)


@pytest.mark.slow
def test_group_index_agrees_with_hellmann_feynman():
    profile = profile_62_5()
    result = dispersion(profile, LAM, groups=[1, 5, 15], step=0.04e-6)
    modes = result.modes
    omega, h = 2 * math.pi * SPEED_OF_LIGHT / LAM, 2 * math.pi * 0.2e12

    def k2n2(w):
        return (w / SPEED_OF_LIGHT) ** 2 * profile.index(modes.r, 2 * math.pi * SPEED_OF_LIGHT / w) ** 2

    slope = (k2n2(omega + h) - k2n2(omega - h)) / (2 * h)
    beta1 = (modes.radial**2 * modes.ring) @ slope / (2 * modes.beta)
    np.testing.assert_allclose(result.beta[:, 1], beta1, rtol=1e-7)
    assert np.all(result.error[:, 2] < 1e-4 * np.abs(result.beta[:, 2]))


def test_counts_and_a_eff_of_the_62_5_um_fibre():
    modes = solve_modes(profile_62_5(), LAM)
    assert (len(modes.l), modes.spatial_modes) == (81, 153)
    chosen = modes.select(range(1, 16))
    assert chosen.spatial_modes == 120
    np.testing.assert_array_equal(chosen.group, 2 * chosen.m + chosen.l - 1)
    paper = read_columns(
        str(files("wavefabric.optics.fibre") / "data" / "fibre62_modes.csv"),
        ("mode_group", "l", "m", "a_eff_um2", "spatial_modes"),
    )
    area = {(a, b): c for a, b, c in zip(paper["l"], paper["m"], paper["a_eff_um2"], strict=True)}
    assert len(area) == len(chosen.l) == 64
    ratio = np.array(
        [s * 1e12 / area[a, b] for a, b, s in zip(chosen.l, chosen.m, chosen.a_eff, strict=True)]
    )
    assert np.abs(ratio - 1).max() < 0.03
    assert np.sqrt(np.mean((ratio - 1) ** 2)) < 0.015


@pytest.mark.slow
def test_n_eff_has_converged_to_1e_6_with_order_two():
    reference = extrapolate(profile_62_5(), LAM, 0.02e-6)
    result = (solve_modes(profile_62_5(), LAM, step).n_eff for step in (0.08e-6, 0.04e-6, 0.02e-6))
    coarse, middle, fine = (np.abs(n_eff - reference).max() for n_eff in result)
    assert fine < 1e-6
    assert math.log2(coarse / middle) == pytest.approx(2, abs=0.1)
    assert math.log2(middle / fine) == pytest.approx(2, abs=0.1)


def test_fields_are_orthonormal_and_the_wall_is_far():
    modes = solve_modes(profile_62_5(), LAM, 0.05e-6)
    for order in (0, 1, 6):
        fields = modes.radial[modes.l == order]
        np.testing.assert_allclose((fields * modes.ring) @ fields.T, np.eye(len(fields)), atol=1e-9)
    assert np.abs(modes.radial[:, -1]).max() < 1e-3 * np.abs(modes.radial).max()
    further, _ = solve_mesh(profile_62_5(), LAM, 0.05e-6, modes.r[-1] + 30e-6)
    np.testing.assert_allclose(modes.n_eff, further.n_eff, atol=1e-10)


def test_table_profile_gives_the_same_modes_as_the_formula():
    r = np.linspace(0, 10e-6, 2001)
    n = np.sqrt(1.444**2 + 0.2**2 * (1 - (r / 10e-6) ** 2))
    glass = ConstantIndex(1.444)
    table = solve_modes(TableProfile(tuple(r), tuple(n), cladding=glass), LAM)
    formula = solve_modes(IndexProfile(20e-6, 0.2, 2, cladding=glass), LAM)
    np.testing.assert_allclose(table.n_eff, formula.n_eff, atol=1e-8)


def test_labels():
    assert (lp_label(0, 1), lp_label(9, 2), lp_label(10, 1)) == ("LP01", "LP92", "LP10,1")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: solve_modes(PARABOLA, -1.0), "wavelength"),
        (lambda: solve_modes(PARABOLA, LAM, 0.0), "step"),
        (lambda: solve_modes(PARABOLA, LAM, 1e-3), "step"),
        (lambda: solve_modes(profile_62_5(), LAM).select([18]), "groups: 18 .* 1 to 17"),
        (lambda: dispersion(PARABOLA, 20e-6), "wavelength"),
        (lambda: solve_modes(TableProfile((0, 5e-6), (1.44, 1.45)), LAM, 0.1e-6), "no mode is guided"),
    ],
)
def test_errors_are_one_line(call, words):
    with pytest.raises(InputError, match=words) as error:
        call()
    assert "\n" not in str(error.value)


@pytest.mark.slow
@pytest.mark.parametrize("exponent", [2.0, math.inf])
def test_the_estimate_of_the_number_of_modes(exponent, monkeypatch):
    """V²/8 LP modes of a step, V²/16 of a parabola (Gloge and Marcatili); there are a few more."""
    profile = IndexProfile(100e-6, 0.2, exponent)
    v = math.pi * 100e-6 * 0.2 / 1550e-9
    expected = v**2 / (8 if math.isinf(exponent) else 16)
    result = len(solve_modes(profile, 1550e-9).l)
    assert result == pytest.approx(expected, rel=0.15)
    modes.solve_modes.cache_clear()
    monkeypatch.setattr(modes, "MOST_MODES", int(expected * 1.03))
    assert len(solve_modes(profile, 1550e-9).l) == result
    modes.solve_modes.cache_clear()
    monkeypatch.setattr(modes, "MOST_MODES", int(expected * 0.97))
    with pytest.raises(InputError, match=r"profile: about \d+ LP modes"):
        solve_modes(profile, 1550e-9)
