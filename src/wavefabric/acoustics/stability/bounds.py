"""Computes bounds of the stable time step from the extremes of a medium, without taking any step."""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from wavefabric.acoustics.problem import Problem
from wavefabric.acoustics.solver.formulas import disperses, neper_coefficient, wavenumber_range

#: Most points of a grid on which a uniform medium is checked at each of the grid's wavenumbers.
_FEW = 1 << 14


@dataclass(frozen=True)
class MediumExtremes:
    """Holds the extremes of a medium that limit the time step; α₀ in Np (rad/s)^−y/m.

    ``effective_speed``, c_eff, is the square root of max(ρ₀c₀²)/min(ρ₀). On an axisymmetric grid of N radial
    points its square is larger by the factor 1 + 1/N. There the leapfrog's largest eigenvalue exceeds the
    bound of a Cartesian grid: it is up to 4 (1 + 0.7/N) where the bound is 4, in dense matrices of 16 to 200
    points.
    """

    effective_speed: float
    speeds: tuple[float, float]
    densities: tuple[float, float]
    uniform: bool
    lossy: bool
    #: Power y; tan(πy/2) with dispersion, else 0.
    power: float = 2.0
    tangent: float = 0.0
    #: Largest 2α₀cʸ, 2α₀c^(y+1) = c²|τ| and 2α₀c^(y+2), the last the smallest if the tangent is above 0.
    steepest: float = 0.0
    absorption: float = 0.0
    dispersion: float = 0.0

    @staticmethod
    def of(problem: Problem) -> "MediumExtremes":
        """Return the extremes of a problem's medium."""
        extremes = problem.extremes
        speeds, densities = extremes.ranges["sound_speed"], extremes.ranges["density"]
        effective = speeds[1]
        staggered = [ends for name, ends in extremes.ranges.items() if name.startswith("density_staggered")]
        if densities[0] < densities[1] or any(density != densities for density in staggered):
            effective = math.sqrt(extremes.stiffness[1] / min(low for low, _ in staggered))
        if problem.axisymmetric:
            effective *= math.sqrt(1 + 1 / problem.shape[1])
        alpha = extremes.ranges.get("alpha_coeff", (0.0, 0.0))
        lossy = alpha != (0.0, 0.0)
        ranges = [speeds, densities, *staggered, alpha]
        loss: dict[str, float] = {}
        if lossy:
            y = 2.0 if problem.absorption == "stokes" else problem.alpha_power
            twice = 2 * neper_coefficient(y)
            steepest, absorption, dispersion = extremes.losses
            loss = {"power": y, "absorption": twice * absorption[1]}
            if disperses(problem):
                tangent = math.tan(math.pi * y / 2)
                least = twice * dispersion[0 if tangent > 0 else 1]
                loss |= {"tangent": tangent, "steepest": twice * steepest[1], "dispersion": least}
        uniform = all(a == b for a, b in ranges)
        return MediumExtremes(effective, speeds, densities, uniform, lossy, **loss)

    @property
    def speed(self) -> float:
        """Return the largest sound speed, m/s."""
        return self.speeds[1]

    def stiffness(self, k: np.ndarray) -> np.ndarray:
        """Return an upper bound of c_eff² E at each wavenumber in ``k``; for E see `proved_limit`.

        If E can be negative at one of them, all results are negative: no time step is proved stable.
        """
        stiffer, squared_speed = (self.effective_speed / self.speed) ** 2, np.full_like(k, self.speed**2)
        if not self.tangent:
            return stiffer * squared_speed
        slope = k ** (self.power - 1)
        if self.tangent > 0 and self.steepest * self.tangent * np.max(slope) > 1:
            return -squared_speed
        return stiffer * (squared_speed - self.tangent * self.dispersion * slope)

    def excess(self, k: np.ndarray, sine: np.ndarray, dt: Any) -> Any:
        """Return by how much the condition of `proved_limit` is exceeded; at most 0 if it is met.

        It is the maximum over ``k`` (last axis) of (c_eff/c_ref)² s² (E + 2|T|/Δt) − 1; ``sine`` is s/c_ref.
        """
        stiff = self.stiffness(k)
        if self.absorption:
            stiffer = (self.effective_speed / self.speed) ** 2
            stiff = stiff + stiffer * self.absorption * k ** (self.power - 2) * 2 / dt
        return np.max(sine**2 * stiff, axis=-1) - 1

    def cause(self, reference_speed: float) -> str:
        """Return in words which properties of the medium can make a time step unstable."""
        causes = []
        if self.densities[0] < self.densities[1]:
            causes.append("density from {:.6g} to {:.6g} kg/m³".format(*self.densities))
        if causes and self.speeds[0] < self.speeds[1]:
            causes.append("sound speed from {:.6g} to {:.6g} m/s".format(*self.speeds))
        if self.speed > reference_speed:
            below = f"m/s below the largest sound speed, {self.speed:.6g} m/s"
            causes.append(f"a reference speed of {reference_speed:.6g} {below}")
        if self.lossy:
            causes.append("absorption" if causes else "strong absorption")
        return ", ".join(causes) or "the sound speed"


