"""Kernels of the Kerr operator over ranks, against plain NumPy in complex128, on CPU and CUDA."""

import math

import numpy as np
import pytest
from emulated_device import EmulatedDevice

from wavefabric.device import get_device

DEVICES = ["cpu 1", "cpu 2", "emulated", pytest.param("cuda", marks=pytest.mark.gpu)]
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
def place(request):
    name, _, threads = request.param.partition(" ")
    if name == "emulated":
        return EmulatedDevice()
    try:
        return get_device(name, int(threads or 1))
    except ValueError:
        pytest.skip("this machine has one core")


@pytest.fixture(scope="module")
def kernels(place):
    return place.kernels("wavefabric.optics.propagation.kernels.kerr_ranks")


class Case:
    """Fields of order one, rates of a few rad/m, and what a kernel needs beside them."""

    def __init__(self, place, kernels, sizes, n, chunk, dtype):
        self.place, self.dtype, self.real = place, dtype, np.zeros(1, dtype).real.dtype
        self.start = np.concatenate(([0], np.cumsum(sizes)))
        self.group = np.repeat(np.arange(len(sizes)), sizes)
        self.t0, self.m = chunk
        self.shape = len(sizes), self.m
        self.window = slice(self.t0, self.t0 + self.m)
        self.rng = np.random.default_rng(n)
        draw = self.rng.standard_normal((2, self.start[-1], n, 2)).view(complex)[..., 0]
        # Rounded to the type first: references start from what the kernels see.
        self.a, self.k = (0.5 * draw).astype(dtype).astype(complex)
        self.layout = kernels.RankKerrLayout(place, self.start, n, dtype)

    @property
    def A(self):
        return self.put(self.a)

    @property
    def K(self):
        return self.put(self.k)

    def put(self, array):
        kind = self.dtype if np.iscomplexobj(array) else self.real
        out = self.place.empty(array.shape, kind)
        out[...] = self.place.asarray(array.astype(kind))
        return out

    def draw(self, *shape):
        """Real numbers as the type holds them, (own groups, m) by default."""
        return self.rng.uniform(-2, 2, shape or self.shape).astype(self.real).astype(float)

    def garbage(self, *shape):
        return self.put(np.full(shape or self.shape, np.nan))

    def sums(self, rows):
        """Sums over the rows of each group, within the chunk."""
        return np.add.reduceat(rows[:, self.window], self.start[:-1], axis=0)

    def check(self, got, wanted):
        got = self.place.to_host(got)
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
        assert (self.place.to_host(got)[:, rest] == before[:, rest].astype(self.dtype)).all()

    def rows(self, values):
        """Numbers of groups of the chunk, spread over the rows and padded with zeros outside of it."""
        out = np.zeros(self.a.shape)
        out[:, self.window] = values[self.group]
        return out


@pytest.fixture(params=CASES, ids=lambda c: f"{len(c[0])}x{c[1]}")
def shape(request):
    return request.param


@pytest.fixture(
    params=[
        pytest.param(np.complex128, id="double"),
        pytest.param(np.complex64, id="single", marks=pytest.mark.slow),
    ]
)
def case(request, place, kernels, shape):
    return Case(place, kernels, *shape, request.param)


def test_group_power(case, kernels):
    p = case.garbage()
    kernels.group_power(case.A, case.t0, p, case.layout)
    case.check(p, case.sums(abs(case.a) ** 2))


def test_sums_of_the_two_sweeps(case, kernels):
    one, two, cross = case.garbage(), case.garbage(), case.garbage()
    b = case.a + 0.35 * case.k
    kernels.group_sums_middle(case.A, case.K, case.t0, 0.7, one, two, cross, case.layout)
    case.check(one, case.sums(abs(case.a) ** 2))
    case.check(two, case.sums(abs(b) ** 2))
    case.check(cross, case.sums((case.a.conj() * b).imag))
    kernels.group_sums_last(case.A, case.K, case.t0, one, two, cross, case.layout)
    case.check(one, case.sums(abs(case.a) ** 2))
    case.check(two, case.sums(abs(case.k) ** 2))
    case.check(cross, case.sums((case.k.conj() * case.a).imag))


@pytest.mark.parametrize("theirs", [1, 3, 17])
def test_couple(case, kernels, theirs):
    matrix, part = case.draw(case.shape[0], theirs), case.draw(theirs, case.m)
    own, mine = case.draw(case.shape[0], case.shape[0]), case.draw()
    out = case.garbage()
    kernels.couple(out, case.put(mine), case.put(own), True)
    case.check(out, own @ mine)
    kernels.couple(out, case.put(part), case.put(matrix), False)
    case.check(out, own @ mine + matrix @ part)


def test_power_middle_is_that_of_a_and_half_k2(case, kernels):
    """Parts of a group add up: the power of own rows follows from their own sums and the group's phase."""
    theta, h = case.draw(), 0.7
    b = case.a + h / 2 * case.k
    k2 = 1j * h * case.rows(theta) * b
    one, two, cross = (case.garbage() for _ in range(3))
    kernels.group_sums_middle(case.A, case.K, case.t0, h, one, two, cross, case.layout)
    kernels.power_middle(one, two, cross, case.put(theta), h)
    case.check(one, case.sums(abs(case.a + k2 / 2) ** 2))


