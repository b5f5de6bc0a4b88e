"""Define modulation formats (Gray-mapped QAM, shaped QAM, Gaussian symbols, intensities) and their rates.

Achievable information rates are for a receiver that assumes a channel with white Gaussian noise, in bits per
symbol of one polarisation. MI (decoding by symbols) needs a non-binary code or iterations between demapper
and decoder; GMI (decoding by bits) is for bit-interleaved coded modulation, which decodes each bit
separately.

Source: A. Alvarado, T. Fehenberger, B. Chen, F. M. J. Willems, "Achievable information rates for fiber
optics: applications and computations", J. Lightwave Technol. 36 (2018) 424, doi 10.1109/JLT.2017.2786351.
"""

import re
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import scipy  # its submodules load when first used
from scipy.special import erfc

from wavefabric.base.arguments import numbers
from wavefabric.base.errors import InputError, quoted

#: Bits per symbol of each format; "gaussian" carries none.
FORMATS = {"qpsk": 2, "16qam": 4, "64qam": 6, "256qam": 8, "1024qam": 10, "gaussian": 0, "ook": 1, "pam4": 2}
#: Formats whose intensity carries the bits: one polarisation is lit, and a photodiode detects both.
DIRECT = ("ook", "pam4")
#: Nodes of the Gauss-Hermite quadrature: 1e-7 of a bit for 64QAM.
_NODES = 160
#: Largest exponent: exp of larger ones would overflow.
_LARGEST = 700.0


def constellation(form: "Constellation | str") -> "Constellation":
    """Return ``form`` if it is a `Constellation`, else the constellation of that name."""
    return form if isinstance(form, Constellation) else Constellation(form)


