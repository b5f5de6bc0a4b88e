"""How long calls take on a fabric: proved schedules, checked circuits, costed once for each pattern."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from wavefabric.collectives.schedule import Schedule
from wavefabric.errors import InputError
from wavefabric.fabric.cost_models.cost import AnyFabric, Cost, cost
from wavefabric.fabric.electrical.fabric import Fabric
from wavefabric.fabric.photonic.circuit_plan import CircuitPlan
from wavefabric.fabric.photonic.fabric import PhotonicFabric
from wavefabric.fabric.photonic.planning import plan_circuits
from wavefabric.training.calls import Call
from wavefabric.training.communication.algorithms import (
    Built,
    Recipe,
    built,
    built_messages,
    parse_collective,
    recipes,
)
from wavefabric.training.communication.line import Line, tangents
from wavefabric.training.communication.placed import Part, combined

#: Bytes an element with which circuits are timed: so many that latencies are lost beside them.
_LARGE = 1e12
#: Groups and lists of messages that are recognised by identity before they are looked up by value.
_MOST_KNOWN = 100_000
#: Bits to which the sizes of several calls are kept in one schedule, and of all elements of a GPU.
_STEP_BITS, _MOST_BITS = 40, 62

#: What is exchanged, among whom: the collective, and the numbers of its groups and messages.
_Pattern = tuple[str, int, int]


class FreeCommunication:
    """Calls that take no time: what a faster fabric can gain at most."""

    collective = "zero"
    concurrent = True
    latency = 0.0
    description = "free communication"

    def __init__(self, fabric: AnyFabric | None = None):
        self.fabric = fabric

    def seconds(self, calls: Sequence[Call]) -> float:
        """0."""
        return 0.0


@dataclass(frozen=True, eq=False)
class _CallTime:
    """Time of one pattern by each algorithm that may serve it, for any number of bytes."""

    recipes: tuple[Recipe, ...]
    lines: tuple[tuple[Line, ...], ...]

    def of(self, number: int, nbytes: float) -> float:
        """s, by one of the algorithms."""
        return max([line.latency + line.rate * nbytes for line in self.lines[number]])

    def best(self, nbytes: float) -> int:
        """Number of the fastest algorithm; the first of several."""
        if len(self.lines) == 1:
            return 0
        return min(range(len(self.lines)), key=lambda number: self.of(number, nbytes))


@dataclass(frozen=True, eq=False)
class _BatchTime:
    """Time of calls whose circuits are up together: each part of each round takes what its slowest call does.

    ``rates``: s a byte of each call in each part, shape (parts, calls).
    """

    latency: float
    rates: np.ndarray

    def __call__(self, nbytes: Sequence[float]) -> float:
        return self.latency + float((self.rates * np.array(nbytes)).max(axis=1).sum())


class Communication:
    """Calls on a fabric, each served by the algorithms of `algorithms.recipes`.

    Parameters
    ----------
    fabric : Fabric or PhotonicFabric
        GPU g is rank g of it.
    collective : str
        See `algorithms.CHOICES`; not ``"zero"``, which is `FreeCommunication`.
    incremental : bool
        Photonic: circuits that stay from round to round are not set up again, see
        `wavefabric.fabric.cost_models.photonic`.
    **planning
        Photonic: ``routing``, ``sharing``, ``oversubscribed``, ``seed`` of `planning.plan_circuits`.

    Attributes
    ----------
    concurrent : bool
        Electrical fabrics: True, calls of disjoint GPUs need not wait for each other; what they take from
        each other on shared links is counted only between calls given to `seconds` together, and between the
        groups of one call. Photonic ones: False, one controller sets up the circuits of one batch of calls
        after the other (LUMORPH, appendix C).
    latency : float
        s, what a round costs at least before its first byte moves.

    Raises
    ------
    InputError
        For an unknown collective, or options that the fabric does not have.

    Examples
    --------
    >>> from wavefabric.fabric import load
    >>> from wavefabric.training.calls import Call
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
        self.fabric, self.collective = fabric, parse_collective(collective)
        if self.collective == "zero":
            raise InputError("collective: zero given; allowed: an algorithm (zero needs no fabric)")
        self.photonic = isinstance(fabric, PhotonicFabric)
        if not self.photonic and (incremental or planning):
            given = next(iter(planning), "incremental")
            raise InputError(f"{given}: given for electrical {fabric.name}; allowed: on photonic fabrics")
        self.concurrent = not self.photonic
        self.incremental, self.planning = incremental, planning
        self.latency = fabric.alpha
        if isinstance(fabric, PhotonicFabric):
            self.latency += fabric.reconfiguration + fabric.synchronisation
        self._alike = isinstance(fabric, Fabric) and is_ideal_switch(fabric)
        self._numbers: dict[tuple, int] = {}
        self._known: dict[int, tuple[tuple, int]] = {}
        self._times: dict[_Pattern, _CallTime] = {}
        self._shared: dict[tuple, _CallTime] = {}
        self._batches: dict[tuple, _BatchTime | float] = {}

    @property
    def description(self) -> str:
        """Algorithm and fabric in words."""
        return f"{self.collective} on {self.fabric.name}"

    def seconds(self, calls: Sequence[Call]) -> float:
        """Time of calls that begin together, s.

        Rounds of all calls are at the same time: on an electrical fabric they share links, on a photonic one
        lasers, photodiodes and waveguides, and a round takes as long as its slowest circuit. Where the
        circuits of a batch are so much in each other's way that one call after the other is faster, that is
        what the controller does.

        Parameters
        ----------
        calls : sequence of Call
            Of disjoint GPUs.

        Raises
        ------
        InputError
            For more GPUs than the fabric has, a GPU in two calls or groups, or no way between two GPUs.
        """
        if len(calls) == 1:
            call = calls[0]
            if _moves_nothing(call):
                return 0.0
            time = self._time(call)
            return time.of(time.best(call.bytes), call.bytes)
        return self._together([c for c in calls if not _moves_nothing(c)])[0]

    def algorithm(self, call: Call) -> str:
        """Which algorithm serves a call, in words."""
        if _moves_nothing(call):
            return "none"
        time = self._time(call)
        return str(time.recipes[time.best(call.bytes)])

    def combined(self, calls: Sequence[Call]) -> Schedule:
        """The calls as one schedule of all GPUs of the fabric, as `seconds` counts it; `verify` proves it."""
        return self._schedule(calls, True)[0]

    def cost(self, calls: Sequence[Call]) -> Cost:
        """Rounds and their times, of what `combined` returns; with no lower bound."""
        schedule, element_bytes = self._schedule(calls, False)
        return self._cost(schedule, element_bytes)

    def circuits(self, calls: Sequence[Call]) -> CircuitPlan:
        """Circuits of what `combined` returns, checked; `InputError` on an electrical fabric."""
        if not isinstance(self.fabric, PhotonicFabric):
            raise InputError(f"fabric: {self.fabric.name} given; allowed: photonic ones, which have circuits")
        from wavefabric.fabric.photonic.check import check_plan

        schedule, _ = self._schedule(calls, False)
        plan = plan_circuits(schedule, self.fabric, **self.planning)
        check_plan(plan, schedule)
        return plan

    # -- one call

    def _pattern(self, call: Call) -> _Pattern:
        return call.collective, self._number(call.groups), self._number(call.messages)

    def _number(self, value: tuple) -> int:
        """A number for each value; an object that was seen before is not hashed again."""
        known = self._known.get(id(value))
        if known is not None:
            return known[1]
        number = self._numbers.setdefault(value, len(self._numbers))
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[id(value)] = value, number
        return number

    def _time(self, call: Call) -> _CallTime:
        pattern = self._pattern(call)
        time = self._times.get(pattern)
        if time is None:
            time = self._times[pattern] = self._new_time(call)
        return time

    def _new_time(self, call: Call) -> _CallTime:
        self._check(call)
        if self._alike:
            # Nothing is shared and all GPUs are alike: groups do not notice each other.
            call, shared = _first_group(call)
            if shared not in self._shared:
                self._shared[shared] = self._costed(call)
            return self._shared[shared]
        return self._costed(call)

    def _check(self, call: Call) -> None:
        """Refuse GPUs that the fabric does not have, and one that is in two groups."""
        last = max(call.gpus)
        if last >= self.fabric.ranks:
            allowed = f"up to {self.fabric.ranks}, the GPUs of {self.fabric.name}"
            raise InputError(f"gpus: {last + 1} given; allowed: {allowed}")
        if len(call.gpus) < sum(map(len, call.groups)):
            raise InputError(f"groups: a GPU twice in {call.collective}; allowed: disjoint groups")

    def _costed(self, call: Call) -> _CallTime:
        """Every algorithm that may serve a call, costed."""
        found = recipes(self.collective, call.collective, len(call.groups[0]), self.photonic)
        return _CallTime(found, tuple(self._lines(call, recipe) for recipe in found))

    def _lines(self, call: Call, recipe: Recipe) -> tuple[Line, ...]:
        group = self._built(call, recipe)
        parts = [(group.schedule, gpus) for gpus in call.groups]
        schedule = combined(parts, self.fabric.ranks, str(recipe), conditions=False)
        plan = self._plan(schedule)

        def tangent(nbytes: float) -> Line:
            found = self._cost(schedule, nbytes / group.elements, plan)
            latency = sum(r.latency + r.reconfiguration for r in found.rounds)
            rate = sum(r.transfer for r in found.rounds) / nbytes
            line = Line(latency, rate)
            # What takes longer than all rounds is the issuing of operations, whatever their size.
            return Line(found.seconds, 0.0) if found.seconds > line(nbytes) * (1 + 1e-9) else line

        return tangents(tangent, everywhere=not (isinstance(self.fabric, Fabric) and _bends(self.fabric)))

    def _built(self, call: Call, recipe: Recipe) -> Built:
        """The schedule of one group."""
        if call.collective == "messages":
            lasers = self.fabric.ports if isinstance(self.fabric, PhotonicFabric) else None
            return built_messages(call.groups[0], call.messages, lasers)
        return built(recipe, call.collective, len(call.groups[0]))

    def _plan(self, schedule: Schedule) -> CircuitPlan | None:
        if isinstance(self.fabric, PhotonicFabric):
            return plan_circuits(schedule, self.fabric, **self.planning)
        return None

    def _cost(self, schedule: Schedule, element_bytes: float, plan: CircuitPlan | None = None) -> Cost:
        """The fabric's cost model; of circuits after the checker has seen them."""
        if not self.photonic:
            return cost(schedule, self.fabric, element_bytes, "alpha-beta")
        plan = plan or self._plan(schedule)
        return cost(schedule, self.fabric, element_bytes, plan=plan, incremental=self.incremental)

    # -- several calls

    def _together(self, calls: Sequence[Call]) -> tuple[float, bool]:
        """s of calls that move something, and whether they are faster together than one after the other."""
        times = [self._time(call) for call in calls]
        best = [time.best(call.bytes) for call, time in zip(calls, times, strict=True)]
        alone = [t.of(b, c.bytes) for c, t, b in zip(calls, times, best, strict=True)]
        if len(calls) < 2:
            return sum(alone), True
        chosen = [t.recipes[b] for t, b in zip(times, best, strict=True)]
        keys = [(self._pattern(call), number) for call, number in zip(calls, best, strict=True)]
        order = sorted(range(len(calls)), key=keys.__getitem__)
        calls, chosen = [calls[i] for i in order], [chosen[i] for i in order]
        key = tuple(keys[i] for i in order)
        if not self.photonic:
            return self._electrical(calls, chosen, key, max(alone)), True
        if key not in self._batches:
            self._batches[key] = self._circuit_times(calls, chosen)
        batch = self._batches[key]
        assert isinstance(batch, _BatchTime)
        seconds, in_turn = batch([call.bytes for call in calls]), sum(alone)
        return min(seconds, in_turn), seconds <= in_turn

    def _electrical(self, calls: list[Call], chosen: list[Recipe], key: tuple, slowest: float) -> float:
        """s of calls that share links; on an ideal switch nothing is shared."""
        if self._alike:
            _check_disjoint(calls)
            return slowest
        key = (*key, *(call.bytes for call in calls))
        if key not in self._batches:
            schedule, element_bytes = self._placed(calls, chosen, None, False)
            self._batches[key] = self._cost(schedule, element_bytes).seconds
        seconds = self._batches[key]
        assert isinstance(seconds, float)
        return seconds

    def _circuit_times(self, calls: list[Call], chosen: list[Recipe]) -> _BatchTime:
        """Circuits of several calls at once, and how long each call needs them."""
        _check_disjoint(calls)
        groups = [self._built(call, recipe) for call, recipe in zip(calls, chosen, strict=True)]
        parts = [(b.schedule, gpus) for b, c in zip(groups, calls, strict=True) for gpus in c.groups]
        schedule = combined(parts, self.fabric.ranks, "batch", conditions=False)
        found = self._cost(schedule, _LARGE)
        t, times = schedule.transfers, found.times
        assert times is not None
        away = np.flatnonzero(t["src"] != t["dst"])
        begin, end = times[away].T
        parts_begin, part = np.unique(begin, return_inverse=True)  # circuits of a part begin together
        owner = np.zeros(self.fabric.ranks, np.int64)
        for number, call in enumerate(calls):
            owner[list(call.gpus)] = number
        rates = np.zeros((parts_begin.size, len(calls)))
        per_byte = (end - begin) / _LARGE / np.array([b.elements for b in groups])[owner[t["src"][away]]]
        np.maximum.at(rates, (part, owner[t["src"][away]]), per_byte)
        return _BatchTime(sum(r.latency + r.reconfiguration for r in found.rounds), rates)

    # -- schedules

    def _schedule(self, calls: Sequence[Call], conditions: bool) -> tuple[Schedule, float]:
        """The calls as one schedule, and bytes an element."""
        moving = [call for call in calls if not _moves_nothing(call)]
        if not moving:
            return combined([], self.fabric.ranks, "nothing"), 1.0
        _check_disjoint(moving)
        at_once = self._together(moving)[1]
        times = [self._time(call) for call in moving]
        chosen = [t.recipes[t.best(call.bytes)] for call, t in zip(moving, times, strict=True)]
        starts = None
        if not at_once:
            rounds = [self._built(c, r).schedule.rounds for c, r in zip(moving, chosen, strict=True)]
            starts = [sum(rounds[:number]) for number in range(len(moving))]
        return self._placed(moving, chosen, starts, conditions)

    def _placed(
        self, calls: list[Call], chosen: list[Recipe], starts: list[int] | None, conditions: bool
    ) -> tuple[Schedule, float]:
        """Calls by given algorithms as one schedule, and bytes an element; each from its round on."""
        groups = [self._built(call, recipe) for call, recipe in zip(calls, chosen, strict=True)]
        element_bytes = [call.bytes / b.elements for call, b in zip(calls, groups, strict=True)]
        unit, factors = _common_unit(element_bytes, [b.schedule for b in groups])
        parts: list[Part] = []
        first: list[int] = []
        for number, (call, group, factor) in enumerate(zip(calls, groups, factors, strict=True)):
            schedule = group.schedule
            if factor > 1:
                schedule = replace(schedule, sizes=tuple(sizes * factor for sizes in schedule.sizes))
            parts += [(schedule, gpus) for gpus in call.groups]
            first += [starts[number] if starts else 0] * len(call.groups)
        name = "; ".join(
            f"{call.collective} by {recipe}, {len(call.groups)} x {len(call.groups[0])} GPUs"
            for call, recipe in zip(calls, chosen, strict=True)
        )
        return combined(parts, self.fabric.ranks, name, starts=first, conditions=conditions), unit


