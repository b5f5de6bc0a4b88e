"""Band-limited transducers: exact where theory says so, and against closed forms in free field."""

import time

import closed_forms
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wavefabric.acoustics import Grid, focused_bowl
from wavefabric.acoustics.transducers.arrays import linear_array
from wavefabric.acoustics.transducers.elements import bowl, disc, rectangle
from wavefabric.acoustics.transducers.mask import periodic_sinc, spread, star
from wavefabric.base.errors import InputError


def free(shape, spacing):
    """A grid whose every point may hold a transducer."""
    return Grid(shape, spacing, pml_size=0)


def coordinates(mask, grid):
    """Metres of a mask's points, (points, dimensions)."""
    position = np.unravel_index(mask.index, grid.shape, order="F")
    return np.stack([grid.coordinates[i][p] for i, p in enumerate(position)], axis=1)


def free_field(mask, grid, where, frequency, speed=1500.0):
    """Steady field of the grid points as monopoles, p/p₀: what a perfect solver would answer."""
    k = 2 * np.pi * frequency / speed
    weights = mask.weights.sum(axis=1)
    r = np.linalg.norm(coordinates(mask, grid) - where[:, None], axis=2)
    return 1j * k * grid.spacing[1] * grid.spacing[2] / (2 * np.pi) * (np.exp(-1j * k * r) / r @ weights)


# --- Band-limited delta functions --------------------------------------------------------------------


