"""The tasks of one training iteration of a model, as a strategy shares it: layers, calls, updates.

Forward and backward passes of microbatches follow one another in each pipeline stage as in the schedule 1F1B
(PipeDream-Flush, Narayanan et al. 2021, arXiv:2006.09503): stage s of p runs p − s − 1 forward passes ahead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from wavefabric.training.calls import Call
from wavefabric.training.device_model import DeviceModel
from wavefabric.training.graph import Layer, ModelGraph
from wavefabric.training.precision import Precision
from wavefabric.training.redistribution import redistribution, reversed_call
from wavefabric.training.strategy import Groups, Strategy
from wavefabric.training.task_graph import TaskGraph
from wavefabric.training.work import backward_work, forward_work, update_work


@dataclass(frozen=True)
class Workload:
    """What is simulated: a model, how it is shared, on which GPUs and in which precision."""

    model: ModelGraph
    strategy: Strategy
    device: DeviceModel
    precision: Precision


def build_tasks(workload: Workload, merge: bool = True) -> TaskGraph:
    """The tasks of one iteration.

    ``merge`` makes one task of consecutive layers between which nothing is sent or awaited: same times, fewer
    tasks.
    """
    return _Builder(workload, merge).build()


class _Phase:
    """Compute tasks of a worker's pass over one microbatch; a task grows while nothing comes between."""

    def __init__(self, graph: TaskGraph, kind: str, worker: int, microbatch: int, merge: bool):
        self.graph, self.kind, self.worker, self.microbatch, self.merge = (
            graph,
            kind,
            worker,
            microbatch,
            merge,
        )
        self.tasks: list[int] = []
        self._open = False

    def layer(self, name: str, seconds: float, waits: Sequence[int]) -> int:
        """Run a layer when `waits` have ended; the number of the task that it is part of."""
        if self.merge and self._open and not waits:
            task = self.tasks[-1]
            self.graph.seconds[task] += seconds
            first = self.graph.name[task].split(" … ")[0]
            self.graph.name[task] = f"{first} … {name}"
            return task
        task = self.graph.compute(self.kind, name, self.worker, seconds, waits, self.microbatch)
        self.tasks.append(task)
        self._open = True
        return task

    def close(self) -> None:
        """Something waits for what has run so far: the next layer is another task."""
        self._open = False


