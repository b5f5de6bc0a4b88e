"""A photonic fabric alone, or with what each edge carries of some routes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from wavefabric.fabric.draw import photonic
from wavefabric.fabric.draw.graph import load_colour
from wavefabric.fabric.draw.scene import HALF, MARGIN, STREET, Scene, place_tiles
from wavefabric.fabric.draw.text import as_written
from wavefabric.fabric.photonic.wafer import PhotonicFabric

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from wavefabric.fabric.photonic.routing.routes import Routing


def fabric_figure(fabric: PhotonicFabric) -> Figure:
    """Tiles, waveguides and wafers."""
    unit = "waveguide" if fabric.waveguides == 1 else "waveguides"
    words = f"{fabric.ranks} tiles, {fabric.ports} wavelengths each, {fabric.waveguides} {unit} each way"
    return _figure(fabric, fabric.name, words, [("", None)])


def routes_figure(fabric: PhotonicFabric, title: str, routings: Sequence[tuple[str, Routing]]) -> Figure:
    """How many routes share each edge.

    Parameters
    ----------
    fabric : PhotonicFabric
    title : str
    routings : sequence of (str, Routing)
        What a panel is called, and its routes.
    """
    from wavefabric.fabric.photonic.edges import edge_loads, edge_numbers

    panels: list[tuple[str, Any]] = []
    most = max((r.overlap for _, r in routings), default=1)
    ends = fabric.edges()
    number = edge_numbers(fabric.columns, [a for a, _ in ends], [b for _, b in ends])
    for name, routing in routings:
        load = edge_loads(fabric, routing.routes)
        edges = {each: int(n) for each, n in zip(ends, load[number], strict=True) if n}
        proof = "the least possible" if routing.certified else f"at least {routing.bound}"
        panels.append((f"{name}: overlap {routing.overlap} ({proof})", edges))
    return _figure(fabric, title, f"{fabric.name}: routes that share each edge", panels, most)


@as_written
def _figure(fabric: PhotonicFabric, title: str, words: str, panels: list, most: int = 1) -> Figure:
    from matplotlib.figure import Figure

    tiles, wafers = place_tiles(fabric)
    shown = Scene(title, words, fabric, tiles, tuple(wafers), ())
    left, top, right, bottom = shown.box
    ratio = (right - left) / (bottom - top)
    across = photonic.columns(len(panels), ratio)
    down = -(-len(panels) // across)
    panel = float(np.clip(12.0 / across, 2.6, 8.0 if ratio > 1 else 6.4))
    high = panel / ratio
    strip = 0.34 if panels[0][0] else 0.0
    wide, tall = max(across * panel + 0.4, 6.4), down * (high + strip) + 0.95
    figure = Figure(figsize=(wide, tall), facecolor=photonic.NIGHT)
    style: dict[str, Any] = {"va": "center"}
    figure.text(
        0.25 / wide, 1 - 0.30 / tall, title, color=photonic.TEXT, fontsize=15, fontweight="bold", **style
    )
    figure.text(0.25 / wide, 1 - 0.56 / tall, words, color=photonic.DIM, fontsize=9.5, **style)
    if panels[0][1] is not None:
        _strip(figure, most, wide, tall)
    start = (wide - across * panel) / 2
    for k, (name, edges) in enumerate(panels):
        row, column = divmod(k, across)
        x, y = start + column * panel, tall - 0.75 - row * (high + strip) - strip
        axes = figure.add_axes((x / wide, (y - high) / tall, panel / wide, high / tall))
        photonic.wafers(axes, shown)
        if edges is None:
            _guides(axes, shown)
        else:
            _edges(axes, shown, edges, most)
        _ranks(axes, shown)
        figure.text((x + 0.08) / wide, (y + 0.12) / tall, name, color=photonic.TEXT, fontsize=9.5, **style)
    return figure


def _guides(axes: Axes, scene: Scene) -> None:
    """Waveguides as thin lines, eight of a street at most."""
    from matplotlib.collections import LineCollection

    count = min(scene.fabric.waveguides, 8)
    lines = []
    for p, q in photonic.streets(scene)[0]:
        along = (q - p) / np.hypot(*(q - p))
        across = np.array([-along[1], along[0]]) * STREET
        lines += [[p + across * s, q + across * s] for s in (np.arange(count) + 0.5) / count - 0.5]
    width = photonic.points_per_unit(axes) * 0.006
    axes.add_collection(LineCollection(lines, colors=photonic.TILE_RIM, linewidths=width, zorder=1.5))


def _colour(count: int, most: int) -> str:
    return load_colour(0.15 + 0.85 * count / most)


def _strip(figure: Figure, most: int, wide: float, tall: float) -> None:
    """What colours of edges mean."""
    axes = figure.add_axes((1 - 2.1 / wide, 1 - 0.62 / tall, 1.6 / wide, 0.12 / tall))
    axes.axis("off")
    axes.set(xlim=(0, most), ylim=(0, 1))
    for count in range(1, most + 1):
        axes.axvspan(count - 1, count - 0.12, color=_colour(count, most), lw=0)
    style: dict[str, Any] = {"color": photonic.DIM, "fontsize": 8.5, "va": "center"}
    axes.text(-0.03 * most, 0.5, "1", ha="right", **style)
    axes.text(1.02 * most, 0.5, str(most), ha="left", **style)


def _edges(axes: Axes, scene: Scene, edges: dict[tuple[int, int], int], most: int) -> None:
    from matplotlib.collections import LineCollection

    unit = photonic.points_per_unit(axes)
    lines, tints, widths = [], [], []
    for (a, b), count in sorted(edges.items(), key=lambda each: each[1]):
        p, q = scene.tiles[a], scene.tiles[b]
        along = (q - p) / np.hypot(*(q - p))
        side = np.array([-along[1], along[0]]) * (HALF + MARGIN + STREET / 2)
        middle = (p + q) / 2 + side
        half = np.hypot(*(q - p)) / 2 - 0.10
        lines.append([middle - along * half, middle + along * half])
        tints.append(_colour(count, most))
        widths.append(unit * (0.03 + 0.10 * count / most))
        if unit > 40:
            spot: dict[str, Any] = {"s": (unit * 0.17) ** 2, "color": tints[-1], "linewidths": 0, "zorder": 6}
            axes.scatter(*middle, **spot)
            style: dict[str, Any] = {"fontsize": unit * 0.11, "color": photonic.NIGHT, "zorder": 7}
            axes.text(
                middle[0],
                middle[1],
                str(count),
                ha="center",
                va="center_baseline",
                fontweight="bold",
                **style,
            )
    axes.add_collection(LineCollection(lines, colors=tints, linewidths=widths, zorder=5, capstyle="round"))


def _ranks(axes: Axes, scene: Scene) -> None:
    unit = photonic.points_per_unit(axes)
    for rank, (x, y) in enumerate(scene.tiles):
        style: dict[str, Any] = {"fontsize": unit * 0.21, "fontweight": "bold", "zorder": 6}
        axes.text(x, y, str(rank), color=photonic.TEXT, ha="center", va="center", **style)
