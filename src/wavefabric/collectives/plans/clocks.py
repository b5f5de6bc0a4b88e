"""Decide by vector clocks which memory accesses are ordered, whatever the timing (Mattern 1989).

Every access is compared with the last accesses of all other actors (the rule of FastTrack, doi
10.1145/1543135.1542490). An actor is a rank or a thread block: its moves and barriers have one order.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Access(NamedTuple):
    """A memory access by an actor (a rank or thread block) at a time of its clock, as part of a ``move``."""

    actor: int
    time: int
    move: Any


@dataclass
class Accesses:
    """Holds the accesses to one address: the last write, and the reads since."""

    write: Access = field(default_factory=lambda: Access(0, 0, 0))
    reads: list[Access] = field(default_factory=list)
    #: For a packet: the call that it belongs to, the clock of its writer when that call began, and the reads
    #: that produced it, which are done once the packet has come.
    call: int = -1
    begun: list[int] = field(default_factory=list)
    made_of: frozenset[Access] = frozenset()


class Clock:
    """The vector clock of an actor: per other actor, the time up to which all its accesses are done.

    The actor's time advances at barriers: between two barriers only accesses of one move are ordered.
    """

    def __init__(self, actor: int, actors: int):
        self.actor = actor
        self.move: Any = 0
        self.times = [int(other == actor) for other in range(actors)]

    def barrier(self) -> None:
        """Advance the actor's own time by one: all its threads meet, so its earlier accesses are done."""
        self.times[self.actor] += 1

    def told(self) -> list[int]:
        """Return the clock to be sent with a signal, without accesses since the actor's last barrier."""
        return [time - (actor == self.actor) for actor, time in enumerate(self.times)]

    def learn(self, told: list[int]) -> None:
        """Merge in the clock ``told`` that another actor sent."""
        self.times = list(map(max, self.times, told))

    def knows(self, access: Access) -> bool:
        """Whether an access is known to be done, or is part of the current move."""
        if access.actor == self.actor:
            return access.time < self.times[self.actor] or access.move == self.move
        return access.time <= self.times[access.actor]

    def unordered(self, accesses: Accesses, write: bool) -> Iterator[tuple[Access, str]]:
        """Yield conflicting earlier accesses not known to be done, each with "written" or "read"."""
        if not self.knows(accesses.write):
            yield accesses.write, "written"
        for access in accesses.reads if write else ():
            if not self.knows(access):
                yield access, "read"

    def access(self, accesses: Accesses, write: bool) -> Access:
        """Record an access in the current move, and return it."""
        made = Access(self.actor, self.times[self.actor], self.move)
        if write:
            accesses.write, accesses.reads = made, []
        else:
            accesses.reads.append(made)
        return made
