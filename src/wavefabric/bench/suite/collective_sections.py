"""The section of the report on collective operations."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from wavefabric.bench.suite.found import FoundResult, FoundResults, Picture, Section
from wavefabric.bench.suite.markdown import table
from wavefabric.bench.suite.parts import FABRIC
from wavefabric.bench.suite.sections import drawable, notes
from wavefabric.execution import measure_fabric, report
from wavefabric.execution.report import size_words, transport_name
from wavefabric.results.plots import GREY

COLLECTIVES = ("all-reduce", "all-gather", "all-to-all", "broadcast")
ALGORITHMS = ("ring", "recursive", "radix-4", "direct", "tree")


class TimedAlgorithm(NamedTuple):
    """What was measured of an algorithm through one transport, by bytes."""

    ranks: int
    algorithm: str
    way: str
    rows: list[dict[str, Any]]

    @property
    def words(self) -> str:
        """As tables name it."""
        return f"{self.algorithm}, {self.way}"


def found_of(results: FoundResults, collective: str) -> list[FoundResult]:
    """Results of all algorithms of a collective operation."""
    kinds = [f"{collective}-{name}{more}" for more in ("", "-kernels") for name in ALGORITHMS]
    return results.of(*kinds, file="collective-run.json")


def lines_of(found: list[FoundResult], collective: str) -> Iterator[TimedAlgorithm]:
    """Each transport and protocol of each result."""
    for each in found:
        name = (
            each.part.removeprefix(f"{collective}-").removesuffix(f"-{each.ranks}").removesuffix("-kernels")
        )
        for case in each.result["cases"]:
            way = transport_name(case["transport"])
            way += "" if case["protocol"] == "auto" else f", {case['protocol']}"
            yield TimedAlgorithm(each.ranks, name, way, case["rows"])


def collectives(results: FoundResults) -> Section:
    """Times of schedules beside predictions and NCCL's own operations."""
    blocks, pictures = [], []
    for each in results.of("fabric", file="fabric.json"):
        lines = [line for line in measure_fabric.table(each.result) if isinstance(line, str)]
        blocks.append(f"{each.ranks} ranks, parts/{each.part}/{FABRIC}: {'; '.join(lines)}")
    drawn: list[tuple[str, list[TimedAlgorithm], list[FoundResult]]] = []
    for collective in COLLECTIVES:
        found = found_of(results, collective)
        for ranks in sorted({each.ranks for each in found}):
            mine = [each for each in found if each.ranks == ranks]
            blocks.append(_table(collective, ranks, mine))
        if has_cases := drawable(found):
            last = [each for each in has_cases if each.ranks == has_cases[-1].ranks]
            drawn.append((f"{collective}, {last[0].ranks} ranks", list(lines_of(last, collective)), last))
        blocks += notes(found)
    if drawn:
        sources = [each.part for _, _, last in drawn for each in last]
        caption = "Time over size; dotted: predicted; dashed: NCCL's own"
        pictures.append(Picture("collectives.png", caption, partial(_plot, drawn), sources))
    blocks += [
        f"Fastest algorithms on {each.ranks} ranks: parts/{each.part}/tuning.json and tuning.png."
        for each in results.of("tune", file="candidates.json")
    ]
    return Section("Collective operations", blocks, pictures)


def _table(collective: str, ranks: int, found: list[FoundResult]) -> str:
    lines = list(lines_of(found, collective))
    sizes = sorted({row["bytes"] for line in lines for row in line.rows})
    shown = sorted({*sizes[::2], *sizes[-1:]})
    rows = []
    for line in lines:
        at = {row["bytes"]: row for row in line.rows}
        rows.append([line.words, *(_cell(at.get(size), "us", "ratio", "over_own") for size in shown)])
        if any(row.get("graph_us") for row in line.rows):
            cells = [_cell(at.get(size), "graph_us", "", "over_own_graph") for size in shown]
            rows.append([f"{line.words}, in a graph", *cells])
    own = {row["bytes"]: row for each in found for row in each.result["own"] or ()}
    if own:
        rows.append(["NCCL's own", *(_cell(own.get(size), "us", "", "") for size in shown)])
    wrong = sum(row["wrong"] for line in lines for row in line.rows)
    title = (
        f"**{collective}, {ranks} ranks: µs (predicted over it; NCCL's own over it)**, {wrong} wrong elements"
    )
    return f"{title}\n\n{table(('<', *map(size_words, shown)), rows)}"


def _cell(row: dict[str, Any] | None, time: str, *ratios: str) -> str:
    if row is None or row.get(time) is None:
        return ""
    shares = [row.get(key) for key in ratios]
    more = "; ".join("-" if share is None else f"{share:.2f}" for share in shares)
    return f"{row[time]:.0f}" + (f" ({more})" if any(share is not None for share in shares) else "")


def _plot(drawn: list[tuple[str, list[TimedAlgorithm], list[FoundResult]]], path: Path) -> None:
    """A panel a collective operation: the fastest transport of each algorithm, its prediction, NCCL's own."""
    columns, rows = min(2, len(drawn)), -(-len(drawn) // 2)
    with report.figure(path, (1.2 + 4.4 * columns, 4.6 * rows)) as figure:
        panels = list(figure.subplots(rows, columns, squeeze=False).flat)
        for axes in panels[len(drawn) :]:
            axes.remove()
        for axes, (title, lines, found) in zip(panels, drawn, strict=False):
            for number, algorithm in enumerate(ALGORITHMS):
                mine = [line for line in lines if line.algorithm == algorithm]
                if not mine:
                    continue
                best = min(mine, key=lambda line: line.rows[-1]["us"])
                look, sizes = report.look(number), [row["bytes"] for row in best.rows]
                axes.plot(sizes, [row["us"] for row in best.rows], label=best.words, markersize=4, **look)
                known = [(row["bytes"], row["predicted_us"]) for row in best.rows if row["predicted_us"]]
                if known:
                    axes.plot(*zip(*known, strict=True), ls=":", lw=1.2, color=look["color"])
            own = next((each.result["own"] for each in found if each.result["own"]), None)
            if own:
                points = [row["bytes"] for row in own], [row["us"] for row in own]
                axes.plot(*points, color=GREY, ls="--", marker="x", lw=1.2, label="NCCL's own")
            axes.set_title(title)
            report.log_axes(axes, "bytes of the whole array", "time (µs)")
            axes.legend(fontsize=8)
