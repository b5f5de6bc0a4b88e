"""Tables of benchmarks as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; columns whose heading begins with ``<`` are to the left, others to the right."""
    heads = [_cell(heading.lstrip("<")) for heading in columns]
    rules = ["---" if heading.startswith("<") else "--:" for heading in columns]
    lines = [heads, rules, *([_cell(text) for text in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def block(shown: Any) -> str:
    """A paragraph or table of what ``table(result)`` of a benchmark gives: a line, a `rich.table.Table`."""
    if isinstance(shown, str):
        return shown
    columns = [("<" if column.justify == "left" else "") + str(column.header) for column in shown.columns]
    rows = zip(*(map(str, column.cells) for column in shown.columns), strict=True)
    pieces = [f"**{shown.title}**" if shown.title else "", table(columns, rows), str(shown.caption or "")]
    return "\n\n".join(filter(None, pieces))


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
