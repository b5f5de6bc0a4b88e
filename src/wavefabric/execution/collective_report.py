"""Tables and the picture of ``collective-run``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from wavefabric.bench.exchange_report import size_words, unavailable
from wavefabric.execution.ranks import named


def table(result: dict[str, Any]) -> list:
    """The result of `wavefabric.execution.collective_run.run`: a `rich.table.Table` for each transport."""
    from rich import box
    from rich.table import Table

    predicted, own = result["fabric"] is not None, result["own"]
    found: list = []
    for case in result["cases"]:
        caption = f"{result['rounds']} rounds, run as {result['levels']} levels; {result['dtype']}"
        if predicted:
            caption += f"; predicted: {result['model']} on {result['fabric']}"
        lines = Table(
            title=f"{result['schedule']}, {named(case['transport'])}, {result['ranks']} ranks",
            caption=caption,
            box=box.SIMPLE_HEAD,
        )
        for heading in ("size", "time us", "algbw GB/s", "busbw GB/s", "#wrong"):
            lines.add_column(heading, justify="right", no_wrap=True)
        if predicted:
            lines.add_column("predicted us", justify="right")
            lines.add_column("predicted/measured", justify="right")
        if own:
            lines.add_column("NCCL's own us", justify="right")
            lines.add_column("x NCCL", justify="right")
        for row in case["rows"]:
            cells = [size_words(row["bytes"]), f"{row['us']:.1f}", f"{row['algbw']:.3g}"]
            cells += [f"{row['busbw']:.3g}", str(row["wrong"])]
            if predicted:
                cells += [f"{row['predicted_us']:.1f}", f"{row['ratio']:.2f}"]
            if own:
                none = row["own_us"] is None
                cells += ["-", "-"] if none else [f"{row['own_us']:.1f}", f"{row['over_own']:.2f}"]
            lines.add_row(*cells)
        found.append(lines)
    if own:
        wrong = sum(row["wrong"] for row in own)
        found.append(f"x NCCL: bandwidth over that of NCCL's own {result['collective']} ({wrong} wrong)")
    elif result["why_no_own"]:
        found.append(f"NCCL's own: not measured; {result['why_no_own']}")
    if result["apart"]:
        found.append("a barrier on the device between runs; its own time is taken off")
    return found + unavailable(result)


def plot(result: dict[str, Any], path: str | Path) -> list[Path]:
    """Draw time over size: measured, predicted, and NCCL's own.

    Parameters
    ----------
    result : dict
        From `wavefabric.execution.collective_run.run`.
    path : str or Path
        Image file; its ending picks the format.

    Returns
    -------
    list of Path
        What was written.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    from wavefabric.results.plots import COLOURS, GREY, INK, MARKERS, STYLE

    with mpl.rc_context({**STYLE, "axes.titlepad": 8, "axes.grid.axis": "both"}):
        figure = Figure(figsize=(6.4, 4.6), layout="constrained")
        axes = figure.subplots()
        for number, case in enumerate(result["cases"]):
            axes.plot(
                [row["bytes"] for row in case["rows"]],
                [row["us"] for row in case["rows"]],
                color=COLOURS[number % len(COLOURS)],
                marker=MARKERS[number % len(MARKERS)],
                markersize=5,
                label=named(case["transport"]),
            )
        if result["own"]:
            axes.plot(
                [row["bytes"] for row in result["own"]],
                [row["us"] for row in result["own"]],
                color=GREY,
                marker="x",
                markersize=5,
                linewidth=1.2,
                linestyle="--",
                label=f"NCCL's own {result['collective']}",
            )
        if result["fabric"] is not None and result["cases"]:
            rows = result["cases"][0]["rows"]
            axes.plot(
                [row["bytes"] for row in rows],
                [row["predicted_us"] for row in rows],
                color=INK,
                linewidth=1.2,
                linestyle=":",
                label=f"predicted: {result['fabric']}, {result['model']}",
            )
        axes.set_title(f"{result['schedule']}, {result['ranks']} ranks")
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xlabel("bytes of the whole array")
        axes.set_ylabel("time (us)")
        axes.legend(fontsize=9)
        figure.savefig(path, dpi=160)
    return [Path(path)]
