"""Build two complementary binary trees over ranks, pipelined by pieces, or a binomial tree.

Two trees at once: Sanders, Speck & Träff 2009, doi:10.1016/j.parco.2009.09.001.
"""

import numpy as np

from wavefabric.collectives.builders.transfers import assemble, transfers
from wavefabric.collectives.conditions import layout
from wavefabric.collectives.schedule import Schedule
from wavefabric.collectives.sizes import ragged


def in_order_tree(positions: int) -> np.ndarray:
    """Return the parent of each position 1, 2, … of an in-order binary tree: shape (positions + 1,).

    Odd positions are leaves; left of an even position are lower positions, right of it higher ones. The
    root, the largest power of two, and entry 0 have parent 0. The depth is ⌊log₂ positions⌋.
    """
    position = np.arange(positions + 1)
    low = position & -position
    parent = (position ^ low) | (low << 1)
    parent = np.where(parent > positions, position ^ low, parent)
    parent[0] = 0
    return parent


def depths(parent: np.ndarray) -> np.ndarray:
    """Return the depth of each position of a tree below its root: shape (positions + 1,), entry 0 is −1.

    ``parent``: the parent of each position, as `in_order_tree` returns it.
    """
    depth, above = np.full(parent.size, -1), np.arange(parent.size)
    while above.any():
        depth += above > 0
        above = parent[above]
    return depth


def double_tree(collective: str, ranks: int, elements: int, pieces: int = 1, root: int = 0) -> Schedule:
    """Build a broadcast, reduce or all-reduce over two binary trees; no rank is an inner node of both.

    A broadcast or reduce takes at most 2 (pieces + ⌊log₂(N − 1)⌋) rounds, in which a rank sends and receives
    at most one piece; an all-reduce at most 2 (pieces + 2 ⌊log₂ N⌋ − 1), one piece upwards and one downwards.
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
            # A reduce is the broadcast reversed in time.
            step = last - offset[which][child] + 2 * piece
            parts.append(transfers(step, number[child], number[above], chunk, reduce=True))
        if collective != "reduce":
            first = 0 if rooted else last + 1
            step = first + offset[which][child] + 2 * piece
            parts.append(transfers(step, number[above], number[child], chunk))
    return assemble(f"double-tree {collective}", conditions, parts)


def complementary_trees(positions: int) -> tuple[np.ndarray, np.ndarray]:
    """Return two binary trees over the same positions, in which no position has children in both trees.

    Each tree is an array with the parent of each position, as `in_order_tree` returns it. The second tree is
    the first mirrored if the number of positions is even, and shifted by one if it is odd.
    """
    first = in_order_tree(positions)
    position = np.arange(1, positions + 1)
    # Position in the second tree of each position of the first.
    moved = np.concatenate(([0], position % positions + 1 if positions % 2 else positions + 1 - position))
    second = np.zeros_like(first)
    second[moved] = moved[first]
    return first, second


def _offsets(trees: tuple[np.ndarray, np.ndarray], rooted: bool) -> tuple[np.ndarray, ...]:
    """Return, for each tree, the round of a broadcast in which each position receives the first piece.

    If ``rooted``, both roots receive the pieces from position 0. Otherwise they have them from the start, and
    their entry is −1.
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
    """Return a colour, 0 or 1, for each edge of two trees: shape (2, positions + 1).

    An edge leads from a position to its parent, and has the entry of the position; −1 stands for no edge.
    Edges of colour 0 are used in even rounds, those of colour 1 in odd rounds. So two edges of one sender, or
    of one receiver, have different colours. That is always possible: such pairs of edges form paths and
    cycles of even length, as pairs with a common sender and a common receiver alternate along them.
    """
    parent = np.stack(trees)
    colour = np.full(parent.shape, -1)
    present = (parent > 0) | (rooted and np.arange(parent.shape[1]) > 0)
    tree, child = np.nonzero(present)
    pairs = []
    for end in (parent[tree, child], child):  # a sender, or receiver, has at most two edges
        order = np.argsort(end, kind="stable")
        same = np.flatnonzero(np.diff(end[order]) == 0)
        pairs.append((order[same], order[same + 1]))
    first, second = np.concatenate(pairs, axis=1)
    from scipy.sparse import csr_array  # late: most schedules need no SciPy
    from scipy.sparse.csgraph import connected_components, dijkstra

    differ = csr_array((np.ones(first.size), (first, second)), (tree.size, tree.size))
    starts = np.unique(connected_components(differ, directed=False)[1], return_index=True)[1]
    steps = dijkstra(differ, directed=False, indices=starts, unweighted=True, min_only=True)
    colour[tree, child] = steps % 2
    return colour


def binomial(collective: str, ranks: int, elements: int, pieces: int = 1, root: int = 0) -> Schedule:
    """Build a broadcast, reduce, gather or scatter along a binomial tree, in ⌈log₂ N⌉ rounds.

    Ranks are counted cyclically from the root. Rank v sends to rank v + 2^j for all possible j, the largest
    first; each receiver then serves half of the ranks that v served before. A gather or reduce is the
    reverse. A rank sends, and receives, at most one message per round.
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
    return assemble(f"binomial {collective}", layout(collective, ranks, elements, pieces, root), parts)
