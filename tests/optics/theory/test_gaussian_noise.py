"""The Gaussian-noise model against closed forms and a dense sum over frequencies."""

import math

import numpy as np
import pytest

from wavefabric.base.errors import InputError
from wavefabric.optics.fibre.fibre import Fibre
from wavefabric.optics.fibre.presets import coupled_group, single_mode
from wavefabric.optics.signal.transmitter import Transmitter, root_raised_cosine
from wavefabric.optics.signal.wdm import WdmGrid
from wavefabric.optics.theory.gaussian_noise import Options, nonlinear_interference
from wavefabric.optics.theory.line import LinkLine, LinkPart, Spans
from wavefabric.optics.theory.response import Accumulation

LOSS = 0.2e-3 * math.log(10) / 10


def transmitter(channels=1, power=1e-3, rolloff=0.1, spacing=50e9, form="gaussian"):
    return Transmitter(WdmGrid.centred(193.4e12, spacing, channels, 32e9, 32, 512), form, rolloff, power)


def test_without_dispersion_all_mixes_in_phase():
    """16/27 γ² L_eff² P³ ∫∬ of four rectangles, 2/3; spans add up in phase."""
    sent = transmitter(rolloff=0.0)
    fibre = single_mode(0.0, 1.3e-3, LOSS)
    effective = -math.expm1(-LOSS * 80e3) / LOSS
    one = 16 / 27 * (1.3e-3 * effective) ** 2 * 1e-9 * 2 / 3
    assert nonlinear_interference(fibre, sent, Spans(80e3))[0, 0] == pytest.approx(one, rel=3e-3)
    assert nonlinear_interference(fibre, sent, Spans(80e3, 3))[0, 0] == pytest.approx(9 * one, rel=3e-3)
    apart = nonlinear_interference(fibre, sent, Spans(80e3, 3, coherent=False))
    assert apart[0, 0] == pytest.approx(3 * one, rel=3e-3)


def dense(fibre: Fibre, sent: Transmitter, spans: int, mode: int, channel: int) -> float:
    """The double integral of the model as a sum over a fine grid, W; of many channels, modes and spans."""
    grid, length = sent.grid, 80e3
    df = grid.symbol_rate / 160
    edge = abs(grid.offsets).max() + 0.55 * grid.symbol_rate
    axis = np.arange(-edge + df / 2, edge, df)

    def spectrum(f, of):
        shape = root_raised_cosine(np.subtract.outer(f, grid.offsets) / grid.symbol_rate, sent.rolloff) ** 2
        return shape @ (sent.powers(fibre.modes)[of] / 2 / grid.symbol_rate)

    def phase(of, f):
        return sum(fibre.beta[of, n] * (2 * math.pi * f) ** (n + 1) / math.factorial(n + 1) for n in range(4))

    u, weights = np.polynomial.legendre.leggauss(12)
    total = 0.0
    for f, weight in zip(u * 17.6e9 + grid.offsets[channel], weights * 17.6e9, strict=True):
        matched = root_raised_cosine((f - grid.offsets[channel]) / 32e9, sent.rolloff) ** 2
        third = np.add.outer(axis, axis) - f
        for other in range(fibre.modes):
            mismatch = (
                np.add.outer(phase(mode, axis), phase(other, axis)) - phase(other, third) - phase(mode, f)
            )
            rate = 1j * mismatch - fibre.alpha[other]
            mu = np.expm1(rate * length) / rate
            mu *= sum(np.exp(1j * mismatch * length * s) for s in range(spans))
            # Two rows: one acts on the other once, and on itself twice.
            rows = 3 if other == mode else 2
            factor = rows * (fibre.gamma * fibre.kappa[mode, other]) ** 2
            mixed = np.outer(spectrum(axis, mode), spectrum(axis, other)) * spectrum(third, other)
            total += 2 * weight * matched * factor * (mixed * abs(mu) ** 2).sum() * df**2
    return total


@pytest.mark.slow
def test_two_modes_with_delay_against_a_dense_sum():
    """β1 … β4 differ; between modes light mixes in phase 50 GHz apart."""
    beta = [[0, -21.7e-27, 0.1e-39, 0], [-21.7e-27 * 2 * math.pi * 50e9, -25e-27, 0.2e-39, 1e-52]]
    fibre = Fibre.from_coefficients(beta, [[8 / 9, 0.6], [0.6, 0.7]], 1.3e-3, LOSS)
    sent = transmitter(2, [[0.5e-3, 1e-3], [2e-3, 0.7e-3]])
    ours = nonlinear_interference(fibre, sent, Spans(80e3, 2))
    for mode in range(2):
        assert ours[mode, mode] == pytest.approx(dense(fibre, sent, 2, mode, mode), rel=0.015)


