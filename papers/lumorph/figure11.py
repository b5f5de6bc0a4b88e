"""Figure 11 of the LUMORPH paper: throughput of training on 4 to 256 GPUs, from simulated iterations."""

from __future__ import annotations

import sys
from itertools import combinations
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2]))

from papers.common import command, run
from papers.lumorph.data import SIZES
from papers.lumorph.panels import rank_axis
from papers.lumorph.training import (
    ASSUMPTIONS,
    CASES,
    LOOKS,
    Case,
    assumptions,
    gain,
    iteration,
    loaded,
    paper_gain,
)
from wavefabric.execution import report
from wavefabric.results.plots import GREY


def figure(say=lambda line: None) -> dict[str, Any]:
    """Throughput of three models by fabric and number of GPUs, in the fixed setting.

    Returns
    -------
    dict
        ``assumptions``; ``series``: for each model and series ``x`` (GPUs), ``ours`` and ``paper``
        (samples/s), ``seconds`` (of an iteration), ``bound_by``; ``gains``: time with the ring over that
        with the better of the two LUMORPH algorithms; ``orders``: sizes at which two series are in another
        order than in the paper, with both throughputs of the first over that of the second, less one.
    """
    series, gains, orders = [], [], []
    for case in CASES:
        model = loaded(case.model)
        found: dict[str, dict[int, float]] = {}
        for name in LOOKS:
            say(f"{case.label}, {name}")
            runs = [iteration(model, ranks, name) for ranks in SIZES]
            found[name] = {ranks: one.seconds for ranks, one in zip(SIZES, runs, strict=True)}
            series.append({
                "panel": case.figure,
                "series": name,
                "x": list(SIZES),
                "ours": [one.samples_per_second for one in runs],
                "paper": [case.paper(name, ranks) for ranks in SIZES],
                "seconds": [one.seconds for one in runs],
                "bound_by": [one.bound_by for one in runs],
            })  # fmt: skip
        for ranks in SIZES:
            times = {name: seconds[ranks] for name, seconds in found.items()}
            gains.append({
                "panel": case.figure,
                "ranks": ranks,
                "ours": gain(times),
                "paper": paper_gain(case, ranks),
            })  # fmt: skip
            orders += _differences(case, ranks, times)
    listed = [dict(zip(("what", "assumed", "from"), row, strict=True)) for row in ASSUMPTIONS]
    return {
        "benchmark": "figure11",
        "assumptions": listed,
        "series": series,
        "gains": gains,
        "orders": orders,
    }


def _differences(case: Case, ranks: int, times: dict[str, float]) -> list[dict[str, Any]]:
    """Pairs of series that are in another order than in the paper."""
    found = []
    for a, b in combinations(LOOKS, 2):
        theirs = case.paper(a, ranks) / case.paper(b, ranks) - 1
        ours = times[b] / times[a] - 1
        if theirs * ours < 0 and abs(ours) > 1e-9:
            found.append({
                "panel": case.figure,
                "ranks": ranks,
                "first": a,
                "second": b,
                "ours": ours,
                "paper": theirs,
            })  # fmt: skip
    return found


def table(result: dict[str, Any]) -> list:
    """The setting, throughputs, gains, and where the order differs."""
    return [assumptions(), *_throughputs(result), _gains(result), _orders(result)]


def _throughputs(result: dict[str, Any]) -> list:
    tables = []
    for case in CASES:
        mine = {one["series"]: one for one in result["series"] if one["panel"] == case.figure}
        rows = []
        for number, ranks in enumerate(SIZES):
            zero = {who: mine["Zero"][who][number] for who in ("ours", "paper")}
            rows.append((
                str(ranks),
                f"{zero['ours'] / ranks:,.0f}",
                f"{zero['paper'] / ranks:,.0f}",
                *(
                    f"{mine[name][who][number] / zero[who]:.3f}"
                    for name in ("Lumorph-4", "Lumorph-2", "Ring")
                    for who in ("ours", "paper")
                ),
                mine["Ring"]["bound_by"][number].partition(",")[0],
            ))  # fmt: skip
        headings = ("GPUs", f"free, {case.sample}/s a GPU", "paper")
        headings += ("L4/free", "paper", "L2/free", "paper", "ring/free", "paper", "<the ring is bound by")
        tables.append(report.table(f"figure 11, {case.label}: throughput", headings, rows))
    return tables


