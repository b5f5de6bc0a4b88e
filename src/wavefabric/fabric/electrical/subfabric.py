"""Cuts the part out of an electrical fabric that joins some of its GPUs."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations

import numpy as np

from wavefabric.fabric.electrical.fabric import Fabric
from wavefabric.fabric.electrical.static_routes import static_routes


def subfabric(fabric: Fabric, gpus: Sequence[int]) -> Fabric:
    """Return the fabric of two or more GPUs, in this order, with the links on the routes between them.

    Other GPUs that forward data on these routes become switches. Nodes are named by their order, ``"GPU0"``,
    …, ``"switch0"``, …, so that parts with equal links are equal.

    Examples
    --------
    >>> from wavefabric.fabric import load
    >>> from wavefabric.fabric.electrical.subfabric import subfabric
    >>> row, column = (subfabric(load("torus:4x4"), gpus) for gpus in ((4, 5, 6, 7), (1, 5, 9, 13)))
    >>> row.gpus, row.switches, len(row.links), row == column
    (('GPU0', 'GPU1', 'GPU2', 'GPU3'), (), 8, True)
    """
    routes, nodes = static_routes(fabric), (*fabric.gpus, *fabric.switches)
    src, dst = np.array(list(permutations(gpus, 2)), np.int64).T
    joined = routes.table[src, dst] >= 0
    used = np.unique(routes.wires_of(src[joined], dst[joined]).wire)
    ends = {tuple(nodes[end[i]] for end in (routes.wires.source, routes.wires.target)) for i in used}
    name = {fabric.gpus[gpu]: f"GPU{rank}" for rank, gpu in enumerate(gpus)}
    on_routes = [link for link in fabric.links if (link.source, link.target) in ends]
    for link in on_routes:
        for node in (link.source, link.target):
            name.setdefault(node, f"switch{len(name) - len(gpus)}")
    links = [replace(link, source=name[link.source], target=name[link.target]) for link in on_routes]
    members, whole = set(list(name)[: len(gpus)]), list(gpus) == list(range(fabric.ranks))
    return replace(
        fabric,
        name=fabric.name if whole else f"{len(gpus)} GPUs of {fabric.name}",
        gpus=tuple(name.values())[: len(gpus)],
        switches=tuple(name.values())[len(gpus) :],
        links=tuple(sorted(links, key=lambda link: (link.source, link.target))),
        numbering=tuple(name[node] for node in fabric.numbering or fabric.gpus if node in members),
        multicast_switches=tuple(name[node] for node in fabric.multicast_switches if node in name),
    )
