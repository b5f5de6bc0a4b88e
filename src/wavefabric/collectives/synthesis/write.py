"""Write moves of chunks as the transfers of a schedule."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from wavefabric.collectives.conditions import kind
from wavefabric.collectives.schedule import TRANSFER, Schedule
from wavefabric.collectives.sizes import padded
from wavefabric.collectives.synthesis.demand import Location, Move, SumsAndCopies
from wavefabric.collectives.verify import verify


class ScheduleWriter:
    """Turns the moves of a solution into a schedule: moves of sums first, then of copies."""

    def __init__(self, task: SumsAndCopies):
        self.task = task
        self.locations = dict(task.locations)
        self.scratch = len(task.layout.buffers)
        #: Elements of each chunk.
        self.size = {
            number: int(task.layout.sizes[buffer][rank, chunk])
            for (number, rank), (buffer, chunk) in task.locations.items()
        }
        #: Sizes of the scratch chunks of each rank.
        self.slots: dict[int, list[int]] = defaultdict(list)
        #: By (rank, size), the scratch chunks that are free again after each round.
        self.passing: dict[tuple[int, int], list[int]] = defaultdict(list)
        self.rows: list[tuple] = []
        self.round = 0

    def sums(self, moves: Sequence[Move]) -> list[int]:
        """Write moves that add; return, for each round of ``moves``, the schedule's round where it begins.

        If a chunk receives several terms in a round, the term of the lowest rank is added on receipt. Others
        go to scratch and are added in later rounds, in rank order, so that the bits do not depend on timing.
        """
        became: list[int] = []
        summed = self.task.sums.chunks if self.task.sums is not None else ()
        holds = {(c, rank) for c, chunk in enumerate(summed) for rank in chunk.have | chunk.need}
        of_round: dict[int, list[Move]] = defaultdict(list)
        for move in moves:
            of_round[move[0]].append(move)
        for r in range(1 + max(of_round, default=-1)):
            taken: Counter[tuple[int, int]] = Counter()
            arrived: Counter[tuple[int, int]] = Counter()
            for _, number, src, dst in sorted(of_round[r]):
                n = arrived[number, dst]
                arrived[number, dst] += 1
                target, source = self._location(number, dst), self._location(number, src)
                if not n:
                    self._row(self.round, src, dst, source, target, (number, dst) in holds)
                else:
                    slot = self._slot(dst, self.size[number], taken)
                    self._row(self.round, src, dst, source, slot, False)
                    self._row(self.round + n, dst, dst, slot, target, True)
            holds |= set(arrived)
            became.append(self.round)
            self.round += max(arrived.values(), default=1)
        return became

    def copies(self, moves: Sequence[Move]) -> list[int]:
        """Write moves that copy chunks, then the copies within ranks; return rounds as `sums` does."""
        first = self.round
        for r, number, src, dst in moves:
            self._row(first + r, src, dst, self._location(number, src), self._location(number, dst), False)
        rounds = 1 + max((m[0] for m in moves), default=-1)
        self.round += rounds
        received = {(number, dst) for _, number, _, dst in moves}
        for number, rank, location in self.task.local_copies:
            # A chunk present before is copied at once; a received chunk in a later round.
            at = self.round if (number, rank) in received or not rounds else first
            self._row(at, rank, rank, self.locations[number, rank], location, False)
        return list(range(first, first + rounds))

    def schedule(self) -> Schedule:
        """Return the schedule of all moves written so far, after `verify`."""
        layout = self.task.layout
        rows = np.array(sorted(self.rows), TRANSFER)
        buffers, sizes = layout.buffers, layout.sizes
        if self.slots:
            table = padded([self.slots.get(rank, ()) for rank in range(layout.ranks)])
            name = "scratch"
            while name in buffers:
                name += "_"
            buffers, sizes = (*buffers, name), (*sizes, table)
        made = Schedule("synthesised", layout.ranks, buffers, sizes, rows, layout.pre, layout.post)
        made = replace(made, name=f"synthesised {kind(made)[0]}")
        verify(made)
        return made

    def _row(self, r: int, src: int, dst: int, source: Location, target: Location, reduce: bool) -> None:
        self.rows.append((r, src, dst, *source, *target, 1, reduce, 0))

    def _location(self, number: int, rank: int) -> Location:
        """Return where a rank stores a chunk; a rank that only passes it on stores it in scratch."""
        if (number, rank) not in self.locations:
            self.slots[rank].append(self.size[number])
            self.locations[number, rank] = (self.scratch, len(self.slots[rank]) - 1)
        return self.locations[number, rank]

    def _slot(self, rank: int, size: int, taken: Counter[tuple[int, int]]) -> Location:
        """Return a scratch chunk of ``size`` elements, unused in this round; later rounds reuse the chunk."""
        n = taken[rank, size]
        taken[rank, size] += 1
        alike = self.passing[rank, size]
        if n == len(alike):
            self.slots[rank].append(size)
            alike.append(len(self.slots[rank]) - 1)
        return self.scratch, alike[n]
