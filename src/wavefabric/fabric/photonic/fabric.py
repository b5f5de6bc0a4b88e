"""A photonic fabric: a grid of tiles, each with lasers, photodiodes and switches, joined by waveguides."""

from dataclasses import dataclass
from typing import Annotated

from wavefabric.fabric.photonic.link_budget import LinkBudget


@dataclass(frozen=True)
class PhotonicFabric:
    """Tiles of one or more wafers, over which circuits are set up as they are needed.

    Rank r is the tile in row ``r // columns`` and column ``r % columns``.
    """

    name: str
    rows: int  # tiles in all
    columns: int
    wafer_rows: int  # tiles of one wafer; neighbours on two wafers are joined by fibres
    wafer_columns: int
    lasers: int  # wavelengths that a tile can send at once, and receive at once (photodiodes)
    serdes_ports: int | None  # wavelengths that the chip on a tile can drive at once; None: all
    laser_bandwidth: Annotated[float, "B/s"]  # of one wavelength
    waveguides: int  # between neighbouring tiles of one wafer, in each direction
    fibres: int  # of two wafers
    alpha: Annotated[float, "s"]  # of a round
    reconfiguration: Annotated[float, "s"]  # to set up its circuits (Mach–Zehnder switches)
    synchronisation: Annotated[float, "s"] = 0.0  # between the GPUs and the controller
    tile_pitch: Annotated[float, "m"] = 0.025  # between centres of neighbouring tiles
    description: str = ""
    source: str = ""  # where the numbers are from, for people
    budget: LinkBudget | None = None  # of its circuits; None: typical numbers

    @property
    def ranks(self) -> int:
        """Number of tiles."""
        return self.rows * self.columns

    @property
    def ports(self) -> int:
        """Wavelengths that a tile can use at once in each direction."""
        return self.lasers if self.serdes_ports is None else min(self.lasers, self.serdes_ports)

    @property
    def bandwidth(self) -> float:
        """B/s that a tile can send in all."""
        return self.ports * self.laser_bandwidth

    def capacity(self, a: int, b: int) -> int:
        """Waveguides, or fibres, from tile a to its neighbour b."""
        return self.waveguides if self.wafer(a) == self.wafer(b) else self.fibres

    def wafer(self, tile: int) -> tuple[int, int]:
        """Row and column of the wafer that a tile is on."""
        row, column = divmod(tile, self.columns)
        return row // self.wafer_rows, column // self.wafer_columns

    def edges(self) -> list[tuple[int, int]]:
        """Neighbouring tiles, both directions, in order."""
        right = [(tile, tile + 1) for tile in range(self.ranks) if (tile + 1) % self.columns]
        below = [(tile, tile + self.columns) for tile in range(self.ranks - self.columns)]
        there = right + below
        return sorted([*there, *((b, a) for a, b in there)])
