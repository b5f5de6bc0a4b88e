"""Compute lengths, shared memory and tables for the transforms of ``axis_fft.cu`` and ``real_rows.cu``."""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from wavefabric.runtime.kernels.roots import factorised, rounded, unit_roots
from wavefabric.runtime.kernels.series_plan import chirp, convolution_kernel


def axis_radices(n: int, most: int = 16, primes: int = 13) -> tuple[int, ...]:
    """Return the radices of a transform of n points, whose product is n; () if there are none.

    Radices are 16, 8, 4 and 2, up to ``most``, and odd primes up to ``primes``, which is at most 13.
    """
    radices = (16, 13, 11, 8, 7, 5, 4, 3, 2)
    return factorised(n, [each for each in radices if each <= (primes if each % 2 else most)])


@lru_cache(maxsize=1024)
def transformed_points(n: int, most: int = 16) -> int:
    """Return the length of the transform for n points: n, or longer for a convolution (Bluestein).

    A convolution takes the length, with prime factors up to 7, for which length times number of radices is
    smallest. ``most`` is the largest power of two among the radices.
    """
    return n if axis_radices(n, most) else _convolution_points(2 * n - 1, most)


def row_points(n: int, most: int = 16) -> int:
    """Return the length of the complex transform for real rows of n points, with ``most`` as above.

    An even row is half as many complex values, an odd one as many (`OddRows` of ``real_rows.cu``). With large
    prime factors an odd row takes a convolution of at least (3n − 1)/2 points, as it needs n frequencies of
    (n + 1)/2 values (``EverySecond`` of ``axis_fft.cu``).
    """
    if n % 2 == 0:
        return transformed_points(n // 2, most)
    return n if axis_radices(n, most) else _convolution_points((3 * n - 1) // 2, most)


def _convolution_points(least: int, most: int) -> int:
    """Return the best length from ``least`` on, with prime factors up to 7, for a convolution."""
    lengths = ((m, axis_radices(m, most, 7)) for m in range(least, 2 * least + 2))
    return min((m * len(radices), m) for m, radices in lengths if radices)[1]


def row_space(points: int, threads: int) -> int:
    """Return the number of values that a row of ``points`` values takes in shared memory, with padding."""
    return -(-(points + 1) // 16) * 16 + (threads if threads < 16 and threads % 2 == 0 else 0)


def twiddles(radices: Sequence[int], real) -> np.ndarray:
    """Return in one vector the twiddle factors for ``radices``, then those for the radices reversed.

    After stages whose radices have the product M > 1, a stage of radix R has an array of factors (R, M):
    exp(−2πi q k/(M R)) at [k, q]. ``real`` is the dtype of their real parts.
    """
    dtype = np.result_type(real, np.complex64)
    parts = [np.zeros(0, dtype)]
    for order in (radices, radices[::-1]):
        before = 1
        for radix in order:
            if before > 1:
                turns = np.arange(radix)[:, None] * np.arange(before)
                parts.append(rounded(unit_roots(turns, before * radix), dtype).ravel())
            before *= radix
    return np.concatenate(parts)


def axis_table(points: int, radices: Sequence[int], real, rows: bool = False) -> np.ndarray:
    """Return the factors that transforms along an axis of ``points`` points read, in one vector.

    It begins with `twiddles`. For a convolution (Bluestein) the chirp and the transform of its kernel follow.
    For real ``rows`` of N points the first ⌈N/2⌉ of the N-th roots of unity follow, which separate spectra.
    """
    dtype, inner = np.result_type(real, np.complex64), math.prod(radices)
    parts, values = [twiddles(radices, real)], points // 2 if rows else points
    if rows and points % 2 and inner != points:
        n = np.arange(points)
        turned, periodic = unit_roots(n * n, points), np.zeros(inner, complex)
        periodic[:points] = turned.conj()
        periodic[inner - values :] = turned[values:0:-1].conj()
        parts += [rounded(turned, dtype), (np.fft.fft(periodic) / inner).astype(dtype)]
    elif inner != values and not (rows and points % 2):
        parts += [rounded(chirp(values), dtype), convolution_kernel(values, inner).astype(dtype)]
    if rows:
        parts.append(rounded(unit_roots(np.arange(-(-points // 2)), points), dtype))
    return np.concatenate(parts)
