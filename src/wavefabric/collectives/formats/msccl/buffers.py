"""Where the chunks of an MSCCL algorithm are, which steps read or write them, and what they must hold."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from wavefabric.collectives.arguments import ragged
from wavefabric.collectives.conditions import COLLECTIVES, CUT_BY_RANK, ROOTED, layout
from wavefabric.collectives.formats.msccl import format as fmt
from wavefabric.collectives.schedule import Holdings, Schedule
from wavefabric.errors import InputError

#: GPU, buffer and chunk.
ChunkAt = tuple[int, int, int]
#: Arrays (touches,): which step (row) reads or writes which chunk, and whether it writes.
Touches = tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class BufferMap:
    """Buffers of a schedule that stand for input, output and scratch.

    ``present``: chunks that each GPU has, shape (gpus, width), one a buffer. ``buffer``: the one that stands
    for input, output and scratch; ``shift`` (gpus, 3): the chunk of it that each begins with.
    """

    names: tuple[str, ...]
    present: tuple[np.ndarray, ...]
    buffer: np.ndarray
    shift: np.ndarray


def buffer_map(a: fmt.MscclAlgorithm) -> BufferMap:
    """The buffers of an algorithm.

    In place, input and output are one buffer ``data``: the input of an all-gather is the GPU's share of its
    output, the output of a reduce-scatter the share of its input, and otherwise they are the same.
    """
    shift = np.zeros((a.gpus, 3), np.int64)
    input_, output, scratch = (np.arange(int(n.max(initial=0))) < n[:, None] for n in a.sizes.T)
    if a.inplace:
        column = {"allgather": 0, "reduce_scatter": 1}.get(a.coll)
        if column is not None:
            shift[:, column] = np.arange(a.gpus) * (a.chunks // a.gpus)
        names, buffer, present = ("data",), np.array([0, 0, 1]), (np.ones((a.gpus, a.chunks), bool),)
    else:
        names = ("send", "recv") if a.coll == "alltoall" else ("input", "output")
        buffer, present = np.array([0, 1, 2]), (input_, output)
    if scratch.size:
        names, present = (*names, "scratch"), (*present, scratch)
    return BufferMap(names, present, buffer, shift)


def touches(a: fmt.MscclAlgorithm) -> Touches:
    """All chunks that steps read and write, numbered over all GPUs, each step's reads before its writes."""
    buffers = buffer_map(a)
    base = np.concatenate(([0], np.cumsum([table.shape[1] for table in buffers.present])))
    parts = []
    for side, used, write in (("src", fmt.READS, False), ("dst", fmt.WRITES, True)):
        row = np.flatnonzero(used[a.steps["type"]])
        steps, gpu = a.steps[row], a.gpu[row]
        letter = steps[f"{side}buf"]
        first = base[buffers.buffer[letter]] + buffers.shift[gpu, letter] + steps[f"{side}off"]
        parts.append((row, gpu * base[-1] + first, steps["cnt"], write))
    return chunk_by_chunk(parts)


def chunk_by_chunk(parts: Iterable[tuple[np.ndarray, np.ndarray, np.ndarray, bool]]) -> Touches:
    """Of rows, each with its first chunk and how many, and whether they write."""
    columns = []
    for row, first, count, write in parts:
        at, within = ragged(count.astype(np.int64))
        columns.append((row[at], first[at] + within, np.full(at.size, write)))
    row, chunk, writes = (np.concatenate(column) for column in zip(*columns, strict=True))
    return row, chunk, writes


