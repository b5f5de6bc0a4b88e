"""Convert between schedules and the operations of other programs' files; all formats use this module."""

from collections import defaultdict
from dataclasses import replace

import numpy as np

from wavefabric.base.errors import InputError
from wavefabric.collectives.builders.transfers import neighbours_joined
from wavefabric.collectives.conditions import COLLECTIVES, operation
from wavefabric.collectives.formats.buffers import ChunkAt, CollectiveArrays, buffer_map, conditions
from wavefabric.collectives.levels import spaced_levels
from wavefabric.collectives.schedule import TRANSFER, MscclOrigin, Schedule
from wavefabric.collectives.structure import in_rounds, units
from wavefabric.collectives.structure import moves as single_moves
from wavefabric.collectives.verify import verify

#: A transfer between a file's buffers (input, output, scratch); the rows of a GPU run in order.
MOVE = np.dtype([(name, np.int64) for name in (*(TRANSFER.names or ()), "instance")])
#: A transfer of a file: source, target, number of chunks, whether it adds, operation of a switch or 0.
Row = tuple[ChunkAt, ChunkAt, int, bool, int]
#: Spacing of levels between GPUs: more than the consecutive rounds within GPUs that can occur.
_APART = 1 << 32


class LimitExceeded(Exception):
    """Raised, with the name of the limit, if a program exceeds a limit of the runtime that is to run it.

    The same schedule, divided in another way among thread blocks, might stay within the limit.
    """


def proved(
    name: str,
    arrays: CollectiveArrays,
    rows: list[Row],
    elements: int,
    passing: tuple[str, np.ndarray] | None = None,
    msccl: MscclOrigin | None = None,
) -> Schedule:
    """Return the schedule of a file's transfers, after verifying it.

    ``rows`` are the transfers in an order in which they may run. Their rounds are computed: as few rounds of
    communication as data dependencies allow; transfers within GPUs follow at once. Initial and final contents
    follow from ``arrays``. ``passing``: name of a further buffer, and whether each GPU has each of its chunks
    (bool).
    """
    buffers = buffer_map(arrays)
    names, tables = buffers.names, buffers.present
    if passing is not None:
        names, tables = (*names, passing[0]), (*tables, passing[1])
    columns = [(i, src[0], dst[0], *src[1:], *dst[1:], *more) for i, (src, dst, *more) in enumerate(rows)]
    transfers = np.array(columns, TRANSFER)
    # An operation of a switch is in one round.
    same = (transfers["switch"][1:] > 0) & (transfers["switch"][1:] == transfers["switch"][:-1])
    transfers["round"] -= np.cumsum(np.concatenate(([False], same)))[: transfers.size]
    sizes = tuple(elements * table.astype(np.int64) for table in tables)
    schedule = Schedule(name, arrays.gpus, names, sizes, transfers, {}, {}, msccl)
    _, rounds = np.unique(spaced_levels(schedule, _APART), return_inverse=True)
    pre, post = conditions(arrays, schedule)
    schedule = replace(in_rounds(schedule, rounds.ravel()), pre=pre, post=post)
    verify(schedule)
    return schedule


def straight(rows: list[Row], passing: int) -> list[Row]:
    """Replace transfers into the buffer ``passing`` and out of it by direct ones; return the new ``rows``.

    Only data that are read once go directly, and only if their source is not overwritten before that read.
    """
    uses: dict[ChunkAt, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))  # readers, writers
    for number, (src, dst, count, *_) in enumerate(rows):
        for at, which in ((src, 0), (dst, 1)):
            for n in range(count):
                uses[at[0], at[1], at[2] + n][which].append(number)
    gone = set()
    for number, (src, dst, count, reduce, switch) in enumerate(rows):
        reads, writes = uses[dst]
        if dst[1] != passing or switch or reduce or len(reads) != 1 or len(writes) != 1 or rows[reads[0]][4]:
            continue
        source = [(src[0], src[1], src[2] + n) for n in range(count)]
        if not any(number < other < reads[0] for at in source for other in uses[at][1]):
            rows[reads[0]] = (src, *rows[reads[0]][1:])
            for at in source:
                uses[at][0].append(reads[0])
            gone.add(number)
    return [row for number, row in enumerate(rows) if number not in gone]


def written(schedule: Schedule, instances: int, runtime: str) -> tuple[CollectiveArrays, np.ndarray]:
    """Verify a schedule; return its arrays, and its transfers between input, output and scratch (`MOVE`).

    Each chunk is divided into ``instances`` parts, which are moved by separate transfers. `InputError` if the
    chunks in use differ in size, which ``runtime`` does not allow.
    """
    verify(schedule)
    performed = operation(schedule)
    # A named collective implies the layout of the data; with any other layout it is written as custom.
    collective, root = (performed.collective, performed.root) if performed.in_place else ("custom", None)
    _check_sizes(schedule, collective, runtime)
    letters, shifts, sizes, inplace = _buffers(schedule, collective)
    table = np.tile(np.array(sizes, np.int64) * instances, (schedule.ranks, 1))
    kept = collective if collective in COLLECTIVES else None
    chunks = max(sizes[:2]) * instances
    arrays = CollectiveArrays(kept, kept, inplace, chunks, table, root, ("chunks", "input", "output"))
    return arrays, _moves(schedule, letters, shifts, instances)


def _check_sizes(schedule: Schedule, collective: str, runtime: str) -> None:
    """Raise `InputError` if chunks in use differ in size, or a named collective has empty chunks."""
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
    """Assign each buffer of a schedule to the input (0), the output (1) or the scratch (2) of a file.

    Return, for each buffer of the schedule, the buffer of the file and the chunk there at which it begins;
    then the number of chunks of input, output and scratch, and whether input and output are the same (in
    place).
    """
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
    if not inplace:  # a rule of the format: both have the same size
        sizes[:2] = [max(sizes[:2])] * 2
    return np.array(letters), np.array(shifts), sizes, inplace


def _moves(schedule: Schedule, letters: np.ndarray, shifts: np.ndarray, instances: int) -> np.ndarray:
    """Return the transfers of a schedule as `MOVE` rows, between input (0), output (1) and scratch (2).

    Rows are sorted by round. Transfers of consecutive chunks are joined, and each is then divided into
    ``instances`` parts. Buffer b of the schedule begins at chunk ``shifts[b]`` of buffer ``letters[b]``.
    """
    t = schedule.transfers
    moves = np.zeros(t.size, MOVE)
    for key in TRANSFER.names or ():
        moves[key] = t[key]
    moves["switch"] = units(schedule).numbers
    for side in ("src", "dst"):
        moves[f"{side}_buffer"] = letters[t[f"{side}_buffer"]]
        moves[f"{side}_chunk"] += shifts[t[f"{side}_buffer"]]
    keys = ("round", "switch", "src", "dst", "src_buffer", "dst_buffer", "reduce", "src_chunk")
    joined = neighbours_joined(moves[np.lexsort([moves[key] for key in reversed(keys)])])
    parts = np.repeat(joined, instances)
    parts["instance"] = np.tile(np.arange(instances), joined.size)
    for side in ("src_chunk", "dst_chunk"):
        parts[side] = parts[side] * instances + parts["instance"] * parts["count"]
    return parts
