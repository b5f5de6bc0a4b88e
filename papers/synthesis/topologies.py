"""Schedules of `wavefabric collective make optimal` on published topologies, beside published times."""

from __future__ import annotations

import json
import os
import random
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

sys.path.append(str(Path(__file__).resolve().parents[2]))

from papers.common import command, ratio_axes, run
from papers.synthesis.topology_reasons import reason
from papers.synthesis.topology_rows import ROWS, Row
from wavefabric.base.arguments import positive, whole
from wavefabric.base.errors import InputError
from wavefabric.base.results.figure_style import BLUE, GREY, ORANGE
from wavefabric.cli.common.options import option
from wavefabric.collectives.conditions import whole_elements
from wavefabric.collectives.synthesis.deadline import now
from wavefabric.fabric import cost, load
from wavefabric.fabric.execution import report
from wavefabric.fabric.fastest import fastest_schedule
from wavefabric.fabric.rank_order import reordered

FABRICS = Path(__file__).resolve().parents[2] / "tests" / "data" / "fabric"
#: Bytes up to which a schedule is searched by the model of the published time too.
SMALL = 1e7
Chosen = Annotated[
    str | None, option("Compute only rows whose names contain one of these (commas between).", "--rows")
]
Limit = Annotated[float, option("Seconds of a search.")]
Permutations = Annotated[int, option("Times that each row is computed again with GPUs renumbered at random.")]


def name(row: Row) -> str:
    """``a100x2 all-gather 1 GiB ForestColl``."""
    return f"{row.fabric} {row.collective} {size_words(row.nbytes)} {row.by}".rstrip()


def size_words(nbytes: float) -> str:
    """Bytes as published: in GiB if it is a whole number of them, else with decimal prefixes."""
    if nbytes % 2**30 == 0:
        return f"{nbytes / 2**30:g} GiB"
    power, prefix = next((p, word) for p, word in ((1e9, "GB"), (1e6, "MB"), (1e3, "KB")) if nbytes >= p)
    return f"{nbytes / power:g} {prefix}"


def figure(
    say=lambda line: None, rows: Chosen = None, time_limit: Limit = 60.0, permutations: Permutations = 0
) -> dict[str, Any]:
    """The fastest schedules found on published topologies.

    Parameters
    ----------
    rows : str or None
        Words of names with commas between: only rows whose names contain one are computed, and others are as
        in the results beside this script if they are there.
    time_limit : float
        s of wall time for each search, as of `wavefabric collective make optimal`.
    permutations : int
        For how many random orders of the GPUs each row is computed again.

    Returns
    -------
    dict
        ``rows``: for each ``fabric``, ``collective``, ``nbytes``, ``by``, ``published`` (s, 0 if none was
        found), ``source``, ``gpus``, ``seconds`` (None where no schedule was found, with the ``refusal``),
        ``flow`` (s, of the same schedule if transfers wait for their data alone; where published times count
        so, up to 10 MB of the fastest schedule by that model), ``alike`` (s, counted as the published time:
        `Row.counts`), ``bound`` (s, of any schedule), ``ratio`` (``alike`` over published, None without one),
        ``gap`` (seconds over the bound,
        minus 1), ``method``, ``rounds``, ``cpu`` (s, of the search), ``renumbered`` (lists of bound and
        seconds), ``reason``.
    """
    whole("permutations", permutations, 0, 100)
    positive(time_limit, "s", "time_limit")
    kept: dict[tuple, dict[str, Any]] = {}
    if rows is not None:
        beside = Path(__file__).with_suffix(".json")
        if beside.exists():
            kept = {
                tuple(one[key] for key in ("fabric", "collective", "nbytes", "by")): one
                for one in json.loads(beside.read_text(encoding="utf-8"))["rows"]
            }
        if not any(_named(row, rows) for row in ROWS):
            raise InputError(f"--rows: {rows} given; allowed: words of names, such as {name(ROWS[0])}")
    results = [
        _computed(row, time_limit, permutations, say) if _named(row, rows) else kept[row.key]
        for row in ROWS
        if _named(row, rows) or row.key in kept
    ]
    return {"benchmark": "topologies", "rows": [one | {"reason": reason(one)} for one in results]}


def _named(row: Row, words: str | None) -> bool:
    return words is None or any(word.strip() in name(row) for word in words.split(","))


