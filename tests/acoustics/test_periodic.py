"""A grid without a PML is periodic: a problem that is moved around it gives the moved field, to round-off."""

import numpy as np
import pytest

from wavefabric.acoustics import (
    Grid,
    Material,
    Medium,
    Sensor,
    Source,
    averaged_medium,
    disc,
    layered_medium,
    shaped_medium,
    simulate,
    simulate_and_gradient,
)
from wavefabric.acoustics.decomposition.decompose import Decomposition
from wavefabric.acoustics.heating.heat import heat
from wavefabric.acoustics.heating.tissue import ThermalMedium
from wavefabric.base.errors import InputError

DX, SHAPE, MOVED = 1e-4, (24, 18), (9, 7)
GRID = Grid(SHAPE, DX, pml_size=0)
EXACT = dict(dt=12e-9, steps=40, precision="double", device="cpu", threads=1)
SOFT, STIFF = Material(1500, 1000, 0.4, 5.0), Material(1700, 1300, 0.9, 7.0)


def noise(seed, low, high, shape=SHAPE):
    return low + (high - low) * np.random.default_rng(seed).random(shape)


def bump(grid=GRID):
    return np.exp(-sum(np.meshgrid(*[x**2 for x in grid.coordinates], indexing="ij")) / (3 * DX) ** 2)


def around(field, moved=MOVED):
    return np.roll(field, moved, range(np.ndim(field)))


def assert_moves(field, moved_field, moved=MOVED, tolerance=1e-12):
    assert np.abs(around(field, moved) - moved_field).max() < tolerance * np.abs(field).max()


def arrays(move):
    c, rho = move(noise(0, 1450, 1600)), move(noise(1, 900, 1200))
    return Medium(c, rho, move(noise(2, 0.1, 1)), 1.4, move(noise(3, 4, 8)))


def shapes(move):
    """A bar that reaches over an edge, and one that does not."""
    dx, dy = (0, 0) if move(np.arange(SHAPE[0] * SHAPE[1]).reshape(SHAPE))[0, 0] == 0 else MOVED
    at = [
        lambda x, y: (x / DX + 12 - dx) % 24 + 0 * y < 7.3,
        lambda x, y: (y / DX + 9 - dy) % 18 + 0 * x < 4.6,
    ]
    return shaped_medium(GRID, SOFT, (at[0], STIFF), (at[1], Material(1600, 1100, 0.5, 6.0)))


def finer(move):
    """Arrays of three cells to a spacing, which move by three times as many."""
    shift = [3 * m for m in MOVED] if move(np.arange(432).reshape(SHAPE))[0, 0] else [0, 0]
    fine = [
        np.roll(noise(i, low, high, (72, 54)), shift, (0, 1))
        for i, low, high in ((4, 1450, 1600), (5, 900, 1200))
    ]
    return averaged_medium(GRID, Medium(*fine), 3, kernel="box")


def layers(move):
    """Along y alone; the seam between the last layer and the first is a boundary like the others."""
    dy = MOVED[1] if move(np.arange(432).reshape(SHAPE))[0, 0] else 0
    edges = [(0, 4.3, STIFF), (4.3, 11.6, SOFT), (11.6, 18, Material(1600, 1100, 0.5, 6.0))]
    parts = sorted(
        (low, high, material)
        for first, last, material in edges
        for low, high in [((first + dy) % 18, (first + dy) % 18 + last - first)]
    )  # cut where one reaches over the end
    *whole, (low, high, material) = parts
    cut = [(0, high - 18, material)] if high > 18 + 1e-9 else []
    parts = [*cut, *whole, (low, min(high, 18), material)]
    thick = [(material, (high - low) * DX) for low, high, material in parts]
    start = GRID.coordinates[1][0] - DX / 2
    return layered_medium(GRID, thick, start=start, axis=1)


@pytest.mark.parametrize("medium", [arrays, shapes, finer, layers])
@pytest.mark.parametrize("kind", ["p0", "p", "u"])
def test_a_medium_that_varies_is_moved(medium, kind):
    def field(move):
        if kind == "p0":
            source = Source(p0=move(1e5 * bump()))
        else:
            mask = np.zeros(SHAPE, bool)
            mask[20, 15] = True
            signal = 1e5 * np.hanning(20)
            inputs = (
                dict(p_mask=move(mask), p=signal)
                if kind == "p"
                else dict(u_mask=move(mask), ux=signal / 1e6, uy=signal / 1e6)
            )
            source = Source(**inputs)
        return simulate(GRID, medium(move), source, record=("p_final", "u_final"), **EXACT)

    still, moved = field(lambda field: field), field(around)
    for name in ("p_final", "ux_final", "uy_final"):
        assert_moves(still[name], moved[name])


