"""Validate whole numbers given by a user, bound their size, and compute index arrays."""

from collections.abc import Iterable, Sequence
from itertools import zip_longest

import numpy as np

from wavefabric.base.arguments import whole
from wavefabric.base.errors import ensure

#: Limits on the chunks of all ranks together and on chunk moves: any schedule within both is built and
#: verified within a minute and 4 GB.
MOST_CHUNKS, MOST_MOVES = 2**21, 2**23
#: Largest number of ranks of a named algorithm, an MSCCL file or a fabric: a bound on absurd input.
MOST_RANKS = 4096


def element_counts(key: str, values: Iterable[int]) -> np.ndarray:
    """Return ``values``, elements per rank, as int64; `InputError` if there are none or one is negative."""
    counts = [whole(f"{key}[{i}]", v, 0) for i, v in enumerate(values)]
    ensure(counts, key, "none", "one per rank, at least one")
    return np.array(counts, np.int64)


def ragged(count: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return row and index within the row of each entry of a ragged table; ``count``: entries per row."""
    row = np.repeat(np.arange(count.size), count)
    first = np.cumsum(count, dtype=np.int64) - count
    return row, np.arange(row.size) - first[row]


def within_groups(key: np.ndarray) -> np.ndarray:
    """Return for each entry of ``key`` the number of earlier entries that are equal."""
    order = np.argsort(key, kind="stable")
    number = np.empty(key.size, np.int64)
    number[order] = np.arange(key.size) - np.searchsorted(key[order], key[order])
    return number


def padded(rows: Sequence[Sequence[int]]) -> np.ndarray:
    """Return rows of different lengths as one int64 table, padded with 0."""
    return np.array(list(zip_longest(*rows, fillvalue=0)), np.int64).T.reshape(len(rows), -1)
