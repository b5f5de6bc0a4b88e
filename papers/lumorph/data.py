"""What the figures of the LUMORPH paper show, and functions that build the fabrics that they are about."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from papers.lumorph.closed_forms import PAPER
from wavefabric.fabric.electrical.fabric import Fabric, Link
from wavefabric.fabric.photonic.fabric import PhotonicFabric

#: Rows and columns of tiles for each number of GPUs.
GRIDS = {4: (2, 2), 8: (2, 4), 16: (4, 4), 32: (4, 8), 64: (8, 8), 128: (8, 16), 256: (16, 16)}
SIZES = tuple(GRIDS)
#: The least overlap of LUMORPH-4 in figure 5, 4 at 8 GPUs, needs the tiles to stand the other way.
UPRIGHT = (4, 2)
WAFER = (4, 8)
#: MiB of the tables, and of the pictures.
TABLE_SIZES = (0.1, 1.0, 8.0, 64.0)
SWEEP = tuple(0.1 * 2 ** (step / 4) for step in range(38))

Points = dict[str, list[tuple[float, float]]]


@lru_cache(maxsize=1)
def _rows() -> list[dict[str, str]]:
    text = (Path(__file__).parent / "figures.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))


def points(figure: str) -> Points:
    """Series of a figure: name → (x, y) of each point, as drawn in the paper.

    Parameters
    ----------
    figure : str
        As in ``figures.csv``: ``"fig7-64"``, ``"fig5L"``, …
    """
    series: Points = {}
    for row in _rows():
        if row["fig"] == figure:
            series.setdefault(row["series"], []).append((float(row["x"]), float(row["y"])))
    return series


def compared(
    figure: str,
    panel: str,
    series: str,
    unit: str,
    drawn: Sequence[tuple[float, float]],
    ours: Sequence[float],
) -> dict[str, Any]:
    """Our values for the points of one series with the paper's, and their largest difference.

    Parameters
    ----------
    figure, panel, series, unit : str
        What the numbers are.
    drawn : sequence of (x, y)
        The paper's.
    ours : sequence of float
        One for each point.

    Returns
    -------
    dict
        The arguments, with ``x``, ``paper``, ``ours``, and ``largest`` (in the unit) and ``relative``.
    """
    paper = [y for _, y in drawn]
    apart = [abs(a - b) for a, b in zip(ours, paper, strict=True)]
    return {
        "figure": figure,
        "panel": panel,
        "series": series,
        "unit": unit,
        "x": [x for x, _ in drawn],
        "paper": paper,
        "ours": [float(value) for value in ours],
        "largest": float(max(apart)),
        "relative": float(max(d / y if y else (d > 0) for d, y in zip(apart, paper, strict=True))),
    }


def lightpath(
    ranks: int,
    waveguides: int = 1000,
    grid: tuple[int, int] | None = None,
    reconfiguration: float = PAPER.reconfiguration,
) -> PhotonicFabric:
    """LIGHTPATH with as many GPUs, in the numbers of the paper's figures.

    Neighbours on two wafers have as many fibres as tiles have waveguides, as in the paper's model.
    """
    rows, columns = grid or GRIDS[ranks]
    lasers = PAPER.lasers or 1
    return PhotonicFabric(
        name=f"LIGHTPATH {rows}x{columns}",
        rows=rows,
        columns=columns,
        wafer_rows=min(rows, WAFER[0]),
        wafer_columns=min(columns, WAFER[1]),
        lasers=lasers,
        serdes_ports=None,
        laser_bandwidth=PAPER.bandwidth / lasers,
        waveguides=waveguides,
        fibres=waveguides,
        alpha=PAPER.alpha,
        reconfiguration=reconfiguration,
    )


def switch(ranks: int) -> Fabric:
    """The ideal switch that the paper compares with: no queues, α a round, each GPU's bandwidth in full."""
    gpus = tuple(f"GPU{rank}" for rank in range(ranks))
    links = [Link(gpu, "switch", PAPER.bandwidth) for gpu in gpus]
    links += [Link("switch", gpu, PAPER.bandwidth) for gpu in gpus]
    return Fabric(f"ideal switch of {ranks}", gpus, ("switch",), tuple(links), alpha=PAPER.alpha)
