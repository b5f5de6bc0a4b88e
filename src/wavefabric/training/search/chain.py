"""Find the layouts of layers with the shortest serial time under a memory limit, by dynamic programming.

A layout says how the GPUs divide a layer. The serial time has no overlap of calls and computation
(`serial_seconds`). A unit is a group of consecutive layers with one layout (`chain_units`). With one pipeline
stage, one call per layer for gradients (``bucket`` 0), and fixed microbatches, sharding and recomputation,
the serial time is a sum over units and pairs of neighbouring units (`chain_costs`), and the result is exact.
With overlap, a strategy takes at most its serial time, but another strategy may be faster, so the Markov
chains start from the result.

Without a limit the method is Viterbi's algorithm. With a limit, the problem is a constrained shortest path:
each layout of a unit has a Pareto front of time and memory (Joksch 1966, doi:10.1016/0022-247X(66)90020-5).
Bounds from a Lagrangian relaxation discard partial solutions (labels) that no best solution can contain
(Handler and Zang 1980, doi:10.1002/net.3230100403).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import inf
from typing import NamedTuple

import numpy as np

from wavefabric.base.errors import InputError
from wavefabric.training.gpu.device_model import DeviceModel
from wavefabric.training.gpu.precision import Precision
from wavefabric.training.iteration.engine import CallTimes
from wavefabric.training.iteration.memory import layer_memory, saved_elements
from wavefabric.training.iteration.tasks import build_tasks
from wavefabric.training.iteration.workload import Workload
from wavefabric.training.models.graph import ModelGraph, part_of
from wavefabric.training.strategies.strategy import LayerLayout, Strategy, check_strategy, layouts_of

#: Relative tolerance of the bounds, for rounding.
_SLACK = 1e-12
#: Iterations of the search for the Lagrangian multiplier.
_STEPS = 40
Unit = tuple[int, ...]


@dataclass(frozen=True)
class SearchSetting:
    """Holds the inputs that all strategies of one search have in common."""

    model: ModelGraph
    gpus: int
    batch: int
    device: DeviceModel
    precision: Precision
    fabric: CallTimes

    def workload(self, strategy: Strategy, part: ModelGraph | None = None) -> Workload:
        """Return the workload of ``strategy``, for the model or for ``part`` of it."""
        return Workload(part or self.model, strategy, self.device, self.precision)


@dataclass(frozen=True)
class SerialOptions:
    """Options, besides the layouts, of a strategy with one pipeline stage and no gradient buckets."""

    microbatches: int = 1
    sharded: bool = False
    recompute: bool = False


class UnitMemory(NamedTuple):
    """Memory of a unit (consecutive layers with one layout) on one GPU, in bytes.

    ``kept``: memory in use all the time; over all units it adds up. ``whole``: memory that gathered
    parameters and unreduced gradients add for a time, for each of the unit's two largest layers; over all
    units only the two largest values count. ``again``: memory that the recomputed activations of the unit's
    largest block add for a time; over all units only the largest value counts.
    """

    kept: float
    whole: tuple[float, float]
    again: float


@dataclass(frozen=True)
class ChainCosts:
    """Holds the time and memory of the units of a chain in every allowed layout.

    A unit is a group of consecutive layers with one layout. ``own[k][i]``: time in s of unit k in layout i of
    ``layouts[k]``. ``between[k][i, j]``: time in s added if unit k has layout i and unit k + 1 layout j.
    ``memory[k][i]``: memory of unit k in layout i.
    """

    units: tuple[Unit, ...]
    layouts: tuple[tuple[LayerLayout, ...], ...]
    own: tuple[np.ndarray, ...]
    between: tuple[np.ndarray, ...]
    memory: tuple[tuple[UnitMemory, ...], ...]


def chain_costs(setting: SearchSetting, options: SerialOptions, units: tuple[Unit, ...]) -> ChainCosts:
    """Compute the time and memory of the units of a chain in every allowed layout.

    The time of a unit is the serial time of the unit's layers as a separate model. The time that a pair of
    neighbouring units adds is the serial time of the layers at their `boundary` as one model, minus the
    serial times of the layers of either unit alone. Outputs reach only the next unit, and each layer's
    gradients have a separate call, so all times add up to the serial time of the model.
    """
    model = setting.model
    layouts = tuple(_allowed(setting, options, unit) for unit in units)

    @cache
    def time(part: ModelGraph, *each: LayerLayout) -> float:
        return serial_seconds(_workload(setting, options, part, each), setting.fabric)

    cases = [
        [(part_of(model, unit), *[layout] * len(unit)) for layout in own]
        for unit, own in zip(units, layouts, strict=True)
    ]
    own = tuple(np.array([time(*case) for case in mine]) for mine in cases)
    memory = tuple(
        tuple(_memory(_workload(setting, options, part, each)) for part, *each in mine) for mine in cases
    )
    between = []
    for k in range(len(units) - 1):
        first, second = boundary(model, units[k], units[k + 1])
        added = np.zeros((len(layouts[k]), len(layouts[k + 1])))
        between.append(added)
        if not first:
            continue
        pair, one, other = (part_of(model, numbers) for numbers in (first + second, first, second))
        for (i, a), (j, b) in product(enumerate(layouts[k]), enumerate(layouts[k + 1])):
            before, after = [a] * len(first), [b] * len(second)
            added[i, j] = time(pair, *before, *after) - time(one, *before) - time(other, *after)
    return ChainCosts(units, layouts, own, tuple(between), memory)


def serial_seconds(workload: Workload, fabric: CallTimes) -> float:
    """Return the time in s of an iteration without overlap: all compute tasks plus all calls, one by one.

    With one pipeline stage no order of calls takes longer, because some task runs at every moment.
    """
    graph = build_tasks(workload)
    return sum(graph.seconds) + sum(fabric.seconds([call]) for call in graph.call if call is not None)


def chain_strategy(
    setting: SearchSetting, options: SerialOptions, units: Sequence[Unit], chosen: Sequence[LayerLayout]
) -> Strategy:
    """Return the strategy in which unit k, a group of consecutive layers, has the layout ``chosen[k]``."""
    layouts = [layout for unit, layout in zip(units, chosen, strict=True) for _ in unit]
    return _workload(setting, options, setting.model, layouts).strategy


def _workload(
    setting: SearchSetting, options: SerialOptions, part: ModelGraph, layouts: Iterable[LayerLayout]
) -> Workload:
    """Return the workload of ``part``, which has some or all layers of the model, with a layout per layer."""
    mixed = tuple(layout.of(layer) for layout, layer in zip(layouts, part.layers, strict=True))
    strategy = Strategy(
        setting.gpus, setting.batch, options.microbatches, (0,) * len(mixed), mixed,
        3 * options.sharded, 0.0, options.recompute,
    )  # fmt: skip
    return setting.workload(strategy, part)


def _allowed(setting: SearchSetting, options: SerialOptions, unit: Unit) -> tuple[LayerLayout, ...]:
    """Return the layouts that all layers of ``unit`` may have; raise `InputError` if there are none."""
    part = part_of(setting.model, unit)
    allowed, refused = [], ""
    for layout in layouts_of(part.layers, setting.gpus):
        try:
            check_strategy(part, _workload(setting, options, part, [layout] * len(unit)).strategy)
            allowed.append(layout)
        except InputError as error:
            refused = str(error)
    if not allowed:
        raise InputError(refused)
    return tuple(allowed)


def _memory(workload: Workload) -> UnitMemory:
    layers, precision = workload.model.layers, workload.precision
    each = [layer_memory(workload, n) for n in range(len(layers))]
    parameter = precision.parameter + precision.gradient
    kept = sum(own.parameters * parameter + own.states for own in each)
    saved, again = saved_elements(layers, each, workload.strategy.recompute)
    whole = sorted((own.whole * parameter for own in each), reverse=True)[:2]
    largest, second = [*whole, 0.0][:2]
    return UnitMemory(kept + saved * precision.activation, (largest, second), again * precision.activation)


def chain_units(model: ModelGraph, by_layer: bool = False) -> tuple[Unit, ...]:
    """Group the layers into consecutive units, such that outputs are read only in the same or next unit.

    Units are blocks, or single layers with ``by_layer``. If an output is read further on than in the next
    unit, the reader is joined with the units in between. Every model thus becomes a chain, in the worst case
    of two units.
    """
    atoms = [(n,) for n in range(len(model.layers))] if by_layer else list(model.blocks)
    position = [number for number, atom in enumerate(atoms) for _ in atom]
    # An output of atom i that atom j reads joins atoms i + 1 to j; joining never lengthens an output's path.
    passed = {(position[n], position[taker]) for n, takers in enumerate(model.consumers) for taker in takers}
    joined = {between for first, last in passed for between in range(first + 2, last + 1)}
    units: list[Unit] = []
    for number, atom in enumerate(atoms):
        units.append((units.pop() if number in joined else ()) + tuple(atom))
    return tuple(units)


def is_chain_of_layers(model: ModelGraph) -> bool:
    """Return whether each layer of the model reads only the output of the previous layer."""
    pairs = zip(model.layers, model.layers[1:], strict=False)
    return not model.layers[0].inputs and all(b.inputs == (a.name,) for a, b in pairs)


def boundary(model: ModelGraph, unit: Unit, following: Unit) -> tuple[Unit, Unit]:
    """Return the layers of ``unit`` and of ``following`` on which the time between the two units depends.

    These are the layers of ``unit`` whose outputs ``following`` reads, all readers of these outputs, and the
    readers' other inputs in both units: for experts, the all-to-all depends on all inputs of the layer.
    """
    givers = {n for n in unit if any(consumer in following for consumer in model.consumers[n])}
    takers = {consumer for n in givers for consumer in model.consumers[n]}
    inputs = {model.index[name] for n in takers for name in model.layers[n].inputs}
    chosen = givers | takers | inputs
    return tuple(n for n in unit if n in chosen), tuple(n for n in following if n in chosen)


@dataclass(frozen=True)
class ChainResult:
    """Holds the best strategy of a chain, its serial time in s, and its memory per GPU in bytes."""

    strategy: Strategy
    seconds: float
    memory: float


def best_chain(
    setting: SearchSetting, options: SerialOptions | None = None, memory: float = inf
) -> ChainResult:
    """Return the strategy with the shortest serial time within a memory limit.

    ``options``: microbatches, sharding and recomputation of the strategy, which has one pipeline stage and no
    gradient buckets. ``memory``: limit per GPU in bytes, counted as by `strategy_needs`. If every layer reads
    only the previous one and nothing is recomputed, each layer has its own layout, else each unit of
    `chain_units`. Raises `InputError` if no layout fits the batch or the memory.
    """
    options = options or SerialOptions()
    units = chain_units(setting.model, is_chain_of_layers(setting.model) and not options.recompute)
    costs = chain_costs(setting, options, units)
    path, seconds, held = least_time(costs, memory)
    chosen = [layouts[i] for layouts, i in zip(costs.layouts, path, strict=True)]
    return ChainResult(chain_strategy(setting, options, units, chosen), seconds, held)


def least_time(costs: ChainCosts, memory: float = inf) -> tuple[tuple[int, ...], float, float]:
    """Return the fastest layouts within ``memory`` bytes: number of each unit's layout, time in s, bytes."""
    path = _Relaxed(costs, 1.0, 0.0).path()
    seconds, held = cost_of(costs, path)
    if held <= memory:
        return path, seconds, held
    least = _Relaxed(costs, 0.0, 1.0).least
    fits = least <= memory * (1 + _SLACK)
    label = _labels(costs, memory, *_lagrangian(costs, memory)) if fits else None
    if label is None:
        need = f"no layout fits, at least {least / 1e9:.3g} GB needed a GPU"
        raise InputError(f"memory: {memory / 1e9:.3g} GB given; allowed: more ({need})")
    return label.path(), label.seconds, label.total


