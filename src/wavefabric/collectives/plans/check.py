"""The proof of a plan: no deadlock, no two accesses that nothing orders, whatever the timing; right values.

It knows nothing of how waits were chosen: instructions are replayed over several calls, and every access is
compared with the last ones of all other ranks by vector clocks (`clocks.py`). Where all are ordered any
interleaving gives the same values: one is replayed, on expressions, and must give the schedule's sums, in the
same order, in the same addresses.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce

from wavefabric.collectives.plans.clocks import Accesses, Clock
from wavefabric.collectives.plans.moves import STAGING, Address, Move, pieces
from wavefabric.collectives.plans.order import Signal, Wait
from wavefabric.collectives.plans.plan import ExecutionPlan
from wavefabric.collectives.structure import ScheduleError, chunk_name, units

#: Calls that follow one another: staging buffers are used again after two.
CALLS = 4


def check_execution_plan(plan: ExecutionPlan) -> None:
    """Prove a plan, replaying `CALLS` calls in a row of which ranks may be in different ones.

    Between calls a rank's caller reads and writes its buffers. Threads of a block are ordered by barriers,
    signals and waits alone. `ScheduleError`, in one line: the first move that another access may overtake, a
    rank that waits for ever, or what `check_values` refuses.
    """
    ranks = [_Rank(rank, plan) for rank in range(plan.schedule.ranks)]
    accesses: dict[tuple, Accesses] = {}
    left = True
    while left:
        moved = [rank.play(ranks, accesses) for rank in ranks]
        left = any(rank.call < CALLS for rank in ranks)
        if left and not any(moved):
            stuck = next(rank for rank in ranks if rank.call < CALLS)
            raise ScheduleError(f"{plan.schedule.name}: rank {stuck.rank} waits for ever: {stuck.here}")
    for rank in ranks:
        rank.caller(accesses)
    check_values(plan)


class _Rank:
    """One rank's way through the instructions of several calls."""

    def __init__(self, rank: int, plan: ExecutionPlan):
        self.rank, self.plan, self.call, self.at = rank, plan, 0, 0
        self.code = plan.instructions[rank]
        self.clock = Clock(rank, plan.schedule.ranks)
        #: Clocks that went with each signal so far, by the rank that gets it.
        self.sent: dict[int, list[list[int]]] = {}
        addresses = {address for move in plan.moves for address in (*move.sources, *move.targets)}
        self.buffers = [
            address for address in addresses if address.rank == rank and address.buffer != STAGING
        ]
        self._begun, self._begun_at, self._outside = False, [0] * plan.schedule.ranks, False

    @property
    def here(self) -> str:
        """The instruction at hand, in words."""
        if self._outside:
            return "its caller between calls"
        return f"instruction {self.at}, {self.code[self.at] if self.at < len(self.code) else 'the end'}"

    def caller(self, accesses) -> None:
        """Before and after a call: all of this rank's buffers are written."""
        self.clock.barrier()
        self.clock.move += 1
        self._outside = True
        for address in self.buffers:
            self._access(accesses, address, write=True)
        self._outside = False
        self.clock.barrier()

    def play(self, ranks: "list[_Rank]", accesses) -> bool:
        """As far as waits allow; whether that was at least one instruction."""
        begun = self.call, self.at
        while self.call < CALLS:
            if not self._begun:
                self.caller(accesses)
                self._begun, self._begun_at[self.rank] = True, self.clock.times[self.rank] - 1
            while self.at < len(self.code) and self._may(self.code[self.at], ranks, accesses):
                self._do(self.code[self.at], ranks, accesses)
                self.at += 1
            if self.at < len(self.code):
                break
            self.call, self.at, self._begun = self.call + 1, 0, False
        return (self.call, self.at) != begun

    def _may(self, each, ranks: "list[_Rank]", accesses) -> bool:
        if isinstance(each, Wait):
            return all(self._number(p, n) <= len(ranks[p].sent.get(self.rank, ())) for p, n in each.signals)
        if isinstance(each, Move) and self.plan.packets:
            return all(self._at(accesses, p).call == self.call for p in each.sources if p.buffer == STAGING)
        return True

    def _number(self, peer: int, number: int) -> int:
        return self.call * self.plan.signals.get((peer, self.rank), 0) + number

    def _do(self, each, ranks: "list[_Rank]", accesses) -> None:
        if isinstance(each, Move):
            self.clock.move += 1
            for address in each.sources:
                self._access(accesses, address, write=False)
            for address in each.targets:
                self._access(accesses, address, write=True)
            return
        self.clock.barrier()
        if isinstance(each, Signal):
            for peer in each.to:
                self.sent.setdefault(peer, []).append(self.clock.told())
        elif isinstance(each, Wait):
            for peer, number in each.signals:
                if count := self._number(peer, number):
                    self.clock.learn(ranks[peer].sent[self.rank][count - 1])

    def _at(self, accesses, address: Address) -> Accesses:
        stride = self.call % self.plan.slots if address.buffer == STAGING else 0
        return accesses.setdefault((address.key, stride), Accesses())

    def _access(self, accesses, address: Address, write: bool) -> None:
        result = self._at(accesses, address)
        packet = self.plan.packets and address.buffer == STAGING
        if packet and not write:
            self.clock.learn(result.begun)
        for other, done in () if packet and not write else self.clock.unordered(result, write):
            staged = f"staging buffer {-1 - address.key}"
            where = staged if address.buffer == STAGING else f"buffer {address.buffer}"
            raise ScheduleError(
                f"{self.plan.schedule.name}: rank {self.rank}, {self.here} {'writes' if write else 'reads'} "
                f"{where} of rank {address.rank}, {done} by rank {other.actor}, and nothing orders them"
            )
        self.clock.access(result, write)
        if packet and write:
            result.call, result.begun = self.call, list(self._begun_at)


