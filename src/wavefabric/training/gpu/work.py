"""Count the work of one GPU for a layer in one microbatch: operator, FLOPs, and bytes read and written."""

from typing import NamedTuple

from wavefabric.base.errors import choice
from wavefabric.training.gpu.precision import Precision
from wavefabric.training.models.graph import OPTIMIZERS, Layer

#: FLOPs per parameter of an optimizer's update: a multiplication and an addition for the parameter, plus the
#: FLOPs for the optimizer states.
_UPDATE_FLOPS = {"sgd": 2, "momentum": 4, "rmsprop": 8, "adam": 12}


class Work(NamedTuple):
    """The work of an operator: its class, its FLOPs, and the bytes that it reads and writes."""

    operator: str
    flops: float
    nbytes: float


def forward_work(
    layer: Layer, samples: float, tensor: int, precision: Precision, experts: int = 1, sequence: bool = False
) -> Work:
    """Return the work of the forward pass of ``layer`` on one GPU with ``samples`` samples.

    Bytes are the activations read and written plus the parameters read. Of embedding tables, at most the
    rows that the samples use are read.

    ``tensor``: degree of tensor parallelism. It divides FLOPs and parameters, unless `Layer.split` is
    ``none``. It divides all activations of a ``local`` layer, and by assumption half of the activations of a
    ``column`` or ``row`` layer. ``experts``: number of GPUs that divide the experts. All experts get equally
    many samples, so each GPU still computes ``samples`` samples. ``sequence``: whether sequence parallelism
    divides layers with the split ``none`` along their positions (`Layer.along`).
    """
    flops, elements, read = _forward(layer, samples, tensor, experts, sequence)
    return Work(layer.operator, flops, elements * precision.activation + read * precision.parameter)


def backward_work(
    layer: Layer, samples: float, tensor: int, precision: Precision, experts: int = 1, sequence: bool = False
) -> Work:
    """Return the work of the backward pass of ``layer`` on one GPU; arguments as for `forward_work`.

    FLOPs and activations are ``layer.backward`` times those of the forward pass. The same parameters are
    read, and their gradients are written.
    """
    flops, elements, read = _forward(layer, samples, tensor, experts, sequence)
    nbytes = layer.backward * elements * precision.activation
    nbytes += read * (precision.parameter + precision.gradient)
    return Work(layer.operator, layer.backward * flops, nbytes)


def update_work(parameters: float, optimizer: str, precision: Precision) -> Work:
    """Return the work of an optimizer's update of ``parameters`` parameters on one GPU.

    Gradients are read; fp32 states, and the fp32 master copy of the parameters if there is one, are read and
    written. Parameters are written, and also read if there is no master copy. Raises `InputError` for an
    optimizer not in `wavefabric.training.models.graph.OPTIMIZERS`.
    """
    states = 4 * optimizer_states(optimizer)
    copied = 2 * precision.master + precision.parameter if precision.master else 2 * precision.parameter
    nbytes = parameters * (precision.gradient + 2 * states + copied)
    return Work("elementwise", parameters * _UPDATE_FLOPS[optimizer], nbytes)


def optimizer_states(optimizer: str) -> int:
    """Return how many fp32 values an optimizer stores per parameter; `InputError` for unknown optimizers."""
    choice("optimizer", optimizer, OPTIMIZERS)
    return OPTIMIZERS[optimizer]


def parameters_held(layer: Layer, tensor: int, experts: int = 1) -> float:
    """Return the number of parameters of ``layer`` on one GPU; arguments as for `forward_work`."""
    return layer.parameters / layer.divided(tensor) / (experts if layer.experts else 1)


def _forward(
    layer: Layer, samples: float, tensor: int, experts: int, sequence: bool
) -> tuple[float, float, float]:
    """Return FLOPs, activation elements moved, and parameters read by one GPU in the forward pass."""
    if sequence and layer.along:
        samples /= tensor
    shared = {"none": 0.0, "column": 0.5, "row": 0.5, "local": 1.0}[layer.split]
    divided = layer.divided(tensor)
    elements = layer.elements * (1 - shared + shared / divided)
    held = parameters_held(layer, tensor, experts)
    # The tokens of a sample go to different experts, so all experts are read.
    rows = samples if layer.operator == "embedding" else max(1.0, samples)
    read = held if layer.experts else held * min(1.0, layer.used * rows)
    return layer.flops * samples / divided, elements * samples, read
