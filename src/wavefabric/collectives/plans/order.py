"""Add signals and waits: they enforce the order between ranks that nothing else ensures.

Every access to an address is compared with the earlier accesses of all ranks. A rank knows how far each other
rank had come when it last heard from it, directly or through others (vector clocks: Mattern 1989). If it does
not know that an earlier access is done, the other rank signals after that access and this rank waits.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from wavefabric.collectives.plans.moves import STAGING, Address, Move, StagingBuffer


@dataclass(frozen=True)
class Signal:
    """Raises the counters of the ranks ``to``, after everything that this block did before."""

    to: tuple[int, ...]


@dataclass(frozen=True)
class Wait:
    """Waits until other ranks have sent signals in this call: (rank, how many of its signals), …."""

    signals: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Barrier:
    """Makes the threads of a block meet: later accesses depend on earlier ones of other threads."""


@dataclass
class _Step:
    """Moves of one rank that one signal announces to others; a rank's first and last step have no moves."""

    rank: int
    moves: list[Move] = field(default_factory=list)
    #: Steps of other ranks that this step waits for, as (rank, number).
    after: set[tuple[int, int]] = field(default_factory=set)
    #: Ranks that get a signal when this step is done.
    tells: set[int] = field(default_factory=set)
    #: Vector clock of the rank when this step is done: steps of each other rank known to be done.
    known: list[int] = field(default_factory=list)
    #: The last step of this rank that a barrier must separate from this step; −1 for none.
    own: int = -1


@dataclass
class _Accesses:
    """Holds the last write of an address, and the reads since, as (rank, step)."""

    address: Address
    written: tuple[int, int]
    read: list[tuple[int, int]] = field(default_factory=list)


def ordered(
    moves: list[Move], staging: Sequence[StagingBuffer], ranks: int, packets: bool, slots: int | None
):
    """Return the instructions of each rank: its moves, with the signals, waits and barriers that order them.

    Also return a dictionary from (sender, receiver) to the number of signals per call, and the number of
    slots. Staging buffers have ``slots`` slots, used in turn by consecutive calls; by default one if that
    makes no rank wait, else two.
    """
    if slots != 2 and not packets:
        made = _Order(moves, staging, ranks, packets, 1)
        if slots == 1 and (late := made.late()):
            made = _Order(moves, staging, ranks, packets, 1, late)
        if slots == 1 or not made.late():
            return *made.instructions(), 1
    return *_Order(moves, staging, ranks, packets, 2).instructions(), 2


def _steps(moves: list[Move]) -> Iterator[_Step]:
    """Group moves into steps, after each of which a rank sends at most one signal to each other rank.

    A step has moves of one rank, level and phase, none of which accesses what another one writes.
    """

    def like(move: Move) -> tuple:
        return move.level, move.phase, move.rank

    for (_, _, rank), group in groupby(sorted(moves, key=like), like):
        step, read, written = _Step(rank), set(), set()
        for move in group:
            reads, writes = ({address.key for address in end} for end in (move.sources, move.targets))
            if written & (reads | writes) or read & writes:
                yield step
                step, read, written = _Step(rank), set(), set()
            step.moves.append(move)
            read |= reads
            written |= writes
        yield step


