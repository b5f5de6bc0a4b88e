"""Find accesses to memory that nothing orders, whatever the timing; all programs of thread blocks use this.

The causal history of an event is the set of events that precede it (Schwarz and Mattern 1994, doi
10.1007/BF02277859). Two accesses are ordered if the history of the event after which the later one comes
includes the event at which the earlier one is done. Every access is compared with the last write before it,
and every write with the reads since (the rule of FastTrack, doi 10.1145/1543135.1542490).
"""

from array import array
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from wavefabric.collectives.levels import hazards
from wavefabric.collectives.sizes import within_groups
from wavefabric.collectives.structure import ScheduleError

#: Bits of causal histories in memory at once.
_BITS = 1 << 28


class EventLog:
    """Records events, such as meetings of threads, and accesses to memory, in an order that can run."""

    def __init__(self):
        self._causes: list[tuple[int, ...]] = []
        self._passes: list[tuple[Any, Any]] = []
        self._addresses: dict[Hashable, int] = {}
        self._accesses = array("q")

    def event(self, *causes: int) -> int:
        """Add an event that comes directly after the events ``causes``, and return its number."""
        self._causes.append(causes)
        return len(self._causes) - 1

    def begin(self, what: Any, who: Any = None) -> None:
        """Begin a pass, whose accesses need no order among themselves; errors name ``what``.

        Errors about later accesses name ``who``, which is ``what`` by default.
        """
        self._passes.append((what, who or what))

    def access(self, address: Hashable, write: bool, start: int, done: int) -> None:
        """Record an access in the current pass, which comes after event ``start`` and is done at ``done``.

        ``start`` is −1 if it need not be ordered after earlier ones, such as that of a packet with a flag.
        """
        number = self._addresses.setdefault(address, len(self._addresses))
        self._accesses.extend((number, write, start, done, len(self._passes) - 1))

    def check(self, name: str, name_of: Callable[[Any], str]) -> None:
        """Raise `ScheduleError` for the first access that is not ordered after an earlier one.

        ``name``: that of the program; ``name_of`` returns the words for an address.
        """
        address, write, start, done, inside = np.array(self._accesses, np.int64).reshape(-1, 5).T
        pairs = np.stack(hazards(address, np.arange(address.size), write > 0))
        # Who reads a packet does not learn all that its writer knows: compare writes with writes, too.
        writes = np.flatnonzero(write)
        again = writes[np.stack(hazards(address[writes], writes, write[writes] > 0))]
        later, earlier = np.concatenate((pairs, again), axis=1)
        apart = (inside[later] != inside[earlier]) & (start[later] >= 0)
        later, earlier = later[apart], earlier[apart]
        racing = unordered(range(len(self._causes)), self._causes, start[later], done[earlier])
        for one, other in sorted(zip(later[racing], earlier[racing], strict=True))[:1]:
            where = name_of(list(self._addresses)[address[one]])
            text = f"{self._passes[inside[one]][0]} {'writes' if write[one] else 'reads'} {where}, "
            text += f"{'written' if write[other] else 'read'} by {self._passes[inside[other]][1]}"
            raise ScheduleError(f"{name}: {text}, and nothing orders them")


def unordered(
    order: Sequence[int],
    causes: Sequence[Sequence[int]],
    later: np.ndarray,
    earlier: np.ndarray,
    group: np.ndarray | None = None,
) -> np.ndarray:
    """Return whether event ``later[i]`` neither is event ``earlier[i]`` nor comes after it: bool.

    ``order``: all events in an order in which they can occur; ``causes``: for each event those that it comes
    directly after, −1 for none. ``group``: a number for each event, which its causes share.
    """
    time, result = np.argsort(order), np.ones(later.size, bool)
    times, number = np.unique(time[earlier], return_inverse=True)
    if group is not None:  # fewer bits: histories have events of one group alone
        number = within_groups(group[np.array(order, np.int64)[times]])[number]
    width = max(1, _BITS // max(1, len(order)))
    for first in range(0, int(number.max(initial=-1)) + 1, width):
        batch = np.flatnonzero((number >= first) & (number < first + width))
        then, before = later[batch], earlier[batch]
        bits, history = ([0] * (len(order) + 1) for _ in range(2))
        for event, bit in zip(before.tolist(), (number[batch] - first).tolist(), strict=True):
            bits[event] = 1 << bit
        for event in order[time[before].min() : time[then].max() + 1]:
            past = bits[event]
            for cause in causes[event]:
                past |= history[cause]
            history[event] = past
        pairs = zip(then.tolist(), before.tolist(), strict=True)
        result[batch] = [not history[event] & bits[other] for event, other in pairs]
    return result
