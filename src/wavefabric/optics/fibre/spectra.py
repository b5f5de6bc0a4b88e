"""Model attenuation over frequency, and Raman gain over the frequency shift, by tables or formulas."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy  # its submodules load when first used
from numpy.typing import ArrayLike

from wavefabric.base.arguments import number, numbers, positive
from wavefabric.base.errors import InputError
from wavefabric.base.files.input import naming
from wavefabric.base.units import SPEED_OF_LIGHT, quantity, show
from wavefabric.optics.fibre.csv_files import Array, read_columns
from wavefabric.optics.fibre.fibre import Fibre

#: Vibrational modes of silica: wavenumber (1/cm), amplitude, full widths at half maximum of the Gaussian and
#: of the Lorentzian line (1/cm). Hollenbeck and Cantrell 2002, table 1.
_WAVENUMBER = np.array([56.25, 100, 231.25, 362.5, 463, 497, 611.5, 691.67, 793.67, 835.5, 930, 1080, 1215])
_AMPLITUDE = np.array([1, 11.4, 36.67, 67.67, 74, 4.5, 6.8, 4.6, 4.2, 4.5, 2.7, 3.1, 3])
_GAUSS = np.array([52.1, 110.42, 175, 162.5, 135.33, 24.5, 41.5, 155, 59.5, 64.3, 150, 91, 160])
_LORENTZ = np.array([17.37, 38.81, 58.33, 54.17, 45.11, 8.17, 13.83, 51.67, 19.83, 21.43, 50, 30.33, 53.33])
#: Shifts at which the spectrum of silica is tabulated, Hz: its narrowest line is 0.8 THz wide.
_SILICA_SHIFT = np.linspace(0, 50e12, 5001)


@dataclass(frozen=True, eq=False)
class LossSpectrum:
    """Describes power attenuation (1/m) by a function ``curve`` of frequency, ``first`` to ``last`` (Hz).

    Arguments of all methods may be text with a unit. `InputError` if an argument is out of range.
    """

    curve: Callable[[Array], Any]
    first: float = 0.0
    last: float = float("inf")

    @classmethod
    def table(cls, frequencies: ArrayLike, alpha: ArrayLike) -> "LossSpectrum":
        """Interpolate ``alpha`` (N,), 1/m, over increasing ``frequencies`` (N,), Hz, by cubics (PCHIP)."""
        f, alpha = numbers(frequencies, "Hz", "frequencies"), numbers(alpha, "1/m", "alpha")
        if f.ndim != 1 or f.shape != alpha.shape or len(f) < 2:
            fault = f"shape {alpha.shape} given for frequencies of shape {f.shape}"
            raise InputError(f"alpha: {fault}; allowed: one value for each of at least two frequencies")
        if not (np.all(np.isfinite(f)) and f[0] > 0 and np.all(np.diff(f) > 0)):
            raise InputError(f"frequencies: {show(f.tolist())} Hz given; allowed: positive and increasing")
        return cls(scipy.interpolate.PchipInterpolator(f, _checked(alpha)), float(f[0]), float(f[-1]))

    @classmethod
    def from_csv(cls, path: str | Path) -> "LossSpectrum":
        """Read a table with the columns ``frequency_thz,attenuation_db_per_km``, lines in any order."""
        columns = read_columns(path, ("frequency_thz", "attenuation_db_per_km"))
        order = np.argsort(columns["frequency_thz"])
        alpha = columns["attenuation_db_per_km"][order] * quantity("1 dB/km", "1/m")
        with naming(path):
            return cls.table(columns["frequency_thz"][order] * 1e12, alpha)

    @classmethod
    def polynomial(cls, coefficients: Any, reference: float | str) -> "LossSpectrum":
        """Return α(f) = Σ_n c_n (f − reference)^n for a list of c_n in 1/m/Hz^n, ``reference`` in Hz."""
        if not isinstance(coefficients, (list, tuple, np.ndarray)) or not len(coefficients):
            raise InputError(f"coefficients: {show(coefficients)} given; allowed: a list, constant first")
        c = [number(c, "1/m" + f"/Hz^{n}" * (n > 0), "coefficients") for n, c in enumerate(coefficients)]
        centre = positive(reference, "Hz", "reference")
        return cls(lambda f: np.polynomial.polynomial.polyval(f - centre, c))

    def at(self, frequencies: ArrayLike) -> Array:
        """Return the power attenuation (1/m) at optical ``frequencies`` (Hz), of the same shape."""
        return _checked(self._values(numbers(frequencies, "Hz", "frequencies")))

    def of_modes(self, frequencies: ArrayLike, fibre: Fibre) -> Array:
        """Return the power attenuation of each mode at optical frequencies (F,) in Hz: 1/m, shape (F, M).

        The fibre's α holds at its wavelength; the spectrum adds the change from there, equal for all modes.
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


