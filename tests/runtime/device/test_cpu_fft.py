"""Transforms of rows and axes by the C++ library against NumPy in double precision."""

import doctest
import importlib

import numpy as np
import pytest
from emulated_device import opened
from hypothesis import given
from hypothesis import strategies as st

from wavefabric.runtime.kernels.series_plan import matrix_rows

#: Lengths of rows: below and above the lanes of a vector, of every radix, with prime factors above 13.
LENGTHS = [1, 2, 3, 13, 16, 17, 30, 31, 64, 100, 250, 256, 1009, 1024, 2310, 4096, 10007, 1 << 14]
TOLERANCE = {np.complex128: 3e-15, np.complex64: 6e-7}
DTYPES = pytest.mark.parametrize("dtype", TOLERANCE, ids=["double", "single"])


@pytest.fixture(params=[pytest.param("cpu 1", marks=pytest.mark.slow), "cpu 2"])
def device(request):
    return opened(request.param)


def drawn(device, shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    field = device.empty(shape, dtype)
    field[...] = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
    return field


def check(actual, expected, dtype):
    assert abs(actual - expected).max() <= TOLERANCE[dtype] * abs(expected).max()


def test_examples():
    failed, tried = doctest.testmod(importlib.import_module("wavefabric.runtime.kernels.series_plan"))
    assert (failed, tried) == (0, 3)


@given(st.integers(1, 1 << 20))
def test_rows_of_a_matrix(n):
    rows = matrix_rows(n)
    assert n % rows == 0
    assert rows <= n // rows


@DTYPES
@pytest.mark.parametrize("n", LENGTHS)
def test_rows_there_and_back(device, n, dtype):
    field, fft = drawn(device, (3, n), dtype), device.row_fft(3, n, dtype)
    before = field.astype(complex)
    fft.forward(field)
    check(field, np.fft.fft(before), dtype)
    fft.backward(field)
    check(field / n, before, dtype)


@DTYPES
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("n", LENGTHS)
def test_products_in_transforms(device, n, rows, dtype):
    """One row for two threads, which share it, and more rows than threads."""
    field, fft = drawn(device, (rows, n), dtype), device.row_fft(rows, n, dtype)
    before, factors = field.astype(complex), drawn(device, (2, n), np.complex128, 1)
    kinds = np.array([1, 0, 1][:rows], np.int32)
    arranged = fft.arrange(factors)
    fft.multiply(field, arranged, kinds)
    check(field / n, np.fft.ifft(np.fft.fft(before) * factors[kinds]), dtype)
    again = fft.arrange(factors[::-1].copy(), arranged)
    assert again is arranged
    field[...] = before
    fft.multiply(field, again, 1 - kinds)
    check(field / n, np.fft.ifft(np.fft.fft(before) * factors[kinds]), dtype)


@DTYPES
def test_same_bits_on_any_number_of_threads(dtype):
    fields = []
    for threads in ("cpu 1", "cpu 2"):
        device = opened(threads)
        field, fft = drawn(device, (1, 4096), dtype), device.row_fft(1, 4096, dtype)
        factors = fft.arrange(drawn(device, (1, 4096), np.complex128, 1))
        fft.multiply(field, factors, np.zeros(1, np.int32))
        fields.append(field)
    assert (fields[0] == fields[1]).all()


@DTYPES
def test_energy_stays_in_many_transforms(dtype):
    """Factors of modulus 1 are rounded without bias: 2000 products leave the energy as it was."""
    device = opened("cpu 1")
    n, field = 1024, drawn(opened("cpu 1"), (1, 1024), dtype)
    fft, energy = device.row_fft(1, n, dtype), float((abs(field.astype(complex)) ** 2).sum())
    phases = np.exp(2j * np.pi * np.random.default_rng(2).random((1, n))) / n
    arranged, kinds = fft.arrange(phases), np.zeros(1, np.int32)
    for _ in range(2000):
        fft.multiply(field, arranged, kinds)
    gain = abs((abs(field.astype(complex)) ** 2).sum() / energy - 1)
    assert gain < (2e-5 if dtype == np.complex64 else 1e-12)


def test_an_array_that_is_not_contiguous(device):
    fft = device.row_fft(1, 64, np.complex64)
    with pytest.raises(ValueError, match="contiguous"):
        fft.forward(np.zeros((1, 128), np.complex64)[:, ::2])
