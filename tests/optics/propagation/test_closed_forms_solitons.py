"""Closed forms 1–3: scalar solitons of order 1 to 3, the Manakov soliton, the M-mode soliton."""

import numpy as np
import pytest
from fibre_cases import ALL, FOURTH, distance, make_fibre, run, times, unit_vector

from wavefabric.optics.fibre.presets import coupled_group, single_mode

BETA2, GAMMA, T0 = -20e-27, 1.3e-3, 10e-12
DISPERSION_LENGTH = T0**2 / abs(BETA2)
PERIOD = np.pi / 2 * DISPERSION_LENGTH
DT = 25 * T0 / 256
T = times(256, DT)


def soliton(order: int, xi: float, tau: np.ndarray) -> np.ndarray:
    """Soliton of order 1 or 2 of i u_ξ + u_ττ/2 + |u|²u = 0.

    J. Satsuma, N. Yajima 1974, doi 10.1143/PTPS.55.284.
    """
    if order == 1:
        return np.exp(0.5j * xi) / np.cosh(tau)
    above = np.cosh(3 * tau) + 3 * np.exp(4j * xi) * np.cosh(tau)
    return 4 * np.exp(0.5j * xi) * above / (np.cosh(4 * tau) + 4 * np.cosh(2 * tau) + 3 * np.cos(4 * xi))


def scalar(order: int, xi: float):
    """Field rows of a soliton in one polarisation, κ = 1."""
    peak = np.sqrt(abs(BETA2) / (GAMMA * T0**2))
    return peak * np.array([soliton(order, xi, T / T0), np.zeros(T.size)])


def steps_for(integrator: str, coarse: int) -> int:
    return coarse if integrator in FOURTH else 6 * coarse


@pytest.mark.parametrize("integrator", ALL)
@pytest.mark.parametrize(("order", "fraction", "coarse"), [(1, 1.0, 100), (2, 0.5, 200), (2, 0.3, 120)])
def test_first_and_second_order(cpu, integrator, order, fraction, coarse):
    fibre = single_mode(BETA2, GAMMA, kappa=1.0)
    xi = fraction * np.pi / 2
    out = run(scalar(order, 0), fibre, fraction * PERIOD, DT, integrator, steps_for(integrator, coarse), cpu)
    assert distance(out, scalar(order, xi)) < 2e-4


@pytest.mark.slow
@pytest.mark.parametrize("integrator", ALL)
def test_third_order_after_a_period(cpu, integrator):
    # Eigenvalues i(1, 3, 5)/2 of the scattering problem: phases η² ξ/2 agree at ξ = π/2, and are π/4.
    dt = 0.4 * DT
    peak = 3 * np.sqrt(abs(BETA2) / (GAMMA * T0**2))
    start = peak * np.array([1 / np.cosh(times(512, dt) / T0), np.zeros(512)])
    fibre, steps = single_mode(BETA2, GAMMA, kappa=1.0), 1500 if integrator in FOURTH else 5000
    out = run(start, fibre, PERIOD, dt, integrator, steps, cpu)
    assert distance(out, start * np.exp(0.25j * np.pi)) < 2e-3


def test_second_order_is_not_there_with_a_wrong_factor(cpu):
    """The tolerance above sees 1 % of the nonlinear coefficient, and of the dispersion."""
    for fibre in (single_mode(BETA2, 1.01 * GAMMA, kappa=1.0), single_mode(1.01 * BETA2, GAMMA, kappa=1.0)):
        out = run(scalar(2, 0), fibre, 0.5 * PERIOD, DT, "rk4ip", 200, cpu)
        assert distance(out, scalar(2, np.pi / 4)) > 1e-2


@pytest.mark.parametrize("integrator", ALL)
@pytest.mark.parametrize("modes", [1, 2, 3])
def test_manakov_soliton_in_any_direction(cpu, modes, integrator):
    kappa = 4 / 3 * 2 * modes / (2 * modes + 1)
    direction = unit_vector(2 * modes, seed=modes)[:, None]
    peak = np.sqrt(abs(BETA2) / (kappa * GAMMA * T0**2))
    start = peak * direction / np.cosh(T / T0)
    length = 2 * DISPERSION_LENGTH
    out = run(
        start, coupled_group(modes, BETA2, GAMMA), length, DT, integrator, steps_for(integrator, 100), cpu
    )
    assert distance(out, start * np.exp(0.5j * length / DISPERSION_LENGTH)) < 2e-4


@pytest.mark.parametrize("integrator", ALL)
def test_soliton_of_many_modes(cpu, integrator):
    """A_j = √p_j sech(t/T0) with Σ_k κ_jk p_k = |β2,j|/(γT0²), other powers and κ for each mode."""
    rng = np.random.default_rng(3)
    modes = 4
    kappa = rng.uniform(0.1, 0.5, (modes, modes)) + np.diag(rng.uniform(0.8, 1.2, modes))
    # Another β2 in each mode, so another speed of phase: the hyperbolic secant still fits all.
    beta2 = BETA2 * np.array([1.0, 0.9, 1.1, 1.05])
    p = np.linalg.solve(kappa, abs(beta2) / (GAMMA * T0**2))
    assert (p > 0).all()
    assert abs(kappa - kappa.T).max() > 0.05
    beta = np.zeros((modes, 4))
    beta[:, 1] = beta2
    fraction = np.concatenate([unit_vector(2, seed) for seed in range(modes)])
    start = (np.sqrt(np.repeat(p, 2)) * fraction)[:, None] / np.cosh(T / T0)
    length = 2 * DISPERSION_LENGTH
    fibre = make_fibre(kappa, beta=beta, gamma=GAMMA)
    out = run(start, fibre, length, DT, integrator, steps_for(integrator, 100), cpu)
    phase = np.repeat(abs(beta2), 2)[:, None] * length / (2 * T0**2)
    assert distance(out, start * np.exp(1j * phase)) < 2e-4