class _Order:
    """Orders all moves by signals and waits between ranks, and barriers within a rank.

    The senders of the staging buffers ``late`` wait until the receiver has begun the call.
    """

    def __init__(
        self,
        moves: list[Move],
        staging: Sequence[StagingBuffer],
        ranks: int,
        packets: bool,
        slots: int,
        late: Collection[int] = (),
    ):
        self._staging, self._packets, self._slots, self._late = staging, packets, slots, late
        self._known = [[0] * ranks for _ in range(ranks)]
        self._steps: list[list[_Step]] = [[] for _ in range(ranks)]
        self._accesses: dict[int, _Accesses] = {}
        # The first step of a rank stands for the accesses of its caller before the call.
        for rank in range(ranks):
            self._done(_Step(rank))
        for step in _steps(moves):
            self._add(step)
        self._end()

    def _add(self, step: _Step) -> None:
        """Add a step after all earlier accesses that it depends on."""
        writes = {address.key: address for move in step.moves for address in move.targets}
        reads = {address.key: address for move in step.moves for address in move.sources}
        me = step.rank, len(self._steps[step.rank])
        needs: set[tuple[int, int]] = set()
        for address in {**reads, **writes}.values():
            # The owner's caller accessed the address first; a free slot has no earlier accesses.
            free = address.buffer == STAGING and -1 - address.key not in self._late
            first = _Accesses(address, (address.rank, -1 if free else 0))
            here = self._accesses.setdefault(address.key, first)
            if address.key in reads and address.buffer == STAGING and self._packets:
                # Flags tell that the packet has come and its writer has begun, nothing about other threads.
                writer, known = here.written[0], self._known[step.rank]
                known[writer] = max(known[writer], 1)
            elif address.key in reads or not here.read:
                needs.add(here.written)
            if address.key in writes:
                needs.update(here.read)
        self._require(step, needs)
        for key in reads:
            self._accesses[key].read.append(me)
        for key, address in writes.items():
            self._accesses[key] = _Accesses(address, me)
        self._done(step)

    def _end(self) -> None:
        """Add the last step of each rank, which waits for all accesses of others to its buffers."""
        needs: list[set[tuple[int, int]]] = [set() for _ in self._steps]
        for access in self._accesses.values():
            address = access.address
            if address.buffer != STAGING:
                # Other ranks wrote it, or read it through a switch.
                touched = (access.written, *access.read)
                needs[address.rank].update(at for at in touched if at[0] != address.rank)
        last = [_Step(rank) for rank in range(len(self._steps))]
        for step, needed in zip(last, needs, strict=True):
            self._require(step, needed)
        if self._slots == 2:
            # The next call overwrites what the previous one read: the reader must have begun this call.
            for staging_buffer in self._staging:
                self._require(last[staging_buffer.sender], {(staging_buffer.rank, 0)})
        for step in last:
            self._done(step)

    def late(self) -> set[int]:
        """Return the numbers of staging buffers whose senders do not learn in a call that they were read."""
        result = set()
        for number, staging_buffer in enumerate(self._staging):
            reads = self._accesses[-1 - number].read
            if any(self._known[staging_buffer.sender][rank] <= step for rank, step in reads):
                result.add(number)
        return result

    def _require(self, step: _Step, needs: set[tuple[int, int]]) -> None:
        """Let ``step`` wait for the steps ``needs``, as (rank, number), unless they are known to be done."""
        for rank, number in sorted(needs, key=lambda need: -need[1]):
            if number < 0:
                continue
            if rank == step.rank:
                step.own = max(step.own, number)
            elif self._known[step.rank][rank] <= number:
                step.after.add((rank, number))
                other = self._steps[rank][number]
                other.tells.add(step.rank)
                # The step learns that the other is done, and the clock of the other's rank then.
                self._known[step.rank] = list(map(max, self._known[step.rank], other.known))

    def _done(self, step: _Step) -> None:
        steps = self._steps[step.rank]
        self._known[step.rank][step.rank] = len(steps) + 1
        step.known = list(self._known[step.rank])
        steps.append(step)

    def instructions(self):
        """Return each rank's instructions, and a dictionary from (sender, receiver) to signals per call."""
        count: Counter[tuple[int, int]] = Counter()
        number: dict[tuple[int, int, int], int] = {}  # (from, step, to) → number of the signal
        for rank, steps in enumerate(self._steps):
            for at, step in enumerate(steps):
                for peer in step.tells:
                    count[rank, peer] += 1
                    number[rank, at, peer] = count[rank, peer]
        return tuple(tuple(self._of_rank(rank, number)) for rank in range(len(self._steps))), dict(count)

    def _of_rank(self, rank: int, number: dict[tuple[int, int, int], int]) -> Iterator:
        together = 0  # the last step before a barrier of any kind
        for at, step in enumerate(self._steps[rank]):
            if step.after:
                latest: dict[int, int] = {}
                for peer, before in step.after:
                    latest[peer] = max(latest.get(peer, 0), number[peer, before, rank])
                yield Wait(tuple(sorted(latest.items())))
            elif step.own > together:
                yield Barrier()
            if step.after or step.own > together:
                together = at - 1
            yield from step.moves
            if step.tells:
                yield Signal(tuple(sorted(step.tells)))
                together = at
