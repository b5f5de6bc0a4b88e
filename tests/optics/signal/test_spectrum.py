"""Power spectra: Parseval, where channels lie, odd lengths."""

import numpy as np
import pytest

from wavefabric.optics import Transmitter, WdmGrid
from wavefabric.optics.link.result import power_spectrum, spectrum_bins, spectrum_frequencies


@pytest.mark.parametrize("symbols", [256, 243, 17])
def test_power_lies_where_the_channels_are(cpu, symbols):
    grid = WdmGrid([193.30e12, 193.45e12], 32e9, 8, symbols, 193.35e12)
    transmitter = Transmitter(grid, "qpsk", 0.1, [[1e-3, 4e-3], [2e-3, 0.0]])
    field = cpu.empty((4, grid.samples), np.complex128)
    transmitter.fill(cpu, field)
    density, at = power_spectrum(cpu, field, grid), spectrum_frequencies(grid)
    assert density.shape == (2, spectrum_bins(grid)) == (2, len(at))
    width = grid.sample_rate / len(at)
    np.testing.assert_allclose(np.diff(at), width)
    np.testing.assert_allclose(density.sum(axis=1) * width, [5e-3, 2e-3], rtol=1e-12)
    for channel, powers in enumerate(([1e-3, 2e-3], [4e-3, 0.0])):
        near = abs(at - grid.centre_frequency - grid.offsets[channel]) < 18e9 + width
        np.testing.assert_allclose(density[:, near].sum(axis=1) * width, powers, rtol=1e-9, atol=1e-15)


def test_single_tone(cpu):
    """A tone at an optical offset of +3 bins is at −3 of NumPy's spectrum."""
    grid = WdmGrid([193.4e12], 32e9, 4, 64, 193.4e12)
    tone = np.exp(-2j * np.pi * 3 * np.arange(grid.samples) / grid.samples)
    field = np.array([tone, 0 * tone])
    density = power_spectrum(cpu, field, grid)[0]
    (bin_,) = np.flatnonzero(density > 1e-20)
    assert spectrum_frequencies(grid)[bin_] == pytest.approx(193.4e12 + 3 * grid.resolution, abs=1)
