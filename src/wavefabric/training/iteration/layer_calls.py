"""Build the communication calls of layers: for activations, gradients, and gathers of sharded parameters."""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from wavefabric.training.gpu.precision import Precision
from wavefabric.training.gpu.work import parameters_held
from wavefabric.training.iteration.context_calls import ContextCalls, context_calls
from wavefabric.training.iteration.quantisation import Quantisation
from wavefabric.training.iteration.task_graph import Call
from wavefabric.training.models.graph import ModelGraph
from wavefabric.training.strategies.strategy import Groups, LayerLayout, LongTuple, Strategy

Messages = tuple[tuple[int, int, float], ...]


@dataclass(frozen=True)
class BlockPlacement:
    """Describes which part of an array of samples × features is on each of ``data × tensor`` GPUs.

    GPU ``first + i · tensor + j`` has part i of ``data`` equal parts of the samples. Of the features of these
    samples it has part j of ``tensor`` equal parts if ``shared``, else all. With ``along``, part j is one of
    the positions (such as tokens of a sequence) instead of the features.
    """

    first: int
    data: int
    tensor: int
    shared: bool
    along: bool = False

    @property
    def parts(self) -> int:
        """Return the number of blocks into which the features, or with ``along`` the positions, are cut."""
        return self.tensor if self.shared else 1

    @property
    def groups(self) -> Groups:
        """Return the groups of GPUs that have the same samples."""
        return LayerLayout(self.data, self.tensor).groups(self.first, "tensor")


@dataclass(frozen=True)
class Transfer:
    """Describes the calls that bring a layer's output to consumers, and the output's gradient back.

    ``consumers``: numbers of the layers that read the output; all are in one pipeline stage and need the same
    blocks on the same GPUs. ``routed``: consumers and layer have the same experts, so samples stay on the
    experts' GPUs. ``forward`` and ``backward``: the calls of each pass, which run one after the other.
    """

    consumers: tuple[int, ...]
    routed: bool
    forward: tuple[Call, ...]
    backward: tuple[Call, ...]


@dataclass(frozen=True)
class LayerCalls:
    """Holds the communication calls of one layer; None or empty: the layer needs no such call."""

    dispatch: Call | None  # the all-to-all that sends samples to their experts; also for gradients
    dispatched: tuple[int, ...]  # layers whose outputs ``dispatch`` sends
    total: Call | None  # the all-reduce (along positions, reduce-scatter) of partial sums after a row layer
    transfers: tuple[Transfer, ...]
    gather: Call | None  # the all-gather of sharded parameters
    #: The all-gather of inputs that were stored in parts, which only gradients of parameters need.
    regather: Call | None
    context: ContextCalls | None = None  # of keys and values


@dataclass(frozen=True)
class Bucket:
    """Describes layers whose gradients are reduced together and whose parameters are updated together.

    ``calls``: one call that reduces all gradients, or one call per parameter tensor; empty if only one GPU
    has the parameters. ``parameters``: number of parameters that each GPU updates afterwards. ``gather``: the
    all-gather of updated parameters; None: each GPU updates all parameters, or gathers them before use.
    """

    layers: tuple[int, ...]
    calls: tuple[Call, ...]
    parameters: float
    gather: Call | None = None


