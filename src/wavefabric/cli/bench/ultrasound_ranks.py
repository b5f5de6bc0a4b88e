"""`wavefabric bench`: ultrasound time steps over ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wavefabric.cli.bench.show import Json, Output, Plot, grid
from wavefabric.cli.common import ranks as cli_ranks
from wavefabric.cli.common.measure import Device, RankSession, Repeats, Threads, Transports
from wavefabric.cli.common.parse import parse_list
from wavefabric.errors import InputError

Size = Annotated[
    str | None, typer.Option("--size", help="Points of the whole grid, N or NXxNYxNZ. \\[default: by device]")
]
Sizes = Annotated[
    list[str] | None,
    typer.Option("--size", help="Points of the whole grid, N or NXxNYxNZ; may be repeated."),
]
Medium = Annotated[str, typer.Option("--medium", help="homogeneous, heterogeneous, or both.")]
Precision = Annotated[str, typer.Option("--precision", help="single or double.")]
Overlap = Annotated[int, typer.Option("--overlap", help="Points on each side of a block.")]
Overlaps = Annotated[str, typer.Option("--overlaps", help="Points, comma between.")]
Blocks = Annotated[str | None, typer.Option("--grid", help="Blocks along x, y and z, such as 1x2x2.")]
_ALL_OVERLAPS = "2,4,8,16,32"


def register(bench: typer.Typer) -> None:
    """Add the benchmarks of ultrasound over ranks to ``bench``."""
    bench.command("ultrasound-breakdown")(ultrasound_breakdown)
    bench.command("local-error")(local_error)
    bench.command("local-vs-global")(local_vs_global)
    bench.command("ultrasound-scaling")(ultrasound_scaling)
    bench.command("ultrasound-cuts")(ultrasound_cuts)


def ultrasound_breakdown(
    transports: Transports = "all",
    size: Size = None,
    overlaps: Overlaps = _ALL_OVERLAPS,
    grids: Annotated[
        list[str] | None,
        typer.Option(
            "--grid", help="Blocks along x, y and z; may be repeated. \\[default: all along z, and even]"
        ),
    ] = None,
    medium: Medium = "homogeneous",
    precision: Precision = "single",
    repeats: Repeats = 5,
    ranks: cli_ranks.Ranks = None,
    placement: cli_ranks.Placement = None,
    device: Device = "auto",
    threads: Threads = None,
    as_json: Json = False,
    output: Output = None,
    plot: Plot = None,
) -> None:
    """Where a step of the local decomposition spends its time: compute, pack, exchange, idle; by overlap."""
    from wavefabric.bench import ultrasound_breakdown as module

    shape = grid(size) if size else None
    widths, blocks = _whole(overlaps, "--overlaps"), [_blocks(text) for text in grids or []]
    with RankSession(ranks, transports, placement, device, threads, as_json) as job:
        result = module.run(
            job.ranks, shape, widths, blocks, _media(medium), precision, repeats, progress=job.say
        )
        job.show(module, result, output, plot)


def local_error(
    size: Size = None,
    overlaps: Overlaps = _ALL_OVERLAPS,
    bells: Annotated[
        str, typer.Option("--bells", help="none, cosine, nested-sine, erf, comma between, or all.")
    ] = "all",
    medium: Medium = "both",
    blocks: Blocks = None,
    steps: Annotated[
        int, typer.Option("--steps", help="Time steps; a wave travels 0.3 points in each.")
    ] = 150,
    precision: Precision = "double",
    ranks: cli_ranks.Ranks = None,
    placement: cli_ranks.Placement = None,
    device: Device = "auto",
    threads: Threads = None,
    as_json: Json = False,
    output: Output = None,
    plot: Plot = None,
) -> None:
    """Error of the local decomposition against one rank, by overlap and bell."""
    from wavefabric.acoustics.parallel.window import BELLS
    from wavefabric.bench import local_error as module

    shape = grid(size) if size else None
    widths, cut = _whole(overlaps, "--overlaps"), _blocks(blocks) if blocks else None
    kinds = BELLS if bells == "all" else parse_list(bells)
    with RankSession(ranks, "mpi", placement, device, threads, as_json) as job:
        result = module.run(job.ranks, shape, widths, kinds, _media(medium), cut, steps, precision, job.say)
        job.show(module, result, output, plot)


def local_vs_global(
    transports: Transports = "all",
    sizes: Sizes = None,
    medium: Medium = "homogeneous",
    overlap: Overlap = 16,
    blocks: Blocks = None,
    precision: Precision = "single",
    repeats: Repeats = 5,
    ranks: cli_ranks.Ranks = None,
    placement: cli_ranks.Placement = None,
    device: Device = "auto",
    threads: Threads = None,
    as_json: Json = False,
    output: Output = None,
    plot: Plot = None,
) -> None:
    """A step of the global decomposition over one of the local, by size and transport."""
    from wavefabric.bench import local_vs_global as module

    shapes, cut = [grid(text) for text in sizes or []], _blocks(blocks) if blocks else None
    with RankSession(ranks, transports, placement, device, threads, as_json) as job:
        result = module.run(job.ranks, shapes, _media(medium), overlap, cut, precision, repeats, job.say)
        job.show(module, result, output, plot)


def ultrasound_scaling(
    transports: Transports = "all",
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
        typer.Option("--from", help="JSON of a run on other ranks, shown beside; may be repeated."),
    ] = None,
    ranks: cli_ranks.Ranks = None,
    placement: cli_ranks.Placement = None,
    device: Device = "auto",
    threads: Threads = None,
    as_json: Json = False,
    output: Output = None,
    plot: Plot = None,
) -> None:
    """Owned points a second and rank, of grids that grow with the ranks and of one that does not."""
    from wavefabric.bench import ultrasound_scaling as module

    for key, value in (("--block", block), ("--total", total)):
        if value is not None and value < 8:
            raise InputError(f"{key}: {value} given; allowed: 8 points or more")
    with RankSession(ranks, transports, placement, device, threads, as_json, least=1) as job:
        result = module.run(
            job.ranks,
            block,
            total,
            parse_list(kinds),
            parse_list(forms),
            _media(medium),
            overlap,
            precision,
            repeats,
            earlier or (),
            job.say,
        )
        job.show(module, result, output, plot)


def ultrasound_cuts(
    transports: Transports = "all",
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
    ranks: cli_ranks.Ranks = None,
    placement: cli_ranks.Placement = None,
    device: Device = "auto",
    threads: Threads = None,
    as_json: Json = False,
    output: Output = None,
    plot: Plot = None,
) -> None:
    """A step of one grid in every cut into blocks, and with the blocks on other devices."""
    from wavefabric.bench import ultrasound_cuts as module

    shape = grid(size) if size else None
    with RankSession(ranks, transports, placement, device, threads, as_json) as job:
        result = module.run(
            job.ranks, shape, parse_list(placements), medium, overlap, precision, repeats, job.say
        )
        job.show(module, result, output, plot)


def _media(text: str) -> list[str]:
    from wavefabric.bench.ultrasound_cases import MEDIA

    return list(MEDIA) if text == "both" else [text]


def _whole(text: str, key: str) -> list[int]:
    found = parse_list(text)
    if not found or not all(word.isdecimal() and int(word) for word in found):
        raise InputError(f"{key}: {text!r} given; allowed: whole numbers from 1, comma between")
    return [int(word) for word in found]


def _blocks(text: str) -> tuple[int, int, int]:
    parts = text.lower().replace(" ", "").split("x")
    if len(parts) != 3 or not all(part.isdecimal() and int(part) for part in parts):
        raise InputError(f"--grid: {text!r} given; allowed: blocks along x, y and z, such as 1x2x2")
    x, y, z = map(int, parts)
    return x, y, z
