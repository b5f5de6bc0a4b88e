"""Where the chunks of an MSCCL algorithm are, and which steps read or write them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from wavefabric.collectives.arguments import ragged
from wavefabric.collectives.formats.msccl.format import READS, WRITES, MscclAlgorithm


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

    @property
    def widths(self) -> list[int]:
        """Chunks of each buffer."""
        return [table.shape[1] for table in self.present]


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
        names, buffer = ["data", "scratch"], np.array([0, 0, 1])
        present = [np.ones((a.gpus, a.chunks), bool), scratch]
    else:
        names = ["send", "recv"] if a.coll == "alltoall" else ["input", "output"]
        names, buffer = [*names, "scratch"], np.array([0, 1, 2])
        present = [input_, output, scratch]
    if not scratch.size:
        names, present = names[:-1], present[:-1]
    return BufferMap(tuple(names), tuple(present), buffer, shift)


@dataclass(frozen=True, eq=False)
class ChunkAccesses:
    """Which step (row) reads or writes which chunk, numbered over all GPUs and buffers: arrays (touches,)."""

    row: np.ndarray
    chunk: np.ndarray
    writes: np.ndarray

    @classmethod
    def of(cls, parts: Iterable[tuple[np.ndarray, np.ndarray, np.ndarray, bool]]) -> ChunkAccesses:
        """Of rows, each with its first chunk and how many, and whether they write."""
        rows, chunks, writes = [], [], []
        for row, first, count, write in parts:
            step, within = ragged(count.astype(np.int64))
            rows.append(row[step])
            chunks.append(first[step] + within)
            writes.append(np.full(within.size, write))
        return cls(*(np.concatenate(columns) for columns in (rows, chunks, writes)))


def touches(algorithm: MscclAlgorithm) -> ChunkAccesses:
    """All chunks that steps read and write, each step's reads before its writes."""
    steps, buffers = algorithm.steps, buffer_map(algorithm)
    base = np.concatenate(([0], np.cumsum(buffers.widths)))
    gpu = algorithm.blocks["gpu"][steps["block"]].astype(np.int64)
    parts = []
    for side, used, write in (("src", READS, False), ("dst", WRITES, True)):
        row = np.flatnonzero(used[steps["type"]])
        letter = steps[f"{side}buf"][row]
        within = base[buffers.buffer[letter]] + buffers.shift[gpu[row], letter] + steps[f"{side}off"][row]
        parts.append((row, gpu[row] * base[-1] + within, steps["cnt"][row], write))
    return ChunkAccesses.of(parts)
