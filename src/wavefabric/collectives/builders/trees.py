"""Along one tree: a binary one, pipelined by pieces, or a binomial one."""

from __future__ import annotations

import numpy as np

from wavefabric.collectives.arguments import ragged
from wavefabric.collectives.builders.rows import assemble, rows
from wavefabric.collectives.conditions import layout
from wavefabric.collectives.schedule import Schedule


def in_order_tree(places: int) -> np.ndarray:
    """Parents in the binary tree whose places 1, 2, … are numbered in order, as in a search tree.

    Odd places are leaves; an even one has the places below it on its left and the ones above on its right.
    The depth is ⌊log₂ places⌋.

    Returns
    -------
    ndarray of int, shape (places + 1,)
        Of each place; 0 for the root, the largest power of two, and for entry 0.
    """
    place = np.arange(places + 1)
    low = place & -place
    parent = (place ^ low) | (low << 1)
    parent = np.where(parent > places, place ^ low, parent)
    parent[0] = 0
    return parent


def depths(parent: np.ndarray) -> np.ndarray:
    """Edges from each place to the root, for parents as of `in_order_tree`; entry 0 is −1."""
    depth, above = np.full(parent.size, -1), np.arange(parent.size)
    while above.any():
        depth += above > 0
        above = parent[above]
    return depth


def tree(collective: str, ranks: int, elements: int, pieces: int = 1, root: int = 0) -> Schedule:
    """Broadcast, reduce or all-reduce along a binary tree.

    Parameters
    ----------
    collective : str
    ranks, elements : int
        See `wavefabric.collectives.conditions.layout`.
    pieces : int
        Of the array, which follow each other as in a pipeline.
    root : int
        Of a broadcast or reduce. The root of an all-reduce is where the depth is least.

    Returns
    -------
    Schedule
        With depth h = ⌊log₂ N⌋: h + pieces − 1 rounds of communication, 2 h + pieces − 1 of an all-reduce, in
        which a piece goes down as soon as its sum is known at the root. In a round a rank sends a piece to
        both children and receives one from its parent, or the reverse; an all-reduce does both at once. What
        comes from the right child goes to ``scratch``, so that sums are in rank order, counted cyclically
        from the leftmost rank of a tree. Every rank ends an all-reduce with the same bits.
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
        parts.append(
            rows(step, number[child], number[above], piece, buffers=(0, right * 1), reduce=~right),
        )
        adder = above[right]
        step = step[right[:, 0]] + 1
        parts.append(
            rows(step, number[adder][:, None], number[adder][:, None], piece, buffers=(1, 0), reduce=True)
        )
        scratch = np.zeros_like(conditions.sizes[0])
        scratch[number[adder]] = conditions.sizes[0][number[adder]]
        down = height
    if collective != "reduce":
        step = 2 * (piece + down + depth[above])
        parts.append(rows(step, number[above], number[child], piece))
    return assemble(f"tree {collective}", conditions, parts, scratch)


def binomial(collective: str, ranks: int, elements: int, pieces: int = 1, root: int = 0) -> Schedule:
    """Broadcast, reduce, gather or scatter along a binomial tree, in ⌈log₂ N⌉ rounds.

    Parameters
    ----------
    collective : str
    ranks, elements, root : int
        See `wavefabric.collectives.conditions.layout`.
    pieces : int
        Chunks of the array or share, all of which move together.

    Returns
    -------
    Schedule
        Counted cyclically from the root, place v hands half of the places that it stands for to place
        v + 2^j, largest j first. A gather or reduce is the reverse. Every rank sends one message a round at
        most, and receives one. A root in the middle cuts some blocks of a gather or scatter in two.
    """
    up = collective in ("reduce", "gather")
    parts, last = [], max(0, (ranks - 1).bit_length() - 1)
    for step in range((ranks - 1).bit_length()):
        half = 1 << (last - step)
        giver = np.arange(0, ranks - half, 2 * half)
        taker = giver + half
        if collective in ("gather", "scatter"):
            size = np.minimum(half, ranks - taker)
            pair, within = ragged(size)
            taker, giver = taker[pair], giver[pair]
            chunk = (taker + within + root) % ranks * pieces
        else:
            chunk = 0
        ends = (giver + root) % ranks, (taker + root) % ranks
        src, dst = ends[::-1] if up else ends
        when = last - step if up else step
        parts.append(rows(when, src, dst, chunk, count=pieces, reduce=collective == "reduce"))
    conditions = layout(collective, ranks, elements, pieces, root)
    return assemble(f"binomial {collective}", conditions, parts)
