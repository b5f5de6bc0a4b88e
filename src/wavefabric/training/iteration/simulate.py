"""One training iteration on a fabric: how long it takes, what of it is communication, and what bounds it."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from wavefabric.training.iteration.engine import CallTimes, FreeCommunication, Timeline, run
from wavefabric.training.iteration.task_graph import TaskGraph
from wavefabric.training.iteration.tasks import Workload, build_tasks

#: What is no communication on a critical path, in words.
COMPUTATION = {"compute": "computation", "host": "work of the host"}


@dataclass(frozen=True)
class Iteration:
    """A simulated iteration.

    Attributes
    ----------
    graph, timeline
        Tasks, and when each ran.
    policy : str
        Order of calls, of `engine.POLICIES`.
    workload : Workload or None
        What it is an iteration of; None of tasks from elsewhere.
    """

    graph: TaskGraph = field(repr=False)
    timeline: Timeline = field(repr=False)
    policy: str = "batched"
    workload: Workload | None = None

    @property
    def seconds(self) -> float:
        """Of the iteration."""
        return self.timeline.seconds

    @cached_property
    def free_seconds(self) -> float:
        """The same iteration with free communication, s."""
        return run(self.graph, FreeCommunication(), self.policy).seconds

    @property
    def samples_per_second(self) -> float:
        """Throughput; iterations a second of tasks from elsewhere."""
        return (self.workload.strategy.batch if self.workload else 1) / self.seconds

    @property
    def model_flops_per_second(self) -> float:
        """FLOP/s a GPU of what the model asks for: recomputation is none of it; 0 of tasks from elsewhere."""
        if self.workload is None:
            return 0.0
        strategy = self.workload.strategy
        return self.workload.model.training_flops * strategy.batch / (self.seconds * strategy.gpus)

    @property
    def model_flops_utilisation(self) -> float:
        """The same over the device's peak in the precision used (MFU, arXiv:2204.02311, appendix B)."""
        if self.workload is None:
            return 0.0
        return self.model_flops_per_second / self.workload.device.peak[self.workload.precision.arithmetic]

    @property
    def exposed_seconds(self) -> float:
        """What communication adds to the iteration: the rest is hidden behind computation."""
        return self.seconds - self.free_seconds

    @cached_property
    def compute_seconds(self) -> np.ndarray:
        """Time in which each worker computes, s, shape (workers,)."""
        busy = np.zeros(self.graph.workers)
        for worker, seconds in zip(self.graph.worker, self.graph.seconds, strict=True):
            if worker >= 0:
                busy[worker] += seconds
        return busy

    @property
    def on_gpus(self) -> np.ndarray:
        """Whether each worker is GPUs, shape (workers,): lanes of hosts, which traces have, are none."""
        gpus = self.graph.gpus
        return np.array([bool(each) for each in gpus] if gpus else [True] * self.graph.workers, bool)

    @property
    def gpu_seconds(self) -> np.ndarray:
        """Time in which each worker that is GPUs computes, s."""
        return self.compute_seconds[self.on_gpus]

    @property
    def idle(self) -> float:
        """Share of an iteration with free communication in which the average GPU does not compute."""
        if not self.free_seconds or not self.gpu_seconds.size:
            return 0.0
        counts = [len(gpus) for gpus in self.graph.gpus if gpus] or None
        return 1.0 - float(np.average(self.gpu_seconds, weights=counts)) / self.free_seconds

    @property
    def pipelined(self) -> bool:
        """Whether the GPUs of several workers hand activations to one another, as stages of a pipeline do."""
        calls = zip(self.graph.ports, self.graph.call, strict=True)
        return any(len(ports) > 1 for ports, call in calls if call and call.purpose == "layer-to-layer")

    @property
    def bubble(self) -> float:
        """`idle` where there is a pipeline, else 0: GPUs that wait for their host wait for no other stage."""
        return self.idle if self.pipelined else 0.0

    @cached_property
    def critical_path(self) -> tuple[int, ...]:
        """Tasks of which each let the next begin, from the first to the one that ends last."""
        end, released_by = self.timeline.end, self.timeline.released_by
        path, task = [], int(end.argmax()) if end.size else -1
        while task >= 0:
            path.append(task)
            task = int(released_by[task])
        return tuple(reversed(path))

    @cached_property
    def critical_seconds(self) -> dict[str, float]:
        """s on the critical path: ``"compute"``, ``"host"``, or purposes of calls; the largest first."""
        result: dict[str, float] = {}
        on_gpus = self.on_gpus
        for task in self.critical_path:
            call = self.graph.call[task]
            own = "compute" if on_gpus[self.graph.worker[task]] else "host"
            what = own if call is None else call.purpose
            spent = float(self.timeline.end[task] - self.timeline.begin[task])
            result[what] = result.get(what, 0.0) + spent
        return dict(sorted(result.items(), key=lambda item: -item[1]))

    @property
    def most_critical(self) -> tuple[str, float]:
        """What takes most of the critical path, and its share of it."""
        what, seconds = next(iter(self.critical_seconds.items()), ("nothing", 0.0))
        return what, seconds / self.seconds if self.seconds else 0.0

    @property
    def bound_by(self) -> str:
        """What takes most of the critical path, in words."""
        what, fraction = self.most_critical
        words = {**COMPUTATION, "layer-to-layer": "layer-to-layer transfers"}
        return f"{words.get(what, f'communication of {what}')}, {fraction:.0%} of the critical path"

    @cached_property
    def call_bytes(self) -> dict[str, list[float]]:
        """For each purpose of calls the B of each: `Call.bytes`, of messages all together."""
        sizes: dict[str, list[float]] = {}
        for call in self.graph.call:
            if call is not None:
                sizes.setdefault(call.purpose, []).append(call.moved)
        return sizes

    def communication(self) -> dict[str, tuple[int, float]]:
        """For each purpose of calls: how many there are, and B in all."""
        return {purpose: (len(sizes), sum(sizes)) for purpose, sizes in self.call_bytes.items()}


def simulate(workload: Workload, fabric: CallTimes, policy: str = "batched", merge: bool = True) -> Iteration:
    """Simulate one iteration.

    Parameters
    ----------
    workload : Workload
        Model, strategy, GPUs and precision.
    fabric : CallTimes
        `wavefabric.training.communication.Communication`, or `FreeCommunication`.
    policy : str
        Order of calls, of `engine.POLICIES`.
    merge : bool
        One task for consecutive layers between which nothing is sent; without it a task each, for pictures.

    Raises
    ------
    InputError
        For an unknown policy, or more GPUs than the fabric has.
    """
    return simulate_tasks(build_tasks(workload, merge), fabric, policy, workload)


def simulate_tasks(
    graph: TaskGraph, fabric: CallTimes, policy: str = "batched", workload: Workload | None = None
) -> Iteration:
    """Simulate tasks from elsewhere, such as a trace or a step of `wave_steps`."""
    return Iteration(graph, run(graph, fabric, policy), policy, workload)
