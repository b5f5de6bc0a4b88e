"""Gradients of a whole propagation: against complex steps in NumPy, and by their definition."""

import itertools
import math
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest
from complex_steps import STEP, Written, stepped, tangent, value
from fibre_cases import distance, make_fibre, smooth_field

from wavefabric.base.errors import FieldLost, InputError
from wavefabric.optics.propagation.adjoint.gradient import (
    DifferentiablePropagator,
    gradient_memory,
    propagate_and_gradient,
)
from wavefabric.optics.propagation.adjoint.steps import ADJOINT_STEPS
from wavefabric.optics.propagation.propagate import PropagationOptions, propagate

DT, N, LENGTH, STEPS = 2e-12, 48, 1.5e3, 3
KAPPA = np.array([[0.9, 0.5, 0.4], [0.6, 1.1, 0.3], [0.4, 0.3, 0.8]])
BETA = np.zeros((3, 4))
BETA[:, 0] = 0, 0.4e-15, -0.7e-15
BETA[:, 1] = -20e-27, -22e-27, -19e-27
BETA[:, 2:] = 0.1e-39, 2e-54
LOSS = np.array([0.1e-3, 0.14e-3, 0.12e-3])
FIBRE = make_fibre(KAPPA, beta=BETA, alpha=LOSS)
FIELD = smooth_field(6, N, 0.1, seed=2, width=0.3)
SPLIT = ("strang", "ssfm_rk4", "blanes_moan")
ALL = tuple(ADJOINT_STEPS)


def on_devices(integrators):
    """Kernels of a GPU that are emulated take a second: one integrator shows most of what all show."""
    marks = {"cpu": [], "emulated": [pytest.mark.slow], "cuda": [pytest.mark.gpu]}
    cases = [
        pytest.param(device, each, marks=[] if (device, each) == ("emulated", "strang") else marks[device])
        for device in marks
        for each in integrators
    ]
    return pytest.mark.parametrize(("kernel_device", "integrator"), cases, indirect=["kernel_device"])


def random(*shape, seed=0, complex_=False):
    draw = np.random.default_rng(seed).standard_normal((2, *shape))
    return draw[0] + 1j * draw[1] if complex_ else draw[0]


def inner(a, b):
    """The real inner product."""
    return float((np.conj(a) * b).real.sum())


def gradient(y, integrator, device="cpu", **options):
    """That of f(A) = ⟨y, A⟩."""
    options = dict(sample_rate=1 / DT, step=LENGTH / STEPS, integrator=integrator, device=device) | options

    def objective(A):
        return inner(y, A.get() if hasattr(A, "get") else A), y

    return propagate_and_gradient(FIELD, FIBRE, LENGTH, objective, **options)


def written(integrator, direction, factors=None, phases=None, sign=1):
    """Output and directional derivative from plain NumPy."""
    kappa = 1.3e-3 * np.repeat(np.repeat(KAPPA, 2, axis=0), 2, axis=1)
    omega = 2 * np.pi * np.fft.fftfreq(N, DT)
    beta = np.repeat(BETA, 2, axis=0)
    operator = sum(
        1j * 1j**k / math.factorial(k) * beta[:, k - 1 : k] * (1j * omega) ** k for k in range(1, 5)
    )
    reference = Written(integrator, kappa, operator - np.repeat(LOSS, 2)[:, None] / 2)
    a = stepped(FIELD, direction)
    for step in range(STEPS):
        c = 1.0 if factors is None else np.repeat(factors[step], 2)[:, None]
        a = reference.step(a, sign * LENGTH / STEPS, c, 0.0 if phases is None else phases[step])
    return value(a), tangent(a)


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("kerr", ["dense", "factored", "svd"])
@on_devices(ALL)
def test_dot_products(kernel_device, integrator, kerr, backward):
    """⟨y, J δ⟩ = ⟨Jᵀy, δ⟩; J δ by complex steps of an independent implementation."""
    if kernel_device.name != "cpu" and kerr != "factored":
        pytest.skip("kernels of all forms are compared in test_kerr_adjoint.py")
    y, direction = random(6, N, complex_=True), random(6, N, seed=1, complex_=True)
    wanted, change = written(integrator, direction, sign=-1 if backward else 1)
    result = gradient(y, integrator, kernel_device, kerr=kerr, backward=backward)
    assert distance(result.output, wanted) < 1e-12
    assert result.value == pytest.approx(inner(y, wanted), rel=1e-11)
    assert inner(result.field, direction) == pytest.approx(inner(y, change), rel=1e-12, abs=1e-12 * N)
    options = dict(integrator=integrator, device=kernel_device, kerr=kerr, backward=backward)
    plain, _ = propagate(FIELD, FIBRE, LENGTH, sample_rate=1 / DT, step=LENGTH / STEPS, **options)
    assert distance(result.output, plain) < 1e-14


