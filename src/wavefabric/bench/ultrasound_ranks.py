"""Ultrasound time steps over ranks: what the benchmarks of them share."""

from __future__ import annotations

import gc
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from wavefabric.acoustics.choose_stages import make_stages, needed_bytes
from wavefabric.acoustics.parallel.decomposition import Decomposition, Options, decompose
from wavefabric.acoustics.problem import PressureSource, Problem, Recording
from wavefabric.acoustics.run import PRECISIONS
from wavefabric.acoustics.solver.step import Step
from wavefabric.bench.ultrasound_cases import MEDIA, outline
from wavefabric.errors import InputError
from wavefabric.exchange import Communicator
from wavefabric.execution.measure import Ranks, timed
from wavefabric.execution.report import shape_words

Triple = tuple[int, int, int]
_NO_SENSOR = Recording(())
#: Steps in which the source is on, and steps before the first that is timed.
_SOURCE_STEPS, _FIRST_STEPS = 2, 5


def check(shapes: Sequence[Triple], media: Sequence[str], precision: str, repeats: int) -> None:
    """Refuse what is not allowed, by the names of the options."""
    for shape in shapes:
        if not all(8 <= n <= 16384 for n in shape):
            raise InputError(
                f"size: {shape_words(shape)} given; allowed: NXxNYxNZ, each from 8 to 16384 points"
            )
    check_names(media, precision, repeats)


def check_names(media: Sequence[str], precision: str, repeats: int) -> None:
    """Refuse unknown media and precisions, and no repeats."""
    for name in media:
        if name not in MEDIA:
            raise InputError(f"medium: {name!r} is unknown; allowed: {', '.join(MEDIA)}, both")
    if precision not in PRECISIONS:
        raise InputError(f"precision: {precision!r} is unknown; allowed: {', '.join(PRECISIONS)}")
    if repeats < 1:
        raise InputError(f"repeats: {repeats} given; allowed: at least 1")


def light_problem(medium: str, shape: Triple) -> Problem:
    """A problem whose arrays take no memory on the host, with a source of one point in the middle.

    Arrays of the heterogeneous medium are full on the devices, of one value each.
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


class RankStepper:
    """A problem that takes one step after the other on all ranks; on one with a communicator of one."""

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
    """Time of a step in ms on the slowest rank; ``case`` as in `RankStepper`. Collective over `ranks`."""
    ranks.control.barrier()  # nobody frees what another still reads
    gc.collect()
    stepper = RankStepper(comm, *case)
    return timed(ranks, stepper, repeats) | {"finite": stepper.finite()}


def _bytes_needed(
    ranks: Ranks, medium: str, shape: Triple, precision: str, decomposition: Decomposition | None
) -> int:
    problem, dtype = light_problem(medium, shape), np.dtype(PRECISIONS[precision])
    return needed_bytes(problem, _NO_SENSOR, dtype, ranks.device, decomposition)


def check_memory(ranks: Ranks, medium: str, shape: Triple, precision: str, options: Options | None) -> None:
    """Refuse what does not fit, or cannot be divided so, before anything is allocated."""
    needed = _bytes_needed(ranks, medium, shape, precision, decompose(shape, ranks.size, options))
    ranks.check_memory(needed, f"size: {shape_words(shape)}, {medium},")


def fits_one(ranks: Ranks, medium: str, shape: Triple, precision: str) -> bool:
    """Whether the whole grid fits into the memory that one rank would have to itself among the others."""
    try:
        ranks.check_memory(_bytes_needed(ranks, medium, shape, precision, None), "size:")
    except InputError:
        return False
    return True


def grids(ranks: int) -> Iterator[Triple]:
    """All ways to cut a grid into blocks for so many ranks, along x, y and z."""
    for x in range(1, ranks + 1):
        for y in range(1, ranks // x + 1):
            if ranks % (x * y) == 0:
                yield x, y, ranks // (x * y)


def even_grid(ranks: int) -> Triple:
    """Blocks as nearly alike along all axes as can be; z is cut most, then y."""
    return min(grids(ranks), key=lambda grid: (max(grid) / min(grid), grid))


def result_of(ranks: Ranks, benchmark: str, cases: list[dict[str, Any]], **facts: Any) -> dict[str, Any]:
    """What every result has: facts of the benchmark, its cases, missing transports, the machine."""
    return {
        "benchmark": benchmark,
        "ranks": ranks.size,
        **facts,
        "cases": cases,
        "unavailable": ranks.unavailable,
        "machine": ranks.machine(),
    }
