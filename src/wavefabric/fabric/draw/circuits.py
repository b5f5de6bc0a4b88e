"""Circuits over the tiles: the parts of which still pictures and animations are made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from wavefabric.fabric.draw import style
from wavefabric.fabric.draw.scene import HALF, MARGIN, STREET, DrawnCircuit, Frame, Scene, flat
from wavefabric.units import time_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def wafers(axes: Axes, scene: Scene) -> None:
    """What never changes: wafers, streets and empty tiles."""
    from matplotlib.collections import LineCollection, PatchCollection
    from matplotlib.patches import FancyBboxPatch

    left, top, right, bottom = scene.box
    axes.set(xlim=(left - 0.05, right + 0.05), ylim=(bottom + 0.05, top - 0.05), aspect="equal")
    axes.axis("off")
    for a, b, c, d in scene.wafers:
        shape: dict[str, Any] = {"boxstyle": "round,pad=0,rounding_size=0.12", "lw": 1.0, "zorder": 0}
        axes.add_patch(FancyBboxPatch((a, b), c - a, d - b, fc=style.WAFER, ec=style.RIM, **shape))
    lines, fibres = streets(scene)
    width = 0.16 * style.points_per_unit(axes)
    axes.add_collection(
        LineCollection(list(lines), colors=style.STREETS, linewidths=width, zorder=1, capstyle="round")
    )
    axes.add_collection(
        LineCollection(list(fibres), colors=style.RIM, linewidths=1.2, linestyles=(0, (2, 2)), zorder=1)
    )
    boxes = [_box(x, y, HALF) for x, y in scene.tiles]
    axes.add_collection(PatchCollection(boxes, facecolor=style.TILE, edgecolor="none", zorder=2))


def streets(scene: Scene) -> tuple[np.ndarray, np.ndarray]:
    """Middle lines of the streets along waveguides, and along fibres: each of shape (n, 2 ends, 2)."""
    waveguides, fibres = [], []
    for a, b in scene.fabric.edges():
        p, q = scene.tiles[a], scene.tiles[b]
        along = (q - p) / np.hypot(*(q - p))
        side = np.array([-along[1], along[0]]) * (HALF + MARGIN + STREET / 2)
        same = scene.fabric.wafer(a) == scene.fabric.wafer(b)
        # Streets go on to the far sides of the tiles; fibres from edge to edge of their wafers.
        reach = along * (HALF if same else -(HALF + MARGIN + STREET + 0.06))
        (waveguides if same else fibres).append([p + side - reach, q + side + reach])
    return np.array(waveguides).reshape(-1, 2, 2), np.array(fibres).reshape(-1, 2, 2)


def _box(x: float, y: float, half: float):
    from matplotlib.patches import FancyBboxPatch

    return FancyBboxPatch((x - half, y - half), 2 * half, 2 * half, boxstyle="round,pad=0,rounding_size=0.07")


def tiles(axes: Axes, scene: Scene, levels: np.ndarray) -> list[Any]:
    """Draw what tiles hold, and their numbers; the artists, for whoever animates."""
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    unit = style.points_per_unit(axes)
    made: list[Any] = []
    liquid, colours, rims = [], [], []
    for (x, y), level in zip(scene.tiles, levels, strict=True):
        full = 0.0 if np.isnan(level) else float(level)
        inner = HALF - 0.03
        liquid.append(Rectangle((x - inner, y + inner - 2 * inner * full), 2 * inner, 2 * inner * full))
        colours.append(style.level_colour(full))
        rims.append(style.FULL if full > 1 - 1e-9 else style.TILE_RIM)
    made.append(axes.add_collection(PatchCollection(liquid, facecolor=colours, edgecolor="none", zorder=3)))
    boxes = [_box(x, y, HALF) for x, y in scene.tiles]
    rim = PatchCollection(boxes, facecolor="none", edgecolor=rims, linewidth=max(0.5, unit * 0.016), zorder=4)
    made.append(axes.add_collection(rim))
    size = unit * 0.21
    percent = unit > 55
    for rank, ((x, y), level) in enumerate(zip(scene.tiles, levels, strict=True)):
        raised = 0.05 if percent else 0
        text: dict[str, Any] = {"ha": "center", "va": "center", "color": style.TEXT, "zorder": 6}
        made.append(axes.text(x, y - raised, str(rank), fontsize=size, fontweight="bold", **text))
        if percent and not np.isnan(level):
            words = "all" if level > 1 - 1e-9 else f"{100 * level:.0f} %"
            made.append(axes.text(x, y + 0.15, words, fontsize=size * 0.45, alpha=0.85, **text))
    return made


def circuits(axes: Axes, now: Frame) -> list[Any]:
    """Draw lines with a glow, and arrowheads; the artists."""
    from matplotlib.collections import LineCollection, PolyCollection

    unit = style.points_per_unit(axes)
    lines, colours, widths = [], [], []
    for circuit in now.circuits:
        for strand in circuit.strands:
            lines.append(flat(strand.points))
            colours.append(style.wavelength_colour(strand.wavelength))
            widths.append(max(0.35, strand.width * unit * 0.82))
    if not lines:
        return []
    wide = np.array(widths)
    made: list[Any] = []
    for scale, alpha, z in ((3.6, 0.08, 4.5), (2.0, 0.14, 4.6), (1.0, 0.95, 5)):
        glow = LineCollection(lines, colors=colours, linewidths=wide * scale, alpha=alpha, zorder=z)
        made.append(axes.add_collection(glow))
    width = _widths(now)
    tint = [style.wavelength_colour(float(np.mean([s.wavelength for s in c.strands]))) for c in now.circuits]
    middles = [_middle(c) for c in now.circuits]
    heads = [_head(p, max(w, 0.022)) for p, w in zip(middles, width, strict=True)]
    arrows = PolyCollection(heads, facecolor=style.TEXT, edgecolor="none", zorder=5.6)
    made.append(axes.add_collection(arrows))
    starts = np.array([p[0] for p in middles])
    rim: dict[str, Any] = {"edgecolors": style.NIGHT, "linewidths": 0.3}
    made.append(axes.scatter(*starts.T, s=_spot_sizes(width, unit), c=tint, zorder=5.5, **rim))
    return made


def pulses(axes: Axes, now: Frame, share: float) -> list[Any]:
    """Draw data on their way, each circuit's three times over in a round; the artists."""
    if not now.circuits:
        return []
    unit = style.points_per_unit(axes)
    sizes = 1.3 * _spot_sizes(_widths(now), unit)
    lines = [flat(_middle(c)) for c in now.circuits]
    made: list[Any] = []
    for back, alpha in ((0.0, 1.0), (0.035, 0.55), (0.07, 0.28)):
        at = np.array([_along(line, (3 * share - back) % 1.0) for line in lines])
        made.append(axes.scatter(*at.T, s=sizes, c="white", alpha=alpha, linewidths=0, zorder=5.8))
    return made


