"""What benchmarks share: checks of their options, the frame of a result, rows of tables."""

import math
from collections.abc import Callable, Iterable
from typing import Any

from wavefabric.device import Device
from wavefabric.errors import choice
from wavefabric.execution import report, timing
from wavefabric.execution.timing import Ranks

Triple = tuple[int, int, int]


def silent(line: str) -> None:
    """Progress that nobody sees."""


def check_words(key: str, inputs: Iterable[str], allowed: Iterable[str]) -> None:
    """Refuse a word that is not one of those allowed."""
    for word in inputs:
        choice(key, word, tuple(allowed))


def calls(device: Device, work: Callable[[], Any], sample_ms: float) -> int:
    """How many calls make a sample long enough for the clock."""
    first = timing.milliseconds(device, work, 1)[0]
    return min(200, math.ceil(sample_ms / max(first, 1e-3)))


def result_of(ranks: Ranks, benchmark: str, cases: list[dict[str, Any]], **facts: Any) -> dict[str, Any]:
    """The result of a benchmark over ranks: its facts and cases, transports that are missing, the machine."""
    frame = {"benchmark": benchmark, "ranks": ranks.size, **facts, "cases": cases}
    return frame | {"unavailable": ranks.unavailable, "machine": ranks.machine()}


def rows(cases: Iterable[dict[str, Any]], *cells: str) -> list[list[str]]:
    """A row a case, with a cell for each format, such as ``{ms:.3g}``; ``{via}`` is the transport's name."""
    return [
        [cell.format(**case, via=report.transport_name(case.get("transport", ""))) for cell in cells]
        for case in cases
    ]


def percent(fraction: float | None) -> str:
    """A share as a whole percentage."""
    return "-" if fraction is None else f"{fraction * 100:.0f} %"
