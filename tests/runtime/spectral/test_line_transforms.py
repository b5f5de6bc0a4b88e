"""Transforms of lines in the C++ library against NumPy in double and extended precision."""

import doctest
import importlib
import math

import numpy as np
import pytest
from emulated_device import opened
from hypothesis import given
from hypothesis import strategies as st

from wavefabric.acoustics.fused.plane_kernels import DOWN, NONE, TABLE, UP
from wavefabric.runtime.kernels.series_plan import PRIMES, convolution_points, pass_radices, reversed_digits
from wavefabric.runtime.spectral.line_transforms import LineTransforms, pitch

#: (Nz, Ny, Nx): one and several batches of rows, whole and half vectors of columns, convolutions.
SHAPES = [
    (4, 6, 8),
    (5, 7, 9),
    (1, 1, 1),
    (33, 17, 34),
    (70, 1, 26),
    (9, 64, 19),
    (2, 1, 137),
]
SHAPES += [
    pytest.param(shape, marks=pytest.mark.slow)
    for shape in ((12, 10, 3), (2, 16, 10), (1, 1, 4), (3, 1, 40), (40, 1, 3), (1, 1, 210))
]
TOLERANCE = {np.float64: 2e-15, np.float32: 6e-7}
DTYPES = pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["double", "single"])


class Lines:
    """Random fields of one shape, its transforms, and random derivatives."""

    def __init__(self, device, shape, dtype):
        self.kernels, self.shape, self.dtype = device.kernels(TABLE), shape, dtype
        self.device, self.rng = device, np.random.default_rng(math.prod(shape))
        self.count = shape[2] // 2 + 1
        self.up, self.down = ([self.complex((n,)) for n in (self.count, *shape[1::-1])] for _ in range(2))
        self.lines = LineTransforms(shape, dtype, self.up, self.down)
        self.half = (*shape[:2], pitch(shape[2], dtype))

    def complex(self, shape):
        parts = self.rng.standard_normal((2, *shape))
        return (parts[0] + 1j * parts[1]).astype(np.result_type(self.dtype, np.complex64))

    def real(self, shape=None):
        array = self.device.empty(shape or self.shape, self.dtype)
        array[...] = self.rng.standard_normal(array.shape)
        return array

    def spectrum(self, real):
        """The planes' spectrum, by the kernel; and by NumPy."""
        out = self.device.zeros(self.half, np.result_type(self.dtype, np.complex64))
        self.kernels.transform_planes(self.lines, real, out)
        return out, np.fft.fft(np.fft.rfft(real.astype(float), axis=2), axis=1)

    def check(self, actual, expected):
        scale = abs(expected).max() or 1.0
        assert abs(actual - expected).max() <= TOLERANCE[self.dtype] * scale


@pytest.fixture(params=SHAPES, ids=lambda shape: "x".join(map(str, shape)))
def shape(request):
    return request.param


def test_examples():
    failed, tried = doctest.testmod(importlib.import_module("wavefabric.runtime.kernels.series_plan"))
    assert (failed, tried) == (0, 3)


@given(st.integers(1, 5000))
def test_radices(n):
    radices = pass_radices(n)
    rest = n
    for prime in PRIMES:
        while rest % prime == 0:
            rest //= prime
    assert (math.prod(radices) == n) if rest == 1 else (radices == ())
    assert set(radices) <= {1, 2, 3, 4, 5, 7, 8, 11, 13}
    assert sorted(reversed_digits(radices).tolist()) == list(range(math.prod(radices)))
    if n > 1:
        points = convolution_points(n)
        assert points >= 2 * n - 1
        assert pass_radices(points)


@DTYPES
def test_planes_there_and_back(cpu, shape, dtype):
    case = Lines(cpu, shape, dtype)
    real = case.real()
    spectrum, expected = case.spectrum(real)
    case.check(spectrum[..., : case.count], expected)
    out = case.real()
    case.kernels.transform_planes_back(case.lines, out, spectrum, NONE, NONE)
    case.check(out, real * float(shape[1] * shape[2]))


