"""Tables and the picture of ``ultrasound-breakdown``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from wavefabric.bench.exchange_report import unavailable
from wavefabric.execution.ranks import named

PARTS = ("compute", "pack", "exchange", "idle")


def _groups(result: dict[str, Any]) -> dict[tuple, list[dict[str, Any]]]:
    """Cases by medium and grid."""
    found: dict[tuple, list[dict[str, Any]]] = {}
    for case in result["cases"]:
        found.setdefault((case["medium"], "x".join(map(str, case["grid"]))), []).append(case)
    return found


def table(result: dict[str, Any]) -> list:
    """The result of `wavefabric.bench.ultrasound_breakdown.run` as a `rich.table.Table` a grid of blocks."""
    from rich.table import Table

    found: list = []
    shape = "x".join(map(str, result["shape"]))
    for (medium, grid), cases in _groups(result).items():
        lines = Table(
            title=f"{shape}, {medium}, {grid} blocks",
            caption="parts are timed alone; hidden: by how much they add up to more than the step",
        )
        lines.add_column("overlap", justify="right")
        lines.add_column("", no_wrap=True)
        for heading in ("step ms", *PARTS, "hidden", "MiB sent", "x MPI"):
            lines.add_column(heading, justify="right")
        for case in sorted(cases, key=lambda case: case["overlap"]):
            lines.add_row(
                str(case["overlap"]),
                named(case["transport"]),
                f"{case['ms']:.3g}",
                *(f"{case[part]:.3g}" for part in PARTS),
                f"{case['hidden']:.3g}",
                f"{case['bytes_sent_a_step'] / 2**20:.1f}",
                "-" if case["speed_up"] is None else f"{case['speed_up']:.2f}",
            )
        found.append(lines)
    return found + [f"left out: {line}" for line in result["left_out"]] + unavailable(result)


def plot(result: dict[str, Any], path: str | Path) -> list[Path]:
    """Draw stacked bars of the parts by overlap and transport, and speed-ups over MPI, a row a grid.

    Parameters
    ----------
    result : dict
        From `wavefabric.bench.ultrasound_breakdown.run`.
    path : str or Path
        Image file; its ending picks the format.

    Returns
    -------
    list of Path
        What was written.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    from wavefabric.results.plots import BLUE, COLOURS, GREEN, GREY, MARKERS, ORANGE, STYLE

    groups = _groups(result)
    colours = dict(zip(PARTS, (BLUE, GREEN, ORANGE, GREY), strict=True))
    with mpl.rc_context({**STYLE, "axes.titlepad": 8}):
        figure = Figure(figsize=(10.5, 0.8 + 3.2 * max(1, len(groups))), layout="constrained")
        panels = figure.subplots(max(1, len(groups)), 2, squeeze=False, width_ratios=(2, 1))
        for (bars, lines), ((medium, grid), cases) in zip(panels, groups.items(), strict=False):
            transports = list(dict.fromkeys(case["transport"] for case in cases))
            overlaps = sorted({case["overlap"] for case in cases})
            width = 0.8 / len(transports)
            for case in cases:
                number = transports.index(case["transport"])
                x, below = overlaps.index(case["overlap"]) + width * number, 0.0
                for part in PARTS:
                    bars.bar(x, case[part], width * 0.9, bottom=below, color=colours[part])
                    below += case[part]
                bars.plot([x - 0.45 * width, x + 0.45 * width], [case["ms"]] * 2, color="black", linewidth=1)
            names = ", ".join(named(name) for name in transports)
            bars.set_title(f"{medium}, {grid} blocks: {names}", fontsize=9)
            middle = [at + 0.4 - width / 2 for at in range(len(overlaps))]
            bars.set_xticks(middle, [str(overlap) for overlap in overlaps])
            bars.set_ylabel("ms a step")
            bars.set_xlabel("overlap (points)")
            for number, name in enumerate(transports):
                mine = sorted((c["overlap"], c["speed_up"]) for c in cases if c["transport"] == name)
                if all(value is not None for _, value in mine):
                    lines.plot(
                        *zip(*mine, strict=True),
                        color=COLOURS[number],
                        marker=MARKERS[number],
                        label=named(name),
                    )
            if lines.lines:
                lines.legend(fontsize=8)
            lines.set_xscale("log", base=2)
            lines.set_xticks(overlaps, [str(overlap) for overlap in overlaps])
            lines.set_xlabel("overlap (points)")
            lines.set_ylabel("times faster than MPI")
        handles: list = [Patch(color=colours[part], label=part) for part in PARTS]
        handles.append(Line2D([], [], color="black", linewidth=1, label="the step"))
        figure.legend(handles=handles, loc="outside lower center", ncols=5, fontsize=9)
        figure.savefig(path, dpi=160)
    return [Path(path)]
