"""Options that the commands of `wavefabric bench` share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

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


def grid(text: str) -> tuple[int, int, int]:
    """Points along x, y and z."""
    words = text.lower().replace(" ", "").split("x")
    if len(words) not in (1, 3) or not all(word.isdecimal() for word in words):
        raise InputError(f"--size: {text!r} given; allowed: N or NXxNYxNZ, such as 128 or 256x128x128")
    numbers = [int(word) for word in words]
    x, y, z = numbers * (3 // len(numbers))
    return x, y, z
