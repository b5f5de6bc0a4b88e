"""Hierarchical algorithms on nodes of several ranks: what must reach another node crosses the network once.

Of a grid of N nodes of g ranks, rank r is local rank r % g of node r // g. Between nodes only ranks of equal
local number send to each other: on a network with a rail for each, nothing leaves its rail. Cho et al.,
BlueConnect, Proceedings of Machine Learning and Systems 1 (2019).
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
    """All-reduce, reduce-scatter, all-gather or broadcast on a grid of nodes and local ranks.

    A reduce-scatter is among the ranks of a node, all at once, then between nodes by recursive halving; an
    all-gather is the same backwards, an all-reduce both. Nodes meet in groups of up to `radix`, or of their
    largest prime factor. A broadcast scatters the array over the root's node; each local rank sends its part
    to other nodes, and ranks of a node gather them.
    """
    (nodes, g), name = grid, f"hierarchical {collective}, {grid[0]}x{grid[1]}"
    groups = next(f for r in range(radix, radix + nodes) if (f := factors(nodes, r)) is not None)
    if collective == "broadcast":
        return _broadcast(name, elements, pieces, root, grid, groups)
    # A recursive schedule of positions that run over nodes first: its closest groups are between nodes.
    at = np.arange(ranks).reshape(nodes, g).T.ravel()
    made = recursive(collective, ranks, ranks * pieces, pieces, groups=(*groups, *((g,) if g > 1 else ())))
    conditions = layout(collective, ranks, elements, ranks * pieces if collective == "all-reduce" else pieces)
    which, within = ragged(made.transfers["count"].astype(np.int64))
    single = made.transfers[which]
    for end in ("src", "dst"):
        chunk = single[f"{end}_chunk"] + within
        in_data = single[f"{end}_buffer"] == 0
        single[f"{end}_chunk"] = np.where(
            in_data, at[chunk // pieces % ranks] * pieces + chunk % pieces, chunk
        )
        single[end] = at[single[end]]
    single["count"] = 1
    scratch = np.zeros((ranks, sum(table.shape[1] for table in made.sizes[1:])), np.int64)
    kept = single[single["dst_buffer"] > single["src_buffer"]]
    scratch[kept["dst"], kept["dst_chunk"]] = conditions.sizes[0][kept["src"], kept["src_chunk"]]
    return assemble(name, conditions, [single], scratch)


def _broadcast(
    name: str, elements: int, pieces: int, root: int, grid: tuple[int, ...], groups: tuple[int, ...]
) -> Schedule:
    nodes, g = grid
    (home, own), local = divmod(root, g), np.arange(g)[:, None]
    count = nodes * pieces  # of the chunks of each local rank
    parts = [transfers(0, root, home * g + (peer := np.delete(local, own)), peer * count, count=count)]
    stride, step = 1, 1
    for factor in groups:
        # Nodes are numbered from the root's on; those below the stride have the array.
        node, ahead = np.divmod(np.arange(stride * (factor - 1)), factor - 1)
        src, dst = ((home + n) % nodes * g + local for n in (node, node + (ahead + 1) * stride))
        parts.append(transfers(step, src, dst, local * count, count=count))
        stride, step = stride * factor, step + 1
    rank, other = np.nonzero(~np.eye(g, dtype=bool))
    first = np.arange(nodes)[:, None] * g
    within = transfers(step, first + rank, first + other, rank * count, count=count)
    parts.append(within[within["dst"] != root])
    return assemble(name, layout("broadcast", nodes * g, elements, g * count, root), parts)
