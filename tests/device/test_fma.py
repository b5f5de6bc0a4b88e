"""A product and a sum rounded once: against exact fractions."""

from fractions import Fraction

import numpy as np
import pytest
from numba import njit

from wavefabric.device.fma import FUSED, fma


@njit
def each(a, b, c, out):
    for i in range(out.size):
        out[i] = fma(a[i], b[i], c[i])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_against_fractions(dtype):
    rng = np.random.default_rng(5)
    a, b = rng.standard_normal((2, 200)).astype(dtype)
    c, out = (-a * b).astype(dtype), np.empty(200, dtype)  # all that is left is the round-off of the product
    each(a, b, c, out)
    for got, x, y, z in zip(out, a, b, c, strict=True):
        exact = Fraction(float(x)) * Fraction(float(y))
        if not FUSED:
            exact = Fraction(float(dtype(x * y)))
        assert got == dtype(float(exact + Fraction(float(z))))
    assert np.any(out != 0) == FUSED


def test_one_type_only():
    with pytest.raises(Exception, match="one floating type"):
        each(np.ones(1), np.ones(1, np.float32), np.ones(1), np.ones(1))
