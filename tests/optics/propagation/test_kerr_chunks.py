"""Kernels of the Kerr operators over ranks against plain NumPy in complex128, on CPU and CUDA."""

import math

import numpy as np
import pytest
from emulated_device import opened

from wavefabric.optics.propagation.operators import (
    DERIVATIVE,
    RK4IP_LAST,
    RK4IP_MIDDLE,
    ROTATE,
    ROTATE_RK4,
)

DEVICES = [
    "cpu 1",
    pytest.param("cpu 2", marks=pytest.mark.slow),
    "emulated",
    pytest.param("cuda", marks=pytest.mark.gpu),
]
#: Rows of each own phase group; samples a row; the chunk (first sample, samples).
CASES = [
    ([2], 37, (0, 37)),
    ([1, 1, 1, 1], 2100, (0, 1050)),
    ([2, 4, 6, 3], 1037, (517, 520)),
    ([1, 20, 9], 4099, (4096, 3)),
    ([1] * 30, 700, (100, 511)),
]
TOLERANCE = {np.complex128: 1e-13, np.complex64: 5e-6}


@pytest.fixture(scope="module", params=DEVICES)
def device(request):
    return opened(request.param)


@pytest.fixture(scope="module")
def kernels(device):
    return device.kernels("wavefabric.optics.propagation.kernels.kerr")


class Case:
    """Fields of order one, rates of a few rad/m, and what a kernel needs beside them."""

    def __init__(self, device, kernels, sizes, n, chunk, dtype):
        self.device, self.dtype, self.real = device, dtype, np.zeros(1, dtype).real.dtype
        self.start = np.concatenate(([0], np.cumsum(sizes)))
        self.group = np.repeat(np.arange(len(sizes)), sizes)
        self.t0, self.m = chunk
        self.shape = len(sizes), self.m
        self.window = slice(self.t0, self.t0 + self.m)
        self.rng = np.random.default_rng(n)
        draw = self.rng.standard_normal((2, self.start[-1], n, 2)).view(complex)[..., 0]
        # Rounded to the type first: references start from what the kernels see.
        self.a, self.k = (0.5 * draw).astype(dtype).astype(complex)
        self.layout = kernels.KerrChunkLayout(device, self.start, n, dtype)

    @property
    def A(self):
        return self.put(self.a)

    @property
    def K(self):
        return self.put(self.k)

    def put(self, array):
        kind = self.dtype if np.iscomplexobj(array) else self.real
        out = self.device.empty(array.shape, kind)
        out[...] = self.device.asarray(array.astype(kind))
        return out

    def draw(self, *shape):
        """Real numbers as the type holds them, (own groups, m) by default."""
        return self.rng.uniform(-2, 2, shape or self.shape).astype(self.real).astype(float)

    def garbage(self, *shape):
        return self.put(np.full(shape or self.shape, np.nan))

    @property
    def nothing(self):
        """The numbers of an operator that keeps none."""
        return self.garbage(0, *self.shape)

    def sums(self, rows):
        """Sums over the rows of each group, within the chunk."""
        return np.add.reduceat(rows[:, self.window], self.start[:-1], axis=0)

    def check(self, got, wanted):
        got = self.device.to_host(got)
        assert got.dtype in (self.dtype, self.real)
        error = abs(got - wanted).max() / max(1.0, abs(wanted).max())
        assert error < TOLERANCE[self.dtype]

    def check_field(self, got, before, inside):
        """``inside`` within the chunk, and not a bit changed outside."""
        wanted = before.copy()
        wanted[:, self.window] = inside[:, self.window]
        self.check(got, wanted)
        rest = np.ones(before.shape[1], bool)
        rest[self.window] = False
        assert (self.device.to_host(got)[:, rest] == before[:, rest].astype(self.dtype)).all()

    def rows(self, values):
        """Numbers of groups of the chunk, spread over the rows and padded with zeros outside of it."""
        out = np.zeros(self.a.shape)
        out[:, self.window] = values[self.group]
        return out


@pytest.fixture(
    params=[pytest.param(each, marks=[pytest.mark.slow] * (each in CASES[:2])) for each in CASES],
    ids=lambda c: f"{len(c[0])}x{c[1]}",
)
def shape(request):
    return request.param


