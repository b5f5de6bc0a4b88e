"""Checks the fields of a run from time to time: they must be finite, and not gain energy by themselves."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from wavefabric.acoustics.problem import Problem
from wavefabric.acoustics.solver.stages import Stages
from wavefabric.acoustics.stability.alternation import ORDER, Alternation, AlternationWatch
from wavefabric.acoustics.stability.energy import Energy, EnergyWatch
from wavefabric.runtime.exchange.communicator import Communicator
from wavefabric.runtime.lifecycle.collective_checks import Status

#: Pressures from this limit of single precision count as lost in double precision too.
_LOST = float(np.finfo(np.float32).max)
#: Fewest time steps between two checks of the fields (in a short run a twentieth of its steps), and between
#: two checks of the energy.
_LEAST_INTERVAL, _ENERGY_STEPS = 16, 32


class FieldCheck(NamedTuple):
    """Holds a check of the fields that the device is computing; its functions wait for the results."""

    #: Time steps taken before the check.
    done: int
    #: Returns the energy and the largest magnitude of the pressure, Pa, on this rank.
    energy: Callable[[], tuple[float, float]]
    #: Returns the sums of `Alternation` on this rank; None if energy and alternation are not checked.
    alternation: Callable[[], tuple[float, float] | None] | None


class FieldChecks:
    """Starts checks of the fields during a run, and describes what is wrong once results are available."""

    def __init__(self, problem: Problem, stages: Stages, comm: Communicator):
        self._steps, self._control = problem.steps, comm.control
        #: Time steps between two checks of the fields.
        self.every = min(max(problem.steps // 100, min(problem.steps // 20, _LEAST_INTERVAL), 1), 100)
        self._watch = EnergyWatch(problem, max(self.every, _ENERGY_STEPS))
        self._alternation_watch = AlternationWatch()
        self._energy, self.alternation = Energy(stages), Alternation(stages, self._watch)

    def due(self, done: int) -> bool:
        """Return whether the fields are checked after ``done`` steps; they always are after the last step."""
        return done % self.every == 0 or self._watch.due(done)

    def free_steps(self, done: int) -> int:
        """Return how many steps, after ``done`` steps, can be taken at once before a check; at least 1.

        `Alternation` records all of them or none: only the last nine steps before a check of the energy.
        """
        to_check = self._watch.steps_left(done + 1)
        watched = 1 if not done else to_check - ORDER if to_check > ORDER else to_check + 1
        return min(self.every - done % self.every, watched)

    def start(self, done: int) -> FieldCheck:
        """Start to compute the check of the fields after ``done`` steps, and return it without its results.

        The caller must read the results before the next check starts.
        """
        watched = self._watch.due(done)
        return FieldCheck(done, self._energy.launch(), self.alternation.launch(done) if watched else None)

    def fault(self, check: FieldCheck, status: Status) -> str:
        """Return a text that says what is wrong with the fields, empty if nothing is; collective.

        ``status`` has the energy and the peak of all ranks.
        """
        after = f"after time step {check.done} of {self._steps}"
        if not status.peak < _LOST or not math.isfinite(status.energy):
            return f"the pressure is not finite {after}"
        if check.alternation is None:
            return ""
        if excess := self._watch.excess(check.done, status.energy):
            return f"the acoustic energy is {excess:.3g} times what the sources can have put in {after}"
        sums = self._control.all_gather(check.alternation())
        if any(each is None for each in sums):
            return ""
        alternating, square = np.sum(sums, axis=0)
        if growth := self._alternation_watch.growth(check.done, float(alternating), float(square)):
            what = f"what alternates from step to step grows by {math.expm1(growth):.2g} of itself in each"
            return f"{what}, {math.sqrt(alternating / square):.2g} of the field {after}"
        return ""

    def state(self) -> dict[str, list]:
        """Return the state of the checks for a checkpoint."""
        return {"watch": self._watch.state(), "alternation": self._alternation_watch.state()}

    def restore(self, state: dict) -> None:
        """Restore a state that `state` saved in a checkpoint."""
        self._watch.restore(state["watch"])
        self._alternation_watch.restore(state.get("alternation", [0.0]))  # none in older checkpoints
