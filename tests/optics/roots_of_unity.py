"""Roots of unity as exact fractions, or nearly."""

from fractions import Fraction

import numpy as np

#: Largest error of a part of a root of unity in double precision. Where `longdouble` is no longer than
#: double, the angle is rounded too.
ROUNDED = 1.2e-16 if np.finfo(np.longdouble).eps < 1e-18 else 1e-15
_BITS = 160
_PI = Fraction("3.14159265358979323846264338327950288419716939937510582097494459")


def exact_root(turns: int, n: int) -> tuple[Fraction, Fraction]:
    """Parts of exp(−2πi turns/n) by the series, in fixed-point numbers of 160 bits."""
    part = Fraction(turns % n, n)
    x = round(-2 * _PI * (part if part <= Fraction(1, 2) else part - 1) * 2**_BITS)
    sums, term, order = [0, 0], 1 << _BITS, 0
    while term:
        sums[order % 2] += term if order % 4 < 2 else -term
        order += 1
        term = (term * x >> _BITS) // order if term * x > 0 else -((-term * x >> _BITS) // order)
    return Fraction(sums[0], 2**_BITS), Fraction(sums[1], 2**_BITS)


def worst_error(result, wanted):
    """Largest error of a part; ``wanted`` are pairs of fractions."""
    parts = [
        (Fraction(float(value.real)) - re, Fraction(float(value.imag)) - im)
        for value, (re, im) in zip(result, wanted, strict=True)
    ]
    return float(max(abs(error) for pair in parts for error in pair))
