"""Ultrasound time steps over ranks, as every benchmark of them takes them."""

from __future__ import annotations

import gc
import math
from dataclasses import replace
from typing import Any

import numpy as np

from wavefabric.acoustics.build import make_stages, needed_bytes
from wavefabric.acoustics.parallel.decomposition import Decomposition, Options, decompose
from wavefabric.acoustics.problem import PressureSource, Problem, Recording
from wavefabric.acoustics.run import PRECISIONS
from wavefabric.acoustics.solver.step import Step
from wavefabric.bench.ultrasound_cases import MEDIA, outline
from wavefabric.errors import InputError
from wavefabric.exchange import Communicator
from wavefabric.execution.ranks import Ranks, timed

Triple = tuple[int, int, int]
_NO_SENSOR = Recording(())
#: Steps in which the source is on, and steps before the first that is timed.
_SOURCE_STEPS, _FIRST_STEPS = 2, 5


def check(shapes, media, precision: str, repeats: int) -> None:
    """Refuse what is not allowed, as the options are called.

    Raises
    ------
    InputError
    """
    for shape in shapes:
        if not all(8 <= n <= 16384 for n in shape):
            raise InputError(f"size: {name_of(shape)} given; allowed: NXxNYxNZ, each from 8 to 16384 points")
    for name in media:
        if name not in MEDIA:
            raise InputError(f"medium: {name!r} is unknown; allowed: {', '.join(MEDIA)}, both")
    if precision not in PRECISIONS:
        raise InputError(f"precision: {precision!r} is unknown; allowed: {', '.join(PRECISIONS)}")
    if repeats < 1:
        raise InputError(f"repeats: {repeats} given; allowed: at least 1")


def name_of(shape) -> str:
    """``NXxNYxNZ``."""
    return "x".join(map(str, shape))


def light_problem(medium: str, shape: Triple) -> Problem:
    """A problem whose arrays take no memory on the host: a source of one point, in the middle.

    Parameters
    ----------
    medium : {"homogeneous", "heterogeneous"}
        As in `ultrasound_cases.problem`; arrays of the second are full on the devices, of one value each.
    shape : tuple of int
        (Nx, Ny, Nz).
    """
    nx, ny, nz = shape
    middle = ((nz // 2) * ny + ny // 2) * nx + nx // 2
    signal = np.full((_SOURCE_STEPS, 1), 1e-3)
    return replace(
        outline(medium, shape),
        steps=1 << 30,
        pml_size=tuple(min(10, n // 4) for n in shape),
        initial_pressure=None,
        pressure_source=PressureSource(np.array([middle]), signal, "additive_no_correction"),
    )


class SharedStepper:
    """A problem that takes one step after the other on all ranks; on one with a communicator of one.

    Parameters
    ----------
    comm : Communicator
    medium : str
    shape : tuple of int
        Of the whole grid.
    precision : str
    options : Options, optional
        How ranks share it.
    """

    def __init__(
        self, comm: Communicator, medium: str, shape: Triple, precision: str, options: Options | None = None
    ):
        problem, dtype = light_problem(medium, shape), PRECISIONS[precision]
        self.decomposition = decompose(shape, comm.size, options) if comm.size > 1 else None
        self.stages = make_stages(comm.device, problem, dtype, comm=comm, decomposition=self.decomposition)
        self._step, self._next = Step(self.stages), 0
        for _ in range(_FIRST_STEPS):
            self()

    def __call__(self) -> None:
        self._step.take(self._next)
        self._next += 1

    def finite(self) -> bool:
        """Whether the field still is one, after all steps; collective."""
        self.stages.finish_exchanges()
        return math.isfinite(float(abs(self.stages.fields.p).max()))


def step_time(ranks: Ranks, comm: Communicator, repeats: int, *case) -> dict[str, Any]:
    """Time of a step in ms on the slowest rank; ``case`` as in `SharedStepper`. Collective over `ranks`."""
    ranks.control.barrier()  # nobody frees what another still reads
    gc.collect()
    stepper = SharedStepper(comm, *case)
    return timed(ranks, stepper, repeats) | {"finite": stepper.finite()}


def bytes_needed(
    ranks: Ranks, medium: str, shape: Triple, precision: str, decomposition: Decomposition | None
) -> int:
    """Bytes that a rank takes on its device."""
    problem, dtype = light_problem(medium, shape), np.dtype(PRECISIONS[precision])
    return needed_bytes(problem, _NO_SENSOR, dtype, ranks.device, decomposition)


def check_memory(ranks: Ranks, medium: str, shape: Triple, precision: str, options: Options | None) -> None:
    """Refuse what does not fit, or cannot be shared so, before anything is allocated.

    Raises
    ------
    InputError
    """
    shared = decompose(shape, ranks.size, options)
    ranks.check_memory(
        bytes_needed(ranks, medium, shape, precision, shared), f"size: {name_of(shape)}, {medium},"
    )


def fits_one(ranks: Ranks, medium: str, shape: Triple, precision: str) -> bool:
    """Whether the whole grid fits into the memory that one rank would have to itself among the others."""
    try:
        ranks.check_memory(bytes_needed(ranks, medium, shape, precision, None), "size:")
    except InputError:
        return False
    return True


def grids(ranks: int, dimensions: int = 3) -> list[Triple]:
    """All ways to cut a grid into blocks for so many ranks, along x, y and z."""
    found = []
    for x in range(1, ranks + 1):
        for y in range(1, ranks // x + 1):
            if ranks % (x * y) == 0:
                grid = (x, y, ranks // (x * y))
                if sum(n > 1 for n in grid) <= dimensions:
                    found.append(grid)
    return found


def even_grid(ranks: int) -> Triple:
    """Blocks as nearly alike along all axes as can be; z is cut most, then y."""
    return min(grids(ranks), key=lambda grid: (max(grid) / min(grid), grid))
