"""Axisymmetric grids against the same body of revolution in three dimensions, and against closed forms."""

import numpy as np
import pytest

from wavefabric.acoustics import Grid, Medium, Sensor, Source, simulate

DX, C, RHO = 1e-3, 1500.0, 1000.0


def run(grid, medium, source, record, **more):
    options = dict(precision="double", device="cpu", threads=1, check_stability=False)
    return simulate(grid, medium, source, Sensor(record=record), **options, **more)


def positions(grid):
    """Along the axis, and away from it, m: [x, y(, z)]."""
    x, *across = np.meshgrid(*grid.coordinates, indexing="ij")
    return x, np.sqrt(sum(a**2 for a in across))


def lens(x, r):
    """A ball that is faster, denser and absorbs; smooth enough for both grids."""
    ball = np.exp(-((x - 3e-3) ** 2 + r**2) / 7e-3**2)
    return Medium(
        C * (1 + 0.15 * ball),
        RHO * (1 + 0.2 * ball),
        alpha_coeff=2.0 * ball,
        absorption="stokes",
        nonlinearity=6.0,
    )


def source(kind, x, r):
    """A ball of pressure, or a plane that drives, most on the axis."""
    if kind == "p0":
        return Source(p0=1e5 * np.exp(-((x + 9e-3) ** 2 + r**2) / 4e-3**2), smooth=False)
    mask = np.abs(x + 12e-3) < 0.5 * DX
    wave = 1e5 * np.sin(2 * np.pi * np.arange(100) / 100) * np.hanning(100)
    signals = np.exp(-((r.T[mask.T] / 4e-3) ** 2))[:, None] * wave
    if kind == "p":
        return Source(p_mask=mask, p=signals)
    return Source(u_mask=mask, ux=signals / (RHO * C))


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["p0", *(pytest.param(each, marks=pytest.mark.slow) for each in ("p", "ux"))]
)
def test_a_body_of_revolution_is_that_of_three_dimensions(kind):
    grids = {
        2: Grid((56, 28), DX, pml_size=(8, 6), axisymmetric=True),
        3: Grid((56, 56, 56), DX, pml_size=(8, 6, 6)),
    }
    answers = {
        number: run(
            grid,
            lens(*positions(grid)),
            source(kind, *positions(grid)),
            ("p_final", "p_max_all", "u_final"),
            dt=1e-7,
            steps=90 if kind == "p0" else 160,
        )
        for number, grid in grids.items()
    }
    for name, size in [("p_final", "p_final"), ("p_max_all", "p_max_all"), ("ux_final", "ux_final")]:
        wanted = answers[3][name][:, 28:, 28]
        difference = np.abs(answers[2][name] - wanted)[8:-8, :20]
        assert difference.max() < 1e-3 * np.abs(answers[3][size]).max(), name
    # Along the radius, whose largest is that along the axis.
    difference = np.abs(answers[2]["uy_final"] - answers[3]["uy_final"][:, 28:, 28])[8:-8, :20]
    assert difference.max() < 1e-3 * np.abs(answers[3]["ux_final"]).max()


def test_a_ball_of_pressure_spreads_as_in_the_closed_form():
    """r p = ½ ((r − ct) p₀(|r − ct|) + (r + ct) p₀(r + ct)) of a Gaussian at rest."""
    grid, steps, dt = Grid((96, 48), 0.5e-3, pml_size=(10, 10), axisymmetric=True), 40, 5e-8
    x, r = positions(grid)
    distance, width = np.hypot(x, r), 1.6e-3
    medium = Medium(C, RHO)
    inputs = Source(p0=np.exp(-((distance / width) ** 2)), smooth=False)
    field = run(grid, medium, inputs, "p_final", dt=dt, steps=steps)["p_final"]
    moved = C * dt * (steps - 1)

    def part(s):
        return s * np.exp(-((s / width) ** 2))

    wanted = (part(distance - moved) + part(distance + moved)) / (2 * np.maximum(distance, 1e-9))
    beyond = distance > grid.spacing[0]
    inside = beyond & (np.abs(x) < 18e-3) & (r < 17e-3)
    # κ is that of a plane wave: not exact here.
    assert np.abs(field - wanted)[inside].max() < 1e-3 * np.abs(wanted[inside]).max()


@pytest.mark.slow
def test_on_the_axis_of_a_piston():
    """|p| = 2 ρ c u |sin(k/2 (√(x² + a²) − x))| for a disc of radius a that moves with a velocity u."""
    a, frequency = 5e-3, 0.5e6
    spacing = C / frequency / 10
    grid = Grid((144, 64), spacing, pml_size=(16, 16), axisymmetric=True)
    medium = Medium(C, RHO)
    dt = 1 / frequency / 40
    x, r = positions(grid)
    first = 24
    mask = np.zeros(grid.shape, bool)
    mask[first] = True
    # Rings that the edge cuts count by the part inside.
    part = np.clip(0.5 + (a - r[first]) / spacing, 0, 1)
    steps = 40 * 40
    ramp = np.minimum(np.arange(steps) / 240, 1)
    wave = ramp * np.sin(2 * np.pi * frequency * np.arange(steps) * dt)
    inputs = Source(p_mask=mask, p=part[:, None] * wave * RHO * C * 1.0)
    sensor = Sensor(np.abs(r) < 0.1 * spacing, "p", start=steps - 40)
    series = simulate(
        grid, medium, inputs, sensor, dt=dt, steps=steps, precision="double", device="cpu", threads=1
    )["p"]
    amplitude = np.abs(np.fft.fft(series, axis=1)[:, 1]) / 20
    away = x[:, 0] - x[first, 0]
    k = 2 * np.pi * frequency / C
    wanted = 2 * RHO * C * np.abs(np.sin(k / 2 * (np.hypot(away, a) - away)))
    far = np.s_[first + 8 : -20]
    assert np.abs(amplitude - wanted)[far].max() < 0.03 * wanted[far].max()


def test_a_wave_guide_keeps_its_energy():
    """Nothing absorbs: the energy of rings stays, and is that of the first step."""
    grid = Grid((64, 32), DX, pml_size=0, axisymmetric=True)
    x, r = positions(grid)
    inputs = Source(p0=1e5 * np.exp(-(x**2 + (r - 8e-3) ** 2) / 3e-3**2), smooth=False)
    energies = []
    for steps in (20, 60):
        results = run(grid, Medium(C, RHO), inputs, ("p_final", "u_final"), dt=1e-7, steps=steps)
        rings = np.where(np.arange(32) > 0, np.arange(32), 0.125)
        energy = (results["p_final"] ** 2 / (RHO * C**2) + RHO * results["ux_final"] ** 2) @ rings
        energies.append((energy + (RHO * results["uy_final"] ** 2) @ (np.arange(32) + 0.5)).sum())
    assert energies[1] == pytest.approx(energies[0], rel=1e-2)
