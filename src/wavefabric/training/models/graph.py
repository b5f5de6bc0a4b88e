"""A model as a graph of layers: shapes, parameters, FLOPs and bytes of each, for one sample."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import groupby
from math import isfinite, prod
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, StrictBool, StrictInt, StrictStr

from wavefabric.errors import InputError, choice, show

#: Classes of operators, each with an efficiency of its own on a device.
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
#: Operators made of matrix products, which run at the arithmetic that is asked for; all others at fp32.
MATRIX_OPERATORS = ("matmul", "convolution", "attention")
#: Elements of fp32 that optimizers keep for each parameter.
OPTIMIZERS = {"sgd": 0, "momentum": 1, "rmsprop": 2, "adam": 2}
#: How tensor parallelism cuts a layer among t GPUs. ``none``: it does not, all t do the same. ``column``:
#: each has 1/t of the parameters and of the output features, from whole inputs. ``row``: 1/t of the
#: parameters and of the input features; outputs are partial sums (Megatron-LM, arXiv:1909.08053). ``local``:
#: no exchange, 1/t of the features in and out (attention heads, activations between column and row).
SPLITS = ("none", "column", "row", "local")


def _one_of(value: Any, names: Iterable[str]) -> str:
    if not isinstance(value, str) or value not in names:
        raise ValueError(f"{show(value)} given; allowed: {', '.join(names)}")
    return value


# What files may hold; whoever makes a layer in Python is checked by `ModelGraph`.
_Operator = Annotated[str, BeforeValidator(partial(_one_of, names=OPERATORS))]
_Split = Annotated[str, BeforeValidator(partial(_one_of, names=SPLITS))]
_Optimizer = Annotated[str, BeforeValidator(partial(_one_of, names=tuple(OPTIMIZERS)))]
_Number = Annotated[float, Field(ge=0, lt=1e30, strict=True)]
_Whole = Annotated[StrictInt, Field(ge=0, lt=2**63)]
_Side = Annotated[StrictInt, Field(ge=1, lt=2**63)]


@dataclass(frozen=True)
class Layer:
    """One layer. Numbers are of one sample and of the forward pass unless they say otherwise.

    Parameters
    ----------
    name : str
    operator : str
        Of `OPERATORS`.
    inputs : tuple of str
        Layers whose outputs it takes; none: the model's input, which every GPU is given with its samples.
    output : tuple of int
        Shape of its output.
    flops : float
        A multiplication and an addition are two.
    parameters : int
        Trained.
    elements : float
        Elements of activations that it reads and writes.
    saved : float
        Elements of activations kept for the backward pass.
    split : str
        Of `SPLITS`.
    backward : float
        FLOPs and elements of the backward pass, over those of the forward pass.
    experts : int
        Experts among which its parameters are divided; 0: it has none. Expert parallelism divides them.
    used : float
        Share of the parameters that one sample reads, of tables of which it reads some rows; of experts, the
        share that each of its tokens goes to.
    block : str
        The repeated block it belongs to, such as ``"encoder 3"``. Pipeline stages are cut between blocks.
    tensors : tuple of int
        Elements of the tensors that its parameters consist of, such as weights and bias; none given: one.
    again : float or None
        Elements of `saved` that selective recomputation does not keep: the layer then runs once more in the
        backward pass (scores and softmax of attention, arXiv:2205.05198, section 5). None: it keeps all.
    whole : int
        Tables that it consists of, if each is to stay whole: at most so many GPUs divide the layer, others
        of the group have none of its work. 0: it may be divided at will.
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

    def divided(self, tensor: int) -> int:
        """GPUs that really divide it where ``tensor`` of them could."""
        return 1 if self.split == "none" else min(tensor, self.whole or tensor)

    @property
    def features(self) -> int:
        """Elements of its output for one sample."""
        return prod(self.output)

    @property
    def along(self) -> bool:
        """Whether sequence parallelism divides it by positions, the first side of its output."""
        positions = len(self.output) > 1 and self.operator in ("normalisation", "elementwise", "embedding")
        return positions and self.split == "none"


@dataclass(frozen=True)
class ModelGraph:
    """Layers in an order in which each follows its inputs.

    Parameters
    ----------
    name : str
    layers : tuple of Layer
    sample : str
        What one sample is: ``"sequence of 128 tokens"``.
    batch : int
        Samples a GPU in one iteration, by the recipe that `source` names.
    optimizer : str
        Of `OPTIMIZERS`.
    description, source : str
    tensor_calls : bool
        Gradients of each tensor (`Layer.tensors`) are reduced by a call of their own, as FlexFlow does;
        else those of a layer together. Buckets of a strategy go before it.

    Raises
    ------
    InputError
        For no layers, a name given twice, an input that is no earlier layer, numbers out of range.
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
        """For each layer the numbers of those that take its output."""
        result: list[list[int]] = [[] for _ in self.layers]
        for number, layer in enumerate(self.layers):
            for name in layer.inputs:
                result[self.index[name]].append(number)
        return tuple(map(tuple, result))

    @property
    def parameters(self) -> int:
        """Trained parameters of all layers."""
        return sum(layer.parameters for layer in self.layers)

    @property
    def flops(self) -> float:
        """FLOPs of the forward pass of one sample."""
        return sum(layer.flops for layer in self.layers)

    @property
    def training_flops(self) -> float:
        """FLOPs of matrix products, convolutions and attention for one sample, forward and backward.

        What the model asks for, whoever computes it: no recomputation, not even that of fused attention.
        """
        products = (layer for layer in self.layers if layer.operator in MATRIX_OPERATORS)
        return sum(layer.flops * (1 + min(layer.backward, 2.0)) for layer in products)

    @property
    def blocks(self) -> tuple[tuple[int, ...], ...]:
        """Numbers of layers between which a pipeline may be cut; a layer without a block is one."""
        return tuple(map(tuple, blocks_of(self.layers, range(len(self.layers)))))


def blocks_of(layers: Sequence[Layer], numbers: Iterable[int]) -> list[list[int]]:
    """Of some layers, by number, those that follow one another in one block; one without a block is alone."""
    groups = groupby(numbers, key=lambda number: layers[number].block or number)
    return [list(group) for _, group in groups]


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
    for key in ("flops", "parameters", "elements", "saved", "backward", "experts", "whole"):
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
