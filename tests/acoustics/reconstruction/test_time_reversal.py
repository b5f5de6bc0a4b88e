"""Images against the initial pressures that made the signals, where theory says that they are equal."""

import os
import signal

import numpy as np
import pytest

from wavefabric.acoustics import Grid, Medium, Sensor, Source, simulate, time_reversal
from wavefabric.acoustics.reconstruction import time_reversal as module
from wavefabric.device import get_device
from wavefabric.errors import InputError

WATER = Medium(1500.0, 1000.0)
DT = 2e-8
OPTIONS = {"precision": "double"}


@pytest.fixture(scope="module", params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    return get_device(request.param, threads=1)


def heard(grid, p0, mask, steps, medium=WATER, **options):
    source = Source(p0=p0, smooth=False)
    return simulate(grid, medium, source, Sensor(mask), dt=DT, steps=steps, **OPTIONS, **options)["p"]


def ring(n, radius):
    """A grid, distances from its middle in points, and a closed ring or sphere of sensors."""
    grid = Grid(n, 1e-4, pml_inside=False)
    steps = np.sqrt(sum((c / 1e-4) ** 2 for c in np.meshgrid(*grid.coordinates, indexing="ij")))
    return grid, steps, np.abs(steps - radius) < 0.8


def ball(grid, middle, width):
    square = sum(
        (c - m) ** 2 for c, m in zip(np.meshgrid(*grid.coordinates, indexing="ij"), middle, strict=True)
    )
    return np.exp(-square / width**2)


def test_two_points_know_all_of_one_dimension(device):
    """By d'Alembert each hears one half of the wave."""
    grid = Grid((160,), 1e-4)
    p0, mask = ball(grid, [1e-3], 4e-4), np.zeros(160, bool)
    mask[[30, 130]] = True
    y = heard(grid, p0, mask, 500, device=device)
    errors = [
        np.abs(time_reversal(grid, WATER, mask, y, DT, iterations=n, device=device, **OPTIONS).image - p0)[
            35:125
        ].max()
        for n in (1, 3)
    ]
    assert errors[0] < 0.01  # the wave that the imposed pressure sends outwards comes back from the PML
    assert errors[1] < 1e-5


def test_a_ring_in_two_dimensions(device):
    grid, steps, mask = ring((64, 64), 26)
    p0 = ball(grid, [5e-4, 0], 4e-4) + 0.5 * ball(grid, [-8e-4, 5e-4], 5e-4)
    y = heard(grid, p0, mask, 500, device=device)
    results = [
        time_reversal(grid, WATER, mask, y, DT, iterations=n, device=device, **OPTIONS) for n in (1, 4)
    ]
    errors = [np.linalg.norm((each.image - p0)[steps < 23]) / np.linalg.norm(p0) for each in results]
    # A wave in two dimensions has a tail, which the end of the record cuts.
    assert errors[0] < 0.04
    assert errors[1] < errors[0] / 4
    assert results[1].residuals[0] == 1
    assert (np.diff(results[1].residuals) < 0).all()


def test_a_sphere_knows_all_of_three_dimensions_in_one_pass(device):
    """Huygens: after the wave has passed nothing is left, so no iteration is needed."""
    grid, steps, mask = ring((36, 36, 36), 14)
    p0 = ball(grid, [2e-4, -1e-4, 0], 3e-4)
    y = heard(grid, p0, mask, 160, device=device)
    image = time_reversal(grid, WATER, mask, y, DT, device=device, **OPTIONS).image
    assert np.linalg.norm((image - p0)[steps < 11]) < 0.02 * np.linalg.norm(p0)


def test_half_a_view_gains_by_iterations(device):
    grid, steps, mask = ring((64, 64), 26)
    mask[:28] = False
    p0 = ball(grid, [3e-4, 0], 4e-4)
    y = heard(grid, p0, mask, 400, device=device)
    result = time_reversal(
        grid, WATER, mask, y, DT, iterations=5, non_negative=True, device=device, **OPTIONS
    )
    once = time_reversal(grid, WATER, mask, y, DT, device=device, **OPTIONS)
    assert (np.diff(result.residuals) < 0).all()
    assert result.image.min() == 0
    errors = [np.linalg.norm((each.image - p0)[steps < 23]) for each in (once, result)]
    assert errors[1] < 0.6 * errors[0]


def test_absorption_comes_back_with_iterations(device):
    grid, _, mask = ring((64, 64), 26)
    lossy = Medium(1500.0, 1000.0, 3.0, 1.5)
    p0 = ball(grid, [3e-4, 0], 4e-4)
    y = heard(grid, p0, mask, 400, lossy, device=device)
    peaks = [
        time_reversal(grid, lossy, mask, y, DT, iterations=n, device=device, **OPTIONS).image.max()
        for n in (1, 6)
    ]
    assert peaks[0] < 0.93
    assert abs(peaks[1] - 1) < 0.5 * abs(peaks[0] - 1)


@pytest.mark.parametrize("after", [1, 3])
def test_what_was_stopped_goes_on(tmp_path, monkeypatch, after):
    grid, _, mask = ring((32, 32), 12)
    y = heard(grid, ball(grid, [0, 0], 3e-4), mask, 120)
    options = {"iterations": 2, "device": "cpu", "threads": 1} | OPTIONS
    whole = time_reversal(grid, WATER, mask, y, DT, **options)
    real, runs = module.simulate, []

    def simulate_until(*arguments, **more):
        runs.append(more)
        if len(runs) == after:
            os.kill(os.getpid(), signal.SIGINT)
        return real(*arguments, **more)

    monkeypatch.setattr(module, "simulate", simulate_until)
    with pytest.raises(KeyboardInterrupt):
        time_reversal(grid, WATER, mask, y, DT, **options, checkpoint=tmp_path / "tr")
    result = time_reversal(grid, WATER, mask, y, DT, **options, checkpoint=tmp_path / "tr")
    assert len(runs) == 4  # three, and the one that was stopped
    np.testing.assert_array_equal(result.image, whole.image)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parallel(2)
def test_ranks_share_the_runs(comm):
    from wavefabric.exchange.communicator import solo

    grid, _, mask = ring((32, 32), 12)
    y = heard(grid, ball(grid, [0, 0], 3e-4), mask, 120, comm=solo(comm.device))
    ours = time_reversal(grid, WATER, mask, y, DT, iterations=2, comm=comm, **OPTIONS)
    alone = time_reversal(grid, WATER, mask, y, DT, iterations=2, comm=solo(comm.device), **OPTIONS)
    np.testing.assert_allclose(ours.image, alone.image, atol=1e-12)
    np.testing.assert_allclose(ours.residuals, alone.residuals, rtol=1e-9)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"signals": np.ones((3, 9))}, r"signals: \[3, 9\]; allowed: \(2, steps\)"),
        ({"signals": np.zeros((2, 9))}, "signals: "),
        ({"iterations": 0}, "iterations: 0; allowed: a whole number from 1"),
        ({"dt": -1}, "dt: -1; allowed: above 0"),
    ],
)
def test_bad_input_is_one_line(change, line):
    mask = np.zeros(60, bool)
    mask[[9, 40]] = True
    arguments = {"mask": mask, "signals": np.ones((2, 9)), "dt": DT} | change
    with pytest.raises(InputError, match=line):
        time_reversal(Grid((60,), 1e-4), WATER, **arguments)
