"""Factors of transform lengths, and roots of unity as precisely as a type holds them."""

from collections.abc import Sequence
from itertools import product

import numpy as np


def factorised(n: int, radices: Sequence[int]) -> tuple[int, ...]:
    """``n`` as a product of radices, each as often as it divides what those before it leave; or empty."""
    factors = []
    for radix in radices:
        while n % radix == 0:
            factors.append(radix)
            n //= radix
    return tuple(factors) if n == 1 else ()


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
