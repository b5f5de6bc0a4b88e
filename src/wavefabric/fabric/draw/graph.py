"""An electrical fabric as a graph, its links coloured by what they carry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from wavefabric.fabric.draw import style
from wavefabric.fabric.draw.graph_layout import positions
from wavefabric.fabric.electrical.fabric import Fabric
from wavefabric.fabric.electrical.routing import wires

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_KINDS = {"nvlink": "#6cf08c", "pcie": "#4f9cff", "qpi": "#ffa24a", "network": "#8c6bff", "wire": "#2fd6e6"}
_OTHERS = ("#f4e45a", "#ff5d6c", "#cfd8ea")


def _kind_colours(fabric: Fabric) -> dict[str, str]:
    """A colour for each kind of link, in order of appearance."""
    kinds = list(dict.fromkeys(link.kind for link in fabric.links))
    spare = iter(_OTHERS * (len(kinds) // len(_OTHERS) + 1))
    return {kind: _KINDS[kind] if kind in _KINDS else next(spare) for kind in kinds}


def graph(axes: Axes, fabric: Fabric, loads: np.ndarray | None = None) -> None:
    """Draw a fabric; `loads`: share of the time that each of `routing.wires` is busy, else kinds of links."""
    from matplotlib.collections import LineCollection

    placed = positions(fabric)
    names = (*fabric.gpus, *fabric.switches)
    at = np.array([placed[name] for name in names])
    w = wires(fabric)
    ends = list(zip(w.source.tolist(), w.target.tolist(), strict=True))
    outline = np.concatenate([at - 0.3, at + 0.3, *(_line(at, a, b, 0.0, fabric.ranks) for a, b in ends)])
    low, high = outline.min(axis=0) - 0.25, outline.max(axis=0) + 0.25
    axes.set(xlim=(low[0], high[0]), ylim=(high[1], low[1]), aspect="equal")
    axes.axis("off")
    unit = style.points_per_unit(axes)
    both_ways = set(ends)
    bandwidth = w.bandwidth / w.bandwidth.max(initial=1.0)
    thin = min(1.0, 24 / max(len(names), 12))
    lines, widths = [], []
    for k, (a, b) in enumerate(ends):
        width = unit * (0.014 + 0.03 * float(bandwidth[k])) * thin
        apart = 0.5 * width / unit + 0.012 if (b, a) in both_ways else 0.0
        lines.append(_line(at, a, b, apart, fabric.ranks))
        widths.append(max(0.5, width))
    if loads is None:
        kind = {(link.source, link.target): link.kind for link in fabric.links}
        of_kind = _kind_colours(fabric)
        colours = [of_kind[kind[names[a], names[b]]] for a, b in ends]
    else:
        # Busy links on top.
        order = np.argsort(loads, kind="stable")
        colours = [style.load_colour(float(loads[i])) for i in order]
        lines, widths = [lines[i] for i in order], [widths[i] for i in order]
    if lines:
        glow: Any = {"linewidths": np.array(widths) * 2.6, "alpha": 0.10, "zorder": 1}
        solid: Any = {"linewidths": widths, "alpha": 0.92, "zorder": 2, "capstyle": "round"}
        axes.add_collection(LineCollection(lines, colors=colours, **glow))
        axes.add_collection(LineCollection(lines, colors=colours, **solid))
    _nodes(axes, fabric, placed, unit)


def _line(at: np.ndarray, a: int, b: int, apart: float, gpus: int) -> np.ndarray:
    """A line from node to node, a little to the right of the straight one, bent where it would hit others."""
    p, q = at[a], at[b]
    along = q - p
    across = np.array([-along[1], along[0]]) / max(float(np.hypot(*along)), 1e-9)
    hits = any(_on_line(at[k], p, q) for k in range(len(at)) if k not in (a, b))
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


def _on_line(point: np.ndarray, p: np.ndarray, q: np.ndarray) -> bool:
    along = q - p
    t = float((point - p) @ along / max(float(along @ along), 1e-12))
    return 0.02 < t < 0.98 and float(np.hypot(*(p + t * along - point))) < 0.24


def _arc(p: np.ndarray, q: np.ndarray, centre: np.ndarray, apart: float) -> np.ndarray:
    """Around the outside, over the top."""
    a, b = p - centre, q - centre
    start, end = np.arctan2(a[1], a[0]), np.arctan2(b[1], b[0])
    forward = start < end
    # Angles grow clockwise, as y points down: the top is at −π/2.
    low, high = min(start, end), max(start, end)
    if not low < -np.pi / 2 < high:
        low, high = high, low + 2 * np.pi
        forward = not forward
    t = np.linspace(0, 1, 40)
    angle = low + (high - low) * t
    reach = np.hypot(*a) + (np.hypot(*b) - np.hypot(*a)) * t + 0.12 * np.sin(np.pi * t)
    reach = reach + (apart if forward else -apart)
    return centre + np.stack([reach * np.cos(angle), reach * np.sin(angle)], axis=1)


def _nodes(axes: Axes, fabric: Fabric, placed: dict[str, np.ndarray], unit: float) -> None:
    from matplotlib.patches import Circle, FancyBboxPatch

    many = fabric.ranks > 64
    half = 0.36 if many else 0.27
    # What every name begins with need not be said on every node.
    stem = "GPU" if all(g.startswith("GPU") and g[3:].isdigit() for g in fabric.gpus) else ""
    words: dict[str, Any] = {"ha": "center", "va": "center", "zorder": 6}
    for name in fabric.gpus:
        x, y = placed[name]
        shape = "round,pad=0,rounding_size=0.08"
        box = FancyBboxPatch((x - half, y - half), 2 * half, 2 * half, boxstyle=shape)
        box.set(facecolor="#1f3357", edgecolor=style.TILE_RIM, linewidth=max(0.4, unit * 0.014), zorder=4)
        axes.add_patch(box)
        label = name.removeprefix(stem)
        size = max(unit * min(0.24, 0.66 / max(len(label), 1) * 1.1) * (1.2 if many else 1), 2)
        axes.text(x, y + 0.01, label, fontsize=size, fontweight="bold", color=style.TEXT, **words)
    for name in fabric.switches:
        x, y = placed[name]
        rim: Any = {"edgecolor": style.DIM, "linewidth": max(0.5, unit * 0.014)}
        axes.add_patch(Circle((x, y), 0.27, facecolor=style.WAFER, zorder=4, **rim))
        size = max(unit * min(0.15, 0.62 / max(len(name), 1)), 2)
        axes.text(x, y + 0.01, name, fontsize=size, color=style.DIM, **words)


def load_legend(figure: Figure, box: tuple[float, float, float, float]) -> None:
    """What colours of links mean: from never to always busy."""
    axes = style.legend_axes(figure, box)
    style.legend_text(axes, 0, "a link carries data: never")
    style.colour_strip(axes, [style.load_colour(k / 49) for k in range(50)], 37, 0.6, 0.65, height=0.4)
    style.legend_text(axes, 69, "all the time")


def kind_legend(figure: Figure, box: tuple[float, float, float, float], fabric: Fabric) -> None:
    """Kinds of links and their colours."""
    axes = style.legend_axes(figure, box)
    for k, (kind, colour) in enumerate(_kind_colours(fabric).items()):
        axes.plot([k * 22, k * 22 + 4], [5, 5], color=colour, lw=3, solid_capstyle="round")
        style.legend_text(axes, k * 22 + 5.5, kind)
