"""Where the chunks of an MSCCL algorithm are: its buffers, some of which may be the same memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wavefabric.collectives.arguments import ragged
from wavefabric.collectives.formats.msccl.format import READS, WRITES, Algorithm


@dataclass(frozen=True, eq=False)
class Places:
    """Buffers of a schedule that stand for input, output and scratch.

    Parameters
    ----------
    names : tuple of str
    widths : tuple of int
        Chunks of each buffer.
    there : tuple of ndarray of bool, one a buffer, shape (gpus, width)
        Chunks that a GPU has.
    buffer : ndarray of int, shape (3,)
        Buffer that stands for input, output and scratch.
    shift : ndarray of int, shape (gpus, 3)
        Chunk of it that each begins with.
    """

    names: tuple[str, ...]
    widths: tuple[int, ...]
    there: tuple[np.ndarray, ...]
    buffer: np.ndarray
    shift: np.ndarray


def places(algorithm: Algorithm) -> Places:
    """The buffers of an algorithm.

    In place, input and output are one buffer ``data``: the input of an all-gather is the GPU's share of its
    output, the output of a reduce-scatter the share of its input, and otherwise they are the same.
    """
    a = algorithm
    gpus = np.arange(a.gpus)
    shift = np.zeros((a.gpus, 3), np.int64)
    if a.inplace:
        for coll, column in (("allgather", 0), ("reduce_scatter", 1)):
            if a.coll == coll:
                shift[:, column] = gpus * (a.chunks // a.gpus)
        names, letters = ["data", "scratch"], np.array([0, 0, 1])
        there = [np.ones((a.gpus, a.chunks), bool), _up_to(a.sizes[:, 2])]
    else:
        names = ["send", "recv"] if a.coll == "alltoall" else ["input", "output"]
        names, letters = [*names, "scratch"], np.array([0, 1, 2])
        there = [_up_to(a.sizes[:, letter]) for letter in range(3)]
    if not there[-1].size:
        names, there = names[:-1], there[:-1]
    return Places(tuple(names), tuple(t.shape[1] for t in there), tuple(there), letters, shift)


def _up_to(sizes: np.ndarray) -> np.ndarray:
    return np.arange(int(sizes.max(initial=0))) < sizes[:, None]


@dataclass(frozen=True, eq=False)
class Touches:
    """Which step reads or writes which chunk, a row each.

    Parameters
    ----------
    row : ndarray of int, shape (touches,)
        Row of the step.
    chunk : ndarray of int, shape (touches,)
        Number of the chunk, over all GPUs and buffers.
    writes : ndarray of bool, shape (touches,)
    """

    row: np.ndarray
    chunk: np.ndarray
    writes: np.ndarray


def touches(algorithm: Algorithm) -> Touches:
    """All chunks that steps read and write, each step's reads before its writes."""
    steps = algorithm.steps
    found = places(algorithm)
    base = np.concatenate(([0], np.cumsum(found.widths)))
    gpu = algorithm.blocks["gpu"][steps["block"]].astype(np.int64)
    rows, chunks, writes = [], [], []
    for side, used, write in (("src", READS, False), ("dst", WRITES, True)):
        row = np.flatnonzero(used[steps["type"]])
        letter = steps[f"{side}buf"][row]
        first = base[found.buffer[letter]] + found.shift[gpu[row], letter] + steps[f"{side}off"][row]
        count = steps["cnt"][row].astype(np.int64)
        step, within = ragged(count)
        rows.append(row[step])
        chunks.append((gpu[row] * base[-1] + first)[step] + within)
        writes.append(np.full(within.size, write))
    return Touches(*(np.concatenate(parts) for parts in (rows, chunks, writes)))


def hazards(chunk: np.ndarray, time: np.ndarray, writes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Touches that must stay in order: a write and what reads it, a read and the next write, two writes.

    Parameters
    ----------
    chunk, time : ndarray of int, shape (touches,)
        `time` orders those of a chunk; of equal times (a step that reads and writes it) reads come first.
    writes : ndarray of bool

    Returns
    -------
    later, earlier : ndarray of int
        Indices of touches. All other orders of a chunk follow from these.
    """
    order = np.lexsort((writes, time, chunk))
    chunk, written = chunk[order], writes[order]
    at = np.arange(chunk.size)
    begin = np.searchsorted(chunk, chunk)  # of each touch's chunk
    last = np.maximum.accumulate(np.where(written, at, -1))
    before = np.concatenate(([-1], last[:-1]))[: at.size]  # last write before each touch
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