def _widths(now: Frame) -> np.ndarray:
    """Width of each circuit, all strands together."""
    return np.array([sum(s.width for s in c.strands) for c in now.circuits])


def _spot_sizes(width: np.ndarray, unit: float) -> np.ndarray:
    return (np.maximum(width, 0.03) * unit * 0.75) ** 2


def _middle(circuit: DrawnCircuit) -> np.ndarray:
    """The line between its outermost strands."""
    return (circuit.strands[0].points + circuit.strands[-1].points) / 2


def _head(points: np.ndarray, width: float) -> np.ndarray:
    """An arrowhead that ends where the line does."""
    tip, along = points[-1], points[-1] - points[-2]
    along = along / max(float(np.hypot(*along)), 1e-9)
    across = np.array([-along[1], along[0]])
    size = min(0.9 * width + 0.012, 0.07)
    back = tip - along * size * 1.5
    tip = tip + along * 0.015
    return np.array([tip, back + across * size * 0.8, back - across * size * 0.8])


def _along(points: np.ndarray, share: float) -> np.ndarray:
    """The point at a share of a line's length."""
    length = np.concatenate([[0], np.cumsum(np.hypot(*np.diff(points, axis=0).T))])
    return np.array([np.interp(share * length[-1], length, points[:, k]) for k in range(2)])


