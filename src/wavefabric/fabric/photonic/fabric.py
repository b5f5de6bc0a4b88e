"""A photonic fabric: a grid of tiles, each with lasers, photodiodes and switches, joined by waveguides."""

from __future__ import annotations

from dataclasses import dataclass

from wavefabric.fabric.photonic.link_budget import LinkBudget


@dataclass(frozen=True)
class PhotonicFabric:
    """Tiles of one or more wafers, over which circuits are set up as they are needed.

    Parameters
    ----------
    name, description, source : str
        For people; `source` says where the numbers are from.
    rows, columns : int
        Tiles in all. Rank r is the tile in row ``r // columns`` and column ``r % columns``.
    wafer_rows, wafer_columns : int
        Tiles of one wafer; neighbours on two wafers are joined by fibres.
    lasers : int
        Wavelengths a tile can send at once, and receive at once (photodiodes).
    serdes_ports : int or None
        Wavelengths that the chip on a tile can drive at once; None: all.
    laser_bandwidth : float
        B/s of one wavelength.
    waveguides, fibres : int
        Between neighbouring tiles of one wafer, and of two, in each direction.
    alpha, reconfiguration, synchronisation : float
        s a round; s to set up its circuits (Mach–Zehnder switches); s between the GPUs and the controller.
    tile_pitch : float
        m, between centres of neighbouring tiles.
    budget : LinkBudget or None
        Of its circuits; None: typical numbers.
    """

    name: str
    rows: int
    columns: int
    wafer_rows: int
    wafer_columns: int
    lasers: int
    serdes_ports: int | None
    laser_bandwidth: float
    waveguides: int
    fibres: int
    alpha: float
    reconfiguration: float
    synchronisation: float = 0.0
    tile_pitch: float = 0.025
    description: str = ""
    source: str = ""
    budget: LinkBudget | None = None

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
