"""Simulate training on several fabrics, collectives and GPU counts, against rings and free communication."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from wavefabric.base.errors import InputError, show
from wavefabric.base.system.progress import Progress
from wavefabric.fabric import AnyFabric, PhotonicFabric
from wavefabric.training.communication.algorithms import parse_collective
from wavefabric.training.communication.times import Communication, communication
from wavefabric.training.fabrics import check_size, fabric_for, gpu_bandwidth, ideal_switch
from wavefabric.training.iteration.engine import CallTimes
from wavefabric.training.iteration.simulate import Iteration, simulate, simulate_tasks
from wavefabric.training.iteration.task_graph import TaskGraph
from wavefabric.training.iteration.workload import Workload

#: Function (number of GPUs, times of calls) that returns the work to simulate, such as a model or a trace.
MakeWork = Callable[[int, CallTimes], Workload | TaskGraph]


@dataclass(frozen=True)
class Case:
    """Holds the simulation of one combination of number of GPUs, fabric and collective.

    ``ring`` is the simulation of the same work with ring algorithms on an ideal switch. The ideal switch
    never blocks and has the bandwidth per GPU and the latency of ``fabric``.
    """

    gpus: int  # number of GPUs in use
    label: str  # the fabric as the user wrote it, the same for all numbers of GPUs
    fabric: AnyFabric = field(repr=False)
    collective: str  # as the user wrote it
    iteration: Iteration
    ring: Iteration = field(repr=False)
    #: Times of the calls; None if communication is free.
    times: Communication | None = field(repr=False)

    @cached_property
    def algorithms(self) -> dict[str, Counter[str]]:
        """Return, by purpose of calls, a dictionary from algorithm to the number of calls that it serves."""
        result: dict[str, Counter[str]] = {}
        for call in self.iteration.graph.call:
            if call is not None and self.times is not None:
                result.setdefault(call.purpose, Counter())[self.times.algorithm(call)] += 1
        return result

    @cached_property
    def left_out(self) -> dict[str, dict[str, str]]:
        """Return, by call (``"all-reduce of 8 GPUs"``), a dictionary from excluded algorithm to reason."""
        result: dict[str, dict[str, str]] = {}
        for call in self.iteration.graph.call:
            if call is not None and self.times is not None and (missing := self.times.left_out(call)):
                result.setdefault(f"{call.collective} of {len(call.groups[0])} GPUs", {}).update(missing)
        return result

    @property
    def ratio_to_ring(self) -> float:
        """Return the throughput divided by the throughput with rings on an ideal switch."""
        return self.ring.seconds / self.iteration.seconds if self.iteration.seconds else 1.0

    @property
    def ratio_to_free(self) -> float:
        """Return the throughput divided by the throughput with free communication."""
        return self.iteration.free_seconds / self.iteration.seconds if self.iteration.seconds else 1.0

    @property
    def hidden_seconds(self) -> float:
        """Return the time in s for which the fabric is busy without prolonging the iteration."""
        return max(0.0, self.iteration.timeline.fabric_busy - self.iteration.exposed_seconds)


def compare(
    make: MakeWork,
    gpus: Sequence[int],
    fabrics: Sequence[str | AnyFabric],
    collectives: Sequence[str],
    *,
    policy: str = "batched",
    merge: bool = True,
    circuits: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> list[Case]:
    """Simulate every combination of number of GPUs (outer loop), fabric and collective (inner loop).

    Parameters
    ----------
    make : callable
        ``make(gpus, call_times)`` returns the work of ``gpus`` GPUs, such as
        ``lambda gpus, _: Workload(model, uniform(model, gpus), device, precision)``.
    fabrics : sequence of str, Fabric or PhotonicFabric
        Names as for `fabrics.fabric_for` (``"switch"`` has any size), or fabrics with enough GPUs for all.
    collectives : sequence of str
        Names as for `communication.algorithms.parse_collective`; with ``"zero"`` communication is free.
    policy, merge
        As for `simulate`.
    circuits : mapping, optional
        Options of `Communication` for the photonic fabrics, such as ``{"sharing": "paper"}``.
    progress : Progress, optional
        Shows how many simulations are done.

    Raises
    ------
    InputError
        If an entry is unknown or repeated, a fabric has too few GPUs, or ``circuits`` is given without a
        photonic fabric; all lists are checked before the first simulation.

    Examples
    --------
    >>> from wavefabric.training.compare import compare
    >>> from wavefabric.training.gpu.device_model import DEVICES
    >>> from wavefabric.training.models import load_model
    >>> from wavefabric.training.gpu.precision import PRECISIONS
    >>> from wavefabric.training.strategies.strategy import uniform
    >>> from wavefabric.training.iteration.workload import Workload
    >>> bert = load_model("bert-large")
    >>> def make(gpus, call_times):
    ...     return Workload(bert, uniform(bert, gpus), DEVICES["h200"], PRECISIONS["tf32"])
    >>> for case in compare(make, [4], ["switch", "lightpath"], ["ring", "zero"]):
    ...     print(case.label, case.collective, case.fabric.name)
    switch ring switch:4
    switch zero switch:4
    lightpath ring lightpath:2x2
    lightpath zero lightpath:2x2
    """
    progress = progress or Progress()
    check_lists(gpus, fabrics, collectives)
    built = {
        (count, position): fabric_for(each, count) if isinstance(each, str) else check_size(each, count)
        for count in gpus
        for position, each in enumerate(fabrics)
    }
    if circuits and not any(isinstance(fabric, PhotonicFabric) for fabric in built.values()):
        name, value = next(iter(circuits.items()))
        actual = f"{show(value)} given with electrical fabrics alone"
        raise InputError(f"{name}: {actual}; allowed: with a photonic one")
    rings: dict[tuple[int, float, float], CallTimes] = {}
    cases: list[Case] = []
    progress.start(len(built) * len(collectives), "simulations")
    try:
        for (count, position), fabric in built.items():
            switch = count, gpu_bandwidth(fabric), fabric.alpha
            ring = rings.setdefault(switch, Communication(ideal_switch(*switch), "ring"))
            references: list[tuple[Workload | TaskGraph, Iteration]] = []
            for collective in collectives:
                photonic = isinstance(fabric, PhotonicFabric)
                times = communication(fabric, collective, **(circuits or {} if photonic else {}))
                work = make(count, times)
                iteration = _simulate(work, times, policy, merge)
                # The work depends on the collective only if the strategy is searched for.
                reference = next((ran for other, ran in references if work is other or work == other), None)
                if reference is None:
                    reference = _simulate(work, ring, policy, True)
                    references.append((work, reference))
                label = label_of(fabrics[position])
                known = times if isinstance(times, Communication) else None
                cases.append(Case(count, label, fabric, collective, iteration, reference, known))
                progress.update(len(cases))
    finally:
        progress.finish()
    return cases


def check_lists(gpus: Sequence[int], fabrics: Sequence[str | AnyFabric], collectives: Sequence[str]) -> None:
    """Raise `InputError` for empty lists, repeated entries, GPU counts below 1 and unknown collectives."""
    labels = [label_of(each) for each in fabrics]
    for key, inputs in (("gpus", gpus), ("fabric", labels), ("collective", collectives)):
        if not inputs:
            raise InputError(f"{key}: none given; allowed: at least one")
        for position, each in enumerate(inputs):
            if each in inputs[:position]:
                raise InputError(f"{key}: {each} given twice; allowed: each once")
    for count in gpus:
        if count < 1:
            raise InputError(f"gpus: {count} given; allowed: whole numbers from 1")
    for collective in collectives:
        parse_collective(collective)


def label_of(fabric: str | AnyFabric) -> str:
    """Return the label of a fabric in a comparison: the user's text, or the name of the fabric object."""
    return fabric if isinstance(fabric, str) else fabric.name


def _simulate(work: Workload | TaskGraph, times: CallTimes, policy: str, merge: bool) -> Iteration:
    if isinstance(work, TaskGraph):
        return simulate_tasks(work, times, policy)
    return simulate(work, times, policy, merge)
