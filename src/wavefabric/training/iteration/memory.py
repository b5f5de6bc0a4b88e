"""Bytes that training needs on one GPU: parameters, gradients, optimizer states, saved activations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from wavefabric.errors import InputError
from wavefabric.training.gpu.precision import Precision
from wavefabric.training.gpu.work import optimizer_states, parameters_held
from wavefabric.training.models.graph import Layer
from wavefabric.units import three_digits

if TYPE_CHECKING:
    from wavefabric.training.iteration.tasks import Workload


@dataclass(frozen=True)
class MemoryNeed:
    """Bytes on one GPU. ``states`` are the optimizer's, with the copy of the parameters in fp32."""

    parameters: float = 0.0
    gradients: float = 0.0
    states: float = 0.0
    activations: float = 0.0

    @property
    def total(self) -> float:
        """All of them."""
        return self.parameters + self.gradients + self.states + self.activations

    def __add__(self, other: MemoryNeed) -> MemoryNeed:
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return MemoryNeed(*(a + b for a, b in pairs))


class LayerMemory(NamedTuple):
    """One layer on one GPU: elements that it keeps, by what they are; `stage_memory` makes bytes of them.

    ``parameters``: kept at all times, the GPU's part of those that are sharded. ``whole``: what is gathered
    besides while the layer is used. ``states``: B of optimizer states, and the copy in fp32. ``saved``: of
    activations, of one microbatch.
    """

    parameters: float
    whole: float
    states: float
    saved: float


def layer_memory(
    layer: Layer,
    samples: float,
    tensor: int,
    precision: Precision,
    optimizer: str,
    sharded: int = 1,
    experts: int = 1,
) -> LayerMemory:
    """What one GPU keeps of a layer, of a microbatch of so many samples.

    ``tensor`` and ``experts`` as of `gpu.work.forward_work`. Saved activations are taken to be the layer's
    input: whole of ``column``, divided of ``row`` and ``local``. ``sharded`` GPUs divide parameters,
    gradients and optimizer states among them (ZeRO's stage 3, arXiv:1910.02054). `InputError` for an unknown
    optimizer.
    """
    own = parameters_held(layer, tensor, experts)
    states = 4 * optimizer_states(optimizer) + precision.master
    saved = layer.saved * samples / (tensor if layer.split in ("row", "local") else 1)
    return LayerMemory(own / sharded, own * (1 - 1 / sharded), own / sharded * states, saved)


def stage_memory(
    layers: Sequence[Layer],
    each: Sequence[LayerMemory],
    in_flight: int,
    precision: Precision,
    recompute: bool = False,
) -> MemoryNeed:
    """What one GPU holds for the layers of its pipeline stage, each with its own numbers.

    The largest two of sharded layers are whole at a time, one used and the next gathered. Activations of
    ``in_flight`` microbatches are kept at the same time; of 1F1B on stage s of p, up to p − s
    (PipeDream-Flush, arXiv:2006.09503). With ``recompute`` only the input of each block is kept, that is what
    its first layer saves, and one block's other activations at a time; layers without a block keep theirs.
    """
    held = sum(own.parameters for own in each) + sum(sorted(own.whole for own in each)[-2:])
    return MemoryNeed(
        parameters=held * precision.parameter,
        gradients=held * precision.gradient,
        states=sum(own.states for own in each),
        activations=_kept(layers, each, in_flight, recompute) * precision.activation,
    )


def _kept(layers: Sequence[Layer], each: Sequence[LayerMemory], in_flight: int, recompute: bool) -> float:
    """Elements of activations that are kept."""
    if not recompute:
        return sum(own.saved for own in each) * in_flight
    kept = largest = 0.0
    for _, members in groupby(range(len(layers)), key=lambda i: layers[i].block or i):
        saved = [each[i].saved for i in members]
        kept += saved[0]
        largest = max(largest, sum(saved[1:]))
    return kept * in_flight + largest


def strategy_needs(workload: Workload) -> tuple[MemoryNeed, ...]:
    """What one GPU of each pipeline stage holds; stage s of p keeps min(p − s, microbatches) microbatches."""
    model, strategy = workload.model, workload.strategy
    needs = []
    for stage in range(strategy.stages):
        numbers = [n for n, own in enumerate(strategy.stage) if own == stage]
        each = [memory_of_layer(workload, n) for n in numbers]
        in_flight = min(strategy.stages - stage, strategy.microbatches)
        layers = [model.layers[n] for n in numbers]
        needs.append(stage_memory(layers, each, in_flight, workload.precision, strategy.recompute))
    return tuple(needs)


def memory_of_layer(workload: Workload, number: int) -> LayerMemory:
    """What one GPU keeps of a layer under a strategy."""
    layer, layout = workload.model.layers[number], workload.strategy.layouts[number]
    expert = layout.expert if layer.experts else 1
    sharded = layout.data // expert if workload.strategy.sharded else 1
    samples = workload.strategy.samples(number)
    optimizer = workload.model.optimizer
    return layer_memory(layer, samples, layout.tensor, workload.precision, optimizer, sharded, expert)


def strategy_memory(workload: Workload) -> np.ndarray:
    """B that one GPU of each pipeline stage holds, shape (stages,)."""
    return np.array([need.total for need in strategy_needs(workload)])


def check_memory(need: MemoryNeed, allowed: float, where: str = "memory") -> None:
    """Refuse what does not fit; ``allowed`` in B, ``where`` begins the line.

    Raises
    ------
    InputError
        With what is needed and what is allowed.
    """
    if need.total <= allowed:
        return
    parts = ", ".join(f"{name} {three_digits(value / 1e9)}" for name, value in vars(need).items() if value)
    raise InputError(f"{where}: {three_digits(need.total / 1e9)} GB needed a GPU ({parts}); "
                     f"allowed: up to {three_digits(allowed / 1e9)} GB")  # fmt: skip
