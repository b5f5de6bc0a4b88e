"""The largest stable time step against the eigenvalues of the time step itself."""

import math
from dataclasses import replace

import numpy as np
import pytest

from wavefabric.acoustics import Grid, Medium, Sensor, Source, max_frequency, to_problem
from wavefabric.acoustics.run_settings import RunSettings
from wavefabric.acoustics.stability.free_steps import FreeSteps
from wavefabric.acoustics.stability.free_steps import growth as noise_growth
from wavefabric.acoustics.stability.stable_time_step import stability
from wavefabric.base.errors import InputError
from wavefabric.runtime.device import get_device
from wavefabric.runtime.exchange import solo


def problem_of(shape=(12, 9), spacing=(1e-4, 1.3e-4), **medium):
    grid = Grid(shape, spacing, pml_size=0)
    source = Source(p0=np.ones(shape), smooth=False)
    sensor = Sensor(record="p_final")
    return to_problem(grid, Medium(**{"density": 1000.0, **medium}), source, sensor, 1e-8, 1)[0]


def growth(problem, dt):
    """Largest magnitude of an eigenvalue of one time step, over all plane waves of the grid."""
    n = problem.dimensions
    axes = [
        2 * np.pi * np.fft.fftfreq(N, d) for N, d in zip(problem.shape[:n], problem.spacing[:n], strict=True)
    ]
    k = np.sqrt(sum(x**2 for x in np.meshgrid(*axes))).ravel()
    k = k[k > 0]
    c, rho0, y = problem.sound_speed, problem.density, problem.alpha_power
    kappa = np.sinc(problem.reference_speed * k * dt / 2 / np.pi) if problem.k_space else 1.0
    tau = eta = 0.0
    if problem.absorption != "none":
        alpha = 100 * problem.alpha_coeff * (1e-6 / 2 / np.pi) ** y / (20 * np.log10(np.e))
        tau = -2 * alpha * c ** (y - 1)
        if problem.absorption == "power_law" and problem.dispersion:
            eta = 2 * alpha * c**y * np.tan(np.pi * y / 2)

    def step(u, rho, previous_u):
        # p holds the velocity of the step before, hence it is computed from what is given.
        p = c**2 * (rho + tau * k ** (y - 2) * rho0 * 1j * k * kappa * previous_u - eta * k ** (y - 1) * rho)
        u = u - dt / rho0 * 1j * k * kappa * p
        return u, rho - dt * rho0 * 1j * k * kappa * u

    matrix = np.empty((k.size, 2, 2), complex)
    for column, (u, rho) in enumerate(((1.0, 0.0), (0.0, 1.0))):
        matrix[:, :, column] = np.stack(step(u, rho, u), axis=-1)
    return np.abs(np.linalg.eigvals(matrix)).max()


@pytest.mark.parametrize(
    "medium",
    [
        {"sound_speed": 1600.0, "reference_speed": 1500.0},
        {"sound_speed": 3000.0, "reference_speed": 1500.0},
        {"sound_speed": 1500.0, "alpha_coeff": 0.75, "alpha_power": 1.5},
        {"sound_speed": 1500.0, "alpha_coeff": 8.0, "alpha_power": 1.1},
        {"sound_speed": 1800.0, "alpha_coeff": 3.0, "alpha_power": 1.9, "reference_speed": 1500.0},
        {"sound_speed": 1500.0, "alpha_coeff": 3.0, "absorption": "stokes"},
        {"sound_speed": 1500.0, "alpha_coeff": 3.0, "alpha_power": 1.5, "dispersion": False},
        {
            "sound_speed": 1600.0,
            "alpha_coeff": 0.1,
            "alpha_power": 2.5,
            "reference_speed": 1500.0,
            "dispersion": False,
        },
        {"sound_speed": 1600.0, "alpha_coeff": 0.5, "alpha_power": 0.5, "reference_speed": 1500.0},
    ],
)
@pytest.mark.parametrize(("shape", "spacing"), [((12, 9), (1e-4, 1.3e-4)), ((6, 7, 8), (1e-4, 1e-4, 1e-4))])
def test_the_largest_step_parts_decay_from_growth(shape, spacing, medium):
    problem = problem_of(shape, spacing, **medium)
    largest = stability(problem).max_dt
    assert 0 < largest < math.inf
    for part in (0.1, 0.5, 0.9, 0.999):
        assert growth(problem, part * largest) <= 1 + 1e-12
    assert growth(problem, 1.001 * largest) > 1 + 1e-6


