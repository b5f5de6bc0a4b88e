"""Compute dependencies: levels of transfers that may run at once, and accesses that must stay in order."""

import numpy as np

from wavefabric.collectives.schedule import Schedule
from wavefabric.collectives.sizes import ragged
from wavefabric.collectives.structure import batches, checked_structure, moves, units


def levels(schedule: Schedule) -> np.ndarray:
    """Return the level of each transfer: the smallest above the levels of all transfers it depends on.

    A transfer depends on an earlier one (by round, then position) if one of them writes a chunk that the
    other reads or writes; an operation of a switch counts as one transfer. Transfers of one level may run in
    any order, and all ranks compute the same levels independently. If `verify` accepts the schedule, no level
    exceeds the transfer's round. int64, shape (transfers,); `ScheduleError` if indices are out of range.

    Examples
    --------
    >>> from wavefabric.collectives import direct_all_gather, levels, ring_all_gather
    >>> levels(ring_all_gather([5, 5, 5])).tolist()
    [0, 0, 0, 1, 1, 1]
    >>> levels(direct_all_gather([5, 5, 5])).tolist()
    [0, 0, 0, 0, 0, 0]
    """
    return spaced_levels(schedule, 1)


def spaced_levels(schedule: Schedule, apart: int) -> np.ndarray:
    """Return a level for each transfer, which is a multiple of ``apart`` for transfers between ranks.

    Transfers of one level may run in any order; see `levels`. A transfer between ranks has the next multiple
    of ``apart`` above the levels that it depends on, a transfer within a rank the next integer.
    """
    checked_structure(schedule)
    m = moves(schedule)
    src, dst = m.src, m.dst
    u = units(schedule)
    first_move = np.searchsorted(m.transfer, u.first)
    of = u.of[m.transfer]
    local = np.logical_and.reduceat(schedule.transfers["src"] == schedule.transfers["dst"], u.first[:-1])
    written = np.full(m.chunks, -apart, np.int64)  # level of the last write of each chunk
    read = np.full(m.chunks, -apart, np.int64)  # highest level of a read of each chunk
    level = np.zeros(u.first.size - 1, np.int64)
    for begin, end in batches(schedule.transfers["round"][u.first[:-1]]):
        here = slice(first_move[begin], first_move[end])
        in_order = np.isin(src[here], dst[here]).any() or dst[here].size > np.unique(dst[here]).size
        step = 1 if in_order else end - begin
        for a in range(begin, end, step):
            b = a + step
            part = slice(first_move[a], first_move[b])
            s, d = src[part], dst[part]
            before = np.maximum(np.maximum(written[s], written[d]), read[d])
            last = np.maximum.reduceat(before, first_move[a:b] - first_move[a])
            level[a:b] = np.where(local[a:b], last + 1, (last // apart + 1) * apart)
            mine = level[of[part]]
            written[d] = mine
            np.maximum.at(read, s, mine)
    return level[u.of]


def dependencies(schedule: Schedule) -> tuple[np.ndarray, np.ndarray]:
    """Return two arrays (first, second): transfer second[i] must wait for transfer first[i], as in `levels`.

    Pairs are sorted; a pair that follows from other pairs of the same chunk is left out. The first transfer
    of an operation of a switch stands for the operation.

    Examples
    --------
    >>> from wavefabric.collectives import ring_all_gather
    >>> from wavefabric.collectives.levels import dependencies
    >>> [pairs.tolist() for pairs in dependencies(ring_all_gather([5, 5, 5]))]
    [[0, 1, 2], [4, 5, 3]]
    """
    m = moves(schedule)
    u, total = units(schedule), max(1, schedule.transfers.size)
    transfer = np.tile(u.first[u.of][m.transfer], 2)
    writes = np.repeat((False, True), m.transfer.size)
    then, first = (transfer[at] for at in hazards(np.concatenate((m.src, m.dst)), transfer, writes))
    return np.divmod(np.unique((first * total + then)[first != then]), total)


def hazards(chunk: np.ndarray, time: np.ndarray, writes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return two arrays: access ``later[i]`` to a chunk must come after access ``earlier[i]``.

    Entry i of ``chunk``, ``time`` and ``writes`` describes access i: chunk, time, whether it writes; at equal
    times reads come first. All other orders within a chunk follow from the returned pairs.
    """
    order = np.lexsort((writes, time, chunk))
    chunk, written = chunk[order], writes[order]
    at = np.arange(chunk.size)
    begin = np.searchsorted(chunk, chunk)  # first access to the same chunk
    last = np.maximum.accumulate(np.where(written, at, -1))
    before = np.concatenate(([-1], last))[: at.size]  # last write before each access
    before = np.where(before >= begin, before, -1)
    read = ~written & (before >= 0)
    # A write comes after all reads since the last write, and after that write if there were none.
    lowest = np.where(before >= 0, before + 1, begin)
    reads = np.where(written, at - lowest, 0)
    alone = written & (reads == 0) & (before >= 0)
    write, within = ragged(reads)
    later = np.concatenate((at[read], at[alone], write))
    earlier = np.concatenate((before[read], before[alone], lowest[write] + within))
    return order[later], order[earlier]
