"""Time of calls whose circuits are up together, for any sizes, from one costing of their circuits."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from wavefabric.collectives.schedule import Schedule
from wavefabric.fabric.cost_models.cost import Cost

#: Bytes an element of the costing: so many that what latencies add to times is lost beside them.
LARGE = 1e12


@dataclass(frozen=True, eq=False)
class BatchTime:
    """Time of several calls, in which each part of each round takes as long as the slowest of them.

    ``latency``: s of all parts. ``rates``: s a byte of each call in each part, shape (parts, calls).
    """

    latency: float
    rates: np.ndarray

    def __call__(self, nbytes: Sequence[float]) -> float:
        return self.latency + float((self.rates * np.array(nbytes)).max(axis=1).sum())


def batch_time(
    schedule: Schedule, found: Cost, gpus: Sequence[Collection[int]], elements: Sequence[float]
) -> BatchTime:
    """The time of calls combined into a schedule, from its photonic cost at `LARGE` bytes an element.

    Circuits depend on who exchanges with whom alone, and each belongs to one call, whose size alone says how
    long it is used. `gpus`: of each call, disjoint. `elements`: that the bytes of each call are.
    """
    transfers = schedule.transfers
    away = np.flatnonzero(transfers["src"] != transfers["dst"])
    assert found.times is not None
    begin, end = found.times[away].T
    begins, part = np.unique(begin, return_inverse=True)  # circuits of a part begin together, parts never do
    owner = np.zeros(schedule.ranks, np.int64)
    for number, some in enumerate(gpus):
        owner[list(some)] = number
    call = owner[transfers["src"][away]]
    rates = np.zeros((begins.size, len(gpus)))
    np.maximum.at(rates, (part, call), (end - begin) / LARGE / np.array(elements)[call])
    return BatchTime(sum(r.latency + r.reconfiguration for r in found.rounds), rates)
