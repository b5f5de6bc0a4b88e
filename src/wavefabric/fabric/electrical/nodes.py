"""Which GPUs of a fabric are in one node: those that are joined without a network."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from wavefabric.fabric.electrical.fabric import Fabric
from wavefabric.fabric.electrical.static_routes import wires


def node_grid(fabric: Fabric, gpus: Sequence[int]) -> tuple[int, int] | None:
    """Return (nodes, GPUs per node) if ``gpus`` lists nodes of equal size one after the other, else None.

    A node is a set of GPUs that are connected without links of the kind ``"network"``. A single node, and
    nodes of one GPU, give None too.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    w = wires(replace(fabric, links=tuple(link for link in fabric.links if link.kind != "network")))
    size = fabric.ranks + len(fabric.switches)
    graph = csr_array((w.bandwidth, (w.source, w.target)), shape=(size, size))
    node = connected_components(graph)[1][list(gpus)]
    each = int((node == node[0]).sum())
    if node.size % each or not 1 < each < node.size:
        return None
    rows = node.reshape(-1, each)
    alike = (rows == rows[:, :1]).all() and np.unique(rows[:, 0]).size == len(rows)
    return rows.shape if alike else None
