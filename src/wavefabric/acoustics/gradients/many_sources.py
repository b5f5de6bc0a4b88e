"""Provides `simulate_and_gradients`: the gradient of an objective for each of many sources on one medium."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any

import numpy as np

from wavefabric.acoustics.decomposition.subdomain import Subdomain
from wavefabric.acoustics.gradients.gradient import Gradient, prepare_gradient, simulate_and_gradient
from wavefabric.acoustics.gradients.objective import as_recorded, evaluate
from wavefabric.acoustics.gradients.parameters import ParameterGradients
from wavefabric.acoustics.gradients.run import AdjointRun, GradientSettings
from wavefabric.acoustics.grid import Grid
from wavefabric.acoustics.medium import Medium
from wavefabric.acoustics.problem import Problem, Recording
from wavefabric.acoustics.recording.quantities import is_tone, quantity_of
from wavefabric.acoustics.recording.tones import sum_names
from wavefabric.acoustics.result import Results
from wavefabric.acoustics.sensor import Sensor
from wavefabric.acoustics.simulation import PreparedSimulation
from wavefabric.acoustics.solver.adjoint.step import needs_states
from wavefabric.acoustics.solver.coefficients import Fields
from wavefabric.acoustics.source import Source
from wavefabric.acoustics.stack import in_batches
from wavefabric.base.errors import ensure, require

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

    ``objective(results, number)`` returns the value for source ``number`` (from 0) and, by name of recorded
    quantity, its derivatives. ``wrt`` and ``options`` are as in `simulate_and_gradient`, but no checkpoint.

    >>> gradients = simulate_and_gradients(grid, medium, shots, sensor, misfit, device="cuda")
    >>> total = sum(each["sound_speed"] for each in gradients)
    """
    require(callable(objective), "objective", objective, "a function of results and the number of a source")
    settings = GradientSettings(**options)
    one = "simulate_and_gradient for each source"
    ensure(settings.checkpoint is None, "checkpoint", "is given for many sources", one)
    prepared = settings.prepared
    if prepared is None:
        prepared = PreparedSimulation(grid, medium, settings)
        others = {name: options[name] for name in ("states", "scratch", "progress") if name in options}
        options = others | {"prepared": prepared}
    sources, names = list(sources), tuple(wrt) if isinstance(wrt, tuple | list) else (wrt,)
    if len(sources) > 1 and prepared.planes_together() > 1:
        return _Together(prepared, sensor, objective, names, options).gradients(sources)
    return [
        simulate_and_gradient(
            grid, medium, source, sensor, partial(_called, objective, number), names, **options
        )
        for number, source in enumerate(sources)
    ]


def _called(objective: NumberedObjective, number: int, results: Results) -> tuple[float, Mapping[str, Any]]:
    return objective(results, number)


class _Together:
    """Computes the gradients of many 2-D sources at once, as the planes of stacks (`acoustics.stack`).

    ``options`` are those of `simulate_and_gradient`, with ``prepared``.
    """

    def __init__(
        self,
        prepared: PreparedSimulation,
        sensor: Sensor,
        objective: NumberedObjective,
        names: tuple[str, ...],
        options: Mapping[str, Any],
    ):
        self._prepared, self._sensor, self._objective = prepared, sensor, objective
        self._names, self._options = names, options

    def gradients(self, sources: Sequence[Source]) -> list[Gradient]:
        """Return the gradient of each source."""
        inputs = self._prepared.grid, self._prepared.medium
        settings = GradientSettings(**self._options)
        stated = [
            prepare_gradient(self._names, "wrt", *inputs, each, self._sensor, settings) for each in sources
        ]
        for each in stated:
            self._prepared.check(*each)
        problems, (_, recording, settings) = [problem for problem, *_ in stated], stated[0]

        def of_source(number: int) -> Gradient:
            more = self._sensor, partial(_called, self._objective, number), self._names
            return simulate_and_gradient(*inputs, sources[number], *more, **self._options)

        def of_stack(numbers: list[int]) -> list[Gradient]:
            some = {number: (sources[number], problems[number]) for number in numbers}
            return self._of_stack(some, recording, settings)

        return in_batches(problems, self._largest_stack(problems[0], settings), of_source, of_stack)

    def _largest_stack(self, problem: Problem, settings: GradientSettings) -> int:
        """Return how many sources fit in one stack, by grid points and by the memory for stored states."""
        count = min(self._prepared.planes_together(), max(1, _MOST_POINTS // problem.points))
        if needs_states(problem, frozenset(self._names)):
            state = Fields.nbytes(problem, Subdomain.whole(problem.shape), settings.dtype)
            free = self._prepared.settings.ranks.device.memory()[0]
            count = min(count, max(1, int(_PART * free / (state * problem.steps))))
        return count

    def _of_stack(
        self, shots: Mapping[int, tuple[Source, Problem]], recording: Recording, settings: GradientSettings
    ) -> list[Gradient]:
        """Return the gradients of sources in one stack; ``shots`` maps their numbers to (source, problem)."""
        prepared, problems = self._prepared, [problem for _, problem in shots.values()]
        inputs = prepared.grid, prepared.medium
        parameters = [ParameterGradients(*inputs, *each, self._names) for each in shots.values()]
        stack = prepared.stack(problems, recording, indexed=False)
        with closing(AdjointRun(*stack[:2], parameters[0].wrt, parameters[0].scaled, settings)) as adjoint:
            results = prepared.run_stack(problems, recording, stack, settings, adjoint)
            values, derivatives = [], []
            for number, each in zip(shots, results, strict=True):
                tones = {name: np.copy(value) for name, value in each.items() if is_tone(name)}
                value, by = evaluate(partial(_called, self._objective, number), each)
                values.append(value)
                derivatives.append(as_recorded(by, each, tones, prepared.grid, recording))
            adjoint.run_backward(_joined(derivatives, recording), None, {}, {})
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


def _joined(derivatives: Sequence[Mapping[str, np.ndarray]], recording: Recording) -> dict[str, np.ndarray]:
    """Join the derivatives of all planes into one array per quantity, in the layout of `as_recorded`.

    Quantities on which the objective of a source does not depend get zeros.
    """
    sums = {name: quantity for name, quantity, _ in sum_names(recording)}
    joined = {}
    for name in dict.fromkeys(name for each in derivatives for name in each):
        zeros = np.zeros_like(next(each[name] for each in derivatives if name in each))
        quantity = sums.get(name) or quantity_of(name)
        whole = quantity is not None and quantity.kind == "field"
        joined[name] = np.concatenate(
            [each.get(name, zeros) for each in derivatives], axis=0 if whole else -1
        )
    return joined