@pytest.fixture(
    params=[
        pytest.param(np.complex128, id="double"),
        pytest.param(np.complex64, id="single", marks=pytest.mark.slow),
    ]
)
def case(request, device, kernels, shape):
    return Case(device, kernels, *shape, request.param)


def begin(case, kernels, operator, h, numbers=None):
    """Powers of the first stage, and what later stages need."""
    power = case.garbage()
    numbers = case.garbage(operator.numbers, *case.shape) if numbers is None else numbers
    kernels.kerr_begin(operator, case.A, case.K, case.t0, h, power, numbers, case.layout)
    return power, numbers


@pytest.mark.parametrize("operator", [DERIVATIVE, ROTATE, ROTATE_RK4], ids=lambda operator: operator.name)
def test_powers_of_groups(case, kernels, operator):
    power, numbers = begin(case, kernels, operator, 0.7)
    case.check(power, case.sums(abs(case.a) ** 2))
    if operator is ROTATE_RK4:
        case.check(numbers[0], case.sums(abs(case.a) ** 2))
        assert (case.device.to_host(numbers[1:]) == 0).all()


def test_sums_of_rk4ip(case, kernels):
    b = case.a + 0.35 * case.k
    power, numbers = begin(case, kernels, RK4IP_MIDDLE, 0.7)
    case.check(power, case.sums(abs(b) ** 2))
    case.check(numbers[1], case.sums(abs(case.a) ** 2))
    case.check(numbers[2], case.sums((case.a.conj() * b).imag))
    power, numbers = begin(case, kernels, RK4IP_LAST, 0.7)
    case.check(power, case.sums(abs(case.a) ** 2))
    case.check(numbers[1], case.sums(abs(case.k) ** 2))
    case.check(numbers[2], case.sums((case.k.conj() * case.a).imag))


@pytest.mark.parametrize("theirs", [1, 3, 17])
def test_couple(case, kernels, theirs):
    matrix, part = case.draw(case.shape[0], theirs), case.draw(theirs, case.m)
    own, mine = case.draw(case.shape[0], case.shape[0]), case.draw()
    out = case.garbage()
    kernels.couple(out, case.put(mine), case.put(own), True)
    case.check(out, own @ mine)
    kernels.couple(out, case.put(part), case.put(matrix), False)
    case.check(out, own @ mine + matrix @ part)


def test_power_of_a_and_half_k2(case, kernels):
    """Parts of a group add up: the power of own rows follows from their own sums and the group's phase."""
    rate, h = case.draw(), 0.7
    k2 = 1j * h * case.rows(rate) * (case.a + h / 2 * case.k)
    power, numbers = begin(case, kernels, RK4IP_MIDDLE, h)
    out = case.garbage()
    kernels.kerr_advance(RK4IP_MIDDLE, 0, case.put(rate), h, power, numbers, out)
    case.check(out, case.sums(abs(case.a + k2 / 2) ** 2))


def test_power_of_the_new_field(case, kernels):
    rate, h = case.draw(), 0.7
    k4 = 1j * h * case.rows(rate) * case.a
    power, numbers = begin(case, kernels, RK4IP_LAST, h)
    out = case.garbage()
    kernels.kerr_advance(RK4IP_LAST, 0, case.put(rate), h, power, numbers, out)
    case.check(out, case.sums(abs(case.k + k4 / 6) ** 2))


@pytest.mark.parametrize("operator", [RK4IP_MIDDLE, RK4IP_LAST], ids=lambda operator: operator.name)
@pytest.mark.parametrize("parts", [2, 19])
def test_coupling_of_all_parts_with_the_power_that_follows(case, kernels, operator, parts):
    matrix, part, h = case.draw(case.shape[0], parts), case.draw(parts, case.m), 0.7
    yy, xx, xy = case.draw(), case.draw(), case.draw()
    power, numbers, out = case.put(yy), case.put(np.stack([0 * xx, xx, xy])), case.garbage()
    # As the operators over ranks do: the rate is the first of the numbers that the update reads.
    kernels.couple_advance(operator, 0, numbers[0], case.put(part), case.put(matrix), h, power, numbers, out)
    case.check(numbers[0], matrix @ part)
    u = h * (matrix @ part) * (1 if operator is RK4IP_MIDDLE else 1 / 6)
    square, times = (0.25, 1) if operator is RK4IP_MIDDLE else (1, 2)
    case.check(out, xx + u * (square * u * yy - times * xy))


