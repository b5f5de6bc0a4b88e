"""A communication pattern as one object: proved (`verify`), costed (`fabric`), run (`exchange`), drawn."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import TypeVar
from weakref import WeakKeyDictionary

import numpy as np

#: One transfer: ``count`` consecutive chunks go from a buffer of ``src`` to one of ``dst``; ``reduce`` adds
#: them to what is there. Rows that follow one another with the same ``round`` and the same ``switch`` above 0
#: are one operation of a switch: a *multicast* from one source, one row for each destination, or a
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

#: Protocols of NCCL, which an MSCCL algorithm names.
PROTOCOLS = ("Simple", "LL", "LL128")

#: (rank, buffer, chunk) → (item, bit mask of the ranks whose contributions it holds).
Holdings = dict[tuple[int, int, int], tuple[int, int]]


@dataclass(frozen=True)
class MscclOrigin:
    """What an MSCCL file says beside its transfers; ``most_bytes``: the largest array that it runs with."""

    protocol: str
    channels: int
    most_bytes: int | None = None


@dataclass(frozen=True, eq=False)
class Schedule:
    """Transfers in rounds between buffers made of chunks.

    Rounds order a cost model; when run, only data dependencies order transfers.
    """

    name: str
    ranks: int
    buffers: tuple[str, ...]  # names; every rank has one of each
    sizes: tuple[np.ndarray, ...]  # elements of each chunk, 0: none; int64, one a buffer, (ranks, chunks)
    transfers: np.ndarray  # of `TRANSFER`, ordered by round
    pre: Holdings = field(repr=False)  # what is held before
    post: Holdings = field(repr=False)  # what must be held after
    msccl: MscclOrigin | None = None  # of one read from an MSCCL file; no cost model counts it
    element_bytes: int | None = None  # where they are known, as of exchanges that were recorded

    @property
    def rounds(self) -> int:
        """Number of rounds."""
        return int(self.transfers["round"].max()) + 1 if self.transfers.size else 0

    @property
    def communication_rounds(self) -> int:
        """Number of rounds in which something goes from one rank to another; the rest only add or copy."""
        t = self.transfers
        return np.unique(t["round"][t["src"] != t["dst"]]).size

    def offsets(self, buffer: int, rank: int) -> np.ndarray:
        """First element of each chunk of a rank's buffer, and the total last: shape (chunks + 1,)."""
        return np.concatenate(([0], np.cumsum(self.sizes[buffer][rank])))


def scaled(schedule: Schedule, factor: int) -> Schedule:
    """The same schedule with chunks a whole number of times larger."""
    return replace(schedule, sizes=tuple(own * factor for own in schedule.sizes))


_Result = TypeVar("_Result")


def cached(function: Callable[[Schedule], _Result]) -> Callable[[Schedule], _Result]:
    """Call a function once for each schedule, which is never changed once it is made."""
    results: WeakKeyDictionary[Schedule, _Result] = WeakKeyDictionary()

    @wraps(function)
    def once(schedule: Schedule) -> _Result:
        if schedule not in results:
            results[schedule] = function(schedule)
        return results[schedule]

    return once
