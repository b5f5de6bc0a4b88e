"""Options of how ranks share an ultrasound grid."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wavefabric.cli.common.ranks import RankOptions
from wavefabric.errors import InputError

if TYPE_CHECKING:
    from wavefabric.acoustics.parallel.decomposition import Options
    from wavefabric.collectives import Schedule

_PANEL = "Several ranks"
KINDS = ("global", "local")
BELLS = ("none", "cosine", "nested-sine", "erf")

Kind = Annotated[
    str | None,
    typer.Option(
        "--decomposition",
        help="global: exact; local: less communication, approximate. \\[default: global]",
        rich_help_panel=_PANEL,
    ),
]
Grid = Annotated[
    str | None,
    typer.Option(
        "--grid", help="Blocks along x, y and z, such as 1x2x2. \\[default: chosen]", rich_help_panel=_PANEL
    ),
]
Overlap = Annotated[
    int | None,
    typer.Option(
        "--overlap",
        help="Local: points of overlap on each side of a block. \\[default: 16]",
        rich_help_panel=_PANEL,
    ),
]
Bell = Annotated[
    str | None,
    typer.Option(
        "--bell",
        help=f"Local: how a block fades out: {', '.join(BELLS)}. \\[default: nested-sine]",
        rich_help_panel=_PANEL,
    ),
]


def read_options(
    kind: str | None, grid: str | None, overlap: int | None, bell: str | None, ranks: RankOptions
) -> Options | None:
    """What was asked for, None if nothing was.

    Raises
    ------
    InputError
        For values that are not allowed, or not together.
    """
    given = [("--decomposition", kind), ("--grid", grid), ("--overlap", overlap), ("--bell", bell)]
    given = [(name, value) for name, value in given if value is not None]
    if not given:
        return None
    if ranks.count == 1:
        name, value = given[0]
        raise InputError(f"{name}: {value} given for one rank; allowed: with --ranks 2 or more")
    if kind not in (None, *KINDS):
        raise InputError(f"--decomposition: {kind} given; allowed: {', '.join(KINDS)}")
    for name, value in (("--overlap", overlap), ("--bell", bell)):
        if value is not None and kind != "local":
            raise InputError(f"{name}: {value} given without --decomposition local; allowed: with it")
    if overlap is not None and overlap < 1:
        raise InputError(f"--overlap: {overlap} given; allowed: a whole number of points from 1")
    if bell not in (None, *BELLS):
        raise InputError(f"--bell: {bell} given; allowed: {', '.join(BELLS)}")
    blocks = None if grid is None else _blocks(grid, ranks.count)
    from wavefabric.acoustics.parallel.decomposition import Options

    more = {name: value for name, value in (("overlap", overlap), ("bell", bell)) if value is not None}
    return Options(kind=kind or "global", grid=blocks, **more)  # type: ignore[arg-type]


def _blocks(text: str, ranks: int) -> tuple[int, int, int]:
    parts = text.lower().replace(" ", "").split("x")
    if len(parts) != 3 or not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise InputError(f"--grid: {text} given; allowed: KXxKYxKZ blocks along x, y and z, such as 1x2x2")
    x, y, z = (int(part) for part in parts)
    if math.prod((x, y, z)) != ranks:
        raise InputError(f"--grid: {text} is {x * y * z} blocks; allowed: as many as ranks, {ranks}")
    return x, y, z


def traffic(file: Path, ranks: int, options: Options | None) -> Schedule:
    """What ranks that share the grid of a k-Wave file exchange most often.

    Local: one filling of all overlaps. Global: the transposes of one transform.

    Raises
    ------
    InputError
        If the grid cannot be shared so.
    """
    from wavefabric.acoustics.parallel.decomposition import decompose, halo_messages
    from wavefabric.collectives import point_to_point
    from wavefabric.spectral.distributed import boxes, transpose_messages

    found = decompose(_shape(file), ranks, options)
    if found.options.kind == "local":
        moved = halo_messages(found)
    else:
        _, *layouts = boxes(found.shape, found.grid)
        moved = [m for a, b in pairwise(layouts) for m in transpose_messages(a, b)]
    sizes = [
        (m.src, m.dst, math.prod(part.stop - part.start for part in m.src_box))
        for m in moved
        if m.src != m.dst
    ]
    return point_to_point(found.options.kind, ranks, sizes)


def _shape(file: Path) -> tuple[int, int, int]:
    from wavefabric.acoustics.kwave.format import Reader

    with Reader(file) as given:
        x, y, z = (int(given.scalar(name, "long")) for name in ("Nx", "Ny", "Nz"))
    return x, y, z
