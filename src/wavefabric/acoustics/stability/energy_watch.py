"""Whether the energy of a run grows beyond what its sources can have put in."""

from __future__ import annotations

import math

import numpy as np

from wavefabric.acoustics.problem import Problem
from wavefabric.acoustics.stability.energy import source_strength

#: The energy may be so many times what the sources can have put in. `Energy` takes p and u half a step
#: apart, so that it moves up and down about what the scheme conserves, most for the shortest waves.
TOLERANCE = 16.0
#: What is left of a field is not looked at below this part of the largest √energy: round-off lives there.
_FLOOR = 1e-3


class Watch:
    """Keeps account of the energy, look by look.

    √energy may rise by the strength of the sources (`source_strength`), and falls where the field is absorbed
    or leaves the grid; from there on it may only rise with the sources again.

    Parameters
    ----------
    problem : Problem
        Of the whole grid.
    every : int
        Time steps between looks. The first and the last step are looked at as well.
    """

    def __init__(self, problem: Problem, every: int):
        self._every, self._steps = every, problem.steps
        self._sum = np.concatenate([[0.0], np.cumsum(source_strength(problem))])
        self._allowed = self._largest = 0.0
        self._at = 0

    def due(self, done: int) -> bool:
        """Whether to look after ``done`` steps."""
        return done == 1 or done % self._every == 0 or done == self._steps

    def excess(self, done: int, energy: float) -> float:
        """Energy over what there can be, after ``done`` steps; 0 while it is within `TOLERANCE`."""
        found = math.sqrt(energy)
        allowed = self._allowed + float(self._sum[done] - self._sum[self._at])
        if self._at == 0:
            # An initial pressure is in the field now, and nowhere else.
            allowed = max(allowed, found)
        self._at = done
        excess = energy / allowed**2 if allowed else math.inf * bool(energy)
        self._largest = max(self._largest, allowed)
        self._allowed = max(min(allowed, found), _FLOOR * self._largest)
        return excess if excess > TOLERANCE else 0.0

    def state(self) -> list[float]:
        """For a checkpoint."""
        return [self._at, self._allowed, self._largest]

    def restore(self, state: list[float]) -> None:
        """Go on from a checkpoint's."""
        at, self._allowed, self._largest = state
        self._at = int(at)
