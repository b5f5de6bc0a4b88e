"""Describe a model as a graph of layers, each with shape, parameters, FLOPs and elements per sample."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import groupby
from math import isfinite, prod
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, StrictBool, StrictInt, StrictStr

from wavefabric.base.errors import InputError, choice, show

#: Classes of operators; a device has a separate efficiency for each.
OPERATORS = (
    "matmul",
    "convolution",
    "attention",
    "embedding",
    "normalisation",
    "elementwise",
    "pooling",
    "softmax",
)
#: Operators made of matrix products, which run in the chosen arithmetic; all others run in fp32.
MATRIX_OPERATORS = ("matmul", "convolution", "attention")
#: Number of fp32 values that each optimizer stores per parameter.
OPTIMIZERS = {"sgd": 0, "momentum": 1, "rmsprop": 2, "adam": 2}
#: How tensor parallelism divides a layer among t GPUs. ``none``: not divided, all t GPUs do the same.
#: ``column``: each GPU has 1/t of the parameters and of the output features, from whole inputs. ``row``: each
#: has 1/t of the parameters and of the input features; outputs are partial sums (Megatron-LM,
#: arXiv:1909.08053). ``local``: each has 1/t of the features in and out, without an exchange (attention
#: heads, activations between column and row).
SPLITS = ("none", "column", "row", "local")


def _one_of(value: Any, names: Iterable[str]) -> str:
    if not isinstance(value, str) or value not in names:
        raise ValueError(f"{show(value)} given; allowed: {', '.join(names)}")
    return value


# Types for values in files; `ModelGraph` checks layers that are built in Python.
_Operator = Annotated[str, BeforeValidator(partial(_one_of, names=OPERATORS))]
_Split = Annotated[str, BeforeValidator(partial(_one_of, names=SPLITS))]
_Optimizer = Annotated[str, BeforeValidator(partial(_one_of, names=tuple(OPTIMIZERS)))]
_Number = Annotated[float, Field(ge=0, lt=1e30, strict=True)]
_Whole = Annotated[StrictInt, Field(ge=0, lt=2**63)]
_Side = Annotated[StrictInt, Field(ge=1, lt=2**63)]


@dataclass(frozen=True)
class Layer:
    """Describes one layer; numbers are per sample and for the forward pass unless stated otherwise.

    Parameters
    ----------
    operator : str
        One of `OPERATORS`.
    inputs : tuple of str
        Layers whose outputs this layer reads. Empty: the model's input, which every GPU has for its samples.
    flops : float
        FLOPs; a multiplication and an addition are two.
    parameters : int
        Trained parameters.
    elements : float
        Activation elements read and written.
    saved : float
        Activation elements stored for the backward pass.
    split : str
        One of `SPLITS`.
    backward : float
        Ratio of backward to forward pass, for FLOPs and elements.
    experts : int
        Number of experts that divide the parameters; 0: no experts. Expert parallelism distributes them.
    used : float
        Fraction of the parameters that one sample reads: of tables, the fraction of the rows; of experts, the
        fraction of the experts to which each token is sent.
    block : str
        Name of the block that contains the layer, such as ``"encoder 3"``. Pipelines are cut between blocks.
    tensors : tuple of int
        Elements of each parameter tensor, such as weights and bias. Empty: one tensor.
    again : float or None
        Elements of ``saved`` that selective recomputation does not store; the layer then runs once more in
        the backward pass (scores and softmax of attention, arXiv:2205.05198, section 5). None: all stored.
    whole : int
        Number of tables in the layer, if no table may be divided: at most this many GPUs divide the layer,
        and other GPUs of the group have no work. 0: no limit.
    keys_values : float
        Elements of keys and values that attention reads, which GPUs exchange that divide the positions of a
        sample (context parallelism). 0: unknown, or none.
    """

    name: StrictStr
    operator: _Operator
    inputs: tuple[StrictStr, ...] = ()
    output: Annotated[tuple[_Side, ...], Field(min_length=1, max_length=8)] = (1,)
    flops: _Number = 0.0
    parameters: _Whole = 0
    elements: _Number = 0.0
    saved: _Number = 0.0
    split: _Split = "none"
    backward: _Number = 2.0
    experts: Annotated[StrictInt, Field(ge=0, le=10**6)] = 0
    used: Annotated[float, Field(gt=0, le=1, strict=True)] = 1.0
    block: StrictStr = ""
    tensors: Annotated[tuple[_Side, ...], Field(max_length=10**4)] = ()
    whole: _Whole = 0
    again: _Number | None = None
    keys_values: _Number = 0.0

    def divided(self, tensor: int) -> int:
        """Return how many GPUs divide this layer if the degree of tensor parallelism is ``tensor``."""
        return 1 if self.split == "none" else min(tensor, self.whole or tensor)

    @property
    def features(self) -> int:
        """Return the number of output elements per sample."""
        return prod(self.output)

    @property
    def copies(self) -> float:
        """Return to how many experts each token is sent; 1 for layers without experts."""
        return max(1.0, self.used * self.experts)

    @property
    def along(self) -> bool:
        """Return whether sequence parallelism divides the layer by positions, the first output axis."""
        positions = len(self.output) > 1 and self.operator in ("normalisation", "elementwise", "embedding")
        return positions and self.split == "none"


@dataclass(frozen=True)
class ModelGraph:
    """A model as a sequence of layers, each after the layers whose outputs it reads.

    Parameters
    ----------
    layers : tuple of Layer
        Layers in execution order.
    sample : str
        Description of one sample, such as ``"sequence of 128 tokens"``.
    batch : int
        Samples per GPU and iteration, from the recipe in ``source``.
    optimizer : str
        One of `OPTIMIZERS`.
    description, source : str
        Text for the reader; ``source`` says where the training recipe is from.
    tensor_calls : bool
        Reduce the gradients of each tensor (`Layer.tensors`) in a separate call, as FlexFlow does; else one
        call per layer. Buckets of a strategy take precedence.

    Raises
    ------
    InputError
        If there are no layers, a name is repeated, an input is no earlier layer, or a number is out of range.
    """

    name: StrictStr
    layers: tuple[Layer, ...]
    sample: StrictStr = "sample"
    batch: Annotated[StrictInt, Field(ge=1, le=10**9)] = 1
    optimizer: _Optimizer = "adam"
    description: StrictStr = ""
    source: StrictStr = ""
    tensor_calls: StrictBool = False
    index: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self):
        if not self.layers:
            raise InputError("layers: none given; allowed: at least one")
        index: dict[str, int] = {}
        for number, layer in enumerate(self.layers):
            _check(layer, index)
            index[layer.name] = number
        object.__setattr__(self, "index", index)

    @cached_property
    def consumers(self) -> tuple[tuple[int, ...], ...]:
        """Return, for each layer, the numbers of the layers that read its output."""
        result: list[list[int]] = [[] for _ in self.layers]
        for number, layer in enumerate(self.layers):
            for name in layer.inputs:
                result[self.index[name]].append(number)
        return tuple(map(tuple, result))

    @cached_property
    def operands(self) -> tuple[float | None, ...]:
        """Return for each layer how many elements per sample its forward pass casts to 8 bits; None if none.

        None: the layer is not a matrix product, or its result is read by a softmax or is the router of
        experts. Logits and routers stay in 16 bits (Transformer Engine, torchtitan). An array that several
        layers read is counted at the first of them. A layer of experts casts each token once per expert that
        the token goes to.
        """
        seen: set[str] = set()
        result: list[float | None] = []
        for layer, readers in zip(self.layers, self.consumers, strict=True):
            after = [self.layers[number] for number in readers]
            wide = any(x.operator == "softmax" or x.experts > layer.experts for x in after)
            if layer.operator != "matmul" or wide:
                result.append(None)
                continue
            sources = [self.layers[self.index[name]] for name in layer.inputs]
            if layer.experts:
                result.append(layer.copies * sum(x.features for x in sources if x.operator != "matmul"))
                continue
            result.append(sum(source.features for source in sources if source.name not in seen))
            seen |= set(layer.inputs)
        return tuple(result)

    @property
    def parameters(self) -> int:
        """Return the number of trained parameters of all layers."""
        return sum(layer.parameters for layer in self.layers)

    @property
    def flops(self) -> float:
        """Return the FLOPs of the forward pass per sample."""
        return sum(layer.flops for layer in self.layers)

    @property
    def training_flops(self) -> float:
        """Return the forward and backward FLOPs per sample of matrix products, convolutions and attention.

        Only the model's mathematics counts: no recomputation, not even the recomputation of fused attention.
        """
        products = (layer for layer in self.layers if layer.operator in MATRIX_OPERATORS)
        return sum(layer.flops * (1 + min(layer.backward, 2.0)) for layer in products)

    @property
    def blocks(self) -> tuple[tuple[int, ...], ...]:
        """Return the numbers of the layers of each block (`blocks_of`); pipelines are cut between blocks."""
        return tuple(map(tuple, blocks_of(self.layers, range(len(self.layers)))))


def blocks_of(layers: Sequence[Layer], numbers: Iterable[int]) -> list[list[int]]:
    """Group layer ``numbers`` by block of consecutive layers; a layer without a block is a list alone."""
    groups = groupby(numbers, key=lambda number: layers[number].block or number)
    return [list(group) for _, group in groups]


def part_of(model: ModelGraph, numbers: Sequence[int]) -> ModelGraph:
    """Return a model that has only the layers ``numbers`` of ``model``.

    Layers and blocks get neutral names, so that equal parts give equal models. Outputs of layers outside the
    part become inputs of the model.
    """
    names = {model.layers[n].name: str(position) for position, n in enumerate(numbers)}
    # Separate blocks of one name stay separate even if the layers between them are left out.
    block_of = {n: number for number, block in enumerate(model.blocks) for n in block}
    blocks: dict[int, str] = {}
    layers = []
    for n in numbers:
        layer = model.layers[n]
        inputs = tuple(names[name] for name in layer.inputs if name in names)
        block = blocks.setdefault(block_of[n], str(len(blocks))) if layer.block else ""
        layers.append(replace(layer, name=names[layer.name], inputs=inputs, block=block))
    return ModelGraph("part", tuple(layers), optimizer=model.optimizer)


def _check(layer: Layer, earlier: Iterable[str]) -> None:
    where = f"layers.{layer.name}"
    if not layer.name or layer.name in earlier:
        raise InputError(f"layers: name {show(layer.name)} given; allowed: a name, each once")
    for name in layer.inputs:
        if name not in earlier:
            raise InputError(f"{where}.inputs: {show(name)} given; allowed: layers before it")
    for key, allowed in (("operator", OPERATORS), ("split", SPLITS)):
        choice(f"{where}.{key}", getattr(layer, key), allowed)
    if not layer.output or any(n < 1 for n in layer.output):
        raise InputError(f"{where}.output: {show(layer.output)} given; allowed: whole numbers from 1")
    for key in ("flops", "parameters", "elements", "saved", "backward", "experts", "whole", "keys_values"):
        value = getattr(layer, key)
        if not (isfinite(value) and 0 <= value < 1e30):
            raise InputError(f"{where}.{key}: {show(value)} given; allowed: 0 or more, below 1e30")
    if layer.again is not None and not 0 <= layer.again <= layer.saved:
        raise InputError(f"{where}.again: {show(layer.again)} given; allowed: 0 to {layer.saved}, its saved")
    if layer.tensors and (min(layer.tensors) < 1 or sum(layer.tensors) != layer.parameters):
        allowed = f"whole numbers from 1 whose sum is {layer.parameters}, its parameters"
        raise InputError(f"{where}.tensors: {show(list(layer.tensors))} given; allowed: {allowed}")
    if not 0 < layer.used <= 1:
        raise InputError(f"{where}.used: {show(layer.used)} given; allowed: above 0, up to 1")
