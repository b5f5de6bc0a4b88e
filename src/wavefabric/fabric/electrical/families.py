"""Fabrics made from a few numbers: switch, ring, mesh, torus, hypercube."""

from __future__ import annotations

import math

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
    "lightpath": "grid",
}
#: One of each family.
EXAMPLES = {
    "ring": "ring:8",
    "mesh": "mesh:4x4",
    "torus": "torus:4x4",
    "hypercube": "hypercube:3",
    "switch": "switch:256",
    "lightpath": "lightpath:8x8",
}


def numbers(kind: str, text: str, key: str = "fabric") -> tuple[int, ...]:
    """The numbers behind a family's name: ``"4x4"`` is (4, 4).

    Raises
    ------
    InputError
        If it is no such text, or stands for no or too many GPUs.
    """
    wanted = FAMILIES[kind]
    words = {"ranks": "a number of GPUs", "dimensions": "a number of dimensions", "grid": "sizes such as 4x4"}
    one = "rows and columns such as 4x8" if kind == "lightpath" else words[wanted]
    parts = text.split("x")
    # ASCII digits alone: int() would read other scripts', signs, spaces and underscores.
    plain = all(p.isascii() and p.isdigit() and len(p) <= 9 for p in parts)
    if not plain or (wanted != "grid" and len(parts) != 1) or (kind == "lightpath" and len(parts) != 2):
        raise InputError(f"{key}: {kind}:{text} given; allowed: {kind}: and {one}")
    return check_numbers(kind, tuple(int(p) for p in parts), key)


def check_numbers(kind: str, sizes: tuple[int, ...], key: str) -> tuple[int, ...]:
    """Refuse a family of no GPU, or of more than `MOST_RANKS`."""
    least = 0 if kind == "hypercube" else 1
    if min(sizes) < least or ranks(kind, sizes) > MOST_RANKS:
        given = "x".join(map(str, sizes))
        raise InputError(f"{key}: {kind}:{given} given; allowed: 1 to {MOST_RANKS} GPUs in all")
    return sizes


def ranks(kind: str, sizes: tuple[int, ...]) -> int:
    """How many GPUs a family has."""
    return 2 ** min(sizes[0], 60) if kind == "hypercube" else math.prod(sizes)


def links(kind: str, sizes: tuple[int, ...], bandwidth: float, latency: float, word: str) -> tuple[Link, ...]:
    """Links of a family, each way one.

    Parameters
    ----------
    kind : str
        Of `FAMILIES`, but photonic ones.
    sizes : tuple of int
        Ranks, the grid, or the number of dimensions.
    bandwidth : float
        B/s of each link in each direction.
    latency : float
        s of each link.
    word : str
        `Link.kind`.

    Notes
    -----
    GPUs of a grid are numbered row by row (the last axis fastest). On an axis of two a torus has one link
    each way between the two, as a mesh has: the way around is the same wire.
    """
    if kind == "switch":
        ends = [pair for r in range(sizes[0]) for pair in ((f"GPU{r}", "switch"), ("switch", f"GPU{r}"))]
        return tuple(Link(a, b, bandwidth, latency, word) for a, b in ends)
    pairs = sorted({(r, n) for r in range(ranks(kind, sizes)) for n in _neighbours(kind, sizes, r)})
    return tuple(Link(f"GPU{a}", f"GPU{b}", bandwidth, latency, word) for a, b in pairs)


def _neighbours(kind: str, sizes: tuple[int, ...], rank: int) -> list[int]:
    if kind == "hypercube":
        return [rank ^ (1 << axis) for axis in range(sizes[0])]
    found = []
    stride = 1
    for size in reversed(sizes):
        at = rank // stride % size
        for to in (at - 1, at + 1):
            if kind != "mesh":
                to %= size
            if 0 <= to < size and to != at:
                found.append(rank + (to - at) * stride)
        stride *= size
    return found
