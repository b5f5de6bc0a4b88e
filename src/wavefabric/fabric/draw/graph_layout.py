"""Places for the nodes of an electrical fabric: grids and hypercubes as such, the rest around a circle."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import replace

import numpy as np

from wavefabric.fabric.electrical.fabric import Fabric

#: Where the bits of a cube's rank lead.
_CUBE = np.array([(1.8, 0.0), (0.0, 1.8), (0.78, 0.64)])


def positions(fabric: Fabric) -> dict[str, np.ndarray]:
    """Where each node is drawn: y points down, neighbours about 1 apart.

    Notes
    -----
    A grid or hypercube is recognised by its links, not by its name. GPUs stay where they are in the machine,
    whatever the order of ranks.
    """
    if fabric.numbering:
        fabric = replace(fabric, gpus=fabric.numbering, numbering=())
    neighbours = _neighbours(fabric)
    if not fabric.switches:
        shape = _grid_shape(fabric, neighbours)
        if shape is not None:
            columns = shape[1]
            return {g: np.array([r % columns, r // columns], float) for r, g in enumerate(fabric.gpus)}
        if _is_hypercube(fabric, neighbours):
            return {g: _corner(r, fabric.ranks) for r, g in enumerate(fabric.gpus)}
        return _circle(fabric, _radius(fabric.ranks))
    return _around(fabric, neighbours)


def _corner(rank: int, ranks: int) -> np.ndarray:
    """A corner of a hypercube of three or four dimensions."""
    if ranks == 8:
        return sum((_CUBE[k] * (rank >> k & 1) for k in range(3)), np.zeros(2))
    # Four dimensions are a torus of 4 x 4 in the order of Gray's code.
    gray = (0, 1, 3, 2)
    return np.array([gray.index(rank & 3), gray.index(rank >> 2)], float)


def _neighbours(fabric: Fabric) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {name: set() for name in (*fabric.gpus, *fabric.switches)}
    for link in fabric.links:
        found[link.source].add(link.target)
        found[link.target].add(link.source)
    return found


def _grid_shape(fabric: Fabric, neighbours: dict[str, set[str]]) -> tuple[int, int] | None:
    """Rows and columns of a mesh or torus numbered row by row."""
    n = fabric.ranks
    pairs = {
        (a, b) for a, g in enumerate(fabric.gpus) for b, h in enumerate(fabric.gpus) if h in neighbours[g]
    }
    for columns in range(2, n // 2 + 1):
        if n % columns:
            continue
        rows = n // columns
        for wrap in (False, True):
            wanted = set()
            for r in range(n):
                y, x = divmod(r, columns)
                for dy, dx in ((0, 1), (0, -1), (1, 0), (-1, 0)):
                    v, u = y + dy, x + dx
                    if wrap:
                        v, u = v % rows, u % columns
                    if 0 <= v < rows and 0 <= u < columns and (v, u) != (y, x):
                        wanted.add((r, v * columns + u))
            if wanted == pairs and n > 4:
                return rows, columns
    return None


def _is_hypercube(fabric: Fabric, neighbours: dict[str, set[str]]) -> bool:
    bits = (fabric.ranks - 1).bit_length()
    if fabric.ranks != 1 << bits or bits not in (3, 4):
        return False
    number = {g: r for r, g in enumerate(fabric.gpus)}
    return all(
        {number[h] for h in neighbours[g]} == {r ^ (1 << k) for k in range(bits)} for g, r in number.items()
    )


def _radius(ranks: int) -> float:
    return max(0.9, ranks / (2 * math.pi) * 1.05)


def _circle(fabric: Fabric, radius: float) -> dict[str, np.ndarray]:
    return {g: _polar(radius, _angle(r, fabric.ranks)) for r, g in enumerate(fabric.gpus)}


def _angle(rank: int, ranks: int) -> float:
    """Clockwise from the top, the first two beside it."""
    return 2 * math.pi * (rank + 0.5) / ranks - math.pi / 2


def _polar(radius: float, angle: float) -> np.ndarray:
    return np.array([radius * math.cos(angle), radius * math.sin(angle)])


def _around(fabric: Fabric, neighbours: dict[str, set[str]]) -> dict[str, np.ndarray]:
    """GPUs around a circle; switches inside it, or outside if GPUs are linked to each other."""
    gpus = set(fabric.gpus)
    outside = any(h in gpus for g in fabric.gpus for h in neighbours[g])
    tier = _tiers(fabric, neighbours)
    high = max(tier.values())
    # Room for what is inside: links between GPUs, or tiers of switches.
    radius = max(_radius(fabric.ranks), 1.7 if outside else 0.55 + 0.72 * high)
    found = _circle(fabric, radius)
    # The direction of a switch is that of the GPUs below it.
    below: dict[str, set[str]] = {g: {g} for g in fabric.gpus}
    for name in sorted(fabric.switches, key=lambda s: tier[s]):
        lower = [below[h] for h in neighbours[name] if tier.get(h, high) < tier[name] and h in below]
        below[name] = set().union(*lower) if lower else set(fabric.gpus)
    groups: dict[tuple, list[str]] = {}
    for name in fabric.switches:
        at = np.mean([found[g] for g in sorted(below[name])], axis=0) if below[name] else np.zeros(2)
        groups.setdefault((tier[name], *np.round(at, 3)), []).append(name)
    for (level, x, y), members in groups.items():
        at = np.array([x, y])
        length = float(np.hypot(*at))
        centred = length < 0.25 * radius
        reach = radius + 0.95 * level if outside else radius * (1 - level / (high + 0.5))
        if outside and centred:
            reach = radius + 0.95 * level
        for k, name in enumerate(members):
            if centred and not outside:
                # Switches above all GPUs: in a row through the middle.
                found[name] = np.array(
                    [(k - (len(members) - 1) / 2) * min(0.62, 1.5 * radius / len(members)), 0.0]
                )
            else:
                angle = math.atan2(at[1], at[0]) if not centred else -math.pi / 2
                spread = 0.5 * (k - (len(members) - 1) / 2)
                found[name] = _polar(max(reach, 0.0), angle + spread / max(reach, 0.5))
    return found


def _tiers(fabric: Fabric, neighbours: dict[str, set[str]]) -> dict[str, int]:
    """Links from the nearest GPU."""
    tier = dict.fromkeys(fabric.gpus, 0)
    waiting = deque(fabric.gpus)
    while waiting:
        name = waiting.popleft()
        for other in sorted(neighbours[name]):
            if other not in tier:
                tier[other] = tier[name] + 1
                waiting.append(other)
    for name in fabric.switches:
        tier.setdefault(name, 1)
    return tier
