"""Along two binary trees at once, each for half of the array.

Sanders, Speck & Träff 2009, doi:10.1016/j.parco.2009.09.001.
"""

from __future__ import annotations

import numpy as np

from wavefabric.collectives.builders.transfers import assemble, transfers
from wavefabric.collectives.builders.trees import depths, in_order_tree
from wavefabric.collectives.conditions import layout
from wavefabric.collectives.schedule import Schedule

#: An edge of the two trees: number of the tree, and the position below.
TreeEdge = tuple[int, int]


def double_tree(collective: str, ranks: int, elements: int, pieces: int = 1, root: int = 0) -> Schedule:
    """Broadcast, reduce or all-reduce in which no rank is inside both of two binary trees.

    At most 2 (pieces + ⌊log₂(N − 1)⌋) rounds, in which a rank sends and receives one piece at most; or
    2 (pieces + 2 ⌊log₂ N⌋ − 1) (all-reduce), one at most upwards and one downwards.
    """
    rooted = collective != "all-reduce"
    trees = complementary_trees(ranks - rooted)
    number = (np.arange(ranks + 1) + (root if rooted else -1)) % ranks
    offset = _offsets(trees, rooted)
    last = max(int(o.max()) for o in offset)
    conditions = layout(collective, ranks, elements, 2 * pieces, root)
    piece, parts = np.arange(pieces), []
    for which, parent in enumerate(trees):
        position = np.arange(1, parent.size)
        child = (position if rooted else position[parent[1:] > 0])[:, None]
        above = parent[child]
        chunk = which * pieces + piece
        if collective != "broadcast":
            # The broadcast backwards in time.
            step = last - offset[which][child] + 2 * piece
            parts.append(transfers(step, number[child], number[above], chunk, reduce=True))
        if collective != "reduce":
            first = 0 if rooted else last + 1
            step = first + offset[which][child] + 2 * piece
            parts.append(transfers(step, number[above], number[child], chunk))
    return assemble(f"double-tree {collective}", conditions, parts)


def complementary_trees(positions: int) -> tuple[np.ndarray, np.ndarray]:
    """Parents, as of `in_order_tree`, in two trees of the same positions; none has children in both.

    The second is the first mirrored if the positions are even in number, and moved on by one if they are odd.
    """
    first = in_order_tree(positions)
    position = np.arange(1, positions + 1)
    # Where each position of the first tree lies in the second.
    moved = np.concatenate(([0], position % positions + 1 if positions % 2 else positions + 1 - position))
    second = np.zeros_like(first)
    second[moved] = moved[first]
    return first, second


def _offsets(trees: tuple[np.ndarray, np.ndarray], rooted: bool) -> tuple[np.ndarray, ...]:
    """Round of a broadcast in which each position receives the first piece of each tree.

    Place 0 is above both roots if `rooted`; without it roots receive nothing, −1.
    """
    colour = _two_colours(trees, rooted)
    offsets = []
    for which, parent in enumerate(trees):
        offset, depth = np.full(parent.size, -1), depths(parent)
        for level in range(0 if rooted else 1, int(depth.max()) + 1):
            here = np.flatnonzero(depth == level)
            earliest = offset[parent[here]] + 1
            offset[here] = earliest + (earliest + colour[which][here]) % 2
        offsets.append(offset)
    return tuple(offsets)


def _two_colours(trees: tuple[np.ndarray, np.ndarray], rooted: bool) -> np.ndarray:
    """0 or 1 (even or odd rounds) for the edge above each position in each tree, shape (2, positions + 1).

    Edges with the same sender differ, and those with the same receiver: they form paths and cycles of even
    length, since a sender's edges and a receiver's take turns along them.
    """
    edges = [(t, c) for t in (0, 1) for c in range(1, trees[t].size) if rooted or trees[t][c]]
    by_sender: dict[int, list[TreeEdge]] = {}
    for t, c in edges:
        by_sender.setdefault(int(trees[t][c]), []).append((t, c))
    present = set(edges)
    colour = np.full((2, trees[0].size), -1)

    def same_sender(edge: TreeEdge) -> TreeEdge | None:
        return next((e for e in by_sender[int(trees[edge[0]][edge[1]])] if e != edge), None)

    def same_receiver(edge: TreeEdge) -> TreeEdge | None:
        other = 1 - edge[0], edge[1]
        return other if other in present else None

    for start in edges:
        if colour[start] >= 0:
            continue
        colour[start] = 0
        for turns in ((same_sender, same_receiver), (same_receiver, same_sender)):
            edge, shade, turn = start, 0, 0
            while (edge := turns[turn](edge)) is not None and colour[edge] < 0:
                shade, turn = 1 - shade, 1 - turn
                colour[edge] = shade
    return colour
