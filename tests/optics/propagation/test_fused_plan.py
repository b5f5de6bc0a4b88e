"""Splits of a row for the kernels over a field, and the tables of twiddle factors and transfer functions."""

import doctest
import importlib
import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from roots_of_unity import ROUNDED, exact_root, worst_error

from wavefabric.optics.propagation.kernels.fused_plan import (
    FusedPlan,
    Transforms,
    fused_plan,
    transfers,
)
from wavefabric.runtime.spectral.inplace_fft import radices

DTYPES = [np.complex128, np.complex64]

smooth = st.lists(st.sampled_from([2, 2, 2, 3, 5, 7]), min_size=1, max_size=23).map(math.prod)
#: With hypothesis' own numbers, mostly those that need other primes.
lengths = st.one_of(smooth.filter(lambda n: n <= 2**24), st.integers(1, 2**24), st.integers(1, 300))
dtypes = st.sampled_from(DTYPES)


def test_the_examples():
    failed, tried = doctest.testmod(importlib.import_module(FusedPlan.__module__))
    assert (failed, tried) == (0, 1)


# --- Splits -----------------------------------------------------------------------------------------------


def transforms(plan):
    """The transforms of a plan, and the gap of each in shared memory."""
    yield plan.rows, plan.rows.gap
    if plan.columns.points > 1:
        yield plan.columns, plan.column_gap


@settings(max_examples=150)
@given(lengths, dtypes)
@example(2**21, np.complex128)
@example(2**23, np.complex64)
@example(1500282, np.complex128)
@example(7**7, np.complex64)
def test_splits(n, dtype):
    plan = fused_plan(n, dtype)
    splits = [c for c in range(2, 1025) if n % c == 0 and 16 <= n // c <= 8192]
    possible = 2 <= n <= 4096 or (n > 4096 and bool(splits))
    assert (plan is None) == (not possible or radices(n) == ())
    if plan is None:
        return
    assert plan.columns.points * plan.rows.points == plan.n == n
    assert (plan.columns.points == 1) == (n <= 4096)
    assert plan.columns.points % plan.rows.side == 0
    assert plan.rows.item == 16
    assert plan.columns.item == np.dtype(dtype).itemsize
    assert plan.kernels_at_once == {np.complex128: 1, np.complex64: 2}[dtype]
    for each, gap in transforms(plan):
        assert math.prod(each.radices) == each.points
        assert 1 <= each.threads * each.side <= 1024
        assert 0 <= each.shared(gap) <= 227 * 1024
        # What a launch asks of a multiprocessor fits into it.
        for registers in (64, 128):
            blocks = each.blocks(gap, registers)
            assert 1 <= blocks <= 16
            assert blocks == 1 or blocks * each.threads * each.side * registers <= 65536
            assert blocks * (each.shared(gap) + 1024) <= 228 * 1024
    # Of columns, two blocks: one loads while the other computes.
    if plan.columns.points > 1:
        assert 2 * (plan.columns.shared(plan.column_gap) + 1024) <= 228 * 1024


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 11, 22, 4096 * 11, 2**24, 7**8, 3 * 2**23])
def test_lengths_without_a_split(n, dtype):
    assert fused_plan(n, dtype) is None


@pytest.mark.parametrize(
    ("n", "dtype", "columns"),
    [
        (4096, np.complex128, 1),
        (8192, np.complex128, 4),
        (2**20, np.complex128, 512),
        (2**22, np.complex128, 1024),
        (2**20, np.complex64, 512),
        (2**21, np.complex64, 512),
        (2**23, np.complex64, 1024),
    ],
)
def test_lengths_of_columns(n, dtype, columns):
    """Rows of about 2048 samples, and columns that are not too long for them."""
    assert fused_plan(n, dtype).columns.points == columns


@pytest.mark.parametrize("dtype", DTYPES)
def test_less_shared_memory(dtype):
    """Other GPUs' blocks have 163 KiB (A100) or 99 KiB: shorter transforms, or none."""
    assert fused_plan(2**23, dtype).block_memory() > 163 * 1024
    assert fused_plan(2**23, dtype, 163 * 1024) is None
    for n in (2**13, 3**9, 2**20, 2**22):
        for kilobytes in (163, 99):
            assert fused_plan(n, dtype, kilobytes * 1024).block_memory() <= kilobytes * 1024


