"""Constants of the time step: spectral operators, perfectly matched layer, absorption coefficients.

Formulas: Treeby & Cox 2010 (doi:10.1117/1.3360308), Treeby et al. 2012 (doi:10.1121/1.4712021).
"""

from __future__ import annotations

import math

import numpy as np

from wavefabric.acoustics.problem import Problem
from wavefabric.acoustics.solver.parts import Part, whole
from wavefabric.spectral.wavenumbers import derivative, translation

#: Kinds of spectral operators that ``fill_operator`` knows.
SINC, COS, POWER = 0, 1, 2


def pml(n: int, size: int, alpha: float, speed: float, spacing: float, dt: float, staggered: bool):
    """Factors of the perfectly matched layer along one axis, shape (n,); applied twice per update.

    exp(−Δt/2 · α c_ref/Δx · d⁴), with d from 1 at the outer edge to 0 at the inner one (Tabei, Mast &
    Waag 2002, doi:10.1121/1.1421344; Treeby & Cox 2010, eq. (14)).
    """
    factor = np.ones(n)
    if size:
        i = np.arange(size) + (0.5 if staggered else 0.0)
        strength = dt / 2 * alpha * speed / spacing
        factor[:size] = np.exp(-strength * ((i - size) / -size) ** 4)
        factor[n - size :] = np.exp(-strength * ((i + 1) / size) ** 4)
    return factor


def pml_factors(problem: Problem, staggered: bool, part: Part | None = None) -> list[np.ndarray]:
    """`pml` of every axis of the whole grid, x first, at the points of a part."""
    part = part or whole(problem.shape)
    return [
        pml(
            part.shape[axis],
            problem.pml_size[axis],
            problem.pml_alpha[axis],
            problem.reference_speed,
            problem.spacing[axis],
            problem.dt,
            staggered,
        )[part.indices(axis)]
        for axis in range(problem.dimensions)
    ]


def wavenumber_range(problem: Problem) -> tuple[float, float]:
    """Smallest and largest |k| on the grid, rad/m, apart from 0."""
    steps = [
        (2 * math.pi / (n * d), n // 2)
        for n, d in zip(problem.shape[: problem.dimensions], problem.spacing, strict=False)
    ]
    return min(step for step, _ in steps), math.hypot(*(step * count for step, count in steps))


def derivatives(problem: Problem, sign: int, part: Part | None = None) -> list[np.ndarray]:
    """i k e^{±i k Δ/2} of every axis: to the staggered points (+) and back (−); x is the half spectrum."""
    return _along_axes(derivative, problem, sign, part)


def unstaggering(problem: Problem, part: Part | None = None) -> list[np.ndarray]:
    """e^{−i k Δ/2} of every axis: velocities from the staggered points to those of the pressure."""
    return _along_axes(translation, problem, -1, part)


def _along_axes(factor, problem: Problem, sign: int, part: Part | None) -> list[np.ndarray]:
    """``factor`` of half a spacing for every axis of the part's basis, where the part holds the spectrum."""
    part = part or whole(problem.shape)
    return [
        part.spectrum(
            factor(part.basis[axis], problem.spacing[axis], sign * problem.spacing[axis] / 2), axis
        ).copy()
        for axis in range(problem.dimensions)
    ]


def neper_coefficient(power: float) -> float:
    """Np m⁻¹ (rad/s)^−y of 1 dB MHz^−y cm⁻¹ (Treeby & Cox 2010, after eq. (8))."""
    return 100 * (1e-6 / (2 * math.pi)) ** power / (20 * math.log10(math.e))


def absorption_factors(problem: Problem) -> tuple[float, float]:
    """(a, b) with τ = a α₀ c₀^(y−1) and η = b α₀ c₀^y (Treeby & Cox 2010, eq. (10)).

    Without dispersion b is 0.
    """
    y = problem.alpha_power
    twice = 2 * neper_coefficient(y)
    disperses = problem.absorption == "power_law" and problem.dispersion
    return -twice, twice * math.tan(math.pi * y / 2) if disperses else 0.0
