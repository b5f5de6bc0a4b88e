"""Draws an electrical fabric as a graph: grids and hypercubes as such, others on a circle; links coloured."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np

from wavefabric.fabric.draw import style
from wavefabric.fabric.electrical.fabric import Fabric
from wavefabric.fabric.electrical.families import neighbour_pairs
from wavefabric.fabric.electrical.static_routes import wires

_KINDS = {"nvlink": "#6cf08c", "pcie": "#4f9cff", "qpi": "#ffa24a", "network": "#8c6bff", "wire": "#2fd6e6"}
_OTHERS = ("#f4e45a", "#ff5d6c", "#cfd8ea")


def graph(figure: style.Figure, box: style.Box, fabric: Fabric, loads: np.ndarray | None = None) -> None:
    """Draw a fabric, and below it a legend of the link colours.

    ``loads``: fraction of the time in which each wire (`static_routes.wires`) is busy, drawn from blue to
    red. Without ``loads`` colours show kinds of links.
    """
    axes = figure.add_axes(box)
    placed, w = positions(fabric), wires(fabric)
    names = (*fabric.gpus, *fabric.switches)
    at = np.array([placed[name] for name in names])
    ends = list(zip(w.source.tolist(), w.target.tolist(), strict=True))
    outline = np.concatenate([at - 0.3, at + 0.3, *(_line(at, a, b, 0.0, fabric.ranks) for a, b in ends)])
    low, high = outline.min(axis=0) - 0.25, outline.max(axis=0) + 0.25
    axes.set(xlim=(low[0], high[0]), ylim=(high[1], low[1]), aspect="equal")
    axes.axis("off")
    unit = style.points_per_unit(axes)
    thin = min(1.0, 24 / max(len(names), 12))
    width = unit * (0.014 + 0.03 * w.bandwidth / w.bandwidth.max(initial=1.0)) * thin
    both = set(ends) & {(b, a) for a, b in ends}
    apart = [0.5 * wide + 0.012 if e in both else 0.0 for e, wide in zip(ends, width / unit, strict=True)]
    lines = [_line(at, a, b, each, fabric.ranks) for (a, b), each in zip(ends, apart, strict=True)]
    order = np.arange(len(ends))
    below = 0.25 / figure.get_size_inches()[0], 0.015, box[2] - 0.03, 0.045
    if loads is None:
        kind = {(link.source, link.target): link.kind for link in fabric.links}
        spare, kinds = itertools.cycle(_OTHERS), dict.fromkeys(link.kind for link in fabric.links)
        of_kind = {each: _KINDS.get(each) or next(spare) for each in kinds}
        colours = [of_kind[kind[names[a], names[b]]] for a, b in ends]
        look = {"lw": 3, "solid_capstyle": "round"}
        style.legend(figure, below, [(k, [look | {"color": colour}]) for k, colour in of_kind.items()])
    else:
        order = np.argsort(loads, kind="stable")  # busy links on top
        colours = [style.load_colour(float(loads[i])) for i in order]
        strip = style.legend_axes(figure, below)
        style.legend_text(strip, 0, "a link carries data: never")
        style.colour_strip(strip, [style.load_colour(k / 49) for k in range(50)], 37, 0.6, 0.65, height=0.4)
        style.legend_text(strip, 69, "all the time")
    lines, width = [lines[i] for i in order], np.maximum(0.5, width[order])
    style.lines(axes, lines, colours, width * 2.6, alpha=0.10, zorder=1)
    style.lines(axes, lines, colours, width, alpha=0.92, zorder=2, capstyle="round")
    _nodes(axes, fabric, at, unit)


def _line(at: np.ndarray, a: int, b: int, apart: float, gpus: int) -> np.ndarray:
    """Return a line from node ``a`` to ``b``, shifted right by ``apart``, bent around nodes in between."""
    p, q = at[a], at[b]
    along = q - p
    across = np.array([-along[1], along[0]]) / max(float(np.hypot(*along)), 1e-9)
    fraction = (at - p) @ along / max(float(along @ along), 1e-12)  # closest point to each node
    near = np.hypot(*(p + fraction[:, None] * along - at).T) < 0.24
    hits = bool((near & (fraction > 0.02) & (fraction < 0.98)).any())
    centre = at[:gpus].mean(axis=0)
    radius = float(np.hypot(*(at[0] - centre)))
    outer = min(np.hypot(*(p - centre)), np.hypot(*(q - centre))) > 1.2 * radius
    if a >= gpus and b >= gpus and outer and np.hypot(*((p + q) / 2 - centre)) < radius:
        return _arc(p, q, centre, apart)
    t = np.linspace(0, 1, 25 if hits else 2)[:, None]
    line = p + t * along + across * apart
    if hits:
        # Both directions of a link bend the same way.
        line = line + (4 * t * (1 - t)) * (across if a < b else -across) * 0.40
    return line


def _arc(p: np.ndarray, q: np.ndarray, centre: np.ndarray, apart: float) -> np.ndarray:
    """Return an arc from ``p`` to ``q`` that passes over ``centre``, shifted sideways by ``apart``."""
    a, b = p - centre, q - centre
    start, end = np.arctan2(a[1], a[0]), np.arctan2(b[1], b[0])
    forward = start < end
    # y points down, so angles grow clockwise and the top is at −π/2.
    low, high = min(start, end), max(start, end)
    if not low < -np.pi / 2 < high:
        low, high = high, low + 2 * np.pi
        forward = not forward
    t = np.linspace(0, 1, 40)
    angle = low + (high - low) * t
    reach = np.hypot(*a) + (np.hypot(*b) - np.hypot(*a)) * t + 0.12 * np.sin(np.pi * t)
    reach = reach + (apart if forward else -apart)
    return centre + np.stack([reach * np.cos(angle), reach * np.sin(angle)], axis=1)


def _nodes(axes: style.Axes, fabric: Fabric, at: np.ndarray, unit: float) -> None:
    from matplotlib.patches import Circle

    many = fabric.ranks > 64
    # Omit the common beginning of all names.
    stem = "GPU" if all(g.startswith("GPU") and g[3:].isdigit() for g in fabric.gpus) else ""
    rim: dict[str, Any] = {"edgecolor": style.TILE_RIM, "linewidth": max(0.4, unit * 0.014)}
    gpus, switches = at[: fabric.ranks], at[fabric.ranks :]
    style.boxes(axes, gpus, 0.36 if many else 0.27, 0.08, facecolor="#1f3357", zorder=4, **rim)
    for name, (x, y) in zip(fabric.gpus, gpus, strict=True):
        words = name.removeprefix(stem)
        size = max(unit * min(0.24, 0.66 / max(len(words), 1) * 1.1) * (1.2 if many else 1), 2)
        style.label(axes, x, y + 0.01, words, size, fontweight="bold")
    rim = {"edgecolor": style.DIM, "linewidth": max(0.5, unit * 0.014)}
    for name, (x, y) in zip(fabric.switches, switches, strict=True):
        axes.add_patch(Circle((x, y), 0.27, facecolor=style.WAFER, zorder=4, **rim))
        style.label(axes, x, y + 0.01, name, max(unit * min(0.15, 0.62 / max(len(name), 1)), 2), style.DIM)


#: Displacement in a drawn cube for each bit of a rank.
_CUBE = np.array([(1.8, 0.0), (0.0, 1.8), (0.78, 0.64)])


def positions(fabric: Fabric) -> dict[str, np.ndarray]:
    """Return the position of each node: y points down, neighbours are about 1 apart.

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
    for columns in range(2, fabric.ranks // 2 + 1 if fabric.ranks > 4 else 0):
        grid = fabric.ranks // columns, columns  # numbered row by row
        if fabric.ranks % columns == 0 and any(pairs == neighbour_pairs(k, grid) for k in ("mesh", "torus")):
            return {g: np.array([r % columns, r // columns], float) for r, g in enumerate(fabric.gpus)}
    bits = {8: 3, 16: 4}.get(fabric.ranks)
    if bits and pairs == neighbour_pairs("hypercube", (bits,)):
        ranks = np.arange(fabric.ranks)
        # Four dimensions are a torus of 4 x 4 in Gray code order; the 2-bit Gray code is its own inverse.
        gray = np.stack([ranks & 3 ^ (ranks & 3) >> 1, ranks >> 2 ^ ranks >> 3], axis=1).astype(float)
        corners = gray if bits == 4 else (ranks[:, None] >> np.arange(3) & 1) @ _CUBE
        return dict(zip(fabric.gpus, corners, strict=True))
    return _circle(fabric, _radius(fabric.ranks))


def _radius(ranks: int) -> float:
    return max(0.9, ranks / (2 * math.pi) * 1.05)


def _circle(fabric: Fabric, radius: float) -> dict[str, np.ndarray]:
    """Return the positions of GPUs clockwise around a circle; the first and the last are next to its top."""
    angles = [2 * math.pi * (r + 0.5) / fabric.ranks - math.pi / 2 for r in range(fabric.ranks)]
    return {gpu: _polar(radius, angle) for gpu, angle in zip(fabric.gpus, angles, strict=True)}


def _polar(radius: float, angle: float) -> np.ndarray:
    return np.array([radius * math.cos(angle), radius * math.sin(angle)])


def _around(fabric: Fabric, neighbours: dict[str, set[str]]) -> dict[str, np.ndarray]:
    """Return the positions of nodes: GPUs on a circle, switches inside, or outside if GPUs link directly."""
    gpus = set(fabric.gpus)
    outside = any(h in gpus for g in fabric.gpus for h in neighbours[g])
    tier, waiting = dict.fromkeys(fabric.gpus, 0), list(fabric.gpus)  # links from the nearest GPU
    for name in waiting:
        new = sorted(neighbours[name] - tier.keys())
        tier |= dict.fromkeys(new, tier[name] + 1)
        waiting += new
    tier = dict.fromkeys(fabric.switches, 1) | tier
    high = max(tier.values())
    # Leave space inside for links between GPUs, or for tiers of switches.
    radius = max(_radius(fabric.ranks), 1.7 if outside else 0.55 + 0.72 * high)
    placed = _circle(fabric, radius)
    # Place a switch in the direction of the GPUs below it.
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
                # Place switches above all GPUs in a row through the middle.
                placed[name] = np.array([offset * min(0.62, 1.5 * radius / len(members)), 0.0])
            else:
                angle = math.atan2(y, x) if not centred else -math.pi / 2
                placed[name] = _polar(reach, angle + 0.5 * offset / max(reach, 0.5))
    return placed
