"""Event simulation of tasks: a program for each worker, a queue of calls for the fabric.

A worker runs its compute tasks in their order, each when the tasks that it waits for have ended; while its
GPUs are in a call it may be slower (`TaskGraph.slowdown`). A call is
ready when those that it waits for have ended. On an electrical fabric it begins when no GPU of its workers is
in another call; on a photonic one the controller of all circuits executes one batch of calls after the other
(LUMORPH, arXiv:2310.04855, appendix C).
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Protocol

import numpy as np

from wavefabric.errors import InputError, choice, show
from wavefabric.training.iteration.task_graph import Call, TaskGraph

#: Orders in which ready calls are executed. ``batched``: those that a later layer waits for before gradients;
#: of either as many together as share no GPU, the first that became ready first. ``boundaries``: the same,
#: but gradients wait for the end of the next layer-to-layer transfer, or of the last backward pass.
#: ``in-order``: as they became ready, none before an earlier one of the same GPUs, and a controller executes
#: one at a time. ``end``: the same, but gradients wait until all layers are done.
POLICIES = ("batched", "boundaries", "in-order", "end")


class CallTimes(Protocol):
    """What the engine asks of a fabric."""

    @property
    def concurrent(self) -> bool:
        """Whether calls of disjoint GPUs need not be executed as one batch."""
        ...

    def seconds(self, calls: Sequence[Call]) -> float:
        """Time of calls of disjoint GPUs that begin together."""
        ...


class FreeCommunication:
    """Calls that take no time: what a faster fabric can gain at most."""

    concurrent = True
    description = "free communication"

    def seconds(self, calls: Sequence[Call]) -> float:
        """0 s."""
        return 0.0


@dataclass(frozen=True)
class Timeline:
    """When each task began and ended, s, and the task whose end let it begin (-1: none)."""

    begin: np.ndarray
    end: np.ndarray
    released_by: np.ndarray
    fabric_busy: float  # s in which at least one call is executed

    @property
    def seconds(self) -> float:
        """When the last task ends."""
        return float(self.end.max(initial=0.0))


def run(graph: TaskGraph, fabric: CallTimes, policy: str = "batched") -> Timeline:
    """When each task begins and ends.

    Ties are broken by the order in which tasks became ready, then by their numbers: the same input gives the
    same answer. `InputError` for an unknown policy, or tasks that wait for each other in a circle.
    """
    choice("policy", policy, POLICIES)
    return _Engine(graph, fabric, policy).run()


class _Engine:
    def __init__(self, graph: TaskGraph, fabric: CallTimes, policy: str):
        self.graph, self.fabric, self.policy = graph, fabric, policy
        self.ordered = policy in ("in-order", "end")
        count = len(graph)
        self.begin, self.end = [0.0] * count, [-1.0] * count
        self.released_by = [-1] * count
        self.missing = [len(waits) for waits in graph.waits]
        self.followers: list[list[int]] = [[] for _ in range(count)]
        for task, waits in enumerate(graph.waits):
            for other in waits:
                self.followers[other].append(task)
        self.events: list[tuple[float, int]] = []
        self.position = [0] * graph.workers  # in each worker's program
        self.last_on = [-1] * graph.workers  # the task that a worker ran last
        self.running = [False] * graph.workers
        self.last_call = [-1] * graph.workers  # the call that a worker's GPUs were in last
        self.calling = [False] * graph.workers
        self.last_batch = -1  # a call that the controller executed last
        self.in_flight = 0
        self.blocking: list[int] = []  # calls that are ready, in that order
        self.gradients: list[int] = []
        self.held: list[int] = []
        self.held_until: dict[int, int] = {}  # calls that were held, and the task whose end freed them
        self.changed = True  # whether more calls can begin than when the queues were looked at last
        self.alone = cache(lambda call: fabric.seconds([call]))
        self.layers_left = sum(kind in ("forward", "backward") for kind in graph.kind)
        self.busy, self.busy_from = 0.0, 0.0
        self.over = [False] * count

    def run(self) -> Timeline:
        for task, missing in enumerate(self.missing):
            if not missing and self.graph.call[task] is not None:
                self._call_ready(task)
        for worker in range(self.graph.workers):
            self._advance(worker, 0.0)
        self._start_calls(0.0)
        events = self.events
        while events:
            now = events[0][0]
            # All that ends now is over before anything new begins.
            touched: set[int] = set()
            while events and events[0][0] == now:
                task = heapq.heappop(events)[1]
                # The end of a task that was slowed down since, or sped up, comes again.
                if self.end[task] == now and not self.over[task]:
                    self._finish(task, touched)
            for worker in sorted(touched):
                self._advance(worker, now)
            self._start_calls(now)
        if -1.0 in self.end:
            stuck = self.graph.name[self.end.index(-1.0)]
            allowed = "tasks that do not wait for each other, each compute task in one program"
            raise InputError(f"tasks: {show(stuck)} never begins; allowed: {allowed}")
        return Timeline(np.array(self.begin), np.array(self.end), np.array(self.released_by), self.busy)

    def _start(self, task: int, now: float, seconds: float, before: int) -> None:
        """``before``: the task that used the same worker or fabric last."""
        end = self.end
        self.begin[task], end[task] = now, now + seconds
        if task in self.held_until:
            before = max(before, self.held_until[task], key=self._ended)
        for other in self.graph.waits[task]:
            if before < 0 or end[other] > end[before]:
                before = other
        self.released_by[task] = before
        heapq.heappush(self.events, (now + seconds, task))

    def _ended(self, task: int) -> float:
        return self.end[task] if task >= 0 else -1.0

    def _advance(self, worker: int, now: float) -> None:
        """Begin a worker's next task, if it can."""
        program, position = self.graph.program[worker], self.position[worker]
        if self.running[worker] or position == len(program) or self.missing[program[position]]:
            return
        self.running[worker] = True
        task = program[position]
        slowed = self.graph.slowdown if self.calling[worker] else 1.0
        self._start(task, now, slowed * self.graph.seconds[task], self.last_on[worker])

    def _set_calling(self, worker: int, calling: bool, now: float) -> None:
        """A worker's GPUs enter a call or leave it: what it computes goes on slower, or as before."""
        self.calling[worker] = calling
        if self.graph.slowdown != 1.0 and self.running[worker]:
            task = self.graph.program[worker][self.position[worker]]
            factor = self.graph.slowdown if calling else 1 / self.graph.slowdown
            self.end[task] = now + (self.end[task] - now) * factor
            heapq.heappush(self.events, (self.end[task], task))

    def _finish(self, task: int, touched: set[int]) -> None:
        self.over[task] = True
        workers = self.graph.worker
        worker = workers[task]
        if worker >= 0:
            self.running[worker] = False
            self.position[worker] += 1
            self.last_on[worker] = task
            touched.add(worker)
            self.layers_left -= self.graph.kind[task] != "update"
        else:
            self._call_over(task)
        missing = self.missing
        for other in self.followers[task]:
            missing[other] -= 1
            if not missing[other]:
                if workers[other] >= 0:
                    touched.add(workers[other])
                else:
                    self._call_ready(other)
        if self.held and not self.layers_left:
            self._release(task)

    def _call_ready(self, task: int) -> None:
        call = self.graph.call_of(task)
        self.changed = True
        if call.blocking or self.policy == "in-order":
            self.blocking.append(task)
        elif self.policy in ("end", "boundaries") and self.layers_left:
            self.held.append(task)
        else:
            self.gradients.append(task)

    def _release(self, by: int) -> None:
        """Gradients that were held may be reduced."""
        self.changed = True
        self.gradients += self.held
        self.held_until.update(dict.fromkeys(self.held, by))
        self.held = []

    def _call_over(self, task: int) -> None:
        call = self.graph.call_of(task)
        self.changed = True
        self.in_flight -= 1
        if not self.in_flight:
            self.busy += self.end[task] - self.busy_from
        self.last_batch = task
        for worker in self.graph.ports[task]:
            self._set_calling(worker, False, self.end[task])
            self.last_call[worker] = task
        if call.purpose == "layer-to-layer" and self.policy == "boundaries":
            self._release(task)

    def _start_calls(self, now: float) -> None:
        """Begin what can begin of the calls that are ready."""
        if not self.changed:
            return
        self.changed = False
        if self.fabric.concurrent:
            for queue in (self.blocking, self.gradients):
                calling = {worker for worker, busy in enumerate(self.calling) if busy}
                for task in self._disjoint(queue, calling):
                    earlier = (self.last_call[worker] for worker in self.graph.ports[task])
                    seconds = self.alone(self.graph.call_of(task))
                    self._begin_call(task, now, seconds, max(earlier, key=self._ended))
        elif not self.in_flight and (self.blocking or self.gradients):
            # The next calls of disjoint workers are one batch, which ends together.
            queue = self.blocking or self.gradients
            batch = [queue.pop(0)] if self.ordered else self._disjoint(queue, set())
            calls = list(map(self.graph.call_of, batch))
            seconds = self.alone(calls[0]) if len(batch) == 1 else self.fabric.seconds(calls)
            before = self.last_batch
            for task in batch:
                self._begin_call(task, now, seconds, before)

    def _disjoint(self, queue: list[int], taken: set[int]) -> list[int]:
        """Take from a queue the calls whose workers are in no other, and not waited for by an earlier one."""
        chosen: list[int] = []
        waiting: list[int] = []
        for position, task in enumerate(queue):
            if len(taken) == self.graph.workers:
                waiting += queue[position:]
                break
            ports = self.graph.ports[task]
            free = taken.isdisjoint(ports)
            (chosen if free else waiting).append(task)
            if free or self.ordered:
                taken.update(ports)
        queue[:] = waiting
        return chosen

    def _begin_call(self, task: int, now: float, seconds: float, before: int) -> None:
        if not self.in_flight:
            self.busy_from = now
        self.in_flight += 1
        for worker in self.graph.ports[task]:
            self._set_calling(worker, True, now)
        self._start(task, now, seconds, before)
