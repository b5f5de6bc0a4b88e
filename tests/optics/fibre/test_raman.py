"""Powers under stimulated Raman scattering: closed forms, conserved quantities, the equation in full."""

import math
from dataclasses import replace

import numpy as np
import pytest
from fibre_cases import make_fibre
from gnpy_raman import GAIN
from scipy.integrate import cumulative_simpson, solve_ivp

from wavefabric.base.errors import InputError
from wavefabric.optics.fibre.fibre import Fibre
from wavefabric.optics.fibre.presets import coupled_group, graded_index_62_5, single_mode
from wavefabric.optics.fibre.profile import IndexProfile
from wavefabric.optics.fibre.raman import (
    intensity_overlap,
    power_evolution,
    raman_evolution,
    raman_tilt,
    tilt_bound,
)
from wavefabric.optics.fibre.sources import (
    fibre_from_profile,
    kappa_strong_groups,
    kappa_weak,
    solved_overlaps,
)
from wavefabric.optics.fibre.spectra import LossSpectrum, RamanGain

ALPHA = 0.2e-3 * np.log(10) / 10
GRID = np.linspace(191e12, 196e12, 41)
Z = np.linspace(0, 80e3, 9)


def db(ratio):
    return 10 * np.log10(ratio)


def random_modes(modes, seed=1):
    """Launch powers (W) of channels in modes, and overlaps (1/m²) between the modes."""
    random = np.random.default_rng(seed)
    a = random.uniform(0.2, 1, (modes, modes))
    return random.uniform(1e-4, 2e-3, (len(GRID), modes)), (a + a.T) / 160e-12


@pytest.mark.parametrize("modes", [1, 3])
def test_triangular_gain_in_closed_form(modes):
    """Zirngibl: P_i = P_i0 P e^(−αz − s f_i P Leff) / Σ_j P_j0 e^(−s f_j P Leff); so too equal modes."""
    slope, launch = 2.8e-17, random_modes(modes)[0] * 6 / modes
    length = (1 - np.exp(-ALPHA * Z)) / ALPHA
    tilt = np.exp(-slope * launch.sum() * np.multiply.outer(GRID - GRID.mean(), length))[:, None]
    expected = (
        launch[..., None] * np.exp(-ALPHA * Z) * tilt * launch.sum() / (launch[..., None] * tilt).sum((0, 1))
    )
    groups = None if modes == 1 else np.zeros(modes, int)
    exact = RamanGain.triangular(slope, quantum_defect=False)
    evolution = power_evolution(GRID, launch, 80e3, ALPHA, exact, groups=groups)
    np.testing.assert_allclose(evolution.power(Z), expected, rtol=1e-8)
    assert np.ptp(evolution.gain_db()) > 1
    # The energy that photons leave in the glass, at most 2.6 % a photon, is small.
    photons = power_evolution(GRID, launch, 80e3, ALPHA, RamanGain.triangular(slope), groups=groups)
    assert 0.001 < np.abs(db(photons.power(Z) / expected)).max() < 0.1


@pytest.mark.parametrize("alpha", [0.0, ALPHA])
def test_two_channels_follow_the_logistic_curve(alpha):
    """n = P/f: dn_s/dz = K n_s n_p, n_s + n_p = N, over the effective length, with depletion of the pump."""
    f, launch = np.array([193e12, 205e12]), np.array([5e-3, 0.5])
    evolution = power_evolution(f, launch, 20e3, alpha, RamanGain.silica())
    length = Z / 4 if alpha == 0 else (1 - np.exp(-alpha * Z / 4)) / alpha
    n = launch / f
    rate = RamanGain.silica().coupling(f, f)[0, 1] / 80e-12 * f[1] * n.sum()
    signal = n.sum() * n[0] / (n[0] + n[1] * np.exp(-rate * length))
    expected = f[:, None] * np.array([signal, n.sum() - signal]) * np.exp(-alpha * Z / 4)
    np.testing.assert_allclose(evolution.power(Z / 4)[:, 0], expected, rtol=1e-7)
    assert expected[1, -1] * np.exp(alpha * 20e3) < 0.96 * launch[1]


