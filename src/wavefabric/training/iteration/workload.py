"""Describe the work that is simulated, and compute the passes of its layers over a microbatch."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from wavefabric.training.gpu.device_model import DeviceModel
from wavefabric.training.gpu.precision import Precision
from wavefabric.training.gpu.work import Work, backward_work, forward_work, update_work
from wavefabric.training.iteration.layer_calls import Bucket, ModelCalls, Transfer
from wavefabric.training.iteration.quantisation import Quantisation
from wavefabric.training.models.graph import ModelGraph, blocks_of
from wavefabric.training.strategies.strategy import Strategy


@dataclass(frozen=True)
class Workload:
    """Describes what is simulated: a model, its strategy, the device and the precision."""

    model: ModelGraph
    strategy: Strategy
    device: DeviceModel
    precision: Precision
    #: Slow GPUs, as (GPU, factor of the computation time); see `faults`.
    stragglers: tuple[tuple[int, float], ...] = ()

    def __post_init__(self):
        self.device.check_arithmetic("precision", self.precision.arithmetic)

    @property
    def gpus_of_stages(self) -> list[tuple[int, ...]]:
        """Return the GPUs of each pipeline stage."""
        strategy = self.strategy
        firsts = (strategy.first_gpu(stage) for stage in range(strategy.stages))
        return [tuple(range(first, first + strategy.stage_gpus)) for first in firsts]

    def work(self, of: Callable[..., Work], number: int) -> Work:
        """Return the work of one GPU for a microbatch in layer ``number``, on a ring of one part.

        ``of``: the function that counts the work of the pass, `forward_work` or `backward_work`.
        """
        layer, layout = self.model.layers[number], self.strategy.layouts[number]
        samples, sequence = self.strategy.samples(number), self.strategy.sequence
        work = of(layer, samples, layout.tensor, self.precision, layout.expert, sequence)
        parts = self.strategy.context if self.strategy.ring and layer.keys_values else 1
        return work._replace(flops=work.flops / parts, nbytes=work.nbytes / parts)

    def sharing(self, number: int, stage: int = 3) -> int:
        """Return among how many GPUs ZeRO's ``stage`` divides layer ``number``; 1 if the stage is not used.

        Stage 1 divides optimizer states, stage 2 also gradients, stage 3 also parameters.
        """
        layout = self.strategy.layouts[number]
        experts = layout.expert if self.model.layers[number].experts else 1
        return layout.data // experts if self.strategy.zero >= stage else 1


class LayerPass(NamedTuple):
    """Describes a layer's pass over a microbatch on one GPU: time in s, FLOPs, and bytes moved."""

    seconds: float
    flops: float
    nbytes: float


class ModelPasses:
    """Holds what all microbatches have in common: layer times, calls, and the blocks of each chunk."""

    def __init__(self, workload: Workload):
        self.model, self.strategy, self._workload = workload.model, workload.strategy, workload
        self.calls = ModelCalls(self.model, self.strategy, workload.precision)
        self._quantisation = Quantisation(self.model, self.strategy, workload.precision)
        self.forward, self.backward = (
            [self._layer(of, number) for number in range(len(self.model.layers))]
            for of in (forward_work, backward_work)
        )
        for number, layer in enumerate(self.model.layers):
            if self.strategy.selective and layer.again is not None:
                both = zip(self.backward[number], self.forward[number], strict=True)
                self.backward[number] = LayerPass(*map(sum, both))
        #: Layer numbers of each chunk, grouped in blocks.
        self.blocks = [
            blocks_of(self.model.layers, self.strategy.layers_of(c)) for c in range(self.strategy.chunks)
        ]
        #: Layers after which outputs are sent to experts, so that the next layer begins a new task.
        self.dispatched_after = set(map(self._last_here, range(len(self.model.layers))))
        #: For each layer: the (producer, transfer) pairs whose gradients return after its backward pass.
        self.returns: list[list[tuple[int, Transfer]]] = [[] for _ in self.model.layers]
        for producer in reversed(range(len(self.model.layers))):  # the first to run backward comes first
            for transfer in self.calls.layers[producer].transfers:
                self.returns[transfer.consumers[0]].append((producer, transfer))
        #: Number of the bucket of gradients that the backward pass of a layer completes, by layer.
        self.bucket_after = {
            bucket.layers[-1]: number
            for buckets in self.calls.buckets
            for number, bucket in enumerate(buckets)
        }

    def _last_here(self, number: int) -> int:
        """Return the last layer of the same stage that sends to the experts of layer ``number``; -1: none."""
        stage = self.strategy.stage
        here = (p for p in self.calls.layers[number].dispatched if stage[p] == stage[number])
        return max(here, default=-1)

    def _layer(self, of: Callable[..., Work], number: int) -> LayerPass:
        """Return time, FLOPs and bytes of a layer's pass over a microbatch, with casts of operands to 8 bits.

        ``of``: the function that counts the work of the pass, `forward_work` or `backward_work`.
        """
        work = self._workload.work(of, number)
        product = self._pass(work, self._quantisation.arithmetic(number))
        cast = self._quantisation.cast(number, of is backward_work)
        if not cast:
            return product
        return LayerPass(
            *map(sum, zip(product, self._pass(Work("elementwise", 0.0, cast), "fp32"), strict=True))
        )

    def _pass(self, work: Work, arithmetic: str) -> LayerPass:
        return LayerPass(self._workload.device.seconds(*work, arithmetic), work.flops, work.nbytes)

    def update(self, bucket: Bucket) -> LayerPass:
        """Return time, FLOPs and bytes of the update of the parameters of ``bucket`` on one GPU."""
        work = update_work(bucket.parameters, self.model.optimizer, self._workload.precision)
        cast = self._quantisation.cast_parameters(bucket.layers, bucket.parameters)
        return self._pass(work._replace(nbytes=work.nbytes + cast), "fp32")

    def names(self, layers: Sequence[int]) -> str:
        """Return a label for consecutive ``layers``: the names of the first and the last."""
        first, last = self.model.layers[layers[0]].name, self.model.layers[layers[-1]].name
        return first if len(layers) == 1 else f"{first} … {last}"