@DTYPES
@pytest.mark.parametrize(("by_x", "by_y"), [(UP, NONE), (DOWN, NONE), (NONE, UP), (NONE, DOWN)])
def test_derivatives_along_x_and_y(cpu, shape, dtype, by_x, by_y):
    if by_y and shape[1] == 1:
        return  # there is no such axis
    case = Lines(cpu, shape, dtype)
    spectrum, expected = case.spectrum(case.real())
    out = case.real()
    case.kernels.transform_planes_back(case.lines, out, spectrum, by_x, by_y)
    factors = {UP: case.up, DOWN: case.down}
    if by_y:
        expected = expected * factors[by_y][1].astype(complex)[:, None]
    # Along x the factor comes after the transform along y: that of a real field's own spectrum along x.
    along_x = np.fft.ifft(expected, axis=1, norm="forward")
    if by_x:
        along_x = along_x * factors[by_x][0].astype(complex)
    case.check(out, np.fft.irfft(along_x, shape[2], axis=2, norm="forward"))


@DTYPES
@pytest.mark.parametrize("derivative", [NONE, UP, DOWN])
@pytest.mark.parametrize("more", [False, True])
def test_columns(cpu, shape, dtype, derivative, more):
    case = Lines(cpu, shape, dtype)
    (spectrum, one), (other, two) = case.spectrum(case.real()), case.spectrum(case.real())
    operator = case.real(case.half)
    case.kernels.multiply_columns(case.lines, spectrum, operator, derivative, other if more else None)
    along_z = np.fft.fft(one, axis=0)
    if more:
        along_z += np.fft.fft(two, axis=0) * case.down[2].astype(complex)[:, None, None]
    along_z *= operator[..., : case.count].astype(float)
    if derivative:
        along_z *= {UP: case.up, DOWN: case.down}[derivative][2].astype(complex)[:, None, None]
    case.check(spectrum[..., : case.count], np.fft.ifft(along_z, axis=0, norm="forward"))


@DTYPES
def test_gradient_columns(cpu, shape, dtype):
    case = Lines(cpu, shape, dtype)
    (s0, expected), (s1, _), kappa = (
        case.spectrum(case.real()),
        case.spectrum(case.real()),
        case.real(case.half),
    )
    case.kernels.gradient_columns(case.lines, s0, s1, kappa)
    along_z = np.fft.fft(expected, axis=0) * kappa[..., : case.count].astype(float)
    case.check(s0[..., : case.count], np.fft.ifft(along_z, axis=0, norm="forward"))
    along_z *= case.up[2].astype(complex)[:, None, None]
    case.check(s1[..., : case.count], np.fft.ifft(along_z, axis=0, norm="forward"))


@pytest.mark.parametrize(
    "points",
    [
        64,
        pytest.param(100, marks=pytest.mark.slow),
        pytest.param(96, marks=pytest.mark.slow),
        pytest.param(128, marks=pytest.mark.slow),
        pytest.param(144, marks=pytest.mark.slow),
        pytest.param(256, marks=pytest.mark.slow),
        pytest.param(350, marks=pytest.mark.slow),
        1001,
    ],
)
def test_single_precision_neither_gains_nor_loses_energy(cpu, points):
    """A gain of a transform would act in every step of a long run alike."""
    case = Lines(cpu, (points, 1, 64), np.float32)
    operator, out, products = case.real(case.half), case.real(), np.zeros(2)
    operator[...] = 1
    for _ in range(30):
        real = case.real()
        spectrum, _ = case.spectrum(real)
        case.kernels.multiply_columns(case.lines, spectrum, operator, NONE, None)
        case.kernels.transform_planes_back(case.lines, out, spectrum, NONE, NONE)
        products += [np.vdot(real.astype(float), each.astype(float)) for each in (out, real)]
    assert abs(products[0] / products[1] / out.size - 1) < 5e-9


@DTYPES
def test_bits_do_not_depend_on_the_number_of_threads(dtype):
    answers = []
    for threads in (1, 2):
        case = Lines(opened(f"cpu {threads}"), (11, 10, 34), dtype)
        spectrum, _ = case.spectrum(case.real())
        case.kernels.multiply_columns(case.lines, spectrum, case.real(case.half), UP, None)
        answers.append(spectrum.tobytes())
    assert answers[0] == answers[1]
