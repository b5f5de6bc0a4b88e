"""Computes amplitude and phase of the pressure at given frequencies from running sums, without a series.

For p(t) = A cos(ωt + φ) over whole periods, N samples: Σ p cos ωt = N A cos(φ)/2, Σ p sin ωt = −N A sin(φ)/2.
"""

import math
from collections.abc import Iterable, Mapping

import numpy as np

from wavefabric.acoustics.problem import Problem, Recording
from wavefabric.acoustics.recording.quantities import TONES, RecordedQuantity

#: Largest deviation of a recording from a whole number of periods without a warning.
NEARLY_WHOLE = 0.02


def sum_names(recording: Recording) -> list[tuple[str, RecordedQuantity, int]]:
    """Return a list of the running sums: (name, recorded quantity, index of the frequency) of each.

    A sum adds up the pressure times a cosine or sine of time. The cosine sum of a frequency comes first.
    """
    return [
        (f"{name.replace('amp', kind)}_{number}", TONES[name], number)
        for name in recording.tones
        for number in range(len(recording.frequencies))
        for kind in ("cos", "sin")
    ]


def weights(problem: Problem, recording: Recording, number: int, step: int) -> tuple[float, float]:
    """Return a step's factors in the sums of frequency ``number``: 2/N cos ωt, 2/N sin ωt (N steps)."""
    turns = recording.frequencies[number] * problem.dt * step
    angle = 2 * math.pi * (turns - round(turns))
    factor = 2 / (problem.steps - recording.start)
    return factor * math.cos(angle), factor * math.sin(angle)


def with_tones(arrays: Mapping[str, np.ndarray], recording: Recording) -> dict[str, np.ndarray]:
    """Replace the running sums in ``arrays`` by amplitudes and phases; return a new dictionary.

    Its new names are ``p_amp``, ``p_phase``, …; the first axis of their arrays is the frequency. A run that
    stopped at a checkpoint has no sums, and so none of these.
    """
    sums = {name for name, *_ in sum_names(recording)}
    results = {name: array for name, array in arrays.items() if name not in sums}
    for name in recording.tones if sums <= set(arrays) else ():
        numbers = range(len(recording.frequencies))
        cosine, sine = (
            np.stack([arrays[f"{name.replace('amp', kind)}_{i}"] for i in numbers]) for kind in ("cos", "sin")
        )
        results[name] = np.hypot(cosine, sine)
        results[name.replace("amp", "phase")] = np.arctan2(-sine, cosine)
    return results


def broken_periods(problem: Problem, recording: Recording) -> Iterable[str]:
    """Yield a warning for each frequency whose recording is not nearly a whole number of periods."""
    steps = problem.steps - recording.start
    for frequency in recording.frequencies:
        periods = steps * problem.dt * frequency
        if abs(periods - round(periods)) > NEARLY_WHOLE or periods < 0.5:
            yield (
                f"sensor.frequencies: {steps} recorded time steps are {periods:.4g} periods of {frequency:g} "
                "Hz, but amplitude and phase want a whole number: choose dt, steps and start for it"
            )
