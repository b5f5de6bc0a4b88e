"""Distinct sets of values of several arrays on a grid, and the number of each point's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

#: Points that are looked at together, about: their values stay in cache.
_BLOCK = 1 << 15


class Sets:
    """The distinct sets of values of arrays (Nz, Ny, Nx) at the points of a grid, rounded to ``dtype``.

    Values count as equal if all their bits are. ``full`` once there are more than ``limit`` sets; ``values``
    are those of each set, (sets, arrays), in an order that does not matter.
    """

    def __init__(self, arrays: Sequence[np.ndarray], dtype, limit: int):
        self._dtype, self._limit = np.dtype(dtype), limit
        self._bits = np.dtype(f"u{self._dtype.itemsize}")
        self._table = np.empty((limit, len(arrays)), self._bits)
        self._positions = np.full(1 << (4 * limit - 1).bit_length(), -1, np.int32)
        self._count = 0
        for z in _spread(len(arrays[0])):
            for _ in self._numbered([array[z] for array in arrays]):
                if self.full:
                    return

    @property
    def full(self) -> bool:
        """Whether there are too many."""
        return self._count > self._limit

    def __len__(self) -> int:
        return self._count

    @property
    def values(self) -> np.ndarray:
        return self._table[: self._count].view(self._dtype)

    def numbers(self, arrays: Sequence[np.ndarray], dtype) -> Iterator[np.ndarray]:
        """Planes (Ny, Nx) of the numbers of the points' sets, one after another; the same array each time.

        Raises
        ------
        RuntimeError
            If the arrays have changed since, to values that were not there.
        """
        shape, before = arrays[0].shape[1:], self._count
        plane = np.empty(shape, dtype)
        for z in range(len(arrays[0])):
            first = 0
            for numbers in self._numbered([array[z] for array in arrays]):
                plane.reshape(-1)[first : first + numbers.size] = numbers
                first += numbers.size
            if self._count != before:
                raise RuntimeError("the medium's arrays have changed since its materials were found")
            yield plane

    def _numbered(self, planes: list[np.ndarray]) -> Iterator[np.ndarray]:
        """Numbers of the sets of one block of rows after another, (points,), int32."""
        from wavefabric.acoustics.materials.number_sets import number_sets  # here: it takes Numba along

        rows, nx = planes[0].shape
        some = max(1, _BLOCK // nx)
        values = np.empty((len(planes), some, nx), self._dtype)
        numbers = np.empty(some * nx, np.int32)
        for first in range(0, rows, some):
            count = min(some, rows - first)
            for k, plane in enumerate(planes):
                values[k, :count] = plane[first : first + count]
            bits = values.view(self._bits).reshape(len(planes), -1)
            self._count = number_sets(bits, count * nx, self._positions, self._table, self._count, numbers)
            yield numbers[: count * nx]


def _spread(count: int) -> list[int]:
    """All planes, the middle first, neighbours late: a medium of many values shows soon."""
    bits = max(count - 1, 1).bit_length()
    reversed_bits = (int(f"{i:0{bits}b}"[::-1], 2) for i in range(1, (1 << bits) + 1) if i < 1 << bits)
    return [z for z in (*reversed_bits, 0) if z < count]
