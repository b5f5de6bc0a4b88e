"""Time steps with sources at points that are on and a sensor that records, for ``ultrasound-step``."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from wavefabric.acoustics.problem import PressureSource, Problem, Recording, VelocitySource
from wavefabric.acoustics.recording.recorder import Recorder
from wavefabric.acoustics.recording.sinks import Sink
from wavefabric.acoustics.solver.stages import Stages
from wavefabric.bench.ultrasound_cases import points
from wavefabric.bench.ultrasound_ranks import Stepper

#: What the sensor records: a time series and a statistic.
QUANTITIES = ("p_raw", "p_max")
# Of the signals: steps; kg/m³ and m/s a step, too weak to change the medium.
_PERIOD, _MASS, _VELOCITY = 64, 1e-9, 1e-12


def with_sources(inputs: Problem, count: int) -> Problem:
    """The problem with values added to pressure and velocity at so many points, in all steps."""
    index = points(inputs.shape, count)
    signal = np.sin(2 * np.pi / _PERIOD * (np.arange(inputs.steps) % _PERIOD))[:, None]
    return replace(
        inputs,
        pressure_source=PressureSource(index, _MASS * signal, "additive_no_correction"),
        velocity_source=VelocitySource(index, (_VELOCITY * signal,) * 3, "additive_no_correction"),
    )


class Nowhere(Sink):
    """Takes what is recorded, and forgets it."""


class RecordingStepper(Stepper):
    """Steps that are recorded at so many points as a run records them: rows leave the device in blocks."""

    def __init__(self, stages: Stages, count: int, first_steps: int):
        shape = stages.coefficients.problem.shape
        self._recorder = Recorder(stages, Recording(QUANTITIES, points(shape, count)), Nowhere())
        self._recorder.begin(0)
        super().__init__(stages, first_steps)

    def __call__(self) -> None:
        number = self._next
        super().__call__()
        self._recorder.after(number)

    def close(self) -> None:
        """End the thread that takes what is recorded."""
        self._recorder.delivery.close()
