"""Along two binary trees at once, each for half of the array."""

from __future__ import annotations

import numpy as np

from wavefabric.collectives.builders.rows import assemble, rows
from wavefabric.collectives.builders.trees import depths, in_order_tree
from wavefabric.collectives.conditions import layout
from wavefabric.collectives.schedule import Schedule


def double_tree(collective: str, ranks: int, elements: int, pieces: int = 1, root: int = 0) -> Schedule:
    """Broadcast, reduce or all-reduce in which no rank is inside both of two binary trees.

    Parameters
    ----------
    collective : str
    ranks, elements, root : int
        See `wavefabric.collectives.conditions.layout`.
    pieces : int
        Of each half of the array, which follow each other as in a pipeline.

    Returns
    -------
    Schedule
        Of at most 2 (pieces + ⌊log₂(N − 1)⌋) rounds (broadcast, reduce), in which a rank sends one piece at
        most and receives one at most; or 2 (pieces + 2 ⌊log₂ N⌋ − 1) rounds (all-reduce), in which it sends
        and receives one at most upwards and one at most downwards. Sums need no scratch: a rank hears from
        its children in different rounds. Every rank ends an all-reduce with the same bits.

    Notes
    -----
    Sanders, Speck & Träff 2009, doi:10.1016/j.parco.2009.09.001. The second tree is the first mirrored if the
    number of places is even, and moved on by one place if it is odd, so the leaves of one are inside the
    other. The root of a broadcast or reduce is above both. Every rank then has at most two edges on which it
    sends and two on which it receives: these are coloured with two colours, even and odd rounds.
    """
    rooted = collective != "all-reduce"
    trees = complementary_trees(ranks - rooted)
    number = (np.arange(ranks + 1) + (root if rooted else -1)) % ranks
    offset = _offsets(trees, rooted)
    last = max(int(o.max()) for o in offset)
    conditions = layout(collective, ranks, elements, 2 * pieces, root)
    piece, parts = np.arange(pieces), []
    for which, parent in enumerate(trees):
        place = np.arange(1, parent.size)
        child = (place if rooted else place[parent[1:] > 0])[:, None]
        above = parent[child]
        chunk = which * pieces + piece
        if collective != "broadcast":
            # The broadcast backwards in time.
            step = last - offset[which][child] + 2 * piece
            parts.append(rows(step, number[child], number[above], chunk, reduce=True))
        if collective != "reduce":
            first = 0 if rooted else last + 1
            step = first + offset[which][child] + 2 * piece
            parts.append(rows(step, number[above], number[child], chunk))
    return assemble(f"double-tree {collective}", conditions, parts)


def complementary_trees(places: int) -> tuple[np.ndarray, np.ndarray]:
    """Parents in two trees over places 1, 2, …, of which none has children in both.

    Returns
    -------
    pair of ndarray of int, shape (places + 1,)
        Parent of each place, 0 for a root; entry 0 is 0.
    """
    first = in_order_tree(places)
    place = np.arange(1, places + 1)
    # Where each place of the first tree lies in the second.
    moved = np.concatenate(([0], place % places + 1 if places % 2 else places + 1 - place))
    second = np.zeros_like(first)
    second[moved] = moved[first]
    return first, second


def _offsets(trees: tuple[np.ndarray, np.ndarray], rooted: bool) -> tuple[np.ndarray, ...]:
    """Round of a broadcast in which each place hears of the first piece of each tree, shape (places + 1,).

    Place 0 is above both roots if `rooted`; without it roots hear nothing, −1.
    """
    colour = _colours(trees, rooted)
    offsets = []
    for which, parent in enumerate(trees):
        offset, depth = np.full(parent.size, -1), depths(parent)
        for level in range(0 if rooted else 1, int(depth.max()) + 1):
            here = np.flatnonzero(depth == level)
            earliest = offset[parent[here]] + 1
            offset[here] = earliest + (earliest + colour[which][here]) % 2
        offsets.append(offset)
    return tuple(offsets)


def _colours(trees: tuple[np.ndarray, np.ndarray], rooted: bool) -> np.ndarray:
    """0 or 1 for the edge above each place in each tree, shape (2, places + 1).

    Edges with the same sender differ, and those with the same receiver: they form paths and cycles of even
    length, since a sender's edges and a receiver's take turns along them.
    """
    edges = [(t, c) for t in (0, 1) for c in range(1, trees[t].size) if rooted or trees[t][c]]
    by_sender: dict[int, list[tuple[int, int]]] = {}
    for t, c in edges:
        by_sender.setdefault(int(trees[t][c]), []).append((t, c))
    present = set(edges)
    colour = np.full((2, trees[0].size), -1)

    def sibling(edge: tuple[int, int]) -> tuple[int, int] | None:
        others = [e for e in by_sender[int(trees[edge[0]][edge[1]])] if e != edge]
        return others[0] if others else None

    def twin(edge: tuple[int, int]) -> tuple[int, int] | None:
        other = 1 - edge[0], edge[1]
        return other if other in present else None

    for start in edges:
        if colour[start] >= 0:
            continue
        colour[start] = 0
        for turns in ((sibling, twin), (twin, sibling)):
            edge, shade, turn = start, 0, 0
            while (edge := turns[turn](edge)) is not None and colour[edge] < 0:
                shade, turn = 1 - shade, 1 - turn
                colour[edge] = shade
    return colour