def test_shared_memory():
    """One place after `gap` points; none where nothing is exchanged."""
    assert Transforms(64, 2, 16).gap == 4
    assert Transforms(64, 2, 16).shared(4) == (64 + 16) * 2 * 16
    assert Transforms(64, 2, 16).shared(0) == 64 * 2 * 16
    assert Transforms(27, 3, 8).gap == 0
    assert Transforms(16, 2, 16).shared(16) == 0
    # Columns that fill a cache line need no gap.
    for tile, gap in ((8, 0), (4, 4)):
        plan = FusedPlan(Transforms(64, tile, 16), Transforms(32, 1, 16), np.dtype(complex))
        assert plan.column_gap == gap
    assert FusedPlan(Transforms(1, 1, 16), Transforms(32, 1, 16), np.dtype(complex)).column_gap == 0


@settings(max_examples=60)
@given(smooth.filter(lambda n: n <= 2**23), dtypes)
def test_definitions(n, dtype):
    plan = fused_plan(n, dtype)
    if plan is None:
        return
    lines = [line.split(" ", 2) for line in plan.prelude().splitlines()]
    assert {first for first, *_ in lines} == {"#define"}
    result = {name: value for _, name, value in lines}
    assert result["REAL"] == {np.complex128: "double", np.complex64: "float"}[dtype]
    assert int(result["N1"]) * int(result["N2"]) == n
    assert int(result["PAIRED"]) == plan.kernels_at_once - 1
    for side, each, gap in (("1", plan.columns, plan.column_gap), ("2", plan.rows, plan.rows.gap)):
        if each.points == 1:
            assert not any(name.endswith("1") and name != "N1" for name in result)
            assert "TILE" not in result
            continue
        assert (
            math.prod(map(int, result[f"RADICES{side}"].split(","))) == int(result[f"N{side}"]) == each.points
        )
        assert int(result[f"THREADS{side}"]) == each.threads
        assert int(result[{"1": "TILE", "2": "ROWS"}[side]]) == each.side
        assert int(result[f"GAP{side}"]) == gap
        assert int(result[f"BLOCKS{side}"]) >= 1


# --- Tables ---


def plan_of(columns, rows, dtype=np.complex128):
    return FusedPlan(
        Transforms(columns, 8, np.dtype(dtype).itemsize), Transforms(rows, 1, 16), np.dtype(dtype)
    )


def test_roots_of_columns():
    plan = plan_of(90, 16)
    result = plan.roots()
    assert result.dtype == np.complex128
    assert worst_error(result, [exact_root(m, 90) for m in range(90)]) < ROUNDED


def test_split_factors():
    """w_N^(P n2), P the product of the radices of the stages before: the radices are 16, 3, 2."""
    plan = plan_of(96, 35)
    assert plan.columns.radices == (16, 3, 2)
    result = plan.split_factors()
    assert result.shape == (3, 35)
    assert result.dtype == np.complex128
    for line, before in zip(result, (1, 16, 48), strict=True):
        assert worst_error(line, [exact_root(before * n2, 96 * 35) for n2 in range(35)]) < ROUNDED


# --- Transfer functions -----------------------------------------------------------------------------------


@pytest.mark.parametrize("higher", [[], [0.2, -0.4]], ids=["four", "six"])
@pytest.mark.parametrize("h", [0.7, -0.4])
@pytest.mark.parametrize("n", [2, 15, 16, 1037])
def test_transfers(n, h, higher):
    """exp(h L̂)/N from the definition i Σ iⁿ/n! βₙ ∂ⁿ/∂tⁿ with ∂/∂t → +iω, NumPy's order of ω."""
    coefficients = np.array(
        [[0.3, 2.0, -0.8, 0.2, -0.1], [0.0, 0.0, 0.5, 0.0, 0.0], [0.1, -3.0, 0.0, -0.4, 0.2]]
    )
    coefficients = np.column_stack([coefficients, np.outer([1.0, -0.5, 2.0], higher)])
    rate = 0.9
    result = transfers(coefficients, rate, h, n)
    assert result.shape == coefficients.shape
    assert result.dtype == np.float64
    assert result.flags.c_contiguous
    omega = 2 * np.pi * np.fft.fftfreq(n, 1 / rate)
    k = np.arange(n)
    x = np.where(2 * k < n, k, k - n) / n
    for (alpha, *beta), (*phase, size) in zip(coefficients, result, strict=True):
        operator = -alpha / 2 + sum(
            1j * 1j**m / math.factorial(m) * b * (1j * omega) ** m for m, b in enumerate(beta, 1)
        )
        got = size * np.exp(1j * np.pi * sum(p * x**m for m, p in enumerate(phase, 1)))
        np.testing.assert_allclose(got, np.exp(h * operator) / n, rtol=1e-12)
