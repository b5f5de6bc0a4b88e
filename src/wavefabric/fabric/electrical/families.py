"""Generates the links of regular fabrics: switch, ring, mesh, torus, hypercube; nodes on a network."""

import math
from dataclasses import dataclass, replace
from itertools import product

from wavefabric.base.errors import InputError
from wavefabric.collectives.sizes import MOST_RANKS
from wavefabric.fabric.electrical.fabric import Link

#: Meaning of the numbers of each family, as in ``"torus:4x4"``; a single number is a count.
FAMILIES = {
    "switch": "ranks",
    "ring": "ranks",
    "mesh": "grid",
    "torus": "grid",
    "hypercube": "dimensions",
    "nodes": "grid",
    "lightpath": "grid",
}
#: One example per family.
_NAMES = "ring:8 mesh:4x4 torus:4x4 hypercube:3 switch:256 nodes:4x8 lightpath:8x8"
EXAMPLES = {name.partition(":")[0]: name for name in _NAMES.split()}


def parse_sizes(kind: str, text: str) -> tuple[int, ...]:
    """Parse the sizes after the name of a fabric family: ``"4x4"`` is (4, 4); `InputError` for other text."""
    wanted = FAMILIES[kind]
    words = {"ranks": "a number of GPUs", "dimensions": "a number of dimensions", "grid": "sizes such as 4x4"}
    allowed = "rows and columns such as 4x8" if kind == "lightpath" else words[wanted]
    parts = text.split("x")
    # Accept only ASCII digits, as int() also reads other scripts, signs, spaces and underscores.
    plain = all(p.isascii() and p.isdigit() and len(p) <= 9 for p in parts)
    if not plain or (wanted != "grid" and len(parts) != 1) or (kind == "lightpath" and len(parts) != 2):
        raise InputError(f"fabric: {kind}:{text} given; allowed: {kind}: and {allowed}")
    return check_sizes(kind, tuple(int(p) for p in parts), "fabric")


def check_sizes(kind: str, sizes: tuple[int, ...], key: str) -> tuple[int, ...]:
    """Return ``sizes``; `InputError` (which names ``key``) if they do not give 1 to `MOST_RANKS` GPUs."""
    if kind == "nodes" and len(sizes) != 2:
        raise InputError(f"{key}: {kind} {list(sizes)} given; allowed: nodes and GPUs of each, such as 4x8")
    least = 0 if kind == "hypercube" else 1
    if min(sizes) < least or count_gpus(kind, sizes) > MOST_RANKS:
        actual = "x".join(map(str, sizes))
        raise InputError(f"{key}: {kind}:{actual} given; allowed: 1 to {MOST_RANKS} GPUs in all")
    return sizes


def count_gpus(kind: str, sizes: tuple[int, ...]) -> int:
    """Return the number of GPUs of a fabric of family ``kind``, a key of `FAMILIES`."""
    return 2 ** min(sizes[0], 60) if kind == "hypercube" else math.prod(sizes)


def make_links(
    kind: str, sizes: tuple[int, ...], bandwidth: float, latency: float, link_kind: str
) -> tuple[Link, ...]:
    """Return the links of a fabric of family ``kind``; joined GPUs have one link in each direction.

    GPUs of a grid are numbered row by row (the last axis fastest). On an axis of length two a torus has one
    link per direction between the two GPUs, like a mesh, because the link around the end is the same wire.
    """
    if kind == "switch":
        ends = [pair for r in range(sizes[0]) for pair in ((f"GPU{r}", "switch"), ("switch", f"GPU{r}"))]
    else:
        ends = [(f"GPU{a}", f"GPU{b}") for a, b in sorted(neighbour_pairs(kind, sizes))]
    return tuple(Link(a, b, bandwidth, latency, link_kind) for a, b in ends)


@dataclass(frozen=True)
class Network:
    """Describes a network between nodes: adapters (NICs), leaf switches, and spines that join the leaves.

    ``link`` is a template of the links from an adapter to its leaf. With ``rails`` leaf i has adapter i of
    every node, else leaf n has all ``adapters`` of node n. A leaf's links to all ``spines`` together have the
    bandwidth of the leaf's adapters / ``oversubscription``.
    """

    link: Link
    adapters: int  # per node
    rails: bool
    spines: int
    oversubscription: float


def make_nodes(
    sizes: tuple[int, ...], inside: Link, network: Network
) -> tuple[tuple[str, ...], tuple[Link, ...]]:
    """Return the names of the switches, and the links, of nodes of GPUs that a network joins.

    Each node has a switch for its GPUs, with links like ``inside``. If a node has as many adapters as GPUs,
    each GPU has a link to the leaf of its adapter. If it has fewer, an adapter is a switch of its own,
    between neighbouring GPUs and the leaf; each of these GPUs has a link of the adapter's bandwidth to it.
    Only the link to a leaf has the network's latency, not those to spines. GPUs are numbered node by node.
    """
    (nodes, gpus), adapters, nic = sizes, network.adapters, network.link
    leaves = [
        f"{'rail' if network.rails else 'leaf'}{i}" for i in range(adapters if network.rails else nodes)
    ]
    spines = [f"spine{i}" for i in range(network.spines)] if network.spines > 1 else ["spine"]
    rate = nic.bandwidth * (nodes if network.rails else adapters) / network.oversubscription / len(spines)
    up = replace(nic, bandwidth=rate, latency=0.0)
    ends = [(leaf, spine, up) for leaf, spine in product(leaves, spines)]
    shared = [f"node{node} nic{i}" for node, i in product(range(nodes), range(adapters * (adapters < gpus)))]
    for number, name in enumerate(shared):
        node, adapter = divmod(number, adapters)
        ends.append((name, leaves[adapter if network.rails else node], nic))
    for r, (node, local) in enumerate(product(range(nodes), range(gpus))):
        adapter = local * adapters // gpus
        ends.append((f"GPU{r}", f"node{node}", inside))
        if shared:
            ends.append((f"GPU{r}", shared[node * adapters + adapter], replace(nic, latency=0.0)))
        else:
            ends.append((f"GPU{r}", leaves[adapter if network.rails else node], nic))
    links = (replace(link, source=x, target=y) for a, b, link in ends for x, y in ((a, b), (b, a)))
    return (*(f"node{i}" for i in range(nodes)), *shared, *leaves, *spines), tuple(links)


def neighbour_pairs(kind: str, sizes: tuple[int, ...]) -> set[tuple[int, int]]:
    """Return the ordered pairs of GPUs that are linked in a ring, mesh, torus or hypercube."""
    return {(r, n) for r in range(count_gpus(kind, sizes)) for n in _neighbours(kind, sizes, r)}


def _neighbours(kind: str, sizes: tuple[int, ...], rank: int) -> list[int]:
    if kind == "hypercube":
        return [rank ^ (1 << axis) for axis in range(sizes[0])]
    neighbours, stride = [], 1
    for size in reversed(sizes):
        here = rank // stride % size
        for there in (here - 1, here + 1):
            there = there if kind == "mesh" else there % size
            if 0 <= there < size and there != here:
                neighbours.append(rank + (there - here) * stride)
        stride *= size
    return neighbours
