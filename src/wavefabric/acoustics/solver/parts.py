"""What one rank holds of a grid: a block, its overlaps, and the Fourier basis that its transforms live on."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

Triple = tuple[int, int, int]
Range = tuple[int, int]


@dataclass(frozen=True)
class Part:
    """A rank's share of a periodic grid. All triples are (x, y, z), like `Problem.shape`.

    Parameters
    ----------
    shape : tuple of int
        The whole grid, (Nx, Ny, Nz).
    first : tuple of int
        Global index of the local arrays' first point; may be negative, since the grid is periodic.
    size : tuple of int
        Points of the local arrays: the owned block and its overlaps.
    owned_first, owned_size : tuple of int
        First point (global) and size of the block that this rank alone owns.
    basis : tuple of int
        Grid of the Fourier basis: the whole grid in a global decomposition, ``size`` in a local one.
    spectral : tuple of (int, int)
        Range along k_x (of ``basis[0] // 2 + 1``), k_y and k_z of the half spectrum that this rank holds.
    """

    shape: Triple
    first: Triple
    size: Triple
    owned_first: Triple
    owned_size: Triple
    basis: Triple
    spectral: tuple[Range, Range, Range]

    @property
    def array_shape(self) -> Triple:
        """C-order shape (z, y, x) of the local arrays."""
        return self.size[::-1]  # type: ignore[return-value]

    @property
    def spectral_shape(self) -> Triple:
        """C-order shape (z, y, x) of this rank's half spectrum."""
        return tuple(stop - start for start, stop in self.spectral[::-1])  # type: ignore[return-value]

    @property
    def points(self) -> int:
        """Points of the Fourier basis: N of a transform."""
        return math.prod(self.basis)

    @property
    def whole(self) -> bool:
        """Whether this is the grid itself."""
        return self.size == self.shape and self.owned_size == self.shape

    @property
    def owned(self) -> tuple[slice, slice, slice]:
        """The owned block in local arrays (z, y, x)."""
        starts = [o - f for o, f in zip(self.owned_first, self.first, strict=True)]
        return tuple(slice(s, s + n) for s, n in zip(starts[::-1], self.owned_size[::-1], strict=True))  # type: ignore[return-value]

    def indices(self, axis: int) -> np.ndarray:
        """Global indices of the local points along an axis (0 = x), shape (size[axis],)."""
        return np.arange(self.first[axis], self.first[axis] + self.size[axis]) % self.shape[axis]

    def spectrum(self, vector: np.ndarray, axis: int) -> np.ndarray:
        """This rank's part of a vector over the half spectrum's axis (0 = x)."""
        return vector[slice(*self.spectral[axis])]

    @cached_property
    def _owned_steps(self) -> list[tuple[int, int, int]]:
        return list(zip(self.owned_first, self.owned_size, self.first, strict=True))

    def local_index(self, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Which points this rank owns, and where they are in its arrays.

        Parameters
        ----------
        index : ndarray of int64, any shape
            Flat indices of the whole grid, x fastest.

        Returns
        -------
        mask : ndarray of bool
            Like ``index``.
        local : ndarray of int64, shape (owned points,)
            Flat indices of the owned ones in the local arrays, in their order.
        """
        index = np.asarray(index, np.int64)
        nx, ny, _ = self.shape
        mask, found = np.ones(index.shape, bool), []
        along = (index % nx, index // nx % ny, index // (nx * ny))
        for place, (start, count, first) in zip(along, self._owned_steps, strict=True):
            mask &= (place >= start) & (place < start + count)
            found.append(place - first)
        x, y, z = (place[mask] for place in found)
        return mask, (z * self.size[1] + y) * self.size[0] + x


def whole(shape: Triple) -> Part:
    """The part of a single rank: all of the grid."""
    nx, ny, nz = shape
    zero = (0, 0, 0)
    return Part(shape, zero, shape, zero, shape, shape, ((0, nx // 2 + 1), (0, ny), (0, nz)))
