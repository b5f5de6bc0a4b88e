"""Operators and integrators: what a step costs, what it allocates, and that each part is what it says."""

import gc
import itertools
import math
import tracemalloc

import numpy as np
import pytest
from emulated_device import opened
from fibre_cases import ALL, distance, make_fibre, smooth_field

from wavefabric.base.errors import InputError
from wavefabric.optics.propagation.integrators import INTEGRATORS, KERR, LINEAR
from wavefabric.optics.propagation.operators import FibreOperators, OperationCounts
from wavefabric.optics.propagation.propagate import PropagationOptions, memory_needed, propagate

DT = 2e-12
KAPPA = np.array([[0.9, 0.5, 0.4], [0.6, 1.1, 0.3], [0.4, 0.3, 0.8]])
BETA = np.zeros((3, 4))
BETA[:, 0] = 0, 0.4e-15, -0.7e-15
BETA[:, 1] = -20e-27, -22e-27, -19e-27
BETA[:, 2:] = 0.1e-39, 2e-54


def fibre():
    return make_fibre(KAPPA, beta=BETA, alpha=[0.04e-3, 0.06e-3, 0.05e-3])


def operators_for(device, n, dtype=np.complex128, of=None, **options):
    return FibreOperators(device, of or fibre(), n, 1 / DT, dtype, **options)


def put(operators, field):
    A = operators.empty()
    A[...] = operators.device.asarray(field.astype(operators.dtype))
    return A


