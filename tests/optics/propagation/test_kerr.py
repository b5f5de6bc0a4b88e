"""Every kernel against plain NumPy in complex128: one test compares CPU and CUDA with one reference."""

import math

import numpy as np
import pytest
from complex_steps import STEP, kerr, stepped, tangent, turn
from complex_steps import rate as phase_rate
from emulated_device import opened

from wavefabric.optics.propagation.kernels import kerr as kerr_kernels
from wavefabric.optics.propagation.operators import (
    DERIVATIVE,
    RK4IP_LAST,
    RK4IP_MIDDLE,
    ROTATE,
    ROTATE_RK4,
)
from wavefabric.optics.propagation.phase_groups import phase_group_coupling
from wavefabric.runtime.device import get_device
from wavefabric.runtime.kernels.cpu_launch import CpuKernels, CpuLauncher
from wavefabric.runtime.kernels.table import kernel_table

DEVICES = [
    "cpu 1",
    pytest.param("cpu 2", marks=pytest.mark.slow),
    "emulated",
    pytest.param("cuda", marks=pytest.mark.gpu),
]
#: (rows, samples): one tile, less than a tile, several tiles with a rest.
SIZES = [(2, 1037), (6, 13), (6, 2100), (30, 1037)]
FORMS = ["dense", "factored", "svd"]
TOLERANCE = {np.complex128: 1e-13, np.complex64: 5e-6}


@pytest.fixture(scope="module", params=DEVICES)
def device(request):
    return opened(request.param)


@pytest.fixture(scope="module")
def kernels(device):
    return device.kernels("wavefabric.optics.propagation.kernels.kerr")


def kappa_for(rows):
    """κ of cells of 2, 4, 6 … rows, of rank 2, not symmetric."""
    rng = np.random.default_rng(rows)
    sizes = {2: [2], 6: [2, 4], 30: [2, 4, 6, 8, 10]}[rows]
    cells = np.repeat(np.arange(len(sizes)), sizes)
    u, v = rng.uniform(0.2, 1.0, (2, len(sizes), 2))
    return (u @ v.T)[np.ix_(cells, cells)]


class Case:
    """Fields with phase rates of a few rad/m, and the coupling laid out for the kernels."""

    def __init__(self, device, kernels, rows, n, form, dtype):
        self.device, self.dtype = device, dtype
        rng = np.random.default_rng(n)
        gamma = 1.7
        self.coupling = phase_group_coupling(kappa_for(rows), gamma, form)
        self.layout = kernels.KerrLayout(device, self.coupling, n, dtype)
        self.kappa = gamma * kappa_for(rows)
        # Rounded to the type first: references start from what the kernels see.
        draw = rng.standard_normal((4, rows, n, 2)).view(complex)[..., 0]
        self.a, self.k = (0.4 * draw[:2] / math.sqrt(rows)).astype(dtype).astype(complex)

    def put(self, array):
        out = self.device.empty(array.shape, self.dtype)
        out[...] = self.device.asarray(array.astype(self.dtype))
        return out

    def rates(self):
        n = self.a.shape[1]
        return self.device.empty((self.coupling.groups, n), np.zeros(1, self.dtype).real.dtype)

    def phase(self, field):
        """γκ|A|² of every row, rad/m."""
        return self.kappa @ abs(field) ** 2

    def kerr(self, field):
        return 1j * self.phase(field) * field

    def check(self, got, wanted, tolerance=None):
        got = self.device.to_host(got)
        assert got.dtype in (self.dtype, np.zeros(1, self.dtype).real.dtype)
        error = abs(got - wanted).max() / abs(wanted).max()
        assert error < (tolerance or TOLERANCE[self.dtype])


@pytest.fixture(
    scope="module",
    params=[pytest.param(each, marks=[pytest.mark.slow] * (each in SIZES[1:3])) for each in SIZES],
    ids=lambda size: f"{size[0]}x{size[1]}",
)
def size(request):
    return request.param


@pytest.fixture(
    params=[
        pytest.param(np.complex128, id="double"),
        pytest.param(np.complex64, id="single", marks=pytest.mark.slow),
    ]
)
def dtype(request):
    return request.param


@pytest.fixture(params=FORMS)
def case(request, device, kernels, size, dtype):
    return Case(device, kernels, *size, request.param, dtype)


def test_kerr_derivative(case, kernels):
    A = case.put(case.a)
    K = case.put(case.k)
    kernels.kerr(DERIVATIVE, A, K, 0, case.layout)
    case.check(K, case.kerr(case.a))
    case.check(A, case.a)