def _gains(result: dict[str, Any]) -> Any:
    rows = []
    for case in CASES:
        for one in result["gains"]:
            if one["panel"] == case.figure and one["ranks"] >= 64:
                apart = one["ours"] / one["paper"] - 1
                values = f"{one['ours']:.2f}", f"{one['paper']:.2f}", f"{apart:+.0%}"
                rows.append((case.label, str(one["ranks"]), *values))
    return report.table(
        "throughput of the better LUMORPH algorithm over the ring's",
        ("<model", "GPUs", "ours", "paper", "difference"),
        rows,
    )


def _orders(result: dict[str, Any]) -> Any:
    rows = [
        (
            *(one["panel"], str(one["ranks"]), f"{one['first']} over {one['second']}"),
            *(f"{one[who]:+.2%}" for who in ("ours", "paper")),
        )
        for one in result["orders"]
    ]
    return report.table(
        "pairs of series in another order than in the paper",
        ("<model", "GPUs", "<throughput of", "ours", "paper"),
        rows,
    )


def plot(result: dict[str, Any], path: Path) -> None:
    """Throughput over that of free communication, and over the ring's; a column for each model."""
    style = {"axes.titlesize": 10.5, "legend.fontsize": 8.5}
    with report.figure(path, (12.6, 6.8), style=style) as drawn:
        rows = drawn.subplots(2, len(CASES), sharex=True, sharey="row")
        for column, case in enumerate(CASES):
            mine = {one["series"]: one for one in result["series"] if one["panel"] == case.figure}
            _over(rows[0][column], mine, "Zero")
            _over(rows[1][column], mine, "Ring")
            rows[0][column].set_title(f"Figure 11, {case.label}")
            rank_axis(rows[1][column], list(SIZES))
            rows[0][column].set_ylim(0.25, 1.05)
            rows[1][column].set_yscale("log", base=2)
            rows[1][column].set_yticks((1, 1.25, 1.5, 2, 3, 4), ("1", "1.25", "1.5", "2", "3", "4"))
            rows[1][column].minorticks_off()
        rows[0][0].set_ylabel("throughput over that of\nfree communication")
        rows[1][0].set_ylabel("throughput over the ring's")
        rows[0][0].legend(handles=_handles(), loc="lower left")
        note = "lines: ours, one setting\nfor all models\nmarkers: the paper"
        rows[0][1].text(
            0.02, 0.04, note, transform=rows[0][1].transAxes, ha="left", va="bottom", fontsize=8.5, color=GREY
        )
        drawn.get_layout_engine().set(w_pad=0.09, h_pad=0.09)


def _over(axes, mine: dict[str, Any], reference: str) -> None:
    """All series over one of them: ours as lines, the paper's as markers."""
    for name, one in mine.items():
        colour, marker = LOOKS[name]
        for who, look in (("ours", "-"), ("paper", marker)):
            values = [y / z for y, z in zip(one[who], mine[reference][who], strict=True)]
            sizes = {"linewidth": 1.6} if who == "ours" else {"markersize": 5, "linestyle": "none"}
            axes.plot(one["x"], values, look, color=colour, zorder=3 + (who == "paper"), **sizes)


def _handles() -> list[Any]:
    from matplotlib.lines import Line2D

    labels = {"Zero": "free communication", "Ring": "Ring, ideal switch"}
    return [
        Line2D([], [], color=c, marker=m, markersize=5, linewidth=1.6, label=labels.get(name, name))
        for name, (c, m) in LOOKS.items()
    ]


main = command(__name__, figure)

if __name__ == "__main__":
    run(main)
