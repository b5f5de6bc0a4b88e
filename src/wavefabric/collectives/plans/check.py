"""Verify an execution plan: no deadlock, no race whatever the timing, and the values of its schedule.

The checker does not use the reasoning that placed the waits. It replays the instructions of several calls and
compares every access with the latest accesses of all other ranks (`races.py`). If all accesses are ordered,
every interleaving gives the same values; one is then replayed symbolically, and must give the schedule's
sums, in the same order, at the same addresses.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Sequence
from functools import reduce
from typing import NamedTuple

from wavefabric.collectives.plans.moves import STAGING, Address, Move, pieces
from wavefabric.collectives.plans.order import Signal, Wait
from wavefabric.collectives.plans.plan import ExecutionPlan, Instruction
from wavefabric.collectives.plans.races import EventLog
from wavefabric.collectives.structure import ScheduleError, chunk_name, units

#: Number of consecutive calls that are replayed: staging buffers are reused after two.
CALLS = 4


def check_execution_plan(plan: ExecutionPlan) -> None:
    """Verify a plan by replaying `CALLS` consecutive calls; different ranks may be in different calls.

    Between calls a rank's caller reads and writes the buffers. Only barriers, signals and waits order the
    threads of a block. `ScheduleError`, in one line: the first move that another access may overtake, a rank
    that waits for ever, or the faults of `check_values`.
    """
    replay = _Replay(plan)
    try:
        for step in run_order(plan, CALLS):
            replay.do(step)
    except ScheduleError:
        replay.check()  # a race before the rank that waits for ever
        raise
    for rank in range(plan.schedule.ranks):
        replay.do(_Step(rank, CALLS, -1, None))
    replay.check()
    check_values(plan)


class _Step(NamedTuple):
    """An instruction of a rank in a call; ``does`` is None for the caller's accesses before the call."""

    rank: int
    call: int
    number: int
    does: Instruction | None

    def __str__(self) -> str:
        what = "its caller between calls" if self.does is None else f"instruction {self.number}, {self.does}"
        return f"rank {self.rank}, {what}"


def run_order(plan: ExecutionPlan, calls: int) -> Iterator[_Step]:
    """Yield all steps in an order in which they may run; `ScheduleError` for a rank that waits for ever.

    Each rank runs until a wait, or a packet that has not come, stops it; then the next rank runs.
    """
    sent: Counter[tuple[int, int]] = Counter()
    come: dict[tuple[int, int], int] = {}  # key and slot → call whose packet lies there

    def may(rank: int, call: int, does: Instruction | None) -> bool:
        if isinstance(does, Wait):
            needed = ((peer, call * plan.signals.get((peer, rank), 0) + n) for peer, n in does.signals)
            return all(count <= sent[peer, rank] for peer, count in needed)
        sources = does.sources if isinstance(does, Move) and plan.packets else ()
        return all(come.get((p.key, call % 2)) == call for p in sources if p.buffer == STAGING)

    left = [
        deque(_Step(rank, call, *each) for call in range(calls) for each in enumerate((None, *code), -1))
        for rank, code in enumerate(plan.instructions)
    ]
    moved = True
    while moved:
        moved = False
        for steps in left:
            while steps and may(steps[0].rank, steps[0].call, steps[0].does):
                yield steps[0]
                rank, call, _, does = steps.popleft()
                for peer in does.to if isinstance(does, Signal) else ():
                    sent[rank, peer] += 1
                for address in does.targets if isinstance(does, Move) else ():
                    come[address.key, call % 2] = call
                moved = True
    for steps in filter(None, left):
        rank, here = str(steps[0]).split(", ", 1)
        raise ScheduleError(f"{plan.schedule.name}: {rank} waits for ever: {here}")


