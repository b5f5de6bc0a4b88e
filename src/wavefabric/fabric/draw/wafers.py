"""Draws a photonic fabric from above: circuits over its tiles by round, or the number of routes per edge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wavefabric.base.units import counted, time_words
from wavefabric.fabric.draw import style
from wavefabric.fabric.draw.circuit_geometry import (
    HALF,
    MARGIN,
    STREET,
    Frame,
    Scene,
    flat,
    lay_out_tiles,
    right_of,
)
from wavefabric.fabric.photonic.fabric import PhotonicFabric
from wavefabric.fabric.photonic.routing.routes import Routing
from wavefabric.fabric.photonic.tile_grid import edge_loads, edge_numbers

#: Title and routes of each panel.
Routings = Sequence[tuple[str, Routing]]


def wafers(axes: style.Axes, scene: Scene) -> None:
    """Draw the static background: wafers, streets and empty tiles."""
    from matplotlib.patches import FancyBboxPatch

    left, top, right, bottom = scene.box
    axes.set(xlim=(left - 0.05, right + 0.05), ylim=(bottom + 0.05, top - 0.05), aspect="equal")
    axes.axis("off")
    for a, b, c, d in scene.wafers:
        shape: dict[str, Any] = {"boxstyle": "round,pad=0,rounding_size=0.12", "lw": 1.0, "zorder": 0}
        axes.add_patch(FancyBboxPatch((a, b), c - a, d - b, fc=style.WAFER, ec=style.RIM, **shape))
    waveguides, fibres = streets(scene)
    width = 0.16 * style.points_per_unit(axes)
    style.lines(axes, list(waveguides), style.STREETS, width, zorder=1, capstyle="round")
    style.lines(axes, list(fibres), style.RIM, 1.2, linestyles=(0, (2, 2)), zorder=1)
    style.boxes(axes, scene.tiles, HALF, facecolor=style.TILE, edgecolor="none", zorder=2)


def streets(scene: Scene) -> tuple[np.ndarray, np.ndarray]:
    """Return the centre lines of streets with waveguides, and with fibres: two arrays (lines, 2 ends, 2)."""
    edges = scene.fabric.edges()
    p, q, along, side = _along_edges(scene, edges)
    same = np.array([scene.fabric.wafer(a) == scene.fabric.wafer(b) for a, b in edges], bool)
    # Streets extend to the far sides of the tiles; fibres run from edge to edge of their wafers.
    reach = along * np.where(same, HALF, -(HALF + MARGIN + STREET + 0.06))[:, None]
    lines = np.stack([p + side - reach, q + side + reach], axis=1)
    return lines[same], lines[~same]


def _along_edges(scene: Scene, edges: list[tuple[int, int]]) -> tuple[np.ndarray, ...]:
    """Return, per edge, both tile centres, the unit vector along the edge, and the offset to its street."""
    p, q = scene.tiles[np.array(edges, int).reshape(-1, 2)].transpose(1, 0, 2)
    along = (q - p) / np.hypot(*(q - p).T)[:, None]
    return p, q, along, right_of(along) * (HALF + MARGIN + STREET / 2)


def tiles(axes: style.Axes, scene: Scene, levels: np.ndarray) -> list[Any]:
    """Draw each tile's number and the fraction of its result that it has; return Matplotlib's artists."""
    unit = style.points_per_unit(axes)
    inner, held = HALF - 0.03, np.nan_to_num(levels)
    positions = [(x, y, h) for (x, y), h in zip(scene.tiles, held, strict=True)]
    liquid = [(x - inner, y + inner - 2 * inner * h, 2 * inner, 2 * inner * h) for x, y, h in positions]
    colours = [style.level_colour(h) for h in held]
    rims: dict[str, Any] = {"edgecolor": [c if c == style.FULL else style.TILE_RIM for c in colours]}
    rims |= {"facecolor": "none", "linewidth": max(0.5, unit * 0.016)}
    made = [
        style.bars(axes, liquid, facecolor=colours, edgecolor="none", zorder=3),
        style.boxes(axes, scene.tiles, HALF, zorder=4, **rims),
    ]
    percent = unit > 55
    made += _numbers(axes, scene, 0.05 if percent else 0)
    for (x, y), level in zip(scene.tiles, levels, strict=True):
        if percent and not np.isnan(level):
            words = "all" if level > 1 - 1e-9 else f"{100 * level:.0f} %"
            made.append(style.label(axes, x, y + 0.15, words, unit * 0.21 * 0.45, alpha=0.85))
    return made


def _numbers(axes: style.Axes, scene: Scene, raised: float = 0.0) -> list[Any]:
    size = style.points_per_unit(axes) * 0.21
    return [
        style.label(axes, x, y - raised, str(rank), size, fontweight="bold")
        for rank, (x, y) in enumerate(scene.tiles)
    ]


def circuits(axes: style.Axes, now: Frame) -> list[Any]:
    """Draw circuits of a round as lines with a glow and arrowheads; return Matplotlib's artists."""
    from matplotlib.collections import PolyCollection

    unit = style.points_per_unit(axes)
    strands = [strand for circuit in now.circuits for strand in circuit.strands]
    if not strands:
        return []
    lines = [flat(strand.points) for strand in strands]
    colours = [style.wavelength_colour(strand.wavelength) for strand in strands]
    wide = np.array([max(0.35, strand.width * unit * 0.82) for strand in strands])
    made: list[Any] = [
        style.lines(axes, lines, colours, wide * scale, alpha=alpha, zorder=z)
        for scale, alpha, z in ((3.6, 0.08, 4.5), (2.0, 0.14, 4.6), (1.0, 0.95, 5))
    ]
    heads = [_head(c.middle, max(c.width, 0.022)) for c in now.circuits]
    arrows = PolyCollection(heads, facecolor=style.TEXT, edgecolor="none", zorder=5.6)
    made.append(axes.add_collection(arrows))
    tint = [style.wavelength_colour(float(np.mean([s.wavelength for s in c.strands]))) for c in now.circuits]
    starts = np.array([c.middle[0] for c in now.circuits])
    rim: dict[str, Any] = {"edgecolors": style.NIGHT, "linewidths": 0.3}
    made.append(axes.scatter(*starts.T, s=_spot_sizes(now, unit), c=tint, zorder=5.5, **rim))
    return made