@dataclass(frozen=True)
class Constellation:
    """Defines a modulation format: one of `FORMATS`, or shaped QAM such as ``"64qam:5.2 bit"``.

    A label is the integer of a symbol's bits, first bit highest: the first half of the bits sets the in-phase
    level, the second half the quadrature level, each by the binary-reflected Gray code. ``"gaussian"`` means
    circular complex Gaussian symbols, without labels or decisions: the Gaussian-noise model of a WDM link
    assumes this input.

    Shaped QAM has the entropy after the colon, in bits per symbol: a symbol x is sent with a probability
    ∝ exp(−ν|x|²) (Maxwell-Boltzmann; F. R. Kschischang, S. Pasupathy, IEEE Trans. Inf. Theory 39 (1993) 913,
    doi 10.1109/18.256499). ``"ook"`` and ``"pam4"`` are intensities, equally spaced from 0, for direct
    detection; their symbols are the amplitudes.
    """

    name: str
    bits_per_symbol: int = field(init=False, repr=False)  # of one polarisation; 0 for Gaussian symbols
    digital: bool = field(init=False, repr=False)  # whether symbols are of a finite set and carry bits
    direct: bool = field(init=False, repr=False)  # whether intensities carry the bits
    entropy: float = field(init=False, repr=False)  # bits per symbol that the source has
    shaped: bool = field(init=False, repr=False)  # whether symbols differ in probability

    def __post_init__(self):
        text = self.name.lower().replace("-", "") if isinstance(self.name, str) else ""
        key, colon, rate = text.partition(":")
        if key not in FORMATS:
            raise InputError(f"constellation: {quoted(self.name)} given, one of {', '.join(FORMATS)} allowed")
        bits = entropy = FORMATS[key]
        if colon:
            match = re.fullmatch(r"\s*(\d{1,2}(?:\.\d{0,9})?)\s*(?:bits?)?\s*", rate)
            entropy = float(match[1]) if match else 0.0
            if key in (*DIRECT, "qpsk", "gaussian") or not 2.01 <= entropy <= bits:
                of = f"2.01 to {bits} bits per symbol" if "qam" in key else "16qam to 1024qam"
                example = f'{of}, as in "64qam:5.2 bit"'
                raise InputError(
                    f"constellation: {quoted(self.name)} given; allowed with an entropy: {example}"
                )
        shaped = entropy < bits
        values = {"name": f"{key}:{entropy:g} bit" if shaped else key, "bits_per_symbol": bits}
        values |= {"digital": bits > 0, "direct": key in DIRECT, "entropy": entropy, "shaped": shaped}
        vars(self).update(values)

    @cached_property
    def _levels(self) -> int:
        if not self.digital:
            raise InputError("constellation: gaussian symbols carry no bits; qpsk, 16qam or 64qam allowed")
        return 1 << (self.bits_per_symbol if self.direct else self.bits_per_symbol // 2)

    @cached_property
    def probabilities(self) -> np.ndarray:
        """Return the probability of each level of a quadrature, or of an intensity, ascending."""
        position = 2.0 * np.arange(self._levels) - self._levels + 1

        def boltzmann(slope: float) -> np.ndarray:
            weights = np.exp(-slope * (position**2 - 1))
            return weights / weights.sum()

        def excess(slope: float) -> float:
            return float(scipy.special.entr(boltzmann(slope)).sum()) / np.log(2) - self.entropy / 2

        return boltzmann(scipy.optimize.brentq(excess, 0.0, 5.0, xtol=1e-14) if self.shaped else 0.0)

    @cached_property
    def _unit(self) -> float:
        # Half the distance between neighbours at unit mean energy: 2(L² − 1)/3 = 1/unit² if none is likelier.
        if self.shaped:
            position = 2 * np.arange(self._levels) - self._levels + 1
            return float(np.sqrt(0.5 / (self.probabilities @ position**2)))
        return float(np.sqrt(1.5 / (self._levels**2 - 1)))

    def by_label(self, ascending: np.ndarray) -> np.ndarray:
        """Return values of levels in ascending order, (L,), in the order of their Gray labels."""
        position, out = np.arange(self._levels), np.empty(self._levels)
        out[position ^ position >> 1] = ascending
        return out

    @cached_property
    def points(self) -> np.ndarray:
        """Return the symbols of unit mean energy, indexed by label: complex128, shape (2^bits,)."""
        position = np.arange(self._levels)
        if self.direct:
            return np.sqrt(self.by_label(2 * position / (self._levels - 1))).astype(complex)
        half = self.bits_per_symbol // 2
        amplitude = self.by_label((2 * position - self._levels + 1) * self._unit)
        label = np.arange(self._levels**2)
        return amplitude[label >> half] + 1j * amplitude[label & self._levels - 1]

    def labels(self, xp, words):
        """Return labels (int32) from uniform 32-bit words, of which shaped QAM needs two for each label."""
        if not self.shaped:
            return (words & (len(self.points) - 1)).astype(np.int32)  # the lowest bits
        edges = np.cumsum(self.by_label(self.probabilities))[:-1] * 2.0**32
        level = xp.searchsorted(xp.asarray(edges.astype(np.uint32)), words, side="right").astype(np.int32)
        return (level[0::2] << (self.bits_per_symbol // 2)) | level[1::2]

    @property
    def polarisations(self) -> tuple[float, float]:
        """Return the amplitude of each polarisation, relative to half the power in each."""
        return (2**0.5, 0.0) if self.direct else (1.0, 1.0)

    @property
    def excess_moments(self) -> tuple[float, float]:
        """Return E|b|⁴ − 2 and E|b|⁶ − 9 E|b|⁴ + 12 of the symbols b; Gaussian symbols have 0 and 0."""
        if not self.digital:
            return 0.0, 0.0
        energy, prior = abs(self.points) ** 2, self.by_label(self.probabilities)
        prior = prior if self.direct else np.outer(prior, prior).ravel()
        fourth = (prior * energy**2).sum()
        return fourth - 2, (prior * energy**3).sum() - 9 * fourth + 12

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
        ones = np.array([v.bit_count() for v in range(1 << self.bits_per_symbol)], dtype=np.int64)
        return xp.asarray(ones)[sent ^ received].sum(axis=axis)

    def ber(self, snr):
        """Return the bit error ratio in white Gaussian noise, exact for Gray-mapped QAM; NaN for "gaussian".

        ``snr`` is the mean symbol energy over the noise energy E_s/N_0, linear; with direct detection it is
        the square of the eye's Q, and neighbours alone are mistaken. K. Cho, D. Yoon, "On the
        general BER expression of one- and two-dimensional amplitude modulations", IEEE Trans. Commun. 50
        (2002), eqs. (14) and (16), doi 10.1109/TCOMM.2002.800818.
        """
        snr = np.asarray(snr, dtype=float)
        if not self.digital:
            return np.full_like(snr, np.nan)
        levels, half = self._levels, self.bits_per_symbol // 2
        if self.direct:
            return (levels - 1) / (levels * self.bits_per_symbol) * erfc(np.sqrt(snr / 2))
        if self.shaped:
            position = np.arange(levels)
            bounds = np.array([-np.inf, *(2 * position[1:] - levels), np.inf]) * self._unit
            far = bounds - np.sort(np.imag(self.points[:levels]))[:, None]
            chance = np.diff(scipy.special.ndtr(far * np.sqrt(2 * snr)[..., None, None]), axis=-1)
            gray = position ^ position >> 1
            wrong = np.array([[int(a ^ b).bit_count() for b in gray] for a in gray])
            return (chance * wrong).sum(axis=-1) @ self.probabilities / half
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
    prior = form.by_label(form.probabilities)
    nodes, weights = np.polynomial.hermite.hermgauss(_NODES)
    apart = np.sqrt(snr)[..., None, None, None] * (amplitude[:, None] - amplitude)
    # By sent label, rival label, node: ln q(y|rival) − ln q(y|sent), y = sent + noise.
    rivals = np.exp(np.minimum(-apart * (apart + 2 * nodes[:, None, None]), _LARGEST))
    rivals *= prior / prior[:, None]
    every = np.log2(rivals.sum(axis=-1))
    same = sum(every - np.log2((rivals * equal).sum(axis=-1)) for equal in alike)
    mean = weights[:, None] * prior / np.sqrt(np.pi)
    return [form.entropy - 2 * (mean * loss).sum(axis=(-2, -1)) for loss in (every, same)]


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
    prior = form.by_label(form.probabilities)
    priors, priors_of_label = prior.tolist(), xp.asarray(prior)
    scale, label = 1 / xp.sqrt(variance)[:, None], form.decide(xp, sent)
    indices = *(label // len(amplitude)), *(label % len(amplitude))
    losses = xp.zeros((2, len(variance)))
    for index, value in zip(indices, (*received.real, *received.imag), strict=True):
        noise = (value - amplitude[index]) * scale
        total, bit_metrics = 0.0, [0.0] * len(alike)
        for level, equal, prior in zip(amplitude, alike.swapaxes(0, 1), priors, strict=True):
            d = (value - level) * scale
            metric = xp.exp(xp.minimum(noise * noise - d * d, _LARGEST))
            if form.shaped:
                metric *= prior / priors_of_label[index]
            total = total + metric
            bit_metrics = [part + metric * same[index] for part, same in zip(bit_metrics, equal, strict=True)]
        every = xp.log2(total).mean(axis=-1)
        losses[0] += every
        losses[1] += sum(every - xp.log2(part).mean(axis=-1) for part in bit_metrics)
    return form.entropy - device.to_host(losses) / len(sent)
