"""Closed forms 6 and 7: four-wave mixing between tones, modulation instability."""

import math

import numpy as np
import pytest
from fibre_cases import ALL, distance, make_fibre, run, times

from wavefabric.optics.fibre.presets import single_mode

N, DT = 64, 2e-12
SPACING = 1 / (N * DT)
T = times(N, DT)
GAMMA, LENGTH = 1.3e-3, 60e3
LOSS = 0.2e-3 * math.log(10) / 10


def tone(line: int) -> np.ndarray:
    """A tone at the optical offset ``line`` · SPACING; the carrier is exp(−iω0t)."""
    return np.exp(-2j * np.pi * line * SPACING * T)


def amplitude(row: np.ndarray, line: int) -> complex:
    """Amplitude of a tone in a row, √W."""
    return complex((row * tone(line).conj()).mean())


def propagation_constant(beta, line: int) -> float:
    omega = 2 * np.pi * line * SPACING
    return sum(b * omega ** (k + 1) / math.factorial(k + 1) for k, b in enumerate(beta))


def efficiency(alpha: float, mismatch: float) -> float:
    """FWM efficiency, 1 if phases match.

    N. Shibata, R. P. Braun, R. G. Waarts 1987, doi 10.1109/JQE.1987.1073499, eq. (10).
    """
    if alpha == 0:
        return float(np.sinc(mismatch * LENGTH / (2 * np.pi)) ** 2)
    decay = math.exp(-alpha * LENGTH)
    ripple = 1 + 4 * decay * math.sin(mismatch * LENGTH / 2) ** 2 / (1 - decay) ** 2
    return alpha**2 / (alpha**2 + mismatch**2) * ripple


DISPERSIONS = {
    "matched": (0.0, 0.0, 0.0, 0.0),
    "beta2": (0.0, -2e-27, 0.0, 0.0),
    "beta2 beta3": (1e-15, -2e-27, 0.25e-39, 0.0),
}


@pytest.mark.parametrize("integrator", ALL)
@pytest.mark.parametrize("alpha", [pytest.param(0.0, marks=pytest.mark.slow), LOSS])
@pytest.mark.parametrize("dispersion", DISPERSIONS)
@pytest.mark.parametrize("lines", [(3, -2, 9), (-4, -4, 5)], ids=["three pumps", "two pumps"])
def test_four_wave_mixing_of_weak_tones(cpu, integrator, alpha, dispersion, lines):
    """P_F = η (Dγ/3)² P_i P_j P_k e^{−αL} L_eff², D = 6, or 3 when i = j; and its phase."""
    i, j, k = lines
    beta = DISPERSIONS[dispersion]
    degeneracy = 3 if i == j else 6
    # γPL of 1e-5 keeps the pumps undepleted and their own phases below the tolerance.
    p = {i: 1.1e-7, j: 0.9e-7, k: 1.2e-7}
    start = np.zeros((2, N), complex)
    start[0] = sum(math.sqrt(power) * np.exp(0.3j * line) * tone(line) for line, power in p.items())
    fibre = make_fibre([[1.0]], beta=beta, gamma=GAMMA, alpha=alpha)
    new = i + j - k
    made = amplitude(run(start, fibre, LENGTH, DT, integrator, 300, cpu)[0], new)

    constants = {line: propagation_constant(beta, line) for line in (i, j, k, new)}
    mismatch = constants[i] + constants[j] - constants[k] - constants[new]
    if dispersion != "matched":
        assert 1 < abs(mismatch) * LENGTH < 30
    effective = LENGTH if alpha == 0 else -math.expm1(-alpha * LENGTH) / alpha
    power = efficiency(alpha, mismatch) * (degeneracy / 3 * GAMMA * effective) ** 2
    power *= p[i] * p[j] * p[k] * math.exp(-alpha * LENGTH)
    assert abs(made) ** 2 == pytest.approx(power, rel=1e-2 if dispersion != "matched" else 1e-4)

    rate = 1j * mismatch - alpha
    drive = np.expm1(rate * LENGTH) / rate if rate else LENGTH
    pumps = math.sqrt(p[i] * p[j] * p[k]) * np.exp(0.3j * (i + j - k))
    wanted = 1j * degeneracy / 3 * GAMMA * pumps * drive
    wanted *= np.exp((1j * constants[new] - alpha / 2) * LENGTH)
    assert abs(made - wanted) < (5e-3 if dispersion != "matched" else 1e-4) * abs(wanted)


