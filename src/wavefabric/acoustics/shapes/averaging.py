"""Averages a medium that is known on a finer grid to the points of a grid.

Momentum and mass are conserved with the following means (Backus 1962, doi:10.1029/JZ067i011p04427; Moczo et
al. 2002, doi:10.1785/0120010167). The density at the points of a velocity component is an arithmetic mean
along this component and a harmonic mean across it, since a velocity along a boundary jumps there. The
compressibility 1/(ρc²) at the pressure points is an arithmetic mean.

The means are weighted by a kernel. A second moment of the kernel causes a second-order error of a boundary's
transmission; the Lanczos kernel of three points has none. The flatter a kernel's spectrum is within the band
of the grid, the less the averaged medium differs from the true one for the waves on the grid (Capdeville &
Marigo 2007, doi:10.1111/j.1365-246X.2007.03462.x).

At the surface of a gas these means fail: spectral derivatives ring, and the ringing drives the gas. There a
geometric mean makes the impedance change smoothly over four cells. Its weights are proportional to ρ^⅓, so
that the dense side keeps its mass, hence its length (water beside air: to 0.03 cells).
"""

from collections.abc import Callable, Iterator
from typing import Any, Literal

import numpy as np
from scipy.sparse import csr_array

from wavefabric.acoustics.medium import density_jump
from wavefabric.base.errors import InputError

Kernel = Literal["lanczos", "box", "geometric"]
#: Cells needed beyond each end of the grid: three for a kernel, and one for the half-spacing offset.
REACH = 4
#: Largest number of fine cells in memory at once.
_BLOCK = 1 << 22


def weights(n: int, factor: int, offset: float, kernel: Kernel) -> csr_array:
    """Return the matrix that averages the fine cells along an axis to values at ``n`` grid points.

    Its shape is (n, (n + 2 REACH) factor): fine cells, ``factor`` per grid spacing, extend REACH spacings
    beyond each end of the grid. The values lie ``offset`` spacings beyond the grid points.
    """
    fine = (np.arange((2 * REACH + 1) * factor) + 0.5) / factor - 0.5 - REACH - offset
    if kernel == "box":
        # The overlap of each fine cell with the coarse cell.
        low, high = np.maximum(fine - 0.5 / factor, -0.5), np.minimum(fine + 0.5 / factor, 0.5)
        values = np.maximum(high - low, 0.0)
    elif kernel == "geometric":
        values = np.where(np.abs(fine) < 2, 1 + np.cos(np.pi * fine / 2), 0.0)
    else:
        values = np.where(np.abs(fine) < 3, np.sinc(fine) * np.sinc(fine / 3), 0.0)
    nonzero = np.flatnonzero(values)
    values = values[nonzero] / values.sum()
    columns = (np.arange(n)[:, None] * factor + nonzero).ravel()
    bounds = np.arange(n + 1) * nonzero.size
    return csr_array((np.tile(values, n), columns, bounds), (n, (n + 2 * REACH) * factor))


