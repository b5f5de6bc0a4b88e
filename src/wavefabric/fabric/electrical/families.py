"""Fabrics made from a few numbers: switch, ring, mesh, torus, hypercube; nodes on a network."""

import math
from dataclasses import replace
from itertools import product

from wavefabric.collectives.arguments import MOST_RANKS
from wavefabric.errors import InputError
from wavefabric.fabric.electrical.fabric import Link

#: What the numbers of each family are, as in ``"torus:4x4"``; one that stands alone is a count.
FAMILIES = {
    "switch": "ranks",
    "ring": "ranks",
    "mesh": "grid",
    "torus": "grid",
    "hypercube": "dimensions",
    "nodes": "grid",
    "lightpath": "grid",
}
#: One of each family.
_NAMES = "ring:8 mesh:4x4 torus:4x4 hypercube:3 switch:256 nodes:4x8 lightpath:8x8"
EXAMPLES = {name.partition(":")[0]: name for name in _NAMES.split()}


def parse_sizes(kind: str, text: str) -> tuple[int, ...]:
    """The numbers behind a family's name: ``"4x4"`` is (4, 4); `InputError` for other text."""
    wanted = FAMILIES[kind]
    words = {"ranks": "a number of GPUs", "dimensions": "a number of dimensions", "grid": "sizes such as 4x4"}
    allowed = "rows and columns such as 4x8" if kind == "lightpath" else words[wanted]
    parts = text.split("x")
    # ASCII digits alone: int() would read other scripts', signs, spaces and underscores.
    plain = all(p.isascii() and p.isdigit() and len(p) <= 9 for p in parts)
    if not plain or (wanted != "grid" and len(parts) != 1) or (kind == "lightpath" and len(parts) != 2):
        raise InputError(f"fabric: {kind}:{text} given; allowed: {kind}: and {allowed}")
    return check_sizes(kind, tuple(int(p) for p in parts), "fabric")


def check_sizes(kind: str, sizes: tuple[int, ...], key: str) -> tuple[int, ...]:
    """Refuse a family of no GPU, or of more than `MOST_RANKS`."""
    if kind == "nodes" and len(sizes) != 2:
        raise InputError(f"{key}: {kind} {list(sizes)} given; allowed: nodes and GPUs of each, such as 4x8")
    least = 0 if kind == "hypercube" else 1
    if min(sizes) < least or count_gpus(kind, sizes) > MOST_RANKS:
        actual = "x".join(map(str, sizes))
        raise InputError(f"{key}: {kind}:{actual} given; allowed: 1 to {MOST_RANKS} GPUs in all")
    return sizes


def count_gpus(kind: str, sizes: tuple[int, ...]) -> int:
    """How many GPUs a family has."""
    return 2 ** min(sizes[0], 60) if kind == "hypercube" else math.prod(sizes)


def make_links(
    kind: str, sizes: tuple[int, ...], bandwidth: float, latency: float, link_kind: str
) -> tuple[Link, ...]:
    """Links of a family, one each way.

    GPUs of a grid are numbered row by row (the last axis fastest). On an axis of two a torus has one link
    each way between the two, as a mesh has: the way around is the same wire.
    """
    if kind == "switch":
        ends = [pair for r in range(sizes[0]) for pair in ((f"GPU{r}", "switch"), ("switch", f"GPU{r}"))]
    else:
        ends = [(f"GPU{a}", f"GPU{b}") for a, b in sorted(neighbour_pairs(kind, sizes))]
    return tuple(Link(a, b, bandwidth, latency, link_kind) for a, b in ends)


def make_nodes(
    sizes: tuple[int, ...], inside: Link, nic: Link, rails: bool, oversubscription: float
) -> tuple[tuple[str, ...], tuple[Link, ...]]:
    """Switches and links of nodes, in each a switch, and for each GPU an adapter (NIC) on a leaf switch.

    With `rails` leaf i has adapter i of every node, else leaf n has those of node n. Leaves hang on a spine
    by what their adapters carry, over `oversubscription`. GPUs are numbered node by node.
    """
    nodes, gpus = sizes
    leaves = [f"{'rail' if rails else 'leaf'}{i}" for i in range(gpus if rails else nodes)]
    rate = nic.bandwidth * (nodes if rails else gpus) / oversubscription
    ends = [(leaf, "spine", replace(nic, bandwidth=rate, latency=0.0)) for leaf in leaves]
    for r, (node, local) in enumerate(product(range(nodes), range(gpus))):
        ends += [(f"GPU{r}", f"node{node}", inside), (f"GPU{r}", leaves[local if rails else node], nic)]
    links = (replace(link, source=x, target=y) for a, b, link in ends for x, y in ((a, b), (b, a)))
    return (*(f"node{i}" for i in range(nodes)), *leaves, "spine"), tuple(links)


def neighbour_pairs(kind: str, sizes: tuple[int, ...]) -> set[tuple[int, int]]:
    """Pairs of GPUs that are linked in a ring, mesh, torus or hypercube, both ways."""
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
