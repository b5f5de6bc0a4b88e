"""Sort simulated tasks by their dependencies, and find the GPUs that each worker represents."""

import heapq
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeVar

from wavefabric.base.errors import InputError
from wavefabric.training.iteration.simulate import Iteration
from wavefabric.training.iteration.task_graph import TaskGraph
from wavefabric.training.iteration.workload import Workload

Task = TypeVar("Task")


def execution_order(graph: TaskGraph) -> list[int]:
    """Return all tasks in an order that respects their dependencies and the program of each worker.

    Raises `InputError` if tasks wait for each other in a cycle.
    """
    waits = {task: list(others) for task, others in enumerate(graph.waits)}
    for program in graph.program:
        for before, after in pairwise(program):
            waits[after].append(before)
    order = in_order(waits, lambda task: task)
    if len(order) < len(graph):
        stuck = graph.name[min(waits.keys() - set(order))]
        raise InputError(f"tasks: {stuck} never begins; allowed: tasks that do not wait for each other")
    return order


def in_order(waits: Mapping[Task, Sequence[Task]], priority: Callable[[Task], Any]) -> list[Task]:
    """Return tasks in topological order; of several ready tasks, the one of lowest ``priority`` comes first.

    ``waits`` is a dictionary from each task to the tasks that it waits for. Tasks in a cycle, or after a
    cycle, are left out.
    """
    missing = {task: len(others) for task, others in waits.items()}
    followers: dict[Task, list[Task]] = defaultdict(list)
    for task, others in waits.items():
        for other in others:
            followers[other].append(task)
    ready = [(priority(task), task) for task, count in missing.items() if not count]
    heapq.heapify(ready)
    order = []
    while ready:
        _, task = heapq.heappop(ready)
        order.append(task)
        for other in followers[task]:
            missing[other] -= 1
            if not missing[other]:
                heapq.heappush(ready, (priority(other), other))
    return order


def gpus_of_workers(
    graph: TaskGraph, workload: Workload | None = None, gpus: Sequence[Sequence[int]] | None = None
) -> list[tuple[int, ...]]:
    """Return the GPUs of each worker: ``gpus`` if given, else from the strategy or trace, else equal parts.

    Raises `InputError` if ``gpus`` does not match the workers or repeats a GPU, or if the number of GPUs is
    no multiple of the number of workers.
    """
    if gpus is not None:
        result = [tuple(members) for members in gpus]
        flat = [gpu for members in result for gpu in members]
        if len(result) != graph.workers or len(set(flat)) < len(flat) or not all(result):
            actual = f"gpus: {len(flat)} GPUs of {len(result)} workers given"
            allowed = f"each GPU once, one or more of each of {graph.workers} workers"
            raise InputError(f"{actual}; allowed: {allowed}")
        return result
    if workload is not None:
        return workload.gpus_of_stages
    if graph.gpus:
        return graph.gpus
    calls = (call for call in graph.call if call is not None)
    last = max((gpu for call in calls for gpu in call.gpus), default=graph.workers - 1)
    each, left = divmod(last + 1, graph.workers)
    if left:
        actual = f"gpus: {last + 1} GPUs of {graph.workers} workers, none given"
        raise InputError(f"{actual}; allowed: the GPUs of each worker")
    return [tuple(range(worker * each, (worker + 1) * each)) for worker in range(graph.workers)]


def worker_names(iteration: Iteration) -> list[str]:
    """Return a label for each worker, such as ``stage 1, GPUs 4-7``, with the factors of slow GPUs."""
    if iteration.workload is None:
        names = [f"GPUs {ranges(gpus)}" if gpus else "CPU" for gpus in iteration.graph.gpus]
        return names or [f"worker {number}" for number in range(iteration.graph.workers)]
    slow = dict(iteration.workload.stragglers)
    words = [
        f"GPU{'s' * (len(gpus) > 1)} {ranges(gpus)}"
        + "".join(f", {gpu}: {slow[gpu]:g} x" for gpu in sorted(slow.keys() & set(gpus))[:2])
        for gpus in gpus_of_workers(iteration.graph, iteration.workload)
    ]
    return words if len(words) == 1 else [f"stage {number}, {each}" for number, each in enumerate(words)]


def ranges(numbers: Sequence[int]) -> str:
    """Return GPU numbers as short text: ``0-7``, ``0-12 by 4``, ``0,3,4``.

    Examples
    --------
    >>> ranges([0, 1, 2, 3]), ranges([0, 4, 8]), ranges([5]), ranges([0, 3, 4])
    ('0-3', '0-8 by 4', '5', '0,3,4')
    """
    if len(numbers) > 2:
        step = numbers[1] - numbers[0]
        if step > 0 and list(numbers) == list(range(numbers[0], numbers[-1] + 1, step)):
            return f"{numbers[0]}-{numbers[-1]}" + (f" by {step}" if step > 1 else "")
    return ",".join(map(str, numbers))