def pulses(axes: style.Axes, now: Frame, fraction: float) -> list[Any]:
    """Draw data as spots that pass along circuits three times per round; return Matplotlib's artists."""
    if not now.circuits:
        return []
    sizes = 1.3 * _spot_sizes(now, style.points_per_unit(axes))
    lines = [flat(c.middle) for c in now.circuits]
    made: list[Any] = []
    for back, alpha in ((0.0, 1.0), (0.035, 0.55), (0.07, 0.28)):
        at = np.array([_along(line, (3 * fraction - back) % 1.0) for line in lines])
        made.append(axes.scatter(*at.T, s=sizes, c="white", alpha=alpha, linewidths=0, zorder=5.8))
    return made


def _spot_sizes(now: Frame, unit: float) -> np.ndarray:
    return (np.maximum([c.width for c in now.circuits], 0.03) * unit * 0.75) ** 2


def _head(points: np.ndarray, width: float) -> np.ndarray:
    """Return the corners of an arrowhead at the end of a line."""
    tip, along = points[-1], points[-1] - points[-2]
    along = along / max(float(np.hypot(*along)), 1e-9)
    size = min(0.9 * width + 0.012, 0.07)
    back, aside = tip - along * size * 1.5, right_of(along) * size * 0.8
    return np.array([tip + along * 0.015, back + aside, back - aside])


def _along(points: np.ndarray, fraction: float) -> np.ndarray:
    """Return the point at a fraction of a line's length."""
    length = np.concatenate([[0], np.cumsum(np.hypot(*np.diff(points, axis=0).T))])
    return np.array([np.interp(fraction * length[-1], length, points[:, k]) for k in range(2)])


