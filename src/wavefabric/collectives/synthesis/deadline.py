"""The clock that all parts of a synthesis read, and work that stops when its time is over."""

import math
import time

#: Seconds to write down and verify a move of a chunk, with space for a busy machine.
_WRITE = 5e-5


class OutOfTime(Exception):
    """A deadline passed while something was computed."""


def now() -> float:
    """Seconds of `time.monotonic`."""
    return time.monotonic()


class Deadline:
    """A time of `now`; `check` looks at the clock once in `every` calls."""

    def __init__(self, at: float = math.inf, every: int = 256):
        self.at, self.every = at, every
        self._calls = 0

    def check(self) -> None:
        """Raise `OutOfTime` if it has passed."""
        self._calls += 1
        if self._calls % self.every == 0:
            check(self.at)


def check(at: float) -> None:
    """Raise `OutOfTime` after a time of `now`."""
    if now() > at:
        raise OutOfTime


def fraction(until: float, part: float, most: float = math.inf) -> float:
    """When a part of the time from now on has passed, or `most` seconds of a time without end."""
    begun = now()
    return begun + (most if math.isinf(until) else min(most, (until - begun) * part))


def before_writing(begun: float, time_limit: float, moves: int) -> float:
    """Until when a schedule of so many moves may be searched: at least half of the time."""
    return begun + time_limit - min(time_limit / 2, _WRITE * moves) if math.isfinite(time_limit) else math.inf
