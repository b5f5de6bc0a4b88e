"""What an MSCCL algorithm must hold before and after, in the words of a schedule."""

from __future__ import annotations

import numpy as np

from wavefabric.collectives.conditions import COLLECTIVES, CUT_BY_RANK, ROOTED, Layout, layout
from wavefabric.collectives.formats.msccl.buffers import Places
from wavefabric.collectives.formats.msccl.format import Algorithm
from wavefabric.collectives.schedule import Holdings, Schedule
from wavefabric.errors import InputError

_COLLECTIVES = {
    "allreduce": "all-reduce",
    "allgather": "all-gather",
    "reduce": "reduce",
    "broadcast": "broadcast",
    "alltoall": "all-to-all",
    "reduce_scatter": "reduce-scatter",
}


def promise(algorithm: Algorithm, found: Places, schedule: Schedule) -> tuple[Holdings, Holdings]:
    """`pre` and `post` of an algorithm, whose transfers are each in a round of its own.

    Raises
    ------
    InputError
        If numbers of chunks do not fit the collective, or its root is not clear.
    """
    a = algorithm
    collective = _COLLECTIVES.get(a.coll) or a.collective
    if collective is None:
        return _done(a, schedule)
    if collective not in COLLECTIVES:
        raise InputError(f"algo collective: {collective[:60]!r}; allowed: {', '.join(COLLECTIVES)}")
    pieces = a.chunks
    if collective in CUT_BY_RANK:
        pieces, rest = divmod(a.chunks, a.gpus)
        if rest:
            raise InputError(
                f"algo nchunksperloop: {a.chunks} of {a.coll}; allowed: multiples of ngpus, {a.gpus}"
            )
    if not pieces:
        raise InputError("algo nchunksperloop: 0; allowed: at least one chunk for each share of the array")
    root = _root(a, collective, schedule) if collective in ROOTED else 0
    elements = pieces * (a.gpus if collective in CUT_BY_RANK else 1)
    wanted = layout(collective, a.gpus, elements, pieces, root)
    if a.inplace and collective != "all-to-all":
        return wanted.pre, wanted.post
    return _apart(a, collective, wanted, found)


def _apart(a: Algorithm, collective: str, wanted: Layout, found: Places) -> tuple[Holdings, Holdings]:
    """Conditions with what is held before in one buffer and after in another, or an all-to-all in place."""
    if collective == "all-to-all":
        last = 0 if a.inplace else 1
        return wanted.pre, {(r, last, c): held for (r, _, c), held in wanted.post.items()}
    share = wanted.sizes[0].shape[1] // a.gpus
    shift = {"all-gather": ("pre", share), "reduce-scatter": ("post", share)}.get(collective, ("", 0))
    ends = []
    for name, held, buffer in (("pre", wanted.pre, 0), ("post", wanted.post, 1)):
        move = shift[1] if name == shift[0] else 0
        ends.append({(r, buffer, c - r * move): v for (r, _, c), v in held.items()})
        width = found.widths[buffer]
        wide = next((at for at in ends[-1] if at[2] >= width), None)
        if wide is not None:
            letter = "io"[buffer]
            raise InputError(
                f"gpu {wide[0]} {letter}_chunks: {width}; allowed: what {a.coll} out of place needs"
            )
    return ends[0], ends[1]


def _root(a: Algorithm, collective: str, schedule: Schedule) -> int:
    if a.root is not None:
        return a.root
    t = schedule.transfers[schedule.transfers["src"] != schedule.transfers["dst"]]
    side = "dst" if collective in ("broadcast", "scatter") else "src"
    others = np.setdiff1d(np.arange(a.gpus), t[side])
    if others.size != 1:
        given = f"not given, and {others.size} GPUs never {'receive' if side == 'dst' else 'send'}"
        raise InputError(f"root: {given}; allowed: 0 to {a.gpus - 1}")
    return int(others[0])


def _done(a: Algorithm, schedule: Schedule) -> tuple[Holdings, Holdings]:
    """What an algorithm does: all chunks of the input that it reads first, all of the output that it writes.

    Items are told apart by what is added up: chunks that end in one sum are parts of one item.
    """
    outputs = 0 if a.inplace else 1
    first: dict[tuple[int, int, int], int] = {}
    value: dict[tuple[int, int, int], tuple[int, int]] = {}
    parent: list[int] = []

    def find(item: int) -> int:
        while parent[item] != item:
            parent[item] = parent[parent[item]]
            item = parent[item]
        return item

    def read(at: tuple[int, int, int]) -> tuple[int, int] | None:
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
        count,
        reduce,
    ) in schedule.transfers.tolist():
        for n in range(count):
            given = read((src, src_buffer, src_chunk + n))
            at = dst, dst_buffer, dst_chunk + n
            if given is None:
                continue  # nothing is there: the proof says so
            there = read(at) if reduce else None
            if there is not None:
                parent[find(given[0])] = find(there[0])
                value[at] = given[0], given[1] | there[1]
            elif not reduce:
                value[at] = given
    written = {at for at in value if at[1] == outputs and value[at] != (first.get(at), 1 << at[0])}
    pre = {at: (find(item), 1 << at[0]) for at, item in first.items()}
    post = {at: (find(value[at][0]), value[at][1]) for at in sorted(written)}
    return pre, post