def communication(
    fabric: AnyFabric, collective: str, *, incremental: bool = False, **planning: Any
) -> Communication | FreeCommunication:
    """Calls on a fabric by a collective of `algorithms.CHOICES`; see `Communication`."""
    if parse_collective(collective) == "zero":
        return FreeCommunication(fabric)
    return Communication(fabric, collective, incremental=incremental, **planning)


def is_ideal_switch(fabric: Fabric) -> bool:
    """Whether every GPU has the same link each way to one switch, and there is nothing else to share."""
    if len(fabric.switches) != 1:
        return False
    switch = fabric.switches[0]
    ends = [(link.source, link.target) for link in fabric.links]
    wanted = {pair for gpu in fabric.gpus for pair in ((gpu, switch), (switch, gpu))}
    values = {(link.bandwidth, link.latency) for link in fabric.links}
    return len(ends) == len(wanted) and set(ends) == wanted and len(values) == 1


def _bends(fabric: Fabric) -> bool:
    """Whether time may be other than a line of the bytes: a busiest GPU that changes, hosts that issue."""
    overheads = fabric.round_overhead or fabric.peer_overhead or fabric.reduce_overhead
    return fabric.reduce_bandwidth is not None or bool(overheads)


def _moves_nothing(call: Call) -> bool:
    if call.bytes <= 0 or not call.groups:
        return True
    if call.collective == "messages":
        return not any(size > 0 and src != dst for src, dst, size in call.messages)
    return len(call.groups[0]) < 2


