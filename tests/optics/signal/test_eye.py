"""Waveforms of eye diagrams against the matched-filtered field, resampled on its own."""

import numpy as np
import pytest

from wavefabric.optics.signal.equaliser import Equaliser
from wavefabric.optics.signal.receiver import Receiver
from wavefabric.optics.signal.recovery import EYE_SAMPLES, EYE_SYMBOLS
from wavefabric.optics.signal.transmitter import Transmitter, root_raised_cosine
from wavefabric.optics.signal.wdm import WdmGrid

SYMBOLS = 512


def signal(cpu, modulation, rates=32e9, **options):
    grid = WdmGrid.centred(193.4e12, 75e9, 2, rates, 8, SYMBOLS)
    transmitter = Transmitter(grid, modulation, 0.3, 1e-3, **options)
    field = cpu.empty((2, grid.samples), np.complex128)
    transmitter.fill(cpu, field)
    return transmitter, field


def filtered(transmitter, field, channel):
    """The channel's field behind its matched filter at 4 samples per symbol, of unit mean symbol energy."""
    grid = transmitter.grid
    f = np.fft.fftfreq(grid.samples, 1 / grid.sample_rate) + grid.offsets[channel]
    shape = root_raised_cosine(f / 32e9, 0.3)
    spectrum = np.roll(np.fft.fft(field) * shape, round(grid.offsets[channel] / grid.resolution), axis=1)
    few = EYE_SAMPLES * SYMBOLS
    half = few // 2
    spectrum = np.concatenate([spectrum[:, :half], spectrum[:, -half:]], axis=1)
    waveform = np.fft.ifft(spectrum, axis=1) * (few / grid.samples)
    return waveform[:, : EYE_SYMBOLS * EYE_SAMPLES] / np.sqrt(1e-3 / 2)


@pytest.mark.parametrize("modulation", ["qpsk", "64qam"])
def test_a_coherent_eye(cpu, modulation):
    transmitter, field = signal(cpu, modulation)
    late = 3  # samples of eight per symbol
    result = Receiver(transmitter, frequency_offset=1e9).receive(
        cpu, np.roll(field, late, axis=1) * np.exp(0.7j), keep=[(0, 1)]
    )
    eye, wanted = result.eyes[0, 1], filtered(transmitter, field, 1)
    assert eye.shape == (2, EYE_SYMBOLS * EYE_SAMPLES)
    np.testing.assert_allclose(eye[:, ::EYE_SAMPLES], result.points[0, 1][:, :EYE_SYMBOLS], atol=1e-9)
    assert abs(eye - wanted).max() < 2e-3 * abs(wanted).max()  # what the estimate of the offset leaves


@pytest.mark.parametrize("modulation", ["ook", "pam4"])
def test_the_eye_of_a_current(cpu, modulation):
    transmitter, field = signal(cpu, modulation)
    result = Receiver(transmitter).receive(cpu, field, keep=[(0, 0)])
    eye, wanted = result.eyes[0, 0], (abs(filtered(transmitter, field, 0)) ** 2).sum(axis=0) / 2
    assert (eye[0] == eye[1]).all()
    # Twice the mean intensity is the highest level, 2; the lowest is 0.
    # The clock follows from the intensities, to a hundredth of a symbol.
    np.testing.assert_allclose(eye[0].real, wanted, atol=0.01 * wanted.max())
    levels = np.linspace(0, 2, 2 if modulation == "ook" else 4)
    assert abs(eye[0, ::EYE_SAMPLES, None] - levels).min(axis=1).max() < 0.05


def test_each_kind_of_channel_has_its_eye(cpu):
    transmitter, field = signal(cpu, ["16qam", "ook"], [32e9, 32e9])
    keep = [(0, 0), (0, 1)]
    eyes = Receiver(transmitter).receive(cpu, field, keep=keep).eyes
    assert sorted(eyes) == keep
    assert np.imag(eyes[0, 0]).any()
    assert not np.imag(eyes[0, 1]).any()
    transmitter, field = signal(cpu, "16qam")
    assert Receiver(transmitter, equaliser=Equaliser(4, 128)).receive(cpu, field, keep=keep).eyes == {}
