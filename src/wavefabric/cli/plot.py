"""`wavefabric plot`: figures from a result file."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Format(StrEnum):
    """File formats of a figure."""

    png = "png"
    pdf = "pdf"
    svg = "svg"


def command(
    file: Annotated[Path, typer.Argument(help="Result file (HDF5) of a run.", show_default=False)],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder for the figures. \\[default: beside FILE]")
    ] = None,
    kind: Annotated[Format, typer.Option("--format", help="Picture (png) or vectors.")] = Format.png,
) -> None:
    """Draw Q² per spatial mode, the penalty against back-to-back, and constellations."""
    from wavefabric.cli.ranks import first
    from wavefabric.results.plots import plot_result

    if not first():
        return

    for path in plot_result(file, output, kind.value):
        typer.echo(f"wrote {path}")