def conditions(a: fmt.MscclAlgorithm, schedule: Schedule) -> tuple[Holdings, Holdings]:
    """`pre` and `post` of an algorithm, whose transfers are each in a round of its own."""
    collective = fmt.COLLS[a.coll] or a.collective
    if collective is None:
        return _performed(a, schedule)
    if collective not in COLLECTIVES:
        raise InputError(f"algo collective: {collective[:60]!r}; allowed: {', '.join(COLLECTIVES)}")
    parts = a.gpus if collective in CUT_BY_RANK else 1
    pieces, rest = divmod(a.chunks, parts)
    if rest:
        raise InputError(
            f"algo nchunksperloop: {a.chunks} of {a.coll}; allowed: multiples of ngpus, {a.gpus}"
        )
    if not pieces:
        raise InputError("algo nchunksperloop: 0; allowed: at least one chunk for each share of the array")
    root = _root(a, collective, schedule) if collective in ROOTED else 0
    expected = layout(collective, a.gpus, pieces * parts, pieces, root)
    if collective == "all-to-all":
        last = 0 if a.inplace else 1
        return expected.pre, {(r, last, c): held for (r, _, c), held in expected.post.items()}
    if a.inplace:
        return expected.pre, expected.post
    # Out of place, a share lies at the beginning of a buffer of its own.
    cut = collective == "all-gather", collective == "reduce-scatter"
    ends = []
    for buffer, held in enumerate((expected.pre, expected.post)):
        part = expected.sizes[0].shape[1] // a.gpus * cut[buffer]
        width = schedule.sizes[buffer].shape[1]
        ends.append({(r, buffer, c - r * part): v for (r, _, c), v in held.items()})
        outside = next((gpu for gpu, _, chunk in ends[-1] if chunk >= width), None)
        if outside is not None:
            where = f"gpu {outside} {'io'[buffer]}_chunks"
            raise InputError(f"{where}: {width}; allowed: what {a.coll} out of place needs")
    return ends[0], ends[1]


def _root(a: fmt.MscclAlgorithm, collective: str, schedule: Schedule) -> int:
    if a.root is not None:
        return a.root
    t = schedule.transfers[schedule.transfers["src"] != schedule.transfers["dst"]]
    side, never = ("dst", "receive") if collective in ("broadcast", "scatter") else ("src", "send")
    others = np.setdiff1d(np.arange(a.gpus), t[side])
    if others.size != 1:
        raise InputError(f"root: not given, and {others.size} GPUs never {never}; allowed: 0 to {a.gpus - 1}")
    return int(others[0])


def _performed(a: fmt.MscclAlgorithm, schedule: Schedule) -> tuple[Holdings, Holdings]:
    """What an algorithm does: all chunks of the input that it reads first, all of the output that it writes.

    Items are told apart by what is added up: chunks that end in one sum are parts of one item.
    """
    outputs = 0 if a.inplace else 1
    first: dict[ChunkAt, int] = {}
    value: dict[ChunkAt, tuple[int, int]] = {}
    parent: list[int] = []

    def find(item: int) -> int:
        while parent[item] != item:
            parent[item] = parent[parent[item]]
            item = parent[item]
        return item

    def read(at: ChunkAt) -> tuple[int, int] | None:
        if at not in value and at[1] == 0:
            first[at] = len(parent)
            value[at] = len(parent), 1 << at[0]
            parent.append(len(parent))
        return value.get(at)

    for (
        _,
        src,
        dst,
        src_buffer,
        src_chunk,
        dst_buffer,
        dst_chunk,
        n,
        reduce,
        _,
    ) in schedule.transfers.tolist():
        for i in range(n):
            moved = read((src, src_buffer, src_chunk + i))
            target = dst, dst_buffer, dst_chunk + i
            there = read(target) if reduce and moved is not None else None
            if moved is not None and there is not None:
                parent[find(moved[0])] = find(there[0])
                value[target] = moved[0], moved[1] | there[1]
            elif moved is not None and not reduce:
                value[target] = moved
    written = {at for at in value if at[1] == outputs and value[at] != (first.get(at), 1 << at[0])}
    pre = {at: (find(item), 1 << at[0]) for at, item in first.items()}
    return pre, {at: (find(value[at][0]), value[at][1]) for at in sorted(written)}
