"""Power spectrum of a field, by mode, in bins that a picture can show."""

import numpy as np

from wavefabric.optics.signal.wdm import WdmGrid

#: Most bins of a spectrum.
BINS = 1024


def spectrum_bins(grid: WdmGrid) -> int:
    """Bins of `power_spectrum`: a whole number of the grid's own in each."""
    return max(b for b in range(1, min(BINS, grid.samples) + 1) if grid.samples % b == 0)


def spectrum_frequencies(grid: WdmGrid) -> np.ndarray:
    """Optical frequency in the middle of each bin of `power_spectrum`, ascending, Hz, (bins,)."""
    bins = spectrum_bins(grid)
    width = grid.samples // bins
    first = -((grid.samples - 1) // 2)  # the lowest optical bin: NumPy's highest
    return grid.centre_frequency + (first + width * np.arange(bins) + (width - 1) / 2) * grid.resolution


def power_spectrum(device, field, grid: WdmGrid) -> np.ndarray:
    """Power spectral density of each mode, both polarisations, W/Hz, (modes, bins) of `spectrum_frequencies`.

    ``field`` (2 modes, N), √W. The sum over bins times their width is the mean power (Parseval).
    """
    bins, xp = spectrum_bins(grid), device.xp
    out = np.zeros((field.shape[0] // 2, bins))
    scale = 1 / (float(grid.samples) ** 2 * grid.resolution * (grid.samples // bins))
    for row in range(field.shape[0]):
        power = xp.fft.fftshift(abs(device.fft(field[row])).astype(np.float64) ** 2)[::-1]
        out[row // 2] += device.to_host(power.reshape(bins, -1).sum(axis=1)) * scale
    return out
