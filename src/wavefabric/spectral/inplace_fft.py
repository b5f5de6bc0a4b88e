"""Radices and twiddle factors of the transforms of ``inplace_fft.cu``."""

import math

import numpy as np

from wavefabric.kernels.roots import factorised, rounded, unit_roots

#: What to compile before a source that uses them, in this order.
SOURCES = ("wavefabric.spectral/butterflies.cu", "wavefabric.spectral/inplace_fft.cu")


def radices(n: int, most: int = 16) -> tuple[int, ...]:
    """Factors of a transform length, the largest first, of 32, 16, 8, 7, 5, 4, 3, 2, none above ``most``.

    Empty if others are needed, or n is 1.

    >>> radices(512), radices(512, 8), radices(512, 32), radices(3000), radices(22)
    ((16, 16, 2), (8, 8, 8), (32, 16), (8, 5, 5, 5, 3), ())
    """
    return factorised(n, [radix for radix in (32, 16, 8, 7, 5, 4, 3, 2) if radix <= most])


def gap(radices: tuple[int, ...]) -> int:
    """Points between empty places in shared memory, so that strides of the last radix meet all banks."""
    return radices[-1] if radices[-1] % 2 == 0 else 0


def leg_factors(radices: tuple[int, ...], dtype) -> np.ndarray:
    """Twiddle factors w^(k m) of all stages, one after another, (R, stride) each, complex64 or complex128."""
    left, parts = math.prod(radices), []
    for radix in radices:
        stride = left // radix
        factors = unit_roots(np.arange(radix)[:, None] * np.arange(stride), left)
        parts.append(rounded(factors, dtype))
        left = stride
    return np.concatenate([part.ravel() for part in parts])
