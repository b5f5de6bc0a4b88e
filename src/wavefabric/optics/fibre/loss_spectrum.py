"""Attenuation over frequency: a table or a polynomial, for all modes of a fibre."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import PchipInterpolator

from wavefabric.errors import InputError
from wavefabric.files.input import naming
from wavefabric.optics.fibre.csv_files import Array, read_columns
from wavefabric.optics.fibre.fibre import Fibre
from wavefabric.quantities import number, numbers, positive
from wavefabric.units import SPEED_OF_LIGHT, quantity, show


@dataclass(frozen=True, eq=False)
class LossSpectrum:
    """Power attenuation (1/m) over the optical frequency (Hz): ``curve``, known from ``first`` to ``last``.

    Quantities of all functions may be text with a unit. `InputError` if one is out of range.
    """

    curve: Callable[[Array], Any]
    first: float = 0.0
    last: float = float("inf")

    @classmethod
    def table(cls, frequencies: ArrayLike, alpha: ArrayLike) -> "LossSpectrum":
        """``alpha`` (N,) in 1/m at increasing ``frequencies`` (N,) in Hz; monotone cubic (PCHIP) between."""
        f, alpha = numbers(frequencies, "Hz", "frequencies"), numbers(alpha, "1/m", "alpha")
        if f.ndim != 1 or f.shape != alpha.shape or len(f) < 2:
            fault = f"shape {alpha.shape} given for frequencies of shape {f.shape}"
            raise InputError(f"alpha: {fault}; allowed: one value for each of at least two frequencies")
        if not (np.all(np.isfinite(f)) and f[0] > 0 and np.all(np.diff(f) > 0)):
            raise InputError(f"frequencies: {show(f.tolist())} Hz given; allowed: positive and increasing")
        return cls(PchipInterpolator(f, _checked(alpha)), float(f[0]), float(f[-1]))

    @classmethod
    def from_csv(cls, path: str | Path) -> "LossSpectrum":
        """A table in the columns ``frequency_thz,attenuation_db_per_km``, lines in any order."""
        columns = read_columns(path, ("frequency_thz", "attenuation_db_per_km"))
        order = np.argsort(columns["frequency_thz"])
        alpha = columns["attenuation_db_per_km"][order] * quantity("1 dB/km", "1/m")
        with naming(path):
            return cls.table(columns["frequency_thz"][order] * 1e12, alpha)

    @classmethod
    def polynomial(cls, coefficients: Any, reference: float | str) -> "LossSpectrum":
        """α(f) = Σ_n c_n (f − reference)^n, a list of c_n in 1/m/Hz^n, ``reference`` in Hz."""
        if not isinstance(coefficients, (list, tuple, np.ndarray)) or not len(coefficients):
            raise InputError(f"coefficients: {show(coefficients)} given; allowed: a list, constant first")
        c = [number(c, "1/m" + f"/Hz^{n}" * (n > 0), "coefficients") for n, c in enumerate(coefficients)]
        centre = positive(reference, "Hz", "reference")
        return cls(lambda f: np.polynomial.polynomial.polyval(f - centre, c))

    def at(self, frequencies: ArrayLike) -> Array:
        """Power attenuation at optical frequencies (Hz), 1/m, in their shape; it must not be negative."""
        return _checked(self._values(numbers(frequencies, "Hz", "frequencies")))

    def of_modes(self, frequencies: ArrayLike, fibre: Fibre) -> Array:
        """Power attenuation of each mode at optical frequencies (F,) in Hz: 1/m, shape (F, M).

        The fibre's own α holds at its wavelength; the spectrum adds its change from there to all modes.
        """
        change = self._values(np.atleast_1d(numbers(frequencies, "Hz", "frequencies")))
        change -= self._values(np.array(SPEED_OF_LIGHT / fibre.wavelength))
        return _checked(fibre.alpha + change[:, None])

    def _values(self, frequencies: Array) -> Array:
        if np.any(outside := ~((frequencies >= self.first) & (frequencies <= self.last))):
            limit = f"{self.first / 1e12:.6g} to {self.last / 1e12:.6g} THz, as far as the loss is known"
            raise InputError(f"frequencies: {frequencies[outside][0]:.6g} Hz given; allowed: {limit}")
        return np.array(self.curve(frequencies), dtype=float)


def _checked(alpha: Array) -> Array:
    if not (np.all(np.isfinite(alpha)) and np.min(alpha, initial=0) >= 0):
        raise InputError(f"alpha: {np.min(alpha):g} 1/m given; allowed: attenuation, finite and 0 or more")
    return alpha
