"""Compute the memory that training needs per GPU: parameters, gradients, optimizer states, activations."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any, NamedTuple

from wavefabric.base.errors import InputError
from wavefabric.base.units import significant
from wavefabric.collectives.sizes import MOST_RANKS
from wavefabric.training.gpu.work import optimizer_states, parameters_held
from wavefabric.training.iteration.quantisation import Quantisation
from wavefabric.training.iteration.tasks import FORWARD, pipeline_order
from wavefabric.training.iteration.workload import Workload
from wavefabric.training.models.graph import Layer, blocks_of
from wavefabric.training.strategies.strategy import Strategy, check_strategy, uniform


@dataclass(frozen=True)
class MemoryNeed:
    """Memory needed per GPU, in bytes; ``states``: optimizer states and the fp32 copy of parameters."""

    parameters: float = 0.0
    gradients: float = 0.0
    states: float = 0.0
    activations: float = 0.0

    @property
    def total(self) -> float:
        """Return the sum of all kinds of memory, in bytes."""
        return self.parameters + self.gradients + self.states + self.activations

    @property
    def parts(self) -> str:
        """Return the memory in GB by kind, as text; kinds that are zero are left out."""
        return ", ".join(f"{name} {significant(value / 1e9)}" for name, value in vars(self).items() if value)


class LayerMemory(NamedTuple):
    """Memory of one layer on one GPU, in elements (``states``: in bytes).

    ``parameters``, ``gradients``: numbers stored permanently; with sharding, those of the GPU's part.
    ``whole``: additional parameters, gathered while the layer is used. ``unreduced``: additional gradients,
    stored until they are reduced. ``states``: bytes of optimizer states and the fp32 copy of parameters.
    ``saved``: activations stored per microbatch. ``again``: activations that selective recomputation computes
    again, per microbatch, and keys and values of other GPUs (context parallelism).
    """

    parameters: float
    gradients: float
    whole: float
    unreduced: float
    states: float
    saved: float
    again: float = 0.0


def layer_memory(workload: Workload, number: int) -> LayerMemory:
    """Return the memory of layer ``number`` on one GPU, for one microbatch.

    Saved activations are assumed to be the layer's input. Tensor parallelism divides the input of layers
    whose `Layer.split` is ``row`` or ``local``. Sequence parallelism divides the input of ``column`` layers
    too, and of layers without split that have positions (`Layer.along`). The stage of ZeRO says which of
    parameters, gradients and optimizer states are divided among the GPUs that have the same parameters
    (arXiv:1910.02054, figure 1). Raises `InputError` for an unknown optimizer.
    """
    strategy, layer = workload.strategy, workload.model.layers[number]
    layout = strategy.layouts[number]
    own = parameters_held(layer, layout.tensor, layout.expert)
    parameters, gradients, shard = (own / workload.sharing(number, stage) for stage in (3, 2, 1))
    states = 4 * optimizer_states(workload.model.optimizer) + workload.precision.master
    along = strategy.sequence and (layer.along or layer.split == "column")
    divided = layout.tensor if along or layer.split in ("row", "local") else 1
    per_element = strategy.samples(number) / divided
    again = layer.again or 0.0 if strategy.selective else 0.0
    # Inputs of products are stored as their operands, of 8 bits in some precisions.
    quantisation = Quantisation(workload.model, strategy, workload.precision)
    operands = quantisation.operands[number] or 0.0
    kept = layer.saved - again - min(layer.saved, operands) + operands * quantisation.ratio([number])
    kept *= per_element
    # Keys and values of the other GPUs: all of them, or the two that are in use and on their way.
    others = min(strategy.context - 1, 2 if strategy.ring else strategy.context)
    again = (again + others * layer.keys_values) * per_element
    return LayerMemory(parameters, gradients, own - parameters, own - gradients, shard * states, kept, again)


def saved_elements(
    layers: Sequence[Layer], each: Sequence[LayerMemory], recompute: bool
) -> tuple[float, float]:
    """Return how many activation elements are stored per microbatch, and how many recomputed at one time.

    ``each``: the memory of each layer. With ``recompute``, the first layer of each block stores activations,
    and the others do not. Blocks are recomputed one at a time, so the second number is that of the largest
    block; activations of selective recomputation are included. Layers without a block store all activations.
    """
    kept = again = 0.0
    for block in blocks_of(layers, range(len(layers))):
        saved, more = [each[n].saved for n in block], sum(each[n].again for n in block)
        kept += saved[0] if recompute else sum(saved)
        again = max(again, more + (sum(saved[1:]) if recompute else 0.0))
    return kept, again


def strategy_needs(workload: Workload) -> tuple[MemoryNeed, ...]:
    """Return the memory needed by one GPU of each pipeline stage.

    With sharding, the two largest layers are counted whole: one in use, the next one gathered. Activations
    are stored from a microbatch's forward pass to its backward pass. With the 1F1B schedule, stage s of p
    stores those of up to p − s microbatches at once (PipeDream-Flush, arXiv:2006.09503). With interleaving,
    the maximum over the stage's passes is counted (`pipeline_order`).
    """
    strategy, precision = workload.strategy, workload.precision
    needs = []
    for stage in range(strategy.stages):
        kept, again, each = {}, 0.0, []
        for chunk in strategy.chunks_of(stage):
            numbers = strategy.layers_of(chunk)
            own = [layer_memory(workload, n) for n in numbers]
            layers = [workload.model.layers[n] for n in numbers]
            kept[chunk], once_more = saved_elements(layers, own, strategy.recompute)
            each, again = each + own, max(again, once_more)
        held = [
            sum(getattr(own, kind) for own in each) + sum(sorted(getattr(own, more) for own in each)[-2:])
            for kind, more in (("parameters", "whole"), ("gradients", "unreduced"))
        ]
        in_flight = most = 0.0
        # Fewer than (v + 1)p passes run ahead, then the order repeats: 4p microbatches reach the maximum.
        few = min(strategy.microbatches, 4 * strategy.stages)
        for direction, _, chunk in pipeline_order(stage, strategy, few):
            in_flight += kept[chunk] if direction == FORWARD else -kept[chunk]
            most = max(most, in_flight)
        sizes = held[0] * precision.parameter, held[1] * precision.gradient, sum(own.states for own in each)
        needs.append(MemoryNeed(*sizes, (most + again) * precision.activation))
    return tuple(needs)


def check_memory(
    need: MemoryNeed, allowed: float, where: str = "memory", workload: Workload | None = None
) -> None:
    """Raise `InputError` if ``need`` exceeds ``allowed`` bytes; ``where`` begins the message.

    With ``workload``, the message says which changes would make the workload fit.
    """
    if need.total <= allowed:
        return
    advice = "" if workload is None else f"; {_advice(workload, allowed)}, or with --strategy search"
    raise InputError(f"{where}: {_gigabytes(need)} needed per GPU ({need.parts}); "
                     f"allowed: up to {significant(allowed / 1e9)} GB{advice}")  # fmt: skip


def largest_need(workload: Workload) -> MemoryNeed:
    """Return the memory needed by a GPU of the pipeline stage that needs the most."""
    return max(strategy_needs(workload), key=lambda need: need.total)


def _advice(workload: Workload, allowed: float) -> str:
    """Return text that says with which changes or how many GPUs ``workload`` fits ``allowed`` bytes."""
    strategy, model = workload.strategy, workload.model
    samples = strategy.batch // strategy.data
    changes: dict[str, dict[str, Any]] = {
        "sequence": {"sequence": True}, "selective": {"selective": True}, "recompute": {"recompute": True},
        f"microbatches:{samples}": {"microbatches": samples}, "zero:1": {"zero": 1}, "zero:2": {"zero": 2},
        "zero:3": {"zero": 3},
    }  # fmt: skip

    def fitting(make: Callable[[], Strategy]) -> str | None:
        try:
            other = make()
            check_strategy(model, other)
        except InputError:
            return None
        need = largest_need(replace(workload, strategy=other, stragglers=()))
        return f" ({_gigabytes(need)})" if need.total <= allowed else None

    sizes = {
        word: fitting(lambda fields=fields: replace(strategy, **fields)) for word, fields in changes.items()
    }
    if words := [word + size for word, size in sizes.items() if size]:
        return f"it fits with {' or '.join(words)} added to the strategy"
    del changes["selective"]  # recompute includes it
    most = {key: value for fields in changes.values() for key, value in fields.items()}
    if size := fitting(lambda: replace(strategy, **most)):
        return f"it fits with sequence,recompute,microbatches:{samples},zero:3{size} added to the strategy"
    gpus = strategy.gpus
    while gpus <= MOST_RANKS:
        for pipeline, tensor in product((1, 2, 4, 8, 16), (1, 2, 4, 8)):
            options = {"pipeline": pipeline, "tensor": tensor, "sequence": True, "recompute": True, "zero": 3}
            if size := fitting(partial(uniform, model, gpus, **options)):
                degrees = "".join(
                    f"{key}:{options[key]}," for key in ("tensor", "pipeline") if options[key] > 1
                )
                return f"it fits on {gpus} GPUs with --strategy {degrees}sequence,recompute,zero:3{size}"
        gpus *= 2
    return "no number of GPUs is enough: a smaller batch may fit"


def _gigabytes(need: MemoryNeed) -> str:
    return f"{significant(need.total / 1e9)} GB"
