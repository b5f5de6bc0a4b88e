"""Information rates against other integrals, counted symbols against rates."""

import math

import numpy as np
import pytest
from scipy.integrate import quad

from wavefabric.optics.signal.constellation import Constellation, gmi, information_rates, mutual_information
from wavefabric.runtime.device import get_device

CPU = get_device("cpu")


def symbols(form, count, snr, seed=1):
    """Sent and received symbols (2, 1, count) of white Gaussian noise."""
    rng = np.random.default_rng(seed)

    def normal():
        return (rng.normal(size=(2, 1, count)) + 1j * rng.normal(size=(2, 1, count))) / math.sqrt(2)

    sent = (
        form.map(np, rng.integers(0, 1 << form.bits_per_symbol, (2, 1, count))) if form.digital else normal()
    )
    return sent, sent + normal() / math.sqrt(snr)


@pytest.mark.parametrize("snr_db", [-3.0, 2.0, 8.0])
def test_qpsk_is_twice_the_capacity_of_binary_antipodal_signals(snr_db):
    """C = 1 − ∫ N(t; m, 2m) log2(1 + e^−t) dt, m = 4 of its E/N0 (J. Hagenauer 2004); here E/N0 = snr / 2."""
    mean = 2 * 10 ** (snr_db / 10)
    density = 1 / math.sqrt(4 * math.pi * mean)

    def integrand(t):
        return density * math.exp(-((t - mean) ** 2) / (4 * mean)) * math.log2(1 + math.exp(-t))

    wide = 12 * math.sqrt(2 * mean)
    binary = 1 - quad(integrand, mean - wide, mean + wide, epsabs=1e-12, limit=200)[0]
    form, snr = Constellation("qpsk"), 10 ** (snr_db / 10)
    assert mutual_information(form, snr) == pytest.approx(2 * binary, abs=1e-8)
    assert gmi(form, snr) == pytest.approx(2 * binary, abs=1e-8)


@pytest.mark.parametrize(
    ("name", "snr_db"),
    [
        ("16qam", 3.0),
        pytest.param("16qam", 10.0, marks=pytest.mark.slow),
        pytest.param("64qam", 12.0, marks=pytest.mark.slow),
    ],
)
def test_qam_against_an_integral_over_the_plane(name, snr_db):
    """From the definitions, with all points and all labels, on a grid of the received plane."""
    form, snr = Constellation(name), 10 ** (snr_db / 10)
    axis = np.linspace(-1.7 - 7 / math.sqrt(2 * snr), 1.7 + 7 / math.sqrt(2 * snr), 500)
    y = axis[:, None] + 1j * axis
    q = np.array([snr / np.pi * np.exp(-snr * abs(y - x) ** 2) for x in form.points])
    cell, count, bits = (axis[1] - axis[0]) ** 2 / len(q), len(q), form.bits_per_symbol
    assert q.sum() * cell == pytest.approx(1, abs=1e-9)
    q, label = np.maximum(q, 1e-300), np.arange(count)
    mutual = (q * np.log2(q / q.mean(axis=0))).sum() * cell
    bitwise = 0.0
    for k in range(bits):
        sets = [q[(label >> k & 1) == value] for value in (0, 1)]
        bitwise += sum((part * np.log2(part.mean(axis=0) / q.mean(axis=0))).sum() for part in sets) * cell
    assert mutual_information(form, snr) == pytest.approx(mutual, abs=1e-6)
    assert gmi(form, snr) == pytest.approx(bitwise, abs=1e-6)
    assert bitwise < mutual


def test_limits_and_gaussian_symbols():
    snr = np.array([1e-4, 1e4])
    for name, bits in (("qpsk", 2), ("16qam", 4), ("64qam", 6)):
        form = Constellation(name)
        np.testing.assert_allclose(mutual_information(form, snr), [math.log2(1 + 1e-4), bits], rtol=1e-3)
        assert gmi(form, 0.0) == pytest.approx(0, abs=1e-9)
    gaussian = Constellation("gaussian")
    np.testing.assert_allclose(mutual_information(gaussian, snr), np.log2(1 + snr))
    assert np.isnan(gmi(gaussian, snr)).all()


@pytest.mark.parametrize("name", ["qpsk", "16qam", "64qam", "gaussian"])
def test_rates_of_received_symbols_are_those_of_their_noise(name):
    form = Constellation(name)
    sent, received = symbols(form, 1 << 16, 10.0)
    mutual, bitwise = information_rates(CPU, form, sent, received)
    # The standard deviation of a density of information is about a bit.
    assert mutual[0] == pytest.approx(mutual_information(form, 10.0), abs=0.015)
    np.testing.assert_allclose(bitwise[0], gmi(form, 10.0), atol=0.015)


def test_neither_silence_nor_one_wild_symbol_breaks_the_rates():
    form = Constellation("16qam")
    sent, _ = symbols(form, 4096, 1.0)
    np.testing.assert_allclose(information_rates(CPU, form, sent, sent), 4)
    wild = sent.copy()
    wild[0, 0, 5] += 1e6
    assert np.isfinite(information_rates(CPU, form, sent, wild)).all()
