"""Determines how long a time step may be in a medium."""

import math
import warnings
from dataclasses import dataclass

from wavefabric.acoustics.problem import Problem
from wavefabric.acoustics.run_settings import RunSettings, default_threads
from wavefabric.acoustics.stability.bounds import MediumExtremes, proved_limit, uniform_and_stable
from wavefabric.acoustics.stability.eigenvalue import LIMIT, LargestEigenvalue
from wavefabric.acoustics.stability.free_steps import FreeSteps, growth
from wavefabric.acoustics.stability.power_law import pole_of_dispersion
from wavefabric.base.errors import InputError
from wavefabric.runtime.device import get_device
from wavefabric.runtime.exchange.communicator import solo
from wavefabric.runtime.lifecycle.collective_checks import on_first_rank

#: Search for the limit in a heterogeneous medium: precision (a factor), largest number of Δt tried, factor by
#: which they lie beside the expected limit, smallest assumed exponent of the eigenvalue's dependence on Δt.
_CLOSE, _SEARCH, _BESIDE, _FLATTEST = 1.04, 12, 1.01, 0.005
#: How often a time step is halved if noise grows.
_HALVED = 2


@dataclass(frozen=True)
class Stability:
    """Describes whether a time step is stable, and the longest stable one."""

    #: Time step, s, up to which all are stable: inf if there is no limit, 0 if none is stable. Exact for a
    #: uniform medium. For other media the proved limit (`bounds.proved_limit`) or, if the problem's time step
    #: is longer, the longest stable time step found up to it: within 4 %, with a power law 9 %.
    max_dt: float
    #: c_max Δt / min Δx of the problem's time step.
    cfl: float
    #: Likely cause of instability, unless the warning names one, and the warning; both None if stable.
    cause: str | None = None
    warning: str | None = None


