"""Windows of 2 samples per symbol around the channels: cut out, without the fibre's phase, with noise."""

import numpy as np

from wavefabric.device import philox
from wavefabric.optics.signal.laser import LOCAL_OSCILLATOR, PhaseNoise
from wavefabric.optics.signal.transmitter import Transmitter, root_raised_cosine

ALL = slice(None)


class Bands:
    """Where each channel's window lies in a row's spectrum, and what a receiver does to it first.

    ``seed`` is that of the noise, ``linewidth`` (Hz) that of the local oscillators.
    """

    def __init__(self, device, transmitter: Transmitter, seed: int, linewidth: float = 0.0):
        grid, self._device = transmitter.grid, device
        self._grid, self._seed = grid, seed
        xp, signed = device.xp, grid.window_bins
        self._where = xp.asarray(signed % grid.samples)
        self._omega = xp.asarray(2 * np.pi * grid.resolution * signed)
        around = signed[0] - grid.bins[0]
        self.matched = xp.asarray(root_raised_cosine(around / grid.symbols, transmitter.rolloff))
        self._oscillator = PhaseNoise(device, grid, linewidth, seed, LOCAL_OSCILLATOR)

    def compensated(self, spectrum, length: float, beta, channels: slice = ALL):
        """Windows of two rows without the linear phase of a length of fibre: (2, channels, 2 symbols).

        The phase noise of the local oscillators comes before: what dispersion is compensated has met it.
        """
        window = self._oscillator.apply(spectrum[:, self._where[channels]].astype(np.complex128), channels)
        if length and beta.any():
            b1, b2, b3, b4 = (float(b) for b in beta)
            w = self._omega[channels]
            phase = w * (b1 - w * (b2 / 2 - w * (b3 / 6 - w * (b4 / 24))))  # that a metre of fibre takes away
            window *= self._device.xp.exp(1j * length * phase)
        return window

    def add_noise(self, window, mode: int, density, channels: slice = ALL) -> None:
        """Add white noise of ``density`` (W/Hz, of all channels) to the windows of both rows of a mode."""
        # One sequence over all bins of the row: neighbours share their noise where windows overlap.
        grid, device = self._grid, self._device
        scale = device.xp.asarray(np.sqrt(density * grid.sample_rate * grid.samples))[channels, None]
        for polarisation in range(2):
            unit = device.zeros((grid.samples,), np.complex128)
            stream = philox.stream(philox.RECEIVER, 2 * mode + polarisation)
            device.kernels(philox.KERNELS).add_complex_normal(unit, 1.0, self._seed, stream, 0)
            window[polarisation] += scale * unit[self._where[channels]]
