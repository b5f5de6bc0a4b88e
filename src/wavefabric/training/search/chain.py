"""Exact dynamic program: the layouts of a chain with the least serial time under a memory limit.

For which cost it is exact: one pipeline stage, a call of its own for each layer's gradients (``bucket`` 0),
and nothing overlapped (`serial_seconds`). Then time is a sum over units and pairs of neighbours
(`chain_costs`), whatever the number of microbatches, sharding or recomputation, which are given. Units are
those of `chain_units`, with one layout each. Overlapped execution hides communication: of the same strategy
it takes no longer, so that the serial time is an upper bound, but another strategy may then be better. The
program's serves as a start for the Markov chain.

Without a limit this is Viterbi's algorithm. With one, it is the shortest path with a constraint: each state
keeps its Pareto front of time and memory (Joksch 1966, doi:10.1016/0022-247X(66)90020-5), and a Lagrangian
relaxation gives bounds by which labels are dropped that no best solution can begin with (Handler and Zang
1980, doi:10.1002/net.3230100403).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import inf
from typing import NamedTuple

import numpy as np

from wavefabric.errors import InputError
from wavefabric.training.gpu.device_model import DeviceModel
from wavefabric.training.gpu.precision import Precision
from wavefabric.training.iteration.engine import CallTimes
from wavefabric.training.iteration.memory import layer_memory, saved_elements
from wavefabric.training.iteration.tasks import Workload, build_tasks
from wavefabric.training.models.graph import ModelGraph, part_of
from wavefabric.training.strategies.strategy import LayerLayout, Strategy, check_strategy, layouts_of

#: Rounding that bounds allow for.
_SLACK = 1e-12
#: Steps in which the Lagrangian multiplier is found.
_STEPS = 40
Unit = tuple[int, ...]


@dataclass(frozen=True)
class SearchSetting:
    """What all strategies of one search have in common."""

    model: ModelGraph
    gpus: int
    batch: int
    device: DeviceModel
    precision: Precision
    fabric: CallTimes

    def workload(self, strategy: Strategy, part: ModelGraph | None = None) -> Workload:
        """What is simulated, of the model or of a part of it."""
        return Workload(part or self.model, strategy, self.device, self.precision)


@dataclass(frozen=True)
class SerialOptions:
    """Of a strategy of one stage and no buckets, beside its layouts."""

    microbatches: int = 1
    sharded: bool = False
    recompute: bool = False


class UnitMemory(NamedTuple):
    """B of a unit on one GPU: ``kept`` adds up over units; of the others the largest of all count.

    ``whole``: the two largest layers while their parameters are gathered; ``again``: activations of the
    largest block while they are computed again.
    """

    kept: float
    whole: tuple[float, float]
    again: float


@dataclass(frozen=True)
class ChainCosts:
    """``own[k][i]``: s of unit k in layout i of ``layouts[k]``; ``between[k][i, j]``: what is added when unit
    k + 1 has layout j; inf: not allowed. ``memory[k][i]``: B of it."""

    units: tuple[Unit, ...]
    layouts: tuple[tuple[LayerLayout, ...], ...]
    own: tuple[np.ndarray, ...]
    between: tuple[np.ndarray, ...]
    memory: tuple[tuple[UnitMemory, ...], ...]


def chain_costs(setting: SearchSetting, options: SerialOptions, units: tuple[Unit, ...]) -> ChainCosts:
    """Costs of all layouts of a chain.

    A unit's own time is the serial time of its layers as a model of their own. What a pair adds is the serial
    time of the layers of their `boundary` as one model, less those of each unit alone. Since outputs go no
    further than to the next unit, and each layer's gradients have a call of their own, the serial time of the
    model is the sum of these.
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
    """Time of an iteration with nothing overlapped, s: all compute tasks and all calls, each call alone.

    Of one stage no other order takes longer: whatever the policy, something runs at every moment.
    """
    graph = build_tasks(workload)
    return sum(graph.seconds) + sum(fabric.seconds([call]) for call in graph.call if call is not None)


def chain_strategy(
    setting: SearchSetting, options: SerialOptions, units: Sequence[Unit], chosen: Sequence[LayerLayout]
) -> Strategy:
    """The strategy in which each unit has the layout chosen for it."""
    layouts = [layout for unit, layout in zip(units, chosen, strict=True) for _ in unit]
    return _workload(setting, options, setting.model, layouts).strategy


def _workload(
    setting: SearchSetting, options: SerialOptions, part: ModelGraph, layouts: Iterable[LayerLayout]
) -> Workload:
    """Some layers as a model of their own, each with its layout."""
    mixed = tuple(layout.of(layer) for layout, layer in zip(layouts, part.layers, strict=True))
    strategy = Strategy(
        setting.gpus, setting.batch, options.microbatches, (0,) * len(mixed), mixed,
        3 * options.sharded, 0.0, options.recompute,
    )  # fmt: skip
    return setting.workload(strategy, part)