class ModelCalls:
    """Builds the communication calls of all layers for a strategy; all microbatches have the same calls.

    ``layers``: the calls of each layer. ``buckets``: for each chunk of layers, its gradient buckets in the
    order of the backward pass. A chunk is a pipeline stage, or with interleaving one of a stage's parts.
    """

    def __init__(self, model: ModelGraph, strategy: Strategy, precision: Precision):
        self._model, self._strategy, self._precision = model, strategy, precision
        self._samples = strategy.batch / strategy.microbatches
        self._quantisation = Quantisation(model, strategy, precision)
        self.layers = [self._layer(number) for number in range(len(model.layers))]
        self.buckets = [self._buckets(stage) for stage in range(strategy.chunks)]

    def _layer(self, number: int) -> LayerCalls:
        dispatched = self._dispatched(number)
        largest = max(map(self._activation_bytes, dispatched), default=0.0)
        dispatch = self._all_to_all(number, largest) if dispatched else None
        total, gather = self._total(number), self._gather(number)
        transfers, regather = self._transfers(number), self._regather(number)
        context = context_calls(self._model.layers[number], number, self._strategy, self._precision)
        return LayerCalls(dispatch, dispatched, total, transfers, gather, regather, context)

    def _activation_bytes(self, number: int) -> float:
        """Return the bytes of a layer's output for all samples of a microbatch."""
        return self._samples * self._model.layers[number].features * self._precision.activation

    def _first(self, number: int) -> int:
        return self._strategy.first_gpu(self._strategy.stage[number])

    def _groups(self, number: int, kind: Literal["tensor", "data", "expert"] = "data") -> Groups:
        """Return the GPU groups of layer ``number`` that communicate for the parallelism ``kind``."""
        return self._strategy.layouts[number].groups(self._first(number), kind)

    def _routed(self, number: int) -> tuple | None:
        """Return a value that is equal for layers whose experts are on the same GPUs; None: not divided."""
        layout = self._strategy.layouts[number]
        if layout.expert == 1 or not self._model.layers[number].experts:
            return None
        return layout, self._strategy.stage[number], self._model.layers[number].experts

    def _dispatched(self, number: int) -> tuple[int, ...]:
        routed = self._routed(number)
        if routed is None:
            return ()
        producers = (self._model.index[name] for name in self._model.layers[number].inputs)
        return tuple(p for p in dict.fromkeys(producers) if self._routed(p) != routed)

    def _all_to_all(self, number: int, nbytes: float) -> Call:
        """Return the all-to-all that sends samples to a layer's experts or back.

        ``nbytes``: bytes of the activations of all samples of a microbatch. A sample is sent once for each
        expert that it uses.
        """
        layer, layout = self._model.layers[number], self._strategy.layouts[number]
        groups = self._groups(number, "expert")
        return Call("all-to-all", groups, layer.copies * nbytes / layout.data, "experts")

    def _total(self, number: int) -> Call | None:
        layout = self._strategy.layouts[number]
        if self._model.layers[number].split != "row" or layout.tensor == 1:
            return None
        kind = "reduce-scatter" if self._strategy.sequence else "all-reduce"
        return self._tensor(kind, number, self._activation_bytes(number) / layout.data)

    def parted(self, call: Call) -> list[Call]:
        """Return the calls to execute for ``call``: usually ``call`` itself, alone.

        With `Strategy.overlap`, two calls replace a call between GPUs that split layers. With n GPUs per
        group, the first, for which the next layer waits, has 1/n of the bytes; the second has the other
        bytes.
        """
        layers = call.purpose == "layer-to-layer" and call.collective in ("all-gather", "reduce-scatter")
        if not self._strategy.overlap or not (layers or call.purpose == "tensor"):
            return [call]
        first = call.bytes / len(call.groups[0])
        return [replace(call, bytes=size) for size in (first, call.bytes - first)]

    def _tensor(self, kind: str, number: int, nbytes: float) -> Call:
        return Call(kind, self._groups(number, "tensor"), nbytes, "tensor")

    def _regather(self, number: int) -> Call | None:
        """Return the all-gather of a layer's input before the backward pass; None if not needed.

        Layers with the split ``column`` need the all-gather with sequence parallelism, because each GPU
        stored the input of only some positions.
        """
        layer, layout = self._model.layers[number], self._strategy.layouts[number]
        if not (self._strategy.sequence and layer.split == "column" and layer.saved and layout.tensor > 1):
            return None
        nbytes = self._samples * layer.saved * self._precision.activation / layout.data
        return self._tensor("all-gather", number, nbytes * self._quantisation.ratio([number]))

    def _placement(self, number: int, divides: str) -> BlockPlacement:
        """Return which block of a layer's output, or of a layer's inputs, is on which GPU.

        ``divides``: ``"column"`` for the output, ``"row"`` for the inputs. This is the `Layer.split` with
        which tensor parallelism divides the output or the inputs.
        """
        layer, layout = self._model.layers[number], self._strategy.layouts[number]
        row_output = divides == "column" and layer.split == "row"
        along = self._strategy.sequence and layout.tensor > 1 and (layer.along or row_output)
        shared = along or (layer.split in (divides, "local") and layout.tensor > 1)
        return BlockPlacement(self._first(number), layout.data, layout.tensor, shared, along)

    def _transfers(self, number: int) -> tuple[Transfer, ...]:
        own = self._routed(number)
        takers: dict[tuple[BlockPlacement, bool], list[int]] = {}
        for consumer in self._model.consumers[number]:
            routed = own is not None and self._routed(consumer) == own
            takers.setdefault((self._placement(consumer, "row"), routed), []).append(consumer)
        return tuple(
            self._transfer(number, tuple(dict.fromkeys(consumers)), target, routed)
            for (target, routed), consumers in takers.items()
        )

    def _transfer(
        self, number: int, consumers: tuple[int, ...], target: BlockPlacement, routed: bool
    ) -> Transfer:
        source, nbytes = self._placement(number, "column"), self._activation_bytes(number)
        there, back = redistribution(source, target, nbytes), redistribution(target, source, nbytes)
        if there is not None and there.collective == "all-gather":
            there = replace(there, bytes=there.bytes * self._quantisation.ratio(consumers))
        combine = None
        if self._routed(number) is not None and not routed:
            combine = self._all_to_all(number, nbytes / source.parts)
        total = None
        if target.tensor > 1 and any(self._model.layers[c].split == "column" for c in consumers):
            # Each GPU has only the gradient from its own columns: sum the gradients of all.
            total = Call("all-reduce", target.groups, nbytes / target.data, "tensor")
            if there is not None and there.collective == "all-gather":
                # Each GPU needs only its block of the sum.
                total = Call("reduce-scatter", target.groups, total.bytes, "tensor")
        whole = None
        if source.along and self._model.layers[number].split == "row":
            # The backward pass of a row layer needs the gradients of all positions.
            whole = self._tensor(
                "all-gather", number, nbytes / source.data * self._quantisation.ratio([number])
            )
        forward, backward = (
            tuple(call for call in calls if call is not None)
            for calls in ((combine, there), (total, back, combine, whole))
        )
        return Transfer(consumers, routed, forward, backward)

    def _own_parameters(self, number: int) -> float:
        """Return the number of a layer's parameters on one GPU, before ZeRO shards them."""
        layout = self._strategy.layouts[number]
        return parameters_held(self._model.layers[number], layout.tensor, layout.expert)

    def _gather(self, number: int) -> Call | None:
        if not self._strategy.sharded or not self._model.layers[number].parameters:
            return None
        groups = self._groups(number)
        if len(groups[0]) == 1:
            return None
        return Call("all-gather", groups, self._quantisation.gathered(number), "parameters")

    def _buckets(self, stage: int) -> list[Bucket]:
        """Return the gradient buckets of the chunk ``stage`` of layers, in the order of the backward pass.

        A bucket ends when it has `Strategy.bucket` bytes, or when other GPUs sum the next layer's gradients.
        """
        numbers = [n for n in self._strategy.layers_of(stage) if self._model.layers[n].parameters]
        buckets: list[Bucket] = []
        held: list[int] = []
        nbytes = 0.0
        while numbers:
            number = numbers.pop()
            held.append(number)
            nbytes += self._own_parameters(number) * self._precision.gradient
            groups = self._groups(number)
            last = not numbers or self._groups(numbers[-1]) != groups
            if nbytes >= self._strategy.bucket or last:
                buckets.append(self._bucket(tuple(held), groups, nbytes))
                held, nbytes = [], 0.0
        return buckets

    def _bucket(self, numbers: tuple[int, ...], groups: Groups, nbytes: float) -> Bucket:
        own = sum(self._own_parameters(number) for number in numbers)
        if len(groups[0]) == 1:
            return Bucket(numbers, (), own)
        zero = self._strategy.zero
        collective = "reduce-scatter" if zero else "all-reduce"
        layer, parts = self._model.layers[numbers[0]], [1.0]
        if self._model.tensor_calls and not self._strategy.bucket and layer.tensors:
            parts = [size / layer.parameters for size in layer.tensors]
        calls = (Call(collective, groups, nbytes * part, "gradients") for part in parts)
        gather = None
        if zero in (1, 2):
            gather = Call("all-gather", groups, sum(map(self._quantisation.gathered, numbers)), "parameters")
        return Bucket(numbers, tuple(calls), own / len(groups[0]) if zero else own, gather)


