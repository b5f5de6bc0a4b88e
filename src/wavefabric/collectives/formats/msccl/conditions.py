"""What an MSCCL algorithm must hold before and after, as conditions of a schedule."""

from __future__ import annotations

import numpy as np

from wavefabric.collectives.conditions import COLLECTIVES, CUT_BY_RANK, ROOTED, layout
from wavefabric.collectives.formats.msccl.format import COLLS, MscclAlgorithm
from wavefabric.collectives.schedule import Holdings, Schedule
from wavefabric.errors import InputError

#: GPU, buffer and chunk.
ChunkAt = tuple[int, int, int]


def conditions(a: MscclAlgorithm, schedule: Schedule) -> tuple[Holdings, Holdings]:
    """`pre` and `post` of an algorithm, whose transfers are each in a round of its own."""
    collective = COLLS[a.coll] or a.collective
    if collective is None:
        return _performed(a, schedule)
    if collective not in COLLECTIVES:
        raise InputError(f"algo collective: {collective[:60]!r}; allowed: {', '.join(COLLECTIVES)}")
    shares = a.gpus if collective in CUT_BY_RANK else 1
    pieces, rest = divmod(a.chunks, shares)
    if rest:
        raise InputError(
            f"algo nchunksperloop: {a.chunks} of {a.coll}; allowed: multiples of ngpus, {a.gpus}"
        )
    if not pieces:
        raise InputError("algo nchunksperloop: 0; allowed: at least one chunk for each share of the array")
    root = _root(a, collective, schedule) if collective in ROOTED else 0
    expected = layout(collective, a.gpus, pieces * shares, pieces, root)
    if collective == "all-to-all":
        last = 0 if a.inplace else 1
        return expected.pre, {(r, last, c): held for (r, _, c), held in expected.post.items()}
    if a.inplace:
        return expected.pre, expected.post
    # Out of place, a share lies at the beginning of a buffer of its own.
    cut = collective == "all-gather", collective == "reduce-scatter"
    ends = []
    for buffer, held in enumerate((expected.pre, expected.post)):
        share = expected.sizes[0].shape[1] // a.gpus * cut[buffer]
        width = schedule.sizes[buffer].shape[1]
        ends.append({(r, buffer, c - r * share): v for (r, _, c), v in held.items()})
        outside = next((gpu for gpu, _, chunk in ends[-1] if chunk >= width), None)
        if outside is not None:
            where = f"gpu {outside} {'io'[buffer]}_chunks"
            raise InputError(f"{where}: {width}; allowed: what {a.coll} out of place needs")
    return ends[0], ends[1]


def _root(a: MscclAlgorithm, collective: str, schedule: Schedule) -> int:
    if a.root is not None:
        return a.root
    t = schedule.transfers[schedule.transfers["src"] != schedule.transfers["dst"]]
    side, never = ("dst", "receive") if collective in ("broadcast", "scatter") else ("src", "send")
    others = np.setdiff1d(np.arange(a.gpus), t[side])
    if others.size != 1:
        raise InputError(f"root: not given, and {others.size} GPUs never {never}; allowed: 0 to {a.gpus - 1}")
    return int(others[0])


def _performed(a: MscclAlgorithm, schedule: Schedule) -> tuple[Holdings, Holdings]:
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

    for _, src, dst, src_buffer, src_chunk, dst_buffer, dst_chunk, n, reduce in schedule.transfers.tolist():
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
