"""Whether what alternates in sign from step to step grows: an unstable time step, while it is small."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from wavefabric.acoustics.solver.stages import Stages
from wavefabric.acoustics.stability.energy import EnergyWatch, box_of, partial_sums

#: Order of the difference of the pressure in time, over nine steps (`alternating_weight` of acoustics.h).
ORDER = 8
#: Of more points than this, every so manieth plane is looked at.
_ALL, _STRIDE = 1 << 18, 16
#: Growth is looked at that takes the share to so many times what it was, over so many looks at least; the
#: part in the later half of these steps is at least so much of that in the earlier half.
_TIMES, _LOOKS, _STEADY = 1e4, 4, 0.9
#: It counts from this share of the largest field on.
_FRACTION = 1e-8


class Alternation:
    """Sums squares of what alternates in the pressure, of the block that this rank owns.

    It records the nine steps before each look of a `EnergyWatch`.

    Notes
    -----
    Unstable time steps have an eigenvalue z < −1 (see `eigenvalue`). The difference of order 8 over time,
    divided by 2⁸, leaves what alternates as it is, and of a wave of angular frequency ω the part
    sin⁸(ωΔt/2): 4e-7 at 20 steps a period, 8e-5 at 10.
    """

    #: What it records are kernels (`StepRecording`).
    kernels_alone = True

    def __init__(self, stages: Stages, looks: EnergyWatch):
        c = stages.coefficients
        self._device, self._kernels, self._looks = c.device, c.kernels, looks
        self._pressure, self._clock = stages.fields.p, stages.fields.clock
        planes, rows, _ = (part.stop - part.start for part in c.subdomain.owned)
        points = planes * rows * c.shape[2]
        every = _STRIDE if points > _ALL else 1
        self._box, shape = box_of(stages, *((every, 1) if planes > 1 else (1, every)))
        self._alternating = c.device.zeros(shape, c.dtype)
        self._sums = partial_sums(stages, shape, 2)
        #: Steps that were taken before the first one that counts for the next look.
        self._since = 0

    def begin(self, done: int) -> None:
        """Begin after ``done`` steps, which an earlier leg of the run has taken."""
        self._since = done

    def kernels(self, step: int) -> Callable[[], None] | None:
        """Return what records time step ``step``; None where a look is more than eight steps ahead."""
        return self._add if self._looks.steps_left(step + 1) <= ORDER else None

    def _add(self) -> None:
        looks, now = self._looks, (self._pressure, self._clock)
        self._kernels.add_alternating(self._alternating, *now, self._box, looks.every, looks.steps)

    def sums(self, done: int) -> tuple[float, float] | None:
        """Look after ``done`` steps: Σ of squares of what alternates, and of the pressure.

        None if not all of the nine steps were recorded since the last look.
        """
        complete, self._since = done - self._since > ORDER, done
        if not complete:
            return None
        self._kernels.square_sums(self._sums, self._alternating, self._pressure, self._box)
        with np.errstate(over="ignore", invalid="ignore"):
            alternating, square = self._device.to_host(self._sums).sum(axis=0)
        return float(alternating), float(square)


class AlternationWatch:
    """Keeps account of what alternates, look by look, as a share of the largest pressure so far.

    In an unstable run it grows exponentially. In others it may be large, grow with a source that begins, with
    harmonics as powers of the time, or come and go with resonances, but not steadily by so much.
    """

    def __init__(self) -> None:
        #: Time step and ln of the share, while it grows.
        self._looks: list[tuple[int, float]] = []
        self._largest = 0.0

    def growth(self, done: int, alternating: float, square: float) -> float:
        """Growth in a step, ln, of an unstable field after ``done`` steps; 0 if it is none.

        ``alternating`` and ``square`` are the `Alternation.sums` of all ranks.
        """
        if not 0 < alternating < math.inf:
            self._looks.clear()
            return 0.0
        self._largest = max(self._largest, square, alternating)
        fraction = math.log(alternating / self._largest)
        if self._looks and fraction <= self._looks[-1][1]:
            self._looks.clear()
        self._looks.append((done, fraction))
        before = [look for look in self._looks[:-_LOOKS] if fraction - look[1] >= math.log(_TIMES)]
        if fraction < math.log(_FRACTION) or not before:
            return 0.0
        steps, fractions = zip(*self._looks[self._looks.index(before[-1]) :], strict=True)
        middle = float(np.interp((steps[0] + done) / 2, steps, fractions))
        steady = fraction - middle >= _STEADY * (middle - fractions[0])
        return (fraction - fractions[0]) / (2 * (done - steps[0])) if steady else 0.0

    def state(self) -> list[Any]:
        """For a checkpoint."""
        return [self._largest, *map(list, self._looks)]

    def restore(self, state: list[Any]) -> None:
        """Restore the record of growth from what `state` saved in a checkpoint."""
        self._largest, *looks = state
        self._looks = [(int(done), fraction) for done, fraction in looks]
