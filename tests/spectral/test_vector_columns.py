"""Transforms of columns in vector code, against NumPy in extended precision."""

import math
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from vector_calls import (
    Guarded,
    allowed,
    bits,
    call,
    complex_noise,
    oldest_processor,
    relative_error,
    survives,
)

from wavefabric.spectral.vector_columns import ComplexColumns

#: The same lengths every time; each makes and compiles a function.
sized = settings(max_examples=16, derandomize=True)
both = pytest.mark.parametrize("dtype", [np.float32, np.float64])
FACTORS = (2, 3, 4, 5, 7, 8, 16, 11, 13)
LENGTHS = st.lists(st.sampled_from(FACTORS), min_size=1, max_size=3).map(math.prod).filter(lambda n: n < 600)
PRECISIONS, SIGNS = st.sampled_from([np.float32, np.float64]), st.sampled_from([-1, 1])


def transform(values, sign):
    """Along the first axis, unscaled."""
    values = values.astype(np.clongdouble)
    return np.fft.fft(values, axis=0) if sign < 0 else np.fft.ifft(values, axis=0, norm="forward")


@pytest.mark.parametrize("points", [128, 125, 77])
def test_single_precision_neither_gains_nor_loses_energy(points):
    """A transform off by 3e-8, as SciPy's is, is off by a thousandth after ten thousand steps."""
    plan, dtype = ComplexColumns(points, 512, 512, 512, -1), np.float32
    source = complex_noise(np.random.default_rng(1), (points, 512), dtype)
    target = np.zeros_like(source)
    call(plan.compiled(dtype), plan.table(dtype), source, target, source)
    gain = np.linalg.norm(target.astype(complex)) / np.linalg.norm(source.astype(complex))
    assert abs(gain / math.sqrt(points) - 1) < 3e-9


class Case:
    """ComplexColumns, what they need, and what should come of them."""

    def __init__(self, plan, dtype):
        self.plan, self.dtype, rng = plan, dtype, np.random.default_rng(plan.points)
        self.function = plan.compiled(dtype)
        self.source = complex_noise(rng, (plan.points, plan.source), dtype)
        self.source[:, plan.count :] = np.nan
        self.target = complex_noise(rng, (plan.points, plan.target), dtype)
        self.operator = rng.standard_normal((plan.points, plan.operator or 1)).astype(dtype)
        self.operator[:, plan.count :] = np.nan
        self.factors = complex_noise(rng, (plan.points,), np.float64) if plan.factors else None
        self.table = plan.table(dtype, self.factors)
        values = self.source[:, : plan.count].astype(np.clongdouble)
        if plan.operator:
            values = values * self.operator[:, : plan.count]
        if plan.factors:
            values = values * self.factors[:, None]
        self.wanted = transform(values, plan.sign)

    def run(self, source=None, target=None):
        source = self.source if source is None else source
        target = self.target.copy() if target is None else target
        call(self.function, self.table, source, target, self.operator)
        return target

    def check(self):
        source, operator, table = bits(self.source), bits(self.operator), bits(self.table)
        got, count = self.run(), self.plan.count
        rounded = self.plan.factors + bool(self.plan.operator)
        assert relative_error(got[:, :count], self.wanted) < allowed(self.plan.points << rounded, self.dtype)
        assert bits(got[:, count:]) == bits(self.target[:, count:])
        assert (bits(self.source), bits(self.operator), bits(self.table)) == (source, operator, table)
        return got


@sized
@given(LENGTHS, PRECISIONS, SIGNS, st.sampled_from([4, 8, 12, 16]), st.integers(0, 5), st.integers(0, 5))
def test_out_of_place(points, dtype, sign, count, more, space):
    """Rows longer than the columns: what lies beside these is neither read nor written."""
    Case(ComplexColumns(points, count, count + more, count + space, sign), dtype).check()


@sized
@given(LENGTHS, PRECISIONS, SIGNS, st.sampled_from([4, 8, 12]), st.booleans(), st.integers(0, 5))
def test_with_an_operator_and_factors(points, dtype, sign, count, factors, more):
    plan = ComplexColumns(points, count, count + 1, count, sign, operator=count + more, factors=factors)
    Case(plan, dtype).check()


@both
@pytest.mark.parametrize("points", [1, 2, 3, 31, 256, 16 * 31, 31 * 2])
def test_lengths(points, dtype):
    """One point, one radix, the largest prime first and last, radix 16 twice; factors alone."""
    Case(ComplexColumns(points, 8, 8, 8, 1, factors=True), dtype).check()


@both
@pytest.mark.parametrize("points", [1, 3, 60, 128])
def test_in_place_is_the_same(points, dtype):
    case = Case(ComplexColumns(points, 12, 13, 13, -1), dtype)
    apart, inside = case.check(), case.source.copy()
    case.run(inside, inside)
    assert bits(inside[:, :12]) == bits(apart[:, :12])
    assert bits(inside[:, 12:]) == bits(case.source[:, 12:])


