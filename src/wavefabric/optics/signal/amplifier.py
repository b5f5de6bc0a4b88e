"""Amplifiers between spans, and noise loading to a wanted OSNR."""

from __future__ import annotations

import math
from dataclasses import dataclass

from wavefabric.device import philox
from wavefabric.errors import InputError
from wavefabric.units import PLANCK

#: Reference bandwidth of the OSNR, Hz: 0.1 nm at 1550 nm, as the field rounds it.
REFERENCE_BANDWIDTH = 12.5e9


def osnr_noise_density(osnr_db: float, signal_power: float) -> float:
    """Noise power spectral density per polarisation that gives an OSNR, W/Hz.

    Parameters
    ----------
    osnr_db : float
        Power of the signal (both polarisations) over the noise power of both polarisations in
        12.5 GHz, dB.
    signal_power : float or array
        Power of one channel of one mode, both polarisations, W.

    Notes
    -----
    S = P / (2 B_ref OSNR); R.-J. Essiambre et al., "Capacity limits of optical fiber networks",
    J. Lightwave Technol. 28 (2010), eq. (33) and the text around it, doi 10.1109/JLT.2009.2039464.
    """
    if not math.isfinite(osnr_db):
        raise InputError(f"osnr_db: {osnr_db!r} given, a finite number of dB allowed")
    return signal_power / (2 * REFERENCE_BANDWIDTH * 10 ** (osnr_db / 10))


def load_noise(device, field, density: float, sample_rate: float, seed: int, number: int = 0, first_row=0):
    """Add white noise to every row of ``field`` in place.

    Parameters
    ----------
    device : Device
    field : complex128 or complex64 array, shape (rows, N), √W
    density : float
        Noise power spectral density of a row, W/Hz, over the whole simulated band;
        `osnr_noise_density` gives that of an OSNR.
    sample_rate : float
        Hz.
    seed, number : int
        Key of the noise: ``number`` counts the places in a link where noise is loaded.
    first_row : int
        Global row of ``field[0]``.
    """
    philox.check_seed(seed)
    _add_white(device, field, density * sample_rate, seed, philox.LOADING, number, first_row)


def _add_white(device, field, power, seed, domain, number, first_row):
    kernels = device.kernels(philox.KERNELS)
    for k in range(field.shape[0]):
        stream = philox.stream(domain, number, first_row + k)
        kernels.add_complex_normal(field[k], math.sqrt(power), seed, stream, 0)


@dataclass(frozen=True)
class Amplifier:
    """Flat gain on every row, with spontaneous-emission noise if a noise figure is given.

    Parameters
    ----------
    gain : float
        Power gain, linear; exp(α L) undoes the loss of a span.
    noise_figure_db : float, optional
        Noise figure F, dB; None for a noiseless amplifier.

    Raises
    ------
    InputError
        If the gain is not positive, or F < 1/gain (the noise would be negative).

    Notes
    -----
    Noise density per mode and polarisation, white over the simulated band, at its centre ν:
    S = n_sp hν (G − 1) = (G F − 1) hν / 2, from F = 2 n_sp (G − 1)/G + 1/G. Sources: H. A. Haus,
    "The noise figure of optical amplifiers", IEEE Photon. Technol. Lett. 10 (1998),
    doi 10.1109/68.730510; R.-J. Essiambre et al. (2010), doi 10.1109/JLT.2009.2039464.
    """

    gain: float
    noise_figure_db: float | None = None

    def __post_init__(self):
        if not (math.isfinite(self.gain) and self.gain > 0):
            raise InputError(f"gain: {self.gain!r} given, a positive power ratio allowed")
        figure = self.noise_figure_db
        if figure is not None and not (math.isfinite(figure) and self.gain * 10 ** (figure / 10) >= 1):
            least = -10 * math.log10(self.gain)
            raise InputError(
                f"noise_figure_db: {figure!r} given, {least:.3g} dB or more allowed at this gain"
            )

    def noise_density(self, frequency: float) -> float:
        """Noise power spectral density of a row at the optical ``frequency`` (Hz), W/Hz."""
        if self.noise_figure_db is None:
            return 0.0
        return (self.gain * 10 ** (self.noise_figure_db / 10) - 1) * PLANCK * frequency / 2

    def apply(self, device, field, grid, seed: int = 0, span: int = 0, first_row: int = 0) -> None:
        """Amplify ``field`` in place.

        Parameters
        ----------
        device : Device
        field : complex128 or complex64 array, shape (rows, N), √W
        grid : WdmGrid
            Gives the simulated band and its centre frequency.
        seed, span : int
            Key of the noise; ``span`` counts the amplifiers of a link.
        first_row : int
            Global row of ``field[0]``.
        """
        philox.check_seed(seed)
        field *= math.sqrt(self.gain)
        density = self.noise_density(grid.centre_frequency)
        if density > 0:
            _add_white(device, field, density * grid.sample_rate, seed, philox.AMPLIFIER, span, first_row)
