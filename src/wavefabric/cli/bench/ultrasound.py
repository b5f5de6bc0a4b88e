"""`wavefabric bench ultrasound-…`: time steps on one device and over ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wavefabric.cli.bench.options import (
    Local,
    Medium,
    Overlap,
    OverRanks,
    Precision,
    Size,
    parse_blocks,
    parse_media,
    parse_points,
    parse_whole_numbers,
)
from wavefabric.cli.common.measure import Repeats
from wavefabric.cli.common.parse import parse_list
from wavefabric.errors import InputError


def step(
    common: Local,
    sizes: Annotated[
        list[str] | None,
        typer.Option(
            "--size",
            help="Points, N or NXxNYxNZ; may be repeated. \\[default: 128 on a CPU, 256 and 512 on a GPU]",
        ),
    ] = None,
    medium: Medium = "both",
    precision: Precision = "single",
    repeats: Annotated[int, typer.Option("--repeats", help="Rounds; medians count.")] = 15,
    plain: Annotated[
        bool, typer.Option("--plain/--no-plain", help="Time stages of whole-array transforms too.")
    ] = True,
    peer: Annotated[
        Path | None,
        typer.Option("--peer", help="kspaceFirstOrder-OMP or -CUDA, to be run on the same problems."),
    ] = None,
) -> None:
    """Cost of one ultrasound time step: time against bare 3-D transforms, passes over the data, memory."""
    from wavefabric.bench import ultrasound_step as module

    shapes = [parse_points(text) for text in sizes or []]
    common.run(module, shapes, parse_media(medium), precision, repeats, plain, peer)


def breakdown(
    common: OverRanks,
    size: Size = None,
    overlaps: Annotated[str, typer.Option("--overlaps", help="Points, comma between.")] = "2,4,8,16,32",
    grids: Annotated[
        list[str] | None,
        typer.Option(
            "--grid", help="Blocks along x, y and z; may be repeated. \\[default: all along z, and even]"
        ),
    ] = None,
    medium: Medium = "homogeneous",
    precision: Precision = "single",
    repeats: Repeats = 5,
) -> None:
    """Where a step of the local decomposition spends its time: compute, pack, exchange, idle; by overlap."""
    from wavefabric.bench import ultrasound_breakdown as module

    shape = parse_points(size) if size else None
    widths, blocks = parse_whole_numbers(overlaps, "--overlaps"), [parse_blocks(text) for text in grids or []]
    common.run(module, shape, widths, blocks, parse_media(medium), precision, repeats)


def local_vs_global(
    common: OverRanks,
    sizes: Annotated[
        list[str] | None,
        typer.Option("--size", help="Points of the whole grid, N or NXxNYxNZ; may be repeated."),
    ] = None,
    medium: Medium = "homogeneous",
    overlap: Overlap = 16,
    blocks: Annotated[
        str | None, typer.Option("--grid", help="Blocks along x, y and z, such as 1x2x2.")
    ] = None,
    precision: Precision = "single",
    repeats: Repeats = 5,
) -> None:
    """A step of the global decomposition over one of the local, by size and transport."""
    from wavefabric.bench import local_vs_global as module

    shapes, cut = [parse_points(text) for text in sizes or []], parse_blocks(blocks) if blocks else None
    common.run(module, shapes, parse_media(medium), overlap, cut, precision, repeats)


def scaling(
    common: OverRanks,
    block: Annotated[
        int | None,
        typer.Option("--block", help="Weak: a rank owns so many points cubed. \\[default: 48, GPU 512]"),
    ] = None,
    total: Annotated[
        int | None,
        typer.Option("--total", help="Strong: so many points cubed together. \\[default: 64, GPU 1024]"),
    ] = None,
    kinds: Annotated[str, typer.Option("--kinds", help="weak, strong, comma between.")] = "weak,strong",
    forms: Annotated[str, typer.Option("--forms", help="local, global, comma between.")] = "local,global",
    medium: Medium = "homogeneous",
    overlap: Overlap = 16,
    precision: Precision = "single",
    repeats: Repeats = 5,
    earlier: Annotated[
        list[Path] | None,
        typer.Option("--from", help="JSON of a run on other ranks, shown with this one; may be repeated."),
    ] = None,
) -> None:
    """Owned points a second and rank, of grids that grow with the ranks and of one that does not."""
    from wavefabric.bench import ultrasound_scaling as module

    for key, value in (("--block", block), ("--total", total)):
        if value is not None and value < 8:
            raise InputError(f"{key}: {value} given; allowed: 8 points or more")
    sizes = block, total, parse_list(kinds), parse_list(forms)
    common.run(module, *sizes, parse_media(medium), overlap, precision, repeats, earlier or (), least=1)


def cuts(
    common: OverRanks,
    size: Size = None,
    placements: Annotated[
        str,
        typer.Option(
            "--placements", help="identity, reversed, round-robin, such as 0-2-1-3, comma between; or all."
        ),
    ] = "identity,round-robin",
    medium: Medium = "homogeneous",
    overlap: Overlap = 16,
    precision: Precision = "single",
    repeats: Repeats = 5,
) -> None:
    """A step of one grid in every cut into blocks, and with the blocks on other devices."""
    from wavefabric.bench import ultrasound_cuts as module

    shape = parse_points(size) if size else None
    common.run(module, shape, parse_list(placements), medium, overlap, precision, repeats)


COMMANDS = {
    "ultrasound-step": step,
    "ultrasound-breakdown": breakdown,
    "ultrasound-scaling": scaling,
    "ultrasound-cuts": cuts,
    "local-vs-global": local_vs_global,
}