def test_the_error_follows_the_tolerance(monkeypatch):
    f, launch = np.array([193e12, 205e12]), np.array([1e-3, 0.5])
    n = launch / f
    rate = RamanGain.silica().coupling(f, f)[0, 1] / 80e-12 * f[1] * n.sum()
    exact = f[0] * n.sum() * n[0] / (n[0] + n[1] * np.exp(-rate * 40e3))
    errors, tolerances = [], (1e-3, 1e-5, 1e-7, 1e-9, 1e-11)
    for tolerance in tolerances:
        monkeypatch.setattr("wavefabric.optics.fibre.raman.TOLERANCE", tolerance)
        power = power_evolution(f, launch, 40e3, 0, RamanGain.silica()).power()[0, 0]
        errors.append(abs(power / exact - 1))
    assert all(error < 30 * t for error, t in zip(errors, tolerances, strict=True))
    assert errors[0] > 1e5 * errors[-1] > 0


def test_photons_and_energy_without_loss(monkeypatch):
    """Photons are conserved; the power lost is that of the difference in frequency of each photon moved."""
    launch, overlap = random_modes(4)
    z = np.linspace(0, 80e3, 801)
    monkeypatch.setattr("wavefabric.optics.fibre.raman.TOLERANCE", 1e-11)
    evolution = power_evolution(GRID, 20 * launch, 80e3, 0, RamanGain.silica(), overlap=overlap)
    power = evolution.power(z)
    photons = (power / GRID[:, None, None]).sum((0, 1))
    np.testing.assert_allclose(photons, photons[0], rtol=1e-7)
    # Each pair of channels once: gain of the lower, times how much more the higher loses.
    gain = np.triu(RamanGain.silica().coupling(GRID, GRID)) * (GRID / GRID[:, None] - 1)
    rate = np.einsum("ij,iaz,ab,jbz->z", gain, power, overlap, power, optimize=True)
    lost = cumulative_simpson(rate, x=z, initial=0)
    total = power.sum((0, 1))
    np.testing.assert_allclose(total[0] - total, lost, rtol=1e-6, atol=1e-9 * total[0])
    assert lost[-1] > 1e-3 * total[0]


def test_the_equation_of_every_channel_and_mode():
    """Groups of modes with unequal powers and losses, against the equation written out and another method."""
    random = np.random.default_rng(3)
    groups, f = np.array([2, 1, 2, 1, 3]), GRID[::5]
    launch, alpha = random.uniform(1e-3, 9e-3, (len(f), 5)), ALPHA * random.uniform(0.8, 1.4, (len(f), 5))
    overlap = np.array([[9, 4, 3], [4, 7, 2], [3, 2, 8.0]]) * 1e9
    gain = RamanGain.silica()
    evolution = power_evolution(f, launch, 80e3, alpha, gain, overlap=overlap, groups=groups)

    coupling = np.zeros((len(f), len(f)))
    for i, own in enumerate(f):
        for j, other in enumerate(f):
            low, high = min(own, other), max(own, other)
            coupling[i, j] = gain.at(high - low) * gain.area * high / gain.pump_frequency
            coupling[i, j] *= 1 if own < other else -own / other

    def slope(_, power):
        power, change = power.reshape(launch.shape), np.empty_like(launch)
        for i in range(len(f)):
            for a in range(5):
                change[i, a] = -alpha[i, a]
                for j in range(len(f)):
                    change[i, a] += coupling[i, j] * overlap[groups[a] - 1, groups - 1] @ power[j]
        return (change * power).reshape(-1)

    expected = solve_ivp(slope, (0, 80e3), launch.reshape(-1), "LSODA", rtol=1e-7, atol=1e-14).y[:, -1]
    np.testing.assert_allclose(evolution.power(), expected.reshape(launch.shape), rtol=1e-5)
    np.testing.assert_allclose(
        db(evolution.power() / launch) + alpha * 80e3 * db(np.e), evolution.gain_db(), rtol=1e-9
    )


