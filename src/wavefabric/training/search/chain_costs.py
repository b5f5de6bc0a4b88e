"""Costs of a chain of units by their layouts: time of each unit, of each pair of neighbours, memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

import numpy as np

from wavefabric.errors import InputError
from wavefabric.training.gpu.device_model import DeviceModel
from wavefabric.training.gpu.precision import Precision
from wavefabric.training.iteration.engine import CallTimes
from wavefabric.training.iteration.memory import LayerMemory, memory_of_layer
from wavefabric.training.iteration.tasks import Workload
from wavefabric.training.models.graph import ModelGraph
from wavefabric.training.search.serial import serial_seconds
from wavefabric.training.search.units import Unit, boundary, for_layer, layouts_of, part_of
from wavefabric.training.strategies.strategy import LayerLayout, Strategy, check_strategy


@dataclass(frozen=True)
class SearchSetting:
    """What all strategies of one search have in common."""

    model: ModelGraph
    gpus: int
    batch: int
    device: DeviceModel
    precision: Precision
    fabric: CallTimes


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
    time = lru_cache(maxsize=None)(lambda part, mixed: _serial(setting, options, part, mixed))
    parts = [part_of(model, unit) for unit in units]
    own = [
        np.array([time(part, _mixed(part, [(len(part.layers), layout)])) for layout in mine])
        for part, mine in zip(parts, layouts, strict=True)
    ]
    between = []
    for k in range(len(units) - 1):
        first, second = boundary(model, units[k], units[k + 1])
        added = np.zeros((len(layouts[k]), len(layouts[k + 1])))
        between.append(added)
        if not first:
            continue
        pair, sizes = part_of(model, first + second), (len(first), len(second))
        alone = part_of(model, first), part_of(model, second)
        for i, one in enumerate(layouts[k]):
            for j, other in enumerate(layouts[k + 1]):
                both = time(pair, _mixed(pair, list(zip(sizes, (one, other), strict=True))))
                for part, size, layout in zip(alone, sizes, (one, other), strict=True):
                    both -= time(part, _mixed(part, [(size, layout)]))
                added[i, j] = both
    memory = tuple(
        tuple(_memory(setting, options, part, layout) for layout in mine)
        for part, mine in zip(parts, layouts, strict=True)
    )
    return ChainCosts(units, layouts, tuple(own), tuple(between), memory)


def chain_strategy(
    setting: SearchSetting, options: SerialOptions, units: Sequence[Unit], chosen: Sequence[LayerLayout]
) -> Strategy:
    """The strategy in which each unit has the layout chosen for it."""
    sizes = [(len(unit), layout) for unit, layout in zip(units, chosen, strict=True)]
    return _strategy(setting, options, _mixed(setting.model, sizes))


def _mixed(model: ModelGraph, sizes: Sequence[tuple[int, LayerLayout]]) -> tuple[LayerLayout, ...]:
    """A layout for each layer, from numbers of consecutive layers and their layout."""
    spread = [layout for count, layout in sizes for _ in range(count)]
    return tuple(for_layer(layout, layer) for layout, layer in zip(spread, model.layers, strict=True))


def _strategy(setting: SearchSetting, options: SerialOptions, layouts: tuple[LayerLayout, ...]) -> Strategy:
    return Strategy(
        setting.gpus, setting.batch, options.microbatches, (0,) * len(layouts), layouts,
        options.sharded, 0.0, options.recompute,
    )  # fmt: skip


def _workload(
    setting: SearchSetting, options: SerialOptions, part: ModelGraph, layouts: tuple[LayerLayout, ...]
) -> Workload:
    return Workload(part, _strategy(setting, options, layouts), setting.device, setting.precision)


def _serial(
    setting: SearchSetting, options: SerialOptions, part: ModelGraph, layouts: tuple[LayerLayout, ...]
) -> float:
    return serial_seconds(_workload(setting, options, part, layouts), setting.fabric)


def _allowed(setting: SearchSetting, options: SerialOptions, unit: Unit) -> tuple[LayerLayout, ...]:
    """Layouts in which a unit can be."""
    part = part_of(setting.model, unit)
    found, refused = [], ""
    for layout in layouts_of(part.layers, setting.gpus):
        try:
            mixed = _mixed(part, [(len(unit), layout)])
            check_strategy(part, _strategy(setting, options, mixed))
            found.append(layout)
        except InputError as error:
            refused = str(error)
    if not found:
        raise InputError(refused)
    return tuple(found)


def _memory(
    setting: SearchSetting, options: SerialOptions, part: ModelGraph, layout: LayerLayout
) -> UnitMemory:
    workload = _workload(setting, options, part, _mixed(part, [(len(part.layers), layout)]))
    each = [memory_of_layer(workload, n) for n in range(len(part.layers))]
    precision = setting.precision
    parameter = precision.parameter + precision.gradient
    kept = sum(own.parameters * parameter + own.states for own in each)
    saved, again = _activations(part, each, options.recompute)
    whole = sorted((own.whole * parameter for own in each), reverse=True)[:2]
    largest, second = [*whole, 0.0][:2]
    return UnitMemory(kept + saved * precision.activation, (largest, second), again * precision.activation)


def _activations(part: ModelGraph, each: Sequence[LayerMemory], recompute: bool) -> tuple[float, float]:
    """Elements kept, and those of the largest block that are computed again."""
    if not recompute:
        return sum(own.saved for own in each), 0.0
    kept = again = 0.0
    for _, block in groupby(range(len(each)), key=lambda n: part.layers[n].block or n):
        saved = [each[n].saved for n in block]
        kept, again = kept + saved[0], max(again, sum(saved[1:]))
    return kept, again
