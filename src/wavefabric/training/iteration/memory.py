"""Bytes that training needs on one GPU: parameters, gradients, optimizer states, saved activations."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from wavefabric.errors import InputError
from wavefabric.training.gpu.work import optimizer_states, parameters_held
from wavefabric.training.iteration.tasks import Workload
from wavefabric.training.models.graph import Layer, blocks_of
from wavefabric.units import three_digits


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

    @property
    def parts(self) -> str:
        """Each of them in GB, those that there are."""
        return ", ".join(f"{name} {three_digits(value / 1e9)}" for name, value in vars(self).items() if value)


class LayerMemory(NamedTuple):
    """One layer on one GPU: elements that it keeps, by what they are; `strategy_needs` makes bytes of them.

    ``parameters``: kept at all times, the GPU's part of those that are sharded. ``whole``: what is gathered
    besides while the layer is used. ``states``: B of optimizer states, and the copy in fp32. ``saved``: of
    activations, of one microbatch.
    """

    parameters: float
    whole: float
    states: float
    saved: float


def layer_memory(workload: Workload, number: int) -> LayerMemory:
    """What one GPU keeps of a layer, of a microbatch.

    Saved activations are taken to be the layer's input: whole of ``column``, divided of ``row`` and
    ``local``. Sharded parameters, gradients and optimizer states are divided among the GPUs that have the
    same ones (ZeRO's stage 3, arXiv:1910.02054). `InputError` for an unknown optimizer.
    """
    layer, layout = workload.model.layers[number], workload.strategy.layouts[number]
    own, sharing = parameters_held(layer, layout.tensor, layout.expert), workload.sharing(number)
    states = 4 * optimizer_states(workload.model.optimizer) + workload.precision.master
    divided = layout.tensor if layer.split in ("row", "local") else 1
    saved = layer.saved * workload.strategy.samples(number) / divided
    return LayerMemory(own / sharing, own * (1 - 1 / sharing), own / sharing * states, saved)


def saved_elements(
    layers: Sequence[Layer], each: Sequence[LayerMemory], recompute: bool
) -> tuple[float, float]:
    """Elements of activations kept of each microbatch, and those of one block that are computed again.

    With ``recompute`` only the input of each block is kept, that is what its first layer saves, and one
    block's other activations at a time; layers without a block keep theirs.
    """
    if not recompute:
        return sum(own.saved for own in each), 0.0
    kept = again = 0.0
    for block in blocks_of(layers, range(len(layers))):
        saved = [each[n].saved for n in block]
        kept, again = kept + saved[0], max(again, sum(saved[1:]))
    return kept, again


def strategy_needs(workload: Workload) -> tuple[MemoryNeed, ...]:
    """What one GPU of each pipeline stage holds.

    The largest two of sharded layers are whole at a time, one used and the next gathered. Of 1F1B stage s of
    p keeps activations of up to p − s microbatches at the same time (PipeDream-Flush, arXiv:2006.09503).
    """
    strategy, precision = workload.strategy, workload.precision
    needs = []
    for stage in range(strategy.stages):
        numbers = strategy.layers_of(stage)
        each = [layer_memory(workload, n) for n in numbers]
        held = sum(own.parameters for own in each) + sum(sorted(own.whole for own in each)[-2:])
        in_flight = min(strategy.stages - stage, strategy.microbatches)
        kept, again = saved_elements([workload.model.layers[n] for n in numbers], each, strategy.recompute)
        states, activations = sum(own.states for own in each), kept * in_flight + again
        sizes = held * precision.parameter, held * precision.gradient, states
        needs.append(MemoryNeed(*sizes, activations * precision.activation))
    return tuple(needs)


def strategy_memory(workload: Workload) -> np.ndarray:
    """B that one GPU of each pipeline stage holds, shape (stages,)."""
    return np.array([need.total for need in strategy_needs(workload)])


def check_memory(need: MemoryNeed, allowed: float, where: str = "memory") -> None:
    """Refuse what does not fit; ``allowed`` in B, ``where`` begins the line of the `InputError`."""
    if need.total <= allowed:
        return
    raise InputError(f"{where}: {three_digits(need.total / 1e9)} GB needed a GPU ({need.parts}); "
                     f"allowed: up to {three_digits(allowed / 1e9)} GB")  # fmt: skip
