"""Computes phase speed and attenuation of power-law absorption, and exponents it cannot represent.

In a uniform medium a wave exp(ikx − iωt) satisfies

    ω² = c₀² k² (1 − iωT k^(y−2) − T c₀ tan(πy/2) k^(y−1)),   T = 2 α₀ c₀^(y−1)

(Treeby & Cox 2010, doi:10.1121/1.3377056, eq. 9, 10). Its attenuation is α₀ ω^y only to first order in α₀. At
y = 1 the tangent has a pole.
"""

import math
from dataclasses import dataclass

import numpy as np

from wavefabric.acoustics.problem import Problem
from wavefabric.acoustics.solver.formulas import disperses, eta_factor, neper_coefficient, wavenumber_range

#: Largest relative errors of a wave's speed and attenuation without a warning.
_SPEED_LIMIT, _ATTENUATION_LIMIT = 0.02, 0.05
#: 1 Np/m in dB/cm.
_DB_PER_CM = 20 / math.log(10) / 100
#: Largest allowed ratio of c² of the longest waves of a grid to c₀²; larger ones come from the pole.
_LARGEST_SPEED_RATIO = 1.5


@dataclass(frozen=True)
class PowerLaw:
    """Describes absorption at a point: c₀, m/s, α₀, dB/(MHz^y cm), y and tan(πy/2), 0 without dispersion."""

    sound_speed: float
    alpha_coeff: float
    power: float
    tangent: float

    @classmethod
    def strongest(cls, problem: Problem) -> "PowerLaw":
        """Return the law at the point where α₀ c₀, hence the attenuation per wavelength, is largest."""
        y = 2.0 if problem.absorption == "stokes" else problem.alpha_power
        return cls(*problem.extremes.strongest, y, -eta_factor(problem))

    def attenuation(self, frequency: float) -> float:
        """Return the attenuation α₀ f^y, dB/cm."""
        return self.alpha_coeff * (frequency / 1e6) ** self.power

    def wave(self, frequency: float) -> tuple[float, float]:
        """Return phase speed, m/s, and attenuation, dB/cm, of a wave; (0, inf) if no wave propagates."""
        k, y = 2 * math.pi * frequency / self.sound_speed, self.power
        # With q = k c₀/ω: q² − i s q^y − s tan(πy/2) q^(y+1) = 1; its root is tracked from s = 0.
        strength = 2 * self.attenuation(frequency) / _DB_PER_CM / k
        q = 1 + 0j
        for s in strength * np.arange(1, 65) / 64:
            for _ in range(8):  # Newton's method
                loss, shift = 1j * s * q**y, s * self.tangent * q ** (y + 1)
                q -= (q * q - loss - shift - 1) / (2 * q - (y * loss + (y + 1) * shift) / q)
        if not (q.real > 0 and q.imag >= 0):
            return 0.0, math.inf
        return self.sound_speed / q.real, q.imag * k * _DB_PER_CM

    def description(self, frequency: float) -> str:
        """Return a text that compares the nominal speed and attenuation with those of a simulated wave."""
        speed, attenuation = self.wave(frequency)
        return (
            f"{self.power:g} with {self.alpha_coeff:.4g} dB/(MHz^y cm) makes sound of {frequency / 1e6:.2g} "
            f"MHz travel at {speed:.0f} instead of {self.sound_speed:.0f} m/s, attenuated by "
            f"{attenuation:.3g} instead of {self.attenuation(frequency):.3g} dB/cm"
        )

    def error(self, frequency: float) -> float:
        """Return the larger relative error of a wave's speed and attenuation, each divided by its limit."""
        speed, attenuation = self.wave(frequency)
        ratio = attenuation / self.attenuation(frequency)
        return max(abs(speed / self.sound_speed - 1) / _SPEED_LIMIT, abs(ratio - 1) / _ATTENUATION_LIMIT)

    def is_representable(self, power: float, wavenumbers: tuple[float, float]) -> bool:
        """Return whether dispersion with the exponent ``power`` stays moderate: no wave has a negative c².

        c is the phase speed without the loss term. In the longest waves c² must also be at most 1.5 c₀².
        ``wavenumbers`` are the smallest, that of the longest waves, and the largest.
        """
        double_tau, tangent = 2 * neper_coefficient(power) * self.alpha_coeff, math.tan(math.pi * power / 2)
        ratios = [1 - double_tau * tangent * self.sound_speed**power * k ** (power - 1) for k in wavenumbers]
        return min(ratios) >= 0 and ratios[0] <= _LARGEST_SPEED_RATIO


def pole_of_dispersion(problem: Problem) -> str | None:
    """Return a message, with the nearest allowed powers, if dispersion is too strong; else None."""
    law, wavenumbers = PowerLaw.strongest(problem), wavenumber_range(problem)
    if not disperses(problem) or law.is_representable(law.power, wavenumbers):
        return None
    powers = [y / 100 for y in range(1, 300) if y != 100 and law.is_representable(y / 100, wavenumbers)]
    allowed = [f"at most {y:g}" for y in [y for y in powers if y < law.power][-1:]]
    allowed += [f"at least {y:g}" for y in [y for y in powers if y > law.power][:1]]
    allowed += ["dispersion=False (k-Wave: alpha_mode='no_dispersion')"]
    return (
        f"alpha_power: {law.power:.12g} with {law.alpha_coeff:.4g} dB/(MHz^y cm) makes waves grow, since its "
        f"dispersion goes with tan(πy/2) = {law.tangent:.4g}; allowed: {', '.join(allowed)}"
    )
