"""Boundaries between grid points: transmission against transfer matrices, at all places in a cell."""

import math

import closed_forms
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wavefabric.acoustics import (
    Grid,
    Material,
    Medium,
    Sensor,
    Source,
    averaged_medium,
    layered_medium,
    shaped_medium,
    simulate,
)
from wavefabric.acoustics.shapes.averaging import REACH, weights
from wavefabric.base.errors import InputError

WATER, BONE = Material(1500, 1000), Material(2800, 1850)
FREQUENCY, THICKNESS = 500e3, 6.5e-3


def transmission(grid, medium, dt, steps):
    """p behind over p sent, at 500 kHz, of a wave in one dimension."""
    t = np.arange(steps) * dt
    wave = np.exp(-(((t - 12e-6) / 3e-6) ** 2)) * np.sin(2 * np.pi * FREQUENCY * (t - 12e-6))
    near, far = np.zeros(grid.shape, bool), np.zeros(grid.shape, bool)
    near[round(5e-3 / grid.spacing[0])] = far[round(50e-3 / grid.spacing[0])] = True
    source = Source(p_mask=near, p=wave)
    options = {"dt": dt, "steps": steps, "precision": "double", "device": "cpu", "check_stability": False}
    heard = simulate(grid, medium, source, Sensor(far), **options)["p"][0]
    phasor = np.exp(2j * np.pi * FREQUENCY * t)
    return (heard @ phasor) / (wave @ phasor)


def exact():
    """Of a layer of bone in water."""
    k, ratio = 2 * np.pi * FREQUENCY / BONE.sound_speed, WATER.sound_speed * WATER.density / (2800 * 1850)
    return 1 / (np.cos(k * THICKNESS) - 0.5j * (ratio + 1 / ratio) * np.sin(k * THICKNESS))


def error(spacing, offset, make):
    """Relative error of the transmission, the layer's front so far between two grid points."""
    grid = Grid((round(0.06 / spacing),), spacing, pml_inside=False)
    start = grid.coordinates[0][0]
    medium = make(grid, start + 0.03 + offset * spacing)
    dt = 0.1 * spacing / 2800
    steps = round(150e-6 / dt)
    water = Medium(np.full(grid.shape, 1500.0), 1000.0, reference_speed=float(np.max(medium.sound_speed)))
    ratio = transmission(grid, medium, dt, steps) / transmission(grid, water, dt, steps)
    return abs(ratio * np.exp(2j * np.pi * FREQUENCY / 1500 * THICKNESS) / exact() - 1)


def layered(kernel):
    return lambda grid, front: layered_medium(
        grid,
        [(WATER, front - grid.coordinates[0][0]), (BONE, THICKNESS), (WATER, None)],
        kernel=kernel,
    )


@pytest.mark.slow
@pytest.mark.parametrize("offset", [0.0, 0.3, 0.5])
def test_transmission_through_a_layer_converges_faster_than_second_order(offset):
    coarse, fine = (error(spacing, offset, layered("lanczos")) for spacing in (0.5e-3, 0.25e-3))
    assert coarse < 0.07
    assert fine < 0.008
    assert math.log2(coarse / fine) > 2.5


@pytest.mark.slow
def test_a_layer_sampled_at_grid_points_is_far_worse():
    def sampled(grid, front):
        x = grid.coordinates[0]
        bone = (x >= front) & (x < front + THICKNESS)
        return Medium(np.where(bone, 2800.0, 1500.0), np.where(bone, 1850.0, 1000.0))

    # The layer is 8 % too thick.
    assert error(0.375e-3, 0.0, sampled) > 8 * error(0.375e-3, 0.0, layered("lanczos"))


@pytest.mark.parametrize("kernel", ["lanczos", "box"])
@pytest.mark.parametrize("offset", [0.0, 0.5])
@given(n=st.integers(1, 6), factor=st.integers(1, 9))
@settings(max_examples=20)
def test_weights_keep_what_is_linear(kernel, offset, n, factor):
    by = weights(n, factor, offset, kernel)
    fine = (np.arange(by.shape[1]) + 0.5) / factor - 0.5 - REACH
    np.testing.assert_allclose(by @ np.ones(fine.size), 1, atol=1e-14)
    if kernel == "box" or offset * factor % 1 == 0:  # else the fine cells lie to one side
        np.testing.assert_allclose(by @ fine, np.arange(n) + offset, atol=1e-12)