def test_kerr_rotate(case, kernels):
    for h in (0.7, -0.2):
        A = case.put(case.a)
        kernels.kerr(ROTATE, A, A, h, case.layout)
        case.check(A, case.a * np.exp(1j * h * case.phase(case.a)))


def test_kerr_rotate_rk4(case, kernels):
    h, a = 0.3, case.a
    k1 = h * case.kerr(a)
    k2 = h * case.kerr(a + k1 / 2)
    k3 = h * case.kerr(a + k2 / 2)
    k4 = h * case.kerr(a + k3)
    A = case.put(a)
    kernels.kerr(ROTATE_RK4, A, A, h, case.layout)
    case.check(A, a + (k1 + 2 * k2 + 2 * k3 + k4) / 6)


def test_kerr_phase_rate(case, kernels):
    rate = case.rates()
    kernels.kerr_phase_rate(case.put(case.a), rate, case.layout)
    case.check(rate, case.phase(case.a)[np.unique(case.coupling.group_of_row, return_index=True)[1]])


def test_max_phase_rate(case, kernels):
    rate = kernels.max_phase_rate(case.put(case.a), case.layout)
    assert rate == pytest.approx(case.phase(case.a).max(), rel=TOLERANCE[case.dtype])
    # Its own scratch must not stay behind.
    quiet = kernels.max_phase_rate(case.put(0.1 * case.a), case.layout)
    assert quiet == pytest.approx(0.01 * case.phase(case.a).max(), rel=TOLERANCE[case.dtype])


def test_rotate_mean(case, kernels):
    H, A = case.put(case.k), case.put(0 * case.a)
    rate0, rate1 = case.rates(), case.rates()
    kernels.kerr_phase_rate(case.put(case.a), rate0, case.layout)
    kernels.kerr_phase_rate(case.put(case.k), rate1, case.layout)
    kernels.rotate_mean(H, A, rate0, rate1, 0.6, case.layout)
    mean = (case.phase(case.a) + case.phase(case.k)) / 2
    case.check(A, case.k * np.exp(0.6j * mean))
    case.check(H, case.k)


def test_rk4ip_middle(case, kernels):
    """Eq. (6c, 6d) of Brehler et al. with A_I and k1/h given."""
    h, a, k1 = 0.25, case.a, 0.25 * case.k
    k2 = h * case.kerr(a + k1 / 2)
    k3 = h * case.kerr(a + k2 / 2)
    A, K = case.put(a), case.put(case.k)
    kernels.kerr(RK4IP_MIDDLE, A, K, h, case.layout)
    case.check(A, a + k3)
    case.check(K, a + k1 / 6 + k2 / 3 + k3 / 3)


def test_rk4ip_last(case, kernels):
    """Eq. (6e, 6f), the next k1/h, and the local error of Balac & Mahé 2013."""
    h, c, s = 0.35, case.a, case.k
    k4 = h * case.kerr(c)
    new = s + k4 / 6
    error = np.linalg.norm(h * (k4 / h - case.kerr(new)) / 10)
    A, K = case.put(c), case.put(s)
    kernels.kerr(RK4IP_LAST, A, K, h, case.layout)
    case.check(A, new)
    case.check(K, case.kerr(new))
    A, K, square = case.put(c), case.put(s), case.device.zeros((1,), np.float64)
    kernels.kerr(RK4IP_LAST, A, K, h, case.layout, square)
    case.check(A, new)
    assert math.sqrt(float(case.device.to_host(square)[0])) == pytest.approx(
        error, rel=10 * TOLERANCE[case.dtype]
    )


