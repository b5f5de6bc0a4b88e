"""Detects an unstable time step early, by growth of the pressure that alternates in sign each step."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from wavefabric.acoustics.solver.stages import Stages
from wavefabric.acoustics.stability.energy import EnergyWatch, box_of, partial_sums

#: Order of the difference of the pressure in time, over nine steps (`alternating_weight` of acoustics.h).
ORDER = 8
#: With more points than `_LEAST_SAMPLED`, only every `_PLANE_STRIDE`-th plane (in 2-D row) is sampled.
_LEAST_SAMPLED, _PLANE_STRIDE = 1 << 18, 16
#: Growth is significant if the fraction grows by the factor `_GROWTH` over at least `_CHECKS` checks. Its
#: logarithm must grow in the later half of the steps by at least `_STEADY` of its growth in the earlier half.
_GROWTH, _CHECKS, _STEADY = 1e4, 4, 0.9
#: Growth is ignored while the fraction, of sums of squares, is smaller than this.
_FRACTION = 1e-8


class Alternation:
    """Computes how much of the pressure alternates in sign from step to step, in the block of this rank.

    The alternating part is a difference over the last nine steps before each energy check of `EnergyWatch`.

    Notes
    -----
    Unstable time steps have an eigenvalue z < −1 (see `eigenvalue`). The difference of order 8 over time,
    divided by 2⁸, does not change an alternating part. A wave of angular frequency ω is reduced to the
    fraction sin⁸(ωΔt/2): 4e-7 at 20 steps per period, 8e-5 at 10.
    """

    #: Recording only launches kernels (`StepRecording`).
    kernels_alone = True

    def __init__(self, stages: Stages, energy_watch: EnergyWatch):
        c = stages.coefficients
        self._device, self._kernels, self._energy_watch = c.device, c.kernels, energy_watch
        self._pressure, self._clock = stages.fields.p, stages.fields.clock
        planes, rows, _ = (part.stop - part.start for part in c.subdomain.owned)
        points = planes * rows * c.shape[2]
        every = _PLANE_STRIDE if points > _LEAST_SAMPLED else 1
        self._box, shape = box_of(stages, *((every, 1) if planes > 1 else (1, every)))
        self._alternating = c.device.zeros(shape, c.dtype)
        self._sums = partial_sums(stages, shape, 2)
        #: Number of steps taken before the first step that counts for the next check.
        self._since = 0

    def begin(self, done: int) -> None:
        """Start after ``done`` steps, which were taken before a checkpoint."""
        self._since = done

    def kernels(self, step: int) -> Callable[[], None] | None:
        """Return a function that records ``step``; None if the next energy check is over 8 steps after it."""
        return self._add if self._energy_watch.steps_left(step + 1) <= ORDER else None

    def _add(self) -> None:
        watch, now = self._energy_watch, (self._pressure, self._clock)
        self._kernels.add_alternating(self._alternating, *now, self._box, watch.every, watch.steps)

    def launch(self, done: int) -> Callable[[], tuple[float, float] | None]:
        """Start to compute the sums of the check after ``done`` steps; return a function that waits for them.

        The function returns the sums of squares of the alternating part and of the pressure, or None if not
        all nine steps were recorded since the last check. Call it before the next launch.
        """
        complete, self._since = done - self._since > ORDER, done
        if not complete:
            return lambda: None
        self._kernels.square_sums(self._sums, self._alternating, self._pressure, self._box)
        fetch = self._device.export(self._sums)

        def result() -> tuple[float, float]:
            with np.errstate(over="ignore", invalid="ignore"):
                alternating, square = fetch().sum(axis=0)
            return float(alternating), float(square)

        return result


class AlternationWatch:
    """Tracks the squared alternating part of the pressure as a fraction of the largest Σ p² so far.

    In an unstable run the fraction grows exponentially. In a stable run it may be large, and may grow: when a
    source begins, as a power of time with harmonics, or for a while with resonances. But it does not grow at
    a steady rate by the factor 10⁴.
    """

    def __init__(self) -> None:
        #: (number of steps, ln of the fraction) at each check while the fraction grows.
        self._fractions: list[tuple[int, float]] = []
        self._largest = 0.0

    def growth(self, done: int, alternating: float, square: float) -> float:
        """Return ln of the growth per step of an unstable field after ``done`` steps; 0 if it is stable.

        ``alternating`` and ``square`` are the sums of `Alternation.launch`, added over all ranks.
        """
        if not 0 < alternating < math.inf:
            self._fractions.clear()
            return 0.0
        self._largest = max(self._largest, square, alternating)
        fraction = math.log(alternating / self._largest)
        if self._fractions and fraction <= self._fractions[-1][1]:
            self._fractions.clear()
        self._fractions.append((done, fraction))
        before = [check for check in self._fractions[:-_CHECKS] if fraction - check[1] >= math.log(_GROWTH)]
        if fraction < math.log(_FRACTION) or not before:
            return 0.0
        steps, fractions = zip(*self._fractions[self._fractions.index(before[-1]) :], strict=True)
        middle = float(np.interp((steps[0] + done) / 2, steps, fractions))
        steady = fraction - middle >= _STEADY * (middle - fractions[0])
        return (fraction - fractions[0]) / (2 * (done - steps[0])) if steady else 0.0

    def state(self) -> list[Any]:
        """Return the record of growth, for a checkpoint."""
        return [self._largest, *map(list, self._fractions)]

    def restore(self, state: list[Any]) -> None:
        """Restore the record of growth from what `state` saved in a checkpoint."""
        self._largest, *fractions = state
        self._fractions = [(int(done), fraction) for done, fraction in fractions]
