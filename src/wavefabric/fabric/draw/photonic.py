"""Circuits over a wafer as a picture: a frame, or several beside each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from wavefabric.fabric.draw.scene import HALF, MARGIN, STREET, Circuit, Frame, Scene, flat, time_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Background, wafer, its rim, streets, tile, its rim, text, dim text.
NIGHT, WAFER, RIM, STREETS = "#0b1220", "#111b2e", "#24344f", "#16223a"
TILE, TILE_RIM, TEXT, DIM = "#1b2942", "#3a5078", "#eef4ff", "#8fa3c4"
#: A tile's level from nothing to nearly all, and when it holds all.
_LOW, _HIGH, _ALL = np.array([0x23, 0x4F, 0x8F]), np.array([0x22, 0x93, 0xAB]), "#1fa971"
#: Wavelengths from the first to the last: from violet to red, light enough for the dark.
_SPECTRUM = np.array(
    [
        [0x8C, 0x6B, 0xFF],
        [0x4F, 0x9C, 0xFF],
        [0x2F, 0xD6, 0xE6],
        [0x6C, 0xF0, 0x8C],
        [0xF4, 0xE4, 0x5A],
        [0xFF, 0xA2, 0x4A],
        [0xFF, 0x5D, 0x6C],
    ]
)


def hue(share: float) -> str:
    """Colour of a wavelength, from the first (0) to the last (1)."""
    at = np.clip(share, 0, 1) * (len(_SPECTRUM) - 1)
    low = min(int(at), len(_SPECTRUM) - 2)
    return _hex(_SPECTRUM[low] + (at - low) * (_SPECTRUM[low + 1] - _SPECTRUM[low]))


def level_colour(level: float) -> str:
    """Colour of what a tile holds."""
    return _ALL if level > 1 - 1e-9 else _hex(_LOW + level * (_HIGH - _LOW))


def _hex(rgb: np.ndarray) -> str:
    return "#" + "".join(f"{round(float(v)):02x}" for v in rgb)


def wafers(axes: Axes, scene: Scene) -> None:
    """What never changes: wafers, streets and empty tiles."""
    from matplotlib.collections import LineCollection, PatchCollection
    from matplotlib.patches import FancyBboxPatch

    left, top, right, bottom = scene.box
    axes.set(xlim=(left - 0.05, right + 0.05), ylim=(bottom + 0.05, top - 0.05), aspect="equal")
    axes.axis("off")
    for a, b, c, d in scene.wafers:
        style = "round,pad=0,rounding_size=0.12"
        axes.add_patch(
            FancyBboxPatch((a, b), c - a, d - b, boxstyle=style, fc=WAFER, ec=RIM, lw=1.0, zorder=0)
        )
    lines, fibres = streets(scene)
    width = 0.16 * points_per_unit(axes)
    axes.add_collection(
        LineCollection(list(lines), colors=STREETS, linewidths=width, zorder=1, capstyle="round")
    )
    axes.add_collection(
        LineCollection(list(fibres), colors=RIM, linewidths=1.2, linestyles=(0, (2, 2)), zorder=1)
    )
    boxes = [_box(x, y, HALF) for x, y in scene.tiles]
    axes.add_collection(PatchCollection(boxes, facecolor=TILE, edgecolor="none", zorder=2))


def streets(scene: Scene) -> tuple[np.ndarray, np.ndarray]:
    """Middle lines of the streets along waveguides, and along fibres: each of shape (n, 2 ends, 2)."""
    found: tuple[list, list] = [], []
    for a, b in scene.fabric.edges():
        p, q = scene.tiles[a], scene.tiles[b]
        along = (q - p) / np.hypot(*(q - p))
        side = np.array([-along[1], along[0]]) * (HALF + MARGIN + STREET / 2)
        same = scene.fabric.wafer(a) == scene.fabric.wafer(b)
        # Streets go on to the far sides of the tiles; fibres from edge to edge of their wafers.
        reach = along * (HALF if same else -(HALF + MARGIN + STREET + 0.06))
        found[0 if same else 1].append([p + side - reach, q + side + reach])
    return np.array(found[0]).reshape(-1, 2, 2), np.array(found[1]).reshape(-1, 2, 2)


def points_per_unit(axes: Axes) -> float:
    """Points of a line one tile pitch long."""
    figure: Any = axes.figure
    box = axes.get_position()
    wide, high = figure.get_size_inches() * 72
    (x0, x1), (y0, y1) = axes.get_xlim(), axes.get_ylim()
    return min(box.width * wide / abs(x1 - x0), box.height * high / abs(y1 - y0))


def _box(x: float, y: float, half: float):
    from matplotlib.patches import FancyBboxPatch

    return FancyBboxPatch((x - half, y - half), 2 * half, 2 * half, boxstyle="round,pad=0,rounding_size=0.07")


def frame(axes: Axes, scene: Scene, now: Frame) -> None:
    """Draw circuits and, as they are after the round, tiles over `wafers`."""
    circuits(axes, now)
    tiles(axes, scene, now.after)


def tiles(axes: Axes, scene: Scene, levels: np.ndarray) -> list[Any]:
    """Draw what tiles hold, and their numbers; the artists, for whoever animates."""
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    unit = points_per_unit(axes)
    made: list[Any] = []
    liquid, colours, rims = [], [], []
    for (x, y), level in zip(scene.tiles, levels, strict=True):
        full = 0.0 if np.isnan(level) else float(level)
        inner = HALF - 0.03
        liquid.append(Rectangle((x - inner, y + inner - 2 * inner * full), 2 * inner, 2 * inner * full))
        colours.append(level_colour(full))
        rims.append(_ALL if full > 1 - 1e-9 else TILE_RIM)
    made.append(axes.add_collection(PatchCollection(liquid, facecolor=colours, edgecolor="none", zorder=3)))
    boxes = [_box(x, y, HALF) for x, y in scene.tiles]
    rim = PatchCollection(boxes, facecolor="none", edgecolor=rims, linewidth=max(0.5, unit * 0.016), zorder=4)
    made.append(axes.add_collection(rim))
    size = unit * 0.21
    percent = unit > 55
    for rank, ((x, y), level) in enumerate(zip(scene.tiles, levels, strict=True)):
        raised = 0.05 if percent else 0
        text: dict[str, Any] = {"ha": "center", "va": "center", "color": TEXT, "zorder": 6}
        made.append(axes.text(x, y - raised, str(rank), fontsize=size, fontweight="bold", **text))
        if percent and not np.isnan(level):
            words = "all" if level > 1 - 1e-9 else f"{100 * level:.0f} %"
            made.append(axes.text(x, y + 0.15, words, fontsize=size * 0.45, alpha=0.85, **text))
    return made


def circuits(axes: Axes, now: Frame) -> list[Any]:
    """Draw lines with a glow, and arrowheads; the artists."""
    from matplotlib.collections import LineCollection, PolyCollection

    unit = points_per_unit(axes)
    lines, colours, widths = [], [], []
    for circuit in now.circuits:
        for strand in circuit.strands:
            lines.append(flat(strand.points))
            colours.append(hue(strand.hue))
            widths.append(max(0.35, strand.width * unit * 0.82))
    if not lines:
        return []
    wide = np.array(widths)
    made: list[Any] = []
    for scale, alpha, z in ((3.6, 0.08, 4.5), (2.0, 0.14, 4.6), (1.0, 0.95, 5)):
        glow = LineCollection(lines, colors=colours, linewidths=wide * scale, alpha=alpha, zorder=z)
        made.append(axes.add_collection(glow))
    width = np.array([sum(s.width for s in c.strands) for c in now.circuits])
    tint = [hue(float(np.mean([s.hue for s in c.strands]))) for c in now.circuits]
    middles = [_middle(c) for c in now.circuits]
    heads = [_head(p, max(w, 0.022)) for p, w in zip(middles, width, strict=True)]
    made.append(axes.add_collection(PolyCollection(heads, facecolor=TEXT, edgecolor="none", zorder=5.6)))
    starts = np.array([p[0] for p in middles])
    sizes = (np.maximum(width, 0.03) * unit * 0.75) ** 2
    made.append(axes.scatter(*starts.T, s=sizes, c=tint, edgecolors=NIGHT, linewidths=0.3, zorder=5.5))
    return made


def pulses(axes: Axes, now: Frame, share: float) -> list[Any]:
    """Draw data on their way, each circuit's three times over in a round; the artists."""
    if not now.circuits:
        return []
    unit = points_per_unit(axes)
    width = np.array([sum(s.width for s in c.strands) for c in now.circuits])
    sizes = 1.3 * (np.maximum(width, 0.03) * unit * 0.75) ** 2
    lines = [flat(_middle(c)) for c in now.circuits]
    made: list[Any] = []
    for back, alpha in ((0.0, 1.0), (0.035, 0.55), (0.07, 0.28)):
        at = np.array([_along(line, (3 * share - back) % 1.0) for line in lines])
        made.append(axes.scatter(*at.T, s=sizes, c="white", alpha=alpha, linewidths=0, zorder=5.8))
    return made


