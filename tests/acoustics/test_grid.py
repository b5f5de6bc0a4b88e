"""The grid: coordinates, time steps, PML sizes and memory order."""

import math

import numpy as np
import pytest

from wavefabric.acoustics import Grid, Medium
from wavefabric.acoustics.grid import largest_prime_factor
from wavefabric.base.errors import InputError

WATER = Medium(1500.0, 1000.0)


def test_spacing_reads_units_and_serves_all_axes():
    assert Grid((64, 64, 30), "0.1 mm").spacing == pytest.approx((1e-4, 1e-4, 1e-4))
    assert Grid((64, 64), ["0.1 mm", 2e-4]).spacing == pytest.approx((1e-4, 2e-4))


def test_origin_is_point_n_half():
    x, y = Grid((64, 45), (2.0, 3.0)).coordinates
    assert x[32] == 0
    assert y[22] == 0
    assert (x[0], x[-1]) == (-64, 62)
    assert (y[0], y[-1]) == (-66, 66)


def test_defaults_are_those_of_kwave():
    flat, solid = Grid((64, 64), 1e-4), Grid((64, 64, 64), 1e-4)
    assert flat.pml_size == (20, 20)
    assert solid.pml_size == (10, 10, 10)
    assert solid.pml_alpha == (2.0, 2.0, 2.0)
    assert flat.total_shape == (64, 64, 1)


def test_auto_pml_minimises_the_largest_prime_factor():
    grid = Grid((108, 107, 128), 1e-4, pml_size="auto", pml_inside=False)
    for points, size in zip(grid.shape, grid.pml_size, strict=True):
        factors = {other: largest_prime_factor(points + 2 * other) for other in range(10, 21)}
        assert factors[size] == min(factors.values())
        assert all(factors[thinner] > factors[size] for thinner in range(10, size))
    assert grid.total_shape == (128, 135, 162)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 12, 97, 98, 1024, 3 * 49, 9973])
def test_largest_prime_factor(n):
    primes = [p for p in range(2, n + 1) if all(p % q for q in range(2, math.isqrt(p) + 1))]
    assert largest_prime_factor(n) == max((p for p in primes if n % p == 0), default=1)


def test_time_step_and_steps_follow_make_time():
    grid = Grid((40, 30), (1e-4, 2e-4), pml_size=5)
    medium = Medium(np.linspace(1400, 1600, 1200).reshape(40, 30), 1000.0)
    dt = grid.time_step(medium, cfl=0.25)
    assert dt == pytest.approx(0.25 * 1e-4 / 1600)
    diagonal = math.hypot(40 * 1e-4, 30 * 2e-4)
    assert grid.steps(medium, dt) == math.floor(diagonal / 1400 / dt) + 1
    assert grid.steps(medium, "10 ns", "1 us") == 101
    # 0.3/0.1 is 2.9999999999999996 in floating point.
    assert grid.steps(medium, 0.1, 0.3) == 4


def test_memory_order_is_x_fastest_and_copies_nothing_that_is_right():
    grid = Grid((8, 6, 5), 1.0, pml_size=1)
    a = np.arange(240, dtype=np.float32).reshape(8, 6, 5)
    out = grid.to_memory(a, "a")
    assert out.shape == (5, 6, 8)
    assert out.flags.c_contiguous
    assert out[4, 3, 2] == a[2, 3, 4]
    right = np.asfortranarray(a)
    assert np.shares_memory(grid.to_memory(right, "a"), right)
    flat = np.asfortranarray(a[:, :, 0])
    assert np.shares_memory(Grid((8, 6), 1.0, pml_size=1).to_memory(flat, "a"), flat)


def test_pml_outside_widens_and_is_cut_off_again():
    grid = Grid((7, 5), 1.0, pml_size=(3, 2), pml_inside=False)
    assert grid.total_shape == (13, 9, 1)
    a = np.arange(1.0, 36.0).reshape(7, 5)
    edge, zero = grid.to_memory(a, "a"), grid.to_memory(a, "a", "zero")
    assert edge.shape == (1, 9, 13)
    assert edge[0, 0, 0] == a[0, 0]
    assert edge[0, -1, 4] == a[1, -1]
    assert zero.sum() == a.sum()
    np.testing.assert_array_equal(grid.from_memory(edge), a)
    np.testing.assert_array_equal(grid.from_memory(zero), a)