def test_the_order_of_channels_and_modes_does_not_matter():
    launch, overlap = random_modes(3)
    channels, modes = np.random.default_rng(5).permutation(len(GRID)), [2, 0, 1]
    plain = power_evolution(GRID, launch, 80e3, ALPHA, RamanGain.silica(), overlap=overlap)
    moved = power_evolution(
        GRID[channels],
        launch[channels][:, modes],
        80e3,
        ALPHA,
        RamanGain.silica(),
        overlap=overlap[modes][:, modes],
    )
    np.testing.assert_allclose(moved.power(), plain.power()[channels][:, modes], rtol=1e-9)


def test_gain_over_the_band_is_that_of_a_weak_probe():
    launch, overlap = random_modes(2)
    band = np.linspace(190e12, 197e12, 4099)
    evolution = power_evolution(GRID, launch, 80e3, ALPHA, RamanGain.silica(), overlap=overlap)
    for probe in (190e12, 193.44e12, 196.9e12):
        powers = np.vstack([launch, [1e-12, 1e-12]])
        probed = power_evolution([*GRID, probe], powers, 80e3, ALPHA, RamanGain.silica(), overlap=overlap)
        np.testing.assert_allclose(evolution.log_gain(80e3, [probe])[0], probed.log_gain()[-1], atol=1e-7)
    step = evolution.amplitude(np.fft.fftshift(band), 20e3, 30e3)
    expected = np.exp(np.diff(evolution.log_gain([20e3, 30e3], np.fft.fftshift(band)))[..., 0] / 2).T
    np.testing.assert_allclose(step, expected, rtol=1e-6)
    np.testing.assert_allclose(
        evolution.amplitude(GRID, stop=20e3) * evolution.amplitude(GRID, 20e3),
        np.exp(evolution.log_gain().T / 2),
        rtol=1e-6,
    )
    np.testing.assert_allclose(
        evolution.amplitude([193e12]), np.exp(evolution.log_gain(None, [193e12]).T / 2), rtol=1e-6
    )


def test_overlaps_come_back_from_kappa():
    """Of the modes of an index profile, for all that rows of κ stand for."""
    _, overlap = solved_overlaps(IndexProfile(50e-6, 0.2, 2.0), 1550e-9, 0.1e-6)
    taken = overlap.take(overlap.groups <= 3)
    area = float(taken.a_eff[0])
    gamma = 2 * np.pi * 2.6e-20 / (1550e-9 * area)
    weak = make_fibre(kappa_weak(taken.f, area), gamma=gamma)
    np.testing.assert_allclose(intensity_overlap(weak), taken.f, rtol=1e-12)
    rows = make_fibre(np.kron(weak.kappa, np.ones((2, 2))), "row", gamma=gamma)
    np.testing.assert_allclose(intensity_overlap(rows), taken.f, rtol=1e-12)
    strong = make_fibre(
        kappa_strong_groups(taken.f, taken.groups, area), "group", gamma=gamma, groups=taken.groups
    )
    means = [
        [taken.f[np.ix_(taken.groups == a, taken.groups == b)].mean() for b in (1, 2, 3)] for a in (1, 2, 3)
    ]
    np.testing.assert_allclose(intensity_overlap(strong), means, rtol=1e-12)
    np.testing.assert_allclose(intensity_overlap(coupled_group(6, gamma=gamma)), 1 / area, rtol=1e-12)
    # The gain of a whole fibre, its rows of κ in the order of its modes.
    launch = np.full(len(taken.groups), 5e-3) * np.arange(1, 7)
    direct = power_evolution(
        GRID, np.tile(launch, (len(GRID), 1)), 80e3, 0, RamanGain.silica(), overlap=means, groups=taken.groups
    )
    for fibre, expected in (
        (strong, direct.gain_db()),
        (rows, raman_evolution(weak, GRID, launch[None], 80e3).gain_db()),
    ):
        np.testing.assert_allclose(
            raman_evolution(fibre, GRID, launch[None], 80e3).gain_db(), expected, rtol=1e-9
        )


