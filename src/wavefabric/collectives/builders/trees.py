"""Tree algorithms: a binary tree, pipelined by pieces, or a binomial one."""

from __future__ import annotations

import numpy as np

from wavefabric.collectives.arguments import ragged
from wavefabric.collectives.builders.transfers import assemble, transfers
from wavefabric.collectives.conditions import layout
from wavefabric.collectives.schedule import Schedule


def in_order_tree(positions: int) -> np.ndarray:
    """Parents in the binary tree whose positions 1, 2, … are numbered in order: shape (positions + 1,).

    Odd positions are leaves; an even one has lower ones on its left and higher ones on its right. The root,
    the largest power of two, and entry 0 have parent 0. The depth is ⌊log₂ positions⌋.
    """
    position = np.arange(positions + 1)
    low = position & -position
    parent = (position ^ low) | (low << 1)
    parent = np.where(parent > positions, position ^ low, parent)
    parent[0] = 0
    return parent


def depths(parent: np.ndarray) -> np.ndarray:
    """Edges from each position to the root, for parents as of `in_order_tree`; entry 0 is −1."""
    depth, above = np.full(parent.size, -1), np.arange(parent.size)
    while above.any():
        depth += above > 0
        above = parent[above]
    return depth


def tree(collective: str, ranks: int, elements: int, pieces: int = 1, root: int = 0) -> Schedule:
    """Broadcast, reduce or all-reduce along a binary tree of depth h = ⌊log₂ N⌋, pipelined by pieces.

    h + pieces − 1 rounds of communication, 2 h + pieces − 1 of an all-reduce. What comes from the right child
    goes to ``scratch``, so that sums are in rank order, counted cyclically from the tree's leftmost rank.
    """
    parent = in_order_tree(ranks)
    depth = depths(parent)
    top, height = 1 << (ranks.bit_length() - 1), int(depth.max())
    shift = root - top if collective != "all-reduce" else -1
    number = (np.arange(ranks + 1) + shift) % ranks
    child = np.flatnonzero(parent)[:, None]
    above, piece = parent[child], np.arange(pieces)
    conditions = layout(collective, ranks, elements, pieces, root)
    parts, scratch, down = [], None, 0
    if collective != "broadcast":
        # Communication is in even rounds; in the odd ones what came from right children is added.
        step = 2 * (piece + height - depth[child])
        right = child > above
        ends = (0, right * 1)
        parts.append(transfers(step, number[child], number[above], piece, buffers=ends, reduce=~right))
        adder = number[above[right]]
        step = step[right[:, 0]] + 1
        parts.append(transfers(step, adder[:, None], adder[:, None], piece, buffers=(1, 0), reduce=True))
        scratch = np.zeros_like(conditions.sizes[0])
        scratch[adder] = conditions.sizes[0][adder]
        down = height
    if collective != "reduce":
        step = 2 * (piece + down + depth[above])
        parts.append(transfers(step, number[above], number[child], piece))
    return assemble(f"tree {collective}", conditions, parts, scratch)


def binomial(collective: str, ranks: int, elements: int, pieces: int = 1, root: int = 0) -> Schedule:
    """Broadcast, reduce, gather or scatter along a binomial tree, in ⌈log₂ N⌉ rounds.

    Counted cyclically from the root, rank v sends to rank v + 2^j, largest j first, half of what it stands
    for. A gather or reduce is the reverse. Every rank sends, and receives, one message a round.
    """
    up = collective in ("reduce", "gather")
    parts, last = [], max(0, (ranks - 1).bit_length() - 1)
    for step in range((ranks - 1).bit_length()):
        half = 1 << (last - step)
        parent = np.arange(0, ranks - half, 2 * half)
        child, chunk = parent + half, 0
        if collective in ("gather", "scatter"):
            pair, within = ragged(np.minimum(half, ranks - child))
            child, parent = child[pair], parent[pair]
            chunk = (child + within + root) % ranks * pieces
        ends = (parent + root) % ranks, (child + root) % ranks
        src, dst = ends[::-1] if up else ends
        when = last - step if up else step
        parts.append(transfers(when, src, dst, chunk, count=pieces, reduce=collective == "reduce"))
    conditions = layout(collective, ranks, elements, pieces, root)
    return assemble(f"binomial {collective}", conditions, parts)
