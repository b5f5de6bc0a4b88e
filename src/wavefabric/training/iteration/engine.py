"""Simulate the tasks of an iteration: workers run programs of compute tasks, the fabric runs queued calls.

A worker represents GPUs that do the same. It runs its compute tasks in order, each after the tasks that it
waits for, and may be slower while its GPUs are in a call (`TaskGraph.slowdown`). A call is ready when the
tasks that it waits for have ended. On an electrical fabric a ready call begins when none of its workers is in
another call. On a photonic fabric one controller of all circuits executes one batch of calls after the other
(LUMORPH, arXiv:2310.04855, appendix C).
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Protocol

import numpy as np

from wavefabric.base.errors import InputError, choice, show
from wavefabric.training.iteration.task_graph import Call, TaskGraph

#: Orders in which ready calls are executed. ``batched``: calls that a layer waits for before gradient calls,
#: in the order in which calls became ready, as many together as share no GPU. ``boundaries``: the same, but
#: gradients wait for the end of the next layer-to-layer transfer, or of the last backward pass. ``in-order``:
#: in the order in which calls became ready, never before an earlier call of the same GPUs; a controller runs
#: one call at a time. ``end``: like ``in-order``, but gradients wait until all layers are done.
POLICIES = ("batched", "boundaries", "in-order", "end")


class CallTimes(Protocol):
    """Protocol of objects that compute the time of communication calls on a fabric."""

    @property
    def concurrent(self) -> bool:
        """Return whether calls of disjoint GPUs run independently; if not, they run together in batches."""
        ...

    def seconds(self, calls: Sequence[Call]) -> float:
        """Return the time in s that ``calls`` take if they begin together; no GPU is in two of them."""
        ...


class FreeCommunication:
    """Communication in which calls take no time: the upper bound for the gain from a faster fabric."""

    concurrent = True
    description = "free communication"

    def seconds(self, calls: Sequence[Call]) -> float:
        """Return 0 s, the time of any calls."""
        return 0.0


@dataclass(frozen=True)
class Timeline:
    """Holds begin and end of each task in s, and the number of the task that let it begin (-1: none)."""

    begin: np.ndarray
    end: np.ndarray
    released_by: np.ndarray
    fabric_busy: float  # time in s in which at least one call is executed

    @property
    def seconds(self) -> float:
        """Return the time in s at which the last task ends."""
        return float(self.end.max(initial=0.0))


def run(graph: TaskGraph, fabric: CallTimes, policy: str = "batched") -> Timeline:
    """Simulate ``graph`` on ``fabric`` and return when each task begins and ends.

    ``policy``: the order of calls, one of `POLICIES`. Ties are broken by the order in which tasks became
    ready, then by task number, so results are reproducible. Raises `InputError` for an unknown policy, or if
    tasks wait for each other in a cycle.
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
        self.position = [0] * graph.workers  # next index in each worker's program
        self.last_on = [-1] * graph.workers  # the task that a worker ran last
        self.running = [False] * graph.workers
        self.last_call = [-1] * graph.workers  # the call that a worker's GPUs were in last
        self.calling = [False] * graph.workers
        self.last_batch = -1  # a call that the controller executed last
        self.in_flight = 0
        self.blocking: list[int] = []  # ready calls, in the order in which they became ready
        self.gradients: list[int] = []
        self.held: list[int] = []
        self.held_until: dict[int, int] = {}  # task whose end let deferred gradient calls begin, by call
        self.changed = True  # whether more calls may begin than at the last check of the queues
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
            # All tasks that end now are finished before any new task begins.
            touched: set[int] = set()
            while events and events[0][0] == now:
                task = heapq.heappop(events)[1]
                # A task whose speed has changed has another event, at its new end.
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
        """Record the start of ``task``; ``before``: task that last used the same worker or fabric, or -1."""
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
        """Start the next compute task of ``worker`` if the worker is idle and the task waits for nothing."""
        program, position = self.graph.program[worker], self.position[worker]
        if self.running[worker] or position == len(program) or self.missing[program[position]]:
            return
        self.running[worker] = True
        task = program[position]
        slowed = self.graph.slowdown if self.calling[worker] else 1.0
        self._start(task, now, slowed * self.graph.seconds[task], self.last_on[worker])

    def _set_calling(self, worker: int, calling: bool, now: float) -> None:
        """Mark that ``worker`` enters or leaves a call, which changes the speed of its compute task."""
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
        """Allow the deferred gradient calls to begin, because task ``by`` has ended."""
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
        """Start all ready calls that can begin at time ``now``."""
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
        """Remove the calls from ``queue`` that can run together, and return them.

        No worker is in two of the calls. ``taken``: workers that are busy; the function adds the workers of
        the calls. With the policies ``in-order`` and ``end``, no call overtakes an earlier call of the same
        workers.
        """
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