def test_derivative(case, kernels):
    rate, A, K = case.draw(), case.A, case.K
    kernels.kerr_update(DERIVATIVE, A, K, case.t0, case.put(rate), 0, case.nothing, case.layout)
    case.check_field(K, case.k, 1j * case.rows(rate) * case.a)
    assert (case.device.to_host(A) == case.a.astype(case.dtype)).all()


def test_rotate(case, kernels):
    rate, A = case.draw(), case.A
    kernels.kerr_update(ROTATE, A, A, case.t0, case.put(rate), -1.3, case.nothing, case.layout)
    case.check_field(A, case.a, case.a * np.exp(-1.3j * case.rows(rate)))


@pytest.mark.slow
def test_rotation_keeps_the_precision_of_small_phases(device, kernels):
    """Where 1 + iφ rounds to 1 in the real part, the imaginary part of a real field is φ itself."""
    case = Case(device, kernels, [1, 1], 1400, (0, 1400), np.complex64)
    rate = np.stack([np.logspace(-12, -2, 1400)] * 2).astype(np.float32)
    A = case.put(np.ones((2, 1400), complex))
    kernels.kerr_update(ROTATE, A, A, 0, case.put(rate), 1.0, case.nothing, case.layout)
    got = device.to_host(A).imag.astype(float)
    assert (abs(got - np.sin(rate.astype(float))) <= 4 * np.finfo(np.float32).eps * rate).all()


def test_rk4_of_the_rotation(case, kernels):
    """Four stages, each with a rate of its own: an increment is one multiplier a group times A."""
    h, rates, A = 0.6, [case.draw() for _ in range(4)], case.A
    power, numbers = begin(case, kernels, ROTATE_RK4, h)
    start = case.sums(abs(case.a) ** 2)
    m, total = 0, 0
    for stage, (before, weight) in enumerate([(0, 1 / 6), (0.5, 1 / 3), (0.5, 1 / 3), (1, 1 / 6)]):
        case.check(power, start * abs(1 + before * m) ** 2)
        m = 1j * h * rates[stage] * (1 + before * m)
        total = total + weight * m
        rate = case.put(rates[stage])
        if stage < 3:
            kernels.kerr_advance(ROTATE_RK4, stage, rate, h, power, numbers, power)
        else:
            kernels.kerr_update(ROTATE_RK4, A, A, case.t0, rate, h, numbers, case.layout)
    case.check_field(A, case.a, case.a * (1 + case.rows(total.real) + 1j * case.rows(total.imag)))


def test_rk4ip_middle(case, kernels):
    h, a, A, K = 0.3, case.a, case.A, case.K
    first, second = case.draw(), case.draw()
    k2 = 1j * h * case.rows(first) * (a + h / 2 * case.k)
    k3 = 1j * h * case.rows(second) * (a + k2 / 2)
    numbers = case.put(np.stack([first, first, first]))
    kernels.kerr_update(RK4IP_MIDDLE, A, K, case.t0, case.put(second), h, numbers, case.layout)
    case.check_field(A, a, a + k3)
    case.check_field(K, case.k, a + h * case.k / 6 + k2 / 3 + k3 / 3)


@pytest.mark.parametrize("measure", [False, True])
def test_rk4ip_last(case, kernels, measure):
    h, first, rate = 0.35, case.draw(), case.draw()
    k4 = 1j * h * case.rows(first) * case.a
    new = case.k + k4 / 6
    slope = 1j * case.rows(rate) * new
    A, K, errors = case.A, case.K, case.device.zeros((3,), np.float64)
    error, numbers = errors[1:2] if measure else None, case.put(np.stack([first, first, first]))
    kernels.kerr_update(RK4IP_LAST, A, K, case.t0, case.put(rate), h, numbers, case.layout, error)
    case.check_field(A, case.a, new)
    case.check_field(K, case.k, slope)
    square = np.linalg.norm(h * (k4 / h - slope)[:, case.window] / 10) ** 2
    got = case.device.to_host(errors)
    assert got[1] == (pytest.approx(square, rel=20 * TOLERANCE[case.dtype]) if measure else 0)
    assert (got[[0, 2]] == 0).all()


def test_max_rate(case, kernels):
    theta = case.draw()
    theta[-1, -1] = -2.5
    assert kernels.max_rate(case.put(theta)) == 2.5
    theta[0, 0] = np.nan
    assert math.isnan(kernels.max_rate(case.put(theta)))