def test_the_link_of_120_modes():
    """60 channels at −1 dBm: 2.5 dB between the outer channels of LP01, 1.7 on average, as the docs say.

    The triangle of 0.028 /(W km THz) for 80 µm² gives 2.2 dB for LP01.
    """
    fibre = graded_index_62_5()
    f = np.linspace(191.95e12, 194.9e12, 60)
    evolution = raman_evolution(fibre, f, "-1 dBm", "80 km")
    assert evolution.power(Z).shape == (60, 120, 9)
    change = np.ptp(evolution.gain_db(), axis=0)
    np.testing.assert_allclose([change[0], change.mean()], [2.46, 1.68], atol=0.01)
    assert raman_tilt(fibre, f, "-1 dBm", "80 km") == np.abs(evolution.gain_db()).max() > 0.3
    triangular = RamanGain.triangular("0.028 1/W/km/THz")
    lp01 = np.ptp(raman_evolution(fibre, f, "-1 dBm", "80 km", triangular).gain_db()[:, 0])
    np.testing.assert_allclose(lp01, 2.2, atol=0.05)


@pytest.mark.parametrize("width", [0.5e12, pytest.param(5e12, marks=pytest.mark.slow), 14e12, 40e12])
@pytest.mark.parametrize("power", [1e-6, 1e-3, 0.05])
def test_no_tilt_is_above_its_bound(width, power):
    for alpha, length in ((0.0, 20e3), (ALPHA, 80e3)):
        fibre, f = single_mode(alpha=alpha), 193e12 + np.linspace(-width / 2, width / 2, 9)
        powers = power * np.random.default_rng(int(width / 1e11)).uniform(0, 1, (9, 1))
        tilt = raman_tilt(fibre, f, powers, length)
        bound = tilt_bound(fibre, f, powers, length, intensity_overlap(fibre))
        # It cannot be of much use if it is much too large where all of the light acts on one channel.
        assert tilt <= bound < 40 * tilt
    two = raman_tilt(fibre, [190e12, 203.2e12], [[1e-9], [1e-3]], 80e3)
    assert (
        two
        <= tilt_bound(fibre, [190e12, 203.2e12], np.array([[1e-9], [1e-3]]), 80e3, 1 / fibre.a_eff)
        < 1.3 * two
    )


def test_loss_over_frequency():
    fibre = single_mode(alpha="0.2 dB/km")
    loss = LossSpectrum.polynomial([0, "2e-3 dB/km/THz"], "193.4 THz")
    evolution = raman_evolution(fibre, GRID, 1e-12, 50e3, loss=loss)
    expected = -50 * (0.2 + 2e-3 * (GRID / 1e12 - 299792.458 / 1550))
    np.testing.assert_allclose(db(evolution.power() / 1e-12)[:, 0], expected, rtol=1e-6)
    assert raman_tilt(fibre, GRID, 1e-12, 50e3) < 1e-6
    with pytest.raises(InputError, match=r"frequencies: .* given; allowed: a list of positive numbers in Hz"):
        raman_evolution(fibre, "193 THz", 1e-3, 50e3, loss=loss)


def test_raman_gain_does_not_need_the_kerr_effect():
    """Zirngibl 1998: between two channels the tilt is exp(C_R (P1 + P2) L_eff)."""
    gain = RamanGain.triangular("0.028 1/W/km/THz", quantum_defect=False)
    fibre, f = single_mode(gamma=0.0, alpha="0.2 dB/km"), np.array([192e12, 196e12])
    tilt = np.ptp(raman_evolution(fibre, f, "10 mW", "80 km", gain).gain_db())
    effective = (1 - np.exp(-ALPHA * 80e3)) / ALPHA
    assert tilt == pytest.approx(10 * np.log10(np.e) * 0.028e-3 * 4 * 20e-3 * effective, rel=1e-6)