def _middle(circuit: Circuit) -> np.ndarray:
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


def legend(axes: Axes, scene: Scene) -> None:
    """Wavelengths as a strip of their colours, and what the colours of tiles mean."""
    axes.set(xlim=(0, 100), ylim=(0, 10))
    axes.axis("off")
    n = scene.fabric.lasers
    words: dict[str, Any] = {"color": DIM, "fontsize": 8.5, "va": "center", "ha": "left"}
    axes.text(0, 5, "wavelengths", **words)
    for k in range(n):
        left = 15.5 + 20 * k / n
        axes.axvspan(left, left + 20 / n * 0.86, 0.32, 0.68, color=hue(k / max(n - 1, 1)), lw=0)
    axes.text(36.5, 5, f"1 to {n}" if n > 1 else "1", **words)
    axes.text(51, 5, "a tile holds of its result: a part", **words)
    for k in range(24):
        axes.axvspan(81 + k * 0.4, 81.45 + k * 0.4, 0.32, 0.68, color=level_colour(k / 24), lw=0)
    axes.text(93, 5, "all", **words)
    axes.axvspan(96.5, 99.5, 0.32, 0.68, color=_ALL, lw=0)


def clock(now: Frame, share: float) -> str:
    """Time so far in words; empty without a cost."""
    return "" if np.isnan(now.begin) else f"{time_words(now.begin + share * (now.end - now.begin))}"


