"""Butterflies, roots, radices and factors of the vector code's transforms, against NumPy."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from vector_calls import allowed, bits, call, complex_noise, relative_error

from wavefabric.device.vector_code import VectorCode
from wavefabric.spectral.vector_butterflies import (
    PRIMES,
    Interleaved,
    Split,
    radices,
    stage_factors,
    stages_of,
)

RADICES = sorted({*PRIMES, 4, 8, 16})


class Form:
    """Complex numbers in one form of vectors, read from and written to arrays (number, columns)."""

    def __init__(self, kind, dtype, sign):
        self.code = VectorCode(dtype)
        self.complexes = kind(self.code, sign)
        self.split = kind is Split
        self.columns = self.code.lanes if self.split else self.code.lanes // 2

    def load(self, number):
        parts, lanes = 1 + self.split, self.code.lanes
        addresses = [(parts * number + part) * lanes for part in range(parts)]
        return tuple(self.code.load(self.code.source, address) for address in addresses)

    def store(self, number, value):
        for part, vector in enumerate(value):
            self.code.store(vector, self.code.target, ((1 + self.split) * number + part) * self.code.lanes)

    def run(self, values, count, table=None):
        """What the code stores, ``count`` numbers, from what it loads."""
        dtype = self.code.dtype
        source = np.stack([values.real, values.imag], 1 if self.split else -1).astype(dtype)
        target = np.full((count, 2, self.columns) if self.split else (count, self.columns, 2), np.nan, dtype)
        call(self.code.compiled(), table, source, target)
        parts = (target[:, 0], target[:, 1]) if self.split else (target[..., 0], target[..., 1])
        return parts[0] + 1j * parts[1]


forms = pytest.mark.parametrize("kind", [Interleaved, Split])
both = pytest.mark.parametrize("dtype", [np.float32, np.float64])
signs = pytest.mark.parametrize("sign", [-1, 1])


def turned(turns):
    """exp(2πi turns) in extended precision."""
    return np.exp(2j * np.arccos(np.longdouble(-1)) * turns)


def transform(values, sign):
    """Along the first axis, unscaled, in extended precision."""
    values = values.astype(np.clongdouble)
    return np.fft.fft(values, axis=0) if sign < 0 else np.fft.ifft(values, axis=0, norm="forward")


@forms
@pytest.mark.parametrize("radix", RADICES)
def test_butterflies(kind, radix):
    """Every radix in both precisions, and with both signs of the exponent where it is small."""
    for dtype, sign in itertools.product((np.float32, np.float64), (-1, 1)):
        if radix > 8 and (sign < 0) != (dtype is np.float32):
            continue
        form = Form(kind, dtype, sign)
        for k, value in enumerate(form.complexes.butterfly([form.load(j) for j in range(radix)])):
            form.store(k, value)
        values = complex_noise(np.random.default_rng(radix), (radix, form.columns), dtype)
        got = form.run(values, radix)
        assert relative_error(got, transform(values, sign)) < allowed(radix, dtype)


@forms
@both
@signs
def test_arithmetic_of_both_forms(kind, dtype, sign):
    form = Form(kind, dtype, sign)
    c, a, b = form.complexes, form.load(0), form.load(1)
    results = [
        c.add(a, b),
        c.subtract(a, b),
        c.quarter(a),
        c.scale(a, -1.0),
        c.scale(a, 0.3),
        c.turn(a, math.cos(0.7), math.sin(0.7)),
        c.times(a, c.factor(0)),
        c.times(a, c.factor(form.code.index(2))),
    ]
    for number, result in enumerate(results):
        form.store(number, result)
    values = complex_noise(np.random.default_rng(1), (2, form.columns), dtype)
    x, y = values.astype(complex)
    factors = np.array([0.3 - 0.5j, 7.0, -0.2 + 1.1j])
    got = form.run(values, len(results), kind.table([factors], dtype))
    wanted = [x + y, x - y, sign * 1j * x, -x, 0.3 * x, x * np.exp(sign * 0.7j)]
    wanted += [x * factors[0], x * factors[2]]
    np.testing.assert_allclose(
        got, np.array(wanted), rtol=4 * np.finfo(dtype).eps, atol=2 * np.finfo(dtype).eps
    )
    assert np.array_equal(got[2:4], np.array([sign * 1j * x, -x]))  # exact


def test_conjugate():
    form = Form(Split, np.float64, 1)
    form.store(0, form.complexes.conjugate(form.load(0)))
    values = complex_noise(np.random.default_rng(1), (1, form.columns), np.float64)
    assert np.array_equal(form.run(values, 1), values.conj())


@forms
@signs
@pytest.mark.parametrize("n", [1, 2, 3, 8, 12, 16])
def test_roots(kind, sign, n):
    """All of them, and those of more than a whole turn."""
    form = Form(kind, np.float64, sign)
    for k in range(2 * n):
        form.store(k, form.complexes.root(form.load(0), k, n))
    values = complex_noise(np.random.default_rng(n), (1, form.columns), np.float64)
    wanted = values * turned(sign * np.arange(2 * n) / np.longdouble(n))[:, None]
    np.testing.assert_allclose(form.run(values, 2 * n), wanted, rtol=4e-16, atol=0)


@settings(max_examples=200, derandomize=True)
@given(st.integers(1, 5000), st.sampled_from([4, 8, 16]))
def test_radices(n, most):
    order, rest = radices(n, most), n
    for prime in PRIMES:
        while rest % prime == 0:
            rest //= prime
    if rest > 1 or n == 1:
        assert order == ()
    else:
        assert math.prod(order) == n
        assert order == tuple(sorted(order, reverse=True))
        assert all(radix in PRIMES or radix in (4, 8, 16)[: (4, 8, 16).index(most) + 1] for radix in order)
        assert sum(radix == 2 for radix in order) <= 1
    if rest > 1:
        with pytest.raises(ValueError, match=f"{n} points given; allowed: products of primes up to 31"):
            stages_of(n, most)
    else:
        assert stages_of(n, most) == (order or (1,))


@pytest.mark.parametrize("n", [0, -4, 37, 74])
def test_lengths_that_are_refused(n):
    with pytest.raises(ValueError, match=f"transform: {n} points given"):
        stages_of(n)


@signs
@both
def test_stage_factors(sign, dtype):
    order, rows, before = (5, 4, 3), [], 1
    for radix in order:
        if before > 1:
            turns = np.arange(before)[:, None] * np.arange(1, radix) / np.longdouble(before * radix)
            rows.append(turned(sign * turns).ravel())
        before *= radix
    got = stage_factors(order, sign, dtype)
    assert got.dtype == np.result_type(dtype, np.complex64)
    assert got.shape == (5 * 3 + 20 * 2,)
    # Single precision may be rounded the other way, for the sake of the mean.
    np.testing.assert_allclose(got, np.concatenate(rows), rtol=0, atol=np.finfo(dtype).eps)
    assert stage_factors((7,), sign, dtype).size == 0


@pytest.mark.parametrize("order", [(16, 16), (8, 8, 8), (31, 16), (13, 4, 3)])
def test_moduli_of_factors_average_to_one(order):
    """What a mean error of a factor does to a frequency, every step of a simulation repeats."""
    got = stage_factors(order, -1, np.float32).astype(complex)
    first, before = 0, order[0]
    for radix in order[1:]:
        part = abs(got[first : first + before * (radix - 1)].reshape(before, radix - 1)) ** 2 - 1
        assert abs(part.mean(0)).max() < 6e-8 / before  # half an ulp in all, not of each
        first, before = first + part.size, before * radix
    assert first == got.size


def test_tables():
    factors = np.array([1 + 2j, 3 - 4j])
    assert Interleaved.table([factors], np.float32).tolist() == [1, -2, 2, 3, 4, -4]
    assert Split.table([factors], np.float64).tolist() == [1, 2, 3, -4]
    assert Interleaved.table([factors], np.float32).dtype == np.float32
    assert Split.table([factors[:0]], np.float64).size == 0


def test_factors_of_a_caller_come_last():
    parts = [np.array([1j]), np.array([2.0, 3.0])]
    assert Split.table(parts, np.float64, np.array([5, 6j]), 2).tolist() == [0, 1, 2, 0, 3, 0, 5, 0, 0, 6]
    assert Split.table(parts, np.float64).tolist() == [0, 1, 2, 0, 3, 0]
    for factors, count in (
        (np.ones(3), 2),
        (np.ones(1), 2),
        (np.ones((2, 1)), 2),
        (None, 2),
        (np.ones(2), 0),
    ):
        with pytest.raises(ValueError, match=r"factors: shape .* given; allowed"):
            Interleaved.table(parts, np.float64, factors, count)


def test_signs_of_zeros_change():
    form = Form(Split, np.float32, 1)
    form.store(0, form.complexes.scale(form.load(0), -1.0))
    values = np.zeros((1, form.columns), np.complex64)
    got = form.run(values, 1)
    assert bits(got.real) == bits(-values.real)
