"""Takes time steps without sources, from noise or any other field, on the devices of the run.

Growth of noise in these steps (`growth`) shows an instability that no bound predicts, caused by absorption
or PML in a heterogeneous medium.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from wavefabric.acoustics.choose_stages import make_stages, needed_bytes
from wavefabric.acoustics.decomposition.decompose import decompose
from wavefabric.acoustics.decomposition.subdomain import Subdomain
from wavefabric.acoustics.problem import Problem, Recording
from wavefabric.acoustics.run_settings import RunSettings
from wavefabric.acoustics.solver.stages import Stages
from wavefabric.acoustics.solver.step import Step
from wavefabric.acoustics.stability.energy import Energy

#: Smallest and largest number of steps of a trial; between them `_WORK` limits steps times points.
_LEAST, _MOST, _WORK = 64, 1500, 1 << 26
#: Time steps between computations of the energy.
_CHECK_STEPS = 8


class FreeSteps:
    """Takes steps of a problem without its sources and nonlinearity, with any time step; collective.

    ``pml``: whether to include the PML.
    """

    #: Number of fields needed in addition to the stages.
    FIELDS = 0

    def __init__(self, problem: Problem, settings: RunSettings, pml: bool = True):
        comm, self.dtype = settings.ranks, settings.dtype
        self.comm = comm
        silent = ("nonlinearity", "initial_pressure", "pressure_source", "velocity_source", "transducer")
        layers = {} if pml else {"pml_size": (0, 0, 0)}
        self.problem = replace(problem, steps=1 << 30, **dict.fromkeys(silent), **layers)
        cut = settings.decomposition if comm.size > 1 else None
        self._decomposition = decompose(problem.shape, comm.size, cut)

    def fits_in_memory(self) -> bool:
        """Return whether every rank has enough memory."""
        comm, device = self.comm, self.comm.device
        needed = needed_bytes(self.problem, Recording(()), self.dtype, device, self._decomposition)
        own = self._decomposition.subdomains[comm.rank]
        needed += self.FIELDS * math.prod(own.size) * self.dtype.itemsize
        sharing = comm.size if device.name == "cpu" else 1
        return all(comm.control.all_gather(needed * sharing <= device.memory()[0]))

    @contextmanager
    def stages(self, dt: float) -> Iterator[Stages]:
        """Yield solver stages with time step ``dt``, s; on exit, complete their exchanges and device work."""
        problem, ranks = replace(self.problem, dt=dt), (self.comm, self._decomposition)
        stages = make_stages(self.comm.device, problem, self.dtype, False, *ranks)
        try:
            yield stages
        finally:
            stages.layout.finish_exchanges()
            stages.coefficients.device.synchronize()

    def sum(self, value: float) -> float:
        """Return the sum of ``value`` over all ranks, added in rank order; collective."""
        return value if self.comm.size == 1 else sum(self.comm.control.all_gather(value))


def fill_with_noise(field: Any, subdomain: Subdomain, xp: Any) -> None:
    """Fill ``field`` with noise between −1 and 1, a hash of each point's index in the whole grid.

    The hash is SplitMix64 (Steele, Lea & Flood 2014, doi:10.1145/2714064.2660195).
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


def growth(steps: FreeSteps, dt: float) -> float:
    """Return ln of the growth of noise per step of ``dt`` seconds; 0 if none is detected. Collective.

    Takes 64 steps on a large grid and up to 1500 on a small one; fewer if the field grows.

    Notes
    -----
    For a leapfrog with a symmetric operator M without eigenvalues above 4 (see `stability`) the square root
    of the energy after n steps stays below 3n + 1 times the first, from any field, since Chebyshev
    polynomials of the second kind are at most n + 1 on [−1, 1]. A larger factor is therefore growth.
    """
    count = max(_LEAST, min(_MOST, _WORK // steps.problem.points))
    with steps.stages(dt) as stages:
        fill_with_noise(stages.fields.p, stages.coefficients.subdomain, stages.coefficients.device.xp)
        stages.transform_pressure()
        step, energy = Step(stages), Energy(stages)
        step.take(0)
        first = before = steps.sum(energy())
        for number in range(1, count + 1):
            step.take(number)
            if number % _CHECK_STEPS and number != count:
                continue
            after = steps.sum(energy())
            if not after <= first * (3 * number + 1) ** 2:
                return (
                    math.log(after / before) / (2 * _CHECK_STEPS)
                    if 0 < before < after < math.inf
                    else math.log(1e3)
                )
            before = after
    return 0.0
