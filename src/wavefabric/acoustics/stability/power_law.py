"""Waves in a medium of power-law absorption: their attenuation and phase speed, and powers without any.

In a uniform medium a wave exp(ikx − iωt) has

    ω² = c₀² k² (1 − iωT k^(y−2) − T c₀ tan(πy/2) k^(y−1)),   T = 2 α₀ c₀^(y−1)

(Treeby & Cox 2010, doi:10.1121/1.3377056, eq. 9, 10; without the tangent where dispersion is left out). Only
to first order in α₀ is its k = ω/c₀ + α₀ ω^y (i + tan(πy/2)). At y = 1 the tangent has a pole.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from wavefabric.acoustics.problem import Problem
from wavefabric.acoustics.solver.formulas import (
    disperses,
    eta_factor,
    neper_coefficient,
    wavenumber_range,
)

#: Parts in which absorption is raised from none to find the root that belongs to it.
_PARTS = 64
#: The part of c₀² by which dispersion may raise that of the longest waves: near the pole it is more.
_POLE = 0.5


@dataclass(frozen=True)
class PowerLaw:
    """Absorption at a point: c₀, m/s, α₀, dB/(MHz^y cm), y and tan(πy/2), which is 0 without dispersion."""

    sound_speed: float
    alpha_coeff: float
    power: float
    tangent: float

    @classmethod
    def strongest(cls, problem: Problem) -> "PowerLaw":
        """The law where α₀ c₀ is largest, hence the attenuation per wavelength at any frequency."""
        c, alpha = np.asarray(problem.sound_speed), np.asarray(problem.alpha_coeff)
        product = np.asarray(alpha * c)
        at = np.unravel_index(int(np.argmax(product)), product.shape)
        c, alpha = (float(np.broadcast_to(field, product.shape)[at]) for field in (c, alpha))
        y = 2.0 if problem.absorption == "stokes" else problem.alpha_power
        return cls(c, alpha, y, -eta_factor(problem))

    def attenuation(self, frequency: float) -> float:
        """α₀ f^y, dB/cm, as the law says."""
        return self.alpha_coeff * (frequency / 1e6) ** self.power

    def wavenumber(self, frequency: float) -> complex:
        """k, rad/m: the root that ω/c₀ becomes as absorption rises from none; infinite if no wave travels."""
        omega, y = 2 * math.pi * frequency, self.power
        k = omega / self.sound_speed
        # In q = k c₀/ω: q² − i s q^y − s tan q^(y+1) = 1.
        strength = 2 * neper_coefficient(y) * self.alpha_coeff * self.sound_speed * omega ** (y - 1)
        q = 1 + 0j
        for s in strength * np.arange(1, _PARTS + 1) / _PARTS:
            for _ in range(8):
                loss, shift = 1j * s * q**y, s * self.tangent * q ** (y + 1)
                q -= (q * q - loss - shift - 1) / (2 * q - (y * loss + (y + 1) * shift) / q)
        return k * q if q.real > 0 and q.imag >= 0 else complex(math.inf, math.inf)

    def stiffness(self, k: float) -> float:
        """1 − T c₀ tan(πy/2) k^(y−1): (phase speed / c₀)² of a wave of this wavenumber that is not damped."""
        alpha = neper_coefficient(self.power) * self.alpha_coeff
        return 1 - 2 * alpha * self.sound_speed**self.power * self.tangent * k ** (self.power - 1)


def pole_of_dispersion(problem: Problem) -> str | None:
    """A line for a problem whose dispersion is too strong, with the nearest powers allowed; else None."""
    if not disperses(problem) or not np.any(problem.alpha_coeff):
        return None
    law, ends = PowerLaw.strongest(problem), wavenumber_range(problem)

    def near(y: float) -> bool:
        stiffness = [replace(law, power=y, tangent=math.tan(math.pi * y / 2)).stiffness(k) for k in ends]
        return min(stiffness) < 0 or stiffness[0] > 1 + _POLE

    if not near(law.power):
        return None
    powers = [y / 100 for y in range(1, 300) if y != 100 and not near(y / 100)]
    allowed = [f"at most {y:g}" for y in [y for y in powers if y < law.power][-1:]]
    allowed += [f"at least {y:g}" for y in [y for y in powers if y > law.power][:1]]
    return (
        f"alpha_power: {law.power:g} with {law.alpha_coeff:.4g} dB/(MHz^y cm) makes waves grow, since its "
        f"dispersion goes with tan(πy/2) = {law.tangent:.4g}; allowed: "
        f"{', '.join(allowed)}, dispersion=False (k-Wave: alpha_mode='no_dispersion')"
    )
