"""Positions of the nodes of an electrical fabric: grids and hypercubes as such, the rest around a circle."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from wavefabric.fabric.electrical.fabric import Fabric
from wavefabric.fabric.electrical.families import neighbour_pairs

#: Where the bits of a cube's rank lead.
_CUBE = np.array([(1.8, 0.0), (0.0, 1.8), (0.78, 0.64)])


def positions(fabric: Fabric) -> dict[str, np.ndarray]:
    """Where each node is drawn: y points down, neighbours about 1 apart.

    A grid or hypercube is recognised by its links, not by its name. GPUs stay where they are in the machine,
    whatever the order of ranks.
    """
    if fabric.numbering:
        fabric = replace(fabric, gpus=fabric.numbering, numbering=())
    neighbours: dict[str, set[str]] = {name: set() for name in (*fabric.gpus, *fabric.switches)}
    for link in fabric.links:
        neighbours[link.source].add(link.target)
        neighbours[link.target].add(link.source)
    if fabric.switches:
        return _around(fabric, neighbours)
    number = {name: rank for rank, name in enumerate(fabric.gpus)}
    pairs = {(number[a], number[b]) for a, near in neighbours.items() for b in near}
    columns = _grid_columns(fabric.ranks, pairs)
    if columns:
        return {g: np.array([r % columns, r // columns], float) for r, g in enumerate(fabric.gpus)}
    bits = {8: 3, 16: 4}.get(fabric.ranks)
    if bits and pairs == neighbour_pairs("hypercube", (bits,)):
        return {g: _corner(r, fabric.ranks) for r, g in enumerate(fabric.gpus)}
    return _circle(fabric, _radius(fabric.ranks))


def _grid_columns(ranks: int, pairs: set[tuple[int, int]]) -> int | None:
    """Columns of a mesh or torus numbered row by row."""
    for columns in range(2, ranks // 2 + 1 if ranks > 4 else 0):
        if ranks % columns == 0:
            shape = ranks // columns, columns
            if any(pairs == neighbour_pairs(kind, shape) for kind in ("mesh", "torus")):
                return columns
    return None


def _corner(rank: int, ranks: int) -> np.ndarray:
    """A corner of a hypercube of three or four dimensions."""
    if ranks == 8:
        return sum((_CUBE[k] * (rank >> k & 1) for k in range(3)), np.zeros(2))
    # Four dimensions are a torus of 4 x 4 in the order of Gray's code.
    gray = (0, 1, 3, 2)
    return np.array([gray.index(rank & 3), gray.index(rank >> 2)], float)


def _radius(ranks: int) -> float:
    return max(0.9, ranks / (2 * math.pi) * 1.05)


def _circle(fabric: Fabric, radius: float) -> dict[str, np.ndarray]:
    """GPUs clockwise from the top, the first and the last on either side of it."""
    angles = [2 * math.pi * (r + 0.5) / fabric.ranks - math.pi / 2 for r in range(fabric.ranks)]
    return {gpu: _polar(radius, angle) for gpu, angle in zip(fabric.gpus, angles, strict=True)}


def _polar(radius: float, angle: float) -> np.ndarray:
    return np.array([radius * math.cos(angle), radius * math.sin(angle)])


def _around(fabric: Fabric, neighbours: dict[str, set[str]]) -> dict[str, np.ndarray]:
    """GPUs around a circle; switches inside it, or outside if GPUs are linked to each other."""
    gpus = set(fabric.gpus)
    outside = any(h in gpus for g in fabric.gpus for h in neighbours[g])
    tier = _tiers(fabric, neighbours)
    high = max(tier.values())
    # Space for what is inside: links between GPUs, or tiers of switches.
    radius = max(_radius(fabric.ranks), 1.7 if outside else 0.55 + 0.72 * high)
    placed = _circle(fabric, radius)
    # The direction of a switch is that of the GPUs below it.
    below: dict[str, set[str]] = {g: {g} for g in fabric.gpus}
    for name in sorted(fabric.switches, key=lambda s: tier[s]):
        lower = [below[h] for h in neighbours[name] if tier.get(h, high) < tier[name] and h in below]
        below[name] = set().union(*lower) if lower else set(fabric.gpus)
    groups: dict[tuple, list[str]] = {}
    for name in fabric.switches:
        at = np.mean([placed[g] for g in sorted(below[name])], axis=0) if below[name] else np.zeros(2)
        groups.setdefault((tier[name], *np.round(at, 3)), []).append(name)
    for (level, x, y), members in groups.items():
        centred = math.hypot(x, y) < 0.25 * radius
        reach = max(radius + 0.95 * level if outside else radius * (1 - level / (high + 0.5)), 0.0)
        for k, name in enumerate(members):
            offset = k - (len(members) - 1) / 2
            if centred and not outside:
                # Switches above all GPUs: in a row through the middle.
                placed[name] = np.array([offset * min(0.62, 1.5 * radius / len(members)), 0.0])
            else:
                angle = math.atan2(y, x) if not centred else -math.pi / 2
                placed[name] = _polar(reach, angle + 0.5 * offset / max(reach, 0.5))
    return placed


def _tiers(fabric: Fabric, neighbours: dict[str, set[str]]) -> dict[str, int]:
    """Links from the nearest GPU."""
    tier = dict.fromkeys(fabric.gpus, 0)
    waiting = list(fabric.gpus)
    for name in waiting:
        new = sorted(neighbours[name] - tier.keys())
        tier |= dict.fromkeys(new, tier[name] + 1)
        waiting += new
    return dict.fromkeys(fabric.switches, 1) | tier