@pytest.mark.parametrize("integrator", ["strang", "rk4ip"])
@pytest.mark.parametrize("matched", [True, False])
def test_four_wave_mixing_between_modes(cpu, integrator, matched):
    """Two tones of mode a shift a tone of mode b, through κ_ba and the delay between modes.

    Phases match when β1_a Ω + β2_a(ω1² − ω2²)/2 = β1_b Ω + β2_b(ω4² − ω3²)/2 with Ω = ω1 − ω2.
    """
    one, two, three = 4, 1, -6
    four = three + one - two
    beta = np.zeros((2, 4))
    beta[:, 1] = -20e-27, -25e-27
    w = {line: 2 * np.pi * SPACING * line for line in (one, two, three, four)}
    beta[1, 0] = beta[0, 1] * (w[one] + w[two]) / 2 - beta[1, 1] * (w[three] + w[four]) / 2
    if not matched:
        beta[1, 0] += 2 * np.pi * 0.4 / (LENGTH * (w[one] - w[two]))
    kappa = np.array([[1.0, 0.3], [0.7, 0.9]])
    power = 1e-7
    start = np.zeros((4, N), complex)
    start[0] = math.sqrt(power) * (tone(one) + tone(two))
    start[3] = math.sqrt(power) * tone(three)
    fibre = make_fibre(kappa, beta=beta, gamma=GAMMA, alpha=LOSS)
    made = amplitude(run(start, fibre, LENGTH, DT, integrator, 800, cpu)[3], four)
    mismatch = 0.0 if matched else -2 * np.pi * 0.4 / LENGTH
    rate = 1j * mismatch - LOSS
    last = propagation_constant(beta[1], four)
    wanted = 1j * GAMMA * kappa[1, 0] * power**1.5 * np.expm1(rate * LENGTH) / rate
    wanted *= np.exp((1j * last - LOSS / 2) * LENGTH)
    assert abs(made - wanted) < 1e-3 * abs(wanted)


@pytest.mark.parametrize("integrator", ALL)
@pytest.mark.parametrize("line", [2, 3, 4])
def test_modulation_instability(cpu, integrator, line):
    """Gain |β2Ω| √(Ω_c² − Ω²), Ω_c² = 4κγP/|β2|, and the exact growth of one side band."""
    beta2, kappa, power, dt = -20e-27, 8 / 9, 0.5, 2e-12
    rate = kappa * GAMMA * power
    omega = 2 * np.pi * line * SPACING
    critical = 4 * rate / abs(beta2)
    assert omega**2 < critical
    gain = abs(beta2 * omega) * math.sqrt(critical - omega**2)
    length = 6000.0
    direction = np.array([[0.6], [0.8j]])
    seed = 1e-6 * math.sqrt(power)
    start = direction * (math.sqrt(power) + seed * tone(line))

    # u' = i(s + G)u + iGv*, v*' = −i(s + G)v* − iGu: growth at λ = gain/2.
    s, growth = -abs(beta2) * omega**2 / 2, gain / 2
    cosh, sinh = math.cosh(growth * length), math.sinh(growth * length)
    carrier = np.exp(1j * rate * length)
    u = seed * (cosh + 1j * (s + rate) / growth * sinh) * carrier
    v = np.conj(-1j * rate / growth * sinh * seed) * carrier
    wanted = direction * (math.sqrt(power) * carrier + u * tone(line) + v * tone(-line))
    out = run(start, single_mode(beta2, GAMMA), length, dt, integrator, 500, cpu)
    bands = [amplitude(out[0] / 0.6, k) for k in (line, -line)]
    np.testing.assert_allclose(bands, [u, v], rtol=2e-4)
    assert distance(out, wanted) < 1e-7
    # |v| = seed (2G/g) sinh(gz/2).
    assert gain * length > 3
    measured = 2 * math.asinh(abs(bands[1]) / seed * gain / (2 * rate)) / length
    assert measured == pytest.approx(gain, rel=1e-4)


def test_no_instability_above_the_cut_off(cpu):
    beta2, power = -20e-27, 0.5
    fibre = single_mode(beta2, GAMMA)
    critical = math.sqrt(4 * 8 / 9 * GAMMA * power / abs(beta2))
    line = math.ceil(critical / (2 * np.pi * SPACING)) + 1
    start = math.sqrt(power) * np.array([1 + 1e-6 * tone(line), np.zeros(N)])
    out = run(start, fibre, 6000.0, DT, "rk4ip", 500, cpu)
    assert abs(amplitude(out[0], -line)) < 3e-6 * math.sqrt(power)
