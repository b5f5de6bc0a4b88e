"""How long a time step may be, and how high a frequency the grid carries."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from wavefabric.acoustics.grid import Grid
from wavefabric.acoustics.medium import Medium
from wavefabric.acoustics.problem import Problem
from wavefabric.acoustics.stability.bounds import Extremes, proved_limit, uniform_and_stable
from wavefabric.acoustics.stability.trial import Trials
from wavefabric.errors import InputError
from wavefabric.units import show

if TYPE_CHECKING:
    from wavefabric.acoustics.parallel.decomposition import Options
    from wavefabric.exchange import Communicator

#: The limit in an uneven medium is found to such a factor, in so many trials at most.
_CLOSE, _TRIALS = 1.05, 12
#: Growth in a step, ln, that no margin makes: an eigenvalue 4 · 1.02 grows by 0.28.
_CLEAR = 0.35


@dataclass(frozen=True)
class Stability:
    """What is known of a time step.

    Parameters
    ----------
    max_dt : float
        Time step, s, up to which all are stable: inf if there is no limit, 0 if none is stable. Exact for a
        uniform medium. For others what is proved (`bounds.proved_limit`) or, where the time step given is
        longer, the largest that a trial found stable, up to the one given.
    cfl : float
        c_max Δt / min Δx of the time step given.
    cause : str or None
        What in the medium makes the time step given unstable.
    warning : str or None
        One line if the time step given is not stable.
    """

    max_dt: float
    cfl: float
    cause: str | None = None
    warning: str | None = None

    def refusal(self, otherwise: str = "") -> str:
        """The warning and its likely cause, in one line; ``otherwise`` is what may be done besides."""
        return f"{self.warning}{otherwise}; likely cause: {self.cause}"


def stability(
    problem: Problem,
    *,
    comm: Communicator | None = None,
    dtype: Any = np.float32,
    options: Options | None = None,
    trials: bool = True,
) -> Stability:
    """Whether a time step of the k-space scheme is stable; collective with several ranks.

    Parameters
    ----------
    problem : Problem
        Of the whole grid; its sources and nonlinearity are left out.
    comm : Communicator, optional
        Devices for trials; by default the first GPU, or the CPU if there is none.
    dtype : dtype
        Precision of trials.
    options : Options, optional
        How ranks share the grid.
    trials : bool
        False: no trials; a time step in an uneven medium that is not proved to be stable is taken for stable.

    Notes
    -----
    Where absorption is left out, one step is a leapfrog, p ← 2p − p₋ − M p with M = Δt² ρ₀c₀² (κ∇)ᵀ ρ₀⁻¹ κ∇,
    whose field stays bounded as long as no eigenvalue λ of M is above 4. By the extremes of the medium

        λ ≤ (c_eff/c_ref)² 4 sin²(c_ref |k| Δt/2),   c_eff² = max(ρ₀c₀²)/min(ρ₀),

    which proves stability (`bounds.proved_limit`) and is exact for a uniform medium. A jump of density lifts
    c_eff above c₀, so that c_ref ≥ c₀ is not enough. Where the stiffest and the lightest points are far apart
    the bound asks for too short a step, many times too short where densities are a thousand times apart. So
    beyond it the time step is tried: `trial.Trials`.
    """
    medium = Extremes.of(problem)
    n, dt = problem.dimensions, problem.dt
    cfl = medium.speed * dt / min(problem.spacing[:n])
    proved = proved_limit(problem)
    if dt <= proved:
        return Stability(proved, cfl)
    if uniform_and_stable(problem, medium):
        return Stability(dt, cfl)
    largest = proved
    if not medium.even:
        found = Trials(problem, comm or _alone(problem), dtype, options)
        if not trials or not found.fits():
            return Stability(dt, cfl)
        largest = _tried(found, dt, proved, medium.lossy)
        if largest == dt:
            return Stability(dt, cfl)
    allowed = f"up to {largest:.6g} s" if largest else "none"
    return Stability(largest, cfl, medium.cause(problem), f"dt: {dt:.6g} s is not stable; allowed: {allowed}")


def stable_step(
    grid: Grid,
    medium: Medium,
    cfl: float,
    comm: Communicator | None = None,
    dtype: Any = np.float32,
    options: Options | None = None,
) -> float:
    """Time step of a CFL number, or the largest stable one if that is shorter; as `Grid.time_step`.

    Parameters
    ----------
    grid, medium
    cfl : float
        c_max Δt / min Δx.
    comm, dtype, options
        As in `stability`.
    """
    from wavefabric.acoustics.simulation import silent_problem

    if isinstance(cfl, str) or not 0 < cfl < math.inf:
        raise InputError(f"cfl: {show(cfl)}; allowed: a number above 0")
    dt = cfl * min(grid.spacing) / medium.speeds[1]
    found = stability(silent_problem(grid, medium, dt), comm=comm, dtype=dtype, options=options)
    if not (found.warning and found.max_dt):
        return dt  # where no time step is stable `simulate` says so
    if comm is None or comm.rank == 0:
        shorter = cfl * found.max_dt / dt
        warnings.warn(
            f"cfl: {cfl:g} is not stable in this medium; {shorter:.3g} is taken, dt = {found.max_dt:.6g} s; "
            f"likely cause: {found.cause}",
            stacklevel=3,
        )
    return found.max_dt


def max_frequency(grid: Grid, medium: Medium, points_per_wavelength: float = 2.0) -> float:
    """Highest frequency, Hz, with so many grid points to its shortest wavelength along the widest spacing."""
    if not points_per_wavelength > 0:
        raise InputError(f"points_per_wavelength: {show(points_per_wavelength)}; allowed: above 0")
    return medium.speeds[0] / (points_per_wavelength * max(grid.spacing))


def suspects(problem: Problem) -> str:
    """What may have made a field grow, in words."""
    limit, found = proved_limit(problem), []
    if problem.dt > limit:
        cause = Extremes.of(problem).cause(problem)
        found.append(f"the time step of {problem.dt:.6g} s may be too large, {limit:.3g} s is safe ({cause})")
    if problem.nonlinearity is not None:
        found.append("a source may be too strong for the grid")
    if any(problem.pml_size) and not Extremes.of(problem).even:
        found.append("the medium may be too uneven within the PML")
    return "; ".join(found) or "the time step may be too large, or a source too strong for the grid"


def _alone(problem: Problem) -> Communicator:
    from wavefabric.acoustics.threads import default_threads
    from wavefabric.device import get_device
    from wavefabric.exchange import solo

    return solo(get_device("auto", default_threads(problem.shape)))


def _tried(trials: Trials, dt: float, proved: float, lossy: bool) -> float:
    """The time step given if trials find it stable; else the largest found below it, 0 if there is none."""
    growth = _growth(trials, dt)
    if not growth:
        return dt
    high, low = dt, proved
    if lossy:
        # Not proved: what absorption makes grow does so at any time step, and slowly.
        low = proved / 2
        if not low or trials.true_growth(low):
            return 0.0
    for number in range(_TRIALS):
        if high / low <= _CLOSE:
            break
        # Where λ goes with Δt²: λ = 2 + 2 cosh(growth), and 4 is the limit.
        guess = 0.98 * high / math.cosh(growth / 2)
        if number % 2 or not low < guess < high:
            guess = math.sqrt(low * high)
        found = _growth(trials, guess)
        if found:
            high, growth = guess, found
        else:
            low = guess
    return low


def _growth(trials: Trials, dt: float) -> float:
    """Growth with a margin, which does not count where a long trial without it finds none.

    Where sin(c_ref k Δt/2) is 1 for some k, the largest eigenvalue goes up no further with Δt, and may stay
    within the margin below its limit for all longer steps. On a large grid, where no trial is long, the
    margin counts unless it makes the difference at a shorter time step as well.
    """
    growth = trials.growth(dt)
    if growth > _CLEAR:
        return growth
    if growth and not trials.true_growth(dt) and (trials.long or trials.growth(dt / 1.1)):
        return 0.0
    return growth
