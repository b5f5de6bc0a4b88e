"""Sound between two surfaces of a gas: after the time to cross it the field is what they reflect."""

import warnings

import numpy as np
import pytest

from wavefabric.acoustics import Grid, Material, Medium, Source, layered_medium, shaped_medium, simulate
from wavefabric.acoustics.check.warnings import problem_warnings

DX = 1e-4
WATER, BONE, TISSUE, STEEL = (
    Material(*each) for each in ((1500, 1000), (2800, 1850), (1540, 1050), (5900, 7850))
)
AIR, HELIUM = Material(343, 1.2), Material(1000, 0.18)


def reflection(inside, outside):
    """Of the pressure in the first material."""
    z1, z2 = (each.sound_speed * each.density for each in (inside, outside))
    return (z2 - z1) / (z2 + z1)


def crossed(grid, medium, distance, cells, width, speed):
    """Field over the initial one's peak after the time to cross so many ``cells``; that is a plane pulse."""
    p0 = np.exp(-((distance / width) ** 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a shorter time step
        end = cells * DX / speed
        field = simulate(
            grid,
            medium,
            Source(p0=p0, smooth=False),
            record="p_final",
            t_end=end,
            precision="double",
            device="cpu",
        )
    return field["p_final"]


@pytest.mark.parametrize("offset", [0.0, 0.3, 0.5, 0.75])
@pytest.mark.parametrize("dense", [WATER, BONE, TISSUE, STEEL])
def test_a_gas_reflects_all_wherever_its_surface_lies(dense, offset):
    grid, cells = Grid((160,), DX, pml_size=0), 100 + offset
    layers = [(AIR, (20.5 + offset / 3) * DX), (dense, cells * DX), (AIR, None)]
    medium = layered_medium(grid, layers, start=grid.coordinates[0][0] - DX / 2, kernel="geometric")
    middle = (20 + offset / 3 + cells / 2 - 80) * DX
    field = crossed(grid, medium, grid.coordinates[0] - middle, cells, 10 * DX, dense.sound_speed)
    assert field.min() == pytest.approx(reflection(dense, AIR), rel=0.01)
    # Where it was, to a twentieth of a cell: its mean position.
    position = (grid.coordinates[0] @ np.minimum(field, 0) / np.minimum(field, 0).sum() - middle) / DX
    assert abs(position) < 0.05


def test_a_gas_between_water_reflects_without_a_change_of_sign():
    grid, cells = Grid((160,), DX, pml_size=0), 100.4
    layers = [(WATER, 20.5 * DX), (AIR, cells * DX), (WATER, None)]
    medium = layered_medium(grid, layers, start=grid.coordinates[0][0] - DX / 2, kernel="geometric")
    # Of the gas, the surfaces take 1.5 cells each.
    field = crossed(grid, medium, grid.coordinates[0] + 9.8 * DX, cells - 3.1, 10 * DX, 343.0)
    assert field.max() == pytest.approx(reflection(AIR, WATER), rel=0.01)


@pytest.mark.parametrize("gas", [AIR, pytest.param(HELIUM, marks=pytest.mark.slow)])
def test_an_oblique_surface_reflects_all(gas):
    """At 45 degrees to the grid, around which it goes: fronts are √2 nearer to each other than along x."""
    n, cells = 128, 60.0
    grid = Grid((n, n), DX, pml_size=0)
    x, y = np.meshgrid(*grid.coordinates, indexing="ij")

    def distance(x, y):
        along = (x + y) / DX
        return (along - n * np.round(along / n)) / np.sqrt(2) * DX

    medium = shaped_medium(
        grid, gas, (lambda x, y: np.abs(distance(x, y)) < cells / 2 * DX, WATER), kernel="geometric"
    )
    field = crossed(grid, medium, distance(x, y), cells, 7 * DX, 1500.0)
    assert field.min() == pytest.approx(reflection(WATER, gas), rel=0.012)


def test_steel_in_water_reflects_by_a_box():
    grid, cells = Grid((320,), DX, pml_size=0), 200.3
    layers = [(WATER, 40.5 * DX), (STEEL, cells * DX), (WATER, None)]
    medium = layered_medium(grid, layers, start=grid.coordinates[0][0] - DX / 2, kernel="box")
    field = crossed(grid, medium, grid.coordinates[0] + 19.85 * DX, cells, 30 * DX, 5900.0)
    assert field.min() == pytest.approx(reflection(STEEL, WATER), rel=0.01)


@pytest.mark.parametrize("shape", [(40,), (20, 16), (12, 10, 14)])
@pytest.mark.parametrize("dense_first", [True, False])
def test_arrays_with_a_gas_are_warned_of(shape, dense_first):
    grid = Grid(shape, DX, pml_size=2)
    x = np.meshgrid(*grid.coordinates, indexing="ij")[-1]
    gas = (x > 0) == dense_first
    line = r"medium.density: changes 833-fold .* reflection coefficient 0.9995 is lost; .*'geometric'"
    medium = Medium(np.where(gas, 343.0, 1500.0), np.where(gas, 1.2, 1000.0))
    with pytest.warns(UserWarning, match=line):
        simulate(grid, medium, Source(p0=gas * 1.0), dt=1e-10, steps=2, check_stability=False, device="cpu")


def test_smooth_surfaces_and_smaller_jumps_are_not():
    grid = Grid((40, 30), DX, pml_size=2)
    x = grid.coordinates[0][:, None] + np.zeros(30)
    for dense in (WATER, STEEL):
        for offset in np.arange(5) / 5 * DX:
            layers = [(dense, 2e-3 + offset), (AIR, None)]
            medium = layered_medium(grid, layers, kernel="geometric")
            assert not problem_warnings(grid.silent_problem(medium, 1e-9))
    smaller = Medium(1500.0, np.where(x > 0, 60.0, 1000.0))
    assert not problem_warnings(grid.silent_problem(smaller, 1e-9))