@dataclass
class _Values:
    """Expressions by the key of their place: −1 − key is what was there at first, from 0 on they are sums."""

    sums: dict[tuple[int, ...], int]
    at: dict[int, int] = field(default_factory=dict)

    def read(self, key: int) -> int:
        return self.at.get(key, -1 - key)

    def total(self, keys: Sequence[int], at_once: bool) -> int:
        """Of what lies at keys: in their order, or ``at_once`` by a switch, in its own."""
        parts = [self.read(key) for key in keys]
        if at_once and len(parts) > 1:
            return self.sums.setdefault(tuple(sorted(parts)), len(self.sums))
        return reduce(self.add, parts)

    def add(self, a: int, b: int) -> int:
        """The number of a sum of two; a + b is b + a, to the bit."""
        return self.sums.setdefault((min(a, b), max(a, b)), len(self.sums))


def check_values(plan: ExecutionPlan) -> None:
    """Compare what a plan that `check_execution_plan` accepts leaves with what its schedule does.

    `ScheduleError`, in one line: an address that is none of the schedule's, a staging buffer read before it
    is filled, or the first chunk of ``post`` that does not hold the schedule's sum at the end.
    """
    schedule, parts = plan.schedule, pieces(plan.schedule)
    wanted = _Values({})
    result = _Values(wanted.sums)
    u, adds = units(schedule), schedule.transfers["reduce"].tolist()
    summands: dict[tuple[int, int], list[int]] = defaultdict(list)  # of each unit and what it writes
    for transfer, _, source, target in parts:
        summands[int(u.of[transfer]), target.key].append(source.key)
    for transfer, _, _, target in parts:
        # All of a reduction by a switch at its first piece.
        keys = summands.pop((int(u.of[transfer]), target.key), [])
        if keys:
            value = wanted.total(keys, True)
            wanted.at[target.key] = wanted.add(wanted.read(target.key), value) if adds[transfer] else value
    sizes = {address: piece.size for piece in parts for address in piece[2:]}
    _replay(plan, result, sizes)
    wrong: dict[tuple[int, int], list[tuple[int, int]]] = {}  # (rank, buffer) → first, last + 1 element
    for (rank, buffer, first, key), size in sizes.items():
        if result.read(key) != wanted.read(key):
            wrong.setdefault((rank, buffer), []).append((first, first + size))
    for rank, buffer, chunk in sorted(at for at in schedule.post if at[:2] in wrong):
        begin = schedule.offsets(buffer, rank)[chunk]
        if any(first <= begin < last for first, last in wrong[rank, buffer]):
            where = chunk_name(schedule, rank, buffer, chunk)
            raise ScheduleError(f"{schedule.name}: {where} does not hold the schedule's sum at the end")


def _replay(plan: ExecutionPlan, values: _Values, sizes: dict[Address, int]) -> None:
    """One call: rank by rank, each as far as its waits, or packets that have not come, allow."""
    at = [0] * len(plan.instructions)
    sent: dict[tuple[int, int], int] = {}

    def may(rank: int, each) -> bool:
        if isinstance(each, Wait):
            return all(sent.get((peer, rank), 0) >= number for peer, number in each.signals)
        packets = plan.packets and isinstance(each, Move)
        return not packets or all(p.key in values.at for p in each.sources if p.buffer == STAGING)

    def do(rank: int, each) -> None:
        if isinstance(each, Signal):
            for peer in each.to:
                sent[rank, peer] = sent.get((rank, peer), 0) + 1
        elif isinstance(each, Move):
            for address in (*each.sources, *each.targets):
                _check_address(plan, address, each.size, sizes)
            early = [p.key for p in each.sources if p.buffer == STAGING and p.key not in values.at]
            if early:
                raise ScheduleError(
                    f"{plan.schedule.name}: rank {rank}, instruction {at[rank]}, {each} reads staging buffer "
                    f"{-1 - early[0]} before it has come"
                )
            total = values.total([address.key for address in each.sources], each.summed)
            values.at |= {address.key: total for address in each.targets}

    moved = True
    while moved:
        moved = False
        for rank, code in enumerate(plan.instructions):
            while at[rank] < len(code) and may(rank, code[at[rank]]):
                do(rank, code[at[rank]])
                at[rank] += 1
                moved = True


def _check_address(plan: ExecutionPlan, address: Address, size: int, sizes: dict[Address, int]) -> None:
    """Refuse what is neither one of the schedule's addresses nor a staging buffer of the plan."""
    right = sizes.get(address) == size
    if address.buffer == STAGING:
        number = -1 - address.key
        known = plan.staging[number] if 0 <= number < len(plan.staging) else None
        right = known is not None and (known.rank, known.size) == (address.rank, size)
    if not right:
        raise ScheduleError(
            f"{plan.schedule.name}: {address} of {size} elements is none of the schedule's addresses"
        )
