"""Stores medium parameters on a device as values per material and a material number per grid point."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from wavefabric.acoustics.materials.find import AT_POINTS, STAGGERED, Materials
from wavefabric.acoustics.problem import Problem


@dataclass(frozen=True, eq=False)
class Indexed:
    """A medium parameter, stored as ``values`` (materials,) and an ``index`` (Nz, Ny, Nx) into them.

    The index has 8 or 16 bits. The values may be a column of a ``table`` (materials, parameters); several
    parameters may share index and table.
    """

    values: Any
    index: Any
    table: Any = None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.index.shape

    @property
    def bits(self) -> int:
        return 8 * self.index.dtype.itemsize

    def part(self, block: tuple[slice, ...]) -> "Indexed":
        """Return this parameter in the block ``block`` of the grid, without its table."""
        return Indexed(self.values, self.index[block])

    def __getitem__(self, points):
        """Return the values of the parameter at the grid points ``points``, as a new array."""
        return self.values[self.index[points]]

    def fill(self, out) -> None:
        """Write the values of the full grid into ``out``, (Nz, Ny, Nx), plane by plane."""
        for z, plane in enumerate(out):
            plane[...] = self[z]


def indexed_parameters(
    device, problem: Problem, materials: Materials, dtype: np.dtype, fill_tau: Callable[[Any, Any, Any], None]
) -> dict[str, Indexed]:
    """Return a dictionary from name (`AT_POINTS`, `STAGGERED`) to each parameter that is stored by index.

    Parameters of `AT_POINTS` are columns of one table (materials, 4), so that all values of a material are
    adjacent in memory. ``fill_tau(tau, speed, alpha)`` stores the absorption τ of n materials with the given
    sound speeds and α₀; its arguments are arrays (1, 1, n) on the device.
    """
    result = {}
    for group in materials.groups:
        index = device.asarray(group.index(problem))
        size = len(group.combinations)
        table = device.zeros((size, len(AT_POINTS)), dtype) if set(group.names) & set(AT_POINTS) else None

        def row(column: str, otherwise: Any, group=group, size=size) -> Any:
            values = group.values(column)
            values = np.full(size, otherwise) if values is None else np.ascontiguousarray(values)
            return device.asarray(values, dtype)

        for name in group.names:
            if name in STAGGERED:
                values = row(name, math.nan)
            else:
                assert table is not None
                values = table[:, AT_POINTS.index(name)]
                if name == "tau":
                    speed, alpha = row("speed", problem.sound_speed), row("alpha", problem.alpha_coeff)
                    tau = device.empty((1, 1, size), dtype)
                    fill_tau(tau, speed.reshape(1, 1, -1), alpha.reshape(1, 1, -1))
                    values[...] = tau[0, 0]
                else:
                    values[...] = row(name, math.nan)
            result[name] = Indexed(values, index, table if name in AT_POINTS else None)
    return result
