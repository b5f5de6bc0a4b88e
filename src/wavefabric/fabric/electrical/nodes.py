"""Which GPUs of a fabric are in one node: those that are joined without a network."""

from collections.abc import Sequence

import numpy as np

from wavefabric.fabric.electrical.fabric import Fabric


def node_grid(fabric: Fabric, gpus: Sequence[int]) -> tuple[int, int] | None:
    """Return (nodes, GPUs of each) of GPUs that are listed node by node, as many of each; None for others.

    Nodes are what is joined by links of other kinds than ``"network"``. None also for one node, and for nodes
    of one GPU.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    number = {name: i for i, name in enumerate((*fabric.gpus, *fabric.switches))}
    ends = [(number[k.source], number[k.target]) for k in fabric.links if k.kind != "network"]
    source, target = np.array(ends, np.int64).reshape(-1, 2).T
    graph = csr_array((np.ones(len(ends)), (source, target)), shape=(len(number), len(number)))
    node = connected_components(graph)[1][list(gpus)]
    each = int(np.count_nonzero(node == node[0]))
    if not 1 < each < node.size or node.size % each:
        return None
    rows = node.reshape(-1, each)
    alike = (rows == rows[:, :1]).all() and np.unique(rows[:, 0]).size == len(rows)
    return rows.shape if alike else None
