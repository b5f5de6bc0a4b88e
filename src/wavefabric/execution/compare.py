"""Measured times of a schedule, its prediction, and NCCL's own operation: tables and a figure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from wavefabric.execution import report
from wavefabric.results.plots import GREY, INK


def table(result: dict[str, Any]) -> list:
    """A table for each transport, and notes."""
    lines = [_table(result, case) for case in result["cases"]]
    if own := result["own"]:
        wrong = sum(row["wrong"] for row in own)
        lines.append(f"x NCCL: bandwidth over that of NCCL's own {result['collective']} ({wrong} wrong)")
    elif result["why_no_own"]:
        lines.append(f"NCCL's own: not measured; {result['why_no_own']}")
    if result["apart"]:
        lines.append("a barrier on the device between runs; its own time is taken off")
    return lines + report.unavailable(result)


def _table(result: dict[str, Any], case: dict[str, Any]) -> Any:
    columns = ["size", "time us", "algbw GB/s", "busbw GB/s", "#wrong"]
    caption = f"{result['rounds']} rounds, run as {result['levels']} levels; {result['dtype']}"
    if result["fabric"] is not None:
        columns += ["predicted us", "predicted/measured"]
        caption += f"; predicted: {result['model']} on {result['fabric']}"
    if result["own"]:
        columns += ["NCCL's own us", "x NCCL"]
    rows = []
    for row in case["rows"]:
        cells = [report.size_words(row["bytes"]), f"{row['us']:.1f}", f"{row['algbw']:.3g}"]
        cells += [f"{row['busbw']:.3g}", str(row["wrong"])]
        if result["fabric"] is not None:
            cells += [f"{row['predicted_us']:.1f}", f"{row['ratio']:.2f}"]
        if result["own"]:
            none = row["own_us"] is None
            cells += ["-", "-"] if none else [f"{row['own_us']:.1f}", f"{row['over_own']:.2f}"]
        rows.append(cells)
    title = f"{result['schedule']}, {report.transport_name(case['transport'])}, {result['ranks']} ranks"
    return report.table(title, columns, rows, caption, plain=True)


def plot(result: dict[str, Any], path: str | Path) -> None:
    """Draw time over size: measured, predicted, and NCCL's own."""
    with report.figure(path, (6.4, 4.6)) as figure:
        axes = figure.subplots()

        def line(rows: list[dict[str, Any]], key: str, **style: Any) -> None:
            axes.plot([row["bytes"] for row in rows], [row[key] for row in rows], markersize=5, **style)

        for number, case in enumerate(result["cases"]):
            line(case["rows"], "us", label=report.transport_name(case["transport"]), **report.look(number))
        if result["own"]:
            label = f"NCCL's own {result['collective']}"
            line(result["own"], "us", color=GREY, marker="x", linewidth=1.2, linestyle="--", label=label)
        if result["fabric"] is not None and result["cases"]:
            label = f"predicted: {result['fabric']}, {result['model']}"
            rows = result["cases"][0]["rows"]
            line(rows, "predicted_us", color=INK, linewidth=1.2, linestyle=":", label=label)
        axes.set_title(f"{result['schedule']}, {result['ranks']} ranks")
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xlabel("bytes of the whole array")
        axes.set_ylabel("time (us)")
        axes.legend(fontsize=9)