class _Replay:
    """Records the accesses of a replay of several calls, and when the threads of each rank's block meet."""

    def __init__(self, plan: ExecutionPlan):
        self.plan, self.log, ranks = plan, EventLog(), range(plan.schedule.ranks)
        start = self.log.event()
        #: By rank, events: its threads last met; the same without what the rank learned from others; when its
        #: call began, likewise; what its threads did since they met is done.
        self.met, self.alone, self.begun = ([start] * len(ranks) for _ in range(3))
        self.done = [self.log.event() for _ in ranks]
        #: Events known by each signal so far, by (sending rank, receiving rank); events of packets' senders.
        self.sent: dict[tuple[int, int], list[int]] = defaultdict(list)
        self.packets: dict[tuple, int] = {}
        self.addresses = {a.key: a for move in plan.moves for a in (*move.sources, *move.targets)}
        arrays = [address for address in self.addresses.values() if address.buffer != STAGING]
        self.buffers = [[address for address in arrays if address.rank == rank] for rank in ranks]

    def do(self, step: _Step) -> None:
        """Replay a step; the step of a rank's caller writes all of its buffers."""
        rank, does = step.rank, step.does
        if isinstance(does, Move):
            self._move(step, does.sources, does.targets)
            return
        self._meet(rank)
        if does is None:
            self._move(step, (), self.buffers[rank])
            self._meet(rank)
            self.begun[rank] = self.alone[rank]
        elif isinstance(does, Signal):
            for peer in does.to:
                self.sent[rank, peer].append(self.met[rank])
        elif isinstance(does, Wait):
            for peer, number in does.signals:
                if count := step.call * self.plan.signals.get((peer, rank), 0) + number:
                    self.met[rank] = self.log.event(self.met[rank], self.sent[peer, rank][count - 1])

    def _meet(self, rank: int) -> None:
        self.alone[rank] = self.log.event(self.alone[rank], self.done[rank])
        self.met[rank] = self.log.event(self.met[rank], self.alone[rank])
        self.done[rank] = self.log.event()

    def _move(self, step: _Step, sources: Sequence[Address], targets: Sequence[Address]) -> None:
        rank = step.rank
        self.log.begin(step, f"rank {rank}")
        for address, write in (*((each, False) for each in sources), *((each, True) for each in targets)):
            staged = address.buffer == STAGING
            at = address.key, step.call % self.plan.slots if staged else 0
            packet = self.plan.packets and staged
            if packet and write:
                self.packets[at] = self.begun[rank]
            elif packet:
                self.met[rank] = self.log.event(self.met[rank], self.packets[at])
            self.log.access(at, write, -1 if packet and not write else self.met[rank], self.done[rank])

    def check(self) -> None:
        """Raise `ScheduleError` for the first access that another one may overtake."""

        def name(at: tuple[int, int]) -> str:
            address = self.addresses[at[0]]
            staged = address.buffer == STAGING
            where = f"staging buffer {-1 - address.key}" if staged else f"buffer {address.buffer}"
            return f"{where} of rank {address.rank}"

        self.log.check(self.plan.schedule.name, name)


def check_values(plan: ExecutionPlan) -> None:
    """Compare the final values of a plan, in which all accesses are ordered, with those of its schedule.

    `ScheduleError`, in one line: an address that the schedule does not have, a staging buffer read before it
    is filled, or the first chunk of ``post`` that does not hold the schedule's sum at the end.
    """
    schedule, parts = plan.schedule, pieces(plan.schedule)
    # Values by key of an address: −1 − key is the initial value there, numbers from 0 are sums.
    wanted: dict[int, int] = {}
    result: dict[int, int] = {}
    sums: dict[tuple[int, ...], int] = {}

    def total(values: dict[int, int], keys: Sequence[int], at_once: bool = False) -> int:
        """Return a number that identifies the sum of the values at ``keys``: equal sums have equal numbers.

        Values are added in this order, or with ``at_once`` by a switch, in no particular order.
        """
        summands = [values.get(key, -1 - key) for key in keys]
        if at_once and len(summands) > 1:
            return sums.setdefault(tuple(sorted(summands)), len(sums))
        return reduce(lambda a, b: sums.setdefault((min(a, b), max(a, b)), len(sums)), summands)

    u, adds = units(schedule), schedule.transfers["reduce"].tolist()
    summed: dict[tuple[int, int], list[int]] = defaultdict(list)  # keys of sources, by unit and target key
    for transfer, _, source, target in parts:
        summed[int(u.of[transfer]), target.key].append(source.key)
    for transfer, _, _, target in parts:
        # A reduction by a switch is summed at its first piece, and replaces the value at the target.
        if keys := summed.pop((int(u.of[transfer]), target.key), []):
            wanted[target.key] = total(wanted, [target.key] * adds[transfer] + keys, not adds[transfer])
    sizes = {address: piece.size for piece in parts for address in piece[2:]}
    staging = enumerate(plan.staging)
    known = sizes | {Address(each.rank, STAGING, n, -1 - n): each.size for n, each in staging}
    for step in run_order(plan, 1):
        move = step.does
        if not isinstance(move, Move):
            continue
        for address in (*move.sources, *move.targets):
            if known.get(address) != move.size:
                what = f"{address} of {move.size} elements"
                raise ScheduleError(f"{schedule.name}: {what} is none of the schedule's addresses")
        early = [p.key for p in move.sources if p.buffer == STAGING and p.key not in result]
        if early:
            where = f"staging buffer {-1 - early[0]} before it has come"
            raise ScheduleError(f"{schedule.name}: {step} reads {where}")
        value = total(result, [address.key for address in move.sources], move.summed)
        result |= {address.key: value for address in move.targets}
    wrong: dict[tuple[int, int], list[tuple[int, int]]] = {}  # (rank, buffer) → first, last + 1 element
    for (rank, buffer, first, key), size in sizes.items():
        if total(result, [key]) != total(wanted, [key]):
            wrong.setdefault((rank, buffer), []).append((first, first + size))
    for rank, buffer, chunk in sorted(at for at in schedule.post if at[:2] in wrong):
        begin = schedule.offsets(buffer, rank)[chunk]
        if any(first <= begin < last for first, last in wrong[rank, buffer]):
            where = chunk_name(schedule, rank, buffer, chunk)
            raise ScheduleError(f"{schedule.name}: {where} does not hold the schedule's sum at the end")