def cost_of(costs: ChainCosts, path: Sequence[int]) -> tuple[float, float]:
    """Return the time in s and the memory in bytes of ``path``, a layout number for each unit."""
    seconds = sum(float(own[i]) for own, i in zip(costs.own, path, strict=True))
    pairs = zip(costs.between, path, path[1:], strict=False)
    seconds += sum(float(between[i, j]) for between, i, j in pairs)
    chosen = [each[i] for each, i in zip(costs.memory, path, strict=True)]
    whole = sorted((size for own in chosen for size in own.whole), reverse=True)[:2]
    held = sum(own.kept for own in chosen) + sum(whole) + max(own.again for own in chosen)
    return seconds, held


class _Relaxed:
    """Finds the layouts of all units that minimise a weighted sum of time and memory.

    The sum is ``time`` × (time in s) + ``memory`` × (memory in bytes). Of the memory only `UnitMemory.kept`
    counts, so the minimum is a lower bound. ``to_go[k][i]``: the minimum of the sum over the units after unit
    k, if unit k has layout i.
    """

    def __init__(self, costs: ChainCosts, time: float, memory: float):
        kept = (np.array([own.kept for own in each]) for each in costs.memory)
        self.node = [time * own + memory * held for own, held in zip(costs.own, kept, strict=True)]
        self.edge = [time * between for between in costs.between]
        self.to_go = [np.zeros(len(self.node[-1]))]
        for edge, node in zip(self.edge[::-1], self.node[:0:-1], strict=True):
            self.to_go.insert(0, (edge + node + self.to_go[0]).min(axis=1))

    @property
    def least(self) -> float:
        return float((self.node[0] + self.to_go[0]).min())

    def path(self) -> tuple[int, ...]:
        """Return the layout number of each unit that gives the minimum; of several equal, the first."""
        state = int((self.node[0] + self.to_go[0]).argmin())
        result = [state]
        for k, edge in enumerate(self.edge):
            state = int((edge[state] + self.node[k + 1] + self.to_go[k + 1]).argmin())
            result.append(state)
        return tuple(result)


