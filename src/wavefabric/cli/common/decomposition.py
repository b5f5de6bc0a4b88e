"""Define the options that divide an ultrasound grid among ranks, and the traffic between these ranks."""

import math
from pathlib import Path
from typing import TYPE_CHECKING

from wavefabric.base.errors import InputError
from wavefabric.cli.common.options import changed, option, options, refuse
from wavefabric.cli.common.parse import parse_shape
from wavefabric.cli.common.ranks import PANEL, RankOptions

if TYPE_CHECKING:
    from wavefabric.acoustics.decomposition.decompose import Decomposition
    from wavefabric.collectives import Schedule

#: Names of the options that divide the grid.
GRID = ("decomposition", "grid", "overlap", "bell")


@options(PANEL)
class GridRankOptions(RankOptions):
    """Options of the number of ranks, and of the decomposition of an ultrasound grid among them."""

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
        """Return the checked decomposition that the options describe; None if none of them is set."""
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

        # The command line allows only the two kinds.
        return Decomposition(kind=self.decomposition or "global", grid=blocks, **local)  # type: ignore[arg-type]


def file_traffic(file: Path, ranks: int, options: "Decomposition | None") -> "Schedule":
    """Return the `traffic` of ``ranks`` ranks among which the grid of a k-Wave input file is divided."""
    from wavefabric.acoustics.kwave.format import Reader

    with Reader(file) as reader:
        x, y, z = (int(reader.scalar(name)) for name in ("Nx", "Ny", "Nz"))
    return traffic((x, y, z), ranks, options)


def traffic(shape: tuple[int, int, int], ranks: int, options: "Decomposition | None") -> "Schedule":
    """Return the most frequent exchange between ranks among which a grid (Nx, Ny, Nz) is divided."""
    from wavefabric.acoustics.decomposition.decompose import decompose
    from wavefabric.fabric.planner.ultrasound_step import busiest_exchange

    return busiest_exchange(decompose(shape, ranks, options))
