"""Steps of the ultrasound over ranks, from noise: what each leaves of the whole grid."""

import numpy as np
import random_problems as random

from wavefabric.acoustics.choose_stages import make_stages
from wavefabric.acoustics.decomposition.decompose import decompose
from wavefabric.acoustics.solver.step import Step

STEPS = 6
#: Absorption, nonlinearity, seed.
CASES = [(absorption, nonlinear, seed) for seed, (absorption, nonlinear) in enumerate(
    [("none", False), ("power_law", True), ("stokes", False), ("power_law", False)])]  # fmt: skip


def noise_problem(shape, absorption, nonlinear, seed):
    """Noise in a mixed medium, with another kind of sources for each seed."""
    mode = ("additive", "dirichlet", "additive_no_correction", "additive")[seed % 4]
    return random.problem(
        shape,
        mixed="crba",
        seed=seed,
        nonlinearity=True if nonlinear else None,
        absorption=absorption,
        pressure_source=random.pressure_source(shape, mode, rank_one=seed == 3),
        velocity_source=random.velocity_source(shape, mode),
        transducer=random.transducer(shape),
    )


def owned(stages, comm, name):
    """A field of the whole grid, on every rank."""
    part = stages.coefficients.subdomain
    mine = np.ascontiguousarray(random.full_fields(stages)[name][part.owned])
    out = np.empty(part.shape[::-1], mine.dtype)
    for block, first, size in comm.control.all_gather((mine, part.owned_first, part.owned_size)):
        out[tuple(slice(f, f + n) for f, n in zip(first[::-1], size[::-1], strict=True))] = block
    return out


def run_steps(comm, problem, dtype, options, plain=False):
    stages = make_stages(
        comm.device, problem, dtype, plain, comm, decompose(problem.shape, comm.size, options)
    )
    step = Step(stages)
    for number in range(STEPS):
        step.take(number)
    fields = {name: owned(stages, comm, name) for name in ("p", "ux", "uy", "uz", "rho", "rhox", "rhoz")}
    stages.layout.finish_exchanges()  # what comes later would land in memory of others
    return stages, fields


def alone(comm, problem, dtype):
    stages = make_stages(comm.device, problem, dtype, plain=True)
    step = Step(stages)
    for number in range(STEPS):
        step.take(number)
    return random.full_fields(stages)
