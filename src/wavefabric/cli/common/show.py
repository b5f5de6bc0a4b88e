"""Print the output of commands: tables, JSON, names of written files, and a status line."""

import contextlib
import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wavefabric.base.errors import visible
from wavefabric.base.units import in_units
from wavefabric.runtime.exchange.launch import environment

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text


def plain(value: Any) -> Any:
    """Convert ``value`` for JSON: NumPy to Python types, non-finite numbers to None, other things to text."""
    if isinstance(value, dict):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, (str, int, float)) else str(value)


def conclude(
    as_json: bool, facts: Any, written: Sequence[Path] | None = None, shown: Iterable[Any] = ()
) -> None:
    """Print ``facts`` as JSON, or the lines and tables ``shown``; and the names of the files ``written``."""
    if as_json:
        content = facts if written is None else {**facts, "written": written}
        print(json.dumps(plain(content), indent=2, allow_nan=False))
        return
    for each in shown:
        print(each) if isinstance(each, str) else console().print(each)
    print_written(written or ())


def print_written(paths: Iterable[Path]) -> None:
    """Print a line for each file that was written."""
    for path in paths:
        print(f"wrote {path}")


def console(markup: bool = False) -> "Console":
    """Return a console for tables, 120 columns wide without a terminal: 80 columns would cut tables.

    Several ranks use 120 columns too, since Open MPI gives each rank a pseudo-terminal.
    """
    from rich.console import Console

    own = sys.stdout.isatty() and environment.ranks() == 1
    return Console(highlight=False, markup=markup, width=None if own else 120)


def heading(title: str) -> "Text":
    """Return a line in bold; control characters in ``title``, which may come from a file, are escaped."""
    from rich.text import Text

    return Text(visible(title), style="bold")


def table(columns: Sequence[str], rows: Iterable[Iterable[str]] = (), title: str | None = None) -> "Table":
    """Return a table of numbers; ``<`` before a heading marks text that may wrap, ``|`` that may not."""
    from rich import box
    from rich.table import Table

    result = Table(title=title, box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in columns:
        justify, wraps = "left" if heading[0] in "<|" else "right", heading[0] == "<"
        result.add_column(heading.lstrip("<|"), justify=justify, no_wrap=not wraps, overflow="fold")
    for row in rows:
        result.add_row(*row)
    return result


def pairs_table(lines: Iterable[tuple[str, str]]) -> "Table":
    """Return a table, without rules and headings, of (name, value) pairs."""
    from rich.table import Column, Table

    columns = Column(style="bold", no_wrap=True), Column(overflow="fold")
    made = Table(*columns, show_header=False, box=None, pad_edge=False)
    for name, text in lines:
        made.add_row(name, visible(text))  # text of a file may have control characters
    return made


def rate_text(rate: float) -> str:
    """Return ``rate`` (B/s) as text with a suitable unit."""
    return in_units(rate, {"TB/s": 1e12, "GB/s": 1e9, "MB/s": 1e6, "B/s": 1.0}, 4)


@contextlib.contextmanager
def status_line(quiet: bool) -> Iterator[Callable[[str], None]]:
    """Yield a function that shows a text as status line on a terminal; the line vanishes at the end."""
    if quiet or not sys.stderr.isatty():
        yield lambda line: None
        return
    from rich.console import Console

    with Console(stderr=True).status("") as status:
        yield status.update
