"""Growth of noise over some time steps: what no bound knows, of absorption and layers in an uneven medium."""

from __future__ import annotations

import math

from wavefabric.acoustics.solver.step import Step
from wavefabric.acoustics.stability.energy import Energy
from wavefabric.acoustics.stability.free_steps import FreeSteps, fill_with_noise

#: Steps of a trial on any grid; and up to so many steps times points, to so many.
_LEAST, _MOST, _WORK = 64, 1500, 1 << 26
#: Steps between looks at the energy.
_LOOK = 8


def growth(steps: FreeSteps, dt: float) -> float:
    """Growth of the field in a step of ``dt`` seconds, ln; 0 if none is seen. Collective.

    Takes 64 steps on a large grid and up to 1500 on a small one; fewer where the field grows.

    Notes
    -----
    Of a leapfrog with a symmetric operator M and no eigenvalue of M above 4 (see `stability`) the square root
    of the energy stays below 3n + 1 times the first after n steps, from any field, since Chebyshev
    polynomials of the second kind are at most n + 1 on [−1, 1]. More than 3n + 1 is therefore growth.
    """
    stages, count = steps.stages(dt), max(_LEAST, min(_MOST, _WORK // steps.problem.points))
    fill_with_noise(stages.fields.p, stages.coefficients.subdomain, stages.coefficients.device.xp)
    stages.transform_pressure()
    try:
        return _grow(steps, Step(stages), Energy(stages), count)
    finally:
        stages.layout.finish_exchanges()
        stages.coefficients.device.synchronize()


def _grow(steps: FreeSteps, step: Step, energy: Energy, count: int) -> float:
    step.take(0)
    first = before = steps.sum(energy())
    for number in range(1, count + 1):
        step.take(number)
        if number % _LOOK and number != count:
            continue
        now = steps.sum(energy())
        if not now <= first * (3 * number + 1) ** 2:
            return math.log(now / before) / (2 * _LOOK) if 0 < before < now < math.inf else math.log(1e3)
        before = now
    return 0.0
