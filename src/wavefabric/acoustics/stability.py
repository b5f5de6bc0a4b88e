"""How long a time step may be, and how high a frequency the grid carries."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from wavefabric.acoustics.grid import Grid
from wavefabric.acoustics.medium import Medium
from wavefabric.acoustics.problem import Problem
from wavefabric.errors import InputError
from wavefabric.units import show


@dataclass(frozen=True)
class Stability:
    """What is known of a time step.

    Parameters
    ----------
    max_dt : float
        Largest stable time step, s; inf if every one is. Exact for a uniform medium; an estimate from its
        extremes for others.
    cfl : float
        c_max Δt / min Δx of the time step given.
    warning : str or None
        One line if the time step is longer than `max_dt`.
    """

    max_dt: float
    cfl: float
    warning: str | None


def stability(problem: Problem) -> Stability:
    """Largest stable time step of the k-space scheme, sources, PML and nonlinearity left out.

    Notes
    -----
    Of a plane wave with wavenumber k, with s = sin(c_ref k Δt/2), one step multiplies (Σρ, ∇·u) by a 2 × 2
    matrix with the determinant 1 + aT and the trace 2 + aT − Δt a E, a = 4 s² c²/(c_ref² Δt). T = τ k^(y−2)
    is the absorption, E = 1 − η k^(y−1) the dispersion in the equation of state (Treeby & Cox 2010,
    doi:10.1121/1.3377056). Its eigenvalues stay within the unit circle while E ≥ 0 and

        (c/c_ref)² s² (E + 2|T|/Δt) ≤ 1   for all k up to the grid's largest, √Σ(π/Δ_i)².

    Without absorption that is sin(c_ref k Δt/2) ≤ c_ref/c (Tabei, Mast & Waag 2002,
    doi:10.1121/1.1421344): every time step is stable if c_ref ≥ c.
    """
    n = problem.dimensions
    c_max = float(np.max(problem.sound_speed))
    cfl = c_max * problem.dt / min(problem.spacing[:n])
    largest = _largest(problem, c_max)
    warning = None
    if problem.dt > largest:
        warning = f"dt: {problem.dt:.6g} s is not stable; allowed: up to {largest:.6g} s"
    return Stability(largest, cfl, warning)


def max_frequency(grid: Grid, medium: Medium, points_per_wavelength: float = 2.0) -> float:
    """Highest frequency, Hz, with so many grid points to its shortest wavelength along the widest spacing."""
    if not points_per_wavelength > 0:
        raise InputError(f"points_per_wavelength: {show(points_per_wavelength)}; allowed: above 0")
    return medium.speeds[0] / (points_per_wavelength * max(grid.spacing))


def _wavenumbers(problem: Problem) -> tuple[float, float]:
    """Smallest and largest |k| on the grid, apart from 0."""
    steps = [
        (2 * math.pi / (n * d), n // 2)
        for n, d in zip(problem.shape[: problem.dimensions], problem.spacing, strict=False)
    ]
    return min(step for step, _ in steps), math.hypot(*(step * count for step, count in steps))


def _largest(problem: Problem, c_max: float) -> float:
    k_min, k_max = _wavenumbers(problem)
    c_ref = problem.reference_speed
    if problem.absorption == "none" or not np.any(problem.alpha_coeff):
        return math.inf if c_max <= c_ref else 2 / (c_ref * k_max) * math.asin(c_ref / c_max)
    y = 2.0 if problem.absorption == "stokes" else problem.alpha_power
    # Absorption in Np (rad/s)^-y m^-1.
    alpha = np.asarray(problem.alpha_coeff) * (100 / (20 * math.log10(math.e)) * (1e-6 / (2 * math.pi)) ** y)
    c = np.asarray(problem.sound_speed)
    k = np.geomspace(k_min, k_max, 256)
    absorb = float(np.max(2 * alpha * c ** (y + 1))) * k ** (y - 2)  # c² |T|
    slow = np.full_like(k, c_max**2)  # c² E
    if problem.absorption == "power_law" and problem.dispersion:
        tangent = math.tan(math.pi * y / 2)
        if tangent > 0 and float(np.max(2 * alpha * c**y)) * tangent * np.max(k ** (y - 1)) > 1:
            return 0.0
        pick = np.max if tangent < 0 else np.min
        slow -= tangent * float(pick(2 * alpha * c ** (y + 2))) * k ** (y - 1)

    def excess(dt: float) -> float:
        sine = np.sin(np.minimum(c_ref * k * dt / 2, math.pi / 2))
        return float(np.max((sine / c_ref) ** 2 * (slow + 2 * absorb / dt))) - 1

    return _first_root(excess, math.pi / (c_ref * k_max))


def _first_root(excess, scale: float) -> float:
    """Where a function that is below 0 near 0 first passes it, up to 16 scales; inf if it does not."""
    steps = scale * np.geomspace(1e-6, 16, 400)
    above = [step for step in steps if excess(step) > 0]
    if not above:
        return math.inf
    high = above[0]
    low = high / 2 if high == steps[0] else float(steps[np.searchsorted(steps, high) - 1])
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if excess(middle) > 0 else (middle, high)
    return float(low)
