"""Provide the clock of a synthesis, and deadlines that stop its parts."""

import math
import time

#: Seconds to write down and verify a move of a chunk, with a margin for a busy machine.
_WRITE = 5e-5


class OutOfTime(Exception):
    """Raised if a deadline passes during a computation."""


def now() -> float:
    """Return the time of `time.monotonic`, in s."""
    return time.monotonic()


class Deadline:
    """A deadline at the time ``at`` of `now`; `check` reads the clock once in ``every`` calls."""

    def __init__(self, at: float = math.inf, every: int = 256):
        self.at, self.every = at, every
        self._calls = 0

    def check(self) -> None:
        """Raise `OutOfTime` if the deadline has passed."""
        self._calls += 1
        if self._calls % self.every == 0:
            check(self.at)


def check(at: float) -> None:
    """Raise `OutOfTime` if the time ``at`` of `now` has passed."""
    if now() > at:
        raise OutOfTime


def fraction(until: float, part: float, most: float = math.inf) -> float:
    """Return the time at which the fraction ``part`` of the time from now to ``until`` is over.

    It is at most ``most`` s from now.
    """
    begun = now()
    return begun + (most if math.isinf(until) else min(most, (until - begun) * part))


def search_deadline(begun: float, time_limit: float, moves: int) -> float:
    """Return the time when a search must end, so that ``moves`` moves can be written within the limit."""
    return begun + time_limit - min(time_limit / 2, _WRITE * moves) if math.isfinite(time_limit) else math.inf
