"""Ultrasound time steps, one after the other: what the benchmarks of them share."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from wavefabric.acoustics.problem import PressureSource, Problem, Recording
from wavefabric.acoustics.recording.recorder import Recorder
from wavefabric.acoustics.recording.sinks import Sink
from wavefabric.acoustics.run_settings import PRECISIONS
from wavefabric.acoustics.solver.stages import Stages
from wavefabric.acoustics.solver.step import Step
from wavefabric.bench.common import Triple, check_words
from wavefabric.bench.ultrasound_cases import ALL_MEDIA, outline, points
from wavefabric.errors import InputError
from wavefabric.execution.report import shape_words
from wavefabric.quantities import whole

NO_SENSOR = Recording(())
#: Steps in which the source is on, and steps before the first that is timed.
_SOURCE_STEPS, _FIRST_STEPS = 2, 5


def check(
    shapes: Iterable[Triple],
    media: Sequence[str],
    precision: str,
    repeats: int,
    most: int,
    planes: bool = False,
) -> None:
    """Refuse grids of more than `most` points along an axis, unknown media and precisions, and no repeats.

    With ``planes`` a grid may be one point along z.
    """
    for shape in shapes:
        axes = shape[:2] if planes and shape[2:] == (1,) else shape
        if len(shape) != 3 or not all(8 <= n <= most for n in axes):
            allowed = f"N, {'NXxNY ' * planes}or NXxNYxNZ, each from 8 to {most} points"
            raise InputError(f"size: {shape_words(shape)} given; allowed: {allowed}")
    check_words("medium", media, ALL_MEDIA)
    check_words("precision", [precision], PRECISIONS)
    whole("repeats", repeats, 1)


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
