"""Where the chunks of an MSCCL algorithm are, and which steps read or write them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from wavefabric.collectives.arguments import ragged
from wavefabric.collectives.formats.msccl.format import READS, WRITES, MscclAlgorithm

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


def buffer_map(a: MscclAlgorithm) -> BufferMap:
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


def touches(a: MscclAlgorithm) -> Touches:
    """All chunks that steps read and write, numbered over all GPUs, each step's reads before its writes."""
    buffers = buffer_map(a)
    base = np.concatenate(([0], np.cumsum([table.shape[1] for table in buffers.present])))
    parts = []
    for side, used, write in (("src", READS, False), ("dst", WRITES, True)):
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
