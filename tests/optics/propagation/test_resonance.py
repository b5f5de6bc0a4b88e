"""The resonance limit of the step: against spurious four-wave mixing itself, and what a run says of it."""

import math

import numpy as np
import pytest
from fibre_cases import make_fibre

from wavefabric.optics.propagation.propagate import propagate
from wavefabric.optics.propagation.resonance import delay_spread, step_limit
from wavefabric.runtime.device import get_device

CPU = get_device("cpu", 1)
N, BIN, EDGE = 64, 10e9, 12  # samples, Hz a bin, bin of the band's edge


def tone(fibre, rows, length, step, bins):
    """Power of bin EDGE of the first row after ``length`` m; ``rows``: {row: {bin: √W}}."""
    field = np.zeros((fibre.rows, N), complex)
    for row, lines in rows.items():
        for k, amplitude in lines.items():
            field[row] += amplitude * np.exp(2j * np.pi * k * np.arange(N) / N)
    out, _ = propagate(field, fibre, length, sample_rate=N * BIN, step=step, integrator="strang", device=CPU)
    return abs(np.fft.fft(out[0])[bins] / N) ** 2


def test_dispersion_limit_is_where_four_wave_mixing_becomes_phase_matched():
    beta2, gamma, pump, probe = -21.7e-27, 1e-3, 10e-3, 1e-6
    fibre = make_fibre([[1.0]], beta=[0, beta2, 0, 0], gamma=gamma)
    limit = step_limit(fibre, EDGE * BIN)
    w = 2 * math.pi * EDGE * BIN
    assert limit.dispersion == limit.step == pytest.approx(2 * math.pi / (abs(beta2) * w**2), rel=1e-12)
    assert limit.walk_off == math.inf
    assert limit.pair == ()
    # A pump in the middle and a probe at one edge make an idler at the other.
    length = 20 * limit.step
    rows = {0: {0: math.sqrt(pump), -EDGE: math.sqrt(probe)}}

    def idler(step):
        return tone(fibre, rows, length, step, EDGE)

    matched = (gamma * pump * length) ** 2 * probe
    assert idler(limit.step) == pytest.approx(matched, rel=0.1)
    # Half a resonance off it never adds up; well below, it is what it is in the fibre.
    assert idler(limit.step / 1.5) < 0.01 * matched
    assert idler(limit.step / 16) < 1e-4 * matched


@pytest.mark.parametrize("beta2", [0.0, -2e-27])
def test_walk_off_limit_is_where_cross_phase_modulation_becomes_phase_matched(beta2):
    delay, gamma, power, probe = 50e-15, 1e-3, 5e-3, 1e-6
    fibre = make_fibre([[0.0, 1.0], [0.0, 0.0]], beta=[[0, beta2, 0, 0], [delay, beta2, 0, 0]], gamma=gamma)
    limit = step_limit(fibre, EDGE * BIN)
    w = 2 * math.pi * EDGE * BIN
    assert delay > 2 * abs(beta2) * w
    assert limit.walk_off == limit.step == pytest.approx(2 * math.pi / (2 * w * delay), rel=1e-12)
    assert limit.pair == ("M1", "M2")
    assert limit.cause == "delay between M1 and M2 over a band of 0.24 THz"
    # Two tones at the edges in one mode; a probe in the other is thrown from one edge to the other.
    length = 20 * limit.step
    rows = {0: {-EDGE: math.sqrt(probe)}, 2: {-EDGE: math.sqrt(power), EDGE: math.sqrt(power)}}

    def thrown(step):
        return tone(fibre, rows, length, step, EDGE)

    matched = (gamma * power * length) ** 2 * probe
    assert thrown(limit.step) == pytest.approx(matched, rel=0.1)
    assert thrown(limit.step / 1.5) < 0.01 * matched
    assert thrown(limit.step / 16) < 1e-4 * matched


@pytest.mark.slow
def test_no_product_within_the_band_has_a_larger_mismatch():
    rng = np.random.default_rng(3)
    for d in (0.0, 2e-14, 3e-13):
        beta = np.array([[0, -21e-27, 0.1e-39, -1e-55], [d, -24e-27, 0.05e-39, 3e-55]])
        half = 1.5e12
        w = 2 * np.pi * half
        limit = step_limit(make_fibre(np.ones((2, 2)), beta=beta), half)
        o1, o2, o3 = rng.uniform(-w, w, (3, 400_000))
        o4 = o1 + o2 - o3
        inside = abs(o4) <= w

        def phase(b, o):
            return b[0] * o + b[1] * o**2 / 2 + b[2] * o**3 / 6 + b[3] * o**4 / 24

        # Beside the band (|ω4| up to 3w): four times as much; β3 and β4 there are beyond the estimate.
        flat = beta[1] * [1, 1, 0, 0]
        beside = phase(flat, o3) - phase(flat, o1) + phase(flat, o4) - phase(flat, o2)
        assert 0.7 * 4 * 24e-27 * w**2 < abs(beside).max() <= 4 * 24e-27 * w**2
        assert limit.field == limit.dispersion / 4
        o1, o2, o3, o4 = (o[inside] for o in (o1, o2, o3, o4))

        within = phase(beta[1], o3) - phase(beta[1], o1) + phase(beta[1], o4) - phase(beta[1], o2)
        across = phase(beta[1], o3) - phase(beta[1], o1) + phase(beta[0], o4) - phase(beta[0], o2)
        largest = 2 * np.pi / limit.dispersion, 2 * np.pi / limit.walk_off
        assert 0.8 * largest[0] < abs(within).max() <= largest[0]
        assert 0.8 * largest[1] < abs(across).max() <= largest[1] * 1.001


def test_nothing_limits_the_step_without_kerr_effect():
    beta = [[0, -21e-27, 0, 0], [1e-13, -22e-27, 0, 0]]
    for kappa, gamma in ((np.ones((2, 2)), 0.0), (np.zeros((2, 2)), 1e-3)):
        limit = step_limit(make_fibre(kappa, beta=beta, gamma=gamma), 1e12)
        assert (limit.step, limit.field, limit.pair) == (math.inf, math.inf, ())
    # Modes that do not act on each other do not walk off; one without Kerr effect creates nothing.
    apart = step_limit(make_fibre(np.diag([1.0, 0.0]), beta=beta), 1e12)
    assert (apart.walk_off, apart.cause) == (math.inf, "dispersion of M1 over a band of 2 THz")
    assert apart.step == pytest.approx(2 * math.pi / (21e-27 * (2e12 * math.pi) ** 2))
    # Both polarisations of a mode act on each other alone.
    rows = step_limit(make_fibre([[0.0, 1.0], [1.0, 0.0]], "row", beta=beta[:1]), 1e12)
    assert rows.step == apart.step


def test_delay_spread():
    fibre = make_fibre(np.eye(3), beta=[[0, 0, 0, 0], [-3e-15, 0, 0, 0], [4e-15, 0, 0, 0]])
    assert delay_spread(fibre) == (pytest.approx(7e-15), ("M2", "M3"))
    assert delay_spread(make_fibre([[1.0]]))[0] == 0
