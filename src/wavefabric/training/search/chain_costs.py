"""Costs of a chain of units by their layouts: time of each unit, of each pair of neighbours, memory.

A model is such a chain (`chain_units`): layers give their outputs to their own unit or the next.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from math import gcd
from typing import NamedTuple

import numpy as np

from wavefabric.errors import InputError
from wavefabric.training.gpu.device_model import DeviceModel
from wavefabric.training.gpu.precision import Precision
from wavefabric.training.iteration.engine import CallTimes
from wavefabric.training.iteration.memory import layer_memory, saved_elements
from wavefabric.training.iteration.tasks import Workload, build_tasks
from wavefabric.training.models.graph import Layer, ModelGraph
from wavefabric.training.strategies.strategy import LayerLayout, Strategy, check_strategy

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


def part_of(model: ModelGraph, numbers: Sequence[int]) -> ModelGraph:
    """Some layers as a model of their own, with plain names: equal parts of a model are equal.

    What they take from other layers is given to them like the model's input.
    """
    names = {model.layers[n].name: str(position) for position, n in enumerate(numbers)}
    # Blocks of one name that are apart stay two when what is between them is left out.
    block_of = {n: number for number, block in enumerate(model.blocks) for n in block}
    blocks: dict[int, str] = {}
    layers = []
    for n in numbers:
        layer = model.layers[n]
        inputs = tuple(names[name] for name in layer.inputs if name in names)
        block = blocks.setdefault(block_of[n], str(len(blocks))) if layer.block else ""
        layers.append(replace(layer, name=names[layer.name], inputs=inputs, block=block))
    return ModelGraph("part", tuple(layers), optimizer=model.optimizer)


def layouts_of(layers: Sequence[Layer], gpus: int) -> list[LayerLayout]:
    """Layouts of so many GPUs that some layers may have together: data, tensor and expert degrees."""
    experts = gcd(*(layer.experts for layer in layers))
    return [
        LayerLayout(gpus // tensor, tensor, expert)
        for tensor in divisors(gpus)
        for expert in (divisors(gcd(experts, gpus // tensor)) if experts else (1,))
    ]


def divisors(number: int) -> list[int]:
    """All of them, the least first."""
    small = [n for n in range(1, int(number**0.5) + 1) if number % n == 0]
    return sorted({*small, *(number // n for n in small)})
