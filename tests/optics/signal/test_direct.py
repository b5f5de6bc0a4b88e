"""Direct detection of OOK and PAM-4 against the closed form of a photodiode behind a matched filter."""

import numpy as np
import pytest
from scipy.stats import chi2, ncx2

from wavefabric.base.errors import InputError
from wavefabric.optics.fibre.random_coupling import ModeMixing
from wavefabric.optics.signal.equaliser import Equaliser
from wavefabric.optics.signal.receiver import Receiver
from wavefabric.optics.signal.transmitter import Transmitter
from wavefabric.optics.signal.wdm import WdmGrid
from wavefabric.runtime.device import get_device

CPU = get_device("cpu", 2)


def sent(form, symbols=2**17, channels=1, **changes):
    grid = WdmGrid.centred(193.4e12, 50e9, channels, 32e9, 4 * channels, symbols)
    transmitter = Transmitter(grid, form, 0.2, 1e-3, **changes)
    field = CPU.empty((4, grid.samples), complex)
    transmitter.fill(CPU, field)
    return transmitter, field


def closed_form(levels, snr):
    """Bit errors and Q of intensities (mean 1) with complex noise of 1/snr in both polarisations.

    2 snr I is noncentral χ² with 4 degrees of freedom (P. A. Humblet, M. Azizoglu, J. Lightwave Technol. 9
    (1991) 1576, doi 10.1109/50.97649).
    """
    intensity = 2 * np.arange(levels) / (levels - 1)
    mean, spread = intensity + 2 / snr, np.sqrt(2 + 2 * intensity * snr) / snr
    between = (spread[:-1] * mean[1:] + spread[1:] * mean[:-1]) / (spread[1:] + spread[:-1])
    edges, number = 2 * snr * np.array([0, *between, np.inf]), np.arange(levels)
    rows = [ncx2.cdf(edges, 4, 2 * each * snr) if each else chi2.cdf(edges, 4) for each in intensity]
    gray = number ^ number >> 1
    apart = np.array([[int(a ^ b).bit_count() for b in gray] for a in gray])
    bits = np.log2(levels)
    q = ((mean[1:] - mean[:-1]) / (spread[1:] + spread[:-1])).min()
    return (np.diff(rows, axis=1) * apart).sum() / levels / bits, q


@pytest.mark.parametrize(
    ("form", "osnr"),
    [
        *(pytest.param("ook", osnr, marks=pytest.mark.slow) for osnr in (9.0,)),
        ("ook", 11.0),
        pytest.param("pam4", 17.0, marks=pytest.mark.slow),
        pytest.param("pam4", 20.0, marks=pytest.mark.slow),
    ],
)
def test_errors_and_q_of_amplified_light(form, osnr):
    transmitter, field = sent(form)
    result = Receiver(transmitter, osnr).receive(CPU, field)
    errors, q = closed_form(2**transmitter.format.bits_per_symbol, 10 ** (osnr / 10) * 2 * 12.5 / 32)
    counted = result.ber_counted.mean()
    assert counted == pytest.approx(errors, rel=0.02 + 3 / np.sqrt(errors * 2**19))
    np.testing.assert_allclose(result.q_squared_db, 20 * np.log10(q), atol=0.1)
    assert np.isnan(result.gmi).all()


def test_the_light_is_in_one_polarisation_and_comes_back():
    transmitter, field = sent("pam4", 4096)
    power = (abs(field) ** 2).mean(axis=1)
    np.testing.assert_allclose(power, [1e-3, 0, 1e-3, 0], rtol=0.05)
    result = Receiver(transmitter).receive(CPU, np.roll(field, 37, axis=1), keep=[(1, 0)])
    assert result.ber_counted.max() == 0
    np.testing.assert_allclose(result.delay, 37 / 4, atol=0.02)
    intensity = abs(transmitter.symbols(CPU, 2, 0)) ** 2
    np.testing.assert_allclose(result.points[1, 0][0].real, intensity, atol=0.1)


def test_polarisation_does_not_matter_and_dispersion_stays():
    """Any rotation of the polarisations has the same currents; only the delay of a channel is undone."""
    transmitter, field = sent("ook", 2048, channels=3, seed=2)
    omega = 2 * np.pi * np.fft.fftfreq(field.shape[1], 1 / transmitter.grid.sample_rate)
    beta = np.array([[1e-15, -21.7e-27, 0.1e-39, 0]] * 2)
    phase = -beta[0, 0] * omega + beta[0, 1] * omega**2 / 2 + beta[0, 2] * omega**3 / 6
    for length, closed in ((1e3, False), (40e3, True)):
        far = np.fft.ifft(np.fft.fft(field) * np.exp(1j * phase * length))
        turned = np.array([[0.6, 0.8], [-0.8, 0.6]]) @ far[:2]
        straight = Receiver(transmitter).receive(CPU, far, length, beta)
        other = Receiver(transmitter).receive(CPU, turned, length, beta[:1])
        np.testing.assert_allclose(other.q_squared_db[0], straight.q_squared_db[0], atol=1e-6)
        assert (straight.q_squared_db.max() < 12) == closed
        assert abs(straight.delay).max() < 1.5  # of up to 9 symbols; pulses have two humps after 40 km


def test_coherent_and_direct_channels_side_by_side():
    grid = WdmGrid([193.4e12, 193.45e12], [32e9, 16e9], 8, 4096)
    transmitter = Transmitter(grid, ["ook", "16qam"], 0.2, 1e-3)
    field = CPU.empty((2, grid.samples), complex)
    transmitter.fill(CPU, field)
    result = Receiver(transmitter, 25.0).receive(CPU, field)
    assert result.q_squared_db[0, 1] == pytest.approx(25 + 10 * np.log10(12.5 / 16), abs=0.2)
    assert result.q_squared_db[0, 0] == pytest.approx(
        20 * np.log10(closed_form(2, 10**2.5 * 25 / 32)[1]), abs=0.3
    )


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda tx: Receiver(tx, equaliser=Equaliser(2, 64)), "equaliser: given for ook"),
        (lambda tx: Receiver(tx, phase="blind-search"), "phase: 'blind-search' given for ook"),
        (
            lambda tx: Receiver(tx).receive(
                CPU, np.ones((2, tx.grid.samples), complex), inverse_mixing=ModeMixing.random([1], 1, 0)
            ),
            "inverse_mixing: given for direct detection; allowed: None",
        ),
    ],
)
def test_what_a_photodiode_cannot_undo(call, line):
    transmitter, _ = sent("ook", 256)
    with pytest.raises(InputError, match=line):
        call(transmitter)
