"""An iteration in which nothing overlaps: every layer, call and update after the one before."""

from __future__ import annotations

from dataclasses import replace

from wavefabric.errors import InputError
from wavefabric.training.iteration.engine import CallTimes
from wavefabric.training.iteration.task_graph import TaskGraph
from wavefabric.training.iteration.tasks import Workload, build_tasks


def serial_seconds(workload: Workload, fabric: CallTimes) -> float:
    """Time of an iteration with nothing overlapped, s: all compute tasks and all calls, each call alone.

    It is what `engine.run` gives for `serialised` tasks. Of one stage no other order takes longer: whatever
    the policy, something runs at every moment until the end.
    """
    graph = build_tasks(workload)
    return sum(graph.seconds) + sum(fabric.seconds([call]) for call in graph.call if call is not None)


def serialised(graph: TaskGraph) -> TaskGraph:
    """The tasks of one pipeline stage, each waiting also for the one before it.

    Raises
    ------
    InputError
        For several stages, which work at the same time.
    """
    if graph.workers != 1:
        raise InputError(f"pipeline: {graph.workers} stages given; allowed: 1, for serial execution")
    waits = [[*waits, task - 1] if task else waits for task, waits in enumerate(graph.waits)]
    return replace(graph, waits=[list(dict.fromkeys(each)) for each in waits])
