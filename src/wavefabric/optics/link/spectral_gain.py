"""Compute gain and loss over frequency along a span, and filters that apply them."""

from collections.abc import Callable, Sequence

import numpy as np
import scipy  # its submodules load when first used

from wavefabric.base.errors import InputError
from wavefabric.base.units import SPEED_OF_LIGHT
from wavefabric.optics.fibre.fibre import N2_SILICA, Array, Fibre
from wavefabric.optics.fibre.raman import PowerEvolution, intensity_overlap, raman_evolution
from wavefabric.optics.fibre.spectra import LossSpectrum, RamanGain
from wavefabric.optics.run_file.elements import PumpTable
from wavefabric.optics.run_file.tables import FibreTable
from wavefabric.optics.signal.transmitter import Transmitter

#: Number of frequencies between which a device interpolates a filter.
_KNOTS = 4096


def overlap_of(table: FibreTable, fibre: Fibre) -> Array:
    """Return the `intensity_overlap` of ``fibre``, with the nonlinear index n2 of a run file's ``table``."""
    return intensity_overlap(fibre, N2_SILICA if table.n2 is None else table.n2)


class SpectralGain:
    """Computes how powers of channels and modes change along a piece of fibre, relative to its loss α.

    `raman_evolution` computes Raman scattering from the mean powers of the channels. `InputError` if a loss
    spectrum does not cover all channels.
    """

    def __init__(self, table: FibreTable, fibre: Fibre, transmitter: Transmitter):
        self._table, self._fibre, self._loss = table, fibre, None
        if table.attenuation_csv is not None:
            self._loss = LossSpectrum.from_csv(table.attenuation_csv)
        elif table.attenuation_slope is not None:
            line = [float(fibre.alpha.mean()), table.attenuation_slope]
            self._loss = LossSpectrum.polynomial(line, SPEED_OF_LIGHT / fibre.wavelength)
        self._frequencies = transmitter.grid.centre_frequency + transmitter.grid.offsets
        if self._loss is not None:
            try:
                self._loss.at(self._frequencies)
            except InputError as error:
                (key,) = table.present("attenuation_csv", "attenuation_slope")
                raise InputError(f"fibre.{key}: {str(error).partition(': ')[2]}") from None

    def evolution(
        self, powers: Callable[[], Array], length: float, pumps: Sequence[PumpTable] = ()
    ) -> PowerEvolution | None:
        """Return Raman scattering along ``length`` m; None without [fibre.raman].

        ``powers()`` returns the powers at the input, W, (channels, modes).
        """
        table = self._table.raman
        if table is None:
            return None
        gain = RamanGain.silica()
        if table.gain_csv is not None:
            gain = RamanGain.from_csv(table.gain_csv, table.area)
        elif table.gain == "triangular":
            gain = RamanGain.triangular(table.slope, table.area)
        frequencies, launched, backward = self._frequencies, powers(), None
        if pumps:
            frequencies = np.append(frequencies, [each.frequency for each in pumps])
            each_mode = [[each.power / self._fibre.modes] * self._fibre.modes for each in pumps]
            launched = np.vstack([launched, each_mode])
            backward = [False] * len(self._frequencies) + [each.direction == "backward" for each in pumps]
        inputs, overlap = (frequencies, launched, length), overlap_of(self._table, self._fibre)
        return raman_evolution(self._fibre, *inputs, gain, self._loss, overlap=overlap, backward=backward)

    def log_gain(
        self, evolution: PowerEvolution | None, start: float, stop: float, frequencies: Array
    ) -> Array:
        """Return ln of the power gain from ``start`` to ``stop`` (m): (frequencies, modes).

        ``evolution`` is Raman scattering in the piece. Loss at ``frequencies`` (Hz) counts only as far as it
        differs from the fibre's α.
        """
        gain = np.zeros((len(frequencies), self._fibre.modes))
        if evolution is not None:
            both = evolution.log_gain(np.array([start, stop]), frequencies)
            gain += (both[..., 1] - both[..., 0])[:, evolution.group]
        if self._loss is not None:
            inside = np.clip(frequencies, self._loss.first, self._loss.last)
            gain -= (self._loss.of_modes(inside, self._fibre) - self._fibre.alpha) * (stop - start)
        return gain


def filter_band(device, A, grid, log_gain, modes: range) -> None:
    """Filter the spectra of rows ``A`` (local rows, N), √W, in place; two rows for each of ``modes``.

    ``log_gain(frequencies)`` returns ln of the power gain at optical frequencies in Hz: (frequencies, modes).
    This gain must be smooth: it is computed every 50 GHz. A cubic spline gives it at 4096 frequencies,
    between which the filter is linear.
    """
    xp, half = device.xp, 0.5 * grid.sample_rate
    knots = np.linspace(-half, half, max(4, int(2 * half / 50e9) + 2))
    values = log_gain(grid.centre_frequency + knots)[:, modes.start : modes.stop]
    fine = np.linspace(-half, half, _KNOTS)
    amplitude = np.exp(0.5 * scipy.interpolate.CubicSpline(knots, values)(fine))
    # A channel at the optical offset +Δf sits at −Δf of NumPy's spectrum.
    offset, at = -xp.fft.fftfreq(grid.samples, 1 / grid.sample_rate), xp.asarray(fine)

    def change(rows: slice) -> None:
        for row in range(rows.start, rows.stop):
            factor = xp.interp(offset, at, xp.asarray(amplitude[:, row // 2]))
            A[row] = device.ifft(device.fft(A[row]) * factor).astype(A.dtype)

    device.map_rows(A.shape[0], change)