@given(st.integers(2, 33), st.floats(-40, 40))
def test_periodic_sinc_is_the_band_limited_delta(points, at):
    k = 2 * np.pi * np.fft.fftfreq(points)
    phase = np.exp(-1j * k * at)
    if points % 2 == 0:  # The Nyquist term is its own mirror image: half of each.
        phase[points // 2] = phase[points // 2].real
    by_spectrum = np.fft.ifft(phase).real
    np.testing.assert_allclose(periodic_sinc(np.arange(points) - at, points), by_spectrum, atol=1e-8)


def test_star_keeps_what_may_reach_the_tolerance():
    rng = np.random.default_rng(1)
    offsets = {tuple(o) for o in star(3, 0.05)}
    for _ in range(200):
        position = rng.integers(-9, 10, 3)
        d = np.maximum(np.abs(position - rng.uniform(-0.5, 0.5, 3)), 1 / np.pi)
        if np.prod(1 / (np.pi * d)) >= 0.05:
            assert tuple(position) in offsets


@pytest.mark.parametrize("shape", [(16, 15), (10, 12, 9)])
def test_whole_deltas_have_the_spectrum_of_points(shape):
    rng = np.random.default_rng(2)
    positions = rng.uniform(2, np.array(shape) - 3, (5, len(shape)))
    index, weights = spread(positions, 0.5, shape, 0)
    field = np.zeros(np.prod(shape))
    field[index] = weights
    result = np.fft.fftn(field.reshape(shape, order="F"))
    k = np.meshgrid(*(2 * np.pi * np.fft.fftfreq(n) for n in shape), indexing="ij")
    wanted = 0.5 * sum(np.exp(-1j * sum(ki * pi for ki, pi in zip(k, p, strict=True))) for p in positions)
    below = np.all([np.abs(ki) < np.pi * (1 - 1e-9) for ki in k], axis=0)
    np.testing.assert_allclose(result[below], wanted[below], atol=1e-11)


def test_cut_deltas_tend_to_whole_ones():
    positions, shape = np.array([[20.3, 19.6], [21.7, 20.0]]), (40, 40)
    whole = np.zeros(1600)
    index, weights = spread(positions, 1.0, shape, 0)
    whole[index] = weights
    errors = []
    for tolerance in (0.1, 0.05, 0.01, 0.002):
        cut = np.zeros(1600)
        index, weights = spread(positions, 1.0, shape, tolerance)
        cut[index] = weights
        assert np.abs(cut - whole).max() < 2.1 * tolerance
        errors.append(np.linalg.norm(cut - whole))
    assert errors == sorted(errors, reverse=True)


@given(
    st.lists(st.tuples(*[st.floats(0, 11)] * 3), min_size=1, max_size=4), st.sampled_from([0.0, 0.05, 0.2])
)
@settings(max_examples=40)
def test_spread_is_a_sum_over_points_and_stays_in_the_grid(positions, tolerance):
    shape = (12, 12, 12)
    together = np.zeros(12**3)
    index, weights = spread(np.array(positions), 2.0, shape, tolerance)
    assert np.all(np.diff(index) > 0)
    together[index] = weights
    alone = np.zeros(12**3)
    for position in positions:
        index, weights = spread(np.array([position]), 2.0, shape, tolerance)
        alone[index] += weights
    np.testing.assert_allclose(together, alone, atol=1e-12)


def test_a_point_on_the_grid_is_one_grid_point():
    index, weights = spread(np.array([[3.0, 5.0, 2.0]]), 7.0, (8, 8, 8), 0.05)
    big = np.abs(weights) > 1e-12
    assert index[big].tolist() == [3 + 8 * (5 + 8 * 2)]
    np.testing.assert_allclose(weights[big], 7.0)


# --- Surfaces ----------------------------------------------------------------------------------------


def test_bowl_radiates_as_oneill_says():
    grid = free((72, 72, 40), 1e-3)
    apex, f = -15e-3, 375e3  # 4 points per wavelength
    mask = bowl(grid, (0, 0, apex), "64 mm", "56 mm", (0, 0, 0))
    z = np.linspace(45e-3, 90e-3, 46)
    result = free_field(mask, grid, np.stack([0 * z, 0 * z, z + apex], axis=1), f)
    wanted = focused_bowl.bowl_on_axis(z, 64e-3, 56e-3, f, 1500.0)
    assert np.linalg.norm(result - wanted) < 8e-3 * np.linalg.norm(wanted)


def test_tilted_bowl_on_a_stretched_grid_radiates_the_same():
    grid = free((80, 100, 64), (1e-3, 0.8e-3, 1.1e-3))
    apex, axis = np.array([-12e-3, 5e-3, -20e-3]), np.array([2.0, -1.0, 4.0]) / np.sqrt(21)
    mask = bowl(grid, tuple(apex), 64e-3, 44e-3, tuple(apex + 0.1 * axis))
    z, f = np.linspace(45e-3, 90e-3, 20), 340e3
    result = free_field(mask, grid, apex + z[:, None] * axis, f)
    wanted = focused_bowl.bowl_on_axis(z, 64e-3, 44e-3, f, 1500.0)
    assert np.linalg.norm(result - wanted) < 1e-2 * np.linalg.norm(wanted)


def test_disc_radiates_as_a_piston_on_and_off_its_axis():
    grid, f = free((24, 48, 48), 1e-3), 300e3
    mask = disc(grid, (0.3e-3, 0.2e-3, -0.4e-3), "30 mm", (1.0, 0.2e-3, -0.4e-3))
    z, x = np.array([40e-3, 60e-3, 120e-3]), np.array([0.0, 5e-3, 10e-3])
    where = np.stack([0.3e-3 + z, 0.2e-3 + x, -0.4e-3 + 0 * x], axis=1)
    wanted = closed_forms.rayleigh(z, x, 30e-3, f, 1500.0)
    np.testing.assert_allclose(free_field(mask, grid, where, f), wanted, rtol=0.015)


def test_rectangle_and_array_of_touching_elements_are_the_same_source():
    grid, f = free((32, 48, 32), 1e-3), 250e3
    whole = rectangle(grid, (0, 0, -6e-3), "32 mm", "12 mm", (0, 0, 1), along=(0, 1, 0))
    array = linear_array(grid, (0, 0, -6e-3), 8, "4 mm", "12 mm", "4 mm", (0, 0, 1), along=(0, 1, 0))
    where = np.array([[0, 0, 60e-3], [5e-3, 20e-3, 80e-3]])
    one, eight = free_field(whole, grid, where, f), free_field(array, grid, where, f)
    np.testing.assert_allclose(eight, one, rtol=3e-3)
    # Fraunhofer's product of sincs, far away.
    k, r = 2 * np.pi * f / 1500, 40.0
    direction = np.array([0.1, 0.15, np.sqrt(1 - 0.1**2 - 0.15**2)])
    far = abs(free_field(whole, grid, r * direction[None], f)[0])
    sincs = np.sinc(k * 32e-3 * 0.15 / 2 / np.pi) * np.sinc(k * 12e-3 * 0.1 / 2 / np.pi)
    assert far == pytest.approx(k * 32e-3 * 12e-3 / (2 * np.pi * r) * abs(sincs), rel=0.01)


@pytest.mark.parametrize(
    ("make", "area"),
    [
        (lambda g: bowl(g, (-5e-3, 0, 0), 20e-3, 24e-3, (0, 0, 0)), 2 * np.pi * 20e-3 * 4e-3),
        (lambda g: disc(g, (0, 1e-3, 0), "20 mm", (0, 0, 1)), np.pi * 1e-4),
        (lambda g: rectangle(g, (0, 0, 0), 10e-3, "0.5 cm", (1, 1, 0)), 5e-5),
    ],
)
def test_whole_weights_add_up_to_the_area(make, area):
    grid = free((40, 40, 40), 1e-3)
    mask = make(grid)
    assert mask.areas[0] == pytest.approx(area, rel=1e-12)
    assert mask.weights.sum() * 1e-6 == pytest.approx(area, rel=0.02)
    assert mask.mask.sum() == mask.index.size


def test_weights_of_whole_deltas_add_up_exactly():
    grid = free((20, 20), 1e-3)
    mask = bowl(grid, (-4e-3, 0), 12e-3, 10e-3, (0, 0), tolerance=0)
    arc = 12e-3 * 2 * np.arcsin(5 / 12)
    assert mask.areas[0] == pytest.approx(arc, rel=1e-12)
    assert mask.weights.sum() * 1e-3 == pytest.approx(arc, rel=1e-9)


def test_a_line_in_two_dimensions_lies_across_its_axis():
    grid = free((40, 40), 1e-3)
    mask = disc(grid, (2e-3, -3e-3), 16e-3, (2e-3, 5e-3))
    weights = mask.weights.sum(axis=1)
    where = coordinates(mask, grid)
    np.testing.assert_allclose(weights @ where / weights.sum(), [2e-3, -3e-3], atol=1e-6)
    # It lies on the grid line y = -3 mm, so nothing spreads along y.
    assert np.ptp(where[np.abs(weights) > 1e-9, 1]) == 0


@pytest.mark.slow
def test_128_cubed_bowl_is_made_in_two_seconds():
    grid = free((128, 128, 128), 0.5e-3)
    start = time.process_time()
    bowl(grid, (-25e-3, 0, 0), 32e-3, 56e-3, (0, 0, 0))
    assert time.process_time() - start < 2


# --- Signals -----------------------------------------------------------------------------------------


def two_elements():
    return linear_array(free((32, 32), 1e-3), (0, 0), 2, 3e-3, None, 8e-3, (1, 0))


def test_source_sums_the_elements_in_grid_order():
    mask = two_elements()
    signals = np.array([[0.0, 1.0, 2.0], [5.0, 0.0, -1.0]])
    source = mask.source(signals, precision="double")
    np.testing.assert_array_equal(source.p_mask, mask.mask)
    np.testing.assert_allclose(source.p, mask.weights.toarray() @ signals)
    np.testing.assert_array_equal(mask.index, np.flatnonzero(mask.mask.ravel(order="F")))
    assert mask.source(signals).p.dtype == np.float32


def test_one_signal_drives_all_elements():
    mask, signal = two_elements(), np.sin(np.arange(9.0))
    together = mask.source(signal, precision="double").p
    alone = mask.source(np.tile(signal, (2, 1)), precision="double").p
    np.testing.assert_allclose(together, alone, atol=1e-14)


def test_focused_elements_arrive_together():
    mask = linear_array(free((64, 64), 1e-3), (-20e-3, 0), 12, 2e-3, None, 3e-3, (1, 0))
    focus = np.array([15e-3, 4e-3])
    arrival = (
        mask.delays("1500 m/s", focus=tuple(focus)) + np.linalg.norm(mask.centres - focus, axis=1) / 1500
    )
    assert np.ptp(arrival) < 1e-15
    assert mask.delays(1500.0, focus=tuple(focus)).min() == 0


def test_signals_are_delayed_by_parts_of_a_step():
    mask, dt = two_elements(), 1e-7

    def burst(t):
        return np.exp(-(((t - 6e-6) / 1.2e-6) ** 2)) * np.sin(2 * np.pi * 5e5 * t)

    delays = np.array([0.0, 33.37 * dt])
    result = mask.signals(burst(np.arange(140) * dt), delays, "0.1 us")
    assert result.shape == (2, 174)
    wanted = burst(np.arange(174) * dt - delays[:, None])
    np.testing.assert_allclose(result, wanted, atol=1e-9)


# --- Errors ------------------------------------------------------------------------------------------

CUBE = free((32, 32, 32), 1e-3)
FLAT = free((32, 32), 1e-3)
AHEAD = (0, 0, 1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bowl(CUBE, (0, 0, 0), 10e-3, 21e-3, AHEAD), "diameter: 0.021 m; allowed: up to 0.02 m"),
        (lambda: bowl(CUBE, (0, 0, 0), 0, 5e-3, AHEAD), "radius: 0.0 m given; allowed: a positive number"),
        (lambda: bowl(CUBE, (0, 0, 0), 10e-3, "-5 mm", AHEAD), "diameter: "),
        (lambda: bowl(CUBE, (0, 0, 0), 10e-3, 5e-3, (0, 0, 0)), "focus: gives no direction"),
        (lambda: bowl(CUBE, (0, 0), 10e-3, 5e-3, AHEAD), "position: "),
        (lambda: bowl(CUBE, (0, 0, "0 Hz"), 10e-3, 5e-3, AHEAD), "position: "),
        (lambda: bowl(CUBE, (14e-3, 0, 0), 10e-3, 8e-3, AHEAD), "position: the transducer spans .* along x"),
        (lambda: disc(CUBE, (0, 0, 20e-3), 4e-3, AHEAD), "position: the transducer spans .* along z"),
        (lambda: disc(CUBE, (0, 0, 0), 4e-3, AHEAD, tolerance=0.9), "tolerance: "),
        (lambda: rectangle(FLAT, (0, 0), 4e-3, 3e-3, (0, 1)), "grid: has 2 dimensions"),
        (lambda: rectangle(CUBE, (0, 0, 0), 4e-3, 3e-3, AHEAD, along=(0, 0, 2)), "along: "),
        (lambda: rectangle(CUBE, (0, 0, 0), 4e-3, 0, AHEAD), "height: "),
        (lambda: linear_array(FLAT, (0, 0), 0, 1e-3, None, 1e-3, (0, 1)), "elements: "),
        (lambda: linear_array(FLAT, (0, 0), 2, 2e-3, None, "1 mm", (0, 1)), "pitch: "),
        (lambda: linear_array(CUBE, (0, 0, 0), 2, 2e-3, None, 3e-3, AHEAD), "element_length: "),
        (lambda: two_elements().source(np.zeros((3, 4))), r"signal: has the shape \(3, 4\)"),
        (lambda: two_elements().source(np.zeros(3, complex)), "signal: is of type complex128"),
        (lambda: two_elements().source(np.zeros(3), mode="dirichlet"), "mode: "),
        (lambda: two_elements().source(np.zeros(3), precision="half"), "precision: "),
        (lambda: two_elements().delays(1500.0, (0, 0, 0)), "focus: "),
        (lambda: two_elements().signals(np.zeros(5), [0.0, -1e-6], 1e-7), "delays: "),
    ],
)
def test_bad_values_are_named(call, message):
    with pytest.raises(InputError, match=f"^{message}"):
        call()