@both
@pytest.mark.parametrize("groups", [0, 1, 2, 3, 4])
def test_every_column_is_transformed_alike(groups, dtype):
    """Odd and even numbers of vectors, of which pairs go together: not a bit depends on the place."""
    width = 16 // np.dtype(dtype).itemsize
    points, count = 24, groups * width
    column = complex_noise(np.random.default_rng(1), (points, 1), dtype)
    source, target = np.repeat(column, count + 1, 1), np.full((points, count + 1), 7, column.dtype)
    plan = ComplexColumns(points, count, count + 1, count + 1, -1)
    call(plan.compiled(dtype), plan.table(dtype), source, target)
    assert (target[:, count] == 7).all()
    assert all(bits(target[:, i]) == bits(target[:, 0]) for i in range(count))
    if count:
        assert relative_error(target[:, :1], transform(column, -1)) < allowed(points, dtype)


@both
def test_values_ahead_are_fetched_only(dtype):
    """The same bits with and without, of whatever lies at that address, and of an address that is none."""
    plain = Case(ComplexColumns(30, 8, 9, 8, -1), dtype)
    ahead = ComplexColumns(30, 8, 9, 8, -1, ahead=True).compiled(dtype)
    wanted = plain.check()
    for operator in (None, np.full((30, 9), np.nan, wanted.dtype)):
        before, target = operator is not None and bits(operator), plain.target.copy()
        call(ahead, plain.table, plain.source, target, operator)
        assert bits(target) == bits(wanted)
        assert operator is None or bits(operator) == before


@both
def test_single_values_along_a_column(dtype):
    """An impulse at n gives exp(± 2πi k n/N): a wrong index would not average out."""
    points = 48
    source = np.zeros((points, points), np.result_type(dtype, np.complex64))
    np.fill_diagonal(source, 1)
    plan = ComplexColumns(points, points, points, points, 1)
    target = np.empty_like(source)
    call(plan.compiled(dtype), plan.table(dtype), source, target)
    np.testing.assert_allclose(target, transform(source, 1), rtol=0, atol=3 * np.finfo(dtype).eps)


@both
@pytest.mark.parametrize("points", [1024, 4096])
def test_long_columns_are_accurate(points, dtype):
    """And there and back, many times: norms change by less than a third of an ulp in a transform."""
    case = Case(ComplexColumns(points, 4, 4, 4, -1), dtype)
    case.check()
    back = ComplexColumns(points, 4, 4, 4, 1)
    function, table, values = back.compiled(dtype), back.table(dtype), case.source.copy()
    for _ in range(20):
        case.run(values, values)
        call(function, table, values, values)
        values /= points
    assert relative_error(values, case.source) < 40 * allowed(points, dtype)
    norms = [np.linalg.norm(one.astype(complex)) for one in (values, case.source)]
    assert abs(norms[0] / norms[1] - 1) < 40 * np.finfo(dtype).eps / 3


@both
def test_processors_of_short_vectors_without_fma(dtype, monkeypatch):
    """Not the same bits, but the same accuracy."""
    oldest_processor(monkeypatch)
    Case(ComplexColumns(105, 12, 12, 13, 1, operator=12, factors=True), dtype).check()


@both
def test_nothing_is_touched_outside(dtype):
    """Not a byte beyond the last value of the last row, nor before the first."""
    case = Case(ComplexColumns(12, 4, 7, 5, 1, operator=6, factors=True), dtype)

    def work():
        for at_end in (False, True):
            arrays = []
            for array, row in ((case.source, 7), (case.target, 5), (case.operator, 6)):
                arrays.append(Guarded(array.reshape(-1)[: 11 * row + 4], at_end))
            table = Guarded(case.table, at_end)
            source, target, operator = arrays
            call(case.function, table.array, source.array, target.array, operator.array)

    assert survives(work)


def test_watched_arrays_end_a_process():
    """What the test before rests on: with one row less than the columns have, a read goes outside."""
    case = Case(ComplexColumns(12, 4, 4, 4, 1), np.float64)
    short = Guarded(case.source[:-1], True)
    assert not survives(lambda: call(case.function, case.table, short.array, case.target))


@both
def test_calls_of_several_threads_give_the_same_bits(dtype):
    """What lies between the stages belongs to the call."""
    case = Case(ComplexColumns(240, 8, 8, 8, -1), dtype)
    wanted, wrong = bits(case.check()), []

    def work():
        target = np.empty_like(case.target)
        for _ in range(200):
            case.run(case.source, target)
            if bits(target) != wanted:
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize(("dtype", "count", "width"), [(np.float32, 6, 4), (np.float64, 3, 2)])
def test_parts_of_vectors_are_refused(dtype, count, width):
    with pytest.raises(ValueError, match=f"columns: {count} given; allowed: a multiple of {width}"):
        ComplexColumns(8, count, count, count, -1).compiled(dtype)


@pytest.mark.parametrize("points", [0, 37, 74])
def test_lengths_that_are_refused(points):
    plan = ComplexColumns(points, 4, 4, 4, -1)
    for make in (plan.compiled, plan.table):
        with pytest.raises(
            ValueError, match=f"transform: {points} points given; allowed: products of primes"
        ):
            make(np.float32)


@pytest.mark.parametrize(("plan", "inputs"), [(True, 7), (True, 9), (True, None), (False, 8)])
def test_another_number_of_factors_is_refused(plan, inputs):
    factors = None if inputs is None else np.ones(inputs)
    with pytest.raises(ValueError, match="factors: shape"):
        ComplexColumns(8, 4, 4, 4, -1, factors=plan).table(np.float32, factors)
