"""Compute the time of communication calls as an exact function of bytes, from few cost evaluations."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import isclose

import numpy as np

from wavefabric.collectives.candidates import Choice
from wavefabric.collectives.schedule import Schedule
from wavefabric.fabric.cost_models.cost import Cost

#: Range of sizes in which `tangents` is exact, in bytes.
LEAST, MOST = 1.0, 1e15
#: Whether two times are equal within rounding.
_close = partial(isclose, rel_tol=1e-9)


@dataclass(frozen=True)
class AffineTime:
    """Represents a time in s that is an affine function of bytes: ``latency`` + ``rate`` × bytes."""

    latency: float
    rate: float

    def __call__(self, nbytes: float) -> float:
        return self.latency + self.rate * nbytes


@dataclass(frozen=True, eq=False)
class CallTime:
    """Holds the time of a call as a function of its bytes, for each algorithm of ``choices``.

    The time with algorithm i of ``choices`` is the maximum of the functions ``lines[i]``. ``left_out``: a
    dictionary from the name of an algorithm that was not compared to the reason.
    """

    choices: tuple[Choice, ...]
    lines: tuple[tuple[AffineTime, ...], ...]
    left_out: dict[str, str] = field(default_factory=dict)

    def of(self, number: int, nbytes: float) -> float:
        """Return the time in s of a call of ``nbytes`` bytes with algorithm ``number`` of ``choices``."""
        return max([line.latency + line.rate * nbytes for line in self.lines[number]])

    def best(self, nbytes: float) -> int:
        """Return the index in ``choices`` of the fastest algorithm for a call of ``nbytes`` bytes."""
        if len(self.lines) == 1:
            return 0
        return min(range(len(self.lines)), key=lambda number: self.of(number, nbytes))

    def __call__(self, nbytes: float) -> float:
        """Return the time in s of a call of ``nbytes`` bytes with the fastest algorithm."""
        return min([self.of(number, nbytes) for number in range(len(self.lines))])


#: Time of a call in which no GPU sends to another GPU.
NOTHING = CallTime((Choice("none"),), ((AffineTime(0.0, 0.0),),))


def tangents(tangent: Callable[[float], AffineTime], everywhere: bool = False) -> tuple[AffineTime, ...]:
    """Return the straight lines whose maximum is the time of a call as a function of its bytes.

    The time must be convex and piecewise linear in the bytes. ``tangent(nbytes)`` returns a line that equals
    the time at ``nbytes`` bytes and is nowhere above the time. The result is exact between `LEAST` and `MOST`
    bytes. The search begins with the tangents at both ends, and evaluates the time where two tangents meet.
    If the time is above the meeting point, both sides are searched likewise. ``everywhere``: the time is
    known to be a single line.
    """
    first = tangent(LEAST)
    if everywhere:
        return (first,)
    return tuple(dict.fromkeys([first, *_between(tangent, LEAST, first, MOST, tangent(MOST))]))


def _between(
    tangent: Callable[[float], AffineTime], low: float, first: AffineTime, high: float, last: AffineTime
) -> list[AffineTime]:
    """Return the straight lines of a convex, piecewise linear time between two numbers of bytes.

    ``tangent(nbytes)`` returns the line that touches the time at ``nbytes`` bytes. ``first`` is the line that
    touches the time at ``low`` bytes, ``last`` the line that touches the time at ``high`` bytes. The result
    is in order of increasing bytes. It contains ``last`` but not ``first``, and is empty if both are one
    line.
    """
    if _close(first(high), last(high)):
        return []
    meeting = (first.latency - last.latency) / (last.rate - first.rate)
    if not low < meeting < high:
        return [last]
    middle = tangent(meeting)
    if _close(middle(meeting), last(meeting)):
        return [last]
    return [*_between(tangent, low, first, meeting, middle), *_between(tangent, meeting, middle, high, last)]


#: Bytes per element for the cost evaluation: so large that latencies are negligible.
LARGE = 1e12


def batch_time(
    schedule: Schedule, result: Cost, gpus: Sequence[Collection[int]], elements: Sequence[float]
) -> Callable[[Sequence[float]], float]:
    """Return a function that computes the time in s of several calls that run together.

    The argument of the function is a list with the bytes of each call. The fabric is photonic. ``schedule``:
    the transfers of all calls. ``result``: the cost of ``schedule`` at `LARGE` bytes per element. ``gpus``:
    the GPUs of each call; no GPU is in two calls. ``elements``: the number of elements of each call.

    Each circuit is used by one call only, so in each round a call's transfer time is proportional to its
    bytes. Transfers of a round that begin at the same time take as long as the slowest call among them.
    """
    transfers = schedule.transfers
    away = np.flatnonzero(transfers["src"] != transfers["dst"])
    assert result.times is not None
    begin, end = result.times[away].T
    begins, part = np.unique(begin, return_inverse=True)  # equal begin: one part of a round
    owner = np.zeros(schedule.ranks, np.int64)
    for number, some in enumerate(gpus):
        owner[list(some)] = number
    call = owner[transfers["src"][away]]
    rates = np.zeros((begins.size, len(gpus)))  # s per byte, shape (parts, calls)
    np.maximum.at(rates, (part, call), (end - begin) / LARGE / np.array(elements)[call])
    latency = sum(r.latency + r.reconfiguration for r in result.rounds)
    return lambda nbytes: latency + float((rates * np.array(nbytes)).max(axis=1).sum())
