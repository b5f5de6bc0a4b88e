"""Whole numbers given by a user, checked; bounds on their size."""

from collections.abc import Iterable, Sequence
from itertools import zip_longest

import numpy as np

from wavefabric.errors import require
from wavefabric.quantities import whole

#: Most chunks of all ranks together, and most that move: what is below is built and proved within a minute
#: and 4 GB.
MOST_CHUNKS, MOST_MOVES = 2**21, 2**23
#: Most ranks of a named algorithm, an MSCCL file or a fabric: a bound on absurd input.
MOST_RANKS = 4096


def element_counts(key: str, values: Iterable[int]) -> np.ndarray:
    """Elements of each rank, at least one rank: int64, shape (ranks,)."""
    counts = [whole(f"{key}[{i}]", v, 0) for i, v in enumerate(values)]
    require(counts, key, "none", "one a rank, at least one")
    return np.array(counts, np.int64)


def ragged(count: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of `count` entries one after the other: the row of each entry, and its number in that row."""
    row = np.repeat(np.arange(count.size), count)
    first = np.cumsum(count, dtype=np.int64) - count
    return row, np.arange(row.size) - first[row]


def within_groups(key: np.ndarray) -> np.ndarray:
    """Number of each entry among those of the same key, in the order given."""
    order = np.argsort(key, kind="stable")
    number = np.empty(key.size, np.int64)
    number[order] = np.arange(key.size) - np.searchsorted(key[order], key[order])
    return number


def padded(rows: Sequence[Sequence[int]]) -> np.ndarray:
    """Rows of different lengths as one table, filled up with 0: int64."""
    return np.array(list(zip_longest(*rows, fillvalue=0)), np.int64).T.reshape(len(rows), -1)
