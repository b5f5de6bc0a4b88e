"""Channels of different symbol rate, format and roll-off in one field."""

import numpy as np
import pytest

from wavefabric.base.errors import InputError
from wavefabric.optics.signal.equaliser import Equaliser
from wavefabric.optics.signal.receiver import Receiver
from wavefabric.optics.signal.transmitter import Transmitter
from wavefabric.optics.signal.wdm import WdmGrid
from wavefabric.runtime.device import get_device

CPU = get_device("cpu", 1)
FREQUENCIES, RATES = [193.47e12, 193.3e12, 193.37e12], [96e9, 32e9, 64e9]
FORMATS, ROLLOFFS, POWERS = ["16qam", "64qam", "qpsk"], [0.05, 0.1, 0.2], [3e-3, 1e-3, 2e-3]
GRID = WdmGrid(FREQUENCIES, RATES, 16, 1024)
BETA = np.array([[0.0, -23.1e-27, 0.12e-39, -2e-55]])


def mixed(**changes):
    arguments = {"constellation": FORMATS, "rolloff": ROLLOFFS, "launch_power": POWERS, "seed": 4}
    return Transmitter(GRID, **(arguments | changes))


def sent(transmitter, rows=2):
    field = CPU.empty((rows, transmitter.grid.samples), np.complex128)
    transmitter.fill(CPU, field)
    return field


def test_the_window_is_common_and_symbols_follow_from_it():
    assert GRID.sample_rate == 16 * 32e9
    assert GRID.samples == 16 * 1024
    assert GRID.channel_symbols.tolist() == [3072, 1024, 2048]
    assert GRID.lowest_rate == 32e9
    assert GRID.half_widths(ROLLOFFS).tolist() == [1612, 563, 1228]
    same = WdmGrid(FREQUENCIES, ["32 GBaud"] * 3, 16, 1024)
    assert same == WdmGrid(FREQUENCIES, 32e9, 16, 1024)


def test_each_channel_is_received_exactly_with_its_share_of_the_power():
    transmitter = mixed()
    result = Receiver(transmitter).receive(CPU, sent(transmitter), keep=[(0, 0), (0, 2)])
    assert result.evm.max() < 1e-12
    assert {key: points.shape for key, points in result.points.items()} == {
        (0, 0): (2, 3072),
        (0, 2): (2, 2048),
    }
    np.testing.assert_allclose(result.points[0, 2][1], transmitter.symbols(CPU, 1, 2), atol=1e-12)
    spectrum = abs(np.fft.fft(sent(transmitter), axis=1) / GRID.samples) ** 2
    for centre, half, power in zip(GRID.bins, GRID.half_widths(ROLLOFFS), POWERS, strict=True):
        band = spectrum[:, np.arange(centre - half, centre + half + 1)]
        assert band.sum() == pytest.approx(power, rel=0.05)


def test_channels_alike_keep_their_random_streams():
    """Symbols and noise of a channel depend on its number, not on the rates of others."""
    uniform = Transmitter(WdmGrid(FREQUENCIES[1:], 32e9, 16, 1024, 193.385e12), "qpsk", 0.1, 1e-3)
    other = WdmGrid(FREQUENCIES[1:], [32e9, 64e9], 16, 1024, 193.385e12)
    unlike = Transmitter(other, "qpsk", 0.1, 1e-3)
    noisy = [Receiver(tx, 15.0).receive(CPU, sent(tx)) for tx in (uniform, unlike)]
    assert noisy[0].q_squared_db[0, 0] == pytest.approx(noisy[1].q_squared_db[0, 0], abs=1e-9)


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_noise_passes_each_matched_filter(seed):
    """Q² = OSNR × 12.5 GHz over the channel's symbol rate; the bit errors are those of this ratio."""
    transmitter = mixed(seed=seed)
    field = sent(transmitter, 16)
    result = Receiver(transmitter, 15.0, noise_seed=seed).receive(CPU, field)
    expected = 15 + 10 * np.log10(12.5e9 / np.array(RATES))
    np.testing.assert_allclose(result.q_squared_db.mean(axis=0), expected, atol=0.08)
    np.testing.assert_allclose(result.ber_counted.mean(axis=0), result.ber_from_q.mean(axis=0), rtol=0.15)


def test_dispersion_lasers_and_the_equaliser():
    transmitter = mixed(linewidth=1e4)
    field, omega = sent(transmitter), 2 * np.pi * np.fft.fftfreq(GRID.samples, 1 / GRID.sample_rate)
    phase = omega**2 * BETA[0, 1] / 2 - omega**3 * BETA[0, 2] / 6 + omega**4 * BETA[0, 3] / 24
    field = np.fft.ifft(np.fft.fft(field) * np.exp(1j * phase * 80e3))
    assert Receiver(transmitter).receive(CPU, field, 80e3, BETA).q_squared_db.min() > 35
    equaliser = Equaliser(8, 256, decision_directed=False)
    trained = Receiver(transmitter, 30.0, equaliser=equaliser, linewidth=1e3)
    ideal = 30 + 10 * np.log10(12.5e9 / np.array(RATES))
    result = trained.receive(CPU, field, 80e3, BETA)
    np.testing.assert_allclose(result.q_squared_db[0], ideal, atol=1.2)


def test_noise_added_to_the_field_has_each_channels_density():
    """Between two channels it changes in the middle of the gap that their spectra leave."""
    field = np.zeros((2, GRID.samples), complex)
    Receiver(mixed(), 10.0).load_noise(CPU, field)
    spectrum = (abs(np.fft.fft(field)) ** 2).mean(axis=0) / GRID.samples / GRID.sample_rate
    for centre, half, power in zip(GRID.bins, GRID.half_widths(ROLLOFFS), POWERS, strict=True):
        density = spectrum[np.arange(centre - half, centre + half + 1)].mean()
        assert density == pytest.approx(power / (2 * 12.5e9 * 10), rel=0.08)


@pytest.mark.parametrize(
    ("rates", "symbols", "line"),
    [
        ([33e9, 32e9, 64e9], 100, r"symbols: 100 .* 3.125 ns, in which channel 1 at 33 GBaud has 103.125 "),
        ([33e9, 32e9, 64e9], 100, r"allowed: multiples of 32, such as 96 \(3 ns\) or 128 \(4 ns\)$"),
        ([32.0001e9, 32e9, 64e9], 100, "allowed: symbol rates whose ratios are simple fractions"),
        ([32e9, 64e9], 64, "symbol_rate: 2 values given for 3 channels; allowed: one value, or a list"),
        ([32e9, 64e9, -1.0], 64, "symbol_rate: -1.0 Hz given; allowed: a positive number"),
        ([32e9, 96e9, 64e9], 64, "frequencies: channels 70 GHz apart overlap; .* is 67.2 or 115.2 GHz wide"),
    ],
)
def test_rates_that_do_not_fit(rates, symbols, line):
    with pytest.raises(InputError, match=line):
        WdmGrid(FREQUENCIES, rates, 16, symbols).check([0.05, 0.2, 0.05])