def clock(now: Frame, fraction: float) -> str:
    """Return the time at ``fraction`` of a frame as text; empty if the frame has no times."""
    return "" if np.isnan(now.begin) else time_words(now.begin + fraction * (now.end - now.begin))


def circuits_figure(scene: Scene) -> style.Figure:
    """Return a figure with the circuits of all rounds of a scene side by side."""
    captions = [("   ·   ".join(filter(None, (now.title, clock(now, 1)))), now.note) for now in scene.frames]
    figure, panels = circuit_panels(scene, captions)
    for axes, now in zip(panels, scene.frames, strict=True):
        circuits(axes, now)
        tiles(axes, scene, now.after)
    return figure


def circuit_panels(scene: Scene, captions: list[tuple[str, str]]) -> tuple[style.Figure, list[style.Axes]]:
    """Return a figure with header and legend, and its axes, which show the wafers: one per caption.

    A caption is (text at the left, text at the right), above the axes.
    """
    figure, panels = _panels(scene, captions, most=7.0, strip=0.34, foot=0.42, least=7.4)
    wide, tall = figure.get_size_inches()
    axes = style.legend_axes(figure, (0.25 / wide, 0.07 / tall, 6.9 / wide, 0.28 / tall))
    lasers = scene.fabric.lasers
    style.legend_text(axes, 0, "wavelengths")
    style.colour_strip(axes, style.spectrum(lasers), 15.5, 20 / lasers, 20 / lasers * 0.86)
    style.legend_text(axes, 36.5, f"1 to {lasers}" if lasers > 1 else "1")
    style.legend_text(axes, 51, "a tile holds of its result: a part")
    style.colour_strip(axes, [style.level_colour(k / 24) for k in range(24)], 81, 0.4, 0.45)
    style.legend_text(axes, 93, "all")
    style.colour_strip(axes, [style.FULL], 96.5, 3, 3)
    return figure, panels


