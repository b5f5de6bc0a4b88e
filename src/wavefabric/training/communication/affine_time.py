"""Time of one call or of several as a function of bytes, from few evaluations of a cost model, exactly."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from math import isclose

import numpy as np

from wavefabric.collectives.schedule import Schedule
from wavefabric.fabric.cost_models.cost import Cost

#: Sizes between which a function is followed, B.
LEAST, MOST = 1.0, 1e15
#: Whether two times are one.
_close = partial(isclose, rel_tol=1e-9)


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
    return tuple(dict.fromkeys([first, *_between(tangent, LEAST, first, MOST, tangent(MOST))]))


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


#: Bytes an element of the costing: so many that what latencies add to times is lost beside them.
LARGE = 1e12


def batch_time(
    schedule: Schedule, result: Cost, gpus: Sequence[Collection[int]], elements: Sequence[float]
) -> Callable[[Sequence[float]], float]:
    """The time of calls combined into a schedule, of B of each, from its cost at `LARGE` B an element.

    Each part of each round takes as long as the slowest of the calls. Circuits depend on who exchanges with
    whom alone, and each belongs to one call, whose size alone says how long it is used. `gpus`: of each call,
    disjoint. `elements`: that the bytes of each call are.
    """
    transfers = schedule.transfers
    away = np.flatnonzero(transfers["src"] != transfers["dst"])
    assert result.times is not None
    begin, end = result.times[away].T
    begins, part = np.unique(begin, return_inverse=True)  # circuits of a part begin together, parts never do
    owner = np.zeros(schedule.ranks, np.int64)
    for number, some in enumerate(gpus):
        owner[list(some)] = number
    call = owner[transfers["src"][away]]
    rates = np.zeros((begins.size, len(gpus)))  # s a byte of each call in each part
    np.maximum.at(rates, (part, call), (end - begin) / LARGE / np.array(elements)[call])
    latency = sum(r.latency + r.reconfiguration for r in result.rounds)
    return lambda nbytes: latency + float((rates * np.array(nbytes)).max(axis=1).sum())
