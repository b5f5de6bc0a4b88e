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
    """Build an all-reduce, reduce-scatter, all-gather or broadcast on a ``grid`` of (nodes, local ranks).

    A reduce-scatter runs within nodes, all local ranks at once, then between nodes by recursive halving, in
    groups of up to ``radix`` nodes, or more if their number has a larger prime factor. An all-gather is the
    reverse, an all-reduce both. A broadcast is a scatter in the root's node, broadcasts of the parts between
    nodes, and an all-gather within nodes.
    """
    (nodes, g), name = grid, f"hierarchical {collective}, {'x'.join(map(str, grid))}"
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
