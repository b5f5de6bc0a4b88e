"""Choose radices and twiddle factors of the transforms of ``inplace_fft.cu``."""

import math

import numpy as np

from wavefabric.runtime.kernels.roots import factorised, rounded, unit_roots

#: CUDA sources to compile before a source that uses the transforms, in this order.
SOURCES = ("wavefabric.runtime.spectral/butterflies.cu", "wavefabric.runtime.spectral/inplace_fft.cu")


def radices(n: int, most: int = 16) -> tuple[int, ...]:
    """Return the radices whose product is the transform length ``n``, largest first; () if there are none.

    Radices are 32, 16, 8, 7, 5, 4, 3 and 2, up to ``most``.

    >>> radices(512), radices(512, 8), radices(512, 32), radices(3000), radices(22)
    ((16, 16, 2), (8, 8, 8), (32, 16), (8, 5, 5, 5, 3), ())
    """
    return factorised(n, [radix for radix in (32, 16, 8, 7, 5, 4, 3, 2) if radix <= most])


def gap(radices: tuple[int, ...]) -> int:
    """Return after how many points shared memory has an unused element against bank conflicts; 0: never."""
    return radices[-1] if radices[-1] % 2 == 0 else 0


def leg_factors(radices: tuple[int, ...], dtype) -> np.ndarray:
    """Return the twiddle factors of all stages in one vector.

    A stage of radix R that splits transforms of length L has an array (R, L/R): exp(−2πi k m/L) at [k, m].
    """
    length, parts = math.prod(radices), []
    for radix in radices:
        stride = length // radix
        factors = unit_roots(np.arange(radix)[:, None] * np.arange(stride), length)
        parts.append(rounded(factors, dtype))
        length = stride
    return np.concatenate([part.ravel() for part in parts])
