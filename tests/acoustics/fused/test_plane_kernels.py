"""Passes of the fused time step over planes and along z, on a CPU: each against numpy.fft."""

import math
from functools import cache

import numpy as np
import pytest
from vector_calls import complex_noise

from wavefabric.acoustics.fused import plane_kernels
from wavefabric.spectral import vector_axes as axes
from wavefabric.spectral.vector_axes import AxisTransforms, pitch

TOLERANCE = {np.float64: 1e-15, np.float32: 5e-7}
#: (Nz, Ny, Nx): slabs of one row and of several, batches of one row, of whole vectors and of others.
SHAPES = [(4, 6, 8), (5, 7, 9), (12, 10, 3), (2, 16, 10), (1, 1, 4)]
each = pytest.mark.parametrize("shape", SHAPES)
both = pytest.mark.parametrize("dtype", [np.float64, np.float32])


@cache
def transforms(shape, dtype):
    """Of the axes, with random derivatives up and down."""
    rng = np.random.default_rng(1)
    up, down = (
        [complex_noise(rng, (n,), dtype) for n in (shape[2] // 2 + 1, shape[1], shape[0])] for _ in range(2)
    )
    return AxisTransforms(shape, dtype, up, down), up, down


class Grid:
    """Random fields of one shape, and the transforms of its axes."""

    def __init__(self, shape, dtype):
        self.shape, self.dtype, self.complex = shape, dtype, np.result_type(dtype, np.complex64)
        self.rng, self.entries = np.random.default_rng(math.prod(shape)), shape[2] // 2 + 1
        self.half = (*shape[:2], pitch(shape[2], dtype))
        self.axes, self.up, self.down = transforms(shape, dtype)
        self.fft, self.batch = self.axes.addresses(), self.axes.batch

    def noise(self, shape):
        return complex_noise(self.rng, shape, self.dtype)

    def real(self, shape=None):
        return self.rng.standard_normal(shape or self.shape).astype(self.dtype)

    def operator(self):
        return self.real(self.half)

    def columns(self):
        """Scratch of one thread."""
        return np.full((1, self.shape[0], self.axes.slab, self.half[2]), np.nan, self.complex)

    def check(self, got, wanted):
        assert abs(got - wanted).max() <= TOLERANCE[self.dtype] * abs(wanted).max()


@pytest.fixture(autouse=True, scope="module")
def _one_thread(cpu):
    cpu.kernels("wavefabric.acoustics.fused.plane_kernels")  # which sets the number of threads


def along_z(spectrum, operator, factors=1.0):
    """There, times an operator and factors, and back, unscaled."""
    factors = np.reshape(factors, (-1, 1, 1))
    spectrum = np.fft.fft(spectrum.astype(complex), axis=0) * operator * factors
    return np.fft.ifft(spectrum, axis=0, norm="forward")


@both
@each
def test_planes_there_and_back(shape, dtype):
    grid = Grid(shape, dtype)
    field, spectrum = grid.real(), np.full(grid.half, np.nan, grid.complex)
    host = field.copy()
    plane_kernels.transform_planes(grid.fft, grid.batch, field, spectrum)
    grid.check(spectrum[..., : grid.entries], np.fft.rfft2(host.astype(float)))
    assert (spectrum[..., grid.entries :] == 0).all()
    assert np.array_equal(field, host)
    plane_kernels.transform_planes_back(grid.fft, grid.batch, spectrum, field)
    grid.check(field, shape[1] * shape[2] * host.astype(float))


@both
@each
def test_multiply_columns(shape, dtype):
    grid = Grid(shape, dtype)
    spectrum, operator = grid.noise(grid.half), grid.operator()
    wanted = along_z(spectrum, operator)
    plane_kernels.multiply_columns(grid.fft, (spectrum,), (operator,), axes.Z_BACK, grid.columns())
    grid.check(spectrum, wanted)


@both
@each
def test_gradient_columns(shape, dtype):
    grid = Grid(shape, dtype)
    s0, kappa, s1 = grid.noise(grid.half), grid.operator(), np.full(grid.half, np.nan, grid.complex)
    pressure, k = s0.copy(), kappa.copy()
    plane_kernels.gradient_columns(grid.fft, s0, s1, kappa, grid.columns())
    grid.check(s0, along_z(pressure, k))
    grid.check(s1, along_z(pressure, k, grid.up[2]))
    assert np.array_equal(kappa, k)


@both
@each
@pytest.mark.parametrize("side", ["up", "down"])
def test_divergence_columns(shape, dtype, side):
    grid = Grid(shape, dtype)
    spectra, kappa = [grid.noise(grid.half) for _ in range(3)], grid.operator()
    backs = {"up": axes.Z_BACK_BY_UP, "down": axes.Z_BACK_BY_DOWN}
    uy, ux, uz = (one.copy() for one in spectra)
    plane_kernels.multiply_columns(grid.fft, tuple(spectra), (kappa,) * 3, backs[side], grid.columns())
    grid.check(spectra[0], along_z(uy, kappa))
    grid.check(spectra[1], along_z(ux, kappa))
    grid.check(spectra[2], along_z(uz, kappa, getattr(grid, side)[2]))


@both
@each
def test_absorption_columns(shape, dtype):
    grid = Grid(shape, dtype)
    s0, s1, nabla1, nabla2 = grid.noise(grid.half), grid.noise(grid.half), grid.operator(), grid.operator()
    rate, total = s0.copy(), s1.copy()
    operators = nabla1, nabla2
    plane_kernels.multiply_columns(grid.fft, (s0, s1), operators, axes.Z_BACK, grid.columns())
    grid.check(s0, along_z(rate, nabla1))
    grid.check(s1, along_z(total, nabla2))


@both
def test_derivatives_in_three_dimensions(dtype):
    """κ ∂z of a field by passes one after another, with the factors of a spectral derivative."""
    shape = (6, 10, 12)
    grid = Grid(shape, dtype)
    k = 2j * np.pi * np.fft.fftfreq(6)
    k[3] = 0
    axes = AxisTransforms(shape, dtype, [grid.up[0], grid.up[1], k], grid.down)
    fft, kappa = axes.addresses(), np.full(grid.half, 1 / math.prod(shape), dtype)
    field, s0 = grid.real(), np.zeros(grid.half, grid.complex)
    s1, out = np.zeros_like(s0), np.empty_like(field)
    wanted = np.fft.ifft(np.fft.fft(field.astype(float), axis=0) * k[:, None, None], axis=0).real
    plane_kernels.transform_planes(fft, axes.batch, field, s0)
    plane_kernels.gradient_columns(fft, s0, s1, kappa, grid.columns())
    plane_kernels.transform_planes_back(fft, axes.batch, s1, out)
    grid.check(out, wanted)