def redistribution(source: BlockPlacement, target: BlockPlacement, nbytes: float) -> Call | None:
    """Return the call that moves the blocks of an array from the GPUs of ``source`` to those of ``target``.

    ``source`` and ``target`` say which block each GPU has before and after. None: no block has to move.
    ``nbytes`` is the size of the whole array. For the gradient of the array, swap ``source`` and ``target``.
    """
    if source == target:
        return None
    collective = _collective(source, target)
    if collective is not None:
        kind, groups = collective
        part = source.data * source.tensor if kind == "all-to-all" else target.data
        return Call(kind, groups, nbytes / part, "layer-to-layer")
    messages = _messages(source, target)
    return Call("messages", _ends(messages), nbytes, "layer-to-layer", messages) if messages else None


def _collective(source: BlockPlacement, target: BlockPlacement) -> tuple[str, Groups] | None:
    """Return the collective operation that redistributes an array: its name and the groups of GPUs.

    ``source`` and ``target`` say which block each GPU has before and after. None: only messages can do it.
    """
    if source.shared and target.shared and source.along != target.along and source.first == target.first:
        same = (source.data, source.tensor) == (target.data, target.tensor)
        return ("all-to-all", source.groups) if same else None
    if source.first != target.first or source.parts == target.parts:
        whole = source.first == target.first and source.parts == target.parts == 1
        # Each of `tensor` GPUs has different samples and needs the samples of all.
        return ("all-gather", target.groups) if whole and source.tensor == 1 < target.tensor else None
    if source.shared and (source.data, source.tensor) == (target.data, target.tensor):
        return "all-gather", source.groups
    # One side: all samples, one block of the features; other side: one block of the samples, all features.
    if source.shared and target.tensor == 1:
        return "all-to-all", source.groups
    if target.shared and source.tensor == 1:
        return "all-to-all", target.groups
    return None


