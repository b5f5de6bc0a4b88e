"""Trials of time steps, and the limit found from them, against eigenvalues of the dense time step."""

import math
from dataclasses import replace

import numpy as np
import pytest
from random_problems import joined, split_density

from papers.ultrasound.stability import study as random_media
from papers.ultrasound.step_matrix import spectral_radius, step_matrix
from wavefabric.acoustics import Grid, Medium, Sensor, Source, simulate
from wavefabric.acoustics.run_settings import RunSettings
from wavefabric.acoustics.stability.eigenvalue import LargestEigenvalue
from wavefabric.acoustics.stability.free_steps import FreeSteps, fill_with_noise, growth
from wavefabric.acoustics.stability.stable_time_step import proved_limit, refuse_unstable, stability
from wavefabric.base.errors import FieldLost, InputError
from wavefabric.runtime.device import get_device
from wavefabric.runtime.exchange import solo

CPU = solo(get_device("cpu", threads=1))
GRID = Grid((96, 96), "0.2 mm", pml_size=12)
X, Y = np.meshgrid(*GRID.coordinates, indexing="ij")
BALL = Source(p0=1e5 * ((X + 4e-3) ** 2 + Y**2 < 64e-8))
EVERYWHERE = Sensor(record="p_max_all")


def layered(c, rho):
    """Water, and from x = 2 mm on another medium."""
    return Medium(np.where(X > 2e-3, c, 1500.0), np.where(X > 2e-3, rho, 1000.0))


