"""What the commands of `wavefabric bench` share: options, what is being measured, tables and files."""

from __future__ import annotations

import json
import math
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer

from wavefabric.errors import InputError

Json = Annotated[bool, typer.Option("--json", help="Print all numbers as JSON and nothing else.")]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="Folder for the picture and the numbers (JSON). \\[default: .]"),
]
Plot = Annotated[
    bool | None,
    typer.Option(
        "--plot/--no-plot", help="Draw the picture. \\[default: yes; with --json if --output is given]"
    ),
]


def words(text: str) -> list[str]:
    """What stands between commas."""
    return [word.strip() for word in text.split(",") if word.strip()]


def grid(text: str) -> tuple[int, int, int]:
    """Points along x, y and z."""
    words = text.lower().replace(" ", "").split("x")
    if len(words) not in (1, 3) or not all(word.isdecimal() for word in words):
        raise InputError(f"--size: {text!r} given; allowed: N or NXxNYxNZ, such as 128 or 256x128x128")
    numbers = [int(word) for word in words]
    x, y, z = numbers * (3 // len(numbers))
    return x, y, z


class Status:
    """What is being measured, on a terminal only; gone when done."""

    def __init__(self, quiet: bool):
        self._status: Any = None
        if not quiet and sys.stderr.isatty():
            from rich.console import Console

            self._status = Console(stderr=True).status("")

    def __enter__(self):
        if self._status is not None:
            self._status.start()
        return self._say

    def _say(self, line: str) -> None:
        if self._status is not None:
            self._status.update(line)

    def __exit__(self, *_):
        if self._status is not None:
            self._status.stop()


def tables(markup: bool = True):
    """A console for tables, which are for reading whole: 80 columns would cut them.

    So many are assumed where there is no terminal; also under Open MPI, which shows ranks one of its own.
    """
    from rich.console import Console

    from wavefabric.exchange.launch import environment

    own = sys.stdout.isatty() and environment.ranks() == 1
    return Console(highlight=False, markup=markup, width=None if own else 120)


def check_free(name: str, folder: Path | None, plot: bool, force: bool) -> None:
    """Refuse to replace what `show` would write, before anything is measured.

    Parameters
    ----------
    name : str
        Of the benchmark: ``show`` writes ``NAME.json`` with a folder, and ``NAME.png`` if it draws.
    folder : Path or None
        None: the picture goes to the working folder.
    plot, force : bool

    Raises
    ------
    InputError
    """
    written = ([f"{name}.json"] if folder is not None else []) + ([f"{name}.png"] if plot else [])
    for path in ((folder or Path()) / each for each in written):
        if path.exists() and not force:
            raise InputError(f"--output: {path} exists; allowed: another folder, or --force")
        if os.path.lexists(path) and (path.is_symlink() or not path.is_file()):
            raise InputError(f"--output: {path} is no regular file; allowed: another folder")


def show(module: ModuleType, result: dict[str, Any], as_json: bool, output: Path | None, plot: bool | None):
    """Print tables or JSON; write picture and numbers."""
    name, written = result["benchmark"], []
    result = _plain(result)
    folder = output or Path()
    if plot is None:
        plot = not as_json or output is not None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if output is not None:
            numbers = folder / f"{name}.json"
            numbers.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
            written.append(numbers)
        if plot:
            picture = folder / f"{name}.png"
            written += module.plot(result, picture) or [picture]
    except OSError as error:
        raise InputError(f"--output: {folder} cannot be used ({error.strerror})") from None
    if as_json:
        typer.echo(json.dumps(result))
        return
    console = tables()
    for each in module.table(result):
        console.print(each)
    machine = result.get("machine", {})
    chip = machine.get("gpu") or f"{machine.get('cpu', '?')}, {machine.get('threads', '?')} threads"
    console.print(f"{machine.get('device', '?')}: {chip}; wavefabric {machine.get('wavefabric', '?')}")
    for path in written:
        console.print(f"wrote {path}", soft_wrap=True, markup=False)


def _plain(value: Any) -> Any:
    """Values that JSON has; what is not finite becomes null."""
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value
