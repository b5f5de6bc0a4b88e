"""What one GPU does for a layer in one microbatch: operator, FLOPs, and bytes read and written."""

from typing import NamedTuple

from wavefabric.errors import choice
from wavefabric.training.gpu.precision import Precision
from wavefabric.training.models.graph import OPTIMIZERS, Layer

#: FLOPs a parameter of an optimizer's update: a multiplication and an addition for the parameter, and what
#: its states take.
_UPDATE_FLOPS = {"sgd": 2, "momentum": 4, "rmsprop": 8, "adam": 12}


class Work(NamedTuple):
    """An operator's class, its FLOPs, and the bytes that it reads and writes."""

    operator: str
    flops: float
    nbytes: float


def forward_work(
    layer: Layer, samples: float, tensor: int, precision: Precision, experts: int = 1, sequence: bool = False
) -> Work:
    """The forward pass of a layer on one GPU, which has so many samples of its own.

    Bytes are the activations read and written, and the parameters read: of tables no more than the samples
    use. ``tensor`` GPUs share the layer as its `split` says; layers of split ``none`` are not shared.
    Elements of ``column`` and ``row`` are taken to be in equal parts those that are shared and those that are
    not. ``experts``: GPUs among which the experts are divided. Each is given from all of them the samples for
    its experts: as many as its own, as all experts get equal shares. ``sequence``: layers of split ``none``
    along positions (`Layer.along`) are shared too.
    """
    flops, elements, read = _forward(layer, samples, tensor, experts, sequence)
    return Work(layer.operator, flops, elements * precision.activation + read * precision.parameter)


def backward_work(
    layer: Layer, samples: float, tensor: int, precision: Precision, experts: int = 1, sequence: bool = False
) -> Work:
    """The backward pass of a layer on one GPU; arguments as of `forward_work`.

    FLOPs and activations are ``layer.backward`` times those of the forward pass; parameters are read, and
    gradients of the same ones written.
    """
    flops, elements, read = _forward(layer, samples, tensor, experts, sequence)
    nbytes = layer.backward * elements * precision.activation
    nbytes += read * (precision.parameter + precision.gradient)
    return Work(layer.operator, layer.backward * flops, nbytes)


def update_work(parameters: float, optimizer: str, precision: Precision) -> Work:
    """An optimizer's update of so many parameters on one GPU.

    Gradients are read, states in fp32 read and written, and the copy of the parameters in fp32 too where
    there is one; parameters are written, and without such a copy read. `InputError` for an optimizer that is
    none of `wavefabric.training.models.graph.OPTIMIZERS`.
    """
    states = 4 * optimizer_states(optimizer)
    copied = 2 * precision.master + precision.parameter if precision.master else 2 * precision.parameter
    nbytes = parameters * (precision.gradient + 2 * states + copied)
    return Work("elementwise", parameters * _UPDATE_FLOPS[optimizer], nbytes)


def optimizer_states(optimizer: str) -> int:
    """Elements of fp32 that an optimizer keeps for each parameter; `InputError` for one that is unknown."""
    choice("optimizer", optimizer, OPTIMIZERS)
    return OPTIMIZERS[optimizer]


def parameters_held(layer: Layer, tensor: int, experts: int = 1) -> float:
    """Parameters of a layer on one GPU; arguments as of `forward_work`."""
    return layer.parameters / layer.divided(tensor) / (experts if layer.experts else 1)


def _forward(
    layer: Layer, samples: float, tensor: int, experts: int, sequence: bool
) -> tuple[float, float, float]:
    """FLOPs, elements of activations read and written, parameters read: of the forward pass on one GPU."""
    if sequence and layer.along:
        samples /= tensor
    shared = {"none": 0.0, "column": 0.5, "row": 0.5, "local": 1.0}[layer.split]
    divided = layer.divided(tensor)
    elements = layer.elements * (1 - shared + shared / divided)
    held = parameters_held(layer, tensor, experts)
    # The tokens of a sample go to different experts: all of them are read.
    read = held if layer.experts else held * min(1.0, layer.used * samples)
    return layer.flops * samples / divided, elements * samples, read