@lru_cache(maxsize=256)
def _messages(source: BlockPlacement, target: BlockPlacement) -> Messages:
    """Return the messages that redistribute an array: (source GPU, destination GPU, fraction of the array).

    ``source`` and ``target`` say which block of the array each GPU has before and after. If several GPUs have
    a block, they take turns to send the block to the receivers. A receiver that has the block already gets no
    message.
    """
    messages = []
    for taker in range(target.data * target.tensor):
        i, j = divmod(taker, target.tensor)
        for row, samples in _overlaps(i, target.data, source.data):
            for column, features in _overlaps(j % target.parts, target.parts, source.parts):
                if not source.shared:
                    column = taker % source.tensor
                giver = source.first + row * source.tensor + column
                if giver != target.first + taker:
                    messages.append((giver, target.first + taker, samples * features))
    return LongTuple(messages)


@lru_cache(maxsize=256)
def _ends(messages: Messages) -> Groups:
    return LongTuple([tuple(sorted({end for message in messages for end in message[:2]}))])


def _overlaps(part: int, parts: int, others: int) -> list[tuple[int, float]]:
    """Return the intervals that overlap a certain interval, as pairs (interval, length of the overlap).

    The range [0, 1] is cut into ``parts`` equal intervals, of which ``part`` is the certain one, and once
    more into ``others`` equal intervals. The result has the numbers, from 0, of those of the latter that
    overlap.
    """
    scale = parts * others
    begin, end = part * others, (part + 1) * others  # in units of 1 / scale
    result = []
    for k in range(begin // parts, -(-end // parts)):
        common = min(end, (k + 1) * parts) - max(begin, k * parts)
        result.append((k, common / scale))
    return result
