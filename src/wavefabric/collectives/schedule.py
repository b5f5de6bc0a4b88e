"""Define `Schedule`: which rank sends which chunk of data to which rank, in which round."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import TypeVar
from weakref import WeakKeyDictionary

import numpy as np

#: One transfer: ``count`` consecutive chunks go from a buffer of rank ``src`` to a buffer of rank ``dst``;
#: ``reduce`` adds them to the chunks there. Consecutive rows with the same ``round`` and the same ``switch``
#: above 0 are one operation of a switch: a *multicast* from one source, one row for each destination, or a
#: *reduction* at one destination, one row for each source, which writes (or adds) the sum of all sources.
TRANSFER = np.dtype(
    [
        ("round", np.int32),
        ("src", np.int32),
        ("dst", np.int32),
        ("src_buffer", np.int16),
        ("src_chunk", np.int32),
        ("dst_buffer", np.int16),
        ("dst_chunk", np.int32),
        ("count", np.int32),
        ("reduce", np.bool_),
        ("switch", np.int32),
    ]
)

#: Protocols of NCCL that an MSCCL algorithm may name.
PROTOCOLS = ("Simple", "LL", "LL128")

#: (rank, buffer, chunk) → (item, bit mask of the ranks whose contributions the chunk holds).
Holdings = dict[tuple[int, int, int], tuple[int, int]]


@dataclass(frozen=True)
class MscclOrigin:
    """Holds the settings of the MSCCL file from which a schedule was read.

    The algorithm of the file hangs with arrays above ``most_bytes`` bytes; None if it never hangs.
    """

    protocol: str
    channels: int
    most_bytes: int | None = None


@dataclass(frozen=True, eq=False)
class Schedule:
    """A schedule of transfers, in rounds, between buffers that are divided into chunks.

    Rounds order transfers in the cost models; at run time only data dependencies do.
    """

    name: str
    ranks: int
    buffers: tuple[str, ...]  # names; every rank has one of each
    sizes: tuple[np.ndarray, ...]  # elements of each chunk, 0 if empty; per buffer int64, (ranks, chunks)
    transfers: np.ndarray  # rows of `TRANSFER`, ordered by round
    pre: Holdings = field(repr=False)  # contents of chunks before the schedule runs
    post: Holdings = field(repr=False)  # contents required afterwards
    msccl: MscclOrigin | None = None  # set if read from an MSCCL file; cost models ignore it
    element_bytes: int | None = None  # bytes per element if known, as for recorded exchanges

    @property
    def rounds(self) -> int:
        """Return the number of rounds."""
        return int(self.transfers["round"].max()) + 1 if self.transfers.size else 0

    @property
    def communication_rounds(self) -> int:
        """Return the number of rounds with transfers between ranks; other rounds work within ranks."""
        t = self.transfers
        return np.unique(t["round"][t["src"] != t["dst"]]).size

    def offsets(self, buffer: int, rank: int) -> np.ndarray:
        """Return the index of each chunk's first element in a rank's buffer, then the buffer's size."""
        return np.concatenate(([0], np.cumsum(self.sizes[buffer][rank])))


def scaled(schedule: Schedule, factor: int) -> Schedule:
    """Return the same schedule with every chunk ``factor`` times larger."""
    return replace(schedule, sizes=tuple(own * factor for own in schedule.sizes))


_Result = TypeVar("_Result")


def cached(function: Callable[[Schedule], _Result]) -> Callable[[Schedule], _Result]:
    """Decorate ``function`` so that each schedule's result is computed once; schedules never change."""
    results: WeakKeyDictionary[Schedule, _Result] = WeakKeyDictionary()

    @wraps(function)
    def once(schedule: Schedule) -> _Result:
        if schedule not in results:
            results[schedule] = function(schedule)
        return results[schedule]

    return once
