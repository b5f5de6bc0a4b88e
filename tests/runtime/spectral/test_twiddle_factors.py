"""Radices and twiddle factors of transforms in place, against exact fractions."""

import doctest
import importlib
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from roots_of_unity import ROUNDED, exact_root, worst_error

from wavefabric.runtime.kernels.roots import balanced, unit_roots
from wavefabric.runtime.spectral.inplace_fft import leg_factors, radices

smooth = st.lists(st.sampled_from([2, 2, 2, 3, 5, 7]), min_size=1, max_size=23).map(math.prod)


def test_the_examples():
    failed, tried = doctest.testmod(importlib.import_module("wavefabric.runtime.spectral.inplace_fft"))
    assert (failed, tried) == (0, 1)


@given(smooth)
def test_radices_multiply_back(n):
    result = radices(n)
    assert math.prod(result) == n
    assert set(result) <= {2, 3, 4, 5, 7, 8, 16}
    assert list(result) == sorted(result, reverse=True)
    # As few stages as there can be.
    assert sum(r in (2, 4, 8) for r in result) <= 1


@given(st.integers(1, 400), st.sampled_from([11, 13, 17, 101]))
def test_other_primes_have_no_radices(factor, prime):
    assert radices(factor * prime) == ()


def test_one_point_has_no_stage():
    assert radices(1) == ()


def test_the_reference_itself():
    assert exact_root(0, 7) == (1, 0)
    for turns, n, wanted in ((1, 4, -1j), (1, 2, -1), (3, 4, 1j), (1, 8, (1 - 1j) / math.sqrt(2))):
        re, im = exact_root(turns, n)
        assert abs(complex(float(re), float(im)) - wanted) < 2e-16
    re, im = exact_root(5, 12345)
    assert abs(re * re + im * im - 1) < Fraction(1, 10**40)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 12, 360, 2187, 4096, 2**21])
def test_unit_roots(n):
    turns = np.unique(np.concatenate([np.arange(min(n, 40)), np.arange(0, n, max(1, n // 97)), [n - 1]]))
    assert worst_error(unit_roots(turns, n), [exact_root(int(t), n) for t in turns]) < ROUNDED


@given(st.integers(0, 2**40), st.integers(1, 2**23))
def test_unit_roots_of_any_number_of_turns(turns, n):
    assert worst_error(unit_roots(np.array([turns]), n), [exact_root(turns, n)]) < ROUNDED


@pytest.mark.parametrize("dtype", [np.complex128, np.complex64])
def test_leg_factors(dtype):
    """w^(k m) of stages of radices 8, 5, 3 of 120 points: transforms of 120, 15 and 3 points remain."""
    assert radices(120) == (8, 5, 3)
    result, at = leg_factors((8, 5, 3), dtype), 0
    assert result.dtype == dtype
    for left, radix in ((120, 8), (15, 5), (3, 3)):
        wanted = [exact_root(k * m, left) for k in range(radix) for m in range(left // radix)]
        # In single precision a part is rounded up or down, whichever keeps moduli at 1 in the mean.
        rounding = ROUNDED if dtype == np.complex128 else 6e-8
        assert worst_error(result[at : at + left], wanted) < rounding
        at += left
    assert at == result.size


@pytest.mark.parametrize("n", [120, 686, 4096])
def test_balanced(n):
    """Parts are neighbours in single precision of the exact ones; moduli are 1 in the mean."""
    exact = unit_roots(np.arange(5)[:, None] * np.arange(n // 5), n)
    result = balanced(exact)
    assert result.dtype == np.complex64
    assert (result[0] == 1).all()
    for part, rounded in ((exact.real, result.real), (exact.imag, result.imag)):
        spacing = np.spacing(np.maximum(abs(part), abs(rounded)).astype(np.float32))
        assert (abs(part - rounded) <= spacing).all()
    wide = result.astype(complex)
    excess = np.cumsum((wide * wide.conj()).real - 1, axis=1)
    nearest = exact.astype(np.complex64).astype(complex)
    assert abs(excess).max() < 6e-8
    assert abs(np.cumsum((nearest * nearest.conj()).real - 1, axis=1)).max() > 3e-7


@pytest.mark.parametrize("points", [4096, 2187, 2000])
def test_leg_factors_in_single_precision_have_mean_modulus_one(points):
    """A mean error of 1e-8 takes 2e-4 of a field's energy in 10 000 steps; that of rounding alone is 4e-9."""
    factors, at, left = leg_factors(radices(points), np.complex64).astype(np.complex128), 0, points
    for radix in radices(points):
        legs = factors[at : at + left].reshape(radix, -1)
        error = np.abs((np.abs(legs) ** 2 - 1).sum(axis=1))
        assert error.max() < 1.2e-7  # a last bit over the whole leg, however long
        at, left = at + left, left // radix
