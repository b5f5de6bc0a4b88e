"""Overlaps and κ against closed forms, two-dimensional quadrature and Haar-random unitaries."""

import math

import numpy as np
import pytest
from scipy.special import eval_genlaguerre, factorial, roots_laguerre
from scipy.stats import unitary_group

from wavefabric.optics.fibre.modes import solve_modes
from wavefabric.optics.fibre.profile import ConstantIndex, IndexProfile, profile_62_5
from wavefabric.optics.fibre.sources import angular_overlap, kappa_strong_groups, kappa_weak, overlaps

LAM = 1550e-9


@pytest.fixture(scope="module")
def parabola():
    """Overlaps of groups 1–6 of a wide parabola, with the Gaussian's 1/e² radius squared (m²)."""
    profile = IndexProfile(80e-6, 0.3, 2, cladding=ConstantIndex(1.444))
    modes = solve_modes(profile, LAM, 0.04e-6).select(range(1, 7))
    return overlaps(modes), modes, 2 * 40e-6 / (2 * math.pi / LAM * 0.3)


@pytest.fixture(scope="module")
def real():
    modes = solve_modes(profile_62_5(), LAM, 0.05e-6)
    return overlaps(modes), modes


def test_angular_part_against_quadrature():
    phi = np.arange(256) * 2 * math.pi / 256
    for a in range(4):
        for b in range(4):
            for p in (1, -1) if a else (0,):
                for q in (1, -1) if b else (0,):
                    fa = (1 + p * np.cos(2 * a * phi)) / (2 * math.pi)
                    fb = (1 + q * np.cos(2 * b * phi)) / (2 * math.pi)
                    assert angular_overlap(a, p, b, q) == pytest.approx(
                        (fa * fb).mean() * 2 * math.pi, rel=1e-12
                    )


def test_labels_and_order(parabola):
    lap, _, _ = parabola
    assert lap.labels[:8] == ("LP01", "LP11a", "LP11b", "LP02", "LP21a", "LP21b", "LP12a", "LP12b")
    assert lap.groups.tolist() == np.repeat(range(1, 7), range(1, 7)).tolist()


def test_overlaps_match_laguerre_gauss(parabola):
    # Radial integrals of exact Laguerre-Gauss modes by Gauss-Laguerre quadrature (exact for polynomials).
    lap, modes, w2 = parabola
    x, weight = roots_laguerre(40)  # x = 4r²/w², so R⁴ carries e^(−x)
    t = x / 2
    squares = []
    for order, m in zip(modes.l.tolist(), modes.m.tolist(), strict=True):
        norm = 4 / w2 * factorial(m - 1) / factorial(m - 1 + order)
        squares.append(norm * t**order * eval_genlaguerre(m - 1, order, t) ** 2)
    squares = np.array(squares)
    radial = (squares * weight) @ squares.T * w2 / 8
    orders = modes.l[lap.lp]
    parity = np.array([{"a": 1, "b": -1}.get(label[-1], 0) for label in lap.labels])
    exact = radial[np.ix_(lap.lp, lap.lp)] * angular_overlap(orders[:, None], parity[:, None], orders, parity)
    np.testing.assert_allclose(lap.f, exact, rtol=1e-4)


def test_overlaps_match_hermite_gauss_by_hand(parabola):
    lap, _, w2 = parabola
    f = lap.f * math.pi * w2
    assert f[0, 0] == pytest.approx(1, rel=1e-5)
    assert f[0, 1] == pytest.approx(1 / 2, rel=1e-5)
    assert f[1, 1] == pytest.approx(3 / 4, rel=1e-5)
    assert f[1, 2] == pytest.approx(1 / 4, rel=1e-5)


def test_kappa_weak(real):
    f = real[0].f[:10, :10]
    kappa = kappa_weak(f, 1 / f[0, 0])
    assert kappa[0, 0] == pytest.approx(8 / 9, rel=1e-14)
    assert kappa[2, 5] == pytest.approx(4 / 3 * f[2, 5] / f[0, 0], rel=1e-14)
    assert kappa[3, 3] == pytest.approx(8 / 9 * f[3, 3] / f[0, 0], rel=1e-14)


def test_kappa_strong_of_one_group_of_six(real):
    lap, _ = real
    f = lap.f[lap.groups == 6][:, lap.groups == 6]
    kappa = kappa_strong_groups(f, np.full(6, 6), lap.a_eff[0])
    assert kappa.shape == (1, 1)
    assert kappa[0, 0] == pytest.approx(4 / 3 * 12 / 13 * f.mean() * lap.a_eff[0], rel=1e-14)


def test_kappa_strong_of_single_modes_is_kappa_weak(real):
    f = real[0].f[:4, :4]
    np.testing.assert_allclose(kappa_strong_groups(f, [1, 2, 3, 4], 1e-10), kappa_weak(f, 1e-10), rtol=1e-14)


def test_kappa_strong_against_haar_random_unitaries(real):
    """The Kerr polarisation of mixed fields, integrated over the cross-section, with all four-mode terms.

    P = (2/3)(E†E)E + (1/3)(EᵀE)E* with E = Σ_j F_j (x_j, y_j), averaged over independent unitaries.
    """
    lap, modes = real
    a_ref = float(lap.a_eff[0])
    turn = np.arange(32) * 2 * math.pi / 32
    thin = slice(0, int(np.searchsorted(modes.r, 32e-6)), 8)
    weight = np.repeat(modes.ring[thin] * 8, 32) * (2 * math.pi / 32)

    def on_grid(group):
        fields = []
        for i in np.flatnonzero(modes.group == group):
            order, radial = int(modes.l[i]), modes.radial[i, thin]
            shapes = (
                [np.full(32, 1 / math.sqrt(2 * math.pi))]
                if order == 0
                else [np.cos(order * turn) / math.sqrt(math.pi), np.sin(order * turn) / math.sqrt(math.pi)]
            )
            fields += [np.outer(radial, shape).ravel() for shape in shapes]
        return np.array(fields)

    rng = np.random.default_rng(7)
    a, b = on_grid(3), on_grid(4)
    own, cross = [], []
    for _ in range(500):
        ua = unitary_group.rvs(2 * len(a), random_state=rng)[:, 0].reshape(-1, 2)
        ub = unitary_group.rvs(2 * len(b), random_state=rng)[:, 0].reshape(-1, 2)
        ea, eb = ua.T @ a, ub.T @ b
        pa, pb = (np.abs(ea) ** 2).sum(axis=0), (np.abs(eb) ** 2).sum(axis=0)
        own.append(weight @ (2 / 3 * pa**2 + 1 / 3 * np.abs((ea**2).sum(axis=0)) ** 2))
        inner = np.abs((ea.conj() * eb).sum(axis=0)) ** 2
        outer = np.abs((ea * eb).sum(axis=0)) ** 2
        cross.append(weight @ (2 / 3 * (pa * pb + inner) + 2 / 3 * outer))
    keep = np.isin(lap.groups, (3, 4))
    kappa = kappa_strong_groups(lap.f[np.ix_(keep, keep)], lap.groups[keep], a_ref)
    for samples, value in ((own, kappa[0, 0]), (cross, kappa[0, 1])):
        mean, sigma = a_ref * np.mean(samples), a_ref * np.std(samples) / math.sqrt(len(samples))
        assert sigma < 0.01 * value
        assert abs(mean - value) < 4 * sigma
