"""Shaped QAM: entropy, probabilities, rates and errors against independent sums and samples."""

import numpy as np
import pytest

from wavefabric.base.errors import InputError
from wavefabric.optics.signal.constellation import Constellation, gmi, information_rates, mutual_information
from wavefabric.optics.signal.receiver import Receiver
from wavefabric.optics.signal.transmitter import Transmitter
from wavefabric.optics.signal.wdm import WdmGrid
from wavefabric.runtime.device import get_device

CPU = get_device("cpu", 1)


def probabilities(form):
    """The fraction of each point."""
    fraction = form.by_label(form.probabilities)
    return np.outer(fraction, fraction).ravel()


@pytest.mark.parametrize(
    ("name", "entropy"), [("64qam:5.2 bit", 5.2), ("16qam:3", 3), ("1024-QAM:8.5 bits", 8.5)]
)
def test_entropy_energy_and_the_exponential_law(name, entropy):
    form = Constellation(name)
    fraction, energy = probabilities(form), abs(form.points) ** 2
    assert -(fraction * np.log2(fraction)).sum() == pytest.approx(entropy, abs=1e-9)
    assert (fraction * energy).sum() == pytest.approx(1, abs=1e-12)
    slope = np.polyfit(energy, np.log(fraction), 1)[0]
    np.testing.assert_allclose(np.log(fraction / fraction.max()), slope * (energy - energy.min()), atol=1e-9)
    fourth = (fraction * energy**2).sum()
    np.testing.assert_allclose(
        form.excess_moments, (fourth - 2, (fraction * energy**3).sum() - 9 * fourth + 12), atol=1e-12
    )


def test_the_rate_of_all_bits_is_plain_qam():
    assert Constellation("64qam:6 bit") == Constellation("64qam")


def test_symbols_sent_have_these_shares():
    transmitter = Transmitter(WdmGrid([193.4e12], 32e9, 2, 2**17), "64qam:4.6 bit", 0.1, 1e-3)
    labels = transmitter.labels(CPU, 0, 0)
    counts = np.bincount(labels, minlength=64)
    expected = probabilities(transmitter.format) * len(labels)
    assert ((counts - expected) ** 2 / expected).sum() == pytest.approx(63, abs=5 * np.sqrt(2 * 63))
    field = CPU.empty((2, transmitter.grid.samples), complex)
    transmitter.fill(CPU, field)
    assert (abs(field) ** 2).sum(axis=0).mean() == pytest.approx(1e-3, rel=0.01)
    assert Receiver(transmitter).receive(CPU, field).evm.max() < 1e-12


@pytest.mark.parametrize(
    "name",
    [
        "16qam",
        pytest.param("64qam", marks=pytest.mark.slow),
        pytest.param("64qam:5 bit", marks=pytest.mark.slow),
        pytest.param("256qam:7 bit", marks=pytest.mark.slow),
        pytest.param("256qam", marks=pytest.mark.slow),
        "1024qam",
    ],
)
def test_errors_and_rates_counted_in_noise(name):
    """Bit errors within 2 % of the closed form; MI and GMI of samples within 0.01 bit of the quadrature."""
    snr = 10 ** (np.log2(Constellation(name).entropy) * 0.5)
    transmitter = Transmitter(WdmGrid([193.4e12], 32e9, 2, 2**17), name, 0.1, 1e-3)
    form, rng = transmitter.format, np.random.default_rng(3)
    sent = transmitter.symbols(CPU, 0, 0)
    noise = (rng.normal(size=len(sent)) + 1j * rng.normal(size=len(sent))) * np.sqrt(0.5 / snr)
    received = sent + noise
    errors = form.bit_errors(np, form.decide(np, sent), form.decide(np, received))
    assert errors / len(sent) / form.bits_per_symbol == pytest.approx(float(form.ber(snr)), rel=0.02)
    rates = information_rates(CPU, form, sent[None, None], received[None, None])[:, 0]
    np.testing.assert_allclose(rates, [mutual_information(form, snr), gmi(form, snr)], atol=0.012)


def test_shaping_comes_closer_to_capacity():
    """At 12 dB 64-QAM of 5.2 bit is within 0.04 bit of log₂(1 + SNR), where 64-QAM loses 0.29."""
    snr = 10**1.2
    capacity = np.log2(1 + snr)
    assert capacity - gmi("64qam:5.2 bit", snr) < 0.04
    assert capacity - gmi("64qam", snr) > 0.29
    assert mutual_information("64qam:5.2 bit", 1e5) == pytest.approx(5.2, abs=1e-6)


@pytest.mark.parametrize(
    "name", ["64qam:1", "64qam:6.5 bit", "64qam:five", "64qam:", "qpsk:1.5", "gaussian:3", "8qam", "ook:1"]
)
def test_names_that_are_no_format(name):
    with pytest.raises(InputError, match=r"^constellation: .* (allowed|given; allowed)") as caught:
        Constellation(name)
    assert "\n" not in str(caught.value)
