"""Windows of 2 samples per symbol around the channels: cut out, without the fibre's phase, with noise."""

import numpy as np

from wavefabric.device import philox
from wavefabric.optics.signal.laser import LOCAL_OSCILLATOR, laser_turn
from wavefabric.optics.signal.transmitter import Transmitter, root_raised_cosine
from wavefabric.optics.signal.wdm import WdmGrid

ALL = slice(None)


class Bands:
    """Where each channel's window lies in a row's spectrum, and what a receiver does to it first.

    ``seed`` is that of the noise, ``linewidth`` (Hz) that of the local oscillators.
    """

    def __init__(self, device, transmitter: Transmitter, seed: int, linewidth: float = 0.0):
        self._device, self._grid, self._seed, self._turn = device, transmitter.grid, seed, None
        xp, grid, signed = device.xp, transmitter.grid, transmitter.grid.window_bins
        self._where = xp.asarray(signed % grid.samples)
        self._omega = xp.asarray(2 * np.pi * grid.resolution * signed)
        around = signed[0] - grid.bins[0]
        #: The matched filter over a window, (2 symbols,).
        self.matched = xp.asarray(root_raised_cosine(around / grid.symbols, transmitter.rolloff))
        if linewidth:
            self._turn = laser_turn(device, grid, linewidth, seed, LOCAL_OSCILLATOR)

    def received(self, spectrum, mode: int, channels: slice, length: float, beta, density):
        """Windows of both rows of a mode before the matched filter: (2, channels, 2 symbols).

        Without the linear phase of a ``length`` (m) of fibre, with white noise of ``density`` (W/Hz, of all
        channels; None: none). The phase noise of the local oscillators comes first: what dispersion is
        compensated has met it.
        """
        device, grid = self._device, self._grid
        window = spectrum[:, self._where[channels]].astype(np.complex128)
        if self._turn is not None:
            window = device.fft(device.ifft(window) * self._turn[channels])
        if length and beta.any():
            b1, b2, b3, b4 = (float(b) for b in beta)
            w = self._omega[channels]
            phase = w * (b1 - w * (b2 / 2 - w * (b3 / 6 - w * (b4 / 24))))  # that a metre of fibre takes away
            window *= device.xp.exp(1j * length * phase)
        if density is not None:
            scale = device.xp.asarray(np.sqrt(density * grid.sample_rate * grid.samples))[channels, None]
            for polarisation in range(2):
                noise = unit_noise(device, grid, self._seed, 2 * mode + polarisation)
                window[polarisation] += scale * noise[self._where[channels]]
        return window


def unit_noise(device, grid: WdmGrid, seed: int, row: int):
    """White noise of unit variance over all bins of a row, which neighbours share: complex128 (N,)."""
    unit = device.zeros((grid.samples,), np.complex128)
    stream = philox.stream(philox.RECEIVER, row)
    device.kernels(philox.TABLE).add_complex_normal(unit, 1.0, seed, stream, 0)
    return unit
