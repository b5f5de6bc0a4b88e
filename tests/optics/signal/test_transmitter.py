"""The transmitter: pulses, power, places in the band, symbols made again."""

import numpy as np
import pytest

from wavefabric.base.errors import InputError
from wavefabric.optics.signal.transmitter import Transmitter, root_raised_cosine
from wavefabric.optics.signal.wdm import WdmGrid
from wavefabric.runtime.device import get_device

CPU = get_device("cpu")
GRID = WdmGrid.centred(193.4e12, 50e9, 3, 32e9, 8, 500)


def waveform(transmitter, rows, dtype=np.complex128):
    field = CPU.zeros((rows, transmitter.grid.samples), dtype)
    transmitter.fill(CPU, field)
    return field


@pytest.mark.parametrize("rolloff", [0.0, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("symbols", [64, 63])
def test_matched_pulses_add_up_to_one(rolloff, symbols):
    bins = np.fft.fftfreq(2 * symbols, 1 / (2 * symbols))
    square = root_raised_cosine(bins / symbols, rolloff) ** 2
    np.testing.assert_allclose(square[:symbols] + square[symbols:], 1, atol=1e-14)


def test_qpsk_power_is_exact():
    power = np.array([[1e-3, 2e-3, 0.0], [3e-3, 1e-4, 5e-4]])
    field = waveform(Transmitter(GRID, "qpsk", 0.1, power), 4)
    np.testing.assert_allclose((abs(field) ** 2).mean(axis=1), np.repeat(power.sum(1) / 2, 2), rtol=1e-12)


@pytest.mark.parametrize("name", ["16qam", "64qam", "gaussian"])
def test_power_of_other_formats_in_expectation(name):
    grid = WdmGrid.centred(193.4e12, 50e9, 1, 32e9, 2, 50_000)
    field = waveform(Transmitter(grid, name, 0.1, 1e-3), 2)
    np.testing.assert_allclose((abs(field) ** 2).mean(axis=1), 5e-4, rtol=0.02)


def test_a_channel_of_higher_optical_frequency_sits_at_negative_numpy_frequency():
    field = waveform(Transmitter(GRID, "qpsk", 0.1, [0, 0, 1e-3]), 2)
    spectrum = abs(np.fft.fft(field, axis=1)) ** 2
    mean = (spectrum * np.fft.fftfreq(GRID.samples, 1 / GRID.sample_rate)).sum(1) / spectrum.sum(1)
    assert GRID.offsets[2] == pytest.approx(50e9, abs=GRID.resolution / 2)
    np.testing.assert_allclose(mean, -50e9, atol=1e9)


def test_samples_are_pulses_summed_in_time():
    grid = WdmGrid([193.4e12], 32e9, 8, 16)
    transmitter = Transmitter(grid, "16qam", 0.3, 2e-3, seed=5)
    field = waveform(transmitter, 2)
    bins = np.fft.fftfreq(grid.samples, 1 / grid.samples)
    shape = root_raised_cosine(bins / grid.symbols, 0.3)
    time = np.arange(grid.samples)
    # The periodic pulse by its Fourier series, symbol by symbol.
    pulse = (shape * np.exp(2j * np.pi * np.outer(time, bins) / grid.samples)).sum(1) / grid.symbols
    sent = transmitter.symbols(CPU, 1, 0)
    expected = sum(a * np.roll(pulse, 8 * n) for n, a in enumerate(sent)) * np.sqrt(1e-3)
    np.testing.assert_allclose(field[1], expected, atol=1e-12)


def test_symbols_follow_from_seed_row_and_channel():
    one, two = (Transmitter(GRID, "64qam", 0.1, 1e-3, seed=s) for s in (1, 2))
    a = one.symbols(CPU, 3, 1)
    assert (one.symbols(CPU, 3, 1) == a).all()
    assert (one.row_symbols(CPU, 3)[1] == a).all()
    for other in (one.symbols(CPU, 3, 2), one.symbols(CPU, 2, 1), two.symbols(CPU, 3, 1)):
        assert (other != a).mean() > 0.9


def test_a_seed_means_the_same_in_every_version():
    """Values once drawn: whoever repeats a run years later gets the same symbols."""
    grid = WdmGrid.centred(193.4e12, 50e9, 2, 32e9, 4, 16)
    labels = Transmitter(grid, "16qam", 0.1, 1e-3, seed=4).labels(CPU, 3, 1)
    assert labels.tolist() == [5, 5, 3, 1, 11, 4, 9, 11, 3, 5, 9, 3, 12, 8, 4, 3]
    symbols = Transmitter(grid, "gaussian", 0.1, 1e-3, seed=4).symbols(CPU, 3, 1)
    drawn = [-0.11847256508553823 + 0.8278800815303053j, -0.5015259204539746 - 0.7679652624247081j]
    np.testing.assert_allclose(symbols[:2], drawn, rtol=1e-12)


def test_a_row_needs_no_more_modes_than_it_has():
    transmitter = Transmitter(GRID, "qpsk", 0.1, np.array([[1e-3], [2e-3]]))
    row = CPU.zeros((1, GRID.samples), complex)
    transmitter.fill(CPU, row, first_row=3)
    np.testing.assert_array_equal(row[0], waveform(transmitter, 4)[3])


def test_rows_may_be_filled_apart():
    transmitter = Transmitter(GRID, "qpsk", 0.1, np.array([[1e-3], [2e-3], [3e-3]]))
    whole = waveform(transmitter, 6)
    part, row = CPU.zeros((2, GRID.samples), complex), CPU.zeros((1, GRID.samples), complex)
    transmitter.fill(CPU, part, first_row=2, modes=3)
    transmitter.fill(CPU, row, first_row=5, modes=3)
    np.testing.assert_array_equal(part, whole[2:4])
    np.testing.assert_array_equal(row[0], whole[5])


def test_single_precision():
    transmitter = Transmitter(GRID, "qpsk", 0.1, 1e-3)
    single, double = waveform(transmitter, 2, np.complex64), waveform(transmitter, 2)
    assert single.dtype == np.complex64
    assert np.linalg.norm(single - double) < 3e-7 * np.linalg.norm(double)


def test_progress_is_told():
    told = []
    field = CPU.zeros((2, GRID.samples), complex)
    Transmitter(GRID, "qpsk", 0.1, 1e-3).fill(CPU, field, progress=lambda *a: told.append(a))
    assert told == [(1, 2), (2, 2)]


def test_bad_input():
    for power in (-1e-3, np.nan, [1e-3, 1e-3], np.ones((1, 1, 3))):
        with pytest.raises(InputError, match="launch_power"):
            Transmitter(GRID, "qpsk", 0.1, power)
    with pytest.raises(InputError, match="rolloff"):
        Transmitter(GRID, "qpsk", 2.0, 1e-3)
    with pytest.raises(InputError, match="seed"):
        Transmitter(GRID, "qpsk", 0.1, 1e-3, seed=-1)
    with pytest.raises(InputError, match="2 modes"):
        waveform(Transmitter(GRID, "qpsk", 0.1, np.ones((2, 1))), 6)
    with pytest.raises(InputError, match="field"):
        Transmitter(GRID, "qpsk", 0.1, 1e-3).fill(CPU, CPU.zeros((2, 16), complex))
