"""A stack holds 2-D simulations on one grid and medium as planes of one array; a GPU computes all at once.

A small grid occupies little of a GPU: its steps take as long as the launches of their kernels. A stack takes
hardly longer than one of its planes. Each plane has its own sources; waves do not travel between planes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from wavefabric.acoustics.choose_stages import stages_form
from wavefabric.acoustics.decomposition.decompose import decompose
from wavefabric.acoustics.fused.fused_cuda import FusedCudaStages
from wavefabric.acoustics.problem import (
    SOURCES,
    Cuboids,
    Elements,
    Interpolation,
    PressureSource,
    Problem,
    ProductSignal,
    Recording,
    Signal,
    TransducerSource,
    VelocitySource,
)
from wavefabric.acoustics.recording.quantities import is_field, is_tone
from wavefabric.acoustics.run_settings import RunSettings

#: Largest number of grid points of a stack, enough to occupy a GPU, and of planes, a limit of CUDA.
MOST_POINTS, MOST_PLANES = 1 << 22, 65535
#: Medium parameters of a problem, which all planes share, like ``density_staggered``.
_MEDIUM = ("sound_speed", "density", "nonlinearity", "alpha_coeff")


def planes_together(problem: Problem, settings: RunSettings) -> int:
    """Return how many simulations on the grid of ``problem`` a stack may have; 1 if they cannot be stacked.

    A stack needs one GPU and a Cartesian 2-D grid that the fused kernels support.
    """
    if settings.ranks.size > 1 or problem.dimensions != 2 or problem.axisymmetric:
        return 1
    form = stages_form(settings.ranks.device, problem, settings.dtype, decompose(problem.shape, 1))
    most = min(MOST_POINTS // problem.points, MOST_PLANES)
    return max(1, most) if form.stages is FusedCudaStages else 1


def empty_stack(problem: Problem, planes: int) -> Problem:
    """Return a stack of ``planes`` simulations on the grid and medium of a 2-D problem, without sources.

    The stack shares the cache `Problem.facts` of ``problem``, whose results describe one plane.
    """
    shape = (*problem.shape[:2], planes)

    def on_all(value: Any) -> Any:
        return np.broadcast_to(value, shape[::-1]) if isinstance(value, np.ndarray) and value.ndim else value

    medium = {name: on_all(getattr(problem, name)) for name in _MEDIUM}
    medium["density_staggered"] = tuple(map(on_all, problem.density_staggered))
    result = replace(problem, shape=shape, stacked=True, **medium, **dict.fromkeys(SOURCES))
    vars(result)["facts"] = problem.facts
    return result


def in_batches(
    problems: Sequence[Problem],
    most: int,
    simulate_one: Callable[[int], Any],
    simulate_stack: Callable[[list[int]], list[Any]],
) -> list[Any]:
    """Simulate problems in stacks of at most ``most`` planes; return one result per problem, in order.

    ``simulate_stack`` receives the indices of problems that can be stacked and returns their results;
    ``simulate_one`` receives the index of a problem that cannot be stacked with another.
    """
    alike: dict[tuple, list[int]] = {}
    for number, problem in enumerate(problems):
        alike.setdefault(_kind_of_sources(problem), []).append(number)
    results: dict[int, Any] = {}
    for numbers in alike.values():
        for first in range(0, len(numbers), most):
            indices = numbers[first : first + most]
            several = simulate_stack(indices) if len(indices) > 1 else [simulate_one(indices[0])]
            results |= zip(indices, several, strict=True)
    return [results[number] for number in range(len(problems))]


def _kind_of_sources(problem: Problem) -> tuple:
    """Return a key of a problem's sources; problems with equal keys can be stacked.

    It consists of the number of steps, the kinds of sources, their modes and the lengths of their signals,
    and a transducer's signal.
    """
    pushes = problem.transducer
    kinds: list[Any] = [problem.steps, problem.initial_pressure is not None]
    kinds.append(pushes and (pushes.steps, pushes.signal.tobytes()))
    for source in (problem.pressure_source, problem.velocity_source):
        lengths = source and tuple(each if each is None else len(each) for each in source.signals)
        kinds.append(source and (source.mode, lengths))
    return tuple(kinds)


def stack_sources(stack: Problem, problems: Sequence[Problem]) -> Problem:
    """Return a copy of ``stack`` with the sources of problem k in plane k; all must be of the same kinds."""
    plane = stack.shape[0] * stack.shape[1]

    def index(sources: Sequence[Any]) -> np.ndarray:
        return np.concatenate([source.index + number * plane for number, source in enumerate(sources)])

    sources: dict[str, Any] = {}
    if (fields := [p.initial_pressure for p in problems if p.initial_pressure is not None]) != []:
        sources["initial_pressure"] = np.concatenate(fields)
    if (pressures := [p.pressure_source for p in problems if p.pressure_source is not None]) != []:
        signal = _side_by_side(pressures, [source.signal for source in pressures])
        sources["pressure_source"] = PressureSource(index(pressures), signal, pressures[0].mode)
    if (velocities := [p.velocity_source for p in problems if p.velocity_source is not None]) != []:
        signals = (
            None if each[0] is None else _side_by_side(velocities, each)
            for each in zip(*(source.signals for source in velocities), strict=True)
        )
        sources["velocity_source"] = VelocitySource(index(velocities), tuple(signals), velocities[0].mode)
    if (transducers := [p.transducer for p in problems if p.transducer is not None]) != []:
        delay = np.concatenate([each.delay for each in transducers])
        signal, steps = transducers[0].signal, transducers[0].steps
        sources["transducer"] = TransducerSource(index(transducers), delay, signal, steps)
    return stack.with_medium(steps=problems[0].steps, **sources)


def _side_by_side(sources: Sequence[Any], signals: Sequence[Signal]) -> Signal:
    """Join the signals of several sources into one array (steps, points of all sources)."""
    products = [each for each in signals if isinstance(each, ProductSignal)]
    if len(products) == len(signals) and all(
        np.array_equal(each.waveforms, products[0].waveforms) for each in products
    ):
        return ProductSignal(products[0].waveforms, np.concatenate([each.weights for each in products]))
    columns = (
        np.broadcast_to(np.asarray(signal), (len(signal), source.index.size))
        for source, signal in zip(sources, signals, strict=True)
    )
    return np.concatenate(list(columns), axis=1)


def stack_recording(recording: Recording, stack: Problem) -> Recording:
    """Return the recording of a stack: the points of ``recording`` in each plane, plane after plane."""
    planes, plane, points = stack.shape[2], stack.shape[0] * stack.shape[1], recording.where
    offsets = np.arange(planes) * plane

    def tiled(index: np.ndarray) -> np.ndarray:
        return (offsets.reshape(-1, *(1,) * index.ndim) + index).reshape(-1, *index.shape[1:])

    if isinstance(points, np.ndarray):
        points = tiled(points)
    elif isinstance(points, Interpolation):
        points = Interpolation(tiled(points.corners), np.tile(points.weights, (planes, 1)))
    elif isinstance(points, Elements):
        lengths = np.tile(np.diff(points.bounds), planes)
        bounds = np.concatenate([points.bounds[:1], points.bounds[0] + np.cumsum(lengths)])
        points = Elements(bounds, tiled(points.points), np.tile(points.weights, planes))
    elif isinstance(points, Cuboids):
        up = np.zeros((planes, 1, 3), points.first.dtype)
        up[:, 0, 2] = np.arange(planes)
        points = Cuboids((points.first + up).reshape(-1, 3), (points.last + up).reshape(-1, 3))
    return replace(recording, where=points)


def of_plane(arrays: Mapping[str, np.ndarray], number: int, planes: int) -> dict[str, np.ndarray]:
    """Return the arrays recorded in plane ``number`` of a stack, as if its simulation had run alone."""
    result = {}
    for name, array in arrays.items():
        if is_field(name):
            result[name] = array[:, number : number + 1] if is_tone(name) else array[number : number + 1]
        else:
            samples = array.shape[-1] // planes
            result[name] = array[..., number * samples : (number + 1) * samples]
    return result