def panels(scene: Scene) -> Figure:
    """Several rounds beside each other: one picture."""
    from matplotlib.figure import Figure

    count = len(scene.frames)
    left, top, right, bottom = scene.box
    ratio = (right - left) / (bottom - top)
    across = columns(count, ratio)
    down = -(-count // across)
    panel = float(np.clip(12.0 / across, 2.6, 7.0))
    high = panel / ratio
    head, foot, strip = 0.75, 0.42, 0.34
    wide, tall = across * panel + 0.4, down * (high + strip) + head + foot
    wide = max(wide, 7.4)
    figure = Figure(figsize=(wide, tall), facecolor=NIGHT)
    figure.text(
        0.25 / wide, 1 - 0.30 / tall, scene.title, color=TEXT, fontsize=15, fontweight="bold", va="center"
    )
    figure.text(0.25 / wide, 1 - 0.56 / tall, scene.subtitle, color=DIM, fontsize=9.5, va="center")
    start = (wide - across * panel) / 2
    for k, now in enumerate(scene.frames):
        row, column = divmod(k, across)
        x, y = start + column * panel, tall - head - row * (high + strip) - strip
        axes = figure.add_axes((x / wide, (y - high) / tall, panel / wide, high / tall))
        wafers(axes, scene)
        frame(axes, scene, now)
        words = now.title if not clock(now, 1) else f"{now.title}   ·   {clock(now, 1)}"
        line = (y + 0.12) / tall
        figure.text((x + 0.08) / wide, line, words, color=TEXT, fontsize=9.5, va="center")
        figure.text((x + panel - 0.08) / wide, line, now.note, color=DIM, fontsize=9, va="center", ha="right")
    width = 6.9
    strip_axes = figure.add_axes((0.25 / wide, 0.07 / tall, width / wide, 0.28 / tall))
    legend(strip_axes, scene)
    return figure


def columns(count: int, ratio: float) -> int:
    """Panels in a row, so that the whole is about half as wide again as high, and few places stay empty."""

    def fault(across: int) -> float:
        down = -(-count // across)
        return abs(float(np.log(across * ratio / (down * 1.5)))) + 0.9 * (across * down - count) / count

    return min(range(1, min(count, 4 if ratio < 1.5 else 3) + 1), key=fault)
