"""Divides the transforms of fused GPU kernels among threads and blocks, and tells which grids fit.

Rows along x and columns along y and z are transformed in shared memory (``axis_fft.cu``).
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from wavefabric.runtime.spectral.axis_fft import axis_radices, row_points, row_space, transformed_points

#: Number of buffers in shared memory per row, by kernel; other kernels have one.
_SPACES = {"x_velocity": 3, "x_density": 3, "x_pressure": 2}
_SPACES |= {"x_adjoint_velocity": 3, "x_adjoint_density": 3, "x_adjoint_pressure": 2}
#: Largest number of threads of a block, by axis; a block with only one transform may have more.
_THREADS = {"X": 128, "Y": 1024, "Z": 512, "G": 512}
#: Largest number of threads of a block along x in 2-D, where a grid has few rows.
_PLANE_ROW_THREADS = 32
#: Sizes of a spectrum, in values: below the first a thread gets 4 values of a row, below the second at most 8
#: of a column, below the third at most 16. Last: longest row, in points, of which a thread gets 4 values.
_FEW_IN_ROWS, _FEW, _MANY, _LONG_ROW = 3 << 19, 1 << 19, 1 << 22, 1024
#: Largest shared memory, in bytes, of a block, and of a block with a single row.
_SHARED, _SHARED_ROW = 96 * 1024, 160 * 1024


def usable(nx: int, ny: int, nz: int, dtype) -> bool:
    """Return whether the kernels can transform a grid along all its axes; 2-D has Nz = 1."""
    most = longest_axes(dtype)
    columns = zip((ny, nz)[: 2 if nz > 1 else 1], most[1:], strict=False)
    fits = all(1 < n <= most and transformed_points(n, r) <= most for n, most in columns for r in (8, 16))
    return fits and nx > 2 and all(row_points(nx, r) <= most[0] for r in (8, 16))


def longest_axes(dtype) -> tuple[int, int, int]:
    """Return the longest transforms along x, y and z, in points, whose thread blocks fit in shared memory.

    A thread block stores three buffers of one row along x, or four columns along y or z. A row of 2n points
    of the grid is transformed as n complex points, and counts as n.
    """
    item = 2 * np.dtype(dtype).itemsize
    columns = _SHARED // (4 * item)
    rows = (_SHARED_ROW // (3 * item) - 1) // 16 * 16 - 1
    return rows, columns, columns


class _Work(NamedTuple):
    """Describes how the threads of a GPU divide the transforms along an axis."""

    #: Values per thread: more values mean fewer exchanges between threads, but fewer threads that load while
    #: others compute.
    each: int
    #: Largest power of two among the radices.
    radix: int
    #: Threads per multiprocessor that the registers must allow.
    resident: int


def _work(name: str, n: int, values: int, plane: bool, convolution: bool) -> _Work:
    """Return how the threads of a GPU divide the transforms of ``n`` points along an axis.

    ``name`` is the axis: X, Y, Z, or G for the gradient along z. ``values`` is the number of values of the
    whole spectrum; if it is small, threads get few values each. ``plane`` says that the grid is 2-D,
    ``convolution`` that transforms are computed by Bluestein's algorithm. The choices were measured in single
    precision on an H200 (docs/lab-book.md).
    """
    odd_factors = bool(n & (n - 1))
    if name == "X":
        by_four = 0 < len(axis_radices(n, 4)) <= len(axis_radices(n, 8)) + 1
        few = values < _FEW_IN_ROWS and n <= _LONG_ROW and by_four and not convolution
        return _Work(4, 4, 640) if few else _Work(8, 8, 640)
    if plane:
        return _Work(8, 8, 640) if values < _FEW or odd_factors else _Work(16, 16, 640)
    if odd_factors and n <= 256 and (name == "Y" or (name == "Z" and not convolution)):
        work = _Work(25, 8, 512)
    elif odd_factors:
        work = _Work({"Y": 16, "Z": 8 if convolution else 12, "G": 8}[name], 8, 1024)
    elif name == "Y":
        work = _Work(16, 16, 1024) if n > 512 else _Work(32, 8, 512)
    elif name == "G":
        work = _Work(16, 8 if 256 < n <= 512 else 16, 512)
    else:
        work = _Work(32, 16 if n > 256 else 8, 512)
    if values < (_FEW // 2 if odd_factors else _FEW):
        return work._replace(each=min(work.each, 8), radix=8)
    return work._replace(each=16, radix=16) if values < _MANY and work.each > 16 and not odd_factors else work


class AxisBlocks:
    """Selects the threads per transform along an axis, and ``tile``, the rows or columns per thread block.

    ``name`` is the axis (X, Y, Z; G: gradient along z), ``n`` the number of grid points along it, and
    ``plane`` tells that the grid is 2-D. The spectrum of the whole grid consists of ``values`` complex
    numbers of ``item`` bytes each.
    """

    def __init__(self, name: str, n: int, values: int, item: int, plane: bool):
        self.name, self._item = name, item
        #: Points of the grid along the axis.
        self.points = n
        transformed, complex_points = (row_points, n // 2) if name == "X" else (transformed_points, n)
        inner = transformed(n)
        each, radix, self._resident = _work(name, inner, values, plane, inner > complex_points)
        #: Points of the transform: `points`, half of these for a row, or more for a convolution.
        self.inner = transformed(n, radix)
        self.radices = axis_radices(self.inner, radix)
        self.threads = -(-self.inner // each)
        threads = _PLANE_ROW_THREADS if plane and name == "X" else _THREADS[name]
        largest_tile = max(1, threads // self.threads)
        self.tile = (32 if plane else 128) // item
        if name == "G" and n > 256 and not plane:
            self.tile //= 2  # two blocks per multiprocessor
        if name == "X" and self.threads > 32:  # whole warps, without barriers between rows
            self.threads, self.tile = -(-self.threads // 32) * 32, 1
        elif name == "X":  # a divisor of a warp, without barriers
            self.threads = 1 << (self.threads - 1).bit_length()
            self.tile = largest_tile = threads // self.threads
        while self.tile > 1 and (self.tile > largest_tile or self.shared("x_density") > _SHARED):
            self.tile //= 2
        self.block = (self.threads * self.tile, 1, 1)

    def blocks(self, resident: int | None = None) -> int:
        """Return the minimum number of resident blocks per multiprocessor, for ``__launch_bounds__``.

        ``resident`` is the wanted number of resident threads per multiprocessor in single precision; each
        axis has a default.
        """
        return max(1, (resident or self._resident) * 8 // self._item // self.block[0])

    def shared(self, kernel: str) -> int:
        """Return the shared memory, in bytes, of a thread block of the kernel with the name ``kernel``."""
        words = self.inner
        if self.name == "X":
            words = _SPACES.get(kernel, 1) * row_space(self.inner, self.threads)
        return self.tile * words * self._item


def axes_of(shape, real, letters: Iterable[str], dimensions: int) -> dict[str, AxisBlocks]:
    """Return a dictionary from letter to `AxisBlocks`, for a grid (Nz, Ny, Nx).

    The ``letters`` are X, Y and Z for transforms along these axes, and G for the gradient along z.
    """
    item = 2 * np.dtype(real).itemsize
    points = dict(zip("ZYXG", (*shape, shape[0]), strict=True))
    values = shape[0] * shape[1] * (shape[2] // 2 + 1)
    return {name: AxisBlocks(name, points[name], values, item, dimensions == 2) for name in letters}


def pitch(nx: int, real) -> int:
    """Return the length of a row of a half spectrum, in complex values, padded to whole cache lines."""
    line = 64 // np.dtype(real).itemsize
    return -(-(nx // 2 + 1) // line) * line