def test_overlaps_without_kerr_effect_follow_from_the_effective_area():
    profile = IndexProfile(20e-6, 0.2, 2.0)
    for coupling in ("modes", "groups"):
        lit = fibre_from_profile(profile, 1550e-9, coupling=coupling, step=0.1e-6)
        dark = fibre_from_profile(profile, 1550e-9, coupling=coupling, step=0.1e-6, n2=0)
        assert dark.gamma == 0
        np.testing.assert_allclose(intensity_overlap(dark), intensity_overlap(lit), rtol=1e-12)
    for dark in (
        lit.select_groups([2]),
        Fibre.from_coefficients([[0, -21e-27]], 8 / 9, 0.0),
        single_mode(kappa=0.0, gamma=0.0),
    ):
        with pytest.raises(InputError, match=r"^overlap: not known, (kappa = 0|no a_eff of group 1)"):
            intensity_overlap(replace(dark, gamma=0.0))


def test_no_power():
    assert raman_tilt(single_mode(), GRID, 0.0, 80e3) == 0
    assert raman_tilt(single_mode(), [193e12], 1.0, 80e3) == 0


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (
            {"frequencies": [0, 193e12]},
            r"frequencies: \[0.0, 193000000000000.0\] given; allowed: a list of pos",
        ),
        ({"launch_power": [1e-3] * 3}, r"launch_power: shape \(3,\) given; allowed: one number, \(2,\) or"),
        ({"launch_power": [-1e-3, 0]}, "launch_power: -0.001 W given; allowed: finite, 0 or more"),
        ({"launch_power": "3 km"}, "launch_power: "),
        ({"launch_power": 1e300, "length": 1e9}, "launch_power: up to 1e.300 W given"),
        ({"alpha": np.nan}, "alpha: nan 1/m given"),
        ({"length": 0}, "length: 0.0 m given"),
        ({"overlap": [[1, 2], [3, 4]], "groups": [0, 1]}, r"overlap: .*; allowed: shape \(2, 2\), symmetric"),
        (
            {"overlap": [[1.0]], "groups": [0, 1]},
            r"overlap: .* of shape \(1, 1\) given; allowed: shape \(2, 2",
        ),
        ({"groups": [0.5]}, r"groups: \[0.5\] given; allowed: a whole number for each mode"),
    ],
)
def test_refused(change, line):
    values = {"frequencies": [193e12, 200e12], "launch_power": 1e-3, "length": 1e3, "alpha": 0.0}
    with pytest.raises(InputError, match=line):
        power_evolution(**{**values, "gain": RamanGain.silica(), **change})


@pytest.mark.parametrize("z", [-1, 1001, [[1.0]], np.nan])
def test_positions_are_within_the_span(z):
    evolution = power_evolution([193e12, 200e12], 1e-3, 1e3, 0, RamanGain.silica())
    with pytest.raises(InputError, match=r"z: .* m given; allowed: 0 to 1000 m"):
        evolution.power(z)


# --- Pumps of both directions --------------------------------------------------------------------------

LOSS_PER_M, SPAN = 0.2e-3 * math.log(10) / 10, 80e3


