"""A schedule made ready for one rank: levels of sends and receives as spans of flat buffers."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from wavefabric.collectives import Schedule, levels


@dataclass(frozen=True)
class Span:
    """Part of a buffer, in elements, that goes to or comes from a peer.

    ``number`` is the transfer's place in the schedule: the tag by which both ends know it.
    """

    peer: int
    buffer: int
    first: int
    size: int
    number: int
    reduce: bool = False

    def of(self, buffers: list):
        """The elements themselves."""
        return buffers[self.buffer][self.first : self.first + self.size]


@dataclass
class Level:
    """Transfers that depend on nothing but earlier levels. Receives are in the schedule's order."""

    sends: list[Span] = field(default_factory=list)
    receives: list[Span] = field(default_factory=list)
    #: (from, to) within this rank.
    local: list[tuple[Span, Span]] = field(default_factory=list)


class Program:
    """What one rank does in a schedule.

    Levels are the same on all ranks, so that collective calls of a transport match.

    Parameters
    ----------
    schedule : Schedule
    rank : int
    """

    def __init__(self, schedule: Schedule, rank: int):
        self.schedule, self.rank = schedule, rank
        depth = levels(schedule)
        self.levels = [Level() for _ in range(int(depth.max(initial=-1)) + 1)]
        offsets = [schedule.offsets(b, rank) for b in range(len(schedule.buffers))]
        #: Largest sum of what comes in to be added, over levels: room for it, in elements.
        self.scratch = 0
        mine = (schedule.transfers["src"] == rank) | (schedule.transfers["dst"] == rank)
        for number in np.flatnonzero(mine):
            t, level = schedule.transfers[number], self.levels[depth[number]]
            src, dst, reduce = int(t["src"]), int(t["dst"]), bool(t["reduce"])
            here = there = None
            if src == rank:
                here = self._span(offsets, dst, t["src_buffer"], t["src_chunk"], t["count"], number, reduce)
            if dst == rank:
                there = self._span(offsets, src, t["dst_buffer"], t["dst_chunk"], t["count"], number, reduce)
            if here and there:
                level.local.append((here, there))
            elif here and here.size:
                level.sends.append(here)
            elif there and there.size:
                level.receives.append(there)
        for level in self.levels:
            self.scratch = max(self.scratch, sum(span.size for span in level.receives if span.reduce))
        self.sizes = [int(o[-1]) for o in offsets]

    @staticmethod
    def _span(offsets, peer, buffer, chunk, count, number, reduce) -> Span:
        first, last = offsets[buffer][chunk], offsets[buffer][chunk + count]
        return Span(peer, int(buffer), int(first), int(last - first), int(number), reduce)