def legend(figure: Figure, box: tuple[float, float, float, float], lasers: int) -> None:
    """Wavelengths as a strip of their colours, and what the colours of tiles mean."""
    axes = style.legend_axes(figure, box)
    style.legend_text(axes, 0, "wavelengths")
    spectrum = [style.wavelength_colour(k / max(lasers - 1, 1)) for k in range(lasers)]
    style.colour_strip(axes, spectrum, 15.5, 20 / lasers, 20 / lasers * 0.86)
    style.legend_text(axes, 36.5, f"1 to {lasers}" if lasers > 1 else "1")
    style.legend_text(axes, 51, "a tile holds of its result: a part")
    style.colour_strip(axes, [style.level_colour(k / 24) for k in range(24)], 81, 0.4, 0.45)
    style.legend_text(axes, 93, "all")
    style.colour_strip(axes, [style.FULL], 96.5, 3, 3)


def clock(now: Frame, share: float) -> str:
    """Time so far in words; empty without a cost."""
    return "" if np.isnan(now.begin) else time_words(now.begin + share * (now.end - now.begin))


def panels(scene: Scene) -> Figure:
    """Rounds side by side: one picture."""
    captions = [
        (f"{now.title}   ·   {clock(now, 1)}" if clock(now, 1) else now.title, now.note)
        for now in scene.frames
    ]
    figure, axes = panel_figure(scene, captions, most=7.0, strip=0.34, foot=0.42, least=7.4)
    for each, now in zip(axes, scene.frames, strict=True):
        circuits(each, now)
        tiles(each, scene, now.after)
    wide, tall = figure.get_size_inches()
    legend(figure, (0.25 / wide, 0.07 / tall, 6.9 / wide, 0.28 / tall), scene.fabric.lasers)
    return figure


def panel_figure(
    scene: Scene,
    captions: list[tuple[str, str]],
    *,
    most: float,
    strip: float,
    foot: float,
    least: float,
) -> tuple[Figure, list[Axes]]:
    """A figure with a style.header, and axes with the wafers for each caption (left and right above them).

    Inches: widest panel, strip of a caption, foot of the figure, and least width of the figure.
    """
    from matplotlib.figure import Figure

    left, top, right, bottom = scene.box
    ratio = (right - left) / (bottom - top)
    across = _columns(len(captions), ratio)
    down = -(-len(captions) // across)
    panel = float(np.clip(12.0 / across, 2.6, most))
    high = panel / ratio
    head = 0.75
    wide, tall = max(across * panel + 0.4, least), down * (high + strip) + head + foot
    figure = Figure(figsize=(wide, tall), facecolor=style.NIGHT)
    style.header(figure, 0.25 / wide, (1 - 0.30 / tall, 1 - 0.56 / tall), (scene.title, scene.subtitle))
    start = (wide - across * panel) / 2
    made = []
    for k, (words, note) in enumerate(captions):
        row, column = divmod(k, across)
        x, y = start + column * panel, tall - head - row * (high + strip) - strip
        axes = figure.add_axes((x / wide, (y - high) / tall, panel / wide, high / tall))
        wafers(axes, scene)
        made.append(axes)
        line = (y + 0.12) / tall
        figure.text((x + 0.08) / wide, line, words, color=style.TEXT, fontsize=9.5, va="center")
        if note:
            right_end = (x + panel - 0.08) / wide
            figure.text(right_end, line, note, color=style.DIM, fontsize=9, va="center", ha="right")
    return figure, made


def _columns(count: int, ratio: float) -> int:
    """Panels in a row, so that the whole is about half as wide again as high, and few places stay empty."""

    def fault(across: int) -> float:
        down = -(-count // across)
        return abs(float(np.log(across * ratio / (down * 1.5)))) + 0.9 * (across * down - count) / count

    return min(range(1, min(count, 4 if ratio < 1.5 else 3) + 1), key=fault)