def test_layers_of_every_grid_are_the_shapes_they_stand_for():
    grid = Grid((24, 20, 18), 1e-3, pml_size=4)
    flat = layered_medium(grid, [(WATER, "7.3 mm"), (BONE, None)], axis=1)
    start = grid.coordinates[1][0]
    shaped = shaped_medium(grid, WATER, (lambda x, y, z: y - start >= 7.3e-3 + 0 * x, BONE), cells=50)
    for name in ("sound_speed", "density"):
        np.testing.assert_allclose(getattr(shaped, name), getattr(flat, name), rtol=2e-2)
    for one, other in zip(shaped.density_staggered, flat.density_staggered, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-2)
    # Across the boundary the mean of 1/ρ, along it that of ρ: the first is never larger.
    assert flat.density_staggered[0].min() < flat.density.min() * 1.1
    profile = flat.density_staggered[0][0, :, 0]
    np.testing.assert_allclose(1 / profile, 1 / shaped.density_staggered[2][0, :, 0], rtol=2e-2)


def test_a_finer_medium_is_what_its_shapes_are():
    grid, factor = Grid((16, 14), 1e-3, pml_size=0), 5
    fine = Grid((80, 70), 1e-3 / factor, pml_size=0)
    # Fine cell 2 is grid point 0.
    x, y = (c[:, None] if i == 0 else c for i, c in enumerate(fine.coordinates))
    shift = [g[0] - f[2] for g, f in zip(grid.coordinates, fine.coordinates, strict=True)]

    def ball(x, y):
        return x**2 + y**2 < 4.2e-3**2

    inside = ball(x + shift[0], y + shift[1])
    values = {
        name: np.where(inside, getattr(BONE, name), getattr(WATER, name))
        for name in ("sound_speed", "density")
    }
    ours = averaged_medium(grid, Medium(**values), factor)
    wanted = shaped_medium(grid, WATER, (ball, BONE), cells=factor)
    np.testing.assert_allclose(ours.sound_speed, wanted.sound_speed, rtol=1e-12)
    np.testing.assert_allclose(ours.density_staggered[1], wanted.density_staggered[1], rtol=1e-12)


def test_a_radius_is_mirrored_at_the_axis():
    grid = Grid((16, 12), 1e-3, axisymmetric=True, pml_size=0)
    medium = shaped_medium(grid, WATER, (lambda x, r: r**2 < 3.3e-3**2 + 0 * x, BONE))
    np.testing.assert_allclose(medium.density[:, 0], 1850, rtol=1e-12)
    whole = Grid((16, 24), 1e-3, pml_size=0)
    both = shaped_medium(whole, WATER, (lambda x, r: r**2 < 3.3e-3**2 + 0 * x, BONE))
    np.testing.assert_allclose(medium.density, both.density[:, 12:], rtol=1e-12)


def test_absorption_and_nonlinearity_are_means_that_stay_positive():
    grid = Grid((40,), 1e-3, pml_size=4)
    lossy = Material(2800, 1850, alpha_coeff=16.0, nonlinearity=8.0)
    soft = Material(1500, 1000, nonlinearity=5.0)
    medium = layered_medium(grid, [(soft, "15.25 mm"), (lossy, "6 mm"), (soft, None)])
    assert (medium.absorption, medium.alpha_power) == ("stokes", 2)
    assert medium.alpha_coeff.min() == 0
    assert medium.alpha_coeff.max() <= 16.0 * 2800 / medium.sound_speed.min()
    np.testing.assert_allclose(medium.alpha_coeff[18:20], 16.0, rtol=0.1)
    # Half of a cell: the mean of B/A κ² over the square of the mean of κ.
    soft_k, hard_k = 1 / (1000 * 1500**2), 1 / (1850 * 2800**2)
    half = (5 * soft_k**2 + 8 * hard_k**2) / 2 / ((soft_k + hard_k) / 2) ** 2
    part = layered_medium(grid, [(soft, "15 mm"), (lossy, None)])
    np.testing.assert_allclose(part.nonlinearity[[14, 15, 16]], [5, half, 8], rtol=1e-9)