class Averages:
    """Computes means of fine cells at the points of a grid, block by block along the last axis.

    ``factors``: fine cells per spacing of each axis; 0 for an axis along which the medium is constant.
    ``kernel``: ``"lanczos"`` or ``"box"`` for means of density and compressibility, or ``"geometric"`` for
    geometric means of density and speed.
    """

    def __init__(self, shape: tuple[int, ...], factors: tuple[int, ...], kernel: Kernel):
        self.shape = tuple(n if factor else 1 for n, factor in zip(shape, factors, strict=True))
        self._factors = factors
        self._kernel: Kernel = kernel

    def blocks(self) -> Iterator[tuple[slice, tuple[slice, ...]]]:
        """Yield for each block its slice of grid points along the last axis, and its slices of fine cells.

        There is one slice of fine cells per axis, counted from REACH spacings before the grid.
        """
        sizes = zip(self.shape, self._factors, strict=True)
        extents = [(n + 2 * REACH) * factor if factor else 1 for n, factor in sizes]
        n = self.shape[-1]
        factor = self._factors[-1]
        rest = int(np.prod(extents[:-1]))
        points = n if not factor else max(1, min(n, _BLOCK // (rest * factor) - 2 * REACH))
        for first in range(0, n, points):
            last = min(first + points, n)
            fine = slice(first * factor, (last + 2 * REACH) * factor) if factor else slice(0, 1)
            yield slice(first, last), (*(slice(0, size) for size in extents[:-1]), fine)

    def mean(
        self, fine: np.ndarray, kernel: Kernel | None = None, along: int | None = None, inverse: bool = False
    ) -> np.ndarray:
        """Average the fine cells of a block to its grid points, or half a spacing further on axis ``along``.

        The mean along this axis is arithmetic; with ``inverse`` those along the other axes are harmonic.
        """
        kernel = kernel or self._kernel
        if along is not None:
            fine = self._reduce(fine, along, 0.5, kernel)
        fine = 1 / fine if inverse else fine
        for axis in range(fine.ndim):
            if axis != along:
                fine = self._reduce(fine, axis, 0.0, kernel)
        return 1 / fine if inverse else fine

    def medium(self, rho: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, ...]:
        """Average density ``rho`` and sound speed ``c`` of a block's fine cells to its grid points.

        Return sound speed, density, and for each axis the density half a spacing further along it.
        """
        axes, weight = range(rho.ndim), np.cbrt(rho)

        def geometric(fine: np.ndarray, along: int | None = None) -> np.ndarray:
            return np.exp(self.mean(weight * np.log(fine), along=along) / self.mean(weight, along=along))

        with np.errstate(invalid="ignore", divide="ignore"):  # the caller refuses values not above 0
            if self._kernel == "geometric":
                return geometric(c), geometric(rho), *(geometric(rho, axis) for axis in axes)
            if jump := density_jump(rho, c):
                raise InputError(f"kernel: {self._kernel} and a density that {jump}; allowed: 'geometric'")
            density = self.mean(rho)
            speed = np.sqrt(1 / (self.mean(1 / (rho * c**2)) * density))
        return speed, density, *(self.mean(rho, along=axis, inverse=True) for axis in axes)

    def _reduce(self, fine: np.ndarray, axis: int, offset: float, kernel: Kernel) -> np.ndarray:
        factor = self._factors[axis]
        if not factor:
            return fine
        moved = np.moveaxis(fine, axis, 0)
        by: Any = weights(len(moved) // factor - 2 * REACH, factor, offset, kernel)
        reduced = (by @ moved.reshape(len(moved), -1)).reshape(by.shape[0], *moved.shape[1:])
        return np.moveaxis(reduced, 0, axis)


def effective(
    averages: Averages, sample: Callable[[tuple[slice, ...]], dict[str, np.ndarray]], power: float
) -> dict[str, np.ndarray]:
    """Average a medium to a grid; return a dictionary from parameter to array.

    Its keys are ``sound_speed``, ``density``, ``staggered0``, … (the density half a spacing further along
    each axis) and, if present, ``alpha_coeff`` (α₀) and ``nonlinearity`` (B/A). ``sample`` returns the
    parameters of `Medium` in the fine cells of a block; ``power`` is the exponent y of absorption. α₀ and B/A
    are averaged with box weights, which make no value negative: α₀ so that the imaginary part of the
    compressibility is a plain mean, B/A so that the compressibility's second-order part in the pressure is a
    plain mean.
    """
    results: dict[str, np.ndarray] = {}

    def put(name: str, block: slice, values: np.ndarray) -> None:
        if name not in results:
            results[name] = np.empty(averages.shape, order="F")
        results[name][..., block] = values

    for where, cells in averages.blocks():
        fine = sample(cells)
        rho, c = fine["density"], fine["sound_speed"]
        compressibility = 1 / (rho * c**2)
        speed, density, *staggered = averages.medium(rho, c)
        put("sound_speed", where, speed)
        put("density", where, density)
        for axis, values in enumerate(staggered):
            put(f"staggered{axis}", where, values)
        if "alpha_coeff" in fine:
            lossy = averages.mean(compressibility * fine["alpha_coeff"] * c ** (power - 1), "box")
            put("alpha_coeff", where, lossy / averages.mean(compressibility, "box") / speed ** (power - 1))
        if "nonlinearity" in fine:
            second = averages.mean(compressibility**2 * fine["nonlinearity"], "box")
            put("nonlinearity", where, second / averages.mean(compressibility, "box") ** 2)
    return results
