"""A schedule made ready for one rank: levels of sends and receives as spans of flat buffers."""

from dataclasses import dataclass, field

import numpy as np

from wavefabric.collectives import Schedule, levels


@dataclass(frozen=True)
class Span:
    """Part of a buffer, in elements, that goes to or comes from a peer.

    Both ends know it by the ``number`` of the transfer in the schedule.
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
    """What one rank does in a schedule. Levels are the same on all ranks: collective calls match."""

    def __init__(self, schedule: Schedule, rank: int):
        self.schedule, self.rank = schedule, rank
        #: Tells messages of this program from others'; a transport that needs it sets it when it first binds.
        self.label: int | None = None
        depth = levels(schedule)
        self.levels = [Level() for _ in range(int(depth.max(initial=-1)) + 1)]
        offsets = [schedule.offsets(b, rank) for b in range(len(schedule.buffers))]

        def span(number: int, peer: int, end: str) -> Span:
            t = schedule.transfers[number]
            buffer, chunk = int(t[f"{end}_buffer"]), int(t[f"{end}_chunk"])
            first, last = (int(offsets[buffer][at]) for at in (chunk, chunk + int(t["count"])))
            return Span(peer, buffer, first, last - first, number, bool(t["reduce"]))

        own = (schedule.transfers["src"] == rank) | (schedule.transfers["dst"] == rank)
        for number in map(int, np.flatnonzero(own)):
            src, dst = (int(schedule.transfers[number][end]) for end in ("src", "dst"))
            level = self.levels[depth[number]]
            if src == dst:
                level.local.append((span(number, dst, "src"), span(number, src, "dst")))
                continue
            peer, end, spans = (dst, "src", level.sends) if src == rank else (src, "dst", level.receives)
            part = span(number, peer, end)
            if part.size:
                spans.append(part)
        #: Elements of scratch: of what arrives to be added, the most in one level.
        added = (sum(span.size for span in level.receives if span.reduce) for level in self.levels)
        self.scratch = max(added, default=0)
        self.sizes = [int(o[-1]) for o in offsets]