def stability(problem: Problem, settings: RunSettings | None = None, trials: bool = True) -> Stability:
    """Return the `Stability` of a problem's time step in the k-space scheme; collective.

    Sources and nonlinearity are ignored. Without ``trials``, or without memory for trials, a time step in a
    heterogeneous medium is assumed stable even if it is not proved stable. Trials use the settings and ranks
    of ``settings``, by default the first GPU, or the CPU if there is no GPU.

    Notes
    -----
    Without absorption a step is a leapfrog, p ← 2p − p₋ − M p with M = Δt² ρ₀c₀² (κ∇)ᵀ ρ₀⁻¹ κ∇, and the field
    stays bounded if no eigenvalue λ of M exceeds 4. The extremes of the medium give an upper bound of λ
    (`bounds.proved_limit`). A density jump raises c_eff above c₀, so c_ref ≥ c₀ is not sufficient; for
    density ratios of a thousand the bound allows only time steps many times too short. For longer time steps
    the largest λ is therefore computed, with absorption (`eigenvalue.LargestEigenvalue`), on the devices of
    the run. This λ omits the PML, and growth that power-law absorption in a heterogeneous medium can cause at
    any time step. So with a PML, with power-law absorption or on an axisymmetric grid some trial steps must
    also not amplify noise (`growth`).
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
        settings = settings or RunSettings(comm=solo(get_device("auto", default_threads(problem.shape))))
        eigenvalue = LargestEigenvalue(problem, settings)
        if not trials or not eigenvalue.fits_in_memory():
            return Stability(dt, cfl)
        # The eigenvalue does not suffice with a PML, a power law, or an axisymmetric (unsymmetric) operator.
        runs_trial = any(problem.pml_size) or problem.axisymmetric
        runs_trial = runs_trial or (medium.lossy and problem.absorption != "stokes")
        noise = FreeSteps(problem, settings) if runs_trial else None
        largest = _longest_stable(eigenvalue, noise, dt, proved)
        if largest == dt:
            return Stability(dt, cfl)
    if (line := pole_of_dispersion(problem)) is not None:
        return Stability(0.0, cfl, warning=line)
    allowed = f"up to {largest:.6g} s" if largest else "none"
    cause = medium.cause(problem.reference_speed)
    return Stability(largest, cfl, cause, f"dt: {dt:.6g} s is not stable; allowed: {allowed}")


def stable_step(problem: Problem, settings: RunSettings | None = None) -> tuple[float, bool]:
    """Return a stable time step, s, and True; or the problem's time step and False if none is stable.

    The stable time step is the problem's or, with a warning, the longest stable one if that is shorter. The
    arguments are as in `stability`.
    """
    verdict = stability(problem, settings)
    if not (verdict.warning and verdict.max_dt):
        return problem.dt, not verdict.warning
    if settings is None or settings.ranks.rank == 0:
        shorter = verdict.cfl * verdict.max_dt / problem.dt
        warnings.warn(
            f"cfl: {verdict.cfl:g} is not stable in this medium; {shorter:.3g} is taken, "
            f"dt = {verdict.max_dt:.6g} s; likely cause: {verdict.cause}",
            stacklevel=3,
        )
    return verdict.max_dt, True


def refuse_unstable(problem: Problem, options: RunSettings, prefix: str = "", remedy: str = "") -> None:
    """Raise an `InputError` if the time step is not stable; collective.

    A run resumed from a checkpoint takes no trial steps, since it was stable when it began. The message
    begins with ``prefix``. After the allowed time step follows ``remedy``, which names alternatives.
    """
    saved = options.checkpoints
    goes_on = saved is not None and saved.resume and on_first_rank(options.ranks, saved.path.exists)
    verdict = stability(problem, options, trials=not goes_on)
    if verdict.warning:
        cause = f"; likely cause: {verdict.cause}" if verdict.cause else ""
        raise InputError(f"{prefix}{verdict.warning}{remedy}{cause}")


def instability_causes(problem: Problem) -> str:
    """Return in words the possible causes of a field that grows during a run of ``problem``."""
    medium, causes = MediumExtremes.of(problem), []
    limit = proved_limit(problem, medium)
    if problem.dt > limit:
        safe = f"{limit:.3g} s is safe ({medium.cause(problem.reference_speed)})"
        causes.append(f"the time step of {problem.dt:.6g} s may be too large, {safe}")
    causes += [line] if (line := pole_of_dispersion(problem)) is not None else []
    if problem.nonlinearity is not None:
        causes.append("a source may be too strong for the grid")
    if any(problem.pml_size) and not medium.uniform:
        causes.append("the medium may be too uneven within the PML")
    return "; ".join(causes) or "the time step may be too large, or a source too strong for the grid"


def _longest_stable(largest: LargestEigenvalue, trials: FreeSteps | None, dt: float, proved: float) -> float:
    """Return ``dt`` if it is stable, else the longest stable time step found below it; 0 without one.

    ``largest`` computes the largest eigenvalue for a time step; up to ``proved`` stability is proved.
    ``trials`` takes trial steps from noise; None if a field grows only by an eigenvalue above the limit.
    """
    result = _below_limit(largest, dt, proved)
    if trials is None or result <= proved:
        return result
    for _ in range(_HALVED + 1):
        if not growth(trials, result):
            return result
        result /= 2
    return 0.0


def _below_limit(largest: LargestEigenvalue, dt: float, proved: float) -> float:
    """Search for the longest time step up to ``dt`` whose eigenvalue is at most `LIMIT`, and return it."""
    low, high, time_step, value = proved, dt, dt, largest(dt)
    if value <= LIMIT:
        return dt
    power = 2.0  # the eigenvalue is about proportional to this power of Δt
    for number in range(_SEARCH):
        if high <= _CLOSE * low:
            break
        crossing = time_step * (LIMIT / value) ** (1 / power)
        guess = crossing / _BESIDE if low * _BESIDE < crossing else crossing * _BESIDE
        if number % 2 or not low < guess < high:
            guess = math.sqrt(max(low, high / 16) * high)
        before, time_step, value = (time_step, value), guess, largest(guess)
        if value <= LIMIT:
            low = guess
        else:
            high = guess
        power = max(math.log(max(value, 1e-9) / before[1]) / math.log(time_step / before[0]), _FLATTEST)
    return low
