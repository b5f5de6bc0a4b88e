"""Radices and twiddle factors of the transforms of ``inplace_fft.cu``."""

import math
from collections.abc import Sequence
from itertools import product

import numpy as np

#: What to compile before a source that uses them, in this order.
SOURCES = ("wavefabric.spectral/butterflies.cu", "wavefabric.spectral/inplace_fft.cu")


def radices(n: int, most: int = 16) -> tuple[int, ...]:
    """Factors of a transform length, the largest first, of 32, 16, 8, 7, 5, 4, 3, 2, none above ``most``.

    Empty if others are needed, or n is 1.

    >>> radices(512), radices(512, 8), radices(512, 32), radices(3000), radices(22)
    ((16, 16, 2), (8, 8, 8), (32, 16), (8, 5, 5, 5, 3), ())
    """
    return factorised(n, [radix for radix in (32, 16, 8, 7, 5, 4, 3, 2) if radix <= most])


def factorised(n: int, radices: Sequence[int]) -> tuple[int, ...]:
    """``n`` as a product of radices, each as often as it divides what those before it leave; or empty."""
    factors = []
    for radix in radices:
        while n % radix == 0:
            factors.append(radix)
            n //= radix
    return tuple(factors) if n == 1 else ()


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


def unit_roots(turns: np.ndarray, n: int) -> np.ndarray:
    """exp(−2πi turns/n), formed in extended precision where there is one."""
    angle = 2 * np.longdouble("3.14159265358979323846264338327950288") * (turns % n) / n
    return (np.cos(angle) - 1j * np.sin(angle)).astype(np.complex128)


def rounded(factors: np.ndarray, dtype) -> np.ndarray:
    """Complex numbers of modulus 1 in a precision: as they are, or `balanced`."""
    return balanced(factors) if dtype == np.complex64 else factors


def balanced(factors: np.ndarray) -> np.ndarray:
    """Complex numbers of modulus 1, each part rounded up or down to single precision, shape as given.

    Of the four choices that one is taken which keeps the sum of the errors of the squared modulus along the
    last axis nearest to 0: a mean error would act on a frequency in every step of a simulation alike.
    """
    parts = np.stack([np.real(factors), np.imag(factors)])
    nearest = parts.astype(np.float32)
    other = np.nextafter(nearest, np.where(nearest > parts, -np.inf, np.inf).astype(np.float32))
    other = np.where(nearest == parts, nearest, other)  # 0 and 1 stay
    choices = np.stack([np.stack(pair) for pair in product((nearest[0], other[0]), (nearest[1], other[1]))])
    errors = (choices.astype(np.float64) ** 2).sum(1) - 1
    out, left = np.empty(factors.shape, np.complex64), np.zeros(factors.shape[:-1])
    for m in range(factors.shape[-1]):
        best = np.abs(left + errors[..., m]).argmin(0)[None]
        left += np.take_along_axis(errors[..., m], best, 0)[0]
        real, imaginary = (np.take_along_axis(choices[:, i, ..., m], best, 0)[0] for i in (0, 1))
        out[..., m] = real + 1j * imaginary
    return out
