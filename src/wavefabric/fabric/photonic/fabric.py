"""Defines a photonic fabric: a grid of tiles with lasers, photodiodes and switches, joined by waveguides."""

from dataclasses import dataclass
from typing import Annotated

from wavefabric.fabric.photonic.link_budget import LinkBudget


@dataclass(frozen=True)
class PhotonicFabric:
    """Tiles of one or more wafers, between which circuits are set up on demand.

    Rank r is the tile in row ``r // columns`` and column ``r % columns``.
    """

    name: str
    rows: int  # of all tiles together
    columns: int
    wafer_rows: int  # of the tiles of one wafer; neighbours on two wafers are joined by fibres
    wafer_columns: int
    lasers: int  # wavelengths that a tile can send at once, and receive at once (photodiodes)
    serdes_ports: int | None  # wavelengths that the chip on a tile can drive at once; None: all
    laser_bandwidth: Annotated[float, "B/s"]  # of one wavelength
    waveguides: int  # between neighbouring tiles of one wafer, in each direction
    fibres: int  # between neighbouring tiles of two wafers, in each direction
    alpha: Annotated[float, "s"]  # per round
    reconfiguration: Annotated[float, "s"]  # to set up the circuits of a round (Mach–Zehnder switches)
    synchronisation: Annotated[float, "s"] = 0.0  # between the GPUs and the controller
    tile_pitch: Annotated[float, "m"] = 0.025  # between centres of neighbouring tiles
    description: str = ""
    source: str = ""  # origin of the numbers, for people
    budget: LinkBudget | None = None  # link budget of the circuits; None: typical numbers

    @property
    def ranks(self) -> int:
        """Return the number of tiles."""
        return self.rows * self.columns

    @property
    def ports(self) -> int:
        """Return the number of wavelengths that a tile can use at once in each direction."""
        return self.lasers if self.serdes_ports is None else min(self.lasers, self.serdes_ports)

    @property
    def bandwidth(self) -> float:
        """Return the total rate in B/s at which a tile can send."""
        return self.ports * self.laser_bandwidth

    def capacity(self, a: int, b: int) -> int:
        """Return the number of waveguides, or fibres, from tile ``a`` to its neighbour ``b``."""
        return self.waveguides if self.wafer(a) == self.wafer(b) else self.fibres

    def wafer(self, tile: int) -> tuple[int, int]:
        """Return row and column of the wafer that ``tile`` is on."""
        row, column = divmod(tile, self.columns)
        return row // self.wafer_rows, column // self.wafer_columns

    def edges(self) -> list[tuple[int, int]]:
        """Return the pairs of neighbouring tiles, in both directions, sorted."""
        right = [(tile, tile + 1) for tile in range(self.ranks) if (tile + 1) % self.columns]
        below = [(tile, tile + self.columns) for tile in range(self.ranks - self.columns)]
        there = right + below
        return sorted([*there, *((b, a) for a, b in there)])
