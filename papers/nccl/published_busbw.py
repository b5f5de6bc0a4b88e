"""Published bus bandwidths of NCCL over nodes beside those predicted: rings, trees and all-to-alls.

No number was fitted to a row: adapters and links carry what others measured (`published_rows`), and α is that
of the preset ``nodes``.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

sys.path.append(str(Path(__file__).resolve().parents[2]))

import numpy as np
from matplotlib.ticker import NullLocator

from papers.common import command, run
from papers.nccl.published_rows import ADAPTER, INSIDE, LEFT_OUT, ROWS, Row
from wavefabric.base.errors import InputError
from wavefabric.base.results.figure_style import GREY
from wavefabric.cli.common.options import option
from wavefabric.collectives.conditions import default_elements, whole_elements
from wavefabric.collectives.registry import build, channels_of
from wavefabric.fabric import AnyFabric, cost, load
from wavefabric.fabric.candidates import algorithm_grid
from wavefabric.fabric.cost_models.bus_bandwidth import bandwidths
from wavefabric.fabric.execution import report
from wavefabric.fabric.io.files import from_toml

#: NCCL's "tree" is the double tree; enough pieces that its pipeline is full at 1 GiB.
ALGORITHMS = {"ring": ("ring", 1), "tree": ("double-tree", 64), "direct": ("direct", 1)}
#: Nodes times pieces, so that schedules of 32 nodes fit into memory.
MOST = 512
Machines = Annotated[str | None, option("Only these machines, such as A100,H100.")]


def fabric(row: Row) -> AnyFabric:
    """The nodes of a row, on rails under a full spine."""
    usual = load("nodes:2x8")
    latency = max(link.latency for link in usual.links)
    family = (
        f'kind = "nodes", grid = [{row.nodes}, 8], bandwidth = "{INSIDE[row.machine]} GB/s", '
        f'network = {{ bandwidth = "{ADAPTER[row.gbits]} GB/s", latency = "{latency} s", '
        f"adapters = {row.adapters} }}"
    )
    return from_toml(f'name = "{row.machine}"\nalpha = "{usual.alpha} s"\nfamily = {{ {family} }}\n')


def predicted(row: Row) -> float:
    """The bus bandwidth of a row's schedule on its nodes, GB/s."""
    machine, (algorithm, pieces) = fabric(row), ALGORITHMS[row.algorithm]
    grid = algorithm_grid(algorithm, machine.ranks, machine)
    pieces = min(pieces, MOST // row.nodes)
    elements = default_elements(machine.ranks, pieces * channels_of(algorithm, grid))
    how: dict[str, Any] = {"pieces": pieces} if algorithm == "double-tree" else {}
    if grid and algorithm != "direct":
        how["grid"] = grid
    schedule = build(algorithm, row.collective, machine.ranks, elements, **how)
    element_bytes = row.gib * 2**30 / whole_elements(schedule)
    seconds = cost(schedule, machine, element_bytes, "alpha-beta").seconds
    return bandwidths(schedule, element_bytes, seconds)[1] / 1e9


def figure(say=lambda line: None, machines: Machines = None) -> dict[str, Any]:
    """Published bus bandwidths of NCCL over nodes, and those predicted."""
    names = machines.split(",") if machines else [*INSIDE]
    unknown = [name for name in names if name not in INSIDE]
    if unknown:
        raise InputError(f"--machines: {unknown[0]} given; allowed: {', '.join(INSIDE)}")
    rows = []
    for row in ROWS:
        if row.machine in names:
            say(f"{row.machine}, {row.nodes} nodes, {row.algorithm} {row.collective}")
            ours = predicted(row)
            rows.append({**vars(row), "predicted": round(ours, 1), "error": round(ours / row.busbw - 1, 4)})
    near = sum(abs(row["error"]) <= 0.15 for row in rows)
    return {"benchmark": "published_busbw", "rows": rows, "near": near, "left_out": LEFT_OUT}


def table(result: dict[str, Any]) -> list[Any]:
    """All rows, with their errors."""
    lines = [
        (
            f"{row['machine']} x 8", f"{row['nodes']}", f"{row['adapters']} x {row['gbits']}",
            f"{row['algorithm']} {row['collective']}", f"{row['gib']:g}", f"{row['busbw']:g}",
            f"{row['predicted']:g}", f"{100 * row['error']:+.0f} %", row["source"],
        )
        for row in result["rows"]
    ]  # fmt: skip
    columns = ("<GPUs", "nodes", "adapters, Gbit/s", "<operation", "GiB", "published", "predicted", "error",
               "<source")  # fmt: skip
    caption = f"{result['near']} of {len(lines)} within 15 %; left out: {result['left_out']}"
    return [report.table("bus bandwidth of nodes, GB/s", columns, lines, caption, wrap=True)]


def plot(result: dict[str, Any], path: Path) -> None:
    """Predicted over published bandwidths, one point per row, and the 15 % that is aimed at."""
    with report.figure(path, (5.2, 4.4)) as drawn:
        axes, ends = drawn.subplots(), np.array([40.0, 500.0])
        axes.fill_between(ends, 0.85 * ends, 1.15 * ends, color=GREY, alpha=0.2, linewidth=0)
        axes.plot(ends, ends, color=GREY, linewidth=1)
        names = {"ring": "ring", "tree": "double tree", "direct": "all-to-all"}
        for number, (algorithm, name) in enumerate(names.items()):
            some = [row for row in result["rows"] if row["algorithm"] == algorithm]
            values = [[row[key] for row in some] for key in ("busbw", "predicted")]
            axes.plot(*values, linestyle="", label=name, **report.look(number))
        axes.set_xscale("log")
        axes.set_yscale("log")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_ticks([50, 100, 200, 400], ["50", "100", "200", "400"])
            axis.set_minor_locator(NullLocator())
        axes.set_xlabel("published bus bandwidth, GB/s")
        axes.set_ylabel("predicted, GB/s")
        axes.legend(loc="upper left")


main = command(__name__, figure)

if __name__ == "__main__":
    run(main)
