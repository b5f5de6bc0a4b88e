"""Work in parts: every point once, the same answers on any number of threads."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavefabric.acoustics import Grid, setup_passes, smooth
from wavefabric.acoustics.check.warnings import _rms_wavenumber
from wavefabric.acoustics.medium import stagger
from wavefabric.acoustics.problem import Problem
from wavefabric.acoustics.smoothing import smooth_on
from wavefabric.base.errors import InputError
from wavefabric.runtime.device import get_device

SHAPES = st.tuples(*[st.integers(1, 7)] * 3)


@pytest.fixture(params=[1, 2])
def in_small_parts(request, monkeypatch):
    for module in ("setup_passes", "smoothing"):
        monkeypatch.setattr(f"wavefabric.acoustics.{module}.threads_for", lambda points: request.param)


@given(SHAPES, st.integers(1, 80))
def test_parts_are_every_point_once(shape, points):
    counts = np.zeros(shape, int)
    for piece in setup_passes.parts(shape, points):
        counts[piece] += 1
        assert counts[piece].size <= max(points, shape[2])
    assert (counts == 1).all()


@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("shape", [(9,), (7, 9), (20, 11, 33)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_field_in_the_order_of_the_solver(in_small_parts, shape, order, inside):
    grid = Grid(shape, 1e-4, pml_size=3, pml_inside=inside)
    field = np.asarray(np.random.default_rng(1).random(shape), order=order)
    layers = [] if inside else [(3, 3)] * len(shape)
    for outside, mode in (("edge", "edge"), ("zero", "constant")):
        wanted = np.pad(field, layers, mode) if layers else field
        memory = grid.to_memory(field, "field", outside)
        assert memory.flags.c_contiguous
        assert (memory == wanted.reshape(*wanted.shape, *(1,) * (3 - len(shape))).transpose()).all()


@pytest.mark.parametrize("wrap", [False, True])
@pytest.mark.parametrize("shape", [(1, 1, 9), (1, 8, 9), (5, 8, 9), (5, 1, 9)])
def test_densities_between_points(in_small_parts, shape, wrap):
    field = np.random.default_rng(1).random(shape).astype(np.float32)
    for axis in range(3):
        beside = np.roll(field, -1, 2 - axis)
        if not wrap:
            last = [slice(None)] * 3
            last[2 - axis] = slice(-1, None)
            beside[tuple(last)] = field[tuple(last)]
        assert (stagger(field, axis, wrap) == (field + beside) * np.float32(0.5)).all()


def test_the_mean_wavenumber_of_a_pressure(in_small_parts):
    """Of a plane wave sin(k x) between two rigid ends it is that of its differences."""
    p0 = np.random.default_rng(1).random((5, 8, 9))
    spacing = 1e-4, 2e-4, 3e-4
    nothing = {"pml_size": (0, 0, 0), "pml_alpha": (0.0, 0.0, 0.0), "density_staggered": (1.0, 1.0, 1.0)}
    problem = Problem(
        (9, 8, 5), spacing, 1e-8, 1, 1500.0, sound_speed=1500.0, density=1.0, initial_pressure=p0, **nothing
    )
    wanted = sum(np.sum(np.diff(p0, axis=2 - axis) ** 2) / step**2 for axis, step in enumerate(spacing))
    assert _rms_wavenumber(problem) == pytest.approx(np.sqrt(wanted / np.sum(p0**2)), rel=1e-13)


@pytest.mark.parametrize("shape", [(30,), (20, 31), (8, 9, 10)])
def test_smoothing_on_threads(in_small_parts, shape):
    """The peak stays where it is told to, and threads change nothing but round-off."""
    field = np.zeros(shape)
    field[(3,) * len(shape)] = -5.0
    smoothed = smooth(field)
    assert abs(smoothed).max() == pytest.approx(5.0, rel=1e-12)
    assert smooth(field, restore_max=False).sum() == pytest.approx(-5.0, rel=1e-12)


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    return get_device(request.param)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1, 1, 30), (1, 21, 30), (8, 9, 10), (7, 1, 12)])
def test_a_device_smooths_as_the_host_does(device, shape, dtype):
    field = np.random.default_rng(1).standard_normal(shape).astype(dtype)
    smoothed = device.to_host(smooth_on(device, device.asarray(field)))
    assert smoothed.dtype == dtype
    np.testing.assert_allclose(smoothed, smooth(field), atol=20 * np.finfo(dtype).eps)
    assert (device.to_host(smooth_on(device, device.zeros(shape, dtype))) == 0).all()


@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("outside", ["edge", "zero"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_field_is_brought_to_a_device(device, order, outside, inside):
    """From the host or from the device itself, of any type."""
    grid = Grid((20, 11, 33), 1e-4, pml_size=3, pml_inside=inside)
    for dtype in (np.float32, np.float64, np.int16):
        field = np.asarray(100 * np.random.default_rng(1).random(grid.shape), dtype, order=order)
        wanted = grid.to_memory(field, "field", outside)
        for values in (field, device.asarray(field)):
            memory = grid.to_memory(values, "field", outside, device)
            assert memory.flags.c_contiguous
            assert memory.dtype == wanted.dtype
            assert (device.to_host(memory) == wanted).all()
    with pytest.raises(InputError, match="field: has the shape"):
        grid.to_memory(np.zeros(3), "field", outside, device)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_field_of_a_structured_array_is_copied(dtype):
    """Its numbers are a whole number of bytes apart, but not of numbers."""
    records = np.zeros((4, 5, 6), [("field", dtype), ("flag", np.uint8)])
    records["field"] = np.random.default_rng(1).random((4, 5, 6))
    memory = Grid((4, 5, 6), 1e-4, pml_size=1).to_memory(records["field"], "field")
    assert (memory == records["field"].transpose()).all()


def test_kernels_take_single_and_double_precision_alone():
    with pytest.raises(KeyError):
        setup_passes.value_range(np.ones(3, np.float16))


@pytest.mark.parametrize("shape", [(6, 5, 4, 8), (4, 3, 2, 5, 6)])
def test_smoothing_along_more_than_three_axes(shape):
    """The window is that of the docstring, with a square for each axis."""
    field = np.random.default_rng(1).random(shape)
    halves, radius = [n // 2 for n in shape], max(shape) // 2
    square = sum(
        (np.fft.fftfreq(n, 1 / n) / h).reshape([-1 if axis == k else 1 for axis in range(len(shape))]) ** 2
        for k, (n, h) in enumerate(zip(shape, halves, strict=True))
    )
    r = np.arange(radius + 1)
    window = 0.42 + 0.5 * np.cos(np.pi * r / radius) + 0.08 * np.cos(2 * np.pi * r / radius)
    window[-1] = 0
    wanted = np.fft.ifftn(np.fft.fftn(field) * np.interp(radius * np.sqrt(square), r, window)).real
    np.testing.assert_allclose(smooth(field, restore_max=False), wanted, atol=1e-13)


def test_smoothing_keeps_the_type():
    for dtype in (np.float16, np.float32, np.float64, np.longdouble):
        assert smooth(np.ones((6, 8), dtype)).dtype == dtype
    assert smooth(np.ones((6, 8), int)).dtype == np.float64
