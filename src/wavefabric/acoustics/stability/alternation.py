"""Whether what alternates in sign from step to step grows: an unstable time step, while it is small."""

import math
from typing import Any

import numpy as np

from wavefabric.acoustics.solver.stages import Stages
from wavefabric.acoustics.stability.energy import chunks

#: A difference of this order of the pressure in time, over one more steps.
ORDER = 8
_WEIGHTS = [(-1) ** j * math.comb(ORDER, j) for j in range(ORDER + 1)]
#: Of more points than this, every so manieth plane is looked at.
_ALL, _STRIDE = 1 << 18, 16
#: Growth is looked at that takes the share to so many times what it was, over so many looks at least; the
#: part in the later half of these steps is at least so much of that in the earlier half.
_TIMES, _LOOKS, _STEADY = 1e4, 4, 0.9
#: It counts from this share of the largest field on.
_FRACTION = 1e-8


class Alternation:
    """Sums squares of what alternates in the pressure, of the block that this rank owns.

    Notes
    -----
    Unstable time steps have an eigenvalue z < −1 (see `eigenvalue`). The difference of order 8 over time,
    divided by 2⁸, leaves what alternates as it is, and of a wave of angular frequency ω the part
    sin⁸(ωΔt/2): 4e-7 at 20 steps a period, 8e-5 at 10.
    """

    def __init__(self, stages: Stages):
        pressure = stages.fields.p[stages.coefficients.subdomain.owned]
        stride = _STRIDE if pressure.size > _ALL else 1
        self._xp = stages.coefficients.device.xp
        self._pressure = pressure[::stride] if len(pressure) > 1 else pressure[:, ::stride]
        self._chunks = chunks(self._pressure.shape, stages.coefficients.device)
        self._sum: Any = None
        self._taken = 0

    def add(self, steps_left: int) -> None:
        """After a time step, so many before the sums are asked for."""
        if not 0 <= steps_left <= ORDER:
            return
        if steps_left == ORDER:
            self._sum, self._taken = self._xp.zeros_like(self._pressure), 0
        if self._sum is not None:
            self._sum += self._pressure.dtype.type(_WEIGHTS[steps_left] / 2**ORDER) * self._pressure
            self._taken += 1

    def sums(self) -> tuple[float, float] | None:
        """Σ of squares of what alternates, and of the pressure; None if some of these steps were missed."""
        result, self._sum = self._sum, None
        if result is None or self._taken <= ORDER:
            return None
        with np.errstate(over="ignore", invalid="ignore"):
            return self._squares(result), self._squares(self._pressure)

    def _squares(self, field: Any) -> float:
        parts = (field[part] for part in self._chunks)
        return float(sum(self._xp.sum(part * part, dtype=np.float64) for part in parts))


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
        """Go on from a checkpoint's."""
        self._largest, *looks = state
        self._looks = [(int(done), fraction) for done, fraction in looks]