def _first_group(call: Call) -> tuple[Call, tuple]:
    """A call of the first group alone on the first GPUs, and what of it matters to its time."""
    group = tuple(range(len(call.groups[0])))
    rank = {gpu: r for r, gpu in enumerate(call.groups[0])}
    messages = tuple((rank[src], rank[dst], size) for src, dst, size in call.messages)
    return replace(call, groups=(group,), messages=messages), (call.collective, len(group), messages)


def _check_disjoint(calls: Sequence[Call]) -> None:
    seen: set[int] = set()
    for call in calls:
        both = seen & call.gpus
        if both:
            raise InputError(f"calls: GPU {min(both)} in two given; allowed: calls of disjoint GPUs")
        seen |= call.gpus


def _common_unit(element_bytes: Sequence[float], schedules: Sequence[Schedule]) -> tuple[float, list[int]]:
    """Bytes of an element of one schedule for all, and by what the elements of each are multiplied."""
    largest = max(element_bytes)
    if min(element_bytes) == largest:
        return largest, [1] * len(element_bytes)
    most = max(int(sizes.sum(axis=1).max(initial=1)) for s in schedules for sizes in s.sizes)
    steps = 2 ** max(1, min(_STEP_BITS, _MOST_BITS - most.bit_length()))
    return largest / steps, [max(1, round(size / largest * steps)) for size in element_bytes]
