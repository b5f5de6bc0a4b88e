"""Power-law absorption by fractional Laplacians, |k|^(y−2) for the loss and |k|^(y−1) for the dispersion.

Treeby & Cox 2010 (doi:10.1121/1.3377056).
"""

from __future__ import annotations

import math

from wavefabric.acoustics.problem import Problem


def neper_coefficient(power: float) -> float:
    """Np m⁻¹ (rad/s)^−y of 1 dB MHz^−y cm⁻¹ (Treeby & Cox 2010, after eq. (8))."""
    return 100 * (1e-6 / (2 * math.pi)) ** power / (20 * math.log10(math.e))


def disperses(problem: Problem) -> bool:
    """Whether absorption changes the speed of sound with frequency."""
    return problem.absorption == "power_law" and problem.dispersion


def absorption_factors(problem: Problem) -> tuple[float, float]:
    """(a, b) with τ = a α₀ c₀^(y−1), η = b α₀ c₀^y (Treeby & Cox 2010, eq. (10)); b = 0: no dispersion."""
    y = problem.alpha_power
    twice = 2 * neper_coefficient(y)
    return -twice, twice * math.tan(math.pi * y / 2) if disperses(problem) else 0.0


def eta_factor(problem: Problem) -> float:
    """η/(τ c₀) = −tan(πy/2), the same everywhere; 0 without dispersion."""
    return -math.tan(math.pi * problem.alpha_power / 2) if disperses(problem) else 0.0
