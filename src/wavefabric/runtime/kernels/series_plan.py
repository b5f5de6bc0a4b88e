"""Plan transforms of complex series on a CPU: radices, twiddle factors, order (``cpu/fft.h``)."""

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from wavefabric.runtime.kernels.cpu_launch import address
from wavefabric.runtime.kernels.roots import factorised, rounded, unit_roots

#: Prime factors for which there are kernels; lengths with others need a convolution (Bluestein).
PRIMES = (2, 3, 5, 7, 11, 13)
#: Lanes of the widest SIMD vectors.
WIDE = 16


def pass_radices(n: int) -> tuple[int, ...]:
    """Return the radices of a transform of length n, in order; () if n has a prime factor above 13.

    >>> pass_radices(256), pass_radices(120), pass_radices(1), pass_radices(34)
    ((4, 8, 8), (5, 3, 8), (1,), ())
    """
    if n == 1:
        return (1,)
    twos = (n & -n).bit_length() - 1
    rest = n >> twos
    odd_radices = factorised(rest, (13, 11, 7, 5, 3)) if rest > 1 else ()
    if rest > 1 and not odd_radices:
        return ()
    if twos == 1:
        return (*odd_radices, 2)
    fours = (-twos) % 3  # two passes of radix 4 instead of one of radix 16
    return (4,) * fours + (*odd_radices, *(8,) * ((twos - 2 * fours) // 3))


def reversed_digits(radices: Sequence[int]) -> np.ndarray:
    """Return the frequency index that each position holds after transform stages with these radices.

    >>> reversed_digits((2, 3)).tolist()
    [0, 2, 4, 1, 3, 5]
    """
    order, stride = np.zeros(1, np.int64), 1
    for radix in radices:
        order = (order[:, None] + stride * np.arange(radix)).ravel()
        stride *= radix
    return order


def convolution_points(n: int) -> int:
    """Return the length of Bluestein's convolution of n points: the first m ≥ 2n − 1 with factors 2, 3, 5."""
    return next(m for m in range(2 * n - 1, 4 * n) if factorised(m, (8, 5, 4, 3, 2)))


def chirp(n: int) -> np.ndarray:
    """Return exp(−πi j²/n), j = 0 … n − 1: the chirp that makes a transform a convolution (Bluestein)."""
    j = np.arange(n)
    return unit_roots(j * j, 2 * n)


def convolution_kernel(n: int, points: int) -> np.ndarray:
    """Return the transform of Bluestein's kernel, divided by its length ``points``; (points,) complex128.

    The kernel is exp(πi j²/n), the conjugate `chirp`, for j = 1 − n … n − 1; negative j are at the end.
    """
    turned, periodic = chirp(n).conj(), np.zeros(points, complex)
    periodic[:n] = turned
    periodic[points - n + 1 :] = turned[:0:-1]
    return np.fft.fft(periodic) / points


class SeriesPlan:
    """Holds radices, twiddle factors and, for Bluestein's method, a chirp for transforms of length ``n``."""

    def __init__(self, n: int, dtype):
        kind = np.result_type(dtype, np.complex64)
        self.points = n
        self.radices = pass_radices(n)
        self.inner = n if self.radices else convolution_points(n)
        self._chirp, self._kernel = np.zeros(0, kind), np.zeros(0, kind)
        convolution, self.radices = not self.radices, self.radices or pass_radices(self.inner)
        order = reversed_digits(self.radices)
        self.order = np.arange(n) if convolution else order
        if convolution:
            self._chirp = rounded(chirp(n), kind)
            self._kernel = convolution_kernel(n, self.inner)[order].astype(kind)
        self._radices, self._position = np.array(self.radices, np.int64), np.argsort(self.order)
        self._factors = _pass_factors(self.radices, kind)

    @cached_property
    def words(self) -> np.ndarray:
        """Return the C struct ``Plan`` of ``cpu/fft.h`` as int64 words; valid while this object exists."""
        arrays = self._radices, self.order, self._factors, self._chirp, self._kernel, self._position
        addresses = [address(array) if array.size else 0 for array in arrays]
        return np.array([self.points, self.inner, len(self.radices), *addresses], np.int64)


def _pass_factors(radices: Sequence[int], kind: np.dtype) -> np.ndarray:
    """Return the twiddle factors of all stages of a transform in one vector.

    A stage of radix R splits transforms of length L. It has the factors exp(−2πi p k/L), p = 0 … L/R − 1, k =
    1 … R − 1. All factors of a stage are rounded together, so that their mean modulus is 1.
    """
    length, parts = math.prod(radices), []
    for radix in radices:
        p, k = np.arange(length // radix)[:, None], np.arange(1, radix)
        parts.append(rounded(unit_roots((p * k).ravel(), length), kind))
        length //= radix
    return np.concatenate(parts).astype(kind)


def matrix_rows(n: int) -> int:
    """Return the number of rows of the matrix as which ``n`` numbers are transformed.

    It divides n and is at most √n. Rows and columns should fill SIMD vectors of 16 numbers well and differ
    little.

    >>> matrix_rows(1024), matrix_rows(2**17), matrix_rows(30), matrix_rows(13)
    (32, 256, 5, 1)
    """

    def cost(rows: int) -> float:
        columns = n // rows
        filled = -(-rows // WIDE) * WIDE / rows + -(-columns // WIDE) * WIDE / columns
        return filled + 0.1 * math.log2(columns / rows)

    return min((rows for rows in range(1, math.isqrt(n) + 1) if n % rows == 0), key=cost)


class RowPlan:
    """Holds the data to transform rows of ``n`` complex numbers as matrices (``kernels/cpu/rows.cpp``).

    ``kernel`` is the `convolution_kernel` in the layout of ``arrange_factors``; None unless n has a prime
    factor above 13.
    """

    def __init__(self, n: int, dtype, kernel: np.ndarray | None = None):
        kind = np.result_type(dtype, np.complex64)
        self.points, self.inner = n, n if pass_radices(n) else convolution_points(n)
        rows = matrix_rows(self.inner)
        self.columns = self.inner // rows
        self._down, self._along = SeriesPlan(rows, dtype), SeriesPlan(self.columns, dtype)
        number, column = self._down.order[:, None], np.arange(WIDE)
        first = WIDE * np.arange(-(-self.columns // WIDE))[:, None]
        self._near = rounded(unit_roots(number * column, self.inner), kind)
        self._far = rounded(unit_roots(first * number.T, self.inner), kind)
        self._kernel = kernel
        self._chirp = chirp(n).astype(kind)
        parts = 4 if kind == np.complex64 else 2
        #: Number of real numbers that the spectral factors of one row take.
        self.factors = parts * (n if self.inner != n else -(-rows // WIDE) * WIDE * self.columns)

    @cached_property
    def words(self) -> np.ndarray:
        """Return the C struct ``RowPlan`` of ``rows.cpp`` as int64 words; valid while this object exists."""
        arrays = self._down.words, self._along.words, self._near, self._far
        convolution = [0, 0] if self._kernel is None else [address(self._chirp), address(self._kernel)]
        return np.array([self.points, self.columns, *map(address, arrays), *convolution], np.int64)