def test_lossless_with_a_large_reference_is_always_stable():
    problem = problem_of(sound_speed=1500.0, reference_speed=1600.0)
    assert stability(problem).max_dt == math.inf
    for dt in (1e-9, 1e-8, 1e-7, 1e-6):
        assert growth(problem, dt) <= 1 + 1e-12
    zero = problem_of(sound_speed=1500.0, alpha_coeff=0.0, alpha_power=1.5)
    assert stability(zero).max_dt == math.inf


@pytest.mark.parametrize(("power", "coeff"), [(2.5, 200.0), (0.3, 2000.0)])
def test_dispersion_may_be_too_strong_for_any_step(power, coeff):
    problem = problem_of(sound_speed=1500.0, alpha_coeff=coeff, alpha_power=power)
    assert stability(problem).max_dt == 0
    for dt in (1e-11, 1e-9):
        assert growth(problem, dt) > 1


def test_heterogeneous_media_take_their_extremes():
    c = np.full((12, 9), 1500.0)
    c[3, 4] = 1700.0
    uneven = problem_of(sound_speed=c, reference_speed=1600.0)
    assert (
        stability(uneven).max_dt == stability(problem_of(sound_speed=1700.0, reference_speed=1600.0)).max_dt
    )
    alpha = np.where(c > 1600, 2.0, 0.5)
    uneven = problem_of(sound_speed=c, alpha_coeff=alpha, alpha_power=1.4)
    worst = problem_of(sound_speed=1700.0, alpha_coeff=2.0, alpha_power=1.4)
    assert stability(uneven).max_dt == pytest.approx(stability(worst).max_dt)


def test_warning_and_cfl():
    problem = problem_of(sound_speed=1600.0, reference_speed=1500.0)
    result = stability(problem)
    assert result.warning is None
    assert result.cfl == pytest.approx(1600 * 1e-8 / 1e-4)
    late = stability(replace(problem, dt=1.01 * result.max_dt))
    assert late.warning is not None
    assert late.warning.startswith("dt: ")
    assert f"{result.max_dt:.6g}" in late.warning


def test_max_frequency():
    grid = Grid((12, 12), (1e-4, 2e-4), pml_size=2)
    medium = Medium(np.linspace(1400, 1600, 144).reshape(12, 12), 1000.0)
    assert max_frequency(grid, medium) == pytest.approx(1400 / (2 * 2e-4))
    assert max_frequency(grid, medium, 7) == pytest.approx(1400 / (7 * 2e-4))
    with pytest.raises(InputError, match="points_per_wavelength"):
        max_frequency(grid, medium, 0)


@pytest.mark.parametrize("shape", [(12, 9), (24,)])
@pytest.mark.parametrize(
    "medium",
    [
        {"sound_speed": 1500.0},
        {"sound_speed": 1500.0, "alpha_coeff": 3.0, "absorption": "stokes"},
        {"sound_speed": 1500.0, "alpha_coeff": 0.75, "alpha_power": 1.5},
    ],
)
def test_without_the_k_space_correction(shape, medium):
    problem = replace(problem_of(shape, 1e-4, **medium), k_space=False)
    limit = stability(replace(problem, dt=1.0)).max_dt
    assert growth(problem, 0.995 * limit) <= 1 + 1e-9
    assert growth(problem, 1.05 * limit) > 1 + 1e-6


@pytest.mark.slow
@pytest.mark.parametrize(
    "medium",
    [
        {"sound_speed": 1500.0},
        pytest.param({"sound_speed": 1500.0, "alpha_coeff": 3.0}, marks=pytest.mark.slow),
    ],
)
def test_the_limit_of_an_axisymmetric_grid(medium):
    """By what noise does: up to the limit it stays; far beyond it grows."""
    lossy = {"absorption": "stokes"} if "alpha_coeff" in medium else {}
    grid = Grid((24, 18), 1e-4, pml_size=0, axisymmetric=True)
    source, sensor = Source(p0=np.ones(grid.shape), smooth=False), Sensor(record="p_final")
    problem = to_problem(grid, Medium(density=1000.0, **medium, **lossy), source, sensor, 1e-8, 1)[0]
    limit = stability(replace(problem, dt=1.0)).max_dt
    assert 0.3 < 1500 * limit / 1e-4 < 0.9
    how = RunSettings(comm=solo(get_device("cpu", threads=1)), precision="double")
    free = FreeSteps(problem, how)
    assert noise_growth(free, limit) == 0
    assert noise_growth(free, 1.3 * limit) > 0
