"""Time over size of several schedules, with the bound below them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from wavefabric.fabric.cost.result import Cost


def draw_costs(
    path: str | Path, sizes: Sequence[float], costs: Mapping[str, Sequence[Cost]], fabric: str
) -> Path:
    """Write a picture; a file that is there is replaced.

    Parameters
    ----------
    path : str or Path
    sizes : sequence of float
        Bytes of the whole array.
    costs : mapping of str to sequence of Cost
        Of each schedule, one a size.
    fabric : str
        Its name.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    from wavefabric.fabric.draw.draw import _save
    from wavefabric.results.plots import COLOURS, GREY, MARKERS, STYLE, plain_text

    with mpl.rc_context({**STYLE, "axes.titlepad": 8, "axes.grid.axis": "both"}):
        figure = Figure(figsize=(8.4, 4.8), layout="constrained")
        axes = figure.add_subplot()
        lines = list(costs.items())
        for k, (name, found) in enumerate(lines):
            times = [c.seconds * 1e6 for c in found]
            axes.plot(
                sizes,
                times,
                color=COLOURS[k % len(COLOURS)],
                marker=MARKERS[k % len(MARKERS)] if len(sizes) < 25 else None,
                linestyle="-" if k < len(COLOURS) else "--",
                markersize=4.5,
                label=plain_text(name),
            )
        bound = np.min([[c.bound.seconds * 1e6 for c in found] for _, found in lines], axis=0)
        if (bound > 0).all():
            axes.plot(sizes, bound, color=GREY, linewidth=1, linestyle=":", label="bound")
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.xaxis.set_major_formatter(lambda value, _: size_tick(value))
        axes.set(xlabel="size of the array", ylabel="time (µs)")
        axes.set_title(f"{plain_text(fabric)}, {lines[0][1][0].model} model")
        axes.legend(loc="upper left")
    return _save(Path(path), figure)


def size_tick(value: float) -> str:
    """A size as a power of two in words."""
    for power, unit in ((40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")):
        if value >= 1 << power:
            return f"{value / (1 << power):g} {unit}"
    return f"{value:g} B"
