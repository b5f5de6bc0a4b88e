"""Options of how ranks share an ultrasound grid."""

import math
from pathlib import Path
from typing import TYPE_CHECKING

from wavefabric.cli.common.options import changed, option, options, refuse
from wavefabric.cli.common.parse import parse_shape
from wavefabric.cli.common.ranks import PANEL, RankOptions
from wavefabric.errors import InputError

if TYPE_CHECKING:
    from wavefabric.acoustics.decomposition.decompose import Decomposition
    from wavefabric.collectives import Schedule

#: Options of how the grid is shared.
GRID = ("decomposition", "grid", "overlap", "bell")


@options(PANEL)
class GridRankOptions(RankOptions):
    """Options of how many ranks there are, and how they share the grid."""

    decomposition: str | None = option(
        "{wavefabric.acoustics.decomposition.decompose:KINDS}: exact, or with less communication, "
        "approximate. [default: global]"
    )
    grid: str | None = option("Blocks along x, y and z, such as 1x2x2. [default: chosen]")
    overlap: int | None = option(
        "Local: points of overlap on each side of a block. [default: 16]", limits=(1,)
    )
    bell: str | None = option(
        "Local: window on the overlaps of a block: {wavefabric.acoustics.decomposition.window:WINDOWS}. "
        "[default: nested-sine]"
    )

    def shared(self) -> "Decomposition | None":
        """Return what was asked for of the grid, checked; None if nothing was."""
        inputs = changed(self, *GRID)
        if not inputs:
            return None
        if self.count == 1:
            refuse(inputs, "for one rank", "with --ranks 2 or more")
        local = changed(self, "overlap", "bell")
        if self.decomposition != "local":
            refuse(local, "without --decomposition local", "with it")
        blocks = None
        if self.grid is not None:
            allowed = "KXxKYxKZ blocks along x, y and z, such as 1x2x2"
            blocks = parse_shape(self.grid, "--grid", allowed, (3,))
            if (count := math.prod(blocks)) != self.count:
                allowed = f"as many as ranks, {self.count}"
                raise InputError(f"--grid: {self.grid} is {count} blocks; allowed: {allowed}")
        from wavefabric.acoustics.decomposition.decompose import Decomposition

        # The command line has allowed no other word: ``kind`` is one of two.
        return Decomposition(kind=self.decomposition or "global", grid=blocks, **local)  # type: ignore[arg-type]


def file_traffic(file: Path, ranks: int, options: "Decomposition | None") -> "Schedule":
    """`traffic` of the grid of a k-Wave file."""
    from wavefabric.acoustics.kwave.format import Reader

    with Reader(file) as reader:
        x, y, z = (int(reader.scalar(name)) for name in ("Nx", "Ny", "Nz"))
    return traffic((x, y, z), ranks, options)


def traffic(shape: tuple[int, int, int], ranks: int, options: "Decomposition | None") -> "Schedule":
    """Return what ranks that share a grid exchange most often."""
    from wavefabric.acoustics.decomposition.decompose import decompose
    from wavefabric.planner.ultrasound import busiest_exchange

    return busiest_exchange(decompose(shape, ranks, options))
