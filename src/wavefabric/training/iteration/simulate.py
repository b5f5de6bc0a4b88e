"""Simulate one training iteration on a fabric: total time, communication time, and bottleneck."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from wavefabric.training.iteration.engine import CallTimes, FreeCommunication, Timeline, run
from wavefabric.training.iteration.task_graph import TaskGraph
from wavefabric.training.iteration.tasks import build_tasks
from wavefabric.training.iteration.workload import Workload

#: Descriptions of the parts of a critical path that are not communication.
COMPUTATION = {"compute": "computation", "host": "work of the host"}


@dataclass(frozen=True)
class Iteration:
    """A simulated training iteration.

    Attributes
    ----------
    graph, timeline
        Tasks, and when each task ran.
    policy : str
        Order of calls, one of `engine.POLICIES`.
    workload : Workload or None
        The simulated model, strategy and device; None for tasks from another source, such as a trace.
    """

    graph: TaskGraph = field(repr=False)
    timeline: Timeline = field(repr=False)
    policy: str = "batched"
    workload: Workload | None = None

    @property
    def seconds(self) -> float:
        """Return the time of the iteration in s."""
        return self.timeline.seconds

    @cached_property
    def free_seconds(self) -> float:
        """Return the time in s of the same iteration with free communication."""
        return run(self.graph, FreeCommunication(), self.policy).seconds

    @property
    def samples_per_second(self) -> float:
        """Return the throughput in samples per second; without a workload, iterations per second."""
        return (self.workload.strategy.batch if self.workload else 1) / self.seconds

    @property
    def model_flops_per_second(self) -> float:
        """Return the model's FLOP/s per GPU, without recomputation; 0 without a workload."""
        if self.workload is None:
            return 0.0
        strategy = self.workload.strategy
        return self.workload.model.training_flops * strategy.batch / (self.seconds * strategy.gpus)

    @property
    def model_flops_utilisation(self) -> float:
        """Return `model_flops_per_second` over the device's peak (MFU, arXiv:2204.02311, appendix B)."""
        if self.workload is None:
            return 0.0
        return self.model_flops_per_second / self.workload.device.peak[self.workload.precision.arithmetic]

    @property
    def exposed_seconds(self) -> float:
        """Return the time in s by which communication prolongs the iteration (not hidden by computation)."""
        return self.seconds - self.free_seconds

    @cached_property
    def compute_seconds(self) -> np.ndarray:
        """Return the time in s that each worker computes, shape (workers,)."""
        busy = np.zeros(self.graph.workers)
        for worker, seconds in zip(self.graph.worker, self.graph.seconds, strict=True):
            if worker >= 0:
                busy[worker] += seconds
        return busy

    @property
    def on_gpus(self) -> np.ndarray:
        """Return whether each worker is a set of GPUs, shape (workers,); CPU workers of traces are not."""
        gpus = self.graph.gpus
        return np.array([bool(each) for each in gpus] if gpus else [True] * self.graph.workers, bool)

    @property
    def gpu_seconds(self) -> np.ndarray:
        """Return the `compute_seconds` of the workers that are GPUs (`on_gpus`), shape (GPU workers,)."""
        return self.compute_seconds[self.on_gpus]

    @property
    def idle(self) -> float:
        """Return the mean fraction of time that GPUs are idle in the iteration with free communication."""
        if not self.free_seconds or not self.gpu_seconds.size:
            return 0.0
        counts = [len(gpus) for gpus in self.graph.gpus if gpus] or None
        return 1.0 - float(np.average(self.gpu_seconds, weights=counts)) / self.free_seconds

    @property
    def pipelined(self) -> bool:
        """Return whether workers send activations to each other, as the stages of a pipeline do."""
        calls = zip(self.graph.ports, self.graph.call, strict=True)
        return any(len(ports) > 1 for ports, call in calls if call and call.purpose == "layer-to-layer")

    @property
    def bubble(self) -> float:
        """Return the idle fraction (`idle`) due to the pipeline; 0 without a pipeline."""
        return self.idle if self.pipelined else 0.0

    @cached_property
    def critical_path(self) -> tuple[int, ...]:
        """Return the tasks of the critical path: the end of each lets the next begin; the last ends last."""
        end, released_by = self.timeline.end, self.timeline.released_by
        path, task = [], int(end.argmax()) if end.size else -1
        while task >= 0:
            path.append(task)
            task = int(released_by[task])
        return tuple(reversed(path))

    @cached_property
    def critical_seconds(self) -> dict[str, float]:
        """Return a dictionary from kind of task to time in s on the critical path, largest first.

        Kinds are ``"compute"`` (on GPUs), ``"host"`` (on CPUs), and for calls their purposes.
        """
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
        """Return the kind of task with most time on the critical path, and its fraction of the total time."""
        what, seconds = next(iter(self.critical_seconds.items()), ("nothing", 0.0))
        return what, seconds / self.seconds if self.seconds else 0.0

    @property
    def bound_by(self) -> str:
        """Return the bottleneck in words: the kind of task with most time on the critical path."""
        what, fraction = self.most_critical
        words = {**COMPUTATION, "layer-to-layer": "layer-to-layer transfers"}
        return f"{words.get(what, f'communication of {what}')}, {fraction:.0%} of the critical path"

    @cached_property
    def call_bytes(self) -> dict[str, list[float]]:
        """Return a dictionary from purpose of calls to the list of the bytes of each call (`Call.moved`)."""
        sizes: dict[str, list[float]] = {}
        for call in self.graph.call:
            if call is not None:
                sizes.setdefault(call.purpose, []).append(call.moved)
        return sizes

    def communication(self) -> dict[str, tuple[int, float]]:
        """Return a dictionary from purpose of calls to (number of calls, their bytes in total)."""
        return {purpose: (len(sizes), sum(sizes)) for purpose, sizes in self.call_bytes.items()}


def simulate(workload: Workload, fabric: CallTimes, policy: str = "batched", merge: bool = True) -> Iteration:
    """Simulate one training iteration of ``workload`` on ``fabric``.

    Parameters
    ----------
    fabric : CallTimes
        Times of calls: `wavefabric.training.communication.Communication` or `FreeCommunication`.
    policy : str
        Order of calls, one of `engine.POLICIES`.
    merge : bool
        Combine consecutive layers without communication between them into one task. False: one task per
        layer, such as for pictures.

    Raises
    ------
    InputError
        If the policy is unknown or the fabric has too few GPUs.
    """
    return simulate_tasks(build_tasks(workload, merge), fabric, policy, workload)


def simulate_tasks(
    graph: TaskGraph, fabric: CallTimes, policy: str = "batched", workload: Workload | None = None
) -> Iteration:
    """Simulate the tasks of ``graph``, built from ``workload``, a trace, or a step of `wave_steps`."""
    return Iteration(graph, run(graph, fabric, policy), policy, workload)
