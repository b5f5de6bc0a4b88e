"""Compute algorithm and bus bandwidths as nccl-tests do (github.com/NVIDIA/nccl-tests, PERFORMANCE.md)."""

import numpy as np

from wavefabric.collectives.conditions import kind, whole_elements
from wavefabric.collectives.schedule import Schedule
from wavefabric.collectives.structure import sent_and_received

#: Collectives in which each result needs data of all ranks.
OF_ALL_RANKS = ("all-gather", "reduce-scatter", "all-reduce", "all-to-all")


def bus_factor(collective: str, ranks: int) -> float | None:
    """Return the bus bandwidth of a collective operation over its algorithm bandwidth; None for others."""
    factors = dict.fromkeys((*OF_ALL_RANKS, "gather", "scatter"), (ranks - 1) / ranks)
    factors |= {"all-reduce": 2 * (ranks - 1) / ranks, "broadcast": 1.0, "reduce": 1.0}
    return factors.get(collective)


def operation_bandwidths(collective: str, ranks: int, nbytes: int, seconds: float) -> dict[str, float]:
    """Return ``algbw`` and ``busbw``, B/s, of a collective operation other than a halo exchange."""
    algbw = nbytes / seconds
    return {"algbw": algbw, "busbw": algbw * (bus_factor(collective, ranks) or 0.0)}


def most_elements(schedule: Schedule) -> int:
    """Return the largest number of elements that a rank sends to, or receives from, other ranks."""
    return int(np.max(sent_and_received(schedule)))


def bandwidths(schedule: Schedule, element_bytes: float, seconds: float) -> tuple[float, float]:
    """Return the algorithm and the bus bandwidth (algbw, busbw), B/s, of a run that takes ``seconds``.

    algbw is the bytes of the whole array over the time. busbw is algbw × `bus_factor`; for a schedule that is
    no named operation it is the bytes of the rank that moves most, over the time.
    """
    algbw = whole_elements(schedule) * element_bytes / seconds
    factor = bus_factor(kind(schedule)[0], schedule.ranks)
    return algbw, most_elements(schedule) * element_bytes / seconds if factor is None else algbw * factor
