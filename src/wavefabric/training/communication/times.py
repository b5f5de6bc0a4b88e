"""Compute how long communication calls take on a fabric, from verified schedules and checked circuits."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

from wavefabric.base.errors import InputError
from wavefabric.collectives.candidates import Choice
from wavefabric.collectives.schedule import Schedule
from wavefabric.fabric.candidates import runnable
from wavefabric.fabric.cost_models.cost import AnyFabric, Cost, cost, model_for
from wavefabric.fabric.electrical.fabric import Fabric
from wavefabric.fabric.photonic.check import check_plan
from wavefabric.fabric.photonic.circuit_plan import CircuitPlan
from wavefabric.fabric.photonic.fabric import PhotonicFabric
from wavefabric.fabric.photonic.planning import plan_circuits
from wavefabric.training.communication import algorithms
from wavefabric.training.communication.affine_time import (
    LARGE,
    NOTHING,
    AffineTime,
    CallTime,
    batch_time,
    tangents,
)
from wavefabric.training.communication.algorithms import Built
from wavefabric.training.communication.combined_schedules import Part, combined, common_unit
from wavefabric.training.communication.searched import SearchedSchedules, with_conditions
from wavefabric.training.fabrics import check_size, is_ideal_switch
from wavefabric.training.iteration.engine import FreeCommunication
from wavefabric.training.iteration.task_graph import Call

#: Key of calls that differ only in bytes: collective, and numbers that identify groups and messages.
_Pattern = tuple[str, int, int]


class Communication:
    """Computes the time of communication calls on a fabric, with the algorithms of `algorithms.recipes`.

    Parameters
    ----------
    fabric : Fabric or PhotonicFabric
        The fabric; GPU g is rank g of the fabric.
    collective : str
        One of `algorithms.CHOICES`, but not ``"zero"``, for which `FreeCommunication` exists.
    incremental : bool
        Whether circuits of a photonic fabric that the next round uses too are kept, instead of being set up
        again; see `wavefabric.fabric.cost_models.photonic`.
    **planning
        Options ``routing``, ``sharing``, ``oversubscribed``, ``seed`` of `planning.plan_circuits`, for
        photonic fabrics.

    Attributes
    ----------
    concurrent : bool
        True on electrical fabrics: calls of disjoint GPUs do not wait for each other. Contention on shared
        links is counted only between calls given to `seconds` together and between groups of a call. False on
        photonic fabrics: one controller sets up the circuits of one batch of calls after the other (LUMORPH,
        appendix C).
    model : str
        Cost model of calls, one of `wavefabric.fabric.cost_models.cost.COST_MODELS`.
    latency : float
        Minimum time in s of a round before its first byte moves.

    Raises
    ------
    InputError
        For an unknown collective, or options of photonic fabrics given for an electrical fabric.

    Examples
    --------
    >>> from wavefabric.fabric import load
    >>> from wavefabric.training.iteration.task_graph import Call
    >>> from wavefabric.training.communication.times import Communication
    >>> gradients = Call("all-reduce", (tuple(range(8)),), 2**20, "gradients")
    >>> for fabric, collective in (("switch:8", "ring"), ("lightpath:2x4", "lumorph-2")):
    ...     print(f"{Communication(load(fabric), collective).seconds([gradients]) * 1e6:.2f} us")
    15.50 us
    32.10 us
    """

    def __init__(
        self, fabric: AnyFabric, collective: str = "ring", *, incremental: bool = False, **planning: Any
    ):
        self.fabric, self.collective = fabric, algorithms.parse_collective(collective)
        if self.collective == "zero":
            raise InputError("collective: zero given; allowed: an algorithm (zero needs no fabric)")
        self.photonic = isinstance(fabric, PhotonicFabric)
        if not self.photonic and (incremental or planning):
            inputs = next(iter(planning), "incremental")
            raise InputError(f"{inputs}: given for electrical {fabric.name}; allowed: on photonic fabrics")
        self.concurrent = not self.photonic
        # Training frameworks use a communication library, not Wavefabric's kernels.
        self.model = model_for(fabric, fabric.ranks, kernels=False)
        self.incremental, self.planning = incremental, planning
        self.latency = fabric.alpha
        if isinstance(fabric, PhotonicFabric):
            self.latency += fabric.reconfiguration + fabric.synchronisation
        self._alike = isinstance(fabric, Fabric) and is_ideal_switch(fabric)
        self._numbers: dict[tuple, int] = {}  # identify groups and messages in `_Pattern`
        self._times: dict[tuple[_Pattern, int | None], CallTime] = {}
        self._compared: dict[_Pattern, CallTime] = {}
        self._searched = SearchedSchedules(fabric) if self.collective == "optimal" else None
        self._batches: dict[tuple, Callable[[Sequence[float]], float]] = {}  # on photonic fabrics
        self._seconds: dict[tuple, float] = {}  # on electrical fabrics

    @property
    def description(self) -> str:
        """Return the names of the collective and of the fabric as text."""
        return f"{self.collective} on {self.fabric.name}"

    def seconds(self, calls: Sequence[Call]) -> float:
        """Return the time in s that ``calls`` take if they begin together; no GPU is in two of them.

        The rounds of all calls run at the same time. On an electrical fabric the calls share links (on an
        ideal switch none, so the slowest call determines the time). On a photonic fabric calls share lasers,
        photodiodes and waveguides, and a round takes as long as the slowest circuit; the controller executes
        the calls one after the other if that is faster. Circuit plans are not proved optimal: with few
        waveguides, a call may be faster in a batch than alone.

        Each pattern (collective, groups, messages) is built, verified and costed once. The times of other
        sizes follow exactly, since neither rounds nor circuits depend on the size: the transfer time of a
        round is proportional to the bytes.

        Raises
        ------
        InputError
            If the fabric has too few GPUs, a GPU is in two calls or groups, or two GPUs are not connected.
        """
        if len(calls) == 1:
            return self._time(calls[0])(calls[0].bytes)
        return self._together([call for call in calls if self._time(call) is not NOTHING])[0]

    def algorithm(self, call: Call) -> str:
        """Return the name of the fastest algorithm for ``call``, which is the algorithm that serves it."""
        return str(self._choice(call))

    def left_out(self, call: Call) -> dict[str, str]:
        """Return why some algorithms were not compared for ``call``: a dictionary from name to reason."""
        return self._time(call).left_out

    def _choice(self, call: Call) -> Choice:
        time = self._time(call)
        return time.choices[time.best(call.bytes)]

    def combined(self, calls: Sequence[Call]) -> Schedule:
        """Combine ``calls`` into one schedule of all GPUs, which `collectives.verify` can check."""
        return self._schedule(calls, True)[0]

    def cost(self, calls: Sequence[Call]) -> Cost:
        """Return the cost of ``calls`` combined into one schedule: the total time and the time of each round.

        The cost has no lower bound of the time. On an electrical fabric, the rounds of one call wait for the
        rounds of the others, unlike in `seconds`.
        """
        return self._cost(*self._schedule(calls, False))

    def circuits(self, calls: Sequence[Call]) -> CircuitPlan:
        """Return the checked circuit plan of all ``calls``; `InputError` if the fabric is electrical."""
        if not isinstance(self.fabric, PhotonicFabric):
            raise InputError(f"fabric: {self.fabric.name} given; allowed: photonic ones, which have circuits")
        schedule, _ = self._schedule(calls, False)
        plan = self._plan(schedule)
        assert plan is not None
        check_plan(plan, schedule)
        return plan

    def _pattern(self, call: Call) -> _Pattern:
        return call.collective, self._number(call.groups), self._number(call.messages)

    def _key(self, call: Call) -> tuple[_Pattern, int | None]:
        """Return the pattern of ``call``, and the class of its size if a schedule is searched for it."""
        return self._pattern(call), None if self._searched is None else self._searched.size_class(call)

    def _number(self, key: tuple) -> int:
        return self._numbers.setdefault(key, len(self._numbers))

    def _time(self, call: Call) -> CallTime:
        if call.bytes <= 0:
            return NOTHING
        key = self._key(call)
        time = self._times.get(key)
        if time is None:
            time = self._times[key] = self._new_time(call)
        return time

    def _new_time(self, call: Call) -> CallTime:
        if call.groups:
            _check_gpus(call, self.fabric)
        if call.moves_nothing:
            return NOTHING
        if self._alike:
            # No link is shared and all GPUs are alike, so the groups do not slow each other down.
            rank = {gpu: r for r, gpu in enumerate(call.groups[0])}
            messages = tuple((rank[src], rank[dst], size) for src, dst, size in call.messages)
            call = replace(call, groups=(tuple(range(len(rank))),), messages=messages)
            key = self._key(call)
            if key not in self._times:
                self._times[key] = self._costed(call)
            return self._times[key]
        return self._costed(call)

    def _costed(self, call: Call) -> CallTime:
        """Compute the time of ``call`` as a function of bytes for every algorithm that may serve the call."""
        pattern = self._pattern(call)
        if pattern not in self._compared:
            compared = algorithms.recipes(
                self.collective, call.collective, call.groups[0], self.fabric, whole=self.incremental
            )
            lines, left_out = runnable(compared, lambda choice: self._lines(call, choice))
            self._compared[pattern] = CallTime(tuple(lines), tuple(lines.values()), left_out)
        time, searched = self._compared[pattern], self._find(call)
        if searched is None:
            return time
        try:
            lines = self._lines(call, searched[0])
        except InputError:  # another group of the call lacks a route that the first one has
            return time
        return replace(time, choices=(*time.choices, searched[0]), lines=(*time.lines, lines))

    def _find(self, call: Call) -> tuple[Choice, Built] | None:
        return None if self._searched is None else self._searched.find(call)

    def _lines(self, call: Call, choice: Choice) -> tuple[AffineTime, ...]:
        group = self._folded(call, choice)
        if self.photonic and self.collective in algorithms.COMPARING:
            algorithms.check_circuits(group.schedule)
        parts = [(group.schedule, gpus) for gpus in call.groups]
        schedule = combined(parts, self.fabric.ranks, str(choice), conditions=False)
        plan = self._plan(schedule)

        def tangent(nbytes: float) -> AffineTime:
            costs = self._cost(schedule, nbytes / group.elements, plan)
            latency = group.repeats * sum(r.latency + r.reconfiguration for r in costs.rounds)
            rate = group.repeats * sum(r.transfer for r in costs.rounds) / nbytes
            line, seconds = AffineTime(latency, rate), group.repeats * costs.seconds
            # A total above the sum of the rounds is the time to issue operations, independent of size.
            return AffineTime(seconds, 0.0) if seconds > line(nbytes) * (1 + 1e-9) else line

        return tangents(tangent, everywhere=not (isinstance(self.fabric, Fabric) and _bends(self.fabric)))

    def _built(self, call: Call, choice: Choice, conditions: bool = False) -> Built:
        """Return the schedule of one group of GPUs of ``call`` with the algorithm ``choice``.

        By default the schedule is verified. With ``conditions`` the schedule is not verified, but has the
        `pre` and `post` that a verification needs: what GPUs hold before and after it.
        """
        if call.collective == "messages":
            lasers = self.fabric.ports if isinstance(self.fabric, PhotonicFabric) else None
            make = algorithms.complete_messages if conditions else algorithms.built_messages
            return make(call.groups[0], call.messages, lasers)
        searched = self._find(call)
        if searched is not None and searched[0] == choice:
            return with_conditions(searched[1], call.collective) if conditions else searched[1]
        make = algorithms.complete if conditions else algorithms.built
        return make(choice, call.collective, len(call.groups[0]))

    def _folded(self, call: Call, choice: Choice) -> Built:
        """Return the verified schedule of one group of ``call``, with equal rounds of a ring only once.

        All rounds are kept if circuits are kept from one round to the next.
        """
        if choice.algorithm != "ring" or self.incremental:
            return self._built(call, choice)
        return algorithms.folded(choice, call.collective, len(call.groups[0]))

    def _plan(self, schedule: Schedule) -> CircuitPlan | None:
        if isinstance(self.fabric, PhotonicFabric):
            return plan_circuits(schedule, self.fabric, **self.planning)
        return None

    def _cost(self, schedule: Schedule, element_bytes: float, plan: CircuitPlan | None = None) -> Cost:
        """Return the cost of ``schedule`` on the fabric; ``plan``: circuits, if the fabric is photonic."""
        if not self.photonic:
            return cost(schedule, self.fabric, element_bytes, self.model)
        plan = plan or self._plan(schedule)
        return cost(schedule, self.fabric, element_bytes, plan=plan, incremental=self.incremental)

    def _together(self, calls: Sequence[Call]) -> tuple[float, bool]:
        """Return the time in s of ``calls``, and whether they run together (True) or one after the other.

        The faster of the two is used on photonic fabrics; on electrical ones, calls always run together.
        """
        alone = [self._time(call)(call.bytes) for call in calls]
        if len(calls) < 2:
            return sum(alone), True
        keyed = [((self._pattern(call), self._time(call).best(call.bytes)), call) for call in calls]
        keyed.sort(key=lambda pair: pair[0])
        key, calls = tuple(key for key, _ in keyed), [call for _, call in keyed]
        if not self.photonic:
            return self._electrical(calls, key, max(alone)), True
        if key not in self._batches:
            self._batches[key] = self._batch_time(calls)
        seconds, in_turn = self._batches[key]([call.bytes for call in calls]), sum(alone)
        return min(seconds, in_turn), seconds <= in_turn

    def _electrical(self, calls: list[Call], key: tuple, slowest: float) -> float:
        """Return the time in s of ``calls`` that run together on an electrical fabric.

        ``key``: a tuple that identifies the calls, except their bytes. ``slowest``: the longest time in s of
        one of the calls if it runs alone.
        """
        if self._alike:
            _check_disjoint(calls)
            return slowest
        key = (*key, *(call.bytes for call in calls))
        if key not in self._seconds:
            groups = [self._folded(call, self._choice(call)) for call in calls]
            if len({(group.repeats, group.schedule.rounds) for group in groups}) > 1:
                groups = [self._built(call, self._choice(call)) for call in calls]
            placed = self._placed(calls, groups, [0] * len(calls))
            self._seconds[key] = groups[0].repeats * self._cost(*placed).seconds
        return self._seconds[key]

    def _batch_time(self, calls: list[Call]) -> Callable[[Sequence[float]], float]:
        """Return a function that computes the time in s of all ``calls`` together from the bytes of each."""
        _check_disjoint(calls)
        groups = [self._built(call, self._choice(call)) for call in calls]
        parts = [(b.schedule, gpus) for b, c in zip(groups, calls, strict=True) for gpus in c.groups]
        schedule = combined(parts, self.fabric.ranks, "batch", conditions=False)
        elements = [group.elements for group in groups]
        return batch_time(schedule, self._cost(schedule, LARGE), [call.gpus for call in calls], elements)

    def _schedule(self, calls: Sequence[Call], conditions: bool) -> tuple[Schedule, float]:
        """Combine ``calls`` into one schedule; return the schedule and its bytes per element."""
        moving = [call for call in calls if self._time(call) is not NOTHING]
        if not moving:
            return combined([], self.fabric.ranks, "nothing"), 1.0
        _check_disjoint(moving)
        groups = [self._built(call, self._choice(call), conditions) for call in moving]
        starts = [0] * len(moving)
        if not self._together(moving)[1]:
            rounds = [group.schedule.communication_rounds for group in groups]
            starts = [0, *accumulate(rounds[:-1])]
        return self._placed(moving, groups, starts, conditions)

    def _placed(
        self, calls: list[Call], groups: list[Built], starts: list[int], conditions: bool = False
    ) -> tuple[Schedule, float]:
        """Combine ``calls`` into one schedule; return the schedule and its bytes per element.

        ``groups``: for each call, the schedule of one group of GPUs. ``starts``: the round in which each call
        begins. ``conditions``: whether the schedule says what GPUs hold before and after it.
        """
        element_bytes = [call.bytes / b.elements for call, b in zip(calls, groups, strict=True)]
        unit, factors = common_unit(element_bytes, [b.schedule for b in groups])
        parts: list[Part] = []
        first: list[int] = []
        for call, group, factor, start in zip(calls, groups, factors, starts, strict=True):
            schedule = group.schedule
            if factor > 1:
                schedule = replace(schedule, sizes=tuple(sizes * factor for sizes in schedule.sizes))
            parts += [(schedule, gpus) for gpus in call.groups]
            first += [start] * len(call.groups)
        name = "; ".join(
            f"{call.collective} by {self._choice(call)}, {len(call.groups)} x {len(call.groups[0])} GPUs"
            for call in calls
        )
        return combined(parts, self.fabric.ranks, name, starts=first, conditions=conditions), unit


def communication(
    fabric: AnyFabric, collective: str, *, incremental: bool = False, **planning: Any
) -> Communication | FreeCommunication:
    """Return the `Communication` of ``fabric``, or `FreeCommunication` if ``collective`` is ``"zero"``."""
    if algorithms.parse_collective(collective) == "zero":
        return FreeCommunication()
    return Communication(fabric, collective, incremental=incremental, **planning)


def _bends(fabric: Fabric) -> bool:
    """Return whether reductions or overheads may make the time of a call a non-affine function of bytes."""
    overheads = fabric.round_overhead or fabric.peer_overhead or fabric.reduce_overhead
    return fabric.reduce_bandwidth is not None or bool(overheads)


def _check_gpus(call: Call, fabric: AnyFabric) -> None:
    """Raise `InputError` for missing GPUs, a GPU in two groups, unequal groups, or messages to other GPUs."""
    check_size(fabric, max(call.gpus) + 1)
    if len(call.gpus) < sum(map(len, call.groups)):
        raise InputError(f"groups: a GPU twice in {call.collective} given; allowed: disjoint groups")
    if len(set(map(len, call.groups))) > 1:
        raise InputError(f"groups: several sizes in {call.collective} given; allowed: groups of one size")
    for src, dst, _ in call.messages:
        if not {src, dst} <= call.gpus:
            raise InputError(f"messages: {src} to {dst} given; allowed: GPUs of the call")


def _check_disjoint(calls: Sequence[Call]) -> None:
    """Raise `InputError` if a GPU is in two calls."""
    seen: set[int] = set()
    for call in calls:
        if both := seen & call.gpus:
            raise InputError(f"calls: GPU {min(both)} in two given; allowed: calls of disjoint GPUs")
        seen |= call.gpus
