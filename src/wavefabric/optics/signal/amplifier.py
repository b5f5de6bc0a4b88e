"""Model the amplifiers between spans, and convert an OSNR to a noise density."""

import math
from dataclasses import dataclass

from wavefabric.base.arguments import number, positive, within
from wavefabric.base.errors import InputError
from wavefabric.base.units import PLANCK, db
from wavefabric.runtime.device import philox

#: Reference bandwidth of the OSNR, Hz: 0.1 nm at 1550 nm, as the field rounds it.
REFERENCE_BANDWIDTH = 12.5e9
#: Largest loss that an amplifier compensates, in nepers of power: 200 dB.
_MOST_LOSS = 46.0


def osnr_noise_density(osnr_db: float, signal_power: float) -> float:
    """Return the noise power density per polarisation, W/Hz, for an OSNR (12.5 GHz, both polarisations).

    ``signal_power`` (W) is the power of one channel of one mode, both polarisations. S = P / (2 B_ref OSNR):
    R.-J. Essiambre et al., "Capacity limits of optical fiber networks", J. Lightwave Technol. 28 (2010), eq.
    (33) and the text around it, doi 10.1109/JLT.2009.2039464.
    """
    within(osnr_db, "dB", "osnr_db", -3000, 3000)
    return signal_power / (2 * REFERENCE_BANDWIDTH * 10 ** (osnr_db / 10))


def _ratio(level: float) -> float:
    """Return the power ratio of a level in dB; infinite where it overflows."""
    return 10 ** (level / 10) if level < 3000 else math.inf


def compensating_gain(loss: float, key: str = "length") -> float:
    """Return the power gain that compensates a span's ``loss`` (nepers); InputError, by ``key``, if large."""
    if loss > _MOST_LOSS:
        raise InputError(f"{key}: a span loses {db(math.e) * loss:.0f} dB; allowed: up to 200 dB")
    return math.exp(loss)


@dataclass(frozen=True)
class Amplifier:
    """Applies a flat gain to every row, and adds spontaneous-emission noise if a noise figure is given.

    ``gain`` is linear in power, or text in dB: exp(α L) compensates the loss of a span. ``noise_figure_db``
    is F in dB, None for a noiseless amplifier; `InputError` if F < 1/gain, as the noise would be negative.

    Noise density per mode and polarisation, white over the simulated band, at its centre ν:
    S = n_sp hν (G − 1) = (G F − 1) hν / 2, from F = 2 n_sp (G − 1)/G + 1/G. Sources: H. A. Haus, "The noise
    figure of optical amplifiers", IEEE Photon. Technol. Lett. 10 (1998), doi 10.1109/68.730510; R.-J.
    Essiambre et al. (2010), doi 10.1109/JLT.2009.2039464.
    """

    gain: float
    noise_figure_db: float | None = None

    def __post_init__(self):
        text = isinstance(self.gain, str)
        gain = positive(_ratio(number(self.gain, "dB", "gain")) if text else self.gain, "", "gain")
        figure = self.noise_figure_db
        figure = None if figure is None else number(figure, "dB", "noise_figure_db")
        vars(self).update(gain=gain, noise_figure_db=figure)
        if figure is not None and not 1 <= gain * _ratio(figure) < math.inf:
            allowed = f"{-10 * math.log10(gain):.3g} dB or more allowed at this gain"
            raise InputError(f"noise_figure_db: {figure!r} given, {allowed}")

    def noise_density(self, frequency: float) -> float:
        """Return the noise power density of a row at the optical ``frequency`` (Hz), W/Hz."""
        if self.noise_figure_db is None:
            return 0.0
        return (self.gain * _ratio(self.noise_figure_db) - 1) * PLANCK * frequency / 2

    def apply(self, device, field, grid, seed: int = 0, span: int = 0, first_row: int = 0) -> None:
        """Amplify ``field`` (rows, N), √W, in place.

        ``grid`` (`WdmGrid`) gives the simulated band and its centre. ``seed``, ``span`` (the number of the
        amplifier in the link) and the row number determine the noise; ``field[0]`` is row ``first_row`` of
        the whole field.
        """
        philox.check_seed(seed)
        field *= math.sqrt(self.gain)
        power = self.noise_density(grid.centre_frequency) * grid.sample_rate
        if power > 0:
            kernels = device.kernels(philox.TABLE)
            for k in range(field.shape[0]):
                stream = philox.stream(philox.AMPLIFIER, span, first_row + k)
                kernels.add_complex_normal(field[k], math.sqrt(power), seed, stream, 0)