def test_power_last_is_that_of_the_new_field(case, kernels):
    theta, h = case.draw(), 0.7
    k4 = 1j * h * case.rows(theta) * case.a
    scc, sss, ssc = (case.garbage() for _ in range(3))
    kernels.group_sums_last(case.A, case.K, case.t0, scc, sss, ssc, case.layout)
    kernels.power_last(sss, scc, ssc, case.put(theta), h)
    case.check(sss, case.sums(abs(case.k + k4 / 6) ** 2))


@pytest.mark.parametrize("name", ["middle", "last"])
@pytest.mark.parametrize("parts", [2, 19])
def test_coupling_of_all_parts_with_the_power_that_follows(case, kernels, name, parts):
    matrix, part, h = case.draw(case.shape[0], parts), case.draw(parts, case.m), 0.7
    one, two, cross = case.draw(), case.draw(), case.draw()
    arrays = [case.put(value) for value in (one, two, cross)]
    theta = case.garbage()
    getattr(kernels, f"couple_{name}")(theta, case.put(part), case.put(matrix), *arrays, h)
    case.check(theta, matrix @ part)
    u = h * (matrix @ part) * (1 if name == "middle" else 1 / 6)
    square, times = (0.25, 1) if name == "middle" else (1, 2)
    case.check(arrays[0], one + u * (square * u * two - times * cross))


def test_finish_derivative(case, kernels):
    rate, A, K = case.draw(), case.A, case.K
    kernels.finish_derivative(A, K, case.t0, case.put(rate), case.layout)
    case.check_field(K, case.k, 1j * case.rows(rate) * case.a)
    assert (case.place.to_host(A) == case.a.astype(case.dtype)).all()


def test_finish_rotate(case, kernels):
    rate, A = case.draw(), case.A
    kernels.finish_rotate(A, case.t0, case.put(rate), -1.3, case.layout)
    case.check_field(A, case.a, case.a * np.exp(-1.3j * case.rows(rate)))


def test_finish_rotate_keeps_the_precision_of_small_phases(place, kernels):
    """Where 1 + iφ rounds to 1 in the real part, the imaginary part of a real field is φ itself."""
    case = Case(place, kernels, [1, 1], 1400, (0, 1400), np.complex64)
    rate = np.stack([np.logspace(-12, -2, 1400)] * 2).astype(np.float32)
    A = case.put(np.ones((2, 1400), complex))
    kernels.finish_rotate(A, 0, case.put(rate), 1.0, case.layout)
    got = place.to_host(A).imag.astype(float)
    assert (abs(got - np.sin(rate.astype(float))) <= 4 * np.finfo(np.float32).eps * rate).all()


def test_finish_multiply(case, kernels):
    sr, si, A = case.draw(), case.draw(), case.A
    kernels.finish_multiply(A, case.t0, case.put(sr), case.put(si), case.layout)
    case.check_field(A, case.a, case.a * (1 + case.rows(sr) + 1j * case.rows(si)))


def test_finish_middle(case, kernels):
    h, a, A, K = 0.3, case.a, case.A, case.K
    theta2, theta3 = case.draw(), case.draw()
    k2 = 1j * h * case.rows(theta2) * (a + h / 2 * case.k)
    k3 = 1j * h * case.rows(theta3) * (a + k2 / 2)
    kernels.finish_middle(A, K, case.t0, case.put(theta2), case.put(theta3), h, case.layout)
    case.check_field(A, a, a + k3)
    case.check_field(K, case.k, a + h * case.k / 6 + k2 / 3 + k3 / 3)


@pytest.mark.parametrize("measure", [False, True])
def test_finish_last(case, kernels, measure):
    h, theta, rate = 0.35, case.draw(), case.draw()
    k4 = 1j * h * case.rows(theta) * case.a
    new = case.k + k4 / 6
    slope = 1j * case.rows(rate) * new
    A, K, errors = case.A, case.K, case.place.zeros((3,), np.float64)
    error = errors[1:2] if measure else None
    kernels.finish_last(A, K, case.t0, case.put(theta), case.put(rate), h, case.layout, error)
    case.check_field(A, case.a, new)
    case.check_field(K, case.k, slope)
    square = np.linalg.norm(h * (k4 / h - slope)[:, case.window] / 10) ** 2
    got = case.place.to_host(errors)
    assert got[1] == (pytest.approx(square, rel=20 * TOLERANCE[case.dtype]) if measure else 0)
    assert (got[[0, 2]] == 0).all()


def test_stages_of_rk4(case, kernels):
    p, theta, m0, s0 = abs(case.draw()), case.draw(), case.draw(2, *case.shape), case.draw(2, *case.shape)
    f, weight, h = 0.5, 1 / 3, 0.6
    mr, mi, sr, si = (case.put(x) for x in (*m0, *s0))
    q = case.garbage()
    factor = 1 + f * (m0[0] + 1j * m0[1])
    kernels.stage_power(q, case.put(p), f, mr, mi)
    case.check(q, p * abs(factor) ** 2)
    kernels.stage_multiplier(case.put(theta), h, f, weight, mr, mi, sr, si)
    m = 1j * h * theta * factor
    case.check(mr, m.real)
    case.check(mi, m.imag)
    case.check(sr, s0[0] + weight * m.real)
    case.check(si, s0[1] + weight * m.imag)


def test_max_rate(case, kernels):
    theta = case.draw()
    theta[-1, -1] = -2.5
    assert kernels.max_rate(case.put(theta)) == 2.5
    theta[0, 0] = np.nan
    assert math.isnan(kernels.max_rate(case.put(theta)))
