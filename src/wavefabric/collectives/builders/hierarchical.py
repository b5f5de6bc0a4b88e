"""Hierarchical algorithms on nodes of several ranks: what must reach another node crosses the network once.

Of a grid of N nodes of g ranks, rank r is local rank r % g of node r // g. Between nodes only ranks of equal
local number send to each other: on a network with a rail for each, nothing leaves its rail. For sums: Cho et
al., BlueConnect, Proceedings of Machine Learning and Systems 1 (2019).
"""

import numpy as np

from wavefabric.collectives.arguments import ragged
from wavefabric.collectives.builders.recursive import factors, recursive
from wavefabric.collectives.builders.transfers import assemble, transfers
from wavefabric.collectives.conditions import layout
from wavefabric.collectives.schedule import Schedule


def hierarchical(
    collective: str,
    ranks: int,
    elements: int,
    pieces: int = 1,
    radix: int = 2,
    root: int = 0,
    grid: tuple[int, ...] = (1, 1),
) -> Schedule:
    """All-reduce, reduce-scatter, all-gather, broadcast or all-to-all on a grid of nodes and local ranks.

    A reduce-scatter is among the ranks of a node, all at once, then between nodes by recursive halving; an
    all-gather is the same backwards, an all-reduce both. Nodes meet in groups of up to `radix`, or of their
    largest prime factor. A broadcast scatters the array over the root's node; each local rank sends its part
    to other nodes, and ranks of a node gather them. In an all-to-all what goes to another node is first
    collected, in its node, on the local rank for which it is.
    """
    name = f"hierarchical {collective}, {grid[0]}x{grid[1]}"
    if collective == "all-to-all":
        return _all_to_all(name, ranks, elements, pieces, grid)
    nodes, g = grid
    groups = next(f for r in range(radix, radix + nodes) if (f := factors(nodes, r)) is not None)
    if collective == "broadcast":
        return _broadcast(name, ranks, elements, pieces, root, grid, groups)
    # A recursive schedule of positions that run over nodes first: its closest groups are between nodes.
    at = np.arange(ranks).reshape(nodes, g).T.ravel()
    made = recursive(collective, ranks, ranks * pieces, pieces, groups=(*groups, *((g,) if g > 1 else ())))
    conditions = layout(collective, ranks, elements, ranks * pieces if collective == "all-reduce" else pieces)
    which, within = ragged(made.transfers["count"].astype(np.int64))
    single = made.transfers[which]
    for end in ("src", "dst"):
        chunk = single[f"{end}_chunk"] + within
        in_data = single[f"{end}_buffer"] == 0
        single[f"{end}_chunk"] = np.where(in_data, at[chunk // pieces % ranks] * pieces + chunk % pieces, chunk)
        single[end] = at[single[end]]
    single["count"] = 1
    scratch = np.zeros((ranks, sum(table.shape[1] for table in made.sizes[1:])), np.int64)
    kept = single[single["dst_buffer"] > single["src_buffer"]]
    scratch[kept["dst"], kept["dst_chunk"]] = conditions.sizes[0][kept["src"], kept["src_chunk"]]
    return assemble(name, conditions, [single], scratch)


def _broadcast(
    name: str,
    ranks: int,
    elements: int,
    pieces: int,
    root: int,
    grid: tuple[int, ...],
    groups: tuple[int, ...],
) -> Schedule:
    nodes, g = grid
    home, local = root // g, np.arange(g)
    others = local[local != root % g]
    parts = [transfers(0, root, home * g + others, others * pieces, count=pieces)]
    stride, step = 1, 1
    for factor in groups:
        # Nodes are numbered from the root's on; those below the stride have the array.
        node, ahead = np.divmod(np.arange(stride * (factor - 1)), factor - 1)
        src, dst = ((home + n) % nodes * g for n in (node, node + (ahead + 1) * stride))
        parts.append(transfers(step, src + local[:, None], dst + local[:, None], local[:, None] * pieces, count=pieces))
        stride, step = stride * factor, step + 1
    rank, other = np.nonzero(~np.eye(g, dtype=bool))
    first = np.arange(nodes)[:, None] * g
    all_pairs = transfers(step, first + rank, first + other, rank * pieces, count=pieces)
    parts.append(all_pairs[all_pairs["dst"] != root])
    return assemble(name, layout("broadcast", ranks, elements, g * pieces, root), parts)


def _all_to_all(name: str, ranks: int, elements: int, pieces: int, grid: tuple[int, ...]) -> Schedule:
    nodes, g = grid
    conditions = layout("all-to-all", ranks, elements, pieces)
    src, dst = (ends.ravel() for ends in np.indices((ranks, ranks)))
    (home, local), (there, wanted) = np.divmod(src, g), np.divmod(dst, g)
    alone = (home == there) | (local == wanted)
    late = np.where(home == there, 0, 1)[alone]
    ends = (src[alone], dst[alone], dst[alone] * pieces, src[alone] * pieces)
    parts = [transfers(late, *ends, count=pieces, buffers=(0, 1))]
    src, dst, via = src[~alone], dst[~alone], (home * g + wanted)[~alone]
    slot = (there * g + local)[~alone] * pieces
    parts.append(transfers(0, src, via, dst * pieces, slot, count=pieces, buffers=(0, 2)))
    parts.append(transfers(1, via, dst, slot, src * pieces, count=pieces, buffers=(2, 1)))
    scratch = np.zeros((ranks, ranks * pieces), np.int64)
    each = np.arange(pieces)
    scratch[via[:, None], slot[:, None] + each] = conditions.sizes[0][src[:, None], dst[:, None] * pieces + each]
    return assemble(name, conditions, parts, scratch)
