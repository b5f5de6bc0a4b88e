"""A photonic fabric alone, or with what each edge carries of some routes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from wavefabric.fabric.draw import style
from wavefabric.fabric.draw.circuits import panel_figure, streets
from wavefabric.fabric.draw.scene import HALF, MARGIN, STREET, Scene, place_tiles
from wavefabric.fabric.photonic.fabric import PhotonicFabric
from wavefabric.fabric.photonic.tile_grid import edge_loads, edge_numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from wavefabric.fabric.photonic.routing.routes import Routing


def fabric_figure(fabric: PhotonicFabric) -> Figure:
    """Tiles, waveguides and wafers."""
    unit = "waveguide" if fabric.waveguides == 1 else "waveguides"
    words = f"{fabric.ranks} tiles, {fabric.ports} wavelengths each, {fabric.waveguides} {unit} each way"
    scene, figure, (axes,) = _figure(fabric, (fabric.name, words), [""])
    _guides(axes, scene)
    _ranks(axes, scene)
    return figure


def routes_figure(fabric: PhotonicFabric, title: str, routings: Sequence[tuple[str, Routing]]) -> Figure:
    """How many routes share each edge; `routings`: what each panel is called, and its routes."""
    captions = []
    for name, routing in routings:
        proof = "the least possible" if routing.certified else f"at least {routing.bound}"
        captions.append(f"{name}: overlap {routing.overlap} ({proof})")
    scene, figure, panels = _figure(fabric, (title, f"{fabric.name}: routes that share each edge"), captions)
    most = max((r.overlap for _, r in routings), default=1)
    _legend(figure, most)
    ends = fabric.edges()
    number = edge_numbers(fabric.columns, [a for a, _ in ends], [b for _, b in ends])
    for axes, (_, routing) in zip(panels, routings, strict=True):
        load = edge_loads(fabric, routing.routes)[number]
        _edges(axes, scene, {each: int(n) for each, n in zip(ends, load, strict=True) if n}, most)
        _ranks(axes, scene)
    return figure


def _figure(
    fabric: PhotonicFabric, titles: tuple[str, str], captions: list[str]
) -> tuple[Scene, Figure, list[Axes]]:
    tiles, wafers = place_tiles(fabric)
    scene = Scene(*titles, fabric, tiles, tuple(wafers), ())
    left, top, right, bottom = scene.box
    most = 8.0 if right - left > bottom - top else 6.4
    strip = 0.34 if captions[0] else 0.0
    figure, axes = panel_figure(
        scene, [(words, "") for words in captions], most=most, strip=strip, foot=0.20, least=6.4
    )
    return scene, figure, axes


def _guides(axes: Axes, scene: Scene) -> None:
    """Waveguides as thin lines, eight of a street at most."""
    from matplotlib.collections import LineCollection

    count = min(scene.fabric.waveguides, 8)
    lines = []
    for p, q in streets(scene)[0]:
        along = (q - p) / np.hypot(*(q - p))
        across = np.array([-along[1], along[0]]) * STREET
        lines += [[p + across * s, q + across * s] for s in (np.arange(count) + 0.5) / count - 0.5]
    width = style.points_per_unit(axes) * 0.006
    axes.add_collection(LineCollection(lines, colors=style.TILE_RIM, linewidths=width, zorder=1.5))


def _colour(count: int, most: int) -> str:
    return style.load_colour(0.15 + 0.85 * count / most)


def _legend(figure: Figure, most: int) -> None:
    """What colours of edges mean."""
    wide, tall = figure.get_size_inches()
    axes = style.legend_axes(figure, (1 - 2.1 / wide, 1 - 0.62 / tall, 1.6 / wide, 0.12 / tall), most)
    colours = [_colour(count, most) for count in range(1, most + 1)]
    style.colour_strip(axes, colours, 0, 1, 0.88, height=1)
    style.legend_text(axes, -0.03 * most, "1", ha="right")
    style.legend_text(axes, 1.02 * most, str(most))


def _edges(axes: Axes, scene: Scene, loads: dict[tuple[int, int], int], most: int) -> None:
    from matplotlib.collections import LineCollection

    unit = style.points_per_unit(axes)
    label: dict[str, Any] = {"ha": "center", "va": "center_baseline", "fontweight": "bold"}
    label |= {"fontsize": unit * 0.11, "color": style.NIGHT, "zorder": 7}
    lines, colours, widths = [], [], []
    for (a, b), count in sorted(loads.items(), key=lambda each: each[1]):
        p, q = scene.tiles[a], scene.tiles[b]
        along = (q - p) / np.hypot(*(q - p))
        side = np.array([-along[1], along[0]]) * (HALF + MARGIN + STREET / 2)
        middle = (p + q) / 2 + side
        half = np.hypot(*(q - p)) / 2 - 0.10
        lines.append([middle - along * half, middle + along * half])
        colours.append(_colour(count, most))
        widths.append(unit * (0.03 + 0.10 * count / most))
        if unit > 40:
            axes.scatter(*middle, s=(unit * 0.17) ** 2, color=colours[-1], linewidths=0, zorder=6)
            axes.text(middle[0], middle[1], str(count), **label)
    axes.add_collection(LineCollection(lines, colors=colours, linewidths=widths, zorder=5, capstyle="round"))


def _ranks(axes: Axes, scene: Scene) -> None:
    words: dict[str, Any] = {"fontweight": "bold", "zorder": 6, "ha": "center", "va": "center"}
    for rank, (x, y) in enumerate(scene.tiles):
        axes.text(x, y, str(rank), fontsize=style.points_per_unit(axes) * 0.21, color=style.TEXT, **words)