def proved_limit(problem: Problem, medium: MediumExtremes | None = None) -> float:
    """Return the time step, s, up to which the medium's extremes prove stability; inf if there is no limit.

    Without absorption the eigenvalues λ of the leapfrog (`stability`) are at most
    (c_eff/c_ref)² 4 sin²(c_ref |k| Δt/2), and must not exceed 4. So c_eff sin(c_ref |k| Δt/2) ≤ c_ref for all
    k up to the grid's largest, √Σ(π/Δ_i)², or c_eff ≤ c_ref. Without the k-space correction the condition is
    c_eff |k| Δt ≤ 2. In a uniform medium it is sin(c_ref k Δt/2) ≤ c_ref/c (Tabei, Mast & Waag 2002,
    doi:10.1121/1.1421344).

    For a plane wave in a uniform absorbing medium, with s = sin(c_ref |k| Δt/2), one step multiplies
    (Σρ, ∇·u) by a 2 × 2 matrix with the determinant 1 + aT and the trace 2 + aT − Δt a E, where
    a = 4 s² c²/(c_ref² Δt). T = τ k^(y−2) is the absorption, E = 1 − η k^(y−1) the dispersion in the equation
    of state (Treeby & Cox 2010, doi:10.1121/1.3377056). Its eigenvalues stay within the unit circle while
    E ≥ 0 and

        (c/c_ref)² s² (E + 2|T|/Δt) ≤ 1   for all k.

    This is exact for a uniform medium. For other media c is c_eff, and T and E are the largest in the medium.
    It is then no proof, since absorption that varies along with density can make waves grow at any time step.
    """
    medium, c_ref = medium or MediumExtremes.of(problem), problem.reference_speed
    k_min, k_max = wavenumber_range(problem)
    if not medium.lossy:
        if not problem.k_space:
            return 2 / (medium.effective_speed * k_max)
        if medium.effective_speed <= c_ref:
            return math.inf
        return 2 / (c_ref * k_max) * math.asin(c_ref / medium.effective_speed)
    k = np.geomspace(k_min, k_max, 256)
    if float(np.min(medium.stiffness(k))) < 0:
        return 0.0

    def excess(dt: Any) -> Any:
        # The sine may reach 1 between two samples: replace larger k by that k.
        most = np.minimum(k, math.pi / (c_ref * dt)) if problem.k_space else k
        return medium.excess(k, _temporal_sine(problem, most, dt), dt)

    return _first_root(lambda dt: excess(dt[:, None]), math.pi / (c_ref * k_max))


def uniform_and_stable(problem: Problem, medium: MediumExtremes) -> bool:
    """Return whether a uniform medium on a small grid is stable at all wavenumbers; False for others."""
    if not medium.uniform or problem.points > _FEW or problem.axisymmetric:
        return False
    axes = (2 * math.pi * each for each in map(np.fft.fftfreq, problem.shape, problem.spacing))
    axes = itertools.islice(axes, problem.dimensions)
    k = np.sqrt(sum(component**2 for component in np.meshgrid(*axes))).ravel()
    k = k[k > 0]
    if float(np.min(medium.stiffness(k))) < 0:
        return False
    return medium.excess(k, _temporal_sine(problem, k, problem.dt), problem.dt) <= 0


def _temporal_sine(problem: Problem, k: np.ndarray, dt: Any) -> np.ndarray:
    """Return sin(c_ref k Δt/2)/c_ref, or k Δt/2 without the k-space correction."""
    c_ref = problem.reference_speed
    return np.sin(c_ref * k * dt / 2) / c_ref if problem.k_space else k * dt / 2


def _first_root(excess: Callable[[np.ndarray], np.ndarray], scale: float) -> float:
    """Return the first root, up to 16 ``scale``, of a function that is negative near 0; inf without one."""
    steps = scale * np.geomspace(1e-6, 16, 400)
    positive = np.flatnonzero(excess(steps) > 0)
    if not positive.size:
        return math.inf
    above = positive[0]
    low, high = steps[above - 1] if above else steps[0] / 2, steps[above]
    for _ in range(12):  # each pass makes the interval 33 times narrower
        middles = np.linspace(low, high, 34)[1:-1]
        first = int(np.argmax(np.append(excess(middles) > 0, True)))
        low, high = np.append(low, middles)[first], np.append(middles, high)[first]
    return float(low)
