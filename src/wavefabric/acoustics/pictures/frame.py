"""What pictures of fields in memory and of recorded quantities share: style, edges, colour bar, saving."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wavefabric.errors import InputError
from wavefabric.results.plots import STYLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def style(**more: Any) -> Any:
    """Context in which figures are drawn; Matplotlib is imported here, with the Agg backend."""
    import matplotlib as mpl

    return mpl.rc_context({**STYLE, **more})  # type: ignore[arg-type]


def new_axes(width: float, height: float) -> Axes:
    """Axes of a figure of their own, in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained").add_subplot()


def cell_edges(middles: np.ndarray) -> np.ndarray:
    """Edges of cells around equally spaced middles, one more than these."""
    half = (middles[-1] - middles[0]) / (2 * max(1, len(middles) - 1)) or 0.5
    return np.append(middles - half, middles[-1] + half)


def show_image(axes: Axes, values: np.ndarray, x: np.ndarray, y: np.ndarray, **options: Any) -> Any:
    """``values`` [y, x] over the middles of their cells."""
    right, up = cell_edges(x), cell_edges(y)
    extent = (right[0], right[-1], up[0], up[-1])
    return axes.imshow(values, origin="lower", extent=extent, **options)


def add_colour_bar(picture: Any, axes: Any, label: str, **options: Any) -> None:
    """A bar beside the axes that share a picture's colours."""
    bar = picture.figure.colorbar(picture, ax=axes, pad=0.015, fraction=0.05, aspect=28, **options)
    bar.set_label(label)
    bar.outline.set_visible(False)


def save(figure: Figure, path: str | Path, key: str) -> None:
    """Write a figure, 160 dots per inch; ``key`` names the path in errors."""
    try:
        figure.savefig(path, dpi=160)
    except OSError as error:
        raise InputError(f"{key}: {path} cannot be written ({error.strerror})") from None
