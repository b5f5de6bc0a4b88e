"""Build the tasks of one training iteration from a model and a strategy: passes of layers, calls, updates.

Each pipeline stage executes the forward and backward passes of the microbatches in the order of the 1F1B
schedule (PipeDream-Flush, Narayanan et al. 2021, arXiv:2006.09503): stage s of p begins with p − s − 1
forward passes, then forward and backward passes alternate. With several chunks of layers per stage the
schedule is interleaved (Megatron-LM, arXiv:2104.04473, section 2.2).
"""

from collections.abc import Sequence

from wavefabric.base.errors import InputError
from wavefabric.training.iteration.faults import with_stragglers
from wavefabric.training.iteration.layer_calls import Transfer
from wavefabric.training.iteration.task_graph import Call, TaskGraph
from wavefabric.training.iteration.workload import LayerPass, ModelPasses, Workload
from wavefabric.training.strategies.strategy import Strategy

FORWARD, BACKWARD = 0, 1
#: Maximum number of tasks of all microbatches, to limit time and memory.
MOST_TASKS = 2 * 10**6


def build_tasks(workload: Workload, merge: bool = True) -> TaskGraph:
    """Build the tasks of one training iteration.

    ``merge`` combines consecutive layers between which nothing is sent or awaited into one task, which gives
    the same times with fewer tasks.
    """
    common = ModelPasses(workload)
    parts, stages = workload.strategy.microbatches, workload.strategy.stages
    # GPUs have no memory for unsharded gradients, so every microbatch reduces its gradients.
    sharded = workload.strategy.zero >= 2
    last = _Microbatch(common, merge, reduces=True)
    others = last if sharded or parts == 1 else _Microbatch(common, merge, reduces=False)
    if parts > (most := 1 + (MOST_TASKS - len(last.graph)) // len(others.graph)):
        raise InputError(f"microbatches: {parts} given; allowed: up to {most} of {workload.model.name}")
    copies = [others] * (parts - 1) + [last]
    graph = TaskGraph(stages, workload.device.overlap_slowdown)
    offsets = [graph.append(copy.graph, part) for part, copy in enumerate(copies)]
    for stage in range(stages):
        passes = [
            (offsets[part], copies[part].passes[direction, chunk])
            for direction, part, chunk in pipeline_order(stage, workload.strategy)
        ]
        program = _program(graph, passes)
        reducing = range(parts) if sharded else (parts - 1,)
        for chunk in reversed(workload.strategy.chunks_of(stage)):
            for number, bucket in enumerate(common.calls.buckets[chunk]):
                waits = [offsets[p] + task for p in reducing for task in copies[p].reductions[chunk, number]]
                name, update = common.names(bucket.layers), common.update(bucket)
                program.append(graph.compute("update", name, stage, update.seconds, waits))
                graph.operations[-1] = update.flops, update.nbytes
                if bucket.gather is not None:
                    ports = workload.strategy.stages_of(bucket.gather.gpus)
                    graph.communicate(f"gather {name}", bucket.gather, ports, program[-1:])
        graph.program.append(program)
    if not workload.stragglers:
        return graph
    return with_stragglers(graph, workload.gpus_of_stages, dict(workload.stragglers))


def pipeline_order(
    stage: int, strategy: Strategy, microbatches: int | None = None
) -> list[tuple[int, int, int]]:
    """Return the passes that the pipeline stage ``stage`` executes, in order.

    A pass is (direction, microbatch, chunk of layers), with direction 0 for forward and 1 for backward. First
    come some forward passes, then forward and backward passes alternate. With interleaving, stage s of p
    takes p microbatches at a time through each of its v chunks, and first come 2(p − s − 1) + (v − 1)p
    forward passes. ``microbatches`` defaults to the number in ``strategy``.
    """
    p, v, parts = strategy.stages, strategy.interleave, microbatches or strategy.microbatches
    ahead = p - stage - 1 if v == 1 else 2 * (p - stage - 1) + (v - 1) * p
    count = parts * v
    turns = [(k // (p * v) * p + k % p, k % (p * v) // p) if v > 1 else (k, 0) for k in range(count)]
    forward = [(FORWARD, part, stage + turn * p) for part, turn in turns]
    backward = [(BACKWARD, part, stage + (v - 1 - turn) * p) for part, turn in turns]
    ahead = min(ahead, count)
    steady = zip(forward[ahead:], backward, strict=False)
    return [*forward[:ahead], *(each for pair in steady for each in pair), *backward[count - ahead :]]


def _program(graph: TaskGraph, passes: "Sequence[tuple[int, _Phase]]") -> list[int]:
    """Return the numbers of a worker's compute tasks, in order; set when its gathers begin.

    ``passes``: pairs (offset, pass) in order; offset + task number in the pass is the task number in
    ``graph``. A gather of sharded parameters may begin when the task that uses the previously gathered
    parameters begins. This function therefore changes ``graph``: the gather waits for the end of the task
    before that one.
    """
    program: list[int] = []
    before = 0
    for offset, phase in passes:
        begin = len(program)
        program += [offset + task for task in phase.tasks]
        for gather, position in phase.gathers:
            if before:
                graph.waits[offset + gather] = [program[before - 1]]
            before = begin + position
    return program


class _Phase:
    """Collects a worker's compute tasks of one pass over a microbatch; merges layers if possible."""

    def __init__(self, graph: TaskGraph, kind: str, worker: int, merge: bool):
        self._graph, self._kind, self._worker, self._merge = graph, kind, worker, merge
        self.tasks: list[int] = []
        #: Gathers of parameters, each with the index in `tasks` of the task that uses them.
        self.gathers: list[tuple[int, int]] = []
        self._open = False

    def layer(self, name: str, own: LayerPass, waits: Sequence[int]) -> int:
        """Add a layer that runs after the tasks ``waits``; return the number of the task that contains it."""
        if self._merge and self._open and not waits:
            task = self.tasks[-1]
            self._graph.seconds[task] += own.seconds
            flops, nbytes = self._graph.operations[task]
            self._graph.operations[task] = flops + own.flops, nbytes + own.nbytes
            first = self._graph.name[task].split(" … ")[0]
            self._graph.name[task] = f"{first} … {name}"
            return task
        task = self._graph.compute(self._kind, name, self._worker, own.seconds, waits)
        self._graph.operations[task] = own.flops, own.nbytes
        self.tasks.append(task)
        self._open = True
        return task

    def close(self) -> None:
        """Make the next layer a new task, because a call or task waits for the layers so far."""
        self._open = False


class _Microbatch:
    """Builds the tasks of one microbatch: forward through all pipeline stages, and backward."""

    def __init__(self, common: ModelPasses, merge: bool, reduces: bool):
        self._common, self._merge, self._reduces = common, merge, reduces
        self.graph = TaskGraph(common.strategy.stages)
        self.passes: dict[tuple[int, int], _Phase] = {}  # by direction and chunk
        #: Tasks after which a bucket's gradients are complete, by chunk and number of the bucket.
        self.reductions: dict[tuple[int, int], list[int]] = {}
        layers = range(len(common.model.layers))
        #: By (producer, consumer): the task after which the output is on the consumer's GPUs.
        self._arrived: dict[tuple[int, int], int] = {}
        #: Task after which a layer's output is complete on the GPUs that computed it.
        self._output = [-1] * len(layers)
        #: Calls that the gradient of a layer's output waits for.
        self._returned: list[list[int]] = [[] for _ in layers]
        #: Tasks after which a layer's input gradient is on its experts' GPUs, and on the GPUs of its samples.
        self._gradient = [(-1, -1)] * len(layers)
        chunks = range(common.strategy.chunks)
        for chunk in chunks:
            self._forward(chunk)
        for chunk in reversed(chunks):
            self._backward(chunk)

    def _phase(self, direction: int, chunk: int) -> _Phase:
        worker, kind = chunk % self._common.strategy.stages, ("forward", "backward")[direction]
        return self.passes.setdefault((direction, chunk), _Phase(self.graph, kind, worker, self._merge))

    def _forward(self, chunk: int) -> None:
        phase = self._phase(FORWARD, chunk)
        for block in self._common.blocks[chunk]:
            for number in block:
                self._forward_layer(phase, number, [])

    def _forward_layer(
        self, phase: _Phase, number: int, waits: list[int], takers: set[int] | None = None
    ) -> None:
        """Add tasks that run layer ``number`` forward and send its output to the layers that read it.

        ``waits``: tasks that must end before. ``takers``: layers that get the output; None: all that read it.
        """
        common, calls = self._common, self._common.calls.layers[number]
        name = common.model.layers[number].name
        if calls.dispatch is not None:
            phase.close()
            ready = waits + [self._arrived[producer, number] for producer in calls.dispatched]
            waits = [self._call(f"dispatch {name}", calls.dispatch, ready)]
        waits = waits + self._inputs(number)
        task, _ = self._attend(phase, number, FORWARD, waits, True)
        transfers = [t for t in calls.transfers if takers is None or not takers.isdisjoint(t.consumers)]
        if calls.total is not None and (takers is None or transfers):
            phase.close()
            task = self._call(f"all-reduce {name}", calls.total, [task])
        if number in common.dispatched_after:
            phase.close()
        self._output[number] = task
        for transfer in transfers:
            done = self._chain(phase, f"{name} forward", transfer.forward, [task])
            for consumer in transfer.consumers:
                self._arrived[number, consumer] = task if done is None else done

    def _inputs(self, number: int) -> list[int]:
        """Return the tasks of calls that bring a layer's inputs from other GPUs, except calls to experts."""
        model, dispatched = self._common.model, self._common.calls.layers[number].dispatched
        producers = [model.index[name] for name in model.layers[number].inputs]
        tasks = [self._arrived[producer, number] for producer in producers if producer not in dispatched]
        return [task for task in tasks if self._is_call(task)]

    def _backward(self, chunk: int) -> None:
        phase = self._phase(BACKWARD, chunk)
        for block in reversed(self._common.blocks[chunk]):
            if self._common.strategy.recompute:
                waits = self._gradient_waits(block[-1])
                for number in block:
                    self._forward_layer(phase, number, waits if number == block[0] else [], set(block))
            for number in reversed(block):
                self._backward_layer(phase, chunk, number)

    def _gradient_waits(self, number: int) -> list[int]:
        """Return the tasks of the calls after which the gradient of a layer's output is ready."""
        if self._common.calls.layers[number].transfers:
            return self._returned[number]
        output = self._output[number]  # a layer without consumers, such as the loss
        return [output] if self._is_call(output) else []

    def _backward_layer(self, phase: _Phase, chunk: int, number: int) -> None:
        common, calls = self._common, self._common.calls.layers[number]
        name = common.model.layers[number].name
        waits = self._gradient_waits(number)
        # Parameters gathered to recompute a block stay until its backward pass has ended.
        gathers = not common.strategy.recompute
        if calls.regather is not None and not common.strategy.recompute:
            # The gather overlaps with the product for the gradient of the inputs; no task of this pass waits.
            phase.close()
            self._call(f"gather inputs of {name}", calls.regather, waits or phase.tasks[-1:])
        task, done = self._attend(phase, number, BACKWARD, waits, gathers)
        if calls.dispatch is not None:
            phase.close()
            done = self._call(f"dispatch {name} backward", calls.dispatch, [task])
        self._gradient[number] = task, done
        for producer, transfer in common.returns[number]:
            self._return(phase, producer, transfer)
        if self._reduces and number in common.bucket_after:
            phase.close()
            bucket = common.calls.buckets[chunk][common.bucket_after[number]]
            name = f"gradients {common.names(bucket.layers)}"
            done = [self._call(name, call, [task]) for call in bucket.calls]
            self.reductions[chunk, common.bucket_after[number]] = done or [task]

    def _return(self, phase: _Phase, producer: int, transfer: Transfer) -> None:
        """Add calls that send a gradient from the consumers of an output back to the layer ``producer``."""
        ready = [self._gradient[consumer][not transfer.routed] for consumer in transfer.consumers]
        # The first consumer runs last in the backward pass, so of this worker's tasks only that one matters.
        ready = ready[:1] + [task for task in ready[1:] if self._is_call(task)]
        name = f"{self._common.model.layers[producer].name} backward"
        done = self._chain(phase, name, transfer.backward, ready)
        self._returned[producer] += [t for t in ready if self._is_call(t)] if done is None else [done]

    def _run(self, phase: _Phase, number: int, own: LayerPass, waits: list[int], gathers: bool) -> int:
        """Add the compute task of a layer, and before it a gather of the layer's parameters if needed.

        ``own``: time and work of the layer's pass. ``waits``: tasks that must end before. ``gathers``:
        whether to gather parameters that are sharded; False if the GPU has them already.
        """
        gather = self._common.calls.layers[number].gather if gathers else None
        name = self._common.model.layers[number].name
        if gather is None:
            return phase.layer(name, own, waits)
        gathered = self._call(f"gather {name}", gather, [])
        task = phase.layer(name, own, [*waits, gathered])
        phase.gathers.append((gathered, len(phase.tasks) - 1))
        return task

    def _attend(
        self, phase: _Phase, number: int, direction: int, waits: list[int], gathers: bool
    ) -> tuple[int, int]:
        """Add a pass of a layer as `_run` does, with calls for keys and values (`ContextCalls`) if any.

        Returns the last compute task, and the task after which the gradients of the inputs are complete.
        """
        own = (self._common.forward, self._common.backward)[direction][number]
        context = self._common.calls.layers[number].context
        if context is None:
            task = self._run(phase, number, own, waits, gathers)
            return task, task
        name, keys, sums = self._common.model.layers[number].name, [*waits, *phase.tasks[-1:]], []
        phase.close()
        if context.parts == 1:
            waits = [*waits, self._call(f"gather keys and values of {name}", context.keys, keys)]
        tasks = [self._run(phase, number, own, waits, gathers)]
        for part in range(1, context.parts):
            # Two buffers: keys and values arrive while attention reads those before them.
            before = tasks[part - 2 : part - 1]
            keys = [self._call(f"pass keys and values of {name}", context.keys, [*keys, *before])]
            if direction == BACKWARD:
                sums = [self._call(f"pass gradients of {name}", context.gradients, [tasks[-1], *sums])]
            tasks.append(phase.layer(name, own, keys))
        if direction == BACKWARD:
            phase.close()
            sums = [self._call(f"sum gradients of {name}", context.gradients, [tasks[-1], *sums])]
        return tasks[-1], (sums or tasks)[-1]

    def _chain(self, phase: _Phase, name: str, calls: Sequence[Call], ready: list[int]) -> int | None:
        """Add ``calls`` one after the other, after the tasks ``ready``; return the last task, or None."""
        done = None
        for call in calls:
            phase.close()
            done = self._call(f"{call.collective} {name}", call, ready if done is None else [done])
        return done

    def _call(self, name: str, call: Call, waits: Sequence[int]) -> int:
        ports = self._common.strategy.stages_of(call.gpus)
        first, *others = self._common.calls.parted(call)
        done = self.graph.communicate(name, first, ports, waits)
        for other in others:  # may overlap with the next layer; a GPU is in one call at a time
            self.graph.communicate(name, other, ports, [done])
        return done

    def _is_call(self, task: int) -> bool:
        return self.graph.worker[task] < 0
