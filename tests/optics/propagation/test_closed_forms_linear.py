"""Closed forms 4 and 5: Kerr phases without dispersion, dispersion without Kerr effect."""

import math

import numpy as np
import pytest
from fibre_cases import ALL, distance, make_fibre, run, smooth_field, times
from scipy.special import airy

LENGTH, DT = 50e3, 1e-12


@pytest.mark.parametrize("integrator", ALL)
@pytest.mark.parametrize("kappa_of", ["mode", pytest.param("group", marks=pytest.mark.slow), "row"])
def test_self_and_cross_phase_modulation_with_loss(cpu, integrator, kappa_of):
    """φ_a = γ Σ_b κ_ab L_eff,b |A_b(0)|², sample by sample, whatever the waveform."""
    rng = np.random.default_rng(5)
    groups = np.array([1, 2, 2])
    # Modes of a group are degenerate: one loss. κ is not symmetric, so that a transpose shows.
    alpha = np.array([0.2, 0.28, 0.28]) * 1e-3 * math.log(10) / 10
    cell = {"mode": [0, 0, 1, 1, 2, 2], "group": [0, 0, 1, 1, 1, 1], "row": range(6)}[kappa_of]
    kappa = rng.uniform(0.3, 1.5, (max(cell) + 1, max(cell) + 1))
    fibre = make_fibre(kappa, kappa_of, gamma=1.3e-3, alpha=alpha, groups=groups)
    start = rng.standard_normal((6, 101)) + 1j * rng.standard_normal((6, 101))
    start *= 0.05

    loss = np.repeat(alpha, 2)[:, None]
    effective = (1 - np.exp(-loss * LENGTH)) / loss
    between_rows = np.array([[kappa[a, b] for b in cell] for a in cell])
    phase = 1.3e-3 * between_rows @ (effective * abs(start) ** 2)
    assert phase.max() > 1
    wanted = start * np.exp(-loss * LENGTH / 2 + 1j * phase)
    out = run(start, fibre, LENGTH, DT, integrator, 400, cpu)
    assert distance(out, wanted) < 1e-5


def gaussian(t, width, length, beta1, beta2, beta3):
    """exp(−t²/2T0²) after ``length`` of β1, β2, β3: an Airy function of complex argument.

    From ∫ exp(i s³/3 + i x s − q s²/2) ds/2π = Ai(x + q²/4) exp(xq/2 + q³/12); without β3 it is
    G. P. Agrawal, Nonlinear Fiber Optics, eq. (3.2.7).
    """
    t, s = t - beta1 * length, width**2 - 1j * beta2 * length
    if beta3 == 0:
        return width / np.sqrt(s) * np.exp(-(t**2) / (2 * s))
    if beta3 < 0:
        t = -t
    scale = np.cbrt(abs(beta3) * length / 2)
    x, q = -t / scale, s / scale**2
    value = airy(x + q**2 / 4)[0] * np.exp(x * q / 2 + q**3 / 12)
    return width * math.sqrt(2 * math.pi) / scale * value


WIDTH = 20e-12
PULSES = [
    # β1 (s/m), β2 (s²/m), β3 (s³/m)
    (0.0, -20e-27, 0.0),
    (1.0e-15, -20e-27, 0.0),
    (-1.5e-15, 10e-27, 0.0),
    (0.0, 0.0, 300e-39),
    (0.8e-15, -6e-27, 300e-39),
    (0.0, -6e-27, -300e-39),
]


@pytest.mark.parametrize("integrator", ["strang", "rk4ip", "blanes_moan"])
def test_gaussians_broaden_arrive_late_and_ring(cpu, integrator):
    beta = np.zeros((len(PULSES), 4))
    beta[:, :3] = PULSES
    t = times(2000, DT)
    start = np.zeros((2 * len(PULSES), t.size), complex)
    # The polarisations of a mode share its β: send half of it a while later.
    for mode in range(len(PULSES)):
        start[2 * mode] = gaussian(t, WIDTH, 0.0, 0, 0, 0)
        start[2 * mode + 1] = 0.5j * gaussian(t - 40e-12, WIDTH, 0.0, 0, 0, 0)
    fibre = make_fibre(np.eye(len(PULSES)), beta=beta, gamma=0.0)
    out = run(start, fibre, LENGTH, DT, integrator, 3, cpu)
    for mode, pulse in enumerate(PULSES):
        x = gaussian(t, WIDTH, LENGTH, *pulse)
        y = 0.5j * gaussian(t - 40e-12, WIDTH, LENGTH, *pulse)
        assert distance(out[2 * mode], x) < 1e-9, pulse
        assert distance(out[2 * mode + 1], y) < 1e-9, pulse


def test_width_of_a_gaussian(cpu):
    """T0 √(1 + (z/L_D)²) and the delay Δβ1 z, from moments of the power."""
    beta1, beta2 = 1e-15, -20e-27
    t = times(1024, DT)
    fibre = make_fibre([[1.0]], beta=[beta1, beta2, 0, 0], gamma=0.0)
    start = np.array([np.exp(-(t**2) / (2 * WIDTH**2)), np.zeros(t.size)])
    power = abs(run(start, fibre, LENGTH, DT, "rk4ip", 1, cpu)[0]) ** 2
    mean = (t * power).sum() / power.sum()
    spread = math.sqrt(2 * ((t - mean) ** 2 * power).sum() / power.sum())
    assert mean == pytest.approx(beta1 * LENGTH, rel=1e-9)
    assert spread == pytest.approx(WIDTH * math.sqrt(1 + (LENGTH * abs(beta2) / WIDTH**2) ** 2), rel=1e-9)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_tone_turns_by_beta_of_its_optical_frequency(cpu, order, sign):
    """The optical carrier is exp(−iω0t): a tone at ω0 + Ω is exp(−iΩt) and gains βₙ Ωⁿ z/n!."""
    n, length = 64, 1e3
    offset = sign * 2 * np.pi * 5 / (n * DT)
    beta = np.zeros(4)
    beta[order - 1] = 2.0 * math.factorial(order) / (abs(offset) ** order * length)
    start = np.array([np.exp(-1j * offset * times(n, DT)), np.zeros(n)])
    fibre = make_fibre([[1.0]], beta=beta, gamma=0.0)
    out = run(start, fibre, length, DT, "rk4ip", 1, cpu)
    np.testing.assert_allclose(out[0], start[0] * np.exp(2j * sign**order), atol=1e-12)


def test_loss_is_of_power(cpu):
    fibre = make_fibre([[1.0]], gamma=0.0, alpha=0.2e-3 * math.log(10) / 10)
    start = smooth_field(2, 64, 1e-3)
    out = run(start, fibre, 100e3, DT, "strang", 7, cpu)
    ratio = (abs(out) ** 2).sum() / (abs(start) ** 2).sum()
    assert 10 * math.log10(ratio) == pytest.approx(-20.0, abs=1e-9)