@pytest.mark.parametrize("name", ["derivative", "rotate", "phase_rate", "turn"])
def test_adjoints(case, kernels, name):
    """Against the whole Jacobian of an operator by complex steps, also with respect to factors of γκ."""
    h, n, group, a, y = 0.4, case.a.shape[1], case.coupling.group_of_row, case.a, case.k
    members = group == np.arange(case.coupling.groups)[:, None]
    draw = np.random.default_rng(3)
    real = np.zeros(1, case.dtype).real.dtype
    factors = draw.uniform(-0.5, 1.5, case.coupling.groups).astype(real)
    slope = draw.standard_normal((case.coupling.groups, n)).astype(real)
    A, Y, kept = case.put(a), case.put(y), case.rates()
    kept[...] = case.device.asarray(slope)
    back = kernels.KerrLayout(case.device, case.coupling.transposed, n, case.dtype)
    kernels.kerr_adjoint(name, A, Y, h, case.device.asarray(factors), kept, case.layout, back)
    case.check(A, a, 1e-30)
    if name == "turn":
        case.check(Y, y, 1e-30)
        case.check(kept, h * (members @ (a.conj() * y).imag))
        return
    scaled = factors.astype(float)[group, None] * case.kappa

    def change(a, kappa):
        """Re y* of the derivative of the output, or of the rates by the gradient for these."""
        if name == "phase_rate":
            return (slope[group] / members.sum(axis=1)[group, None]) * phase_rate(a, kappa).imag / STEP
        out = kerr(a, kappa, h) if name == "derivative" else turn(a, h * phase_rate(a, kappa))
        return (y.conj() * tangent(out)).real

    rows = np.array([0, len(a) // 2, len(a) - 1])
    wanted, by_factor = y[rows] * (name == "phase_rate"), []
    for k, row in enumerate(rows):
        for part in (1, 1j):
            direction = np.zeros_like(a)
            direction[row] = part
            wanted[k] += part * change(stepped(a, direction), scaled).sum(axis=0)
        moved = scaled + 1j * STEP * case.kappa * members[group[row]][:, None]
        by_factor.append(change(stepped(a, 0 * a), moved).sum(axis=0))
    case.check(case.device.to_host(Y)[rows], wanted)
    case.check(case.device.to_host(kept)[group[rows]], np.array(by_factor))


def test_a_nan_shows(device, kernels, dtype):
    case = Case(device, kernels, 6, 2100, "factored", dtype)
    bad = case.a.copy()
    bad[3, 1500] = np.nan
    out = device.empty((6,), np.float64)
    kernels.row_energy(case.put(bad), out)
    assert np.isnan(device.to_host(out)).tolist() == [False] * 3 + [True] + [False] * 2
    assert math.isnan(kernels.max_phase_rate(case.put(bad), case.layout))


def test_norms(device, kernels, size, dtype):
    case = Case(device, kernels, *size, "factored", dtype)
    out = device.empty((size[0],), np.float64)
    kernels.row_energy(case.put(case.a), out)
    # Sums run in double precision whatever the field.
    tolerance = 1e-13 if dtype == np.complex128 else 1e-6
    np.testing.assert_allclose(device.to_host(out), (abs(case.a) ** 2).sum(axis=1), rtol=tolerance)
    kernels.row_distance(case.put(case.a), case.put(case.k), out)
    np.testing.assert_allclose(device.to_host(out), (abs(case.a - case.k) ** 2).sum(axis=1), rtol=tolerance)


@pytest.mark.parametrize("higher", [[], [0.3], [0.2, -0.4, 0.1]], ids=["four", "five", "seven"])
@pytest.mark.parametrize("n", [1, 2, 15, 16, 1037])
def test_transfer_table(device, kernels, n, higher):
    """exp(h L̂)/N from the definition i Σ iⁿ/n! βₙ ∂ⁿ/∂tⁿ with ∂/∂t → +iω, NumPy's order of ω."""
    coefficients = np.array(
        [[0.3, 2.0, -0.8, 0.2, -0.1], [0.0, 0.0, 0.5, 0.0, 0.0], [0.1, -3.0, 0.0, -0.4, 0.2]]
    )
    coefficients = np.column_stack([coefficients, np.outer([1.0, -0.5, 2.0], higher)])
    spacing = 6.0 / n
    omega = 2 * np.pi * np.fft.fftfreq(n, 1 / (n * spacing / (2 * np.pi)))
    wanted = np.empty((3, n), complex)
    for row, (alpha, *beta) in zip(wanted, coefficients, strict=True):
        operator = -alpha / 2 + sum(
            1j * 1j**k / math.factorial(k) * b * (1j * omega) ** k for k, b in enumerate(beta, 1)
        )
        row[:] = np.exp(0.7 * operator) / n
    if n % 2 == 0:
        # The highest bin may count as either sign; it is the negative one here and in NumPy.
        assert omega[n // 2] < 0
    table = device.empty((3, n), np.complex128)
    kernels.transfer_table(table, device.asarray(coefficients), spacing, 0.7)
    np.testing.assert_allclose(device.to_host(table), wanted, rtol=1e-12, atol=1e-12 / n)


def test_apply_transfer(device, kernels, size, dtype):
    """On a GPU; a CPU multiplies in its transforms, see tests/runtime/device/test_cpu_fft.py."""
    if device.name == "cpu":
        return
    rows, n = size
    rng = np.random.default_rng(9)
    table = np.exp(2j * np.pi * rng.random((3, n)))
    cell = np.sort(rng.integers(0, 3, rows)).astype(np.int32)
    case = Case(device, kernels, rows, n, "factored", dtype)
    spectrum = case.put(case.a)
    held = device.empty((3, n), np.complex128)
    held[...] = device.asarray(table)
    kernels.apply_transfer(spectrum, held, device.asarray(cell))
    wanted = case.a * table[cell]
    case.check(spectrum, wanted, 1e-15 if dtype == np.complex128 else 6e-8)


@pytest.mark.parametrize(
    "precision",
    [
        pytest.param(np.complex128, id="double"),
        pytest.param(np.complex64, id="single", marks=pytest.mark.slow),
    ],
)
def test_precision_of_the_rotation_over_small_and_large_phases(device, kernels, precision):
    """cos φ − 1 and sin φ of phases 1e-12 to 100 rad: the error is that of rounding the phase.

    A row of constant power turns by that power; the first row of the pair is the probe, the second
    drives it (κ couples only to the second).
    """
    phases = np.concatenate([np.logspace(-12, 2, 2801), np.arange(1, 60) * np.pi / 2, [0.0]])
    coupling = phase_group_coupling([[0.0, 1.0], [0.0, 0.0]], 1.0, "dense")
    drive = np.sqrt(phases)
    field = np.array([np.full(phases.size, 1 + 0j), drive + 0j])
    A = device.empty(field.shape, precision)
    A[...] = device.asarray(field.astype(precision))
    seen = device.to_host(A)[1].real
    layout = kernels.KerrLayout(device, coupling, phases.size, precision)
    kernels.kerr(ROTATE, A, A, 1.0, layout)
    # The phase as the kernel has it: the square in the field's own precision.
    phase = (seen * seen).astype(float)
    got = device.to_host(A)[0].astype(complex)
    epsilon = np.finfo(precision).eps
    allowed = epsilon * (1 + 2 * phase)
    assert (abs(got.imag - np.sin(phase)) < allowed).all()
    assert (abs(got.real - np.cos(phase)) < allowed).all()
    # Small phases keep their relative precision: the rotation is added, not multiplied by about 1.
    small = phase < 1e-2
    assert (abs(got.imag - np.sin(phase))[small] <= 4 * epsilon * phase[small]).all()


@pytest.mark.parametrize("real", [np.float64, np.float32])
def test_cosine_minus_one_does_not_cancel(real):
    size = np.logspace(-12, 2, 1401)
    phase = np.concatenate([size, -size]).astype(real)
    c1, s = np.empty_like(phase), np.empty_like(phase)
    row = "items rotations(counted array phases, array re, array im)"
    CpuKernels(kernel_table(row, "", ""), CpuLauncher(1)).rotations(phase, c1, s)  # pyright: ignore
    exact = phase.astype(np.longdouble)
    cosine, sine = -2 * np.sin(exact / 2) ** 2, np.sin(exact)
    epsilon = np.finfo(real).eps
    # What rounding of the phase itself would do, and a little for the polynomials.
    assert (abs(c1 - cosine) <= epsilon * (1 + abs(phase))).all()
    assert (abs(s - sine) <= epsilon * (1 + abs(phase))).all()
    near = abs(phase) < 1
    assert (abs(c1 - cosine) <= 4 * epsilon * abs(cosine))[near].all()
    assert (abs(s - sine) <= 4 * epsilon * abs(sine))[near].all()


def test_sums_do_not_depend_on_the_tile(monkeypatch):
    """Sums run in row order: samples get the same bits wherever a tile ends."""
    cpu = get_device("cpu", threads=1)
    kernels = cpu.kernels(kerr_kernels.__name__)
    case = Case(cpu, kernels, 30, 1037, "factored", np.complex128)
    outs = []
    for tile in (16, 160, 256):
        monkeypatch.setattr(kerr_kernels, "MOST_SAMPLES", tile)
        layout = kernels.KerrLayout(cpu, case.coupling, 1037, np.complex128)
        assert layout.tile == tile
        A = case.put(case.a)
        kernels.kerr(ROTATE, A, A, 0.7, layout)
        outs.append(A)
    assert (outs[0] == outs[1]).all()
    assert (outs[0] == outs[2]).all()
