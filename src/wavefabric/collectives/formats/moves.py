"""Between a schedule and the operations of other programs' files, both ways: what all formats share."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from wavefabric.collectives.arguments import ragged
from wavefabric.collectives.conditions import COLLECTIVES, operation
from wavefabric.collectives.formats.buffers import CollectiveArrays, conditions
from wavefabric.collectives.levels import spaced_levels
from wavefabric.collectives.schedule import Schedule
from wavefabric.collectives.structure import in_rounds, units
from wavefabric.collectives.structure import moves as single_moves
from wavefabric.collectives.verify import verify
from wavefabric.errors import InputError

#: A transfer between a file's buffers (input, output, scratch), in the order in which all of a GPU are done.
MOVE = np.dtype(
    [(name, np.int64) for name in ("round", "switch", "src", "dst", "srcbuf", "srcoff", "dstbuf", "dstoff")]
    + [("cnt", np.int64), ("reduce", np.bool_), ("instance", np.int64)]
)
#: Arrays (touches,): which row reads or writes which chunk, and whether it writes.
Touches = tuple[np.ndarray, np.ndarray, np.ndarray]
#: More than rounds within GPUs can follow one another.
_APART = 1 << 32


def chunk_by_chunk(parts: Iterable[tuple[np.ndarray, np.ndarray, np.ndarray, bool]]) -> Touches:
    """Of rows, each with its first chunk and how many, and whether they write."""
    columns = []
    for row, first, count, write in parts:
        at, within = ragged(count.astype(np.int64))
        columns.append((row[at], first[at] + within, np.full(at.size, write)))
    row, chunk, writes = (np.concatenate(column) for column in zip(*columns, strict=True))
    return row, chunk, writes


def proved(arrays: CollectiveArrays, schedule: Schedule) -> Schedule:
    """A schedule that was read, in an order that it may run in: in rounds, with conditions, proved.

    Until then each transfer, or operation of a switch, is in a round of its own. Rounds of communication are
    as few as data allow; transfers within GPUs follow at once.
    """
    _, rounds = np.unique(spaced_levels(schedule, _APART), return_inverse=True)
    pre, post = conditions(arrays, schedule)
    schedule = replace(in_rounds(schedule, rounds.ravel()), pre=pre, post=post)
    verify(schedule)
    return schedule


def written(schedule: Schedule, instances: int, runtime: str) -> tuple[CollectiveArrays, np.ndarray]:
    """Arrays and moves (`MOVE`) of a schedule, which is proved, with each chunk cut in so many `instances`.

    `InputError` if chunks that take part are not of one size, as the `runtime` wants them.
    """
    verify(schedule)
    performed = operation(schedule)
    # Words for collectives mean layout_as of the data; in others it is written as what it does.
    collective, root = (performed.collective, performed.root) if performed.in_place else ("custom", None)
    _check_sizes(schedule, collective, runtime)
    letters, shifts, sizes, inplace = _buffers(schedule, collective)
    table = np.tile(np.array(sizes, np.int64) * instances, (schedule.ranks, 1))
    kept = collective if collective in COLLECTIVES else None
    chunks = max(sizes[:2]) * instances
    arrays = CollectiveArrays(kept, kept, inplace, chunks, table, root, ("chunks", "input", "output"))
    return arrays, _moves(schedule, letters, shifts, instances)


def _check_sizes(schedule: Schedule, collective: str, runtime: str) -> None:
    """Refuse chunks that take part and differ in size, and of a named collective empty ones."""
    m = single_moves(schedule)
    flat = np.concatenate([s.ravel() for s in schedule.sizes])
    used = [flat[m.src], flat[m.dst]]
    for held in (schedule.pre, schedule.post):
        used.append(np.array([schedule.sizes[b][r, c] for r, b, c in held], np.int64))
    if collective in COLLECTIVES:
        used += [schedule.sizes[b].ravel() for b in range(2 if collective == "all-to-all" else 1)]
    sizes = np.unique(np.concatenate(used))
    if sizes.size > 1:
        actual = f"{int(sizes[0])} to {int(sizes[-1])} elements"
        multiple = "all of one size (elements a multiple of the number of chunks)"
        raise InputError(f"chunks: {actual}; allowed by {runtime}: {multiple}")
    if not sizes.size or not sizes[0]:
        raise InputError(f"chunks: none with elements; allowed by {runtime}: at least one")


def _buffers(schedule: Schedule, collective: str) -> tuple[np.ndarray, np.ndarray, list[int], bool]:
    """The file's buffer of each of ours, the chunk of it where ours begins, sizes of the three, in place."""
    begins = {b for _, b, _ in schedule.pre}
    ends = {b for _, b, _ in schedule.post}
    named = collective in COLLECTIVES and collective != "all-to-all"
    inplace = named or bool(begins & ends)
    letters, shifts, sizes = [], [], [0, 0, 0]
    for b, table in enumerate(schedule.sizes):
        if named and b == 0:
            to = 1 if collective in ("all-gather", "broadcast") else 0
        elif b in begins | ends:
            to = 0 if inplace or b in begins else 1
        else:
            to = 2
        letters.append(to)
        shifts.append(sizes[to])
        sizes[to] += table.shape[1]
    if not inplace:  # a rule of the format: as many of both
        sizes[:2] = [max(sizes[:2])] * 2
    return np.array(letters), np.array(shifts), sizes, inplace


def _moves(schedule: Schedule, letters: np.ndarray, shifts: np.ndarray, instances: int) -> np.ndarray:
    """Transfers by round, neighbouring chunks joined, cut into instances."""
    t = schedule.transfers
    moves = np.zeros(t.size, MOVE)
    moves["switch"] = units(schedule).numbers
    for key in ("round", "src", "dst", "reduce"):
        moves[key] = t[key]
    moves["cnt"] = t["count"]
    for side in ("src", "dst"):
        moves[f"{side}buf"] = letters[t[f"{side}_buffer"]]
        moves[f"{side}off"] = shifts[t[f"{side}_buffer"]] + t[f"{side}_chunk"]
    keys = ("round", "switch", "src", "dst", "srcbuf", "dstbuf", "reduce")
    moves = moves[np.lexsort((moves["srcoff"], *(moves[k] for k in reversed(keys))))]
    a, b = moves[:-1], moves[1:]
    same = [a[k] == b[k] for k in keys] + [a[k] + a["cnt"] == b[k] for k in ("srcoff", "dstoff")]
    first = np.flatnonzero(np.concatenate(([True], ~np.logical_and.reduce(same)))[: moves.size])
    joined = moves[first]
    joined["cnt"] = np.add.reduceat(moves["cnt"], first) if moves.size else 0
    parts = np.repeat(joined, instances)
    parts["instance"] = np.tile(np.arange(instances), joined.size)
    for side in ("srcoff", "dstoff"):
        parts[side] = parts[side] * instances + parts["instance"] * parts["cnt"]
    return parts
