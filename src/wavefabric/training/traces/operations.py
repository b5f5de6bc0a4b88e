"""FLOPs and bytes of compute tasks, from the layers that they are named after."""

from __future__ import annotations

from collections.abc import Iterator

from wavefabric.training.simulate import Iteration
from wavefabric.training.task_graph import TaskGraph
from wavefabric.training.tasks import Workload
from wavefabric.training.work import backward_work, forward_work, parameters_held, update_work

_NOTHING = (0.0, 0.0)


def operations(simulated: Iteration | TaskGraph) -> list[tuple[float, float]]:
    """FLOPs, and bytes read and written, of each task on one GPU; zeros where they are not known."""
    if isinstance(simulated, TaskGraph):
        return [_NOTHING] * len(simulated)
    graph, workload = simulated.graph, simulated.workload
    if workload is None:
        return [_NOTHING] * len(graph)
    return [_of_task(graph, workload, task) for task in range(len(graph))]


def _of_task(graph: TaskGraph, workload: Workload, task: int) -> tuple[float, float]:
    if graph.call[task] is not None:
        return _NOTHING
    total = [0.0, 0.0]
    for number in _layers(graph.name[task], workload, graph.worker[task]):
        for flops, nbytes in _works(graph.kind[task], workload, number):
            total[0] += flops
            total[1] += nbytes
    return total[0], total[1]


def _layers(name: str, workload: Workload, stage: int) -> list[int]:
    """Layers of a task: the one it is called, or from the first to the last in its name."""
    index = workload.model.index
    ends = [index[part] for part in name.split(" … ") if part in index]
    between = range(min(ends), max(ends) + 1) if ends else ()
    return [number for number in between if workload.strategy.stage[number] == stage]


def _works(kind: str, workload: Workload, number: int) -> Iterator[tuple[float, float]]:
    strategy, precision = workload.strategy, workload.precision
    layer, layout = workload.model.layers[number], strategy.layouts[number]
    if kind == "update":
        own = parameters_held(layer, layout.tensor, layout.expert)
        if strategy.sharded:
            own /= layout.data // (layout.expert if layer.experts else 1)
        yield update_work(own, workload.model.optimizer, precision)[1:]
        return
    given = layer, strategy.samples(number), layout.tensor, precision, layout.expert
    if kind == "forward" or strategy.recompute:
        yield forward_work(*given)[1:]
    if kind == "backward":
        yield backward_work(*given)[1:]