def _computed(row: Row, time_limit: float, permutations: int, say) -> dict[str, Any]:
    say(name(row))
    fabric, before = load(FABRICS / f"{row.fabric}.toml"), _cpu_seconds()
    result: dict[str, Any] = vars(row) | {"gpus": fabric.ranks, "renumbered": [], "refusal": ""}
    try:
        fastest = fastest_schedule(row.collective, fabric, row.nbytes, until=now() + time_limit)
    except InputError as error:
        nothing = dict.fromkeys(("seconds", "flow", "alike", "bound", "ratio", "gap", "method", "rounds"))
        return result | nothing | {"cpu": _cpu_seconds() - before, "refusal": str(error)}
    cpu = _cpu_seconds() - before
    for seed in range(permutations):
        say(f"{name(row)}, renumbered {seed + 1} of {permutations}")
        order = random.Random(seed).sample(range(fabric.ranks), fabric.ranks)
        other = reordered(fabric, order)
        again = fastest_schedule(row.collective, other, row.nbytes, until=now() + time_limit).cost
        result["renumbered"].append([again.bound.seconds, again.seconds])
    element_bytes = row.nbytes / whole_elements(fastest.schedule)
    flow = cost(fastest.schedule, fabric, element_bytes, "flow").seconds
    if row.counts == "flow" and row.nbytes <= SMALL:
        searched = fastest_schedule(
            row.collective, fabric, row.nbytes, model="flow", until=now() + time_limit
        )
        flow = min(flow, searched.cost.seconds)
    # Transfers that may start at any time may also wait for the others of their round.
    alike = {"flow": min(flow, fastest.cost.seconds), "rounds": fastest.cost.seconds}.get(row.counts)
    if alike is None:
        links = tuple(replace(link, latency=0.0) for link in fabric.links)
        alike = cost(fastest.schedule, replace(fabric, links=links, alpha=0.0), element_bytes).seconds
    return result | {
        "seconds": fastest.cost.seconds,
        "flow": flow,
        "alike": alike,
        "bound": fastest.cost.bound.seconds,
        "ratio": alike / row.published if row.published else None,
        "gap": fastest.gap,
        "method": fastest.method,
        "rounds": fastest.schedule.communication_rounds,
        "cpu": cpu,
    }


def _cpu_seconds() -> float:
    """User and system time of this process and its children."""
    return sum(os.times()[:4])


def table(result: dict[str, Any]) -> list:
    """Times, ratios, renumbered GPUs; where published times are from, and why ours differ."""
    rows, why = [], []
    for one in result["rows"]:
        words = (one["fabric"], str(one["gpus"]), one["collective"], size_words(one["nbytes"]), one["by"])
        cells = [f"{one['published'] * 1e6:.2f}" if one["published"] else ""]
        if one["refusal"]:
            cells += ["none found", *[""] * 7]
        else:
            cells += [f"{one[key] * 1e6:.2f}" for key in ("seconds", "flow", "alike", "bound")]
            cells += [f"{one['ratio']:.3f}" if one["published"] else "", f"{1 + one['gap']:.3f}"]
            cells += [_spread(one), one["method"]]
        rows.append((*words, *cells, f"{one['cpu']:.1f}"))
        why.append((", ".join(filter(None, (words[0], *words[2:]))), one["reason"], one["source"]))
    words = "<topology|GPUs|<collective|size|<by|published µs|ours µs|flow µs|counted alike µs|bound µs"
    headings = f"{words}|alike/published|ours/bound|renumbered|<method|CPU s".split("|")
    return [
        report.table("fastest schedules on published topologies, α–β model", headings, rows),
        report.table("why", ("<row", "<reason", "<published in"), why, wrap=True),
    ]


def _spread(one: dict[str, Any]) -> str:
    """Least and largest time with GPUs renumbered, over the time in the file's order."""
    times = [seconds / one["seconds"] for _, seconds in one["renumbered"]]
    return f"{min(times):.3f}–{max(times):.3f}" if times else ""


def plot(result: dict[str, Any], path: Path) -> None:
    """Ratios to published times and to bounds as points, and the 2 % that is aimed at."""
    rows = [one for one in result["rows"] if not one["refusal"]][::-1]
    with report.figure(path, (7.2, 0.19 * len(rows) + 0.9)) as drawn:
        axes, at = drawn.subplots(), range(len(rows))
        axes.axvspan(0.98, 1.02, color=GREY, alpha=0.3, linewidth=0)
        bounds = [1 + one["gap"] for one in rows]
        axes.plot(bounds, at, "|", color=ORANGE, markersize=9, label="ours over the bound")
        ratios = [(one["ratio"], i) for i, one in enumerate(rows) if one["published"]]
        axes.plot(
            *zip(*ratios, strict=True),
            "o",
            color=BLUE,
            markersize=4,
            label="ours over published, counted alike",
        )
        words = [(one["fabric"], one["collective"], size_words(one["nbytes"]), one["by"]) for one in rows]
        names = [", ".join(filter(None, each)) for each in words]
        ratio_axes(axes, names, (0.4, 20), (0.5, 1, 2, 5, 10))
        axes.set_xlabel("time over published, and over the bound of any schedule")
        axes.legend(loc="lower right", fontsize=7)


main = command(__name__, figure)

if __name__ == "__main__":
    run(main)
