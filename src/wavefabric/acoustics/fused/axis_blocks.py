"""Divides the transforms of fused GPU kernels among threads and blocks, and says which grids fit.

Rows along x and columns along y and z are transformed in shared memory (``axis_fft.cu``).
"""

from collections.abc import Iterable

import numpy as np

from wavefabric.spectral.axis_fft import axis_radices, row_space, transformed_points

#: Buffers in shared memory per row; one for kernels that are not listed.
_SPACES = {"x_velocity": 3, "x_density": 3, "x_pressure": 2}
_SPACES |= {"x_adjoint_velocity": 3, "x_adjoint_density": 3, "x_adjoint_pressure": 2}
#: Largest number of threads of a block; a block with only one transform may have more.
_THREADS = {"X": 128, "Y": 1024, "Z": 512, "G": 512}
#: Largest shared memory, in bytes, of a block, and of a block with a single row.
_SHARED, _SHARED_ROW = 96 * 1024, 160 * 1024


def usable(nx: int, ny: int, nz: int, dtype) -> bool:
    """Return whether the kernels can transform a grid along all its axes; Nx must be even.

    Nz = 1 is a plane.
    """
    lengths = list(zip((nx // 2, ny, nz), longest_axes(dtype), strict=True))[: 3 if nz > 1 else 2]
    fits = all(1 < n <= most and transformed_points(n, r) <= most for n, most in lengths for r in (8, 16))
    return fits and nx % 2 == 0


def longest_axes(dtype) -> tuple[int, int, int]:
    """Return the longest transforms along x, y and z, in points, whose blocks fit in shared memory.

    A block stores three buffers of one row, or four columns. Along x a point of the transform is two points
    of the grid.
    """
    item = 2 * np.dtype(dtype).itemsize
    columns = _SHARED // (4 * item)
    rows = (_SHARED_ROW // (3 * item) - 1) // 16 * 16 - 1
    return rows, columns, columns


def _tuned(name: str, n: int, plane: bool, convolution: bool = False) -> tuple[int, int, int]:
    """Return values per thread, largest radix, and threads per multiprocessor that the registers must allow.

    More values per thread mean fewer exchanges between threads, but fewer threads to load while others
    compute. ``n`` is the length of the transform, perhaps of a ``convolution``. Measured in single precision
    on an H200 (docs/lab-book.md), except for a ``plane``, whose few columns are divided among as many threads
    as possible.
    """
    if name == "X" or plane:
        return 8, 8, 640
    if n & (n - 1):  # no power of two
        if name == "Y":
            return (25, 8, 512) if n <= 256 else (16, 8, 1024)
        return 12 if name == "Z" and not convolution else 8, 8, 1024
    if name == "Y":
        return (16, 16, 1024) if n > 512 else (32, 8, 512)
    if name == "G":
        return 16, 8 if 256 < n <= 512 else 16, 512
    return 32, 16 if n > 256 else 8, 512


class AxisBlocks:
    """Sets the threads per transform, and the rows or columns that a block transforms (``tile``), of an axis.

    ``n`` is the number of grid points, ``item`` the bytes of a complex value.
    """

    def __init__(self, name: str, n: int, item: int, plane: bool):
        self.name, self._item = name, item
        self.points = n // 2 if name == "X" else n  # a real row is half as many complex values
        inner = transformed_points(self.points)
        each, radix, self._resident = _tuned(name, inner, plane, inner > self.points)
        #: Points of the transform: `points`, or more for a convolution.
        self.inner = transformed_points(self.points, radix)
        self.radices = axis_radices(self.inner, radix)
        self.threads = -(-self.inner // each)
        # A plane has few rows, so a block is one warp.
        threads = 32 if plane and name == "X" else _THREADS[name]
        most = max(1, threads // self.threads)
        self.tile = (32 if plane else 128) // item
        if name == "G" and n > 256 and not plane:
            self.tile //= 2  # two blocks per multiprocessor
        if name == "X" and self.threads > 32:  # whole warps, without barriers between rows
            self.threads, self.tile = -(-self.threads // 32) * 32, 1
        elif name == "X":  # a divisor of a warp, without barriers
            self.threads = 1 << (self.threads - 1).bit_length()
            self.tile = most = threads // self.threads
        while self.tile > 1 and (self.tile > most or self.shared("x_density") > _SHARED):
            self.tile //= 2
        self.block = (self.threads * self.tile, 1, 1)

    def blocks(self, resident: int | None = None) -> int:
        """Return the least number of resident blocks per multiprocessor, for ``__launch_bounds__``.

        ``resident`` is the number of threads to aim at, by default that of the axis.
        """
        return max(1, (resident or self._resident) * 8 // self._item // self.block[0])

    def shared(self, kernel: str) -> int:
        """Return the shared memory of a block, in bytes."""
        words = self.inner
        if self.name == "X":
            words = _SPACES.get(kernel, 1) * row_space(self.inner, self.threads)
        return self.tile * words * self._item


def axes_of(shape, real, letters: Iterable[str], dimensions: int) -> dict[str, AxisBlocks]:
    """Return the axes of a grid (Nz, Ny, Nx) by letter: X, Y, Z, and G for the gradient along z."""
    item = 2 * np.dtype(real).itemsize
    points = dict(zip("ZYXG", (*shape, shape[0]), strict=True))
    return {name: AxisBlocks(name, points[name], item, dimensions == 2) for name in letters}


def pitch(nx: int, real) -> int:
    """Return the length of a padded row of a half spectrum, which fills whole cache lines."""
    line = 64 // np.dtype(real).itemsize
    return -(-(nx // 2 + 1) // line) * line
