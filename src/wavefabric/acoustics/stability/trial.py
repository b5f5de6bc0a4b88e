"""Whether a time step is stable in a medium: by taking steps from noise, on the devices of the run."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from wavefabric.acoustics.choose_stages import make_stages, needed_bytes
from wavefabric.acoustics.parallel.decomposition import Options, decompose
from wavefabric.acoustics.problem import Problem, Recording
from wavefabric.acoustics.solver.step import Step
from wavefabric.acoustics.solver.subdomain import Subdomain
from wavefabric.acoustics.stability.energy import Energy
from wavefabric.exchange import Communicator

#: Steps that every trial may take; and, up to so many steps times points, an ordinary one and a long one.
_LEAST = 64
_SHORT, _LONG = (500, 1 << 24), (1500, 1 << 26)
#: A trial in doubt is taken with Δt² this much larger, so that what grows too slowly to be seen is seen.
MARGIN = 0.02
#: Steps between looks at the energy.
_LOOK = 8


class StabilityTrials:
    """Takes time steps of a problem without its sources; collective with several ranks.

    Notes
    -----
    Without sources, absorption and PML the step is a leapfrog with a symmetric operator M, and stable as long
    as M has no eigenvalue λ above 4 (see `stability`). The square root of the energy then stays
    below 3n + 1 times the first after n steps, from any field, since Chebyshev polynomials of the second kind
    are at most n + 1 on [−1, 1]; an eigenvalue 4 (1 + ε) makes it grow by exp(2n √ε). More than 3n + 1 is
    therefore a proof of growth. After 64 steps from noise on 10⁹ points ε ≈ 0.015 shows, which is less than
    the margin of 2 %.
    """

    def __init__(self, problem: Problem, comm: Communicator, dtype: Any, options: Options | None = None):
        self._comm, self._dtype = comm, np.dtype(dtype)
        silent = ("nonlinearity", "initial_pressure", "pressure_source", "velocity_source", "transducer")
        self._problem = replace(problem, steps=_LONG[0], **dict.fromkeys(silent))
        self._decomposition = decompose(problem.shape, comm.size, options if comm.size > 1 else None)
        #: Steps taken so far.
        self.steps = 0

    def _steps(self, most: int, work: int) -> int:
        return max(_LEAST, min(most, work // self._problem.points))

    @property
    def long(self) -> bool:
        """Whether `true_growth` takes 1000 steps or more."""
        return self._steps(*_LONG) >= 1000

    def fits(self) -> bool:
        """Whether every rank has the memory."""
        comm, device = self._comm, self._comm.device
        needed = needed_bytes(self._problem, Recording(()), self._dtype, device, self._decomposition)
        sharing = comm.size if device.name == "cpu" else 1
        return all(comm.control.all_gather(needed * sharing <= device.memory()[0]))

    def growth(self, dt: float) -> float:
        """Growth of the field in a step of ``dt`` seconds and the `MARGIN`, ln; 0 if none is seen.

        Takes 64 steps on a large grid and up to 500 on a small one; fewer where the field grows.
        """
        return self._growth(dt, self._steps(*_SHORT), MARGIN)

    def true_growth(self, dt: float) -> float:
        """The same without a margin, and with up to 1500 steps on a small grid."""
        return self._growth(dt, self._steps(*_LONG), 0.0)

    def _growth(self, dt: float, steps: int, margin: float) -> float:
        more = math.sqrt(1 + margin)
        # κ depends on the product of the two alone.
        problem = replace(
            self._problem, dt=dt * more, reference_speed=self._problem.reference_speed / more, steps=steps
        )
        comm, device = self._comm, self._comm.device
        stages = make_stages(device, problem, self._dtype, comm=comm, decomposition=self._decomposition)
        _noise(stages.fields.p, stages.coefficients.subdomain, device.xp)
        stages.transform_pressure()
        try:
            return self._grow(Step(stages), Energy(stages), steps)
        finally:
            stages.finish_exchanges()
            device.synchronize()

    def _grow(self, step: Step, energy: Energy, steps: int) -> float:
        step.take(0)
        first = before = self._sum(energy())
        for number in range(1, steps + 1):
            step.take(number)
            self.steps += 1
            if number % _LOOK and number != steps:
                continue
            now = self._sum(energy())
            if not now <= first * (3 * number + 1) ** 2:
                return math.log(now / before) / (2 * _LOOK) if 0 < before < now < math.inf else math.log(1e3)
            before = now
        return 0.0

    def _sum(self, energy: float) -> float:
        """Over all ranks, in their order."""
        return energy if self._comm.size == 1 else sum(self._comm.control.all_gather(energy))


def _noise(field: Any, subdomain: Subdomain, xp: Any) -> None:
    """Noise between −1 and 1 that depends on the place in the whole grid alone: a hash of its index.

    SplitMix64 (Steele, Lea & Flood 2014, doi:10.1145/2714064.2660195).
    """
    nx, ny, _ = subdomain.shape
    x, y, z = (subdomain.indices(axis).astype(np.uint64) for axis in range(3))
    plane = xp.asarray(y[:, None] * np.uint64(nx) + x)
    real = field.dtype.type
    for i, at in enumerate(z):
        bits = (plane + at * np.uint64(nx * ny)) * np.uint64(0x9E3779B97F4A7C15)
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        bits = bits ^ (bits >> np.uint64(31))
        field[i] = (bits >> np.uint64(40)).astype(field.dtype) * real(2.0**-23) - real(1)