def silica_spectrum(shift: ArrayLike) -> Array:
    """Return the Raman gain of silica over the frequency shift (Hz) in arbitrary units; odd in the shift.

    S(Ω) = Im ∫ h(t) exp(iΩt) dt for h(t) = Σ A_i exp(−γ_i t − Γ_i²t²/4) sin(ω_i t), t > 0: thirteen pairs of
    Voigt lines, in closed form by the Faddeeva function w((Ω ∓ ω_i + iγ_i)/Γ_i). Source: D. Hollenbeck, C. D.
    Cantrell, J. Opt. Soc. Am. B 19, 2886 (2002), doi 10.1364/JOSAB.19.002886.
    """
    omega = 2 * math.pi * np.asarray(shift, dtype=float)[..., None]
    radian = 100 * math.pi * SPEED_OF_LIGHT  # half the angular frequency of 1/cm
    centre, width, damping = 2 * radian * _WAVENUMBER, radian * _GAUSS, 1j * radian * _LORENTZ
    wofz = scipy.special.wofz
    lines = wofz((omega - centre + damping) / width) - wofz((omega + centre + damping) / width)
    return (_AMPLITUDE * math.sqrt(math.pi) / (2 * width) * lines.real).sum(axis=-1)


@dataclass(frozen=True, eq=False)
class RamanGain:
    """Describes the Raman gain efficiency C_R = g_R/(2A) between waves of random polarisation.

    A wave of power P amplifies a wave of lower frequency with the power gain C_R P (1/m), if their intensity
    overlap is 1/A. The factor 1/2 is the mean over polarisations: parallel polarisations have the gain g_R,
    the gain between orthogonal ones is neglected. Quantities may be text with a unit; `InputError` if one is
    out of range. Arrays are read-only.

    C_R depends on the frequency difference, ``shift``. Between the given shifts it is a monotone cubic
    (PCHIP), at shift 0 and above the last it is 0. With ``quantum_defect`` each pump photon gives one signal
    photon, and the rest of its energy to the glass. Without it the sum of the powers is conserved, as
    closed-form solutions for narrow bands assume.
    """

    shift: Array  # from pump to signal, Hz, increasing from 0 or above, (N,)
    efficiency: Array  # C_R for ``area``, 1/(W m), (N,)
    area: float  # effective area A, m²
    pump_frequency: float | None = None  # pump of C_R, which grows with it, Hz; None: the same for all
    quantum_defect: bool = True

    def __post_init__(self):
        shift = numbers(self.shift, "Hz", "shift")
        efficiency = numbers(self.efficiency, "1/W/m", "efficiency")
        if shift.ndim != 1 or shift.shape != efficiency.shape or len(shift) < 2:
            fault = f"shape {efficiency.shape} given for shifts of shape {shift.shape}"
            raise InputError(f"efficiency: {fault}; allowed: one value for each of at least two shifts")
        if not (np.all(np.isfinite(shift)) and shift[0] >= 0 and np.all(np.diff(shift) > 0)):
            raise InputError(f"shift: {show(shift.tolist())} Hz given; allowed: increasing from 0 or above")
        if not (np.all(np.isfinite(efficiency)) and efficiency.min() >= 0):
            raise InputError(f"efficiency: {efficiency.min():g} 1/(W m) given; allowed: finite, 0 or more")
        if shift[0] > 0:
            shift, efficiency = np.append(0.0, shift), np.append(0.0, efficiency)
        if efficiency[0] > 0:
            raise InputError(f"efficiency: {efficiency[0]:g} 1/(W m) given at shift 0; allowed: 0 there")
        area, pump = positive(self.area, "m^2", "area"), self.pump_frequency
        pump = None if pump is None else positive(pump, "Hz", "pump_frequency")
        shift.setflags(write=False)
        efficiency.setflags(write=False)
        vars(self).update(shift=shift, efficiency=efficiency, area=area, pump_frequency=pump)

    @classmethod
    def silica(cls) -> "RamanGain":
        """Return the gain of silica (`silica_spectrum`): peak g_R = 1e-13 m/W at a pump of 1 µm, A = 80 µm².

        G. P. Agrawal, Nonlinear Fiber Optics, section 8.1. A fibre's mode overlaps replace 1/(80 µm²).
        """
        area, spectrum = 80e-12, silica_spectrum(_SILICA_SHIFT)
        efficiency = np.maximum(spectrum, 0) * (1e-13 / (2 * area * spectrum.max()))
        return cls(_SILICA_SHIFT, efficiency, area, SPEED_OF_LIGHT / 1e-6)

    @classmethod
    def triangular(cls, slope: Any, area: Any = 80e-12, cutoff: Any = 15e12, **options: Any) -> "RamanGain":
        """Return a gain linear in the shift (Hz): C_R = ``slope`` (1/(W m Hz)) · shift, up to ``cutoff``."""
        slope, cutoff = number(slope, "1/W/m/Hz", "slope"), positive(cutoff, "Hz", "cutoff")
        return cls(np.array([0, cutoff]), np.array([0, slope * cutoff]), area, **options)

    @classmethod
    def from_csv(cls, path: str | Path, area: Any, **options: Any) -> "RamanGain":
        """Read the columns ``shift_thz,efficiency_per_w_per_km``; ``area`` and options as in the class."""
        table = read_columns(path, ("shift_thz", "efficiency_per_w_per_km"))
        if (reach := table["shift_thz"].max()) > 1000:
            fault = f"the shifts reach {reach:g} THz (the header says terahertz)"
            raise InputError(f"{path}: shift_thz: {fault}; allowed: up to 1000 THz")
        with naming(path):
            return cls(table["shift_thz"] * 1e12, table["efficiency_per_w_per_km"] * 1e-3, area, **options)

    def at(self, shift: ArrayLike) -> Array:
        """Return C_R, 1/(W m), at ``shift`` Hz below a pump at ``pump_frequency``; above it negative."""
        curve = scipy.interpolate.PchipInterpolator(self.shift, self.efficiency, extrapolate=False)
        return np.sign(shift) * np.nan_to_num(curve(np.abs(shift)))

    def coupling(self, frequencies: ArrayLike, sources: ArrayLike) -> Array:
        """Return A C_R, m/W, of F ``frequencies`` for light at S ``sources`` (Hz): (F, S); negative for loss.

        With the intensity overlap in 1/m², d ln P(f)/dz = Σ_s coupling[f, s] · overlap · P_s. If f < s the
        value is A C_R(s − f). Otherwise it is −A C_R(f − s), times f/s with the quantum defect, so that the
        number of photons is conserved.
        """
        target, source = np.asarray(frequencies, dtype=float)[:, None], np.asarray(sources, dtype=float)
        coupling = self.area * self.at(source - target)
        if self.pump_frequency is not None:
            coupling *= np.maximum(target, source) / self.pump_frequency
        if self.quantum_defect:
            coupling *= np.maximum(target / source, 1.0)
        return coupling
