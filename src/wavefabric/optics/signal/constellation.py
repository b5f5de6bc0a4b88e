"""Modulation formats: Gray-mapped square QAM of unit mean energy, and Gaussian symbols."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import erfc

from wavefabric.errors import InputError, quoted

#: Bits per symbol of each format; "gaussian" carries none.
FORMATS = {"qpsk": 2, "16qam": 4, "64qam": 6, "gaussian": 0}


def constellation(form: "Constellation | str") -> "Constellation":
    """Return ``form`` if it is a `Constellation`, else the constellation of that name."""
    return form if isinstance(form, Constellation) else Constellation(form)


@dataclass(frozen=True)
class Constellation:
    """A format, ``"qpsk"``, ``"16qam"``, ``"64qam"`` or ``"gaussian"``.

    A label is the integer of a symbol's bits, first bit highest: the first half of the bits sets
    the in-phase level, the second half the quadrature level, each by the binary-reflected Gray
    code. ``"gaussian"`` stands for circular complex Gaussian symbols: no labels, no decisions;
    it is the input the Gaussian-noise model of a WDM link assumes.
    """

    name: str

    def __post_init__(self):
        key = self.name.lower().replace("-", "") if isinstance(self.name, str) else ""
        if key not in FORMATS:
            raise InputError(f"constellation: {quoted(self.name)} given, one of {', '.join(FORMATS)} allowed")
        object.__setattr__(self, "name", key)

    @property
    def bits_per_symbol(self) -> int:
        """Bits of one symbol of one polarisation; 0 for Gaussian symbols."""
        return FORMATS[self.name]

    @property
    def digital(self) -> bool:
        """Whether symbols come from a finite set and carry bits."""
        return self.bits_per_symbol > 0

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
        """Symbols by label, complex128, shape (2^bits,), unit mean energy."""
        half = self.bits_per_symbol // 2
        position = np.arange(self._levels)
        amplitude = np.empty(self._levels)
        amplitude[position ^ position >> 1] = (2 * position - self._levels + 1) * self._unit
        label = np.arange(self._levels**2)
        return amplitude[label >> half] + 1j * amplitude[label & self._levels - 1]

    def map(self, xp, labels):
        """Symbols of ``labels``: complex128 array of the same shape, in the array module ``xp``."""
        return xp.asarray(self.points)[labels]

    def decide(self, xp, symbols):
        """Labels (int32) of the points nearest to ``symbols`` (complex, any shape)."""
        top = self._levels - 1

        def gray(x):
            at = xp.clip(xp.rint((x / self._unit + top) / 2), 0, top).astype(np.int32)
            return at ^ (at >> 1)

        return (gray(symbols.real) << (self.bits_per_symbol // 2)) | gray(symbols.imag)

    def bit_errors(self, xp, sent, received, axis: int | tuple[int, ...] = -1):
        """Bits that differ between two arrays of labels, summed along ``axis`` (int64)."""
        ones = np.array([int(v).bit_count() for v in range(self._levels**2)], dtype=np.int64)
        return xp.asarray(ones)[sent ^ received].sum(axis=axis)

    def ber(self, snr):
        """Bit error ratio in white Gaussian noise, exact for Gray-mapped QAM; NaN for Gaussian symbols.

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
