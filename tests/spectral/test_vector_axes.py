"""Transforms axis by axis in vector code, called from Numba by their addresses, against NumPy."""

import gc
import itertools
import math
from functools import cache

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from vector_calls import allowed, bits, complex_noise, relative_error

from wavefabric.device.vector_code import execute
from wavefabric.spectral import vector_axes
from wavefabric.spectral.vector_axes import LONGEST, AxisTransforms, pitch, usable

both = pytest.mark.parametrize("dtype", [np.float32, np.float64])
#: (Nz, Ny, Nx): even and odd rows, single points, and rows that are not whole numbers of vectors.
SHAPES = [(6, 12, 20), (5, 7, 9), (1, 1, 1), (2, 1, 2)]


@numba.njit
def from_a_kernel(addresses, kind, source, target, operator):
    execute(addresses[kind, 0], addresses[kind, 1], source, target, operator)


@cache
def transforms(shape, dtype):
    """Of the axes, with random factors up and down."""
    rng, (nz, ny, nx) = np.random.default_rng(1), shape
    # One more along x, where the other half of a spectrum may follow; axes are those of broadcasting.
    shapes = ((1, 1, nx // 2 + 2), (1, ny, 1), (nz, 1, 1))
    up, down = ([complex_noise(rng, one, dtype) for one in shapes] for _ in range(2))
    return AxisTransforms(shape, dtype, up, down), up, down


class Grid:
    """Fields of one shape, random factors along each axis, and what every kind of transform should give."""

    def __init__(self, shape, dtype):
        self.shape, self.dtype, self.rng = shape, np.dtype(dtype), np.random.default_rng(math.prod(shape))
        self.entries, self.width = shape[2] // 2 + 1, pitch(shape[2], dtype)
        self.axes, self.up, self.down = transforms(shape, dtype)
        self.addresses = self.axes.addresses()

    def run(self, kind, source, target, operator=None):
        operator = 0 if operator is None else operator.ctypes.data
        from_a_kernel(self.addresses, kind, source.ctypes.data, target.ctypes.data, operator)

    def check(self, got, wanted, points):
        assert relative_error(got, wanted) < allowed(4 * points, self.dtype)

    def factors(self, by, axis):
        """Of the four kinds of an axis: forth, back, and those by a derivative."""
        return {2: self.up, 3: self.down}[by][axis].ravel().astype(np.clongdouble) if by > 1 else 1.0


def back(values):
    return np.fft.ifft(values.astype(np.clongdouble), axis=0, norm="forward")


@both
@pytest.mark.parametrize("shape", SHAPES)
def test_along_x(shape, dtype):
    """A batch of rows, and no more."""
    grid = Grid(shape, dtype)
    batch, nx, entries = grid.axes.batch, shape[2], grid.entries
    rows = grid.rng.standard_normal((batch, nx)).astype(dtype)
    spectra = np.full((batch + 1, grid.width), 7, grid.up[0].dtype)
    grid.run(vector_axes.X_FORTH, rows, spectra)
    grid.check(spectra[:batch, :entries], np.fft.rfft(rows.astype(np.longdouble)), nx)
    assert (spectra[:batch, entries:] == 0).all()
    assert (spectra[batch] == 7).all()
    kinds = (vector_axes.X_BACK, vector_axes.X_BACK_BY_UP, vector_axes.X_BACK_BY_DOWN)
    for by, kind in enumerate(kinds, 1):
        spectra = complex_noise(grid.rng, (batch, grid.width), dtype)
        half = spectra[:, :entries].astype(np.clongdouble)
        half = half * (grid.factors(by, 0)[:entries] if by > 1 else 1)
        half[:, [0, -1] if nx % 2 == 0 else [0]].imag = 0
        rows = np.full((batch + 1, nx), 7, dtype)
        grid.run(kind, spectra, rows)
        grid.check(rows[:batch], np.fft.irfft(half, nx, norm="forward"), nx)
        assert (rows[batch] == 7).all()


@both
@pytest.mark.parametrize("shape", SHAPES)
def test_along_y(shape, dtype):
    """A plane into another, and in place."""
    grid = Grid(shape, dtype)
    kinds = (
        vector_axes.Y_FORTH,
        vector_axes.Y_BACK,
        vector_axes.Y_BACK_BY_UP,
        vector_axes.Y_BACK_BY_DOWN,
    )
    for by, kind in enumerate(kinds):
        plane = complex_noise(grid.rng, (shape[1], grid.width), dtype)
        target = np.full((shape[1] + 1, grid.width), 7, plane.dtype)
        grid.run(kind, plane, target)
        values = plane.astype(np.clongdouble)
        wanted = (
            back(values * (grid.factors(by, 1)[:, None] if by > 1 else 1))
            if by
            else np.fft.fft(values, axis=0)
        )
        grid.check(target[:-1], wanted, shape[1])
        assert (target[-1] == 7).all()
        grid.run(kind, plane, plane)
        assert bits(plane) == bits(target[:-1])


@both
@pytest.mark.parametrize("shape", SHAPES)
def test_along_z(shape, dtype):
    """Each slab into a block, and from there, times an operator, into the same slab and no other."""
    grid = Grid(shape, dtype)
    nz, ny, _ = shape
    slab, width = grid.axes.slab, grid.width
    spectrum = complex_noise(grid.rng, (nz, ny, width), dtype)
    operator = grid.rng.standard_normal((nz, ny, width)).astype(dtype)
    kinds = (vector_axes.Z_BACK, vector_axes.Z_BACK_BY_UP, vector_axes.Z_BACK_BY_DOWN)
    for y in {0, ny - slab}:
        part = slice(y, y + slab)
        block = np.full((nz + 1, slab, width), 7, spectrum.dtype)
        before = bits(spectrum), bits(operator)
        grid.run(vector_axes.Z_FORTH, spectrum[0, y:], block, spectrum)
        wanted = np.fft.fft(spectrum[:, part].astype(np.clongdouble), axis=0)
        grid.check(block[:nz], wanted, nz)
        assert (block[nz] == 7).all()
        for by, kind in enumerate(kinds, 1):
            target = np.full_like(spectrum, 7)
            grid.run(kind, block, target[0, y:], operator[0, y:])
            values = block[:nz] * operator[:, part].astype(np.longdouble)
            values = values * (grid.factors(by, 2)[:, None, None] if by > 1 else 1)
            grid.check(target[:, part], back(values), nz)
            assert (np.delete(target, range(y, y + slab), 1) == 7).all()
        assert before == (bits(spectrum), bits(operator))


def test_kinds():
    """Four for each of three axes, in the order of the rows of the addresses."""
    names = [
        f"{axis}_{variant}" for axis in "XYZ" for variant in ("FORTH", "BACK", "BACK_BY_UP", "BACK_BY_DOWN")
    ]
    assert [getattr(vector_axes, name) for name in names] == list(range(12))
    grid = Grid((4, 6, 10), np.float64)
    assert grid.addresses.shape == (12, 2)
    assert grid.addresses.dtype == np.uintp
    assert len(set(grid.addresses[:, 1].tolist())) == 12  # a table each
    # The two derivatives share the code, and so do grids of one shape.
    functions = grid.addresses[:, 0].tolist()
    assert [functions[i] == functions[i + 1] for i in range(11)] == [i % 4 == 2 for i in range(11)]
    other = AxisTransforms((4, 6, 10), np.float64, grid.down, grid.up)
    assert other.addresses()[:, 0].tolist() == functions


def test_code_and_tables_outlive_what_they_were_made_from():
    """As long as their object."""
    grid = Grid((3, 4, 5), np.float32)
    spectrum = complex_noise(grid.rng, (4, grid.width), np.float32)
    wanted, got = np.empty_like(spectrum), np.empty_like(spectrum)
    grid.run(vector_axes.Y_BACK_BY_UP, spectrum, wanted)
    grid.up = grid.down = None
    transforms.cache_clear()
    gc.collect()
    rubbish = [np.full(n, np.nan, np.float32) for n in range(1, 200)]
    grid.run(vector_axes.Y_BACK_BY_UP, spectrum, got)
    assert bits(got) == bits(wanted)
    assert len(rubbish) == 199


def test_up_and_down_are_not_kept():
    """Whoever changes the arrays that were given changes no transform."""
    transforms.cache_clear()
    grid = Grid((3, 4, 5), np.float64)
    spectrum = complex_noise(grid.rng, (4, grid.width), np.float64)
    results = np.empty((2, *spectrum.shape), spectrum.dtype)
    grid.run(vector_axes.Y_BACK_BY_UP, spectrum, results[0])
    grid.up[1][...] = np.nan
    grid.run(vector_axes.Y_BACK_BY_UP, spectrum, results[1])
    transforms.cache_clear()
    assert bits(results[0]) == bits(results[1])


def test_too_few_factors_are_refused():
    right = [np.ones(4), np.ones(5), np.ones(3)]
    for axis in range(3):
        wrong = [one[: one.size - (i == axis)] for i, one in enumerate(right)]
        with pytest.raises(ValueError, match="factors: shape"):
            AxisTransforms((3, 5, 6), np.float64, right, wrong)


@settings(max_examples=300, derandomize=True)
@given(st.integers(1, 700), st.integers(1, 3000), st.integers(1, 3000), st.sampled_from([4, 8]))
def test_batches_and_slabs(ny, nx, nz, itemsize):
    """They divide Ny, and are within the caches unless a single one is larger."""
    lanes = 32 // itemsize
    batch = vector_axes._batch(ny, nx * itemsize, lanes)
    assert ny % batch == 0
    assert batch <= max(lanes, 16384 // (nx * itemsize))
    plane = nz * pitch(nx, f"f{itemsize}") * 2 * itemsize
    slab = vector_axes._largest_divisor(ny, 8, 600 * 1024, plane)
    assert ny % slab == 0
    assert 1 <= slab <= 8
    assert slab == 1 or slab * plane <= 600 * 1024
    larger = [r for r in range(slab + 1, 9) if ny % r == 0]
    assert all(r * plane > 600 * 1024 for r in larger)


@pytest.mark.parametrize(
    ("ny", "nx", "dtype", "batch"),
    [
        (128, 128, np.float32, 8),  # whole vectors, and no more of them than needed
        (128, 128, np.float64, 4),
        (17, 64, np.float32, 17),  # none of 17 lanes of 24 empty: 1.41 for each, 8 for a single row
        (12, 64, np.float32, 6),  # 8 lanes for 6 rows, 16 for 12
        (1, 64, np.float32, 1),
        (13, 8000, np.float32, 1),  # 13 rows do not fit
        (12, 8000, np.float64, 4),  # as many as a vector's lanes, whatever their length
    ],
)
def test_batches_leave_few_lanes_empty(ny, nx, dtype, batch):
    itemsize = np.dtype(dtype).itemsize
    assert vector_axes._batch(ny, nx * itemsize, 32 // itemsize) == batch
    if nx < 1000:
        ones = [np.ones(n) for n in (nx // 2 + 1, ny, 2)]
        made = AxisTransforms((2, ny, nx), dtype, ones, ones)
        assert (made.batch, ny % made.slab) == (batch, 0)


@both
@pytest.mark.parametrize("nx", [1, 2, 6, 7, 8, 13, 14, 15, 16, 128, 129])
def test_a_row_of_a_spectrum_is_whole_cache_lines(nx, dtype):
    width = pitch(nx, dtype)
    line = 64 // (2 * np.dtype(dtype).itemsize)
    assert width % line == 0
    assert nx // 2 + 1 <= width < nx // 2 + 1 + line


def test_usable():
    sizes = {1: True, 2: True, 31: True, 37: False, 74: False, 961: True, LONGEST: True, 2 * LONGEST: False}
    sizes |= {0: False, 30 * 31 * 29: False}  # 26 970 points would need 3 MiB of a thread's stack
    for one, other in itertools.product(sizes, repeat=2):
        for shape in ((one, other, 4), (4, one, other), (other, 4, one)):
            assert usable(shape) == (sizes[one] and sizes[other])