JUMPS = {
    "density": (layered(1500.0, 1200.0), 0.8),
    "bone": (layered(3000.0, 1900.0), 0.75),
    "air 0.3": (layered(343.0, 1.2), 0.3),
    "air 0.1": (layered(343.0, 1.2), 0.1),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:medium.density. changes")
@pytest.mark.parametrize("name", JUMPS)
def test_jumps_of_density_are_refused_and_stopped(name):
    medium, cfl = JUMPS[name]
    dt = cfl * 2e-4 / medium.speeds[1]
    with pytest.raises(
        InputError, match=r"dt: .* not stable; allowed: up to .*density from .* to "
    ) as caught:
        simulate(GRID, medium, BALL, EVERYWHERE, dt=dt, steps=900, device="cpu")
    assert "\n" not in str(caught.value)
    allowed = float(str(caught.value).split("up to ")[1].split()[0])
    assert dt / 10 < allowed < dt
    assert stability(GRID.silent_problem(medium, allowed)).warning is None
    with pytest.raises(FieldLost, match=r"after time step .* of 900: the time step of .* may be too large"):
        simulate(GRID, medium, BALL, EVERYWHERE, dt=dt, steps=900, device="cpu", check_stability=False)


@pytest.mark.filterwarnings("ignore:medium.density")
def test_water_and_air_at_a_short_step_is_left_alone():
    medium = layered(343.0, 1.2)
    peak = simulate(GRID, medium, BALL, EVERYWHERE, cfl=0.03, steps=200, device="cpu")["p_max_all"]
    assert peak.max() <= 1.01e5


@pytest.mark.slow
def test_a_cfl_number_that_is_not_stable_gives_the_longest_step_that_is():
    medium, cfl = JUMPS["density"]
    with pytest.warns(UserWarning, match=r"cfl: 0\.8 is not stable .* density from 1000 to 1200"):
        dt = GRID.time_step(medium, cfl)
    assert 0.69 < dt * 1500 / 2e-4 < 0.715  # Lanczos in double precision: 3.9999 at 0.708, 4.0006 at 0.72
    assert stability(GRID.silent_problem(medium, dt)).warning is None
    assert GRID.time_step(medium) == 0.3 * 2e-4 / 1500.0


def test_a_cfl_number_is_tried_once(monkeypatch):
    tried = []
    eigenvalue = LargestEigenvalue.__call__
    monkeypatch.setattr(
        LargestEigenvalue, "__call__", lambda self, dt: tried.append(dt) or eigenvalue(self, dt)
    )
    medium, _ = JUMPS["density"]
    simulate(GRID, medium, BALL, EVERYWHERE, cfl=0.68, steps=2, device="cpu")
    assert len(tried) == len(set(tried)) > 0


def uneven(pml=0, **more):
    rng = np.random.default_rng(5)
    grid = Grid((6, 6), (1e-4, 1.3e-4), pml_size=pml)
    medium = Medium(1500 * rng.uniform(1, 2, (6, 6)), 1000 * rng.uniform(0.02, 1, (6, 6)), **more)
    return grid.silent_problem(medium, 1e-8)


@pytest.mark.parametrize(
    "more",
    [
        {},
        pytest.param({"alpha_coeff": 20.0, "alpha_power": 1.5}, marks=pytest.mark.slow),
        pytest.param({"alpha_coeff": 20.0, "absorption": "stokes"}, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("pml", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_the_limit_found_parts_decay_from_growth(pml, more):
    problem = uneven(pml, **more)
    long = replace(problem, dt=1e-7)
    result = stability(long, RunSettings(comm=CPU, precision="double"))
    assert result.warning is not None
    # In an uneven medium the split PML itself may grow, slowly and at any time step.
    assert spectral_radius(problem, result.max_dt) < 1 + (5e-3 if pml else 1e-6)
    assert spectral_radius(problem, 1.08 * result.max_dt) > 1 + 1e-3
    # Every step the extremes prove stable is; they ask for far less than need be.
    proved = proved_limit(problem)
    assert proved < result.max_dt / 2
    for part in (0.3, 1.0):
        assert spectral_radius(problem, part * proved) < 1 + (5e-3 if pml else 1e-6)


@pytest.mark.parametrize("more", [{}, {"alpha_coeff": 20.0, "alpha_power": 1.5}])
def test_the_reference_is_the_time_step(more):
    """Its matrix takes the fields where the solver takes them."""
    from wavefabric.acoustics.choose_stages import make_stages
    from wavefabric.acoustics.solver.step import Step

    problem = replace(uneven(2, **more), steps=9)
    stages = make_stages(CPU.device, problem, np.float64)
    step, rng = Step(stages), np.random.default_rng(1)
    stages.fields.p[...] = rng.standard_normal(stages.fields.p.shape)
    stages.transform_pressure()

    def state():
        return np.stack([*stages.fields.u, *split_density(stages.fields)])

    step.take(0)
    before = state()
    step.take(1)
    result = state()
    want = (step_matrix(problem, problem.dt) @ before.reshape(-1)).reshape(result.shape)
    # How the density is split matters in the layers alone.
    for which in (result, want):
        which[2:] = joined(which[2:], stages.fields.split_layers)
    for half in (slice(0, 2), slice(2, 4)):
        np.testing.assert_allclose(result[half], want[half], rtol=0, atol=1e-11 * np.abs(want[half]).max())


def test_growth_is_that_of_the_largest_eigenvalue():
    problem = uneven()
    dt = 1.05 * stability(replace(problem, dt=5e-8), RunSettings(comm=CPU, precision="double")).max_dt
    expected = math.log(spectral_radius(problem, dt))
    assert 0.05 < expected < 0.7
    free = FreeSteps(problem, RunSettings(comm=CPU, precision="double"))
    assert growth(free, dt) == pytest.approx(expected, rel=0.25)


def test_absorption_may_grow_at_any_time_step():
    """Where both density and absorption jump, the fractional Laplacian is not symmetric."""
    rng = np.random.default_rng(0)
    grid = Grid((14, 2), 1e-4, pml_size=0)
    layer = np.zeros((14, 2))
    layer[3:9] = 1
    density = np.where(layer > 0, 1.8, 1000.0)
    alpha = np.where(layer > 0, 2000.0, 1.0) * rng.uniform(0.9, 1.1, (14, 2))
    problem = grid.silent_problem(Medium(1500.0, density, alpha, 0.5, dispersion=False), 3e-8)
    assert spectral_radius(problem, 1e-10) > 1 + 1e-5
    assert spectral_radius(problem, 1e-9) > 1 + 1e-4
    assert stability(problem, RunSettings(comm=CPU, precision="double")).max_dt == 0
    with pytest.raises(InputError, match=r"allowed: none; likely cause: .*absorption"):
        refuse_unstable(problem, RunSettings(comm=CPU, precision="double"))


def test_noise_is_the_same_in_every_part():
    from wavefabric.acoustics.decomposition.decompose import Decomposition, decompose
    from wavefabric.acoustics.decomposition.subdomain import Subdomain

    shape = (12, 8, 10)
    field = np.empty(shape[::-1])
    fill_with_noise(field, Subdomain.whole(shape), np)
    assert abs(field.mean()) < 0.05
    assert field.std() == pytest.approx(1 / math.sqrt(3), rel=0.05)
    spectrum = np.abs(np.fft.fftn(field)) ** 2
    assert spectrum.max() < 15 * spectrum.mean()
    for part in decompose(shape, 4, Decomposition("local", overlap=2)).subdomains:
        here = np.empty(part.size[::-1])
        fill_with_noise(here, part, np)
        x, y, z = (part.indices(axis) for axis in range(3))
        np.testing.assert_array_equal(here, field[np.ix_(z, y, x)])


@pytest.mark.slow
def test_random_media():
    """A small sample of random media is stable, or refused."""
    result = random_media(30, seed=3, steps=100, points=16)
    assert result["refused"] >= 4
    assert result["returned"] >= 15
    assert result["grown"] == 0
    assert result["too_short"] == 0
    assert result["largest_energy"] < 4
