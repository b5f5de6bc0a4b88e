"""Checks a run beyond its input: whether its time step is stable, and what the grid cannot represent."""

import warnings
from collections.abc import Mapping

from wavefabric.acoustics.check.warnings import problem_warnings
from wavefabric.acoustics.problem import Problem
from wavefabric.acoustics.run_settings import RunSettings
from wavefabric.acoustics.stability.stable_time_step import refuse_unstable

#: What there is to do about absorption that is off its law.
_ADVICE = (
    "; Material.at_frequency finds numbers that have both there, dispersion=False leaves the speed alone"
)


def check_run(
    problem: Problem,
    settings: RunSettings,
    names: Mapping[str, str] | None = None,
    where: str = "",
    stable: str = ", or check_stability=False",
    advice: str = _ADVICE,
) -> None:
    """Raise an error for an unstable time step; warn of sources that grid or absorption model distort.

    All ranks must call this.

    ``names`` are what lines call each number, if not as in `PYTHON_NAMES`; a refusal begins with ``where``.
    ``stable`` and ``advice`` say what else there is to do about the step, and about absorption off its law.
    """
    if settings.check_stability:
        refuse_unstable(problem, settings, where, stable)
    if settings.ranks.rank == 0:
        warn_of(problem, names, advice)


def warn_of(problem: Problem, names: Mapping[str, str] | None = None, advice: str = _ADVICE) -> None:
    """Warn of sources that the grid or the absorption model distorts; arguments as in `check_run`."""
    switch = "dispersion=False"
    advice = advice.replace(switch, (names or {}).get(switch, switch))
    for line in problem_warnings(problem, names, advice):
        warnings.warn(line, stacklevel=5)
