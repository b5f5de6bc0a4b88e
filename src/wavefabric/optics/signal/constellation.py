"""Define modulation formats (Gray-mapped square QAM of unit mean energy, Gaussian symbols) and their rates.

Achievable information rates are for a receiver that assumes a channel with white Gaussian noise, in bits per
symbol of one polarisation. MI (decoding by symbols) needs a non-binary code or iterations between demapper
and decoder; GMI (decoding by bits) is for bit-interleaved coded modulation, which decodes each bit
separately.

Source: A. Alvarado, T. Fehenberger, B. Chen, F. M. J. Willems, "Achievable information rates for fiber
optics: applications and computations", J. Lightwave Technol. 36 (2018) 424, doi 10.1109/JLT.2017.2786351.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy.special import erfc

from wavefabric.base.arguments import numbers
from wavefabric.base.errors import InputError, quoted

#: Bits per symbol of each format; "gaussian" carries none.
FORMATS = {"qpsk": 2, "16qam": 4, "64qam": 6, "gaussian": 0}
#: Nodes of the Gauss-Hermite quadrature: 1e-7 of a bit for 64QAM.
_NODES = 160
#: Largest exponent: exp of larger ones would overflow.
_LARGEST = 700.0


def constellation(form: "Constellation | str") -> "Constellation":
    """Return ``form`` if it is a `Constellation`, else the constellation of that name."""
    return form if isinstance(form, Constellation) else Constellation(form)


@dataclass(frozen=True)
class Constellation:
    """Defines a modulation format: ``"qpsk"``, ``"16qam"``, ``"64qam"`` or ``"gaussian"``.

    A label is the integer of a symbol's bits, first bit highest: the first half of the bits sets the in-phase
    level, the second half the quadrature level, each by the binary-reflected Gray code. ``"gaussian"`` means
    circular complex Gaussian symbols, without labels or decisions: the Gaussian-noise model of a WDM link
    assumes this input.
    """

    name: str
    bits_per_symbol: int = field(init=False, repr=False)  # of one polarisation; 0 for Gaussian symbols
    digital: bool = field(init=False, repr=False)  # whether symbols are of a finite set and carry bits

    def __post_init__(self):
        key = self.name.lower().replace("-", "") if isinstance(self.name, str) else ""
        if key not in FORMATS:
            raise InputError(f"constellation: {quoted(self.name)} given, one of {', '.join(FORMATS)} allowed")
        vars(self).update(name=key, bits_per_symbol=FORMATS[key], digital=FORMATS[key] > 0)

    @cached_property
    def _levels(self) -> int:
        if not self.digital:
            raise InputError("constellation: gaussian symbols carry no bits; qpsk, 16qam or 64qam allowed")
        return 1 << self.bits_per_symbol // 2

    @cached_property
    def _unit(self) -> float:
        # Half the distance between neighbours at unit mean energy: 2(L² − 1)/3 = 1/unit².
        return float(np.sqrt(1.5 / (self._levels**2 - 1)))

    @cached_property
    def points(self) -> np.ndarray:
        """Return the symbols of unit mean energy, indexed by label: complex128, shape (2^bits,)."""
        half = self.bits_per_symbol // 2
        position = np.arange(self._levels)
        amplitude = np.empty(self._levels)
        amplitude[position ^ position >> 1] = (2 * position - self._levels + 1) * self._unit
        label = np.arange(self._levels**2)
        return amplitude[label >> half] + 1j * amplitude[label & self._levels - 1]

    @property
    def excess_moments(self) -> tuple[float, float]:
        """Return E|b|⁴ − 2 and E|b|⁶ − 9 E|b|⁴ + 12 of the symbols b; Gaussian symbols have 0 and 0."""
        if not self.digital:
            return 0.0, 0.0
        energy = abs(self.points) ** 2
        return (energy**2).mean() - 2, (energy**3).mean() - 9 * (energy**2).mean() + 12

    def map(self, xp, labels):
        """Return the symbols of ``labels``: complex128, same shape, in the array module ``xp``."""
        return xp.asarray(self.points)[labels]

    def decide(self, xp, symbols):
        """Return the labels (int32) of the points nearest to ``symbols`` (complex, any shape)."""
        top = self._levels - 1

        def gray(x):
            at = xp.clip(xp.rint((x / self._unit + top) / 2), 0, top).astype(np.int32)
            return at ^ (at >> 1)

        return (gray(symbols.real) << (self.bits_per_symbol // 2)) | gray(symbols.imag)

    def bit_errors(self, xp, sent, received, axis: int | tuple[int, ...] = -1):
        """Count bits that differ between two arrays of labels, summed along ``axis`` (int64)."""
        ones = np.array([int(v).bit_count() for v in range(self._levels**2)], dtype=np.int64)
        return xp.asarray(ones)[sent ^ received].sum(axis=axis)

    def ber(self, snr):
        """Return the bit error ratio in white Gaussian noise, exact for Gray-mapped QAM; NaN for "gaussian".

        ``snr`` is the mean symbol energy over the noise energy E_s/N_0, linear. K. Cho, D. Yoon, "On the
        general BER expression of one- and two-dimensional amplitude modulations", IEEE Trans. Commun. 50
        (2002), eqs. (14) and (16), doi 10.1109/TCOMM.2002.800818.
        """
        snr = np.asarray(snr, dtype=float)
        if not self.digital:
            return np.full_like(snr, np.nan)
        levels, half = self._levels, self.bits_per_symbol // 2
        argument = self._unit * np.sqrt(snr)
        total = np.zeros_like(snr)
        for k in range(1, half + 1):
            for i in range(levels - (levels >> k)):
                step = i * 2 ** (k - 1)
                weight = 2 ** (k - 1) - (2 * step + levels) // (2 * levels)
                total += (-1) ** (step // levels) * weight * erfc((2 * i + 1) * argument)
        return total / (levels * half)


def _pam(form: Constellation) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return the amplitudes of one quadrature by Gray label, and a matrix (L, L) for each bit, bool.

    A matrix tells which of the L labels agree in this bit. Square QAM consists of two such quadratures with
    half of the bits each.
    """
    half = form.bits_per_symbol // 2
    label = np.arange(1 << half)
    bits = [label >> k & 1 for k in reversed(range(half))]
    return np.imag(form.points[: len(label)]), [bit[:, None] == bit for bit in bits]


