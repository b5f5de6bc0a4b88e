"""Tables and the figure of a measured fabric, and the lines that do not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from wavefabric.execution import report
from wavefabric.execution.fit import RESIDUAL, Line

#: Patterns in words.
_WORDS = {
    "ring": "each rank to the next",
    "both": "each rank to both neighbours",
    "one-to-all": "one to all",
    "all-to-one": "all to one",
    "all-to-all": "all to all",
    "round": "a round of a ring",
    "add": "an addition",
}
#: Patterns whose lines become numbers of a fabric, beside the pairs.
_USED = ("one-to-all", "all-to-one", "all-to-all", "round", "add")


def _lines(case: dict[str, Any], patterns) -> dict[str, dict[str, Any]]:
    """What was fitted to each pair and to these patterns, by its words."""
    pairs = {f"rank {p['src']} to rank {p['dst']}": p for p in case["pairs"]}
    return pairs | {_WORDS[key]: case["patterns"][key] for key in patterns if key in case["patterns"]}


def _line(fitted: dict[str, Any]) -> Line:
    return Line(*(fitted["line"][key] for key in ("alpha", "bandwidth", "floor", "residuals")))


def misfits(case: dict[str, Any], limit: float = RESIDUAL) -> list[str]:
    """Lines from which no fabric should be made, in words: residuals above the limit, or level times."""
    wrong = []
    for words, fitted in _lines(case, _USED).items():
        line = _line(fitted)
        if line.worst > limit:
            wrong.append(f"{words}: residual of {100 * line.worst:.1f} %")
        elif not line.grows(max(row["bytes"] for row in fitted["rows"])):
            wrong.append(f"{words}: times do not grow with bytes")
    return wrong


def table(result: dict[str, Any]) -> list:
    """A table of fitted lines for each transport, and the numbers of its fabric."""
    shown: list = []
    for case in result["cases"]:
        rows = []
        for words, fitted in _lines(case, _WORDS).items():
            line = _line(fitted)
            floor = f"{line.floor * 1e6:.1f}" if line.floor else "-"
            rate = f"{line.bandwidth * 1e-9:.4g}"
            rows.append((words, f"{line.alpha * 1e6:.2f}", rate, floor, f"{line.worst * 100:.1f} %"))
        shown.append(
            report.table(
                f"{report.transport_name(case['transport'])}, {result['ranks']} ranks",
                ("<pattern", "alpha us", "GB/s", "floor us", "worst residual"),
                rows,
                "fitted: the larger of floor and alpha + bytes/bandwidth; bytes of the busiest rank",
                plain=True,
            )
        )
        shown.append(_summary(case["fabric"]))
        if case["misfits"]:
            limit = f"residuals above {100 * result['residual']:g} % or level times"
            shown.append(f"no fabric to rely on ({limit}): {'; '.join(case['misfits'])}")
    return shown + report.unavailable(result)


def _summary(text: str) -> str:
    """The numbers of a fabric that are not of single links."""
    from wavefabric.fabric.io.files import from_toml

    fabric: Any = from_toml(text)
    parts = [f"alpha {fabric.alpha * 1e6:.3g} us"]
    for value, words in (
        (fabric.flow_bandwidth, "a transfer at most"),
        (fabric.copy_bandwidth, "a rank in all"),
        (fabric.reduce_bandwidth, "sums"),
    ):
        if value is not None:
            parts.append(f"{words} {value * 1e-9:.4g} GB/s")
    for value, words in (
        (fabric.reduce_alpha, "before each sum"),
        (fabric.round_overhead, "of the host a round"),
        (fabric.peer_overhead, "a further rank"),
        (fabric.reduce_overhead, "a sum"),
    ):
        if value:
            parts.append(f"{value * 1e6:.3g} us {words}")
    shared = " (all ranks share one link)" if fabric.switches else ""
    return f"fabric {fabric.name}{shared}: {', '.join(parts)}"


def plot(result: dict[str, Any], path: str | Path) -> None:
    """Draw, for each transport, times with the fitted lines and the bandwidth of each pair."""
    rows = max(1, len(result["cases"]))
    with report.figure(path, (9.6, 0.6 + 3.6 * rows)) as figure:
        panels = figure.subplots(rows, 2, squeeze=False, width_ratios=(3, 2))
        for (left, right), case in zip(panels, result["cases"], strict=False):
            _times(left, case)
            _pairs(figure, right, case, result["ranks"])


def _times(axes, case: dict[str, Any]) -> None:
    fitted = _lines(case, ("round", "all-to-all", "one-to-all", "all-to-one", "add"))
    shown = dict(list(fitted.items())[:1] + list(fitted.items())[len(case["pairs"]) :])
    for number, (words, each) in enumerate(shown.items()):
        rows = [row for row in each["rows"] if row["us"] > 0]
        look, sizes = report.look(number), [row["bytes"] for row in rows]
        axes.plot(sizes, [row["us"] for row in rows], linestyle="", markersize=5, label=words, **look)
        line, sizes = _line(each), np.geomspace(each["rows"][0]["bytes"], each["rows"][-1]["bytes"], 200)
        axes.plot(sizes, [line.seconds(size) * 1e6 for size in sizes], color=look["color"], linewidth=1.1)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("bytes of the busiest rank")
    axes.set_ylabel("time (us)")
    axes.set_title(f"{report.transport_name(case['transport'])}: measured, and fitted lines")
    axes.legend(fontsize=8)


def _pairs(figure, axes, case: dict[str, Any], ranks: int) -> None:
    matrix = np.full((ranks, ranks), np.nan)
    for p in case["pairs"]:
        matrix[p["src"], p["dst"]] = p["line"]["bandwidth"] * 1e-9
    image = axes.imshow(matrix, cmap="cividis")
    axes.grid(False)
    axes.set_xticks(range(ranks))
    axes.set_yticks(range(ranks))
    axes.set_xlabel("to rank")
    axes.set_ylabel("from rank")
    axes.set_title("a pair alone (GB/s)")
    middle = (np.nanmin(matrix) + np.nanmax(matrix)) / 2
    for (a, b), value in np.ndenumerate(matrix):
        if np.isfinite(value) and ranks <= 8:
            colour = "black" if value > middle else "white"
            axes.text(b, a, f"{value:.3g}", ha="center", va="center", fontsize=8, color=colour)
    figure.colorbar(image, ax=axes, shrink=0.8)
