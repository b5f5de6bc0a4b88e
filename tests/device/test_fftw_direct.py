"""FFTW inside Numba kernels: every transform and every pass along z against numpy.fft."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wavefabric.acoustics.solver import plane_passes
from wavefabric.device import fftw, fftw_direct
from wavefabric.device.fftw_direct import AxisTransforms, available

pytestmark = pytest.mark.skipif(not available(np.float32), reason="needs FFTW (extra fftw)")
TOLERANCE = {np.float64: 1e-14, np.float32: 2e-6}
#: The same grids every time: plans are measured once and kept.
sized = settings(max_examples=20, deadline=None, derandomize=True)
shapes = st.tuples(*[st.integers(2, 12)] * 3)
precisions = st.sampled_from([np.float64, np.float32])


def aligned(shape, dtype):
    return fftw.aligned(shape, dtype)


class Grid:
    """Random fields for one shape (Nz, Ny, Nx), and the transforms of its axes."""

    def __init__(self, shape, dtype):
        self.shape, self.dtype, self.complex = shape, dtype, np.result_type(dtype, np.complex64)
        self.half = (*shape[:2], shape[2] // 2 + 1)
        self.axes = AxisTransforms(shape, dtype)
        self.fft, self.batch = self.axes.addresses(), self.axes.batch
        self.rng = np.random.default_rng(math.prod(shape))

    def real(self, shape=None):
        out = aligned(shape or self.shape, self.dtype)
        out[...] = self.rng.standard_normal(out.shape)
        return out, out.astype(float)

    def spectrum(self):
        """A spectrum of real planes, so that it can be transformed back."""
        out = aligned(self.half, self.complex)
        out[...] = np.fft.rfft2(self.rng.standard_normal(self.shape))
        return out, out.astype(complex)

    def vector(self, n):
        out = self.rng.standard_normal((n, 2)).view(complex)[:, 0].astype(self.complex)
        return out, out.astype(complex)

    def columns(self):
        """Scratch of one thread; the second half of it may lie at any multiple of a complex number."""
        return aligned((1, 2, self.shape[0], self.axes.slab, self.half[2]), self.complex)

    def check(self, got, wanted):
        assert abs(got - wanted).max() <= TOLERANCE[self.dtype] * abs(wanted).max() + 1e-300


@pytest.fixture(autouse=True, scope="module")
def _one_thread(cpu):
    cpu.kernels("wavefabric.acoustics.solver.kernels")  # which sets the number of threads


def along_z(spectrum, operator):
    """There, times an operator, and back, unscaled."""
    return np.fft.ifft(np.fft.fft(spectrum, axis=0) * operator, axis=0, norm="forward")


@sized
@given(shapes, precisions)
def test_batches_and_slabs(shape, dtype):
    made = AxisTransforms(shape, dtype)
    assert shape[1] % made.batch == shape[1] % made.slab == 0
    assert 1 <= made.batch <= 16
    assert 1 <= made.slab <= 8
    assert len(set(made.addresses().tolist())) == len(made.addresses()) == 10


@pytest.mark.parametrize(
    ("ny", "nx", "batch"), [(17, 64, 1), (13, 64, 13), (32, 64, 16), (12, 700, 2), (12, 2000, 1)]
)
def test_a_batch_stays_in_the_cache(ny, nx, batch):
    assert AxisTransforms((2, ny, nx), np.float32).batch == batch


@sized
@given(shapes, precisions)
def test_planes_there_and_back(shape, dtype):
    grid = Grid(shape, dtype)
    field, host = grid.real()
    spectrum = aligned(grid.half, grid.complex)
    plane_passes.transform_planes(grid.fft, grid.batch, field, spectrum)
    grid.check(spectrum, np.fft.rfft2(host))
    assert (field == host).all()
    other, size = spectrum.copy(), shape[1] * shape[2]
    target = aligned(grid.half[1:], grid.complex)
    for z in range(shape[0]):
        plane_passes._y_backward_into(grid.fft, spectrum[z], target)
        plane_passes._y_backward(grid.fft, other[z])
        grid.check(target, shape[1] * np.fft.rfft(host[z]))
        grid.check(other[z], shape[1] * np.fft.rfft(host[z]))
        rows = aligned((grid.batch, shape[2]), dtype)
        for y in range(0, shape[1], grid.batch):
            plane_passes._x_backward(grid.fft, target[y], rows)
            grid.check(rows, size * host[z, y : y + grid.batch])


@sized
@given(shapes, precisions)
def test_gradient_columns(shape, dtype):
    grid = Grid(shape, dtype)
    (s0, host), (kappa, k) = grid.spectrum(), grid.real(grid.half)
    s1, (dz, factor) = aligned(grid.half, grid.complex), grid.vector(shape[0])
    plane_passes.gradient_columns(grid.fft, s0, s1, kappa, dz, grid.columns())
    grid.check(s0, along_z(host, k))
    grid.check(s1, along_z(host, k * factor[:, None, None]))


@sized
@given(shapes, precisions)
def test_divergence_columns(shape, dtype):
    grid = Grid(shape, dtype)
    (s0, uy), (s1, ux), (s2, uz) = (grid.spectrum() for _ in range(3))
    (kappa, k), (dy, along_y), (dz, along) = (
        grid.real(grid.half),
        grid.vector(shape[1]),
        grid.vector(shape[0]),
    )
    plane_passes.divergence_columns(grid.fft, s0, s1, s2, kappa, dy, dz, grid.columns())
    grid.check(s0, along_z(uy, k) * along_y[:, None])
    grid.check(s1, along_z(ux, k))
    grid.check(s2, along_z(uz, k * along[:, None, None]))


@sized
@given(shapes, precisions, st.booleans())
def test_absorption_columns(shape, dtype, disperses):
    grid = Grid(shape, dtype)
    (s0, rate), (s1, total) = grid.spectrum(), grid.spectrum()
    (nabla1, one), (nabla2, two) = grid.real(grid.half), grid.real(grid.half)
    plane_passes.absorption_columns(grid.fft, s0, s1, nabla1, nabla2, disperses, grid.columns())
    grid.check(s0, along_z(rate, one))
    grid.check(s1, along_z(total, two) if disperses else total)


def test_long_rows():
    """Rows that are whole numbers of vectors, and rows that are not."""
    for nx in (75, 96, 300):
        for dtype in (np.float32, np.float64):
            grid = Grid((2, 3, nx), dtype)
            field, host = grid.real()
            spectrum = aligned(grid.half, grid.complex)
            plane_passes.transform_planes(grid.fft, grid.batch, field, spectrum)
            grid.check(spectrum, np.fft.rfft2(host))


def test_not_available(monkeypatch):
    monkeypatch.setattr(fftw, "pyfftw", None)
    fftw_direct._libraries.cache_clear()
    try:
        assert not available(np.float32)
        assert not available(np.float64)
    finally:
        fftw_direct._libraries.cache_clear()
