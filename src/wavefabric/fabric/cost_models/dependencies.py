"""Which transfers of a schedule must wait for which, one by one."""

from __future__ import annotations

import numpy as np

from wavefabric.collectives.schedule import Schedule
from wavefabric.collectives.structure import moves


def dependencies(schedule: Schedule) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of transfers of which the second waits for the first: two arrays, each pair once, in order.

    As in `wavefabric.collectives.levels`: a transfer waits for an earlier one (by round, then position) if
    one of the two writes a chunk that the other reads or writes. Pairs that follow from others are left out.

    Examples
    --------
    >>> from wavefabric.collectives import ring_all_gather
    >>> from wavefabric.fabric.cost_models.dependencies import dependencies
    >>> [pairs.tolist() for pairs in dependencies(ring_all_gather([5, 5, 5]))]
    [[0, 1, 2], [4, 5, 3]]
    """
    m = moves(schedule)
    total = m.transfer.size
    if not total:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    # Every move reads one chunk and writes another. In order of chunk, then time, reads of a transfer first.
    chunk = np.concatenate((m.src, m.dst))
    transfer = np.concatenate((m.transfer, m.transfer))
    writes = np.repeat((False, True), total)
    order = np.lexsort((writes, transfer, chunk))
    chunk, transfer, writes = chunk[order], transfer[order], writes[order]
    at = np.arange(chunk.size)
    begins = np.concatenate(([True], chunk[1:] != chunk[:-1]))
    first_of = np.maximum.accumulate(np.where(begins, at, 0))
    last_of = np.minimum.accumulate(np.where(np.concatenate((begins[1:], [True])), at, at.size)[::-1])[::-1]
    # The write before each access of the same chunk, and the one after.
    last = np.concatenate(([-1], np.maximum.accumulate(np.where(writes, at, -1))[:-1]))
    after = np.concatenate((np.minimum.accumulate(np.where(writes, at, at.size)[::-1])[::-1][1:], [at.size]))
    has_last, has_after = last >= first_of, after <= last_of
    # Reads wait for the write before them; writes for the reads since then, or for that write if none read.
    read = ~writes
    bare = writes & has_last & (last == at - 1)
    pairs = [
        (last[read & has_last], at[read & has_last]),
        (at[read & has_after], after[read & has_after]),
        (last[bare], at[bare]),
    ]
    first = transfer[np.concatenate([p[0] for p in pairs])]
    then = transfer[np.concatenate([p[1] for p in pairs])]
    keys = np.unique(first[first != then] * np.int64(schedule.transfers.size) + then[first != then])
    return np.divmod(keys, schedule.transfers.size)