@pytest.mark.parametrize("shape", [(7, 5), (6, 5, 4)])
def test_points_of_a_mask_are_found_in_the_total_grid(shape):
    grid = Grid(shape, 1.0, pml_size=2, pml_inside=False)
    mask = np.random.default_rng(1).random(shape) < 0.3
    index = grid.points(mask, "mask")
    wide = grid.to_memory(mask, "mask", "zero")
    np.testing.assert_array_equal(index, np.flatnonzero(wide))
    np.testing.assert_array_equal(grid.points(mask.astype(int), "mask"), index)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"shape": ()}, "grid.shape"),
        ({"axisymmetric": 1}, "grid.axisymmetric"),
        ({"shape": (64, 64, 64), "axisymmetric": True}, "grid.axisymmetric"),
        ({"axisymmetric": True, "pml_size": (20, 64)}, "grid.pml_size"),
        ({"shape": (64, 1)}, "grid.shape"),
        ({"shape": (64, 2.5)}, "grid.shape"),
        ({"spacing": (1e-4,)}, "grid.spacing"),
        ({"spacing": "3 s"}, "grid.spacing"),
        ({"spacing": -1.0}, "grid.spacing"),
        ({"pml_size": 32}, "grid.pml_size: 32 points"),
        ({"pml_size": "auto"}, "pml_inside=False"),
        ({"pml_size": "thick"}, "grid.pml_size"),
        ({"pml_size": (3, -1)}, "grid.pml_size"),
        ({"pml_alpha": (1.0, 2.0, 3.0)}, "grid.pml_alpha"),
        ({"pml_alpha": -2.0}, "grid.pml_alpha"),
    ],
)
def test_bad_grids_are_refused(arguments, text):
    with pytest.raises(InputError, match=text):
        Grid(**{"shape": (64, 64), "spacing": 1e-4, **arguments})


def test_bad_fields_masks_and_times_are_refused():
    grid = Grid((8, 6), 1.0, pml_size=1)
    with pytest.raises(InputError, match=r"a: has the shape \(6, 8\)"):
        grid.to_memory(np.zeros((6, 8)), "a")
    with pytest.raises(InputError, match="complex"):
        grid.to_memory(np.zeros((8, 6), complex), "a")
    with pytest.raises(InputError, match="no point"):
        grid.points(np.zeros((8, 6), bool), "mask")
    with pytest.raises(InputError, match="other values"):
        grid.points(np.full((8, 6), 2), "mask")
    with pytest.raises(InputError, match="cfl"):
        grid.time_step(WATER, 0)
    with pytest.raises(InputError, match="t_end"):
        grid.steps(WATER, 1e-8, -1.0)


def test_a_line():
    grid = Grid((40,), 0.5, pml_size=3, pml_inside=False)
    assert grid.dimensions == 1
    assert grid.total_shape == (46, 1, 1)
    np.testing.assert_array_equal(grid.coordinates[0], (np.arange(40) - 20) * 0.5)
    field = np.arange(40.0)
    memory = grid.to_memory(field, "field")
    assert memory.shape == (1, 1, 46)
    np.testing.assert_array_equal(grid.from_memory(memory), field)
    np.testing.assert_array_equal(grid.points(field == 7, "mask"), [10])


def test_a_radius_begins_at_the_axis():
    grid = Grid((20, 10), (0.5, 0.25), pml_size=(3, 2), pml_inside=False, axisymmetric=True)
    assert grid.total_shape == (26, 12, 1)
    np.testing.assert_array_equal(grid.coordinates[1], np.arange(10) * 0.25)
    np.testing.assert_array_equal(grid.coordinates[0], (np.arange(20) - 10) * 0.5)
    field = np.arange(200.0).reshape(20, 10)
    memory = grid.to_memory(field, "field", outside="zero")
    np.testing.assert_array_equal(memory[0, :10, 3:-3], field.T)
    assert not memory[0, 10:].any()
    np.testing.assert_array_equal(grid.from_memory(memory), field)
    # 20 + 2·22 = 64 along the axis; 10 + 6 … at one end of the radius.
    auto = Grid((20, 10), 1.0, pml_size="auto", pml_inside=False, axisymmetric=True)
    assert auto.total_shape[1] in (20, 24, 25, 27, 30)
    assert auto.total_shape[1] == 10 + auto.pml_size[1]


@pytest.mark.parametrize("density", [0.01, 0.4])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("inside", [True, False])
def test_points_of_few_and_of_many(density, order, inside):
    """The order of a mask in memory and the number of its points change nothing."""
    grid = Grid((12, 10, 8), 1e-4, pml_size=2, pml_inside=inside)
    mask = np.random.default_rng(3).random(grid.shape) < density
    x, y, z = np.nonzero(mask) + np.array(grid.margin)[:, None]
    nx, ny, _ = grid.total_shape
    wanted = sorted((z * ny + y) * nx + x)
    assert grid.points(np.array(mask, order=order), "mask").tolist() == wanted
