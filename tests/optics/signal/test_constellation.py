"""Formats: energy, Gray code, bits, and bit error ratios against counting."""

import numpy as np
import pytest
from scipy.special import erfc

from wavefabric.base.errors import InputError
from wavefabric.optics.signal.constellation import Constellation

DIGITAL = ["qpsk", "16qam", "64qam"]


@pytest.mark.parametrize("name", DIGITAL)
def test_unit_energy_and_distinct_points(name):
    points = Constellation(name).points
    assert np.mean(abs(points) ** 2) == pytest.approx(1, abs=1e-14)
    assert len(set(np.round(points, 9))) == 2 ** Constellation(name).bits_per_symbol


@pytest.mark.parametrize("name", DIGITAL)
def test_neighbours_differ_in_one_bit(name):
    points = Constellation(name).points
    distance = abs(points[:, None] - points)
    nearest = distance[distance > 1e-9].min()
    a, b = np.nonzero(abs(distance - nearest) < 1e-9)
    assert all(int(x).bit_count() == 1 for x in a ^ b)


@pytest.mark.parametrize("name", DIGITAL)
def test_labels_to_symbols_and_back(name):
    form = Constellation(name)
    labels = np.random.default_rng(1).integers(0, form.points.size, (3, 40))
    symbols = form.map(np, labels)
    assert symbols.shape == (3, 40)
    assert (form.decide(np, symbols) == labels).all()
    assert (form.decide(np, 1.05 * form.points * np.exp(0.02j)) == np.arange(form.points.size)).all()


@pytest.mark.parametrize("name", DIGITAL)
@pytest.mark.parametrize("target", [2e-1, 1e-2])
def test_bit_error_ratio_against_counting(name, target):
    form, rng, n = Constellation(name), np.random.default_rng(2), 400_000
    snr_db = np.arange(-10, 30, 0.1)
    snr = 10 ** (snr_db[np.argmin(abs(form.ber(10 ** (snr_db / 10)) - target))] / 10)
    sent = rng.integers(0, form.points.size, n)
    noise = (rng.normal(size=n) + 1j * rng.normal(size=n)) / np.sqrt(2 * snr)
    errors = form.bit_errors(np, sent, form.decide(np, form.map(np, sent) + noise))
    expected = float(form.ber(snr))
    bits = n * form.bits_per_symbol
    # Bits of one symbol are not independent: allow for that in the spread.
    spread = np.sqrt(form.bits_per_symbol * expected / bits)
    assert errors / bits == pytest.approx(expected, abs=4 * spread)


def test_qpsk_is_the_binary_formula():
    snr = np.array([1.0, 10.0, 39.06])
    np.testing.assert_allclose(Constellation("QPSK").ber(snr), erfc(np.sqrt(snr / 2)) / 2, rtol=1e-13)
    assert Constellation("QPSK").ber(36.0) == pytest.approx(9.8659e-10, rel=1e-4)


def test_gaussian_symbols_have_no_bits():
    form = Constellation("gaussian")
    assert not form.digital
    assert np.isnan(form.ber([1.0])).all()
    with pytest.raises(InputError, match="gaussian"):
        _ = form.points


def test_bad_input():
    with pytest.raises(InputError, match="8psk"):
        Constellation("8psk")
    assert Constellation("16-QAM").name == "16qam"
