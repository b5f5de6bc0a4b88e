"""The time step against waves in closed form, and what it replays."""

import numpy as np
import pytest
from random_problems import pressure_source, problem, velocity_source

from wavefabric.acoustics.choose_stages import make_stages
from wavefabric.acoustics.problem import Problem
from wavefabric.acoustics.solver.step import Step
from wavefabric.runtime.device import get_device
from wavefabric.runtime.device.base import repeating

C, RHO, SPACING = 1540.0, 1060.0, (1e-4, 1.3e-4, 0.8e-4)


@pytest.fixture(scope="module", params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    return get_device(request.param, threads=1)


def closed_box(shape, p0, steps, cfl=0.4):
    return Problem(
        shape=shape, spacing=SPACING, dt=cfl * min(SPACING) / C, steps=steps, reference_speed=C,
        pml_size=(0, 0, 0), pml_alpha=(0, 0, 0), sound_speed=C, density=RHO,
        density_staggered=(RHO,) * (2 if shape[2] == 1 else 3), initial_pressure=p0,
    )  # fmt: skip


def coordinates(shape):
    """x, y, z of the grid points, laid along their axes."""
    x, y, z = (d * np.arange(n) for n, d in zip(shape, SPACING, strict=True))
    return x, y[:, None], z[:, None, None]


#: Grid and whole waves along x, y, z: along each axis, oblique, 2-D, near the highest wavenumber.
WAVES = [
    ((16, 12, 10), (3, 0, 0)),
    ((16, 12, 10), (0, 2, 0)),
    ((16, 12, 10), (0, 0, 4)),
    ((16, 12, 10), (2, -3, 1)),
    ((15, 11, 9), (7, 5, -4)),
    ((16, 15, 1), (3, 2, 0)),
]


@pytest.mark.parametrize(("shape", "waves"), WAVES)
@pytest.mark.parametrize("plain", [False, True], ids=["fused", "plain"])
def test_a_standing_wave_is_exact(device, shape, waves, plain):
    """p = cos(k·x) cos(ωt), ρ₀ c u = (k/|k|) sin(k·x) sin(ωt): to round-off, at any time step."""
    k = [2 * np.pi * m / (n * d) for m, n, d in zip(waves, shape, SPACING, strict=True)]
    size, axes = np.linalg.norm(k), coordinates(shape)
    steps, inputs = (
        60,
        closed_box(shape, 1e5 * np.cos(sum(a * b for a, b in zip(k, coordinates(shape), strict=True))), 60),
    )
    stages = make_stages(device, inputs, np.float64, plain=plain)
    step = Step(stages)
    for number in range(steps):
        step.take(number)
        if number not in (0, 1, 17, 59):
            continue
        time = number * inputs.dt
        phase = sum(a * b for a, b in zip(k, axes, strict=True))
        wanted = 1e5 * np.cos(phase) * np.cos(size * C * time)
        assert abs(device.to_host(stages.fields.p) - wanted).max() < 1e-7
        for axis, u in enumerate(stages.fields.u):
            moved = phase + k[axis] * SPACING[axis] / 2
            amplitude = 1e5 * k[axis] / size / (RHO * C)
            wanted = amplitude * np.sin(moved) * np.sin(size * C * (time - inputs.dt / 2))
            assert abs(device.to_host(u) - wanted).max() < 1e-7 / (RHO * C)


def test_the_mean_pressure_stays(device):
    """A closed box keeps its mass."""
    rng = np.random.default_rng(1)
    inputs = closed_box((12, 10, 9), rng.random((9, 10, 12)), 40)
    stages = make_stages(device, inputs, np.float64)
    step = Step(stages)
    for number in range(40):
        step.take(number)
    assert device.to_host(stages.fields.p).mean() == pytest.approx(inputs.initial_pressure.mean(), rel=1e-13)


def test_the_first_step_gives_the_initial_pressure(device):
    """Whatever the sources did before, the first result is p0 and u is 0 half-way to the next."""
    shape = (24, 20, 18)
    inputs = problem(
        shape,
        pressure_source=pressure_source(shape, "dirichlet"),
        velocity_source=velocity_source(shape, "additive"),
    )
    stages = make_stages(device, inputs, np.float32)
    Step(stages).take(0)
    assert (device.to_host(stages.fields.p) == inputs.initial_pressure).all()
    assert int(device.to_host(stages.fields.clock)[0]) == 1
    alone = make_stages(device, problem(shape), np.float32)
    Step(alone).take(0)
    for name, field in stages.fields.named().items():
        assert (device.to_host(field) == device.to_host(alone.fields.named()[name])).all()


def test_each_set_of_sources_is_captured_once():
    """A step is captured anew only when a source comes or goes."""
    cpu, captured = get_device("cpu", threads=1), []

    class Capturing(type(cpu)):
        def graph(self, work, kernels_alone=False):
            captured.append(work)
            return repeating(work)

    shape = (24, 20, 18)
    inputs = problem(
        shape,
        pressure_source=pressure_source(shape, "dirichlet", steps=4),
        velocity_source=velocity_source(shape, "dirichlet", steps=7),
    )
    step = Step(make_stages(Capturing(1), inputs, np.float32))
    counts = []
    for number in range(12):
        step.take(number)
        counts.append(len(captured))
    # Step 0 is not captured: it may set the initial pressure.
    assert counts == [0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3]
