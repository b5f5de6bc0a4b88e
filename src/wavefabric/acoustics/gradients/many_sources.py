"""Provides `simulate_and_gradients`: the gradient of an objective for each of many sources on one medium."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import fields
from functools import partial
from typing import Any

import numpy as np

from wavefabric.acoustics.arguments import ensure, require
from wavefabric.acoustics.decomposition.subdomain import Subdomain
from wavefabric.acoustics.gradients.gradient import Gradient, prepare_gradient, simulate_and_gradient
from wavefabric.acoustics.gradients.objective import as_recorded, evaluate
from wavefabric.acoustics.gradients.parameters import ParameterGradients
from wavefabric.acoustics.gradients.run import AdjointRun, GradientSettings
from wavefabric.acoustics.grid import Grid
from wavefabric.acoustics.medium import Medium
from wavefabric.acoustics.problem import Problem, Recording
from wavefabric.acoustics.recording.quantities import is_field, is_tone, quantity_of
from wavefabric.acoustics.recording.sinks import MemorySink
from wavefabric.acoustics.recording.tones import sum_names, with_tones
from wavefabric.acoustics.result import Results
from wavefabric.acoustics.run import run
from wavefabric.acoustics.sensor import Sensor
from wavefabric.acoustics.simulation import PreparedSimulation, SimulateSettings
from wavefabric.acoustics.solver.adjoint.step import needs_states
from wavefabric.acoustics.solver.coefficients import Fields
from wavefabric.acoustics.source import Source
from wavefabric.acoustics.stack import batches, of_plane, stack_recording, stack_sources

#: A function that receives the results and the index of a source, and returns value and derivatives.
NumberedObjective = Callable[[Results, int], tuple[float, Mapping[str, Any]]]
#: Largest number of grid points of a stack, up to which `AdjointRun` repeats a whole adjoint step as one CUDA
#: graph; and the fraction of the free memory that the states of its forward steps may take.
_MOST_POINTS, _PART = 1 << 21, 0.5


def simulate_and_gradients(
    grid: Grid,
    medium: Medium,
    sources: Iterable[Source],
    sensor: Sensor,
    objective: NumberedObjective,
    wrt: str | tuple[str, ...] = ("sound_speed",),
    **options: Any,
) -> list[Gradient]:
    """Compute an objective and its gradient for each of many sources, such as the shots of an inversion.

    On one GPU, 2-D sources are simulated many at a time, as by `PreparedSimulation.simulate_all`; elsewhere
    this is a loop over `simulate_and_gradient`. Results are the same to round-off.

    ``objective(results, number)`` returns the value for source ``number``, from 0, and its derivatives with
    respect to the recorded data. ``wrt`` and ``options`` are those of `simulate_and_gradient`, without
    ``checkpoint``.

    >>> gradients = simulate_and_gradients(grid, medium, shots, sensor, misfit, device="cuda")
    >>> total = sum(each["sound_speed"] for each in gradients)
    """
    require(callable(objective), "objective", objective, "a function of results and the number of a source")
    how = GradientSettings(**options)
    one = "simulate_and_gradient for each source"
    ensure(how.checkpoint is None, "checkpoint", "is given for many sources", one)
    if how.prepared is None:
        common = {each.name for each in fields(SimulateSettings)} & options.keys()
        settings = SimulateSettings(**{name: options.pop(name) for name in common})
        options |= {"prepared": PreparedSimulation(grid, medium, settings), "progress": settings.progress}
        how = GradientSettings(**options)
    assert how.prepared is not None
    sources, names = list(sources), tuple(wrt) if isinstance(wrt, tuple | list) else (wrt,)
    if len(sources) > 1 and how.prepared.planes_together() > 1:
        return _Together(grid, medium, sensor, objective, names, how).gradients(sources, options)
    numbered = (partial(_called, objective, number) for number in range(len(sources)))
    inputs = grid, medium
    return [
        simulate_and_gradient(*inputs, source, sensor, each, names, **options)
        for source, each in zip(sources, numbered, strict=True)
    ]


def _called(objective: NumberedObjective, number: int, results: Results) -> tuple[float, Mapping[str, Any]]:
    return objective(results, number)


class _Together:
    """Simulates and differentiates sources in stacks of planes."""

    def __init__(
        self, grid: Grid, medium: Medium, sensor: Sensor, objective: NumberedObjective,
        names: tuple[str, ...], how: GradientSettings,
    ):  # fmt: skip
        assert how.prepared is not None
        self._grid, self._medium, self._sensor, self._names = grid, medium, sensor, names
        self._objective, self._how, self._prepared = objective, how, how.prepared

    def gradients(self, sources: Sequence[Source], options: Mapping[str, Any]) -> list[Gradient]:
        """Return the gradient of each source; ``options`` are those of `simulate_and_gradient`."""
        inputs, stated = (self._names, "wrt", self._grid, self._medium), []
        for source in sources:
            problem, recording, how = prepare_gradient(*inputs, source, self._sensor, self._how)
            self._prepared.check(problem, recording, how)
            stated.append((source, problem, recording, how))
        results: list[Any] = [None] * len(stated)
        problems = [problem for _, problem, *_ in stated]
        for numbers in batches(problems, self._most(problems[0], stated[0][-1])):
            if len(numbers) == 1:
                n = numbers[0]
                objective = partial(_called, self._objective, n)
                more = sources[n], self._sensor, objective, self._names
                results[n] = simulate_and_gradient(self._grid, self._medium, *more, **options)
                continue
            for number, result in zip(numbers, self._of_batch(numbers, stated), strict=True):
                results[number] = result
        return results

    def _most(self, problem: Problem, how: GradientSettings) -> int:
        """Return how many sources fit in one stack, by grid points and by the memory for stored states."""
        most = min(self._prepared.planes_together(), max(1, _MOST_POINTS // problem.points))
        if needs_states(problem, frozenset(self._names)):
            state = Fields.nbytes(problem, Subdomain.whole(problem.shape), how.dtype)
            free = self._prepared.settings.ranks.device.memory()[0]
            most = min(most, max(1, int(_PART * free / (state * problem.steps))))
        return most

    def _of_batch(self, numbers: Sequence[int], stated: Sequence[tuple]) -> list[Gradient]:
        sources, problems, (recording, *_), (how, *_) = zip(*(stated[n] for n in numbers), strict=True)
        inputs = self._grid, self._medium
        parameters = [
            ParameterGradients(*inputs, *each, self._names) for each in zip(sources, problems, strict=True)
        ]
        stack, setup = self._prepared.stack(len(numbers), indexed=False)
        problem, planes = stack_sources(stack, problems), stack.shape[2]
        together, sink = stack_recording(recording, stack), MemorySink()
        with closing(AdjointRun(problem, together, parameters[0].wrt, parameters[0].scaled, how)) as adjoint:
            report = run(problem, together, sink, how, observer=adjoint, setup=setup)
            report.notes.append(f"one of {len(numbers)} sources that were simulated together")
            of_all = with_tones(sink.arrays, recording)
            results, values, derivatives = [], [], []
            for plane, number in enumerate(numbers):
                recorded = of_plane(of_all, plane, planes)
                each = Results(recorded, problems[plane], recording, self._grid, report)
                tones = {name: np.copy(value) for name, value in each.items() if is_tone(name)}
                value, by = evaluate(partial(_called, self._objective, number), each)
                results.append(each)
                values.append(value)
                derivatives.append(as_recorded(by, each, tones, self._grid, recording))
            adjoint.back(_joined(derivatives, planes, recording), None, {}, {})
            medium, (signals, products) = adjoint.medium(), adjoint.signals({})
            gradients, first = [], dict.fromkeys(parameters[0].points, 0)
            for plane, each in enumerate(parameters):
                ends = {name: first[name] + index.size for name, index in each.points.items()}
                of_source = {name: slice(first[name], end) for name, end in ends.items()}
                first, field = ends, {name: array[plane : plane + 1] for name, array in medium.items()}
                parts = (
                    {name: array[..., of_source[name]] for name, array in arrays.items()}
                    for arrays in (signals, products)
                )
                by_name = each.from_grid(field, *parts)
                gradients.append(Gradient(by_name, values[plane], results[plane], adjoint))
        return gradients


def _joined(
    derivatives: Sequence[Mapping[str, np.ndarray]], planes: int, recording: Recording
) -> dict[str, np.ndarray]:
    """Join the derivatives of all planes into one array per quantity, as `as_recorded` orders them.

    Unused planes, and quantities on which the objective of a source does not depend, get zeros.
    """
    sums = {name: quantity for name, quantity, _ in sum_names(recording)}
    joined = {}
    for name in dict.fromkeys(name for each in derivatives for name in each):
        known = next(each[name] for each in derivatives if name in each)
        parts = [each.get(name, np.zeros_like(known)) for each in derivatives]
        parts += [np.zeros_like(known)] * (planes - len(parts))
        quantity = sums.get(name) or quantity_of(name)
        whole = is_field(name) if quantity is None else quantity.kind == "field"
        joined[name] = np.concatenate(parts, axis=0 if whole else -1)
    return joined
