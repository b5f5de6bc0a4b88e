"""Transforms of real rows in vector code, against NumPy in extended precision."""

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

from wavefabric.spectral.vector_rows import RealRows

#: The same lengths every time; each makes and compiles a function.
sized = settings(max_examples=10, derandomize=True)
both = pytest.mark.parametrize("dtype", [np.float32, np.float64])
signs = pytest.mark.parametrize("sign", [-1, 1])
ODD, EVEN = (
    st.sampled_from([3, 5, 7, 9, 11, 15, 21, 25, 45]),
    st.sampled_from([2, 4, 6, 8, 10, 12, 16, 22, 32, 36]),
)
LENGTHS = st.tuples(ODD | EVEN, st.sampled_from([1, 1, 3, 5, 2, 4])).map(math.prod)
PRECISIONS = st.sampled_from([np.float32, np.float64])


def lanes(dtype):
    return 32 // np.dtype(dtype).itemsize


class Case:
    """Rows, their half spectra, and what should come of one or the other."""

    def __init__(self, plan, dtype):
        self.plan, self.dtype, rng = plan, dtype, np.random.default_rng(plan.points + plan.count)
        self.function, entries = plan.compiled(dtype), plan.entries
        self.factors = complex_noise(rng, (entries,), np.float64) if plan.factors else None
        self.table = plan.table(dtype, self.factors)
        rows = rng.standard_normal((plan.count, plan.points)).astype(dtype)
        spectra = complex_noise(rng, (plan.count, plan.pitch), dtype)
        if plan.sign < 0:
            self.source, self.target = rows, np.full_like(spectra, np.nan)
            self.wanted = np.zeros(spectra.shape, np.clongdouble)
            self.wanted[:, :entries] = np.fft.rfft(rows.astype(np.longdouble))
        else:
            spectra[:, entries:] = np.nan  # padding does not count
            self.source, self.target = spectra, np.full_like(rows, np.nan)
            half = spectra[:, :entries].astype(np.clongdouble)
            if plan.factors:
                half *= self.factors
            half[:, 0].imag = 0
            if plan.points % 2 == 0:
                half[:, -1].imag = 0
            self.wanted = np.fft.irfft(half, plan.points, norm="forward")

    def run(self, source=None):
        """Rows before and behind those of the call stay as they are."""
        edge = np.full_like(self.target[:1], 7)
        target = np.concatenate([edge, self.target, edge])
        call(self.function, self.table, self.source if source is None else source, target[1:])
        assert (target[[0, -1]] == 7).all()
        return target[1:-1]

    def check(self):
        source, table = bits(self.source), bits(self.table)
        got = self.run()
        points = self.plan.points << self.plan.factors
        assert relative_error(got, self.wanted) < allowed(2 * points, self.dtype)
        assert (bits(self.source), bits(self.table)) == (source, table)
        if self.plan.sign < 0:
            ends = [0, self.plan.points // 2] if self.plan.points % 2 == 0 else [0]
            assert (got[:, ends].imag == 0).all()
            assert (got[:, self.plan.entries :] == 0).all()
        return got


@sized
@given(LENGTHS, PRECISIONS, st.integers(1, 9), st.integers(0, 5))
def test_rows_to_spectra(points, dtype, count, more):
    Case(RealRows(points, count, points // 2 + 1 + more, -1), dtype).check()


@sized
@given(LENGTHS, PRECISIONS, st.integers(1, 9), st.integers(0, 5), st.booleans())
def test_spectra_to_rows(points, dtype, count, more, factors):
    """Imaginary parts at k = 0, and at N/2, do not count, nor does what pads a spectrum."""
    Case(RealRows(points, count, points // 2 + 1 + more, 1, factors), dtype).check()


@both
@signs
@pytest.mark.parametrize("points", [1, 2, 3, 4, 29, 62, 64])
def test_lengths(points, sign, dtype):
    """One value, none or one stage, an odd and an even number of them, large primes."""
    Case(RealRows(points, lanes(dtype), points // 2 + 2, sign, sign > 0), dtype).check()


@both
@signs
@pytest.mark.parametrize("points", [12, 15])
def test_every_row_is_transformed_alike(points, sign, dtype):
    """Below, at and above the lanes of a vector, and twice: not a bit depends on the place, nor on others."""
    several = lanes(dtype)
    plan = RealRows(points, 2 * several + 1, points // 2 + 3, sign)
    case = Case(plan, dtype)
    wanted = case.check()
    for count in (0, 1, several - 1, several):
        few = RealRows(points, count, plan.pitch, sign).compiled(dtype)
        got = np.full_like(case.target, 7)
        call(few, case.table, case.source, got)
        assert bits(got[:count]) == bits(wanted[:count])
        assert (got[count:] == 7).all()


@both
@signs
@pytest.mark.parametrize("points", [6, 9, 40])
def test_nothing_is_touched_outside(points, sign, dtype):
    """Not a byte beyond the last row, nor before the first, if rows lack as well."""
    cases = [
        Case(RealRows(points, count, points // 2 + 1, sign, sign > 0), dtype)
        for count in (1, lanes(dtype), lanes(dtype) + 3)
    ]

    def work():
        for case in cases:
            for at_end in (False, True):
                arrays = [Guarded(one, at_end) for one in (case.table, case.source, case.target)]
                call(case.function, *(one.array for one in arrays))

    assert survives(work)


@both
@signs
def test_processors_of_short_vectors_without_fma(sign, dtype, monkeypatch):
    """Not the same bits, but the same accuracy."""
    oldest_processor(monkeypatch)
    Case(RealRows(48, lanes(dtype), 26, sign, sign > 0), dtype).check()


@both
@signs
def test_other_rows_do_not_count(sign, dtype):
    """A row of NaN, or of huge numbers, changes no bit of its neighbours."""
    case = Case(RealRows(20, lanes(dtype) + 2, 11, sign), dtype)
    wanted, spoilt = case.check(), case.source.copy()
    for row, value in ((1, np.nan), (lanes(dtype) + 1, np.finfo(dtype).max)):
        spoilt[row] = value
    got = case.run(spoilt)
    others = [row for row in range(case.plan.count) if row not in (1, lanes(dtype) + 1)]
    assert bits(got[others]) == bits(wanted[others])
    assert np.isnan(got[1]).all()


@both
@pytest.mark.parametrize("points", [18, 15, 2, 1])
def test_imaginary_parts_of_real_entries_do_not_change_a_bit(points, dtype):
    """At k = 0 and N/2; nor does what pads the spectra."""
    case = Case(RealRows(points, 3, points // 2 + 3, 1), dtype)
    wanted, spoilt = case.check(), case.source.copy()
    for k in (0, points // 2) if points % 2 == 0 else (0,):
        spoilt[:, k].imag = np.nan
    assert bits(case.run(spoilt)) == bits(wanted)


@both
@pytest.mark.parametrize("points", [18, 15, 2, 1])
def test_there_and_back(points, dtype):
    case = Case(RealRows(points, 5, points // 2 + 4, -1), dtype)
    back = RealRows(points, 5, points // 2 + 4, 1)
    again = np.empty_like(case.source)
    call(back.compiled(dtype), back.table(dtype), case.check(), again)
    assert relative_error(again / points, case.source) < 2 * allowed(points, dtype)


@both
def test_single_values_along_a_row(dtype):
    """An impulse at n gives exp(−2πi k n/N): a wrong index would not average out."""
    for points in (24, 21):
        source = np.eye(points, dtype=dtype)
        plan = RealRows(points, points, points // 2 + 1, -1)
        target = np.empty((points, plan.pitch), np.result_type(dtype, np.complex64))
        call(plan.compiled(dtype), plan.table(dtype), source, target)
        wanted = np.fft.rfft(source.astype(np.longdouble))
        np.testing.assert_allclose(target, wanted, rtol=0, atol=3 * np.finfo(dtype).eps)


@both
@pytest.mark.parametrize("points", [2048, 4096])
def test_long_rows_are_accurate(points, dtype):
    Case(RealRows(points, lanes(dtype), points // 2 + 1, -1), dtype).check()
    Case(RealRows(points, lanes(dtype), points // 2 + 1, 1), dtype).check()


def test_factors_of_single_precision_average_to_one():
    """Those that join the spectra of even and odd points."""
    plan = RealRows(512, 8, 257, -1)
    table = plan.table(np.float32).reshape(-1, 2).astype(float)
    roots = table[-129:, 0] + 1j * table[-129:, 1]
    np.testing.assert_allclose(roots, np.exp(-2j * np.pi * np.arange(129) / 512), rtol=0, atol=1.2e-7)
    assert abs((abs(roots) ** 2 - 1).mean()) < 1e-9
    assert abs(abs(roots.astype(np.complex64)) - 1).max() > 1e-8  # not each of them is


@both
@signs
def test_calls_of_several_threads_give_the_same_bits(sign, dtype):
    """What lies between the stages belongs to the call."""
    case = Case(RealRows(120, 11, 64, sign), dtype)
    wanted, wrong = bits(case.check()), []

    def work():
        for _ in range(150):
            if bits(case.run()) != wanted:
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@signs
def test_a_pitch_below_the_half_spectrum_is_refused(sign):
    with pytest.raises(ValueError, match="pitch: 8 given; allowed: from 9 on"):
        RealRows(16, 1, 8, sign).compiled(np.float32)


@pytest.mark.parametrize("points", [0, 37, 74])
def test_lengths_that_are_refused(points):
    plan = RealRows(points, 4, 64, -1)
    for make in (plan.compiled, plan.table):
        with pytest.raises(ValueError, match="points given; allowed: products of primes up to 31"):
            make(np.float32)


@pytest.mark.parametrize(("plan", "inputs"), [(True, 8), (True, 10), (True, None), (False, 9)])
def test_another_number_of_factors_is_refused(plan, inputs):
    factors = None if inputs is None else np.ones(inputs)
    with pytest.raises(ValueError, match="factors: shape"):
        RealRows(16, 4, 9, 1, plan).table(np.float32, factors)
