"""Time over size of schedules, with the lower bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from wavefabric.fabric.draw.pictures import save_figure

if TYPE_CHECKING:
    from wavefabric.fabric.cost_models.result import Cost


def draw_costs(
    path: str | Path, sizes: Sequence[float], costs: Mapping[str, Sequence[Cost]], fabric: str
) -> Path:
    """Write a picture, replacing a file that is there.

    `sizes` are bytes of the whole array, `costs` of each schedule one a size, `fabric` its name.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    from wavefabric.results.plots import COLOURS, GREY, MARKERS, STYLE, plain_text

    with mpl.rc_context({**STYLE, "axes.titlepad": 8, "axes.grid.axis": "both"}):
        figure = Figure(figsize=(8.4, 4.8), layout="constrained")
        axes = figure.add_subplot()
        for k, (name, of_size) in enumerate(costs.items()):
            axes.plot(
                sizes,
                [c.seconds * 1e6 for c in of_size],
                color=COLOURS[k % len(COLOURS)],
                marker=MARKERS[k % len(MARKERS)] if len(sizes) < 25 else None,
                linestyle="-" if k < len(COLOURS) else "--",
                markersize=4.5,
                label=plain_text(name),
            )
        bound = np.min([[c.bound.seconds * 1e6 for c in of_size] for of_size in costs.values()], axis=0)
        if (bound > 0).all():
            axes.plot(sizes, bound, color=GREY, linewidth=1, linestyle=":", label="bound")
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.xaxis.set_major_formatter(lambda value, _: _size_words(value))
        axes.set(xlabel="size of the array", ylabel="time (µs)")
        axes.set_title(f"{plain_text(fabric)}, {next(iter(costs.values()))[0].model} model")
        axes.legend(loc="upper left")
    return save_figure(Path(path), figure)


def _size_words(value: float) -> str:
    """A size as a power of two in words."""
    for power, unit in ((40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")):
        if value >= 1 << power:
            return f"{value / (1 << power):g} {unit}"
    return f"{value:g} B"
