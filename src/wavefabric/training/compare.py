"""One model on several fabrics, with several collectives and numbers of GPUs, each beside ring and zero."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from wavefabric.errors import InputError, show
from wavefabric.fabric import AnyFabric, PhotonicFabric
from wavefabric.system.progress import Progress
from wavefabric.training.communication.algorithms import parse_collective
from wavefabric.training.communication.times import Communication, communication
from wavefabric.training.fabrics import check_size, fabric_for, gpu_bandwidth, ideal_switch
from wavefabric.training.iteration.engine import CallTimes
from wavefabric.training.iteration.simulate import Iteration, simulate, simulate_tasks
from wavefabric.training.iteration.task_graph import TaskGraph
from wavefabric.training.iteration.tasks import Workload

#: What so many GPUs do, on whose fabric calls take so long: a workload, or tasks from elsewhere.
MakeWork = Callable[[int, CallTimes], Workload | TaskGraph]


@dataclass(frozen=True)
class Case:
    """One simulation, and the same work with rings on an ideal switch.

    ``ring``: with rings on a switch that never blocks, of the same bandwidth a GPU and the same latency
    (`fabrics.ideal_switch`).
    """

    gpus: int  # that work
    label: str  # the fabric as it was asked for, the same for all numbers of GPUs
    fabric: AnyFabric = field(repr=False)
    collective: str  # as it was asked for
    iteration: Iteration
    ring: Iteration = field(repr=False)
    #: What said how long calls take; None where communication is free.
    times: Communication | None = field(repr=False)

    @cached_property
    def algorithms(self) -> dict[str, Counter[str]]:
        """For each purpose of calls: which algorithms serve how many of them."""
        result: dict[str, Counter[str]] = {}
        for call in self.iteration.graph.call:
            if call is not None and self.times is not None:
                result.setdefault(call.purpose, Counter())[self.times.algorithm(call)] += 1
        return result

    @cached_property
    def left_out(self) -> dict[str, dict[str, str]]:
        """For each kind of call, such as ``"all-reduce of 8 GPUs"``: algorithms not compared, and why."""
        result: dict[str, dict[str, str]] = {}
        for call in self.iteration.graph.call:
            if call is not None and self.times is not None and (missing := self.times.left_out(call)):
                result.setdefault(f"{call.collective} of {len(call.groups[0])} GPUs", {}).update(missing)
        return result

    @property
    def ratio_to_ring(self) -> float:
        """Throughput over that with rings on an ideal switch."""
        return self.ring.seconds / self.iteration.seconds if self.iteration.seconds else 1.0

    @property
    def ratio_to_free(self) -> float:
        """Throughput over that with free communication."""
        return self.iteration.free_seconds / self.iteration.seconds if self.iteration.seconds else 1.0

    @property
    def hidden_seconds(self) -> float:
        """Communication behind computation: s in which the fabric is busy, without what is exposed."""
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
    """Simulate every combination: by numbers of GPUs, then fabrics, then collectives, in the order given.

    Parameters
    ----------
    make : callable
        ``make(gpus, call_times)``: what so many GPUs do, such as
        ``lambda gpus, _: Workload(model, uniform(model, gpus), device, precision)``.
    gpus : sequence of int
    fabrics : sequence of str, Fabric or PhotonicFabric
        Text as of `fabrics.fabric_for`: ``"switch"`` has as many GPUs as work. Others need as many at least.
    collectives : sequence of str
        Of `communication.algorithms.CHOICES`, ``"zero"`` among them.
    policy, merge
        Of `simulate`.
    circuits : mapping, optional
        Options of `Communication` for the photonic ones of the fabrics, such as ``{"sharing": "paper"}``.
    progress : Progress, optional
        Counts the simulations.

    Raises
    ------
    InputError
        For what is unknown, given twice or does not fit; all lists are checked before the first simulation.
        For ``circuits`` where no fabric is photonic.

    Examples
    --------
    >>> from wavefabric.training.compare import compare
    >>> from wavefabric.training.gpu.device_model import DEVICES
    >>> from wavefabric.training.models import load_model
    >>> from wavefabric.training.gpu.precision import PRECISIONS
    >>> from wavefabric.training.strategies.strategy import uniform
    >>> from wavefabric.training.iteration.tasks import Workload
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
                # Unless the strategy was searched for, the work is the same for all.
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
    """Refuse lists that are empty or have something twice, and what is unknown or too small."""
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
    """What a fabric is called in a comparison."""
    return fabric if isinstance(fabric, str) else fabric.name


def _simulate(work: Workload | TaskGraph, times: CallTimes, policy: str, merge: bool) -> Iteration:
    if isinstance(work, TaskGraph):
        return simulate_tasks(work, times, policy)
    return simulate(work, times, policy, merge)
