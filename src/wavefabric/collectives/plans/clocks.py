"""Vector clocks: which accesses to memory are ordered, whatever the timing (Mattern 1989).

Every access is compared with the last ones of all other actors (the rule of FastTrack, doi
10.1145/1543135.1542490). An actor is what does things in an order of its own: a rank, or a thread block.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Access(NamedTuple):
    """By an actor, at a time of its own, in a move that tells it from others."""

    actor: int
    time: int
    move: Any


@dataclass
class Accesses:
    """Of an address: the last write, and reads since."""

    write: Access = field(default_factory=lambda: Access(0, 0, 0))
    reads: list[Access] = field(default_factory=list)
    #: Of a packet: the call that it belongs to, what its writer knew when that began, and the reads of
    #: which it is made, which are done when it is there.
    call: int = -1
    begun: list[int] = field(default_factory=list)
    made_of: frozenset[Access] = frozenset()


class Clock:
    """What an actor knows: of each other one, the last time of which all accesses are done.

    Its own time passes at barriers: what its threads do between two is in no order, but for one move.
    """

    def __init__(self, actor: int, actors: int):
        self.actor = actor
        self.move: Any = 0
        self.times = [int(other == actor) for other in range(actors)]

    def barrier(self) -> None:
        """All threads of the actor meet."""
        self.times[self.actor] += 1

    def told(self) -> list[int]:
        """What others learn of it: all is done but what has come since the last barrier."""
        return [time - (actor == self.actor) for actor, time in enumerate(self.times)]

    def learn(self, told: list[int]) -> None:
        """From now on it knows what another actor knew when it told."""
        self.times = list(map(max, self.times, told))

    def knows(self, access: Access) -> bool:
        """Whether an access is done, or part of the move at hand."""
        if access.actor == self.actor:
            return access.time < self.times[self.actor] or access.move == self.move
        return access.time <= self.times[access.actor]

    def unordered(self, accesses: Accesses, write: bool) -> Iterator[tuple[Access, str]]:
        """Accesses that must be done before this one and are not known to be, and what they did."""
        if not self.knows(accesses.write):
            yield accesses.write, "written"
        for access in accesses.reads if write else ():
            if not self.knows(access):
                yield access, "read"

    def access(self, accesses: Accesses, write: bool) -> Access:
        """Note an access, in the move at hand."""
        made = Access(self.actor, self.times[self.actor], self.move)
        if write:
            accesses.write, accesses.reads = made, []
        else:
            accesses.reads.append(made)
        return made
