"""Build the calls of attention between GPUs that divide the positions of samples (context parallelism)."""

from dataclasses import dataclass, replace
from functools import lru_cache

from wavefabric.training.gpu.precision import Precision
from wavefabric.training.iteration.task_graph import Call
from wavefabric.training.models.graph import Layer
from wavefabric.training.strategies.strategy import Groups, LongTuple, Strategy


@dataclass(frozen=True)
class ContextCalls:
    """Holds the calls of an attention layer for keys and values, and for their gradients.

    Gathered (Llama 3, arXiv:2407.21783, section 3.3.2): ``keys`` is the all-gather before each pass of the
    layer, ``gradients`` the reduce-scatter after its backward pass, and ``parts`` is 1. On a ring
    (arXiv:2310.01889): attention runs in ``parts`` equal parts, one for the keys and values of each GPU.
    ``keys`` passes these on to the next GPU, and ``gradients`` passes on the sum of their gradients so far,
    which is back on its GPU after the last of ``parts`` calls.
    """

    keys: Call
    gradients: Call
    parts: int = 1


def context_calls(layer: Layer, number: int, strategy: Strategy, precision: Precision) -> ContextCalls | None:
    """Return the calls of context parallelism for the keys and values of a layer.

    ``number``: the index of ``layer`` in the model. None if each sequence is on one GPU, or the layer has no
    keys and values.
    """
    count, layout = strategy.context, strategy.layouts[number]
    if count == 1 or not layer.keys_values:
        return None
    groups = layout.groups(strategy.first_gpu(strategy.stage[number]), count)
    part = layer.keys_values * strategy.samples(number) / layer.divided(layout.tensor) * precision.activation
    if strategy.ring:
        call = Call("messages", LongTuple([LongTuple(sum(groups, ()))]), part, "context", _ring(groups))
        return ContextCalls(call, call, count)
    gather = Call("all-gather", groups, part * count, "context")
    return ContextCalls(gather, replace(gather, collective="reduce-scatter"))


@lru_cache(maxsize=256)
def _ring(groups: Groups) -> LongTuple:
    """Return the messages from each GPU to the next one of its group, as (source, destination, 1)."""
    return LongTuple(
        (gpu, after, 1.0)
        for group in groups
        for gpu, after in zip(group, (*group[1:], group[0]), strict=True)
    )
