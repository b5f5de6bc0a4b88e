"""Plane waves against d'Alembert and against each other; what a source radiates; energy in a closed box."""

import closed_forms
import numpy as np
import pytest

from wavefabric.acoustics import Grid, Medium, Sensor, Source, simulate

C, RHO, DX = 1500.0, 1000.0, 1e-3
ROUND_OFF = {"single": 1e-6, "double": 1e-14}
THIN = [(128, 4), (6, 128), (128, 4, 4), (4, 128, 6), (6, 4, 128)]


def along(shape):
    """Long axis of a thin grid, and a shape that lays a vector along it."""
    axis = int(np.argmax(shape))
    return axis, tuple(-1 if i == axis else 1 for i in range(len(shape)))


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("shape", THIN)
def test_plane_wave_is_dalemberts_in_any_direction(shape, precision):
    axis, lay = along(shape)
    grid = Grid(shape, DX, pml_size=0)
    period = grid.size[axis]

    def pulse(x):  # The box repeats itself.
        return sum(np.exp(-(((x - 7.3e-3 + i * period) / 4e-3) ** 2)) for i in (-1, 0, 1))

    x = grid.coordinates[axis].reshape(lay)
    source = Source(p0=np.broadcast_to(pulse(x), shape), smooth=False)
    sensor = Sensor(mask=np.ones(shape, bool))
    result = simulate(
        grid, Medium(C, RHO), source, sensor, cfl=0.3, steps=150, precision=precision, device="cpu", threads=1
    )
    for row in (0, 1, 60, 149):
        wanted = np.broadcast_to(closed_forms.dalembert(pulse, x, result.time[row], C), shape)
        error = np.abs(result["p"][:, row] - wanted.ravel(order="F"))
        assert error.max() < ROUND_OFF[precision]


def test_two_dimensions_are_three_with_nothing_across():
    flat, thick = (40, 36), (40, 36, 4)
    x, y = np.meshgrid(*Grid(flat, DX, pml_size=0).coordinates, indexing="ij")
    p0 = np.exp(-((x - 3e-3) ** 2 + y**2) / (2.5e-3) ** 2)
    c = 1500 + 150 * (x > 4e-3)
    answers = []
    for shape, pml in ((flat, (8, 8)), (thick, (8, 8, 0))):
        on = [np.broadcast_to(a if len(shape) == 2 else a[..., None], shape) for a in (p0, c)]
        answers.append(
            simulate(
                Grid(shape, DX, pml_size=pml),
                Medium(on[1], RHO, alpha_coeff=0.5, alpha_power=1.5),
                Source(p0=on[0], smooth=False),
                Sensor(record="p_final"),
                cfl=0.3,
                steps=100,
                precision="double",
                device="cpu",
                threads=1,
            )["p_final"]
        )
    for layer in range(4):
        np.testing.assert_allclose(answers[1][:, :, layer], answers[0], atol=1e-13)


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("kind", ["p", "u"])
@pytest.mark.parametrize("shape", [(256, 2), (2, 256), (2, 2, 256)])
def test_plane_source_radiates_the_signal_it_is_given(shape, kind, precision):
    axis, lay = along(shape)
    dt, near, far = 2e-7, 64, 164
    grid = Grid(shape, DX, pml_size=tuple(20 if i == axis else 0 for i in range(len(shape))))

    def signal(t):  # Pa; up to about 0.2 MHz, 7 points per wavelength
        return 1e5 * np.exp(-(((t - 30e-6) / 7e-6) ** 2)) * np.sin(2 * np.pi * 100e3 * (t - 30e-6))

    index = np.broadcast_to(np.arange(256).reshape(lay), shape)
    inputs = signal(np.arange(500) * dt)
    if kind == "p":
        source = Source(p_mask=index == near, p=inputs)
    else:
        source = Source(u_mask=index == near, **{f"u{'xyz'[axis]}": inputs / (RHO * C)})
    mask = np.zeros(shape, bool)
    for seen in (near - 40, far):
        mask[tuple(seen if i == axis else 0 for i in range(len(shape)))] = True
    result = simulate(
        grid,
        Medium(C, RHO),
        source,
        Sensor(mask=mask),
        dt=dt,
        steps=500,
        precision=precision,
        device="cpu",
        threads=1,
    )
    # In step n a mass source acts half a step before the pressure's time, a force at the staggered points a
    # whole one; these lie half a spacing further on.
    early, ahead, back = (dt / 2, 0.0, 1) if kind == "p" else (dt, DX / 2, -1)
    wanted = [
        back * signal(result.time + early - (40 * DX + ahead) / C),
        signal(result.time + early - ((far - near) * DX - ahead) / C),
    ]
    np.testing.assert_allclose(result["p"], wanted, rtol=0, atol=1e-4 * np.max(wanted))


@pytest.mark.parametrize(("precision", "drift"), [("double", 1e-13), ("single", 2e-6)])
@pytest.mark.parametrize("shape", [(24, 20), (12, 10, 16)])
def test_energy_of_a_closed_box_does_not_drift(shape, precision, drift):
    # What the leapfrog conserves exactly, also where c and ρ vary, since the two gradients are adjoint:
    # Eⁿ = ½ Σ p²ₙ/(ρc²) + ½ Σ ρ u_{n-½} · u_{n+½}.
    grid = Grid(shape, DX, pml_size=0)
    x, y = np.meshgrid(*grid.coordinates[:2], indexing="ij")
    lay = (*shape[:2], *(1 for _ in shape[2:]))
    a, b = 2 * np.pi * x / grid.size[0], 2 * np.pi * y / grid.size[1]
    c = np.broadcast_to((1500 + 200 * np.cos(a) * np.sin(b)).reshape(lay), shape)
    rho = np.broadcast_to((1000 + 150 * np.sin(b)).reshape(lay), shape)
    medium = Medium(c, rho)
    p0 = np.random.default_rng(0).normal(size=shape)
    result = simulate(
        grid,
        medium,
        Source(p0=p0, smooth=False),
        Sensor(mask=np.ones(shape, bool), record=("p", "u")),
        cfl=0.3,
        steps=1000,
        precision=precision,
        device="cpu",
        threads=1,
    )
    p = result["p"].astype(float)
    stiffness = (rho * c**2).ravel(order="F")
    potential = 0.5 * np.sum(p[:, :-1] ** 2 / stiffness[:, None], axis=0)
    energy = potential.copy()
    for axis, staggered in zip("xyz", medium.on(grid)["density_staggered"], strict=False):
        u = result[f"u{axis}"].astype(float)
        energy += 0.5 * np.sum(staggered.ravel()[:, None] * u[:, :-1] * u[:, 1:], axis=0)
    assert np.ptp(energy) < drift * energy[0]
    # It does go to and fro between the two kinds.
    assert potential.min() < 0.7 * energy[0]