@on_devices(ALL)
def test_nonlinear_factors(kernel_device, integrator):
    """Of each step and phase group, 0 among them."""
    y, still = random(6, N, complex_=True), np.zeros((6, N), complex)
    factors = random(STEPS, 3, seed=4)
    factors[1, 2] = 0
    result = gradient(y, integrator, kernel_device, nonlinear_factors=factors)
    assert distance(result.output, written(integrator, still, factors)[0]) < 1e-12
    for step, group in itertools.product(range(STEPS), range(3)):
        moved = factors.astype(complex)
        moved[step, group] += 1j * STEP
        wanted = inner(y, written(integrator, still, moved)[1])
        assert result.nonlinear_factors[step, group] == pytest.approx(wanted, rel=1e-11, abs=1e-12 * N)
    whole = gradient(y, integrator, kernel_device, nonlinear_factors=[0.5, 1, 2])
    spread = gradient(y, integrator, kernel_device, nonlinear_factors=np.repeat([[0.5], [1], [2]], 3, axis=1))
    assert whole.nonlinear_factors == pytest.approx(spread.nonlinear_factors.sum(axis=1), rel=1e-12)


@on_devices(SPLIT)
def test_linear_phases(kernel_device, integrator):
    y, still = random(6, N, complex_=True), np.zeros((6, N), complex)
    phases = 0.5 * random(STEPS, 6, N, seed=4)
    result = gradient(y, integrator, kernel_device, linear_phases=phases)
    assert distance(result.output, written(integrator, still, None, phases)[0]) < 1e-12
    for seed in range(4):
        direction = random(STEPS, 6, N, seed=seed)
        wanted = inner(y, written(integrator, still, None, phases + 1j * STEP * direction)[1])
        assert inner(result.linear_phases, direction) == pytest.approx(wanted, rel=1e-11)
    common = phases[:, 0]
    whole = gradient(y, integrator, kernel_device, linear_phases=common)
    spread = gradient(y, integrator, kernel_device, linear_phases=np.repeat(common[:, None], 6, axis=1))
    np.testing.assert_allclose(whole.linear_phases, spread.linear_phases.sum(axis=1), rtol=1e-9, atol=1e-12)
    # With both kinds the gradient with respect to the field is still right.
    y2 = random(6, N, seed=7, complex_=True)
    both = gradient(
        y2, integrator, kernel_device, linear_phases=phases, nonlinear_factors=np.ones((STEPS, 3))
    )
    change = written(integrator, y, np.ones((STEPS, 3)), phases)[1]
    assert inner(both.field, y) == pytest.approx(inner(y2, change), rel=1e-12)


@pytest.mark.parametrize("integrator", ALL)
def test_taylor_remainders(integrator):
    """f(A + εδ) − f(A) − ε Re⟨g, δ⟩ falls with ε² over five decades of ε."""
    direction = smooth_field(6, N, 0.1, seed=3, width=0.3)

    def objective(A):
        return float((abs(A) ** 4).sum()), 4 * abs(A) ** 2 * A

    options = dict(sample_rate=1 / DT, step=LENGTH / STEPS, integrator=integrator, device="cpu")

    def at(size):
        return propagate_and_gradient(FIELD + size * direction, FIBRE, LENGTH, objective, **options)

    start, remainders = at(0.0), []
    slope = inner(start.field, direction)
    sizes = 10.0 ** np.arange(-0.5, -6, -1)
    for size in sizes:
        remainders.append(abs(at(size).value - start.value - size * slope))
    orders = np.log10(np.array(remainders[:-1]) / remainders[1:])
    assert orders[1:] == pytest.approx(2, abs=0.15)


@pytest.mark.parametrize("integrator", ALL)
def test_few_states_give_the_same_bits(tmp_path, cpu, integrator):
    factors, results = random(9, 3, seed=4), []
    for kept in (dict(), dict(states=1), dict(states=3), dict(states=4, scratch=tmp_path)):
        options = dict(integrator=integrator, step=LENGTH / 9, **kept)
        whole = DifferentiablePropagator(FIBRE, N, 1 / DT, LENGTH, cpu, **options)
        A, Y = whole.operators.empty(), random(6, N, complex_=True)
        A[...] = FIELD
        whole.run(A, factors)
        results.append((whole.adjoint(Y)[0], A, Y))
        assert (whole.operators.counts.steps > 9) == bool(kept)
    for few in results[1:]:
        assert all((one == other).all() for one, other in zip(few, results[0], strict=True))


@pytest.mark.slow
def test_single_precision():
    y = random(6, N, complex_=True)
    exact = gradient(y, "strang", nonlinear_factors=np.ones(STEPS))
    rough = gradient(y, "strang", precision="single", nonlinear_factors=np.ones(STEPS))
    assert rough.field.dtype == np.complex64
    assert distance(rough.field, exact.field) < 1e-5
    assert rough.nonlinear_factors == pytest.approx(exact.nonlinear_factors, rel=1e-4, abs=1e-4)


