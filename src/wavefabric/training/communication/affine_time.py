"""Time as a function of bytes, from few evaluations of a cost model, without loss of exactness."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

#: Sizes between which a function is followed, B.
LEAST, MOST = 1.0, 1e15
#: Relative difference below which two times are one.
_EQUAL = 1e-9


@dataclass(frozen=True)
class AffineTime:
    """``latency`` + ``rate`` × bytes, in s and s a byte."""

    latency: float
    rate: float

    def __call__(self, nbytes: float) -> float:
        return self.latency + self.rate * nbytes


def tangents(tangent: Callable[[float], AffineTime], everywhere: bool = False) -> tuple[AffineTime, ...]:
    """Lines whose greatest value is a convex, piecewise linear function between `LEAST` and `MOST` bytes.

    `tangent(nbytes)` is a line that meets the function there and lies nowhere above it. With `everywhere` the
    function is known to be one line. Otherwise: if the tangents at both ends are the same line, so is the
    function between them; else it is looked at where they meet, and if it lies above, on either side of that.
    """
    first = tangent(LEAST)
    if everywhere:
        return (first,)
    last = tangent(MOST)
    found = [first, *_between(tangent, LEAST, first, MOST, last)]
    return tuple(dict.fromkeys(found))


def _between(
    tangent: Callable[[float], AffineTime], low: float, first: AffineTime, high: float, last: AffineTime
) -> list[AffineTime]:
    """Lines between two places, the one at the first left out."""
    if _close(first(high), last(high)):
        return []
    meeting = (first.latency - last.latency) / (last.rate - first.rate)
    if not low < meeting < high:
        return [last]
    middle = tangent(meeting)
    if _close(middle(meeting), last(meeting)):
        return [last]
    return [*_between(tangent, low, first, meeting, middle), *_between(tangent, meeting, middle, high, last)]


def _close(a: float, b: float) -> bool:
    return abs(a - b) <= _EQUAL * max(abs(a), abs(b))