@settings(max_examples=30)
@given(st.floats(1e5, 2e6), st.floats(1200, 3500), st.floats(0, 600))
def test_a_material_at_a_frequency_has_its_speed_and_attenuation(frequency, speed, loss):
    made = Material.at_frequency(frequency, speed, 1000, loss)
    omega = 2 * np.pi * frequency
    # α₀ in Np/(m (rad/s)²): the loss tangent's time is 2 α₀ c₀.
    alpha0 = made.alpha_coeff * 100 * math.log(10) / 20 / (2e6 * np.pi) ** 2
    k = omega / (made.sound_speed * np.sqrt(1 - 2j * omega * alpha0 * made.sound_speed))
    assert omega / k.real == pytest.approx(speed, rel=1e-9)
    assert k.imag * 20 / math.log(10) == pytest.approx(loss, rel=1e-9, abs=1e-9)


@settings(max_examples=60)
@given(st.floats(1e5, 5e6), st.floats(343, 3500), st.floats(0, 0.4), st.floats(0.1, 2.9))
def test_a_material_of_any_power_law_has_its_speed_and_attenuation(frequency, speed, ratio, power):
    loss = ratio * 2 * np.pi * frequency / speed * 20 / math.log(10)
    if 0.49 < power < 1.2:  # near the pole nothing may have them
        power = 0.49 * power if power < 1 else power + 0.2
    made = Material.at_frequency(frequency, speed, 1000, loss, power)
    tangent = math.tan(math.pi * power / 2)
    alpha = closed_forms.attenuation(frequency, made.alpha_coeff, power)  # Np/m
    omega, c = 2 * np.pi * frequency, made.sound_speed
    # In q = k c₀/ω; see `stability.power_law`.
    q = c / omega * complex(omega / speed, loss * math.log(10) / 20)
    strength = 2 * alpha * c / omega
    residual = q**2 - 1j * strength * q**power - strength * tangent * q ** (power + 1) - 1
    assert abs(residual) < 1e-8 * (1 + strength * abs(tangent))


def test_a_material_that_no_medium_can_have_is_refused():
    with pytest.raises(InputError, match=r"alpha_power: 0\.99; allowed: further from 1, or less attenuation"):
        Material.at_frequency(1e6, 1540, 1000, 3000, 0.99)
    for power in (1, 3, -0.5, math.nan):
        with pytest.raises(InputError, match=r"alpha_power: .*allowed: from 0 to below 3, other than 1"):
            Material.at_frequency(1e6, 1540, 1000, 30, power)
    with pytest.raises(InputError, match="attenuation"):
        Material.at_frequency(1e6, 1540, 1000, math.nan, 1.5)
    for frequency in (1e300, 1e-300):
        with pytest.raises(InputError, match=r"frequency: .*allowed: 1 mHz to 100 THz"):
            Material.at_frequency(frequency, 1540, 1000, 0, 2.5)


def test_bad_input_names_what_is_wrong():
    grid = Grid((30,), 1e-3, pml_size=4)
    air = Material(343, 1.2)
    for kernel in ("lanczos", "box"):
        with pytest.raises(InputError, match=r"kernel: .* 833-fold .* 0\.9995 is lost; allowed: 'geometric'"):
            layered_medium(grid, [(WATER, "10 mm"), (air, None)], kernel=kernel)
    steel = Material(5900, 7850)
    with pytest.raises(InputError, match=r"kernel: lanczos .*allowed: 'box'"):
        layered_medium(grid, [(WATER, "10 mm"), (steel, None)])
    assert layered_medium(grid, [(WATER, "10.2 mm"), (steel, None)], kernel="box").density.min() > 0
    with pytest.raises(InputError, match=r"kernel: .*allowed: lanczos, box, geometric"):
        layered_medium(grid, [(WATER, "10 mm"), (air, None)], kernel="smooth")
    with pytest.raises(InputError, match=r"layers: -0.001 m given; allowed: a positive number"):
        layered_medium(grid, [(WATER, -1e-3), (BONE, None)])
    with pytest.raises(InputError, match=r"axis: 1; allowed: 0 to 0"):
        layered_medium(grid, [(WATER, None)], axis=1)
    with pytest.raises(InputError, match=r"fine.density: has the shape \(30,\); allowed: \(60,\)"):
        averaged_medium(grid, Medium(1500.0, np.ones(30)), 2)
    with pytest.raises(InputError, match=r"material.density: 0"):
        Material(1500, 0)