@pytest.mark.parametrize("medium", [arrays, shapes, finer, layers])
def test_every_array_of_a_medium_is_moved(medium):
    still, moved = medium(lambda field: field).on(GRID), medium(around).on(GRID)
    for name in ("sound_speed", "density", "alpha_coeff", "nonlinearity"):
        if name in still:
            assert_moves(still[name][0].T, moved[name][0].T)
    for one, other in zip(still["density_staggered"], moved["density_staggered"], strict=True):
        assert_moves(one[0].T, other[0].T)


@pytest.mark.parametrize("pml_size", [(0, 4), (4, 0)])
def test_an_axis_with_a_pml_keeps_the_last_point(pml_size):
    grid, rho = Grid(SHAPE, DX, pml_size=pml_size), noise(1, 900, 1200)
    assert grid.periodic == (pml_size[0] == 0, pml_size[1] == 0)
    along = Medium(1500.0, rho).on(grid)["density_staggered"]
    for axis, periodic in enumerate(grid.periodic):
        last, first = np.take(rho, -1, axis), np.take(rho, 0, axis)
        wanted = (last + first) / 2 if periodic else last
        np.testing.assert_array_equal(np.take(along[axis][0].T, -1, axis), wanted)


def test_the_radius_of_an_axisymmetric_grid_is_not_periodic():
    grid = Grid(SHAPE, DX, pml_size=0, axisymmetric=True)
    assert grid.periodic == (True, False)
    rho, move = noise(1, 900, 1200), lambda field: np.roll(field, 9, 0)

    def field(move):
        medium = Medium(1500.0, move(rho))
        return simulate(grid, medium, Source(p0=move(bump(grid))), record="p_final", **EXACT)["p_final"]

    assert_moves(field(lambda field: field), field(move), (9, 0))


def test_weights_of_transducers_and_points_reach_around_the_grid():
    rho = noise(1, 900, 1200)

    def heard(shift):
        move = lambda field: around(field, shift)  # noqa: E731
        x, y = ((s % n - n // 2) * DX for s, n in zip(np.add((11.3, 8.4), shift), SHAPE, strict=True))
        sensor = Sensor.points([[x], [y]])
        return simulate(GRID, Medium(1500.0, move(rho)), Source(p0=move(bump())), sensor, **EXACT)["p"]

    # Shifted by (12, 9) the point lies between the last row and the first.
    for shift in ((12, 0), (0, 9), (12, 9)):
        np.testing.assert_allclose(heard(shift), heard((0, 0)), atol=1e-12)
    with pytest.raises(InputError, match="outside the grid"):
        Sensor.points([[12.2 * DX], [0]]).on(GRID)

    middle = disc(GRID, (0.2 * DX, 0), 4 * DX, (1, 0))
    edge = disc(GRID, (-11.8 * DX, 0), 4 * DX, (1, 0))
    one, other = (np.zeros(SHAPE) for _ in range(2))
    for out, each in ((one, middle), (other, edge)):
        out[np.unravel_index(each.index, SHAPE, order="F")] = each.weights.sum(axis=1)
    assert_moves(one, other, (12, 0))


def test_the_gradient_by_density_is_moved():
    rho, target = noise(1, 900, 1200), noise(6, -1, 1)

    def gradient(move):
        source, record = Source(p0=move(1e5 * bump()), smooth=False), Sensor(record="p_final")
        medium = Medium(1500.0, move(rho))
        objective = lambda results: (0.0, {"p_final": move(target)})  # noqa: E731
        return simulate_and_gradient(GRID, medium, source, record, objective, ("density",), **EXACT)[
            "density"
        ]

    assert_moves(gradient(lambda field: field), gradient(around))


def test_heat_is_moved():
    conductivity, power = noise(7, 0.3, 0.7), noise(8, 0, 1e6)

    def temperature(move):
        tissue = ThermalMedium(1000.0, 4000.0, move(conductivity), 0.0)
        return heat(GRID, tissue, move(power), [(3.0, 1.0)], dt=0.5, device="cpu")["temperature"] - 37

    assert_moves(temperature(lambda field: field), temperature(around))


@pytest.mark.parallel(2)
@pytest.mark.parametrize(
    "options", [None, pytest.param(Decomposition("local", overlap=8), marks=pytest.mark.slow)]
)
def test_ranks_agree_on_the_seam(comm, options):
    def field(move):
        source, more = Source(p0=move(1e5 * bump())), dict(EXACT, comm=comm, decomposition=options)
        return simulate(GRID, arrays(move), source, record="p_final", **more)["p_final"]

    still, moved = field(lambda field: field), field(around)
    # Blocks overlap at other places of the medium, whose error is that of the overlap.
    assert_moves(still, moved, tolerance=1e-12 if options is None else 1e-2)
