"""Ultrasound time steps, on one device and over ranks: what the benchmarks of them share."""

import gc
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from wavefabric.acoustics.choose_stages import make_stages, needed_bytes
from wavefabric.acoustics.decomposition.decompose import Decomposition, Partition, block_grids, decompose
from wavefabric.acoustics.problem import PressureSource, Problem, Recording
from wavefabric.acoustics.recording.recorder import Recorder
from wavefabric.acoustics.recording.sinks import Sink
from wavefabric.acoustics.run_settings import PRECISIONS
from wavefabric.acoustics.solver.stages import Stages
from wavefabric.acoustics.solver.step import Step
from wavefabric.bench.common import Triple, check_range, check_words
from wavefabric.bench.ultrasound_cases import ALL_MEDIA, outline, points
from wavefabric.errors import InputError
from wavefabric.exchange.communicator import Communicator
from wavefabric.execution.report import shape_words
from wavefabric.execution.timing import Ranks, timed

NO_SENSOR = Recording(())
#: Steps in which the source is on, and steps before the first that is timed.
_SOURCE_STEPS, _FIRST_STEPS = 2, 5


def check(shapes: Iterable[Triple], media: Sequence[str], precision: str, repeats: int, most: int) -> None:
    """Refuse grids of more than `most` points along an axis, unknown media and precisions, and no repeats."""
    for shape in shapes:
        if len(shape) != 3 or not all(8 <= n <= most for n in shape):
            allowed = f"N or NXxNYxNZ, each from 8 to {most} points"
            raise InputError(f"size: {shape_words(shape)} given; allowed: {allowed}")
    check_words("medium", media, ALL_MEDIA)
    check_words("precision", [precision], PRECISIONS)
    check_range("repeats", repeats, 1)


def light_problem(medium: str, shape: Triple) -> Problem:
    """A problem whose arrays take no memory on the host, with a source of one point in the middle.

    Arrays of the heterogeneous medium are full on the devices; tissues are one material there.
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


class Stepper:
    """Stages that take one step after the other, as a run does but for recording."""

    def __init__(self, stages: Stages, first_steps: int = _FIRST_STEPS):
        self.stages = stages
        self._step, self._next = Step(stages), 0
        self.begin_anew(first_steps)

    def begin_anew(self, steps: int = _FIRST_STEPS) -> None:
        """Take some steps, as written before any is captured; again where what they call has changed."""
        self._step.forget()
        for _ in range(steps):
            self()

    def __call__(self) -> None:
        self._step.take(self._next)
        self._next += 1

    def finite(self) -> bool:
        """Whether the field still is one, after all steps; collective."""
        self.stages.layout.finish_exchanges()
        return math.isfinite(float(abs(self.stages.fields.p).max()))


class Nowhere(Sink):
    """Takes what is recorded, and forgets it."""


class RecordingStepper(Stepper):
    """Steps that are recorded at so many points, a series and a statistic, as a run records them.

    Rows leave the device in blocks.
    """

    def __init__(self, stages: Stages, count: int, first_steps: int):
        shape = stages.coefficients.problem.shape
        self._recorder = Recorder(stages, Recording(("p_raw", "p_max"), points(shape, count)), Nowhere())
        self._recorder.begin(0)
        super().__init__(stages, first_steps)

    def __call__(self) -> None:
        number = self._next
        super().__call__()
        self._recorder.after(number)

    def close(self) -> None:
        """End the thread that takes what is recorded."""
        self._recorder.delivery.close()


class RankSteps:
    """Steps of grids that ranks share, in one precision."""

    def __init__(
        self, ranks: Ranks, shapes: Iterable[Triple], media: Sequence[str], precision: str, repeats: int
    ):
        check(shapes, media, precision, repeats, 16384)
        self.ranks, self.dtype, self.repeats = ranks, np.dtype(PRECISIONS[precision]), repeats

    def check_memory(self, medium: str, shape: Triple, options: Decomposition | None, ranks: int = 0) -> None:
        """Refuse what does not fit, or cannot be divided so, before anything is allocated."""
        cut = decompose(shape, ranks or self.ranks.size, options)
        problem = light_problem(medium, shape)
        needed = needed_bytes(problem, NO_SENSOR, self.dtype, self.ranks.device, cut)
        self.ranks.check_memory(needed, f"size: {shape_words(shape)}, {medium},")

    def cut(
        self, medium: str, shape: Triple, options: Decomposition, left_out: list[str]
    ) -> Partition | None:
        """How a grid is cut, memory checked; None if a block is shorter than the overlap, which is said."""
        try:
            cut = decompose(shape, self.ranks.size, options)
        except InputError as error:
            if not str(error).startswith("overlap"):
                raise
            left_out.append(str(error))
            return None
        self.check_memory(medium, shape, options)
        return cut

    def fits_one(self, medium: str, shape: Triple) -> bool:
        """Whether the whole grid fits into the memory that one rank would have to itself among the others."""
        try:
            self.check_memory(medium, shape, None, ranks=1)
        except InputError:
            return False
        return True

    def stepper(
        self, comm: Communicator, medium: str, shape: Triple, options: Decomposition | None
    ) -> Stepper:
        """A problem ready for its steps on all ranks; on one with a communicator of one. Collective."""
        self.ranks.control.barrier()  # nobody frees what another still reads
        gc.collect()
        cut, problem = decompose(shape, comm.size, options), light_problem(medium, shape)
        return Stepper(make_stages(comm.device, problem, self.dtype, comm=comm, decomposition=cut))

    def time(
        self, comm: Communicator, medium: str, shape: Triple, options: Decomposition | None = None
    ) -> dict[str, Any]:
        """Time of a step in ms on the slowest rank; collective."""
        stepper = self.stepper(comm, medium, shape, options)
        return self.times(stepper) | {"finite": stepper.finite()}

    def times(self, work: Callable[[], Any]) -> dict[str, float]:
        """Median, best and worst time of `work` in ms on the slowest rank; collective."""
        return timed(self.ranks, work, self.repeats)


def even_grid(ranks: int) -> Triple:
    """Blocks as nearly alike along all axes as can be; z is cut most, then y."""
    return min(block_grids(ranks), key=lambda grid: (max(grid) / min(grid), grid))
