"""Options and their parsing that the commands of `wavefabric bench` share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer

from wavefabric.cli.common import measure
from wavefabric.cli.common import ranks as common_ranks
from wavefabric.cli.common.parse import parse_list
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
Size = Annotated[
    str | None, typer.Option("--size", help="Points of the whole grid, N or NXxNYxNZ. \\[default: by device]")
]
Medium = Annotated[str, typer.Option("--medium", help="homogeneous, heterogeneous, or both.")]
Precision = Annotated[str, typer.Option("--precision", help="single or double.")]
Overlap = Annotated[int, typer.Option("--overlap", help="Points on each side of a block.")]


@dataclass
class Local:
    """Options of every benchmark of one process."""

    device: Annotated[str, typer.Option("--device", help="auto, cpu, cuda or cuda:K.")] = "auto"
    threads: Annotated[int | None, typer.Option("--threads", help="CPU threads. \\[default: all]")] = None
    as_json: Json = False
    output: Output = None
    plot: Plot = None

    def run(self, module: ModuleType, *arguments: Any) -> None:
        """Run a module of `wavefabric.bench`, print its tables and write its files."""
        from wavefabric.cli.common.show import StatusLine

        with StatusLine(self.as_json) as say:
            result = module.run(*arguments, device=self.device, threads=self.threads, progress=say)
        measure.show_measurement(module, result, self.as_json, self.output, self.plot)


@dataclass
class OverRanks:
    """Options of every benchmark over ranks."""

    transports: measure.Transports = "all"
    ranks: common_ranks.Ranks = None
    placement: common_ranks.Placement = None
    device: measure.Device = "auto"
    threads: measure.Threads = None
    as_json: Json = False
    output: Output = None
    plot: Plot = None

    def run(self, module: ModuleType, *arguments: Any, least: int = 2) -> None:
        """Run a module of `wavefabric.bench` on all ranks; rank 0 prints and writes."""
        with measure.RankSession(
            self.ranks, self.transports, self.placement, self.device, self.threads, self.as_json, least
        ) as session:
            result = module.run(session.ranks, *arguments, progress=session.say)
            session.show(module, result, self.output, self.plot)


def parse_points(text: str) -> tuple[int, int, int]:
    """Points along x, y and z: ``N`` or ``NXxNYxNZ``."""
    words = text.lower().replace(" ", "").split("x")
    if len(words) not in (1, 3) or not all(word.isdecimal() for word in words):
        raise InputError(f"--size: {text!r} given; allowed: N or NXxNYxNZ, such as 128 or 256x128x128")
    x, y, z = [int(word) for word in words] * (3 // len(words))
    return x, y, z


def parse_blocks(text: str) -> tuple[int, int, int]:
    """Blocks along x, y and z: ``1x2x2``."""
    words = text.lower().replace(" ", "").split("x")
    if len(words) != 3 or not all(word.isdecimal() and int(word) for word in words):
        raise InputError(f"--grid: {text!r} given; allowed: blocks along x, y and z, such as 1x2x2")
    x, y, z = map(int, words)
    return x, y, z


def parse_whole_numbers(text: str, key: str) -> list[int]:
    """Whole numbers from 1 with commas between."""
    words = parse_list(text)
    if not words or not all(word.isdecimal() and int(word) for word in words):
        raise InputError(f"{key}: {text!r} given; allowed: whole numbers from 1, comma between")
    return [int(word) for word in words]


def parse_media(text: str) -> list[str]:
    """One medium, or both."""
    from wavefabric.bench.ultrasound_cases import MEDIA

    return list(MEDIA) if text == "both" else [text]
