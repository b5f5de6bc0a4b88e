"""Whether a time step is stable in a medium: by taking steps from noise, on the devices of the run."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from wavefabric.acoustics.problem import Problem
from wavefabric.acoustics.solver.parts import Part, whole

if TYPE_CHECKING:
    from wavefabric.acoustics.parallel.decomposition import Decomposition, Options
    from wavefabric.exchange import Communicator

#: Steps that every trial may take; and, up to so many steps times points, an ordinary one and a long one.
_LEAST = 64
_SHORT, _LONG = (500, 1 << 24), (1500, 1 << 26)
#: A trial in doubt is taken with Δt² this much larger, so that what grows too slowly to be seen is seen.
MARGIN = 0.02
#: Steps between looks at the energy.
_LOOK = 8


class Trials:
    """Takes time steps of a problem without its sources; collective with several ranks.

    Parameters
    ----------
    problem : Problem
        Of the whole grid.
    comm : Communicator
    dtype : dtype
        float32 or float64.
    options : Options, optional
        How ranks share the grid.

    Notes
    -----
    Without sources, absorption and PML the step is a leapfrog with a symmetric operator M, and stable as long
    as M has no eigenvalue λ above 4 (see `stability.stability`). The square root of the energy then stays
    below 3n + 1 times the first after n steps, from any field, since Chebyshev polynomials of the second kind
    are at most n + 1 on [−1, 1]; an eigenvalue 4 (1 + ε) makes it grow by exp(2n √ε). More than 3n + 1 is
    therefore a proof of growth. After 64 steps from noise on 10⁹ points ε ≈ 0.015 shows, which is less than
    the margin of 2 %.
    """

    def __init__(self, problem: Problem, comm: Communicator, dtype: Any, options: Options | None = None):
        self._comm, self._dtype = comm, np.dtype(dtype)
        self._problem = replace(
            problem,
            nonlinearity=None,
            initial_pressure=None,
            pressure_source=None,
            velocity_source=None,
            transducer=None,
            steps=_LONG[0],
        )
        self._shared: Decomposition | None = None
        if comm.size > 1:
            from wavefabric.acoustics.parallel.decomposition import decompose

            self._shared = decompose(problem.shape, comm.size, options)
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
        from wavefabric.acoustics.build import needed_bytes
        from wavefabric.acoustics.problem import Recording

        shared = [] if self._shared is None else [self._shared]
        device = self._comm.device
        need = needed_bytes(self._problem, Recording(()), self._dtype, device, *shared)
        sharing = self._comm.size if device.name == "cpu" else 1
        enough = need * sharing <= device.memory()[0]
        return (self._comm.size == 1 and enough) or all(self._comm.control.all_gather(enough))

    def growth(self, dt: float) -> float:
        """Growth of the field in a step, ln; 0 if none is seen. With the margin: `MARGIN`.

        Takes 64 steps on a large grid and up to 500 on a small one; fewer where the field grows.

        Parameters
        ----------
        dt : float
            Time step, s.
        """
        return self._growth(dt, self._steps(*_SHORT), MARGIN)

    def true_growth(self, dt: float) -> float:
        """The same without a margin, and with up to 1500 steps on a small grid."""
        return self._growth(dt, self._steps(*_LONG), 0.0)

    def _growth(self, dt: float, steps: int, margin: float) -> float:
        from wavefabric.acoustics.build import make_stages
        from wavefabric.acoustics.solver.step import Step
        from wavefabric.acoustics.stability.energy import Energy

        more = math.sqrt(1 + margin)
        # κ depends on the product of the two alone.
        given = replace(
            self._problem, dt=dt * more, reference_speed=self._problem.reference_speed / more, steps=steps
        )
        device, shared = self._comm.device, self._shared
        if shared is None:
            stages, part = make_stages(device, given, self._dtype), whole(given.shape)
        else:
            stages = make_stages(device, given, self._dtype, comm=self._comm, decomposition=shared)
            part = shared.parts[self._comm.rank]
        _noise(stages.fields.p, part, device.xp)
        stages.ready()
        step, energy = Step(stages), Energy(stages, part.owned)
        try:
            return self._grow(step, energy, steps)
        finally:
            stages.settle()
            device.synchronize()

    def _grow(self, step: Any, energy: Any, steps: int) -> float:
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


def _noise(field: Any, part: Part, xp: Any) -> None:
    """Noise between −1 and 1 that depends on the place in the whole grid alone: a hash of its index."""
    nx, ny, _ = part.shape
    x, y, z = (part.indices(axis).astype(np.uint64) for axis in range(3))
    plane = xp.asarray(y[:, None] * np.uint64(nx) + x)
    for i, at in enumerate(z):
        # SplitMix64 (Steele, Lea & Flood 2014, doi:10.1145/2714064.2660195).
        bits = (plane + at * np.uint64(nx * ny)) * np.uint64(0x9E3779B97F4A7C15)
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        bits = bits ^ (bits >> np.uint64(31))
        field[i] = (bits >> np.uint64(40)).astype(field.dtype) * field.dtype.type(
            2.0**-23
        ) - field.dtype.type(1)