class _Builder:
    def __init__(self, workload: Workload, merge: bool):
        self.model, self.strategy = workload.model, workload.strategy
        self.precision, self.device, self.merge = workload.precision, workload.device, merge
        self.graph = TaskGraph(self.strategy.stages)
        self.layers_of: list[list[int]] = [[] for _ in range(self.strategy.stages)]
        for number, stage in enumerate(self.strategy.stage):
            self.layers_of[stage].append(number)
        self.forward_seconds = [self._seconds(forward_work, n) for n in range(len(self.model.layers))]
        self.backward_seconds = [self._seconds(backward_work, n) for n in range(len(self.model.layers))]
        if self.strategy.recompute:
            pairs = zip(self.backward_seconds, self.forward_seconds, strict=True)
            self.backward_seconds = [back + again for back, again in pairs]
        self.transfers = [self._transfers(n) for n in range(len(self.model.layers))]
        #: Task after which a layer's output, or the gradient of it, is there on its own GPUs.
        self.output: list[int] = []
        self.gradient: list[int] = []
        self.arrived: dict[tuple[int, int], int] = {}  # (producer, consumer): the transfer between them

    def build(self) -> TaskGraph:
        parts, stages = self.strategy.microbatches, self.strategy.stages
        forward: dict[tuple[int, int], list[int]] = {}
        backward: dict[tuple[int, int], list[int]] = {}
        closing: list[list[int]] = [[] for _ in range(stages)]
        for part in range(parts):
            self.output, self.arrived = [-1] * len(self.model.layers), {}
            for stage in range(stages):
                forward[stage, part] = self._forward(stage, part)
            self.gradient = [-1] * len(self.model.layers)
            self.returned: dict[tuple[int, int], int] = {}
            for stage in reversed(range(stages)):
                backward[stage, part], ended = self._backward(stage, part)
                if part == parts - 1:
                    closing[stage] = self._reduce_and_update(stage, ended)
        for stage in range(stages):
            order = one_forward_one_backward(stage, stages, parts)
            program = [task for which, part in order for task in (forward, backward)[which][stage, part]]
            self.graph.program.append(program + closing[stage])
        return self.graph

    # --- Passes ---------------------------------------------------------------------------------------------

    def _forward(self, stage: int, part: int) -> list[int]:
        phase = _Phase(self.graph, "forward", stage, part, self.merge)
        gathers = _Prefetch(self, stage, part)
        for number in self.layers_of[stage]:
            layer = self.model.layers[number]
            waits = gathers.before(number) + self._inputs(number, part)
            dispatch = self._expert_call(number)
            if dispatch is not None:
                phase.close()
                ready = [*waits, *phase.tasks[-1:]]
                waits = [self._call(f"dispatch {layer.name}", dispatch, stage, ready, part)]
            task = phase.layer(layer.name, self.forward_seconds[number], waits)
            gathers.ran(number, task)
            after = self._sum_of_outputs(number) or dispatch
            if after is not None:
                phase.close()
                task = self._call(f"{after.collective} {layer.name}", after, stage, [task], part)
            self.output[number] = task
            for consumers, call in self.transfers[number]:
                phase.close()
                sent = self._send(f"{layer.name} forward", call, number, consumers, [task], part)
                self.arrived.update({(number, consumer): sent for consumer in consumers})
        return phase.tasks

    def _inputs(self, number: int, part: int) -> list[int]:
        """Calls that bring a layer's inputs; outputs of its own worker are there in order of the program."""
        waits = []
        for name in self.model.layers[number].inputs:
            producer = self.model.index[name]
            if (producer, number) in self.arrived:
                waits.append(self.arrived[producer, number])
            elif self.graph.worker[self.output[producer]] < 0:
                waits.append(self.output[producer])
        return waits

    def _backward(self, stage: int, part: int) -> tuple[list[int], dict[int, int]]:
        """Tasks in order, and for each layer with parameters the one after which its gradients are there."""
        phase = _Phase(self.graph, "backward", stage, part, self.merge)
        last = part == self.strategy.microbatches - 1
        gathers = _Prefetch(self, stage, part)
        ended: dict[int, int] = {}
        for number in reversed(self.layers_of[stage]):
            layer = self.model.layers[number]
            waits = gathers.before(number) + self._output_gradient(number, phase, part)
            back = self._expert_call(number)
            if back is not None:
                phase.close()
                ready = [*waits, *phase.tasks[-1:]]
                waits = [self._call(f"combine {layer.name} backward", back, stage, ready, part)]
            task = phase.layer(layer.name, self.backward_seconds[number], waits)
            gathers.ran(number, task)
            if last and layer.parameters:
                phase.close()
            ended[number] = task
            if back is not None:
                phase.close()
                task = self._call(f"dispatch {layer.name} backward", back, stage, [task], part)
            self.gradient[number] = task
            self._return(number, phase, part)
        return phase.tasks, ended

    def _output_gradient(self, number: int, phase: _Phase, part: int) -> list[int]:
        """Calls that must end before the gradient of a layer's output is there."""
        waits, here = [], []
        stage = self.strategy.stage[number]
        for consumer in self.model.consumers[number]:
            done = self.returned.get((number, consumer))
            if done is None:
                done = self.gradient[consumer]
                here.append(consumer)
            if self.graph.worker[done] != stage:
                waits.append(done)
        return self._summed(number, here, waits, phase, part)

    def _summed(
        self, number: int, consumers: list[int], waits: list[int], phase: _Phase, part: int
    ) -> list[int]:
        """What to wait for once GPUs with shares of columns have added their parts of an input's gradient."""
        columns = [c for c in consumers if self._splits_inputs(c)]
        if not columns:
            return waits
        layout, stage = self.strategy.layouts[columns[0]], self.strategy.stage[columns[0]]
        phase.close()
        groups = layout.tensor_groups(self.strategy.first_gpu(stage))
        call = Call("all-reduce", groups, self._activation_bytes(number) / layout.data, "tensor")
        ready = [*waits, *(self.gradient[c] for c in consumers)]
        return [self._call(f"all-reduce {self.model.layers[number].name} backward", call, stage, ready, part)]

    def _return(self, number: int, phase: _Phase, part: int) -> None:
        """Send gradients of a layer's inputs back to where those came from."""
        for name in self.model.layers[number].inputs:
            producer = self.model.index[name]
            for consumers, call in self.transfers[producer]:
                # The first consumer is the last to end here: it sends for all.
                back = reversed_call(call) if number == consumers[0] else None
                if back is not None:
                    phase.close()
                    waits = [self.gradient[consumer] for consumer in consumers]
                    waits = self._summed(producer, list(consumers), waits, phase, part)
                    sent = self._send(f"{name} backward", back, producer, consumers, waits, part)
                    self.returned.update({(producer, consumer): sent for consumer in consumers})

    # --- Calls ----------------------------------------------------------------------------------------------

    def _transfers(self, number: int) -> list[tuple[tuple[int, ...], Call]]:
        """Calls that take a layer's output to others, with those who take it."""
        strategy = self.strategy
        stage, layout = strategy.stage[number], strategy.layouts[number]
        shared = self.model.layers[number].split in ("column", "local") and layout.tensor > 1
        takers: dict[tuple, list[int]] = {}
        for consumer in self.model.consumers[number]:
            wanted = self.model.layers[consumer].split in ("row", "local")
            other = strategy.layouts[consumer]
            key = strategy.stage[consumer], other.data, other.tensor, wanted and other.tensor > 1
            takers.setdefault(key, []).append(consumer)
        found = []
        for (target, _, _, wanted), consumers in takers.items():
            call = redistribution(
                layout, strategy.first_gpu(stage), shared,
                strategy.layouts[consumers[0]], strategy.first_gpu(target), wanted,
                self._activation_bytes(number),
            )  # fmt: skip
            if call is not None:
                found.append((tuple(consumers), call))
        return found

    def _activation_bytes(self, number: int) -> float:
        """B of a layer's output, of all samples of a microbatch."""
        samples = self.strategy.batch / self.strategy.microbatches
        return samples * self.model.layers[number].features * self.precision.activation

    def _splits_inputs(self, number: int) -> bool:
        return self.model.layers[number].split == "column" and self.strategy.layouts[number].tensor > 1

    def _sum_of_outputs(self, number: int) -> Call | None:
        """The all-reduce of partial sums after a layer that was split by rows."""
        layout, stage = self.strategy.layouts[number], self.strategy.stage[number]
        if self.model.layers[number].split != "row" or layout.tensor == 1:
            return None
        groups = layout.tensor_groups(self.strategy.first_gpu(stage))
        return Call("all-reduce", groups, self._activation_bytes(number) / layout.data, "tensor")

    def _expert_call(self, number: int) -> Call | None:
        """The all-to-all that takes samples to their experts, or back: a copy for each that a sample has."""
        layer, layout = self.model.layers[number], self.strategy.layouts[number]
        if layout.expert == 1 or not layer.experts:
            return None
        copies = max(1.0, layer.used * layer.experts)
        nbytes = copies * self._activation_bytes(number) / layout.data
        return Call(
            "all-to-all",
            layout.expert_groups(self.strategy.first_gpu(self.strategy.stage[number])),
            nbytes,
            "experts",
        )

    def _call(self, name: str, call: Call, stage: int, waits: Sequence[int], part: int) -> int:
        return self.graph.communicate(name, call, (stage,), waits, part)

    def _send(
        self, name: str, call: Call, producer: int, consumers: Sequence[int], waits: Sequence[int], part: int
    ) -> int:
        stages = {self.strategy.stage[producer], *(self.strategy.stage[c] for c in consumers)}
        return self.graph.communicate(name, call, tuple(sorted(stages)), waits, part)

    # --- Parameters -----------------------------------------------------------------------------------------

    def _parameter_groups(self, number: int) -> Groups:
        layout = self.strategy.layouts[number]
        first = self.strategy.first_gpu(self.strategy.stage[number])
        if self.model.layers[number].experts and layout.expert > 1:
            return layout.expert_data_groups(first)
        return layout.data_groups(first)

    def own_parameters(self, number: int) -> float:
        """Parameters of a layer's share on one GPU, before they are sharded."""
        layer, layout = self.model.layers[number], self.strategy.layouts[number]
        divided = layout.tensor if layer.split in ("column", "row") else 1
        return layer.parameters / divided / (layout.expert if layer.experts else 1)

    def gather(self, number: int) -> Call | None:
        """The all-gather of a layer's parameters before it is used, if they are sharded."""
        groups = self._parameter_groups(number)
        own = self.own_parameters(number)
        if not self.strategy.sharded or not own or len(groups[0]) == 1:
            return None
        return Call("all-gather", groups, own * self.precision.parameter, "parameters")

    def _reduce_and_update(self, stage: int, ended: dict[int, int]) -> list[int]:
        """Calls for gradients as buckets fill, and the updates of parameters after them, in that order."""
        updates, bucket, held = [], [], 0.0
        numbers = [n for n in reversed(self.layers_of[stage]) if self.model.layers[n].parameters]
        for place, number in enumerate(numbers):
            bucket.append(number)
            held += self.own_parameters(number) * self.precision.gradient
            following = numbers[place + 1] if place + 1 < len(numbers) else None
            same = following is not None and self._parameter_groups(following) == self._parameter_groups(
                number
            )
            if held >= self.strategy.bucket or not same:
                updates.append(self._close_bucket(stage, bucket, held, [ended[n] for n in bucket]))
                bucket, held = [], 0.0
        return updates

    def _close_bucket(self, stage: int, bucket: list[int], nbytes: float, waits: list[int]) -> int:
        names = [self.model.layers[n].name for n in bucket]
        name = names[0] if len(names) == 1 else f"{names[0]} … {names[-1]}"
        groups = self._parameter_groups(bucket[0])
        own = sum(self.own_parameters(n) for n in bucket)
        if len(groups[0]) > 1:
            collective = "reduce-scatter" if self.strategy.sharded else "all-reduce"
            call = Call(collective, groups, nbytes, "gradients")
            waits = [self._call(f"gradients {name}", call, stage, waits, -1)]
            own /= len(groups[0]) if self.strategy.sharded else 1
        seconds = self.device.seconds(*update_work(own, self.model.optimizer, self.precision), "fp32")
        return self.graph.compute("update", name, stage, seconds, waits, -1)

    def _seconds(self, work: Callable, number: int) -> float:
        """Time of a layer on one GPU, forward or backward, for its samples of a microbatch."""
        layer, layout = self.model.layers[number], self.strategy.layouts[number]
        operator, flops, nbytes = work(
            _expert_share(layer, layout.expert), self.strategy.samples(number), layout.tensor, self.precision
        )
        return self.device.seconds(operator, flops, nbytes, self.precision.arithmetic)