def _lagrangian(costs: ChainCosts, memory: float) -> tuple[float, float]:
    """Return a Lagrange multiplier in s per byte, and the time in s of layouts that fit in ``memory`` bytes.

    The multiplier is, of those tried, the one that gives the largest lower bound of the time. The time is the
    shortest of all layouts found that fit; inf if none was found.
    """
    low, high = 0.0, _Relaxed(costs, 1.0, 0.0).least / memory if memory > 0 else 1.0
    best, bound, multiplier, growing = inf, -inf, 0.0, True
    for _ in range(_STEPS):
        middle = high if growing else (low + high) / 2
        relaxed = _Relaxed(costs, 1.0, middle)
        seconds, held = cost_of(costs, relaxed.path())
        if relaxed.least - middle * memory > bound:
            bound, multiplier = relaxed.least - middle * memory, middle
        if held <= memory:
            best, high, growing = min(best, seconds), middle, False
        else:
            low, high = middle, high * 8 if growing else high
    return multiplier, best


class _Label(NamedTuple):
    """A partial solution: a choice of layouts for the first units of a chain, and their time and memory.

    ``layout``: layout number of the last of these units. ``before``: the label of the units before it. In the
    first five fields smaller is better.
    """

    seconds: float
    kept: float
    first: float  # the largest two of `UnitMemory.whole`
    second: float
    again: float
    layout: int
    before: "_Label | None"

    @property
    def total(self) -> float:
        return self.kept + self.first + self.second + self.again

    def path(self) -> tuple[int, ...]:
        """Return the layout number of each unit, from the first to the last."""
        label, result = self, [self.layout]
        while label.before is not None:
            label = label.before
            result.append(label.layout)
        return tuple(reversed(result))


