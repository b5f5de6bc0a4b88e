"""Provide code for all benchmarks: numbers of calls, the common part of results, rows of tables."""

import math
from collections.abc import Callable, Iterable
from typing import Any

from wavefabric.fabric.execution import report, timing
from wavefabric.fabric.execution.timing import Ranks
from wavefabric.runtime.device import Device

Triple = tuple[int, int, int]


def silent(line: str) -> None:
    """Ignore a line of progress."""


def calls(device: Device, work: Callable[[], Any], sample_ms: float) -> int:
    """Return how many calls of ``work`` take about ``sample_ms`` ms, at most 200."""
    first = timing.milliseconds(device, work, 1)[0]
    return min(200, math.ceil(sample_ms / max(first, 1e-3)))


def result_of(ranks: Ranks, benchmark: str, cases: list[dict[str, Any]], **facts: Any) -> dict[str, Any]:
    """Return the result of a benchmark over ranks: facts, cases, unavailable transports, the machine."""
    frame = {"benchmark": benchmark, "ranks": ranks.size, **facts, "cases": cases}
    return frame | {"unavailable": ranks.unavailable, "machine": ranks.machine()}


def rows(cases: Iterable[dict[str, Any]], *cells: str) -> list[list[str]]:
    """Return a table row per case, with a cell for each format in ``cells``, such as ``{ms:.3g}``.

    ``{via}`` is the name of the case's transport.
    """
    return [
        [cell.format(**case, via=report.transport_name(case.get("transport", ""))) for cell in cells]
        for case in cases
    ]


def percent(fraction: float | None) -> str:
    """Return a fraction as a whole percentage, "-" for None."""
    return "-" if fraction is None else f"{fraction * 100:.0f} %"
