"""Build collectives with multicasts and reductions by a switch: NVLink SHARP (NVLS), InfiniBand SHARP."""

import numpy as np

from wavefabric.collectives.builders.node_trees import double_tree
from wavefabric.collectives.builders.transfers import assemble, single_chunks, transfers
from wavefabric.collectives.conditions import layout
from wavefabric.collectives.schedule import Schedule

#: Collectives for which `nvls` uses reductions by the switch, and for which it uses multicasts.
_READ, _WRITTEN = ("all-reduce", "reduce-scatter", "reduce"), ("all-reduce", "all-gather", "broadcast")


def nvls(collective: str, ranks: int, elements: int, pieces: int = 1, root: int = 0) -> Schedule:
    """Build a collective from switch operations: a write reaches all ranks, a read returns the sum of all.

    Each rank reads the sum of its part from the switch (``multimem.ld_reduce``) and writes it to all
    (``multimem.st``): NCCL's NVLS, the two-shot all-reduce of MSCCL++ and PyTorch; its pieces form a
    pipeline. A broadcast or reduce is one operation of the root. As in the hardware, a rank's own data go to
    the switch too and come back (Klenk et al. 2020, doi:10.1109/ISCA45697.2020.00085).
    """
    shared = collective == "all-reduce"
    conditions = layout(collective, ranks, elements, pieces * ranks if shared else pieces, root)
    # Each rank processes one part of the array; of a reduce or broadcast, the root processes all.
    owner = np.array([root]) if collective in ("reduce", "broadcast") else np.arange(ranks)
    axes = np.meshgrid(owner, np.arange(pieces), np.arange(ranks), indexing="ij")
    here, piece, there = (grid.ravel() for grid in axes)
    chunk = here * pieces + piece if owner.size > 1 else piece
    parts = []
    for second, which, ends in ((0, _READ, (there, here)), (1, _WRITTEN, (here, there))):
        if collective in which and ranks > 1:
            number = (piece + second) * shared  # a piece is written while the next is read
            parts.append(_by_switch(transfers(number, *ends, chunk), 2 * chunk + 1 + second * shared))
    return assemble(f"nvls {collective}", conditions, parts)


def nvls_one_shot(collective: str, ranks: int, elements: int, pieces: int = 1) -> Schedule:
    """Build an all-reduce in one round: every rank reads the sum of the whole array from the switch.

    The switch receives N times the volume of `nvls`, at half the latency. No rank may overwrite data that
    others still read, so sums are read into scratch memory.
    """
    conditions = layout(collective, ranks, elements, pieces)
    src, dst = np.divmod(np.arange(ranks * ranks), ranks)
    own, parts = np.arange(ranks), []
    if ranks > 1:
        parts.append(_by_switch(transfers(0, src, dst, 0, count=pieces, buffers=(0, 1)), dst + 1))
        parts.append(transfers(1, own, own, 0, count=pieces, buffers=(1, 0)))
    return assemble(f"nvls-one-shot {collective}", conditions, parts, conditions.sizes[0])


def nvls_tree(collective: str, ranks: int, elements: int, pieces: int, grid: tuple[int, ...]) -> Schedule:
    """Build an all-reduce by switches within nodes and trees between them, on a grid (nodes, GPUs each).

    Each rank reads the sum of its node for its part from the switch. The ranks of equal local number in all
    nodes add these sums over two binary trees (`node_trees.double_tree`), each for half of the part, and each
    rank writes the result to all of its node: NCCL's NVLSTree. The ``pieces`` of each tree form a pipeline.
    """
    nodes, gpus = grid
    conditions = layout(collective, ranks, elements, 2 * gpus * pieces)
    between = double_tree(collective, nodes, 2 * pieces, pieces, grid=(nodes, 1))
    rows = single_chunks(between.transfers, between.sizes)
    # A step is a round between nodes with the local sums after it. Steps count from 1: switches read first.
    away = rows["src"] != rows["dst"]
    starts = np.unique(rows["round"][away])
    step = np.searchsorted(starts, rows["round"], "right")
    local = rows["round"] - starts[step - 1]
    stride, first, last = 1 + int(local.max(initial=0)), np.ones(2 * pieces, int), np.zeros(2 * pieces, int)
    first[rows["src_chunk"][away][::-1]] = step[away][::-1]  # of equal indices the last counts
    last[rows["src_chunk"][away]] = step[away]
    rows["round"] = step * stride + local
    rail, rows = np.repeat(np.arange(gpus), rows.size), np.tile(rows, gpus)
    for end in ("src", "dst"):
        rows[end] = rows[end] * gpus + rail
        rows[f"{end}_chunk"] += np.where(rows[f"{end}_buffer"] == 0, rail * 2 * pieces, 0)
    scratch = np.zeros((ranks, sum(table.shape[1] for table in between.sizes[1:])), np.int64)
    waiting = rows[rows["dst_buffer"] > rows["src_buffer"]]
    scratch[waiting["dst"], waiting["dst_chunk"]] = conditions.sizes[0][waiting["src"], waiting["src_chunk"]]
    node, rail, member, piece = (axis.ravel() for axis in np.indices((nodes, gpus, gpus, 2 * pieces)))
    owner, other, chunk = node * gpus + rail, node * gpus + member, rail * 2 * pieces + piece
    number, parts = 2 * (chunk * nodes + node) + 1, [rows]
    if gpus > 1:
        parts.append(_by_switch(transfers((first[piece] - 1) * stride, other, owner, chunk), number))
        parts.append(_by_switch(transfers((last[piece] + 1) * stride, owner, other, chunk), number + 1))
    return assemble(f"nvls-tree {collective}, {nodes}x{gpus}", conditions, parts, scratch)


def _by_switch(part: np.ndarray, number: np.ndarray) -> np.ndarray:
    """Mark transfers as operations of a switch; those of equal ``number`` and round are one operation."""
    part["switch"] = number
    return part