def _expert_share(layer: Layer, expert: int) -> Layer:
    """The layer as one GPU has it: some of its experts, for as many samples as they are sent."""
    if not layer.experts or expert == 1:
        return layer
    own = layer.experts // expert
    return replace(
        layer, parameters=layer.parameters // expert, experts=own, used=min(1.0, layer.used * expert)
    )


class _Prefetch:
    """Gathers of parameters that are sharded, issued one layer ahead of their use."""

    def __init__(self, builder: _Builder, stage: int, part: int):
        self._builder, self._stage, self._part = builder, stage, part
        self._ran: list[int] = []

    def before(self, number: int) -> list[int]:
        """The call after which a layer's parameters are there."""
        call = self._builder.gather(number)
        if call is None:
            return []
        name = f"gather {self._builder.model.layers[number].name}"
        return [self._builder._call(name, call, self._stage, self._ran[-2:-1], self._part)]

    def ran(self, number: int, task: int) -> None:
        """A layer is part of this task."""
        if self._builder.strategy.sharded and self._builder.model.layers[number].parameters:
            self._ran.append(task)


def one_forward_one_backward(stage: int, stages: int, parts: int) -> list[tuple[int, int]]:
    """Passes of a stage in order: (0, microbatch) forward, (1, microbatch) backward."""
    ahead = min(stages - stage - 1, parts)
    order = [(0, part) for part in range(ahead)]
    for part in range(parts - ahead):
        order += [(0, part + ahead), (1, part)]
    return order + [(1, part) for part in range(parts - ahead, parts)]
