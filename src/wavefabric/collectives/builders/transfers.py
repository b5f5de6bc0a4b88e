"""Build arrays of transfers, and assemble them into schedules, for all builders."""

from collections.abc import Iterable

import numpy as np

from wavefabric.collectives.conditions import Layout
from wavefabric.collectives.schedule import TRANSFER, Schedule
from wavefabric.collectives.sizes import ragged, within_groups

Numbers = int | np.ndarray
_EQUAL = ("src", "dst", "src_buffer", "dst_buffer", "reduce", "round", "switch")


def transfers(
    round_: Numbers,
    src: Numbers,
    dst: Numbers,
    src_chunk: Numbers,
    dst_chunk: Numbers | None = None,
    *,
    count: Numbers = 1,
    buffers: tuple[Numbers, Numbers] = (0, 0),
    reduce: bool | np.ndarray = False,
) -> np.ndarray:
    """Return transfers as rows of a table (`TRANSFER`); arguments are numbers or arrays, which are broadcast.

    ``buffers``: the source's and the destination's buffer. ``dst_chunk`` is ``src_chunk`` by default.
    """
    dst_chunk = src_chunk if dst_chunk is None else dst_chunk
    columns = (round_, src, dst, buffers[0], src_chunk, buffers[1], dst_chunk, count, reduce, 0)
    columns = np.broadcast_arrays(*columns)
    table = np.zeros(columns[0].size, TRANSFER)
    for name, column in zip(TRANSFER.names or (), columns, strict=True):
        table[name] = column.ravel()
    return table


def assemble(
    name: str, layout: Layout, parts: Iterable[np.ndarray], scratch: np.ndarray | None = None
) -> Schedule:
    """Assemble a schedule from ``parts``, arrays of transfers in any order, with the buffers of ``layout``.

    ``scratch``: chunk sizes of a further buffer, shape (ranks, chunks). Empty chunks and empty rounds are
    left out; transfers of consecutive chunks become one. In a round each rank sends to rank + 1 first, then
    to rank + 2, …, so that not all ranks send to the same rank at first.
    """
    buffers, sizes = layout.buffers, layout.sizes
    if scratch is not None and scratch.any():
        buffers, sizes = (*buffers, "scratch"), (*sizes, scratch.astype(np.int64))
    single = single_chunks(np.concatenate([np.zeros(0, TRANSFER), *parts]), sizes)
    return Schedule(name, layout.ranks, buffers, sizes, joined(single, layout.ranks), layout.pre, layout.post)


def single_chunks(t: np.ndarray, sizes: tuple[np.ndarray, ...]) -> np.ndarray:
    """Split the transfers ``t`` into transfers of one chunk each; leave out those of empty chunks."""
    owner, within = ragged(t["count"].astype(np.int64))
    single = t[owner]
    single["src_chunk"] += within.astype(np.int32)
    single["dst_chunk"] += within.astype(np.int32)
    single["count"] = 1
    elements = np.zeros(single.size, np.int64)
    for number, table in enumerate(sizes):
        here = single["src_buffer"] == number
        elements[here] = table[single["src"][here], single["src_chunk"][here]]
    return single[elements > 0]


def joined(t: np.ndarray, ranks: int) -> np.ndarray:
    """Sort transfers by round, join those that move consecutive chunks, and renumber rounds without gaps."""
    if not t.size:
        return t
    wide = {name: t[name].astype(np.int64) for name in TRANSFER.names or ()}
    pair = (wide["dst"] - wide["src"]) % ranks * ranks + wide["src"]
    kinds = (wide["src_buffer"] * (1 + wide["dst_buffer"].max()) + wide["dst_buffer"]) * 2 + wide["reduce"]
    # Rows of an operation of a switch stay together.
    t = t[np.lexsort((wide["src_chunk"], kinds, pair, wide["switch"], wide["round"]))]
    t = neighbours_joined(t)
    t["round"] = np.unique(t["round"], return_inverse=True)[1]
    return _operations_apart(t) if t["switch"].any() else t


def neighbours_joined(t: np.ndarray) -> np.ndarray:
    """Return ``t`` with each run of rows that move consecutive chunks joined into one transfer."""
    follows = np.logical_and.reduce([t[name][1:] == t[name][:-1] for name in _EQUAL])
    for name in ("src_chunk", "dst_chunk"):
        follows &= t[name][1:] == t[name][:-1] + t["count"][:-1]
    first = np.flatnonzero(np.concatenate(([True], ~follows))[: t.size])
    t["count"][first] = np.add.reduceat(t["count"], first)
    return t[first]


def _operations_apart(t: np.ndarray) -> np.ndarray:
    """Number the operations of switches from 1 in each round; split those with non-consecutive chunks."""
    pair = np.unique(t[["round", "switch", "src", "dst"]], return_inverse=True)[1].ravel()
    run = np.where(t["switch"] > 0, within_groups(pair), 0)
    turn = np.where(t["switch"] > 0, pair, 0)  # terms of sums in the order of ranks
    order = np.lexsort((turn, run, t["switch"], t["round"]))
    t, run = t[order], run[order]
    new = np.flatnonzero((np.diff(t["round"]) != 0) | (np.diff(t["switch"]) != 0) | (np.diff(run) != 0)) + 1
    operation = np.searchsorted(new, np.arange(t.size), side="right")
    first = operation[np.searchsorted(t["round"], t["round"])]
    t["switch"] = np.where(t["switch"] > 0, operation - first + 1, 0)
    return t
