"""How long a time step may be in a medium."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wavefabric.acoustics.parallel.decomposition import Options
from wavefabric.acoustics.problem import Problem
from wavefabric.acoustics.stability.bounds import MediumExtremes, proved_limit, uniform_and_stable
from wavefabric.acoustics.stability.trial import StabilityTrials
from wavefabric.acoustics.threads import default_threads
from wavefabric.device import get_device
from wavefabric.errors import InputError
from wavefabric.exchange import Communicator, solo
from wavefabric.lifecycle.collective_errors import on_first_rank

#: The limit in an uneven medium is found to such a factor, in so many trials at most.
_CLOSE, _TRIALS = 1.05, 12
#: Growth in a step, ln, that no margin makes: an eigenvalue 4 · 1.02 grows by 0.28.
_CLEAR = 0.35


@dataclass(frozen=True)
class Stability:
    """What is known of a time step."""

    #: Time step, s, up to which all are stable: inf if there is no limit, 0 if none is stable. Exact for a
    #: uniform medium. For others what is proved (`bounds.proved_limit`) or, where the time step given is
    #: longer, the largest that a trial found stable, up to the one given.
    max_dt: float
    #: c_max Δt / min Δx of the time step given.
    cfl: float
    #: What in the medium makes the time step given unstable, and one line that says so.
    cause: str | None = None
    warning: str | None = None


def stability(
    problem: Problem,
    *,
    comm: Communicator | None = None,
    dtype: Any = np.float32,
    options: Options | None = None,
    trials: bool = True,
) -> Stability:
    """Whether a time step of the k-space scheme is stable, sources and nonlinearity left out; collective.

    Without ``trials``, a time step in an uneven medium that is not proved to be stable is taken for stable.
    ``comm`` has the devices for trials: by default the first GPU, or the CPU if there is none.

    Notes
    -----
    Where absorption is left out, one step is a leapfrog, p ← 2p − p₋ − M p with M = Δt² ρ₀c₀² (κ∇)ᵀ ρ₀⁻¹ κ∇,
    whose field stays bounded as long as no eigenvalue λ of M is above 4. By the extremes of the medium

        λ ≤ (c_eff/c_ref)² 4 sin²(c_ref |k| Δt/2),   c_eff² = max(ρ₀c₀²)/min(ρ₀),

    which proves stability (`bounds.proved_limit`) and is exact for a uniform medium. A jump of density lifts
    c_eff above c₀, so that c_ref ≥ c₀ is not enough. Where the stiffest and the lightest points are far apart
    the bound asks for too short a step, many times too short where densities are a thousand times apart. So
    beyond it the time step is tried: `trial.StabilityTrials`.
    """
    medium, dt = MediumExtremes.of(problem), problem.dt
    cfl = medium.speed * dt / min(problem.spacing[: problem.dimensions])
    proved = proved_limit(problem, medium)
    if dt <= proved:
        return Stability(proved, cfl)
    if uniform_and_stable(problem, medium):
        return Stability(dt, cfl)
    largest = proved
    if not medium.uniform:
        comm = comm or solo(get_device("auto", default_threads(problem.shape)))
        trial = StabilityTrials(problem, comm, dtype, options)
        if not trials or not trial.fits():
            return Stability(dt, cfl)
        largest = _longest_stable(trial, dt, proved, medium.lossy)
        if largest == dt:
            return Stability(dt, cfl)
    allowed = f"up to {largest:.6g} s" if largest else "none"
    cause = medium.cause(problem.reference_speed)
    return Stability(largest, cfl, cause, f"dt: {dt:.6g} s is not stable; allowed: {allowed}")


def stable_step(
    problem: Problem,
    comm: Communicator | None = None,
    dtype: Any = np.float32,
    options: Options | None = None,
) -> tuple[float, bool]:
    """The time step of a problem, or the longest stable one if that is shorter, with a warning.

    Also whether it is stable: where none is, that given is returned. The arguments are those of `stability`.
    """
    verdict = stability(problem, comm=comm, dtype=dtype, options=options)
    if not (verdict.warning and verdict.max_dt):
        return problem.dt, not verdict.warning
    if comm is None or comm.rank == 0:
        shorter = verdict.cfl * verdict.max_dt / problem.dt
        warnings.warn(
            f"cfl: {verdict.cfl:g} is not stable in this medium; {shorter:.3g} is taken, "
            f"dt = {verdict.max_dt:.6g} s; likely cause: {verdict.cause}",
            stacklevel=3,
        )
    return verdict.max_dt, True


def refuse_unstable(
    problem: Problem,
    comm: Communicator,
    dtype: Any,
    options: Options | None,
    checkpoint: Path | None = None,
    otherwise: str = "",
    where: str = "",
) -> None:
    """Raise an `InputError` for a time step that is not stable; collective.

    A run that goes on from a ``checkpoint`` was stable when it began. The error begins with ``where``, and
    says what may be done ``otherwise``.
    """
    goes_on = checkpoint is not None and on_first_rank(comm, checkpoint.exists)
    verdict = stability(problem, comm=comm, dtype=dtype, options=options, trials=not goes_on)
    if verdict.warning:
        raise InputError(f"{where}{verdict.warning}{otherwise}; likely cause: {verdict.cause}")


def instability_causes(problem: Problem) -> str:
    """What may have made a field grow, in words."""
    medium, causes = MediumExtremes.of(problem), []
    limit = proved_limit(problem, medium)
    if problem.dt > limit:
        cause = medium.cause(problem.reference_speed)
        causes.append(
            f"the time step of {problem.dt:.6g} s may be too large, {limit:.3g} s is safe ({cause})"
        )
    if problem.nonlinearity is not None:
        causes.append("a source may be too strong for the grid")
    if any(problem.pml_size) and not medium.uniform:
        causes.append("the medium may be too uneven within the PML")
    return "; ".join(causes) or "the time step may be too large, or a source too strong for the grid"


def _longest_stable(trials: StabilityTrials, dt: float, proved: float, lossy: bool) -> float:
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
        guess_growth = _growth(trials, guess)
        if guess_growth:
            high, growth = guess, guess_growth
        else:
            low = guess
    return low


def _growth(trials: StabilityTrials, dt: float) -> float:
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