@pytest.mark.parametrize("backward", [False, True])
def test_an_undepleted_pump_and_its_noise(backward):
    """Gain exp(C_R P L_eff) in either direction; noise by the rate equation of photons, solved apart."""
    gain, f, pump, temperature = RamanGain.silica(), np.array([193.4e12, 206.6e12]), 0.3, 283.0
    evolution = power_evolution(f, [1e-9, pump], SPAN, LOSS_PER_M, gain, backward=[False, backward])
    rate = gain.coupling(f[:1], f[1:])[0, 0] / gain.area * pump
    effective = -math.expm1(-LOSS_PER_M * SPAN) / LOSS_PER_M
    assert evolution.log_gain()[0, 0] == pytest.approx(rate * effective, rel=1e-7)
    phonons = 1 / math.expm1(6.62607015e-34 * (f[1] - f[0]) / (1.380649e-23 * temperature))

    def change(z, noise):
        stimulated = rate * math.exp(-LOSS_PER_M * (SPAN - z if backward else z))
        return stimulated * (noise + 6.62607015e-34 * f[0] * (1 + phonons)) - LOSS_PER_M * noise

    exact = solve_ivp(change, (0, SPAN), [0.0], rtol=1e-10, atol=1e-40).y[0, -1]
    assert evolution.noise_density(f[:1], temperature)[0, 0] == pytest.approx(exact, rel=1e-6)


def test_pumps_of_both_directions_obey_their_equations():
    """Two strong counter-propagating pumps deplete one another: dP/dz by differences of the powers."""
    gain = RamanGain.silica()
    f = np.array([193.4e12, 201e12, 205e12])
    backward = np.array([False, True, True])
    evolution = power_evolution(f, [1e-3, 0.3, 0.35], SPAN, LOSS_PER_M, gain, backward=backward)
    z = np.linspace(0, SPAN, 2001)
    powers = evolution.power(z)[:, 0]
    assert powers[backward, -1] == pytest.approx([0.3, 0.35], rel=1e-6)
    assert powers[0, 0] == pytest.approx(1e-3, rel=1e-12)
    slopes = np.gradient(powers, z, axis=1, edge_order=2)
    coupling = gain.coupling(f, f) / gain.area
    expected = powers * (coupling @ powers - LOSS_PER_M) * np.where(backward, -1, 1)[:, None]
    np.testing.assert_allclose(slopes[:, 1:-1], expected[:, 1:-1], rtol=2e-4, atol=1e-9)
    alone = power_evolution(f[1:], [0.3, 0.35], SPAN, LOSS_PER_M, gain, backward=[True, True])
    assert (
        alone.power(0.0)[1, 0] < 0.35 * math.exp(-LOSS_PER_M * SPAN) * 0.8
    )  # the upper pump feeds the lower


def test_a_counter_pumped_span_as_in_gnpy():
    """gnpy 3.0.1, `RamanFiber` of SSMF with its two pumps behind a connector of 0.5 dB, nine channels."""
    area, connector = 80e-12, 10**-0.05
    shift, reference = 0.5e12 * np.arange(31), 205e12
    efficiency = 1e-3 * np.array(GAIN) * reference / (193.4e12 + shift)  # it grows with the pump's frequency
    gain = RamanGain(shift, efficiency, area, reference)
    f = np.append(193.2e12 + 50e9 * np.arange(9), [205e12, 201e12])
    powers = connector * np.append(np.full(9, 1e-3), [224.403e-3, 231.135e-3])
    evolution = power_evolution(f, powers, SPAN, LOSS_PER_M, gain, backward=[False] * 9 + [True] * 2)
    ends = evolution.power()[:9, 0] * connector
    np.testing.assert_allclose(10 * np.log10(ends[[0, 4, 8]] * 1e3), [-6.843, -7.085, -7.334], atol=0.1)
    noise = 2 * 32e9 * connector * evolution.noise_density(f[:9], 283.0)[:, 0]
    np.testing.assert_allclose(10 * np.log10(ends / noise)[[0, 4, 8]], [38.365, 38.297, 38.230], atol=0.1)


def test_backward_has_an_entry_for_each_channel():
    with pytest.raises(InputError, match=r"backward: shape \(1,\) given; allowed: \(2,\)"):
        power_evolution([193e12, 200e12], 1e-3, SPAN, LOSS_PER_M, RamanGain.silica(), backward=[True])
