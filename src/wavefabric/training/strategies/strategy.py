"""Describe how GPUs divide a model: data, tensor, expert and pipeline parallelism, layer by layer.

GPUs are numbered stage by stage. Within a stage, GPU ``i · tensor + j`` works on part i of the samples and on
part j of the layer, so that the GPUs that split one layer have consecutive numbers.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import gcd
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, StrictBool, StrictInt

from wavefabric.base.arguments import whole
from wavefabric.base.errors import InputError, show
from wavefabric.training.models.graph import Layer, ModelGraph

Groups = tuple[tuple[int, ...], ...]
# The type of a positive whole number in a JSON file.
Whole = Annotated[StrictInt, Field(ge=1, lt=2**53)]


class LongTuple(tuple):
    """A long tuple (of groups or messages) that computes its hash only once, for fast dictionary look-ups."""

    @classmethod
    def of(cls, items: Iterable[Any]) -> "LongTuple":
        """Return ``items`` as a `LongTuple`; return ``items`` itself if it already is one."""
        return items if isinstance(items, cls) else cls(items)

    @cached_property
    def _hash(self) -> int:
        return super().__hash__()

    def __hash__(self) -> int:
        return self._hash


@dataclass(frozen=True)
class LayerLayout:
    """Describes how the ``data × tensor`` GPUs of a pipeline stage divide one layer.

    The samples (with `Strategy.context`, their positions) are divided into ``data`` parts. For each part,
    ``tensor`` GPUs split the layer, or each computes the whole layer if `Layer.split` is ``none``. The
    experts of a layer that has experts are divided among ``expert`` GPUs with different samples; ``expert``
    must divide ``data``.
    """

    data: Whole
    tensor: Whole = 1
    expert: Whole = 1

    @property
    def gpus(self) -> int:
        """Return the number of GPUs in the stage."""
        return self.data * self.tensor

    def of(self, layer: Layer) -> "LayerLayout":
        """Return this layout for ``layer``: without expert parallelism if the layer has no experts."""
        return self if layer.experts or self.expert == 1 else replace(self, expert=1)

    def groups(self, first: int, kind: Literal["tensor", "data", "expert"] | int) -> Groups:
        """Return the communication groups of ``kind`` in the stage whose first GPU is ``first``.

        ``tensor``: GPUs that split a layer and work on the same samples. ``data``: GPUs with the same part of
        the parameters and the same experts, whose gradients are summed. ``expert``: GPUs that together have
        all experts of a layer and exchange samples. A number n: n GPUs with the same part of the parameters
        and consecutive parts of the samples, which divide the positions of the same samples. Equal arguments
        return the same object.
        """
        return _groups(self, first, kind)


@lru_cache(maxsize=4096)
def _groups(layout: LayerLayout, first: int, kind: str | int) -> Groups:
    inner = kind if isinstance(kind, int) else layout.expert
    grid = first + np.arange(layout.gpus).reshape(-1, inner, layout.tensor)
    if kind == "tensor":
        grid = grid.reshape(-1, layout.tensor)
    elif kind == "data":
        grid = grid.reshape(grid.shape[0], -1).T
    else:
        grid = grid.transpose(0, 2, 1).reshape(-1, inner)
    return LongTuple(map(tuple, grid.tolist()))


def layouts_of(layers: Sequence[Layer], gpus: int) -> list[LayerLayout]:
    """Return the layouts on ``gpus`` GPUs (data, tensor, expert degrees) that all ``layers`` can have."""
    experts = gcd(*(layer.experts for layer in layers))
    return [
        LayerLayout(gpus // tensor, tensor, expert)
        for tensor in divisors(gpus)
        for expert in (divisors(gcd(experts, gpus // tensor)) if experts else (1,))
    ]


def divisors(number: int) -> list[int]:
    """Return all divisors of ``number`` in ascending order."""
    small = [n for n in range(1, int(number**0.5) + 1) if number % n == 0]
    return sorted({*small, *(number // n for n in small)})


@dataclass(frozen=True)
class Strategy:
    """Describes how ``gpus`` GPUs divide one training iteration of a model.

    Parameters
    ----------
    batch, microbatches : int
        Samples per iteration on all GPUs, and the number of equal parts that are processed one after another.
    stage : tuple of int
        Number of the pipeline stage of each layer, in ascending order. With ``interleave``, the chunk of each
        layer: of p stages, stage c mod p executes chunk c.
    layouts : tuple of LayerLayout
        Layout of each layer. All layouts of a stage have the same number of GPUs.
    zero : int
        Stage of ZeRO (arXiv:1910.02054). The GPUs with the same part of a layer divide its optimizer states
        (1), also gradients (2), also parameters (3, gathered before each use). From 1 on, gradients are
        reduce-scattered; parameters are all-gathered after the update (1, 2). 0: every GPU stores everything,
        and gradients are all-reduced.
    bucket : float
        Bytes of gradients that are reduced in one call; 0: one call per layer.
    recompute : bool
        Recompute the activations inside a block in the backward pass instead of storing them.
    interleave : int
        Chunks of layers on each stage (virtual stages, arXiv:2104.04473, section 2.2).
    sequence : bool
        Sequence parallelism (arXiv:2205.05198): GPUs that split layers divide the positions of the unsplit
        layers between them (`Layer.along`); all-gather and reduce-scatter replace the all-reduce.
    overlap : bool
        Cut each call between GPUs that split a layer into one part per GPU. The next layer starts after the
        first part and overlaps with the other parts (``--tp-comm-overlap`` of Megatron-LM).
    selective : bool
        Recompute only scores and softmax of attention (`Layer.again`; arXiv:2205.05198, section 5).
    context : int
        GPUs that divide the positions of each sample (context parallelism, arXiv:2407.21783, section 3.3.2):
        of each layer's `LayerLayout.data` parts, so many consecutive ones are the positions of the same
        samples, in 2 ``context`` chunks of which GPU i has chunks i and 2 ``context`` - 1 - i, so that causal
        attention takes all of them equally long.
    ring : bool
        Keys and values pass around a ring of these GPUs, behind attention (arXiv:2310.01889). False: all of
        them are gathered before attention.
    """

    gpus: Whole
    batch: Whole
    microbatches: Whole
    stage: tuple[int, ...]
    layouts: tuple[LayerLayout, ...]
    zero: Annotated[StrictInt, Field(ge=0, le=3)] = 0
    bucket: Annotated[float, Field(ge=0, lt=1e15, strict=True)] = 0.0
    recompute: StrictBool = False
    interleave: Whole = 1
    sequence: StrictBool = False
    selective: StrictBool = False
    overlap: StrictBool = False
    context: Whole = 1
    ring: StrictBool = False

    @property
    def sharded(self) -> bool:
        """Return whether data-parallel GPUs divide the parameters too (ZeRO stage 3)."""
        return self.zero == 3

    @property
    def data(self) -> int:
        """Return the largest number of parts into which a layer divides the samples, without `context`."""
        return max(layout.data for layout in self.layouts) // self.context

    @property
    def chunks(self) -> int:
        """Return the number of chunks of layers: pipeline stages × chunks per stage."""
        return self.stage[-1] + 1

    @property
    def stages(self) -> int:
        """Return the number of pipeline stages."""
        return self.chunks // self.interleave

    @property
    def stage_gpus(self) -> int:
        """Return the number of GPUs per pipeline stage."""
        return self.gpus // self.stages

    def chunks_of(self, stage: int) -> range:
        """Return the numbers of the chunks that pipeline stage ``stage`` executes."""
        return range(stage, self.chunks, self.stages)

    def layers_of(self, chunk: int) -> list[int]:
        """Return the numbers of the layers in ``chunk``, which without interleaving is a pipeline stage."""
        return [number for number, own in enumerate(self.stage) if own == chunk]

    def first_gpu(self, chunk: int) -> int:
        """Return the first GPU of the pipeline stage that executes ``chunk``."""
        return chunk % self.stages * self.stage_gpus

    def stages_of(self, gpus: Iterable[int]) -> tuple[int, ...]:
        """Return the sorted numbers of the pipeline stages to which ``gpus`` belong."""
        return (0,) if self.stages == 1 else tuple(sorted({gpu // self.stage_gpus for gpu in gpus}))

    def samples(self, layer: int) -> float:
        """Return the number of samples per microbatch on each GPU that computes layer number ``layer``."""
        return self.batch / self.microbatches / self.layouts[layer].data


def uniform(
    model: ModelGraph,
    gpus: int,
    *,
    data: int | None = None,
    tensor: int = 1,
    pipeline: int = 1,
    expert: int = 1,
    layers: Mapping[str, LayerLayout] | None = None,
    **options: Any,
) -> Strategy:
    """Build the strategy with one layout for all layers except those named in ``layers``.

    ``data`` is ``gpus`` / (``tensor`` × ``pipeline`` × ``context``); a different value raises `InputError`.
    ``options`` are the other fields of `Strategy`, among them ``context``. The batch defaults to
    ``model.batch`` × data. Without a pipeline there is 1 microbatch by default; with a pipeline, the largest
    number up to 4 per stage that divides the samples per data-parallel GPU. Stages are cut between blocks to
    minimise the largest FLOPs per stage (`cut_stages`).

    Raises
    ------
    InputError
        If the degrees do not multiply to ``gpus``, or if `check_strategy` refuses the strategy.
    """
    context = options.get("context", 1)
    for key, value in (("gpus", gpus), ("tensor", tensor), ("pipeline", pipeline), ("expert", expert),
                       ("context", context), ("interleave", options.get("interleave", 1))):  # fmt: skip
        whole(key, value, 1)
    more = f" and context {context}" * (context > 1)
    if gpus % (tensor * pipeline * context):
        actual = f"tensor: {tensor} with pipeline {pipeline}{more} given"
        raise InputError(f"{actual}; allowed: degrees whose product divides {gpus}, the GPUs")
    across = gpus // (tensor * pipeline * context)
    if data not in (None, across):
        allowed = f"{across}, {gpus} GPUs / tensor {tensor} / pipeline {pipeline}{more.replace(' and', ' /')}"
        raise InputError(f"data: {data} given; allowed: {allowed}")
    values: dict[str, Any] = {"batch": None, "microbatches": None, "interleave": 1, **options}
    interleave = values["interleave"]
    if values["batch"] is None:
        values["batch"] = model.batch * across
    if values["microbatches"] is None:
        most = max(1, values["batch"] // across)
        numbers = range(1, 4 * pipeline + 1) if pipeline > 1 else (1,)
        turns = numbers if interleave == 1 else range(pipeline, 4 * pipeline + 1, pipeline)
        values["microbatches"] = max((m for m in turns if most % m == 0), default=pipeline)
    layouts = mixed_layouts(model, LayerLayout(across * context, tensor, expert), layers or {})
    stage = cut_stages(model, pipeline * interleave)
    strategy = Strategy(gpus, stage=stage, layouts=layouts, **values)
    check_strategy(model, strategy)
    return strategy


def mixed_layouts(
    model: ModelGraph, common: LayerLayout, layers: Mapping[str, LayerLayout]
) -> tuple[LayerLayout, ...]:
    """Return the layout of each layer: ``layers[name]`` for layers named there, else ``common``.

    A layer without experts gets ``common`` without expert parallelism.
    """
    for name in layers:
        if name not in model.index:
            raise InputError(f"layers: {show(name)} given; allowed: layers of {model.name}")
    return tuple(layers.get(layer.name, common.of(layer)) for layer in model.layers)


def check_strategy(model: ModelGraph, strategy: Strategy) -> None:
    """Raise an `InputError` of one line if ``strategy`` does not fit ``model``."""
    for key in ("gpus", "batch", "microbatches", "interleave", "context"):
        whole(key, getattr(strategy, key), 1)
    if strategy.zero not in range(4):
        raise InputError(f"zero: {show(strategy.zero)} given; allowed: 0 to 3, the stages of ZeRO")
    if not 0 <= strategy.bucket < 1e15:
        raise InputError(f"bucket: {strategy.bucket} B given; allowed: 0 to below 1e15")
    _check_stages(model, strategy)
    count = len(strategy.layouts)
    if count != len(model.layers):
        raise InputError(f"layouts: {count} given; allowed: {len(model.layers)}, one for each layer")
    for layer, layout in zip(model.layers, strategy.layouts, strict=True):
        _check_layer(layer, strategy, layout)
    if strategy.context > 1 and (fault := context_fault(model, strategy.context)):
        raise InputError(fault)
    for data in sorted({layout.data // strategy.context for layout in strategy.layouts}):
        parts = strategy.microbatches * data
        if strategy.batch % parts:
            actual = f"batch: {strategy.batch} samples in {strategy.microbatches} microbatches given"
            raise InputError(f"{actual}; allowed: multiples of {parts}, with data {data}")


def _check_stages(model: ModelGraph, strategy: Strategy) -> None:
    stage = strategy.stage
    if len(stage) != len(model.layers):
        raise InputError(f"stage: {len(stage)} given; allowed: {len(model.layers)}, one for each layer")
    for before, here, layer in zip((0, *stage), stage, model.layers, strict=False):
        if here not in (before, before + 1) or stage[0]:
            actual = f"stage: {show(here)} after {show(before)} given for {layer.name}"
            raise InputError(f"{actual}; allowed: the same or the next, from 0")
    stages, interleave = strategy.stages, strategy.interleave
    if interleave > 1 and (strategy.chunks % interleave or stages == 1 or strategy.microbatches % stages):
        actual = (
            f"interleave: {interleave} given, {strategy.chunks} chunks, {strategy.microbatches} microbatches"
        )
        raise InputError(f"{actual}; allowed: with a pipeline whose stages divide the microbatches")
    if strategy.gpus % strategy.stages:
        actual = f"gpus: {strategy.gpus} given"
        raise InputError(f"{actual}; allowed: multiples of {strategy.stages}, the pipeline stages")


def _check_layer(layer: Layer, strategy: Strategy, layout: LayerLayout) -> None:
    where = f"layers.{layer.name}"
    for key in ("data", "tensor", "expert"):
        whole(f"{where}.{key}", getattr(layout, key), 1)
    if layout.gpus != strategy.stage_gpus:
        actual = f"{where}: data {layout.data} and tensor {layout.tensor} given"
        raise InputError(f"{actual}; allowed: a product of {strategy.stage_gpus}, the GPUs of a stage")
    if layout.data % strategy.context:
        allowed = f"multiples of {strategy.context}, the degree of context"
        raise InputError(f"{where}.data: {layout.data} given; allowed: {allowed}")
    if layout.data % layout.expert:
        raise InputError(f"{where}.expert: {layout.expert} given; allowed: divisors of data, {layout.data}")
    if layout.expert > max(1, layer.experts) or (layer.experts and layer.experts % layout.expert):
        allowed = f"divisors of its {layer.experts} experts" if layer.experts else "1, it has no experts"
        raise InputError(f"{where}.expert: {layout.expert} given; allowed: {allowed}")
    if layer.split in ("column", "local") and layout.tensor > layer.features:
        actual = f"tensor: {layout.tensor} given for layer {show(layer.name)}"
        raise InputError(f"{actual}; allowed: up to {layer.features}, its outputs for each sample")


def context_fault(model: ModelGraph, context: int) -> str:
    """Return why ``context`` GPUs cannot divide the positions of ``model``, in one line; "" if they can."""
    actual, attention = f"context: {context} given", [x for x in model.layers if x.operator == "attention"]
    if not any(layer.keys_values for layer in attention):
        reason = "does not say what keys and values it reads (keys_values)" if attention else "is not there"
        return f"{actual}; allowed: 1, attention of {model.name} {reason}"
    for layer in model.layers:
        where = f"layer {show(layer.name)} of {model.name}"
        if len(layer.output) < 2:
            return f"{actual}; allowed: 1, {where} has no positions"
        if layer.along and layer.output[0] % (2 * context):
            allowed = f"degrees whose double divides {layer.output[0]}, the positions of {where}"
            return f"{actual}; allowed: {allowed}"
    return ""


def cut_stages(model: ModelGraph, stages: int) -> tuple[int, ...]:
    """Return the pipeline stage of each layer; cuts between blocks minimise the largest FLOPs per stage."""
    blocks = model.blocks
    if stages > len(blocks):
        actual = f"pipeline: {stages} given"
        raise InputError(f"{actual}; allowed: up to {len(blocks)}, the blocks of {model.name}")
    work = np.array([sum(model.layers[i].flops for i in block) for block in blocks])
    total = np.concatenate(([0.0], np.cumsum(work)))
    count = len(blocks)
    # least[k, i]: minimum of the largest stage's FLOPs if the first i blocks form k stages, none empty.
    least = np.full((stages + 1, count + 1), np.inf)
    last = np.zeros((stages + 1, count + 1), int)
    least[0, 0] = 0.0
    for k in range(1, stages + 1):
        for i in range(k, count + 1):
            worst = np.maximum(least[k - 1, :i], total[i] - total[:i])
            last[k, i] = int(worst.argmin())
            least[k, i] = worst[last[k, i]]
    ends = [count]
    for k in range(stages, 0, -1):
        ends.append(int(last[k, ends[-1]]))
    stage_of = np.repeat(range(stages), np.diff(ends[::-1]))
    return tuple(int(own) for own, block in zip(stage_of, blocks, strict=True) for _ in block)
