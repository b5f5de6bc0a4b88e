"""Compute the time of communication calls as an exact function of bytes, from few cost evaluations."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from math import isclose

import numpy as np

from wavefabric.collectives.schedule import Schedule
from wavefabric.fabric.cost_models.cost import Cost

#: Range of sizes in which `tangents` is exact, in bytes.
LEAST, MOST = 1.0, 1e15
#: Whether two times are equal within rounding.
_close = partial(isclose, rel_tol=1e-9)


@dataclass(frozen=True)
class AffineTime:
    """A time ``latency`` + ``rate`` × bytes, in s; ``rate`` is in s per byte."""

    latency: float
    rate: float

    def __call__(self, nbytes: float) -> float:
        return self.latency + self.rate * nbytes


def tangents(tangent: Callable[[float], AffineTime], everywhere: bool = False) -> tuple[AffineTime, ...]:
    """Return lines whose maximum is a convex, piecewise linear function of bytes, from `LEAST` to `MOST`.

    ``tangent(nbytes)`` must return a line that touches the function at ``nbytes`` and is nowhere above the
    function. With ``everywhere`` the function is known to be a single line. Otherwise, if the tangents at
    both ends are the same line, the function is this line. If the tangents differ, the function is evaluated
    where they meet; if the function lies above the meeting point, both sides are searched recursively.
    """
    first = tangent(LEAST)
    if everywhere:
        return (first,)
    return tuple(dict.fromkeys([first, *_between(tangent, LEAST, first, MOST, tangent(MOST))]))


def _between(
    tangent: Callable[[float], AffineTime], low: float, first: AffineTime, high: float, last: AffineTime
) -> list[AffineTime]:
    """Return the lines from ``first``, tangent at ``low`` and left out, to ``last``, tangent at ``high``."""
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
    """Return a function that computes the time in s of calls that run together from the bytes of each call.

    ``schedule`` has the transfers of all calls; ``result`` is the cost of ``schedule`` (on a photonic fabric)
    at `LARGE` bytes per element. Each part of a round takes as long as the slowest call in this part.
    Circuits depend only on which GPUs communicate, and each circuit is used by one call. ``gpus``: the GPUs
    of each call, disjoint. ``elements``: the number of elements of each call.
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
