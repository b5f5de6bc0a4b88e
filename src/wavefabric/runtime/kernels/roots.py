"""Factor transform lengths, and compute roots of unity as precisely as a type allows."""

from collections.abc import Sequence
from itertools import product

import numpy as np


def factorised(n: int, radices: Sequence[int]) -> tuple[int, ...]:
    """Return the factors of n: each of ``radices`` in turn, as often as it divides n; () if others remain."""
    factors = []
    for radix in radices:
        while n % radix == 0:
            factors.append(radix)
            n //= radix
    return tuple(factors) if n == 1 else ()


def unit_roots(turns: np.ndarray, n: int) -> np.ndarray:
    """Return exp(−2πi turns/n), complex128, computed in extended precision if available."""
    angle = 2 * np.longdouble("3.14159265358979323846264338327950288") * (turns % n) / n
    return (np.cos(angle) - 1j * np.sin(angle)).astype(np.complex128)


def rounded(factors: np.ndarray, dtype) -> np.ndarray:
    """Round complex numbers of modulus 1 to the precision of ``dtype``; to complex64 by `balanced`."""
    return balanced(factors) if dtype == np.complex64 else factors


def balanced(factors: np.ndarray) -> np.ndarray:
    """Round real and imaginary part of complex numbers of modulus 1 up or down to single precision.

    For each number there are four roundings: take the one that keeps the sum of |z|² − 1 along the last axis
    closest to 0. A mean error would change the energy of a frequency equally in every step of a simulation.
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
