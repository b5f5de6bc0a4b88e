"""Signals and waits: what must stay in order between ranks, and is not by itself.

Every access to an address is compared with those before it, of any rank. A rank knows how far each other rank
was when it last heard from it, directly or through others (vector clocks: Mattern 1989). Where it does not
know that an earlier access is done, the other rank signals after it and this one waits.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from wavefabric.collectives.plans.moves import STAGING, Address, Move, StagingBuffer


@dataclass(frozen=True)
class Signal:
    """Raise the counters of the ranks ``to``, after all that this block did before."""

    to: tuple[int, ...]


@dataclass(frozen=True)
class Wait:
    """Until as many signals have come from each rank: (rank, signals of this call), …."""

    signals: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Barrier:
    """Of the threads of a block: what follows reads or writes what other threads wrote or read before."""


@dataclass
class _Step:
    """Moves of one rank that are announced together. The first step of a rank has none, nor has the last."""

    rank: int
    moves: list[Move] = field(default_factory=list)
    #: Steps of other ranks that must be done before, by (rank, number).
    after: set[tuple[int, int]] = field(default_factory=set)
    #: Ranks that hear when it is done.
    tells: set[int] = field(default_factory=set)
    #: How far the others were known to be when it is done.
    known: list[int] = field(default_factory=list)
    #: The last step of this rank that it must not mix with; −1 for none.
    own: int = -1


@dataclass
class _Accesses:
    """Of an address: who wrote it last, and who has read it since, by (rank, step)."""

    address: Address
    written: tuple[int, int]
    read: list[tuple[int, int]] = field(default_factory=list)


def ordered(
    moves: list[Move], staging: Sequence[StagingBuffer], ranks: int, packets: bool, slots: int | None
):
    """Instructions of each rank, how often the first of a pair of ranks signals the second, and slots.

    One slot for staging buffers if that makes nobody wait, else two, or as many as ``slots`` says.
    """
    if slots != 2 and not packets:
        made = _Order(moves, staging, ranks, packets, 1)
        if slots == 1 and (late := made.late()):
            made = _Order(moves, staging, ranks, packets, 1, late)
        if slots == 1 or not made.late():
            return *made.instructions(), 1
    return *_Order(moves, staging, ranks, packets, 2).instructions(), 2


def _steps(moves: list[Move]) -> Iterator[_Step]:
    """Moves of a rank, level and phase together: one signal after several puts waits for all at once."""

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
    """With one slot, senders of the staging buffers ``late`` wait until the receiver has begun the call."""

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
        # The first step of a rank: what its caller did before is done.
        for rank in range(ranks):
            self._done(_Step(rank))
        for step in _steps(moves):
            self._add(step)
        self._end()

    def _add(self, step: _Step) -> None:
        """Order a step after all that it needs."""
        writes = {address.key: address for move in step.moves for address in move.targets}
        reads = {address.key: address for move in step.moves for address in move.sources}
        me = step.rank, len(self._steps[step.rank])
        needs: set[tuple[int, int]] = set()
        for address in {**reads, **writes}.values():
            # Before the first access comes that of its owner's caller; a free slot has no earlier ones.
            free = address.buffer == STAGING and -1 - address.key not in self._late
            first = _Accesses(address, (address.rank, -1 if free else 0))
            here = self._accesses.setdefault(address.key, first)
            if address.key in reads and address.buffer == STAGING and self._packets:
                # Flags say that it is there, and that its writer has begun; of other threads nothing.
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
        """The last step of each rank: all that others write here has come, and what they read is read."""
        needs: list[set[tuple[int, int]]] = [set() for _ in self._steps]
        for access in self._accesses.values():
            address = access.address
            if address.buffer != STAGING:
                # Written by others, or read by a switch.
                touched = (access.written, *access.read)
                needs[address.rank].update(at for at in touched if at[0] != address.rank)
        last = [_Step(rank) for rank in range(len(self._steps))]
        for step, needed in zip(last, needs, strict=True):
            self._require(step, needed)
        if self._slots == 2:
            # What the next call but one overwrites is read in this one: the reader must have begun the next.
            for staging_buffer in self._staging:
                self._require(last[staging_buffer.sender], {(staging_buffer.rank, 0)})
        for step in last:
            self._done(step)

    def late(self) -> set[int]:
        """Numbers of staging buffers that their senders do not know to have been read when they are done."""
        result = set()
        for number, staging_buffer in enumerate(self._staging):
            reads = self._accesses[-1 - number].read
            if any(self._known[staging_buffer.sender][rank] <= step for rank, step in reads):
                result.add(number)
        return result

    def _require(self, step: _Step, needs: set[tuple[int, int]]) -> None:
        """Steps that must be done before; the latest first, since what it knows may include others."""
        for rank, number in sorted(needs, key=lambda need: -need[1]):
            if number < 0:
                continue
            if rank == step.rank:
                step.own = max(step.own, number)
            elif self._known[step.rank][rank] <= number:
                step.after.add((rank, number))
                other = self._steps[rank][number]
                other.tells.add(step.rank)
                # It learns that the other is done, and all that the other's rank knew then.
                self._known[step.rank] = list(map(max, self._known[step.rank], other.known))

    def _done(self, step: _Step) -> None:
        steps = self._steps[step.rank]
        self._known[step.rank][step.rank] = len(steps) + 1
        step.known = list(self._known[step.rank])
        steps.append(step)

    def instructions(self):
        """As `ordered` returns them."""
        count: Counter[tuple[int, int]] = Counter()
        number: dict[tuple[int, int, int], int] = {}  # (from, step, to) → which signal that is
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