def _labels(costs: ChainCosts, memory: float, multiplier: float, most: float) -> _Label | None:
    """Return the fastest layouts of all units that fit in ``memory`` bytes; None if none fits.

    ``multiplier``: a Lagrange multiplier in s per byte, which gives lower bounds. ``most``: a time in s that
    is known to be reached, or inf. Both exclude partial solutions early.
    """
    limit, latest = memory * (1 + _SLACK), most * (1 + _SLACK)
    fast, light = _Relaxed(costs, 1.0, 0.0), _Relaxed(costs, 0.0, 1.0)
    mixed = _Relaxed(costs, 1.0, multiplier)
    start = _Label(0.0, 0.0, 0.0, 0.0, 0.0, -1, None)
    fronts: list[list[_Label]] = [[start]]
    for k in range(len(costs.units)):
        fronts_next = []
        for j, own in enumerate(costs.memory[k]):
            node = float(costs.own[k][j])
            grown = []
            for label in (label for front in fronts for label in front):
                edge = float(costs.between[k - 1][label.layout, j]) if k else 0.0
                first, second = sorted((label.first, label.second, *own.whole), reverse=True)[:2]
                again, before = max(label.again, own.again), label if k else None
                new = _Label(
                    label.seconds + edge + node, label.kept + own.kept, first, second, again, j, before
                )
                priced = new.seconds + multiplier * (new.kept - memory) + mixed.to_go[k][j]
                if (
                    new.total + light.to_go[k][j] <= limit
                    and new.seconds + fast.to_go[k][j] <= latest
                    and priced <= latest
                ):
                    grown.append(new)
            fronts_next.append(_pareto(grown))
        fronts = fronts_next
    return min([label for front in fronts for label in front], key=lambda label: label[:5], default=None)


def _pareto(labels: Iterable[_Label]) -> list[_Label]:
    """Return the labels that are Pareto-optimal in time and memory; of equal labels, only the first."""
    front: list[_Label] = []
    for label in sorted(labels, key=lambda label: label[:5]):
        # Labels are sorted by time, so only the memory has to be compared.
        if not any(all(a <= b for a, b in zip(other[1:5], label[1:5], strict=True)) for other in front):
            front.append(label)
    return front
