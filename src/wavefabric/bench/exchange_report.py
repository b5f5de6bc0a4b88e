"""Tables and the picture of ``exchange``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from wavefabric.execution.ranks import named


def size_words(size: int) -> str:
    """Bytes in the largest unit of 2¹⁰ that divides them."""
    for exponent, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if size % (1 << exponent) == 0:
            return f"{size >> exponent} {unit}"
    return f"{size} B"


def table(result: dict[str, Any]) -> list:
    """The result of `wavefabric.bench.exchange.run`: a `rich.table.Table` for each transport and pattern."""
    from rich import box
    from rich.table import Table

    found: list = []
    for case in result["cases"]:
        peak = case.get("peak")
        caption = f"latency {case['latency_us']:.1f} us"
        if peak:
            caption += f"; share of {peak:g} GB/s ({result['peaks']})"
        lines = Table(
            title=f"{case['pattern']}, {named(case['transport'])}, {result['ranks']} ranks",
            caption=caption,
            box=box.SIMPLE_HEAD,
        )
        for heading in ("size", "bytes", "time us", "algbw GB/s", "busbw GB/s", "#wrong"):
            lines.add_column(heading, justify="right", no_wrap=True)
        if result["peaks"]:
            lines.add_column("share", justify="right")
        for row in case["rows"]:
            cells = [size_words(row["bytes"]), str(row["bytes"]), f"{row['us']:.1f}"]
            cells += [f"{row['algbw']:.3g}", f"{row['busbw']:.3g}", str(row["wrong"])]
            if result["peaks"]:
                cells.append("-" if row["share"] is None else f"{row['share'] * 100:.0f} %")
            lines.add_row(*cells)
        found.append(lines)
    return found + unavailable(result)


def unavailable(result: dict[str, Any]) -> list[str]:
    """A line for each transport that could not be used."""
    return [f"{named(name)}: not measured; {why}" for name, why in result["unavailable"].items()]


def plot(result: dict[str, Any], path: str | Path) -> list[Path]:
    """Draw bus bandwidth over size, a panel a pattern and a line a transport.

    Parameters
    ----------
    result : dict
        From `wavefabric.bench.exchange.run`.
    path : str or Path
        Image file; its ending picks the format.

    Returns
    -------
    list of Path
        What was written.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    from wavefabric.results.plots import COLOURS, GREY, MARKERS, STYLE

    patterns = list(dict.fromkeys(case["pattern"] for case in result["cases"]))
    transports = list(dict.fromkeys(case["transport"] for case in result["cases"]))
    columns = min(3, max(1, len(patterns)))
    rows = max(1, -(-len(patterns) // columns))
    with mpl.rc_context({**STYLE, "axes.titlepad": 8, "axes.grid.axis": "both"}):
        figure = Figure(figsize=(1.2 + 3.3 * columns, 0.8 + 2.7 * rows), layout="constrained")
        panels = figure.subplots(rows, columns, squeeze=False, sharey=True).ravel()
        for axes, pattern in zip(panels, patterns, strict=False):
            for case in result["cases"]:
                if case["pattern"] != pattern:
                    continue
                number = transports.index(case["transport"])
                axes.plot(
                    [row["bytes"] for row in case["rows"]],
                    [row["busbw"] for row in case["rows"]],
                    color=COLOURS[number],
                    marker=MARKERS[number],
                    markersize=4,
                )
                if case.get("peak"):
                    axes.axhline(case["peak"], color=COLOURS[number], linewidth=0.8, linestyle=":")
            axes.set_title(pattern)
            axes.set_xscale("log", base=2)
            axes.set_yscale("log")
            axes.set_xlabel("bytes")
            axes.set_ylabel("bus bandwidth (GB/s)")
        for axes in panels[len(patterns) :]:
            axes.set_visible(False)
        for number, name in enumerate(transports):
            panels[0].plot([], [], color=COLOURS[number], marker=MARKERS[number], label=named(name))
        if any(case.get("peak") for case in result["cases"]):
            panels[0].plot([], [], color=GREY, linewidth=0.8, linestyle=":", label="reference")
        figure.legend(loc="outside lower center", ncols=5, fontsize=9)
        figure.savefig(path, dpi=160)
    return [Path(path)]
