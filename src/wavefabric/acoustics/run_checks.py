"""Checks that a run's time step is stable, and warns of sources that the grid cannot represent."""

import warnings
from collections.abc import Mapping
from typing import Any

from wavefabric.acoustics.check.warnings import problem_warnings
from wavefabric.acoustics.problem import Problem
from wavefabric.acoustics.run_settings import RunSettings
from wavefabric.acoustics.stability.stable_time_step import refuse_unstable

#: Advice if absorption deviates from its power law.
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
    """Raise an error for an unstable time step; warn of sources that the grid or the medium distorts.

    All ranks must call this. ``names`` replaces entries of `PYTHON_NAMES`, the names of numbers in messages;
    errors begin with the text ``where``. The error of an unstable time step ends with the remedy ``stable``,
    the warning of absorption that deviates from its power law with the remedy ``advice``.
    """
    if settings.check_stability:
        refuse_unstable(problem, settings, where, stable)
    if settings.ranks.rank == 0:
        warn_of(problem, names, advice, settings.ranks.device)


def warn_of(
    problem: Problem, names: Mapping[str, str] | None = None, advice: str = _ADVICE, device: Any = None
) -> None:
    """Warn of sources that the grid or the absorption model distorts; arguments as in `check_run`.

    ``device`` is where an initial pressure is that is not on the host.
    """
    switch = "dispersion=False"
    advice = advice.replace(switch, (names or {}).get(switch, switch))
    for line in problem_warnings(problem, names, advice, device):
        warnings.warn(line, stacklevel=5)