def _allowed(setting: SearchSetting, options: SerialOptions, unit: Unit) -> tuple[LayerLayout, ...]:
    """Layouts in which a unit can be."""
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
    """Consecutive layers, by number, such that outputs go no further than to the next unit.

    Units are blocks, or single layers with ``by_layer``; those that an output passes over are joined with
    the one that takes it, so that any model is a chain, of one unit at worst.
    """
    atoms = [(n,) for n in range(len(model.layers))] if by_layer else list(model.blocks)
    position = [number for number, atom in enumerate(atoms) for _ in atom]
    # An output of atom i that atom j takes joins atoms i + 1 to j; joining moves no output further.
    passed = {(position[n], position[taker]) for n, takers in enumerate(model.consumers) for taker in takers}
    joined = {between for first, last in passed for between in range(first + 2, last + 1)}
    units: list[Unit] = []
    for number, atom in enumerate(atoms):
        units.append((units.pop() if number in joined else ()) + tuple(atom))
    return tuple(units)


def is_chain_of_layers(model: ModelGraph) -> bool:
    """Whether each layer takes the output of the one before alone."""
    pairs = zip(model.layers, model.layers[1:], strict=False)
    return not model.layers[0].inputs and all(b.inputs == (a.name,) for a, b in pairs)


def boundary(model: ModelGraph, unit: Unit, following: Unit) -> tuple[Unit, Unit]:
    """Layers of a unit whose outputs the next one takes; all that take these, with their other inputs there.

    Experts with no input of their own unit are sent the model's input, so that these inputs count.
    """
    givers = {n for n in unit if any(consumer in following for consumer in model.consumers[n])}
    takers = {consumer for n in givers for consumer in model.consumers[n]}
    inputs = {model.index[name] for n in takers for name in model.layers[n].inputs}
    chosen = givers | takers | inputs
    return tuple(n for n in unit if n in chosen), tuple(n for n in following if n in chosen)


@dataclass(frozen=True)
class ChainResult:
    """The best strategy of a chain, its serial time in s, and B on one GPU."""

    strategy: Strategy
    seconds: float
    memory: float


def best_chain(
    setting: SearchSetting, options: SerialOptions | None = None, memory: float = inf
) -> ChainResult:
    """The layouts with the least serial time of those whose memory is within a limit.

    ``options``: microbatches, sharding, recomputation; all strategies have one stage and no buckets.
    ``memory``: B that a GPU may hold, as `strategy_needs` counts them. Each layer of a chain of layers has a
    layout, without recomputation, which is of blocks; else each block. `InputError` if no layout fits the
    batch, or none the memory.
    """
    options = options or SerialOptions()
    units = chain_units(setting.model, is_chain_of_layers(setting.model) and not options.recompute)
    costs = chain_costs(setting, options, units)
    path, seconds, held = least_time(costs, memory)
    chosen = [layouts[i] for layouts, i in zip(costs.layouts, path, strict=True)]
    return ChainResult(chain_strategy(setting, options, units, chosen), seconds, held)


def least_time(costs: ChainCosts, memory: float = inf) -> tuple[tuple[int, ...], float, float]:
    """The layout of each unit by number, s, and B, of the best that the memory allows; see `best_chain`."""
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
    """s and B of a choice of layouts, by number for each unit."""
    seconds = sum(float(own[i]) for own, i in zip(costs.own, path, strict=True))
    pairs = zip(costs.between, path, path[1:], strict=False)
    seconds += sum(float(between[i, j]) for between, i, j in pairs)
    chosen = [each[i] for each, i in zip(costs.memory, path, strict=True)]
    whole = sorted((size for own in chosen for size in own.whole), reverse=True)[:2]
    held = sum(own.kept for own in chosen) + sum(whole) + max(own.again for own in chosen)
    return seconds, held


class _Relaxed:
    """Least sum of weighted time and kept memory from each state to the end, shape (layouts,) for each unit.

    ``to_go`` is without the state's own. The other memory is left out, so that the sum bounds from below.
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
        """The states of the least sum; the first of equals."""
        state = int((self.node[0] + self.to_go[0]).argmin())
        result = [state]
        for k, edge in enumerate(self.edge):
            state = int((edge[state] + self.node[k + 1] + self.to_go[k + 1]).argmin())
            result.append(state)
        return tuple(result)


def _lagrangian(costs: ChainCosts, memory: float) -> tuple[float, float]:
    """s a byte at which the relaxed time is bounded best, and s of the best path found that fits."""
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
    """A choice of layouts up to a unit; smaller in all of the first five is better."""

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
        """Layouts of all units."""
        label, result = self, [self.layout]
        while label.before is not None:
            label = label.before
            result.append(label.layout)
        return tuple(reversed(result))


def _labels(costs: ChainCosts, memory: float, multiplier: float, most: float) -> _Label | None:
    """The best label at the end whose memory fits; ``most``: s that some solution is known to take."""
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
    """Labels that no other is at least as good as in everything; the first of equals."""
    front: list[_Label] = []
    for label in sorted(labels, key=lambda label: label[:5]):
        # Earlier ones took no longer: only their memory is to be compared.
        if not any(all(a <= b for a, b in zip(other[1:5], label[1:5], strict=True)) for other in front):
            front.append(label)
    return front
