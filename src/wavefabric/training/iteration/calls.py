"""Communication of a training iteration: which GPUs exchange how many bytes, and why."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

#: What a call may be. ``messages`` are arbitrary transfers, listed one by one.
COLLECTIVES = ("all-reduce", "reduce-scatter", "all-gather", "all-to-all", "messages")
#: Groups and lists of messages that are recognised by identity before they are looked up by value.
_MOST_KNOWN = 100_000
#: Why there is communication. Layers wait for all but the first.
PURPOSES = ("gradients", "parameters", "layer-to-layer", "tensor", "experts")


@dataclass(frozen=True)
class Call:
    """One collective operation in each of several disjoint groups of GPUs that call it together.

    Parameters
    ----------
    collective : str
        Of `COLLECTIVES`.
    groups : tuple of tuple of int
        Numbers of GPUs, from 0; groups of one size, except of ``messages``, where there is one group.
    bytes : float
        B. ``all-reduce``, ``reduce-scatter``, ``all-gather``: the whole array of a group. ``all-to-all``:
        what each GPU sends, its own part included. ``messages``: of a message whose size is 1.
    purpose : str
        Of `PURPOSES`.
    messages : tuple of (int, int, float)
        Source and destination, GPUs, and size; of ``messages`` alone.
    """

    collective: str
    groups: tuple[tuple[int, ...], ...]
    bytes: float
    purpose: str
    messages: tuple[tuple[int, int, float], ...] = ()

    @cached_property
    def gpus(self) -> frozenset[int]:
        """All GPUs that take part."""
        return frozenset(gpu for group in self.groups for gpu in group)

    @property
    def moves_nothing(self) -> bool:
        """Whether nothing goes from one GPU to another, however many bytes."""
        if self.collective == "messages":
            return not self.groups or not any(size > 0 and a != b for a, b, size in self.messages)
        return not self.groups or len(self.groups[0]) < 2

    @property
    def blocking(self) -> bool:
        """Whether a later layer waits for it; such calls go before gradients (LUMORPH, appendix C)."""
        return self.purpose != "gradients"


class Numbers:
    """Numbers of tuples, equal ones the same; only what was not seen before is hashed, for it may be long."""

    def __init__(self):
        self._numbers: dict[tuple, int] = {}
        #: By identity; the object is kept, so that no other takes its identity.
        self._known: dict[int, tuple[tuple, int]] = {}

    def of(self, value: tuple) -> int:
        """The number of a tuple."""
        known = self._known.get(id(value))
        if known is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            known = self._known[id(value)] = value, self._numbers.setdefault(value, len(self._numbers))
        return known[1]


class CallTable:
    """Makes calls, the same object for equal ones: a fabric recognises what it has costed by identity."""

    def __init__(self):
        self._calls: dict[tuple, Call] = {}
        self._numbers = Numbers()

    def make(self, *arguments: Any) -> Call:
        """The call of these arguments, those of `Call`."""
        return self.same(Call(*arguments))

    def same(self, call: Call) -> Call:
        """The object for calls equal to this one."""
        groups, messages = self._numbers.of(call.groups), self._numbers.of(call.messages)
        return self._calls.setdefault((call.collective, groups, call.bytes, call.purpose, messages), call)
