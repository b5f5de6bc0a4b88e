"""Refractive index of glasses: Sellmeier equations, silica doped with germania, constant index."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wavefabric.errors import InputError
from wavefabric.quantities import positive


@dataclass(frozen=True)
class ConstantIndex:
    """A material of refractive index ``n`` (at least 1, else InputError) without dispersion."""

    n: float

    def __post_init__(self):
        if not (math.isfinite(self.n) and self.n >= 1):
            raise InputError(f"n: {self.n!r} is not a refractive index; give a number of at least 1")

    def index(self, wavelength: float) -> float:
        """Refractive index; the wavelength (m) does not matter."""
        return self.n


@dataclass(frozen=True)
class Sellmeier:
    """Glass with n² = 1 + Σ A_i λ² / (λ² − L_i²): strengths A_i, resonance wavelengths L_i in m."""

    strengths: tuple[float, ...]
    resonances: tuple[float, ...]
    name: str = "glass"

    def __post_init__(self):
        if len(self.strengths) != len(self.resonances) or not self.strengths:
            given = f"{len(self.resonances)} given for {len(self.strengths)} strengths"
            raise InputError(f"resonances: {given}; give as many of each, at least one")

    def index(self, wavelength: float) -> float:
        """Refractive index at the vacuum wavelength in m; InputError where the equation does not hold."""
        square = positive(wavelength, "m", "wavelength") ** 2
        terms = zip(self.strengths, self.resonances, strict=True)
        n2 = 1 + sum(a * square / (square - b**2) for a, b in terms)
        if not n2 >= 1:
            raise InputError(f"wavelength: {wavelength!r} m lies outside the validity of {self.name}")
        return math.sqrt(n2)


#: Anything with a refractive index at a vacuum wavelength; hashable, so that solved modes are cached.
Material = ConstantIndex | Sellmeier

#: Fused silica, Fleming 1984 (doi 10.1364/AO.23.004486), after Malitson 1965.
SILICA = Sellmeier(
    (0.69616630, 0.40794260, 0.89747940),
    (0.068404300e-6, 0.11624140e-6, 9.8961610e-6),
    "SiO2",
)
#: Vitreous germania, Fleming 1984 (doi 10.1364/AO.23.004486).
GERMANIA = Sellmeier(
    (0.80686642, 0.71815848, 0.85416831),
    (0.068972606e-6, 0.15396605e-6, 11.841931e-6),
    "GeO2",
)


def mix_n2(host: Sellmeier, dopant: Sellmeier, fraction: ArrayLike, wavelength: float) -> NDArray[np.float64]:
    """n² of a doped glass: Sellmeier coefficients linear in the molar ``fraction`` x of the dopant.

    A_i = A_host + x (A_dopant − A_host), and L_i alike: J. W. Fleming, Appl. Opt. 23, 4486 (1984),
    doi 10.1364/AO.23.004486.
    """
    return _mix(host, dopant, np.asarray(fraction, dtype=float), wavelength)[0]


def fraction_of(host: Sellmeier, dopant: Sellmeier, n2: ArrayLike, wavelength: float) -> NDArray[np.float64]:
    """Molar fraction of dopant that gives ``n2``: the inverse of `mix_n2`; InputError beyond 0 to 1."""
    wanted = np.asarray(n2, dtype=float)
    low, high = (float(mix_n2(host, dopant, x, wavelength)) for x in (0.0, 1.0))
    tolerance = 1e-12
    if np.any(wanted < low - tolerance) or np.any(wanted > high + tolerance):
        worst = math.sqrt(float(wanted.max() if np.any(wanted > high + tolerance) else wanted.min()))
        raise InputError(
            f"index: {worst:.6f} is out of reach of {host.name} doped with {dopant.name}; "
            f"allowed: {math.sqrt(low):.6f} to {math.sqrt(high):.6f}"
        )
    x = (wanted - low) / (high - low)
    for _ in range(6):  # Newton: n²(x) is nearly straight
        value, slope = _mix(host, dopant, x, wavelength)
        x = x - (value - wanted) / slope
    return x


def _mix(host: Sellmeier, dopant: Sellmeier, x: NDArray[np.float64], wavelength: float):
    """n² of the mix and its derivative by the fraction."""
    if len(host.strengths) != len(dopant.strengths):
        has = f"{dopant.name} has {len(dopant.strengths)} Sellmeier terms"
        raise InputError(f"dopant: {has}; {host.name} needs {len(host.strengths)}")
    host.index(wavelength)  # refuses a wavelength beyond its validity
    square = wavelength**2
    value, slope = np.ones_like(x), np.zeros_like(x)
    for a, b, c, d in zip(host.strengths, dopant.strengths, host.resonances, dopant.resonances, strict=True):
        strength, resonance = a + x * (b - a), c + x * (d - c)
        pole = square / (square - resonance**2)
        value += strength * pole
        slope += (b - a) * pole + strength * pole**2 / square * 2 * resonance * (d - c)
    return value, slope