def test_one_propagator_for_many_runs_and_spans(cpu):
    """Two spans with an amplifier between, by the chain rule, twice."""
    y, direction = random(6, N, complex_=True), random(6, N, seed=1, complex_=True)
    options = dict(integrator="strang", step=LENGTH / STEPS)
    spans = [DifferentiablePropagator(FIBRE, N, 1 / DT, LENGTH, cpu, **options) for _ in range(2)]

    def both(field):
        A = spans[0].operators.empty()
        A[...] = field
        for span in spans:
            span.run(A)
            A *= 1.1
        return A.copy()

    def pulled_back():
        Y = y.copy()
        for span in reversed(spans):
            Y *= 1.1
            span.adjoint(Y)
        return Y

    both(FIELD)
    first = pulled_back()
    both(FIELD)
    assert (pulled_back() == first).all()
    size = 1e-5
    change = (both(FIELD + size * direction) - both(FIELD - size * direction)) / (2 * size)
    assert inner(first, direction) == pytest.approx(inner(y, change), rel=1e-7)
    pulled_back()
    with pytest.raises(ValueError, match="no run"):
        spans[0].adjoint(y.copy())


def test_progress_and_interruption(cpu):
    y, calls = random(6, N, complex_=True), []
    gradient(y, "blanes_moan", progress=lambda *done: calls.append(done))
    assert calls == [(k, 2 * STEPS) for k in range(1, 2 * STEPS + 1)]

    def stop(done, _):
        if done == 2:
            raise KeyboardInterrupt

    whole = DifferentiablePropagator(FIBRE, N, 1 / DT, LENGTH, cpu, step=LENGTH / STEPS, integrator="strang")
    A, Y = whole.operators.empty(), y.copy()
    A[...] = FIELD
    with pytest.raises(KeyboardInterrupt):
        whole.run(A, [2, 3, 4], random(STEPS, N), progress=stop)
    A[...] = FIELD
    whole.run(A)
    assert whole.adjoint(Y) == (None, None)
    assert (gradient(y, "strang", cpu).field == Y).all()


@pytest.mark.parametrize(
    ("integrator", "options", "message"),
    [
        ("erk43ip", {}, "integrator: 'erk43ip' given; allowed with a gradient: strang"),
        ("strang", {"step": None}, "step: a gradient is that of steps of one length"),
        ("strang", {"max_phase": 0.1}, "step: a gradient is that of steps of one length"),
        (
            "rk4ip",
            {"linear_phases": np.zeros((STEPS, N))},
            "linear_phases: integrator 'rk4ip' given; allowed with",
        ),
        ("strang", {"linear_phases": np.zeros((STEPS, 5, N))}, r"linear_phases: shape \(3, 5, 48\) given"),
        (
            "strang",
            {"nonlinear_factors": [1, 2]},
            r"nonlinear_factors: shape \(2,\) given; allowed: .*\(3, 3\)",
        ),
        ("strang", {"nonlinear_factors": [1, 2, np.nan]}, "nonlinear_factors: .*finite"),
        ("strang", {"states": 0}, "states: 0 given"),
    ],
)
def test_refusals(integrator, options, message):
    with pytest.raises(InputError, match=message):
        gradient(random(6, N, complex_=True), integrator, **options)


def test_more_refusals(monkeypatch, cpu):
    y, two_ranks = random(6, N, complex_=True), SimpleNamespace(size=2)
    options = dict(sample_rate=1 / DT, step=500, device=cpu)
    with pytest.raises(InputError, match="comm: 2 ranks given; allowed: one"):
        gradient(y, "strang", comm=two_ranks)
    with pytest.raises(InputError, match=r"objective: gradient of shape \(6, 7\) given"):
        propagate_and_gradient(FIELD, FIBRE, LENGTH, lambda A: (0.0, y[:, :7]), **options)
    with pytest.raises(FieldLost, match="not finite"):
        propagate_and_gradient(FIELD, FIBRE, LENGTH, lambda A: (0.0, A * np.nan), **options)
    monkeypatch.setattr(type(cpu), "memory", lambda _: (1 << 20, 1 << 30))
    with pytest.raises(InputError, match="memory: a gradient of 6 rows x 48 samples needs"):
        gradient(y, "strang", cpu)


@pytest.mark.parametrize("integrator", ALL)
def test_memory_covers_what_is_held(cpu, integrator):
    n, options = 1 << 14, dict(integrator=integrator, step=LENGTH / 2)
    gradient(random(6, N, complex_=True), integrator)  # compile
    tracemalloc.start()
    try:
        whole = DifferentiablePropagator(FIBRE, n, 1 / DT, LENGTH, cpu, states=1, **options)
        A = whole.operators.empty()
        A[...] = smooth_field(6, n, 1e-3)
        tracemalloc.reset_peak()
        whole.run(A, np.ones(2))
        whole.adjoint(A)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    needed = (
        gradient_memory(FIBRE, n, PropagationOptions(**options), cpu) - (64 << 20) + A.nbytes
    )  # one state is kept
    assert peak <= needed
    assert needed == pytest.approx(peak, rel=0.3)
