"""Build hierarchical algorithms on a grid of N nodes of g ranks: rank r is local rank r % g of node r // g.

Data for another node cross the network once, between ranks of equal local number (on rails). Cho et al.,
BlueConnect, Proceedings of Machine Learning and Systems 1 (2019).
"""

import numpy as np

from wavefabric.collectives.builders.recursive import factors, recursive
from wavefabric.collectives.builders.transfers import assemble, single_chunks, transfers
from wavefabric.collectives.conditions import layout
from wavefabric.collectives.schedule import Schedule


def hierarchical(
    collective: str, ranks: int, elements: int, pieces: int, radix: int, root: int, grid: tuple[int, ...]
) -> Schedule:
    """Build a collective operation on a ``grid`` of (nodes, local ranks).

    A reduce-scatter runs within nodes, all local ranks at once, then between nodes by recursive halving, in
    groups of up to ``radix`` nodes, or more if their number has a larger prime factor. An all-gather is the
    reverse, an all-reduce both. A broadcast is a scatter in the root's node, broadcasts of the parts between
    nodes, and an all-gather within nodes. An all-to-all is that of `_all_to_all`.
    """
    (nodes, g), name = grid, f"hierarchical {collective}, {'x'.join(map(str, grid))}"
    if collective == "all-to-all":
        return _all_to_all(name, grid, elements, pieces)
    groups = next(f for r in range(radix, radix + nodes) if (f := factors(nodes, r)) is not None)
    if collective == "broadcast":
        local, home, count = np.arange(g)[:, None], root // g, nodes * pieces
        peer = np.delete(local, root % g)
        parts, stride = [transfers(0, root, home * g + peer, peer * count, count=count)], 1
        for step, factor in enumerate(groups, 1):
            # Nodes are counted from the root's node; before this step the first ``stride`` have the array.
            node, ahead = np.divmod(np.arange(stride * (factor - 1)), factor - 1)
            src, dst = ((home + n) % nodes * g + local for n in (node, node + (ahead + 1) * stride))
            parts.append(transfers(step, src, dst, local * count, count=count))
            stride *= factor
        src, dst = np.nonzero(np.kron(np.eye(nodes), np.ones((g, g))) - np.eye(nodes * g))
        src, dst = src[dst != root], dst[dst != root]
        parts.append(transfers(len(groups) + 1, src, dst, src % g * count, count=count))
        return assemble(name, layout("broadcast", nodes * g, elements, g * count, root), parts)
    # In a recursive schedule whose positions run over nodes first, the smallest strides are between nodes.
    at = np.arange(ranks).reshape(nodes, g).T.ravel()
    made = recursive(collective, ranks, ranks * pieces, pieces, groups=(*groups, *((g,) if g > 1 else ())))
    conditions = layout(collective, ranks, elements, ranks * pieces if collective == "all-reduce" else pieces)
    single = single_chunks(made.transfers, made.sizes)
    for end in ("src", "dst"):
        chunk = single[f"{end}_chunk"]
        moved = at[chunk // pieces % ranks] * pieces + chunk % pieces
        single[f"{end}_chunk"] = np.where(single[f"{end}_buffer"] == 0, moved, chunk)
        single[end] = at[single[end]]
    scratch = np.zeros((ranks, sum(table.shape[1] for table in made.sizes[1:])), np.int64)
    kept = single[single["dst_buffer"] > single["src_buffer"]]
    scratch[kept["dst"], kept["dst_chunk"]] = conditions.sizes[0][kept["src"], kept["src_chunk"]]
    return assemble(name, conditions, [single], scratch)


def _all_to_all(name: str, grid: tuple[int, ...], elements: int, pieces: int) -> Schedule:
    """Build an all-to-all in which data for another node pass through the rank on the receiver's rail.

    A rank gives its node's rank of the receiver's local number what is for other nodes, and that rank sends
    the data of all its node's ranks for one receiver together (PXN of NCCL, developer.nvidia.com/blog/
    doubling-all2all-performance-with-nvidia-collective-communication-library-2-12). One piece crosses the
    network while the next moves within the nodes: pieces + 1 rounds.
    """
    (nodes, g), ranks = grid, grid[0] * grid[1]
    src, dst, piece = (each.ravel() for each in np.indices((ranks, ranks, pieces)))
    sent, received = dst * pieces + piece, src * pieces + piece  # chunks of ``send`` and ``recv``
    away, via = src // g != dst // g, src // g * g + dst % g
    # A rank's scratch has a chunk for each other node, local rank and piece.
    ahead = (dst // g - src // g) % nodes - 1
    wait = (ahead * g + src % g) * pieces + piece
    first, second = ~away | (via != src), away
    parts = [
        transfers(
            piece[first],
            src[first],
            np.where(away, via, dst)[first],
            sent[first],
            np.where(away, wait, received)[first],
            buffers=(0, np.where(away, 2, 1)[first]),
        ),
        transfers(
            piece[second] + 1,
            via[second],
            dst[second],
            np.where(via == src, sent, wait)[second],
            received[second],
            buffers=(np.where(via == src, 0, 2)[second], 1),
        ),
    ]
    conditions = layout("all-to-all", ranks, elements, pieces)
    scratch = np.zeros((ranks, (nodes - 1) * g * pieces), np.int64)
    relayed = away & (via != src)
    scratch[via[relayed], wait[relayed]] = conditions.sizes[0][src[relayed], sent[relayed]]
    return assemble(name, conditions, parts, scratch)
