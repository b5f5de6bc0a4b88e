"""Build binary trees over nodes of GPUs, pipelined by pieces, with a chain of ranks within each node.

NCCL connects nodes in this way: a tree, or two complementary ones (`trees.double_tree`), for each channel.
"""

import numpy as np

from wavefabric.collectives.builders import trees
from wavefabric.collectives.builders.transfers import assemble, transfers
from wavefabric.collectives.conditions import layout
from wavefabric.collectives.schedule import Schedule
from wavefabric.collectives.sizes import within_groups


def tree(
    collective: str, ranks: int, elements: int, pieces: int = 1, root: int = 0, grid: tuple[int, ...] = ()
) -> Schedule:
    """Build a broadcast, reduce or all-reduce along binary trees of depth ⌊log₂ nodes⌋, pipelined by pieces.

    Without a ``grid`` each rank is a node, and there is one tree. On a ``grid`` of (nodes, GPUs per node)
    there is a tree per local rank, each for an equal part of the array (`_along_trees`).
    """
    nodes, gpus = grid or (ranks, 1)
    parent, top = trees.in_order_tree(nodes), 1 << (nodes.bit_length() - 1)
    shift = root // gpus - top if collective != "all-reduce" else -1
    node = (np.arange(nodes + 1) + shift) % nodes  # at each position of the tree
    return _along_trees("tree", collective, elements, pieces, root, grid, [(parent, node)], ranks)


def double_tree(
    collective: str, ranks: int, elements: int, pieces: int = 1, root: int = 0, grid: tuple[int, ...] = ()
) -> Schedule:
    """Build a broadcast, reduce or all-reduce over two binary trees; no node is an inner node of both.

    Without a ``grid`` each rank is a node (`trees.double_tree`). On a ``grid`` of (nodes, GPUs per node)
    there are two trees per local rank, each for an equal part of the array (`_along_trees`).
    """
    if not grid:
        return trees.double_tree(collective, ranks, elements, pieces, root)
    nodes, gpus = grid
    rooted = collective != "all-reduce"
    node = (np.arange(nodes + (not rooted)) + (root // gpus if rooted else -1)) % nodes
    both = trees.complementary_trees(nodes - rooted)
    return _along_trees(
        "double-tree", collective, elements, pieces, root, grid, [(p, node) for p in both], ranks
    )


def _along_trees(
    name: str,
    collective: str,
    elements: int,
    pieces: int,
    root: int,
    grid: tuple[int, ...],
    over_nodes: list[tuple[np.ndarray, np.ndarray]],
    ranks: int,
) -> Schedule:
    """Build a schedule over a channel for each local rank; a channel has each tree of ``over_nodes``.

    A tree is the parent of each position (`trees.in_order_tree`) and the node at each position; position 0 is
    the root of a rooted collective. In channel c the ranks of local number c send between nodes, and data
    pass through a node along c, c + 1, …, cyclically; in the node of ``root`` they begin or end at ``root``.

    A tree of depth h takes h + pieces − 1 rounds of communication, an all-reduce 2 h + pieces − 1. Where data
    of several children arrive in a round, those of the first are added at once, those of others wait in
    ``scratch``; sums are in the order of the children: left, right, next in the chain.
    """
    nodes, gpus = grid or (ranks, 1)
    rooted = collective != "all-reduce"
    parents = np.stack(
        [
            _parents_of_ranks(parent, node, gpus, channel, root if rooted else None)
            for channel in range(gpus)
            for parent, node in over_nodes
        ]
    )
    count = len(parents)
    # For `trees.depths` positions begin at 1.
    depth = np.stack([trees.depths(np.concatenate(([0], parent + 1)))[1:] for parent in parents])
    number, child = np.nonzero(parents >= 0)
    above = parents[number, child]
    # Children in other nodes come before the next rank of the chain, and among them the left one first.
    chained = child // gpus == above // gpus
    position = np.stack([np.argsort(node[-nodes:]) for _, node in over_nodes])
    order = np.lexsort((position[number % len(over_nodes), child // gpus], chained, above, number))
    number, child, above = number[order], child[order], above[order]
    turn = within_groups(number * ranks + above)[:, None]
    level = depth[number, child][:, None]
    height, piece = int(depth.max()), np.arange(pieces)
    chunk = number[:, None] * pieces + piece
    child, above = child[:, None], above[:, None]
    parts, scratch, down = [], None, 0
    conditions = layout(collective, ranks, elements, count * pieces, root)
    rounds = max(int(turn.max(initial=0)), 1) + 1  # one of communication, the others of local sums
    if collective != "broadcast":
        step, late = rounds * (piece + height - level), turn > 0
        # Only the rank of a channel that sends between nodes has several children there.
        width = len(over_nodes) * pieces
        wait = np.where(late, (turn - 1) * width + chunk % width, chunk)
        parts.append(transfers(step, child, above, chunk, wait, buffers=(0, late * 1), reduce=~late))
        row = late[:, 0]
        adder = above[row]
        parts.append(
            transfers((step + turn)[row], adder, adder, wait[row], chunk[row], buffers=(1, 0), reduce=True)
        )
        scratch = np.zeros((ranks, int(turn.max(initial=0)) * width), np.int64)
        scratch[adder, wait[row]] = conditions.sizes[0][adder, chunk[row]]
        down = height
    if collective != "reduce":
        parts.append(transfers(rounds * (piece + down + level - 1), above, child, chunk))
    shape = f", {nodes}x{gpus}" if grid else ""
    return assemble(f"{name} {collective}{shape}", conditions, parts, scratch)


def _parents_of_ranks(
    parent: np.ndarray, node: np.ndarray, gpus: int, channel: int, root: int | None
) -> np.ndarray:
    """Return the parent of each rank in a channel's tree, −1 for the topmost: shape (ranks,)."""
    nodes = int(node.max()) + 1
    chain = np.arange(nodes)[:, None] * gpus + (channel + np.arange(gpus)) % gpus
    above = np.full(nodes * gpus, -1)
    above[chain[:, 1:]] = chain[:, :-1]
    # If position 0 is a node of its own, it is above the positions without a parent.
    below = np.arange(1, parent.size)[(parent[1:] > 0) | (node.size == nodes)]
    above[node[below] * gpus + channel] = node[parent[below]] * gpus + channel
    if root is not None:
        line = chain[root // gpus]
        line = np.concatenate(([root], line[line != root]))
        above[line] = np.concatenate(([-1], line[:-1]))
    return above