def mutual_information(form: Constellation | str, snr):
    """Return the MI of ``form`` in white Gaussian noise of E_s/N_0 = ``snr`` (linear), bits per symbol.

    ``form`` is a `Constellation` or its name; ``snr`` may be an array. Method: Gauss-Hermite quadrature
    (Alvarado et al., section III); log2(1 + snr) for Gaussian symbols.
    """
    return _quadrature(form, snr)[0]


def gmi(form: Constellation | str, snr):
    """Return the GMI of ``form`` with Gray labels, otherwise as `mutual_information`; NaN for Gaussian."""
    return _quadrature(form, snr)[1]


def _quadrature(form: Constellation | str, snr) -> list[np.ndarray]:
    form, snr = constellation(form), numbers(snr, "", "snr")
    if not (snr >= 0).all():
        raise InputError(f"snr: {quoted(snr)} given; allowed: linear ratios of 0 or more")
    if not form.digital:
        return [np.log2(1 + snr), np.full_like(snr, np.nan)]
    amplitude, alike = _pam(form)
    nodes, weights = np.polynomial.hermite.hermgauss(_NODES)
    apart = np.sqrt(snr)[..., None, None, None] * (amplitude[:, None] - amplitude)
    # By sent label, rival label, node: ln q(y|rival) − ln q(y|sent), y = sent + noise.
    rivals = np.exp(np.minimum(-apart * (apart + 2 * nodes[:, None, None]), _LARGEST))
    every = np.log2(rivals.sum(axis=-1))
    same = sum(every - np.log2((rivals * equal).sum(axis=-1)) for equal in alike)
    mean = weights[:, None] / (np.sqrt(np.pi) * len(amplitude))
    return [form.bits_per_symbol - 2 * (mean * loss).sum(axis=(-2, -1)) for loss in (every, same)]


def information_rates(device, form: Constellation, sent, received) -> np.ndarray:
    """Return MI and GMI of received symbols, bits per symbol: NumPy array (2, channels).

    ``sent`` and ``received`` (polarisations, channels, symbols) are complex, with mean complex gain 1. The
    auxiliary channel is white Gaussian noise with the variance of ``received − sent`` of each channel
    (Alvarado et al., eqs. (30) and (36)). GMI is NaN for Gaussian symbols.
    """
    xp = device.xp
    variance = xp.maximum((abs(received - sent) ** 2).mean(axis=(0, 2)), np.finfo(float).tiny)
    if not form.digital:
        energy = (abs(sent) ** 2).mean(axis=(0, 2))
        excess = (abs(received) ** 2).mean(axis=(0, 2)) / (energy + variance) - 1
        rate = device.to_host(xp.log2(1 + energy / variance) + excess / np.log(2))
        return np.stack([rate, np.full_like(rate, np.nan)])
    amplitude, alike = (xp.asarray(np.array(values)) for values in _pam(form))
    scale, label = 1 / xp.sqrt(variance)[:, None], form.decide(xp, sent)
    indices = *(label // len(amplitude)), *(label % len(amplitude))
    losses = xp.zeros((2, len(variance)))
    for index, value in zip(indices, (*received.real, *received.imag), strict=True):
        noise = (value - amplitude[index]) * scale
        total, bit_metrics = 0.0, [0.0] * len(alike)
        for level, equal in zip(amplitude, alike.swapaxes(0, 1), strict=True):
            d = (value - level) * scale
            metric = xp.exp(xp.minimum(noise * noise - d * d, _LARGEST))
            total = total + metric
            bit_metrics = [part + metric * same[index] for part, same in zip(bit_metrics, equal, strict=True)]
        every = xp.log2(total).mean(axis=-1)
        losses[0] += every
        losses[1] += sum(every - xp.log2(part).mean(axis=-1) for part in bit_metrics)
    return form.bits_per_symbol - device.to_host(losses) / len(sent)
