"""Describes the part of a grid on one rank: a block, the overlaps around it, and a part of the spectrum."""

import math
from dataclasses import dataclass

import numpy as np

Triple = tuple[int, int, int]
Range = tuple[int, int]


@dataclass(frozen=True)
class Subdomain:
    """Describes the part of a periodic grid on one rank. All triples are (x, y, z), like `Problem.shape`."""

    #: Shape of the whole grid.
    shape: Triple
    #: Global index of the local arrays' first point; may be negative, since the grid is periodic.
    first: Triple
    #: Points of the local arrays: the owned block and its overlaps.
    size: Triple
    #: First point (global) and size of the block that only this rank owns.
    owned_first: Triple
    owned_size: Triple
    #: Grid of the Fourier basis: the whole grid in a global decomposition, ``size`` in a local one; one plane
    #: of a stack.
    basis: Triple
    #: Range along k_x (of ``basis[0] // 2 + 1``), k_y and k_z of the half spectrum that this rank holds.
    spectral: tuple[Range, Range, Range]

    @staticmethod
    def whole(shape: Triple, stacked: bool = False) -> "Subdomain":
        """Return the subdomain of a single rank, which is the whole grid, or a stack of planes."""
        nx, ny, nz = basis = (*shape[:2], 1) if stacked else shape
        zero = (0, 0, 0)
        return Subdomain(shape, zero, shape, zero, shape, basis, ((0, nx // 2 + 1), (0, ny), (0, nz)))

    @property
    def is_whole(self) -> bool:
        """Whether the subdomain is the whole grid."""
        return self.size == self.shape and self.owned_size == self.shape

    @property
    def spectral_shape(self) -> Triple:
        """Return the C-order shape (z, y, x) of this rank's half spectrum."""
        return tuple(stop - start for start, stop in self.spectral[::-1])  # type: ignore[return-value]

    @property
    def basis_points(self) -> int:
        """Return the number of points N of a transform."""
        return math.prod(self.basis)

    @property
    def owned(self) -> tuple[slice, slice, slice]:
        """Return the slices (z, y, x) of the owned block in local arrays."""
        starts = [o - f for o, f in zip(self.owned_first, self.first, strict=True)]
        return tuple(slice(s, s + n) for s, n in zip(starts[::-1], self.owned_size[::-1], strict=True))  # type: ignore[return-value]

    def indices(self, axis: int) -> np.ndarray:
        """Return the global indices of the local points along ``axis`` (0 = x), shape (size[axis],)."""
        return np.arange(self.first[axis], self.first[axis] + self.size[axis]) % self.shape[axis]

    def spectrum(self, vector: np.ndarray, axis: int) -> np.ndarray:
        """Return this rank's part of ``vector``, which has a value per wavenumber along ``axis`` (0 = x)."""
        return vector[slice(*self.spectral[axis])]

    def local_index(self, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return which of some grid points this rank owns, and the local indices of the owned points.

        ``index`` holds flat indices of points in the whole grid, x fastest. Returns a mask of the same shape,
        and the owned points' flat indices in this rank's arrays, in the same order.
        """
        index = np.asarray(index, np.int64)
        nx, ny, _ = self.shape
        coordinates = (index % nx, index // nx % ny, index // (nx * ny))
        mask = np.ones(index.shape, bool)
        for along, start, count in zip(coordinates, self.owned_first, self.owned_size, strict=True):
            mask &= (along >= start) & (along < start + count)
        x, y, z = (along[mask] - first for along, first in zip(coordinates, self.first, strict=True))
        return mask, (z * self.size[1] + y) * self.size[0] + x