def _panels(
    scene: Scene, captions: list[tuple[str, str]], *, most: float, strip: float, foot: float, least: float
) -> tuple[style.Figure, list[style.Axes]]:
    """Return a figure with a header, and its axes, which show the wafers: one per caption.

    A caption is (text at the left, text at the right). In inches: ``most``: largest width of a panel;
    ``strip``: height of a caption; ``foot``: bottom margin; ``least``: smallest width of the figure.
    """
    left, top, right, bottom = scene.box
    ratio = (right - left) / (bottom - top)
    across = _columns(len(captions), ratio)
    down = -(-len(captions) // across)
    panel = float(np.clip(12.0 / across, 2.6, most))
    high, head = panel / ratio, 0.75
    wide, tall = max(across * panel + 0.4, least), down * (high + strip) + head + foot
    figure = style.dark_figure(wide, tall, (scene.title, scene.subtitle))
    made = []
    for k, (words, note) in enumerate(captions):
        row, column = divmod(k, across)
        x, y = (wide - across * panel) / 2 + column * panel, tall - head - row * (high + strip) - strip
        axes = figure.add_axes((x / wide, (y - high) / tall, panel / wide, high / tall))
        wafers(axes, scene)
        made.append(axes)
        line = (y + 0.12) / tall
        figure.text((x + 0.08) / wide, line, words, color=style.TEXT, fontsize=9.5, va="center")
        right_end = (x + panel - 0.08) / wide
        figure.text(right_end, line, note, color=style.DIM, fontsize=9, va="center", ha="right")
    return figure, made


def _columns(count: int, ratio: float) -> int:
    """Return the panels per row for a figure about 1.5 times as wide as high, with few empty positions."""

    def fault(across: int) -> float:
        down = -(-count // across)
        return abs(float(np.log(across * ratio / (down * 1.5)))) + 0.9 * (across * down - count) / count

    return min(range(1, min(count, 4 if ratio < 1.5 else 3) + 1), key=fault)


def fabric_figure(fabric: PhotonicFabric) -> style.Figure:
    """Return a figure of tiles, waveguides (up to eight per street) and wafers."""
    guides = counted(fabric.waveguides, "waveguide")
    words = f"{fabric.ranks} tiles, {fabric.ports} wavelengths each, {guides} each way"
    scene, figure, (axes,) = _bare(fabric, (fabric.name, words), [""])
    middle, count = streets(scene)[0], min(fabric.waveguides, 8)
    along = np.diff(middle, axis=1)
    across = right_of(along / np.hypot(*along.T).T[..., None]) * STREET
    shifts = (np.arange(count) + 0.5) / count - 0.5
    guides = (middle[:, None] + across[:, None] * shifts[:, None, None]).reshape(-1, 2, 2)
    style.lines(axes, list(guides), style.TILE_RIM, style.points_per_unit(axes) * 0.006, zorder=1.5)
    _numbers(axes, scene)
    return figure


def routes_figure(
    fabric: PhotonicFabric, title: str, routings: Sequence[tuple[str, Routing]]
) -> style.Figure:
    """Return a figure of the number of routes on each edge, one panel per routing."""
    captions = []
    for name, routing in routings:
        proof = "the least possible" if routing.certified else f"at least {routing.bound}"
        captions.append(f"{name}: overlap {routing.overlap} ({proof})")
    scene, figure, panels = _bare(fabric, (title, f"{fabric.name}: routes that share each edge"), captions)
    most = max((r.overlap for _, r in routings), default=1)
    colours = [style.load_colour(0.15 + 0.85 * count / most) for count in range(most + 1)]
    wide, tall = figure.get_size_inches()
    axes = style.legend_axes(figure, (1 - 2.1 / wide, 1 - 0.62 / tall, 1.6 / wide, 0.12 / tall), most)
    style.colour_strip(axes, colours[1:], 0, 1, 0.88, height=1)
    style.legend_text(axes, -0.03 * most, "1", ha="right")
    style.legend_text(axes, 1.02 * most, str(most))
    number = edge_numbers(fabric.columns, *np.array(fabric.edges(), int).reshape(-1, 2).T)
    for axes, (_, routing) in zip(panels, routings, strict=True):
        _loads(axes, scene, edge_loads(fabric, routing.routes)[number], colours)
        _numbers(axes, scene)
    return figure


def _bare(
    fabric: PhotonicFabric, titles: tuple[str, str], captions: list[str]
) -> tuple[Scene, style.Figure, list[style.Axes]]:
    """Return a scene without circuits, a figure of it, and the figure's panels (axes), one per caption."""
    scene = Scene(*titles, *lay_out_tiles(fabric), (), fabric)
    left, top, right, bottom = scene.box
    most = 8.0 if right - left > bottom - top else 6.4
    strip = 0.34 if captions[0] else 0.0
    noted = [(words, "") for words in captions]
    return scene, *_panels(scene, noted, most=most, strip=strip, foot=0.20, least=6.4)


def _loads(axes: style.Axes, scene: Scene, load: np.ndarray, colours: list[str]) -> None:
    """Draw edges that have routes, the busiest on top; ``load``: routes on each of ``fabric.edges()``."""
    edges, unit = scene.fabric.edges(), style.points_per_unit(axes)
    order = [i for i in np.argsort(load, kind="stable").tolist() if load[i]]
    p, q, along, side = _along_edges(scene, [edges[i] for i in order])
    middle, half = (p + q) / 2 + side, along * (np.hypot(*(q - p).T) / 2 - 0.10)[:, None]
    tints = [colours[load[i]] for i in order]
    widths = unit * (0.03 + 0.10 * load[order] / (len(colours) - 1))
    ends = np.stack([middle - half, middle + half], axis=1)
    style.lines(axes, list(ends), tints, widths, zorder=5, capstyle="round")
    if unit > 40:
        axes.scatter(*middle.T, s=(unit * 0.17) ** 2, c=tints, linewidths=0, zorder=6)
        look: dict[str, Any] = {"va": "center_baseline", "fontweight": "bold", "zorder": 7}
        for (x, y), count in zip(middle, load[order], strict=True):
            style.label(axes, x, y, str(count), unit * 0.11, style.NIGHT, **look)
