"""An electrical fabric as a graph, its links coloured by what they carry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from wavefabric.fabric.draw.graph_layout import positions
from wavefabric.fabric.draw.photonic import DIM, NIGHT, TEXT, TILE_RIM, WAFER
from wavefabric.fabric.electrical.fabric import Fabric
from wavefabric.fabric.electrical.routing import wires

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Loads from nothing to all of the time, on the dark.
_LOAD = np.array(
    [
        [0x2A, 0x3B, 0x5C],
        [0x2C, 0x6F, 0xA8],
        [0x2F, 0xC4, 0xC4],
        [0xF4, 0xE4, 0x5A],
        [0xFF, 0xA2, 0x4A],
        [0xFF, 0x5D, 0x6C],
    ]
)
_KINDS = {"nvlink": "#6cf08c", "pcie": "#4f9cff", "qpi": "#ffa24a", "network": "#8c6bff", "wire": "#2fd6e6"}
_OTHERS = ("#f4e45a", "#ff5d6c", "#cfd8ea")


def load_colour(share: float) -> str:
    """Colour of a link that is busy for a share of the time, 0 to 1."""
    at = float(np.clip(share, 0, 1)) * (len(_LOAD) - 1)
    low = min(int(at), len(_LOAD) - 2)
    rgb = _LOAD[low] + (at - low) * (_LOAD[low + 1] - _LOAD[low])
    return "#" + "".join(f"{round(float(v)):02x}" for v in rgb)


def kind_colours(fabric: Fabric) -> dict[str, str]:
    """A colour for each kind of link, in order of appearance."""
    kinds = list(dict.fromkeys(link.kind for link in fabric.links))
    spare = iter(_OTHERS * (len(kinds) // len(_OTHERS) + 1))
    return {kind: _KINDS[kind] if kind in _KINDS else next(spare) for kind in kinds}


def graph(axes: Axes, fabric: Fabric, loads: np.ndarray | None = None) -> None:
    """Draw a fabric.

    Parameters
    ----------
    axes : Axes
    fabric : Fabric
    loads : ndarray, shape (wires,), optional
        Share of the time that each wire of `wavefabric.fabric.electrical.routing.wires` is busy; without it colours tell
        kinds of links.
    """
    from matplotlib.collections import LineCollection

    place = positions(fabric)
    names = (*fabric.gpus, *fabric.switches)
    at = np.array([place[name] for name in names])
    w = wires(fabric)
    ways = [
        _way(at, a, b, 0.0, fabric.ranks) for a, b in zip(w.source.tolist(), w.target.tolist(), strict=True)
    ]
    all_points = np.concatenate([at - 0.3, at + 0.3, *ways])
    low, high = all_points.min(axis=0) - 0.25, all_points.max(axis=0) + 0.25
    axes.set(xlim=(low[0], high[0]), ylim=(high[1], low[1]), aspect="equal")
    axes.axis("off")
    unit = _unit(axes)
    widest = float(w.bandwidth.max(initial=1.0))
    kind = {(link.source, link.target): link.kind for link in fabric.links}
    colours = kind_colours(fabric)
    lines, tints, widths = [], [], []
    shared = {(int(a), int(b)) for a, b in zip(w.source, w.target, strict=True)}
    for k, (a, b) in enumerate(zip(w.source.tolist(), w.target.tolist(), strict=True)):
        thick = unit * (0.014 + 0.03 * float(w.bandwidth[k]) / widest) * min(1.0, 24 / max(len(names), 12))
        apart = 0.5 * thick / unit + 0.012 if (b, a) in shared else 0.0
        lines.append(_way(at, a, b, apart, len(fabric.gpus)))
        tints.append(colours[kind[names[a], names[b]]] if loads is None else load_colour(float(loads[k])))
        widths.append(max(0.5, thick))
    order = np.arange(len(lines)) if loads is None else np.argsort(loads, kind="stable")
    lines, tints = [lines[i] for i in order], [tints[i] for i in order]
    widths = np.array(widths)[order] if widths else np.empty(0)
    if lines:
        axes.add_collection(
            LineCollection(lines, colors=tints, linewidths=widths * 2.6, alpha=0.10, zorder=1)
        )
        line = LineCollection(lines, colors=tints, linewidths=widths, alpha=0.92, zorder=2, capstyle="round")
        axes.add_collection(line)
    _nodes(axes, fabric, place, unit)


def _way(at: np.ndarray, a: int, b: int, apart: float, gpus: int) -> np.ndarray:
    """A line from node to node, a little to the right of the straight one, bent where it would hit others."""
    p, q = at[a], at[b]
    along = q - p
    length = float(np.hypot(*along))
    side = np.array([-along[1], along[0]]) / max(length, 1e-9)
    bend = 0.0
    inner = [k for k in range(len(at)) if k not in (a, b) and _on_line(at[k], p, q)]
    if inner:
        bend = 0.40
    centre = at[:gpus].mean(axis=0)
    radius = float(np.hypot(*(at[0] - centre)))
    outer = min(np.hypot(*(p - centre)), np.hypot(*(q - centre))) > 1.2 * radius
    if a >= gpus and b >= gpus and outer and np.hypot(*((p + q) / 2 - centre)) < radius:
        return _arc(p, q, centre, apart)
    t = np.linspace(0, 1, 25 if bend else 2)[:, None]
    if bend:
        # Both directions of a link bend the same way.
        first = p if a < b else q
        outward = (
            np.array([-(q - p)[1], (q - p)[0]])
            if (first == p).all()
            else -np.array([-(q - p)[1], (q - p)[0]])
        )
        outward = outward / max(length, 1e-9)
        return p + t * along + (4 * t * (1 - t)) * outward * bend + side * apart
    return p + t * along + side * apart


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


def _unit(axes: Axes) -> float:
    from wavefabric.fabric.draw.photonic import points_per_unit

    return points_per_unit(axes)


def _nodes(axes: Axes, fabric: Fabric, place: dict[str, np.ndarray], unit: float) -> None:
    from matplotlib.patches import Circle, FancyBboxPatch

    many = fabric.ranks > 64
    half = 0.27 if not many else 0.36
    # What every name begins with need not be said on every node.
    stem = "GPU" if all(g.startswith("GPU") and g[3:].isdigit() for g in fabric.gpus) else ""
    style: dict[str, Any] = {"ha": "center", "va": "center", "color": TEXT, "zorder": 6}
    for name in fabric.gpus:
        x, y = place[name]
        box = FancyBboxPatch(
            (x - half, y - half), 2 * half, 2 * half, boxstyle="round,pad=0,rounding_size=0.08"
        )
        box.set(facecolor="#1f3357", edgecolor=TILE_RIM, linewidth=max(0.4, unit * 0.014), zorder=4)
        axes.add_patch(box)
        label = name.removeprefix(stem)
        size = unit * min(0.24, 0.66 / max(len(label), 1) * 1.1) * (1 if not many else 1.2)
        axes.text(x, y + 0.01, label, fontsize=max(size, 2), fontweight="bold", **style)
    for name in fabric.switches:
        x, y = place[name]
        axes.add_patch(
            Circle((x, y), 0.27, facecolor=WAFER, edgecolor=DIM, linewidth=max(0.5, unit * 0.014), zorder=4)
        )
        axes.text(
            x,
            y + 0.01,
            name,
            fontsize=max(unit * min(0.15, 0.62 / max(len(name), 1)), 2),
            **{**style, "color": DIM},
        )


def load_strip(axes: Axes) -> None:
    """What colours of links mean: from never to always busy."""
    axes.set(xlim=(0, 100), ylim=(0, 10))
    axes.axis("off")
    words: dict[str, Any] = {"color": DIM, "fontsize": 8.5, "va": "center"}
    axes.text(0, 5, "a link carries data: never", ha="left", **words)
    for k in range(50):
        axes.axvspan(37 + k * 0.6, 37.65 + k * 0.6, 0.3, 0.7, color=load_colour(k / 49), lw=0)
    axes.text(69, 5, "all the time", ha="left", **words)


def kind_strip(axes: Axes, fabric: Fabric) -> None:
    """Kinds of links and their colours."""
    axes.set(xlim=(0, 100), ylim=(0, 10))
    axes.axis("off")
    for k, (kind, tint) in enumerate(kind_colours(fabric).items()):
        axes.plot([k * 22, k * 22 + 4], [5, 5], color=tint, lw=3, solid_capstyle="round")
        axes.text(k * 22 + 5.5, 5, kind, color=DIM, fontsize=8.5, va="center", ha="left")


__all__ = ["NIGHT", "graph", "kind_strip", "load_colour", "load_strip"]