def test_kappa_of_rows_modes_and_groups_agree():
    sent = transmitter(3)
    options = {"beta": [[0, -21.7e-27]] * 2, "gamma": 1.3e-3, "alpha": LOSS}
    group = coupled_group(2, -21.7e-27, 1.3e-3, LOSS)
    factor = group.kappa[0, 0]
    by = [Fibre.from_coefficients(kappa=np.full((n, n), factor), **options) for n in (2, 4)]
    reference = nonlinear_interference(group, sent, Spans(80e3))
    for fibre in by:
        np.testing.assert_allclose(nonlinear_interference(fibre, sent, Spans(80e3)), reference, rtol=1e-12)
    # Four rows of equal power: a row counts twice for itself, once for each of the others.
    one = nonlinear_interference(single_mode(-21.7e-27, 1.3e-3, LOSS, kappa=factor), sent, Spans(80e3))
    np.testing.assert_allclose(reference, np.repeat(one * 5 / 3, 2, axis=0), rtol=1e-12)


def test_power_cubed_dark_channels_and_unsorted_grids():
    fibre = single_mode(-21.7e-27, 1.3e-3, LOSS)
    plain = nonlinear_interference(fibre, transmitter(3), Spans(80e3))
    double = nonlinear_interference(fibre, transmitter(3, 2e-3), Spans(80e3))
    np.testing.assert_allclose(double, 8 * plain, rtol=1e-12)
    np.testing.assert_allclose(plain[0, 0], plain[0, 2], rtol=1e-9)
    alone = nonlinear_interference(fibre, transmitter(3, [0, 1e-3, 0]), Spans(80e3))[0, 1]
    assert alone == pytest.approx(nonlinear_interference(fibre, transmitter(), Spans(80e3))[0, 0], rel=2e-3)
    grid = WdmGrid([193.45e12, 193.4e12, 193.35e12], 32e9, 32, 512)
    turned = nonlinear_interference(
        fibre, Transmitter(grid, "gaussian", 0.1, [1e-3, 2e-3, 3e-3]), Spans(80e3)
    )
    straight = nonlinear_interference(fibre, transmitter(3, [3e-3, 2e-3, 1e-3]), Spans(80e3))
    np.testing.assert_allclose(turned[0, ::-1], straight[0], rtol=1e-9)
    some = nonlinear_interference(fibre, transmitter(3), Spans(80e3), Options(channels=(1,)))
    np.testing.assert_allclose(some, [[np.nan, plain[0, 1], np.nan]], rtol=1e-12)
    with pytest.raises(InputError, match=r"channels: 3 given; allowed: 0 to 2"):
        nonlinear_interference(fibre, transmitter(3), Spans(80e3), Options(channels=(3,)))


def test_moments_order_the_formats():
    fibre = single_mode(-21.7e-27, 1.3e-3, LOSS)
    qpsk, qam16, qam64, gaussian = (
        nonlinear_interference(fibre, transmitter(3, form=form), Spans(80e3, 2))[0, 1]
        for form in ("qpsk", "16qam", "64qam", "gaussian")
    )
    assert 0.3 * gaussian < qpsk < qam16 < qam64 < gaussian
    same = nonlinear_interference(
        fibre, transmitter(3, form="qpsk"), Spans(80e3, 2), Options(modulation=False)
    )
    assert same[0, 1] == gaussian


def test_powers_along_pumped_fibre():
    """μ against an integral over z; each channel mixes by its own profile, in any order of the channels."""
    sent = Transmitter(WdmGrid((193.45e12, 193.35e12, 193.4e12), 32e9, 32, 512), "gaussian", 0.1, 1e-3)
    fibre, length = single_mode(-21.7e-27, 1.3e-3, LOSS), 80e3

    def power(z, gains):
        return np.exp(np.multiply.outer(gains, np.expm1(z / 20e3) / math.expm1(4)) - LOSS * z)

    def line(gains):
        profile = power(np.arange(1, 17) * length / 16, gains)[None]
        return LinkLine((LinkPart(fibre, length, 2 * profile[..., -1], profile=profile),), (1,))

    gains = np.array([2.2, 0.6, 1.3])
    (stretches,) = line(gains).stretches(np.array([[0, 0, 1]]), 1e11)
    z, mismatch = np.linspace(0, length, 100_001), np.array([0, 3e-5, -2e-4, 1e-3])
    integral = np.trapezoid(power(z, 1.3) * np.exp(1j * np.multiply.outer(mismatch, z)), z)
    np.testing.assert_allclose(
        Accumulation(stretches).amplitude(mismatch), integral, atol=3e-3 * integral[0].real
    )
    assert math.prod(each.gain for each in stretches) == pytest.approx(2 * power(length, 1.3))

    ours = nonlinear_interference(fibre, sent, line(gains))[0]
    for channel, gain in enumerate(gains):
        alike = nonlinear_interference(fibre, sent, line(np.full(3, gain)))[0, channel]
        assert ours[channel] == pytest.approx(alike, rel=1e-9)
    unpumped = nonlinear_interference(fibre, sent, line(np.zeros(3))) / (2 * math.exp(-LOSS * length))
    plain = nonlinear_interference(fibre, sent, Spans(length, gain=1.0)) / math.exp(-LOSS * length)
    np.testing.assert_allclose(unpumped, plain, rtol=1e-3)
