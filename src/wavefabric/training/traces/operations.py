"""FLOPs and bytes of compute tasks, from the layers that they are named after."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial
from math import isclose

from wavefabric.training.gpu.work import Work, backward_work, forward_work, update_work
from wavefabric.training.iteration.memory import layer_memory
from wavefabric.training.iteration.simulate import Iteration
from wavefabric.training.iteration.task_graph import TaskGraph
from wavefabric.training.iteration.tasks import Workload

_NOTHING = (0.0, 0.0)


def operations(simulated: Iteration | TaskGraph) -> list[tuple[float, float]]:
    """FLOPs, and bytes read and written, of each task on one GPU; zeros where they are not known.

    They are known where the layers that a task is named after take the time that the task does. Those of
    activations that are computed again are not, where one task does that and the backward pass.
    """
    if isinstance(simulated, TaskGraph):
        return [_NOTHING] * len(simulated)
    graph, workload = simulated.graph, simulated.workload
    if workload is None:
        return [_NOTHING] * len(graph)
    of_task = cache(partial(_of_task, workload))
    tasks = zip(graph.call, graph.kind, graph.name, graph.worker, graph.seconds, strict=True)
    return [of_task(*task) if call is None else _NOTHING for call, *task in tasks]


def _of_task(workload: Workload, kind: str, name: str, stage: int, seconds: float) -> tuple[float, float]:
    for works in _candidates(workload, kind, _layers(name, workload, stage)):
        arithmetic = "fp32" if kind == "update" else workload.precision.arithmetic
        if isclose(sum(workload.device.seconds(*work, arithmetic) for work in works), seconds, rel_tol=1e-9):
            return sum(work.flops for work in works), sum(work.nbytes for work in works)
    return _NOTHING


def _layers(name: str, workload: Workload, stage: int) -> list[int]:
    """Layers of a task: the one it is called, or from the first to the last in its name."""
    index = workload.model.index
    ends = [index[part] for part in name.split(" … ") if part in index]
    between = range(min(ends), max(ends) + 1) if ends else ()
    return [number for number in between if workload.strategy.stage[number] == stage]


def _candidates(workload: Workload, kind: str, numbers: list[int]) -> Iterator[list[Work]]:
    """What a task with these layers may do."""
    if kind == "update":
        own = sum(layer_memory(workload, number).parameters for number in numbers)
        yield [update_work(own, workload.model.optimizer, workload.precision)]
        return
    if kind == "backward":
        yield [workload.work(backward_work, number) for number in numbers]
    yield [workload.work(forward_work, number) for number in numbers]