@pytest.mark.parametrize("dtype", [np.complex128, np.complex64])
@pytest.mark.parametrize("n", [2, 63, 64, 1037, 2048])
def test_linear_operator(device, n, dtype):
    """One factor exp(L̂ z) on NumPy's transform, for even and odd N, forwards and backwards."""
    operators, length = operators_for(device, n, dtype), 3e3
    field = smooth_field(6, n, 1e-3, width=1.0).astype(dtype)
    A = put(operators, field)
    omega = 2 * np.pi * np.fft.fftfreq(n, DT)
    wanted = np.fft.fft(field.astype(complex))
    for row in range(6):
        operator = sum(
            1j * 1j**k / math.factorial(k) * b * (1j * omega) ** k for k, b in enumerate(BETA[row // 2], 1)
        )
        wanted[row] *= np.exp(length * (operator - fibre().alpha[row // 2] / 2))
    wanted = np.fft.ifft(wanted)
    tolerance = 1e-12 if dtype == np.complex128 else 5e-6
    operators.linear(A, length)
    assert device.to_host(A).dtype == dtype
    assert distance(device.to_host(A), wanted) < tolerance
    operators.linear(A, -length)
    assert distance(device.to_host(A), field) < tolerance
    assert operators.counts.ffts == 4


def test_rows_with_the_same_dispersion_share_a_table(cpu):
    operators = operators_for(
        cpu, 64, of=make_fibre(np.eye(4), beta=[0, -20e-27, 0, 0], alpha=[1e-5, 2e-5, 1e-5, 1e-5])
    )
    operators.prepare(100.0)
    (table,) = operators.propagation.factors.values()
    assert len(table) == 2
    assert operators.device.to_host(operators.propagation.table_row).tolist() == [0, 0, 1, 1, 0, 0, 0, 0]


def test_tables_are_few_and_right_when_lengths_come_and_go(cpu):
    operators, fresh = operators_for(cpu, 64), operators_for(cpu, 64)
    field = smooth_field(6, 64, 1e-3)
    lengths = [100.0 * k for k in (1, 2, 3, 4, 5, 6, 7, 8, 1, 8, 2, 7)]
    A, B = put(operators, field), put(fresh, field)
    for length in lengths:
        operators.linear(A, length)
        fresh.propagation.factors.clear()
        fresh.linear(B, length)
    assert (A == B).all()
    assert len(operators.propagation.factors) <= 6


@pytest.mark.parametrize("integrator", ALL)
def test_cost_of_a_step(device, integrator):
    operators = operators_for(device, 64)
    A = put(operators, smooth_field(6, 64, 1e-3))
    scheme = INTEGRATORS[integrator](operators)
    scheme.advance(A, 100.0, 1)
    one = OperationCounts(**vars(operators.counts))
    scheme.advance(A, 100.0, 4)
    (ffts, exchanges), (extra_ffts, extra_exchanges) = scheme.cost_per_step, scheme.cost_per_interval
    assert ffts > 0
    assert exchanges > 0
    assert (one.ffts, one.exchanges) == (ffts + extra_ffts, exchanges + extra_exchanges)
    assert operators.counts.ffts == one.ffts + 4 * ffts + extra_ffts
    assert operators.counts.exchanges == one.exchanges + 4 * exchanges + extra_exchanges
    text = " ".join((INTEGRATORS[integrator].__doc__ or "").split())
    if "FFTs" in text:
        assert f"{ffts} FFTs" in text


@pytest.mark.parametrize("integrator", ALL)
def test_lengths_are_those_that_are_used(cpu, integrator):
    operators = operators_for(cpu, 64)
    A = put(operators, smooth_field(6, 64, 1e-3))
    scheme = INTEGRATORS[integrator](operators)
    assert len(set(scheme.lengths(100.0))) <= 6
    operators.prepare(*scheme.lengths(100.0))
    before = {length: id(table) for length, table in operators.propagation.factors.items()}
    scheme.advance(A, 100.0, 3)
    assert {length: id(table) for length, table in operators.propagation.factors.items()} == before


@pytest.mark.parametrize("threads", [2, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("dtype", [np.complex128, pytest.param(np.complex64, marks=pytest.mark.slow)])
@pytest.mark.parametrize("integrator", ALL)
def test_a_step_allocates_nothing(integrator, dtype, threads):
    device = opened(f"cpu {threads}")
    operators = operators_for(device, 1 << 14, dtype)
    A = put(operators, smooth_field(6, 1 << 14, 1e-3))
    scheme = INTEGRATORS[integrator](operators)
    work = [lambda: scheme.step(A, 100.0)]
    if scheme.adaptive:
        work += [lambda: scheme.trial(A, 100.0), lambda: scheme.reject(A)]
    scheme.begin(A, 100.0)
    for each in work:
        each()
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        for each in work * 3:
            each()
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert A.nbytes > 700_000
    assert peak < 64 << 10


@pytest.mark.parametrize("integrator", ALL)
def test_memory_needed_covers_what_is_held(cpu, integrator):
    n, of = 1 << 15, fibre()
    field = smooth_field(6, n, 1e-3)
    propagate(field[:, :64], of, 1e3, sample_rate=1 / DT, step=500.0, integrator=integrator, device=cpu)
    tracemalloc.start()
    try:
        operators = operators_for(cpu, n, of=of)
        scheme = INTEGRATORS[integrator](operators)
        A = put(operators, field)
        scheme.advance(A, 500.0, 2)
        gc.collect()
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    needed = memory_needed(of, n, PropagationOptions(integrator, step=1.0), cpu)
    assert held <= needed
    # All but the fixed reserve is accounted for, field by field.
    assert needed - (64 << 20) == pytest.approx(held, rel=0.1)


@pytest.mark.parametrize("integrator", ["rk4ip", "erk43ip"])
def test_rk4ip_is_the_papers(cpu, integrator):
    """Eq. (6a–f) of Brehler et al. written out in NumPy."""
    n, h = 256, 400.0
    operators = operators_for(cpu, n)
    field = smooth_field(6, n, 60e-3)
    kappa = 1.3e-3 * np.repeat(np.repeat(KAPPA, 2, axis=0), 2, axis=1)
    omega = 2 * np.pi * np.fft.fftfreq(n, DT)
    beta, alpha = np.repeat(BETA, 2, axis=0), np.repeat(fibre().alpha, 2)[:, None]
    operator = -alpha / 2 + sum(
        1j * 1j**k / math.factorial(k) * beta[:, k - 1 : k] * (1j * omega) ** k for k in range(1, 5)
    )

    def half(a):
        return np.fft.ifft(np.exp(h / 2 * operator) * np.fft.fft(a))

    def kerr(a):
        return 1j * (kappa @ abs(a) ** 2) * a

    wanted = field
    for _ in range(3):
        moved = half(wanted)
        k1 = half(h * kerr(wanted))
        k2 = h * kerr(moved + k1 / 2)
        k3 = h * kerr(moved + k2 / 2)
        last = half(moved + k3)
        k4 = h * kerr(last)
        wanted = half(moved + k1 / 6 + k2 / 3 + k3 / 3) + k4 / 6
    A = put(operators, field)
    INTEGRATORS[integrator](operators).advance(A, h, 3)
    assert distance(A, wanted) < 1e-13


@pytest.mark.parametrize("integrator", ["strang", "ssfm_rk4", "blanes_moan", "ssfm_agrawal"])
def test_splittings_written_out(cpu, integrator):
    n, h = 256, 400.0
    operators = operators_for(cpu, n)
    field = smooth_field(6, n, 60e-3)
    kappa = 1.3e-3 * np.repeat(np.repeat(KAPPA, 2, axis=0), 2, axis=1)
    omega = 2 * np.pi * np.fft.fftfreq(n, DT)
    beta, alpha = np.repeat(BETA, 2, axis=0), np.repeat(fibre().alpha, 2)[:, None]
    operator = -alpha / 2 + sum(
        1j * 1j**k / math.factorial(k) * beta[:, k - 1 : k] * (1j * omega) ** k for k in range(1, 5)
    )

    def linear(a, z):
        return np.fft.ifft(np.exp(z * operator) * np.fft.fft(a))

    def rate(a):
        return kappa @ abs(a) ** 2

    def rk4(a):
        k1 = 1j * h * rate(a) * a
        k2 = 1j * h * rate(a + k1 / 2) * (a + k1 / 2)
        k3 = 1j * h * rate(a + k2 / 2) * (a + k2 / 2)
        k4 = 1j * h * rate(a + k3) * (a + k3)
        return a + (k1 + 2 * k2 + 2 * k3 + k4) / 6

    def step(a):
        if integrator == "strang":
            b = linear(a, h / 2)
            return linear(np.exp(1j * h * rate(b)) * b, h / 2)
        if integrator == "ssfm_rk4":
            return linear(rk4(linear(a, h / 2)), h / 2)
        if integrator == "ssfm_agrawal":
            after = a
            for _ in range(2):
                after = linear(np.exp(0.5j * h * (rate(a) + rate(after))) * linear(a, h / 2), h / 2)
            return after
        for z, w in itertools.zip_longest(LINEAR, KERR):
            a = linear(a, z * h)
            a = a if w is None else np.exp(1j * w * h * rate(a)) * a
        return a

    wanted = step(step(step(field)))
    A = put(operators, field)
    INTEGRATORS[integrator](operators).advance(A, h, 3)
    assert distance(A, wanted) < 1e-13


def test_conditions_of_the_composition():
    """Sums of one, symmetry, and the third-order commutator conditions of a fourth-order splitting."""
    assert sum(LINEAR) == pytest.approx(1, abs=1e-15)
    assert sum(KERR) == pytest.approx(1, abs=1e-15)
    assert pytest.approx(LINEAR[::-1], abs=1e-16) == LINEAR
    assert pytest.approx(KERR[::-1], abs=1e-16) == KERR
    # exp(aX)exp(bY)… as 3 × 3 nilpotent words: XXY and YYX terms up to h³ must be those of exp(X + Y).
    for word in ("xxy", "xyx", "yxx", "yyx", "yxy", "xyy", "xx", "xy", "yx", "yy"):
        size = len(word) + 1
        x, y = np.zeros((size, size)), np.zeros((size, size))
        for k, letter in enumerate(word):
            (x if letter == "x" else y)[k, k + 1] = 1
        product = np.eye(size)
        for k, a in enumerate(LINEAR):
            product = product @ expm(a * x)
            if k < len(KERR):
                product = product @ expm(KERR[k] * y)
        assert product[0, -1] == pytest.approx(expm(x + y)[0, -1], abs=1e-14), word


def expm(matrix):
    """Exponential of a nilpotent matrix."""
    term = out = np.eye(len(matrix))
    for k in range(1, len(matrix)):
        term = term @ matrix / k
        out = out + term
    return out


def test_the_embedded_error(device):
    """The estimate is the distance to the third-order solution, and falls with the fourth power of h."""
    operators = operators_for(device, 256)
    field = smooth_field(6, 256, 60e-3)
    scheme = INTEGRATORS["erk43ip"](operators)
    estimates = []
    for h in (200.0, 100.0):
        A = put(operators, field)
        scheme.begin(A, h)
        estimates.append(scheme.trial(A, h))
    assert math.log2(estimates[0] / estimates[1]) == pytest.approx(4, abs=0.1)
    # It bounds the error of the fourth-order solution that is kept.
    exact = put(operators, field)
    INTEGRATORS["blanes_moan"](operators).advance(exact, 100.0 / 32, 32)
    assert math.sqrt(operators.distance(A, exact)) < estimates[1]


def test_a_rejected_trial_leaves_no_trace(device):
    operators = operators_for(device, 256)
    A, B = (put(operators, smooth_field(6, 256, 60e-3)) for _ in range(2))
    scheme, other = (INTEGRATORS["erk43ip"](operators) for _ in range(2))
    scheme.begin(A, 100.0)
    scheme.trial(A, 5000.0)
    scheme.reject(A)
    scheme.trial(A, 100.0)
    other.begin(B, 100.0)
    other.trial(B, 100.0)
    assert (device.to_host(A) == device.to_host(B)).all()


@pytest.mark.parametrize(("n", "rate", "dtype"), [(0, 1.0, complex), (64, 0.0, complex), (64, 1.0, float)])
def test_bad_stages(cpu, n, rate, dtype):
    with pytest.raises(InputError, match="field"):
        FibreOperators(cpu, fibre(), n, rate, dtype)
