"""Time reversal against d'Alembert and Huygens, its iterations, and runs that are interrupted or shared."""

import os
import signal
from pathlib import Path

import numpy as np
import pytest
from scipy.ndimage import binary_dilation

from wavefabric.acoustics import Grid, Medium, Sensor, Source, simulate, time_reversal
from wavefabric.acoustics.solver.step import Step
from wavefabric.base.errors import InputError
from wavefabric.base.system.progress import Progress
from wavefabric.runtime.exchange import solo
from wavefabric.runtime.lifecycle.checkpoint.run_checkpoint import Checkpoints

C, SPACING, DT = 1500.0, 1e-4, 2e-8
WATER = Medium(C, 1000.0)
STEPS = 110  # by which most has left the ring


@pytest.fixture
def options(device):
    return {"device": device, "precision": "double"}


def blobs(grid, *spots):
    """Gaussians at places, m, of so many m."""
    x = np.meshgrid(*grid.coordinates, indexing="ij")
    squares = [(sum((a - b) ** 2 for a, b in zip(x, centre, strict=True)), size) for *centre, size in spots]
    return 1e5 * sum(np.exp(-square / (2 * size**2)) for square, size in squares)


def record(grid, medium, p0, mask, steps, dt=DT, **options):
    sensor = Sensor(mask)
    return simulate(grid, medium, Source(p0=p0, smooth=False), sensor, dt=dt, steps=steps, **options)["p"]


def surface(grid, radius):
    """Points inside a radius, in spacings, and the closed surface around them."""
    x = np.meshgrid(*grid.coordinates, indexing="ij")
    inside = np.sqrt(sum(a * a for a in x)) < radius * SPACING
    return inside, binary_dilation(inside, np.ones((3,) * grid.dimensions)) & ~inside


def apart(image, p0):
    return np.linalg.norm(image - p0) / np.linalg.norm(p0)


@pytest.fixture(scope="module")
def ring():
    """In 2-D: grid, ring, initial pressure, and what it records."""
    grid = Grid((48, 48), SPACING, pml_size=10, pml_inside=False)
    inside, mask = surface(grid, 18)
    p0 = blobs(grid, (4e-4, -3e-4, 3e-4), (-6e-4, 5e-4, 2.5e-4))
    series = record(grid, WATER, p0 * inside, mask, 220, device="cpu", threads=1, precision="double")
    return grid, mask, p0 * inside, series


class TestLine:
    """In 1-D, at a CFL number of 1, where the scheme is d'Alembert's solution."""

    grid = Grid((256,), SPACING)
    dt = SPACING / C
    p0 = blobs(grid, (3e-4, 3e-4))

    def mask(self, *points):
        return np.isin(np.arange(256), points)

    def test_two_points_see_all(self, options):
        mask = self.mask(98, 158)
        series = record(self.grid, WATER, self.p0, mask, 75, self.dt, **options)
        image = time_reversal(self.grid, WATER, mask, series, self.dt, **options).image
        assert apart(image, self.p0) < 1e-13
        late = np.concatenate([series, np.zeros((2, 7))], axis=1)
        assert apart(time_reversal(self.grid, WATER, mask, late, self.dt, **options).image, self.p0) < 1e-13

    def test_a_point_at_one_side_sees_half_of_each_wave(self, options):
        mask = self.mask(158)
        series = record(self.grid, WATER, self.p0, mask, 75, self.dt, **options)
        words = {"region": np.arange(256) < 158, "iterations": 4}
        made = time_reversal(self.grid, WATER, mask, series, self.dt, **words, **options)
        np.testing.assert_allclose(made.residuals, [1, 0.5, 0.25, 0.125], rtol=1e-6)
        assert apart(made.image, self.p0 * 15 / 16) < 1e-6

    def test_iterations_make_up_for_the_scheme_at_shorter_steps(self, options):
        mask, dt = self.mask(98, 158), 0.3 * self.dt
        series = record(self.grid, WATER, self.p0, mask, 250, dt, **options)
        errors = [
            apart(time_reversal(self.grid, WATER, mask, series, dt, iterations=n, **options).image, self.p0)
            for n in (1, 3)
        ]
        assert errors[0] < 5e-3  # the spectral derivative looks past the sensor
        assert errors[1] < 2e-6


@pytest.mark.slow
def test_a_ring_converges(ring, options):
    grid, mask, p0, series = ring
    made = [time_reversal(grid, WATER, mask, series, DT, iterations=n, **options) for n in (1, 6)]
    once, often = (apart(each.image, p0) for each in made)
    assert 5e-3 < once < 0.05  # in 2-D the field never leaves wholly
    assert often < 2e-4
    assert made[1].residuals[0] == 1
    assert (np.diff(made[1].residuals) < 0).all()
    # The residual is that of the image before: the same numbers for one iteration more or less.
    again = record(grid, WATER, made[0].image, mask, 220, **options)
    assert made[1].residuals[1] == pytest.approx(np.linalg.norm(series - again) / np.linalg.norm(series))


@pytest.mark.slow
def test_points_with_gaps_need_a_region(ring, options):
    """Else the mirror image outside is kept, and explained away in vain."""
    grid, mask, p0, _ = ring
    gaps = mask & (np.indices(grid.shape).sum(axis=0) % 3 == 0)
    series = record(grid, WATER, p0, gaps, 220, **options)
    inside, errors = surface(grid, 18)[0], []
    for region in (None, inside):
        made = time_reversal(grid, WATER, gaps, series, DT, iterations=4, region=region, **options)
        errors.append(apart(made.image * inside, p0))
    assert errors[1] < 0.5 * errors[0]
    assert (made.image[~inside] == 0).all()


@pytest.mark.slow
def test_a_sphere_is_exact_once_the_waves_have_left(options):
    """In 3-D, as Huygens' principle has it; what is left are the points of the surface."""
    grid = Grid((24, 24, 24), SPACING, pml_size=8, pml_inside=False)
    inside, mask = surface(grid, 10)
    p0 = blobs(grid, (1e-4, -1e-4, 2e-4, 2e-4)) * inside
    steps = int(22 * SPACING / C / DT * 1.2)  # 1.2 diameters over the speed of sound
    series = record(grid, WATER, p0, mask, steps, **options)
    assert abs(series[:, -1]).max() < 2e-3 * abs(series).max()
    assert apart(time_reversal(grid, WATER, mask, series, DT, **options).image, p0) < 0.03
    assert apart(time_reversal(grid, WATER, mask, series, DT, iterations=3, **options).image, p0) < 1e-3


@pytest.mark.slow
def test_a_line_sees_a_part_and_its_residual_falls(options):
    grid = Grid((48, 48), SPACING, pml_size=10, pml_inside=False)
    mask = np.zeros(grid.shape, bool)
    mask[0] = True
    p0 = blobs(grid, (-6e-4, 2e-4, 3e-4))
    series = record(grid, WATER, p0, mask, 200, **options)
    free, bounded = (
        time_reversal(grid, WATER, mask, series, DT, iterations=6, non_negative=sign, **options)
        for sign in (False, True)
    )
    for made in (free, bounded):
        assert (np.diff(made.residuals) < 0).all()
        assert made.residuals[-1] < 0.3
    assert free.image.min() < 0 == bounded.image.min()
    assert apart(bounded.image, p0) < 0.8 * apart(free.image, p0)


@pytest.mark.slow
def test_iterations_make_up_for_absorption(ring, options):
    grid, mask, p0, _ = ring
    layer = grid.coordinates[0][:, None] > 3e-4
    speed, density = np.where(layer, 1600.0, C), np.where(layer, 1100.0, 1000.0)
    tissue = Medium(*np.broadcast_arrays(speed, density + 0 * p0), alpha_coeff=4.0, alpha_power=1.5)
    series = record(grid, tissue, p0, mask, 220, **options)
    errors = [
        apart(time_reversal(grid, tissue, mask, series, DT, **words, **options).image, p0)
        for words in ({}, {"absorption": True}, {"iterations": 3})
    ]
    assert errors[0] < 0.12
    assert errors[1] > 1.5 * errors[0]  # absorbed twice
    assert errors[2] < 0.02


class Said(Progress):
    def __init__(self):
        self.labels = []

    def start(self, total_steps, label):
        self.labels.append(label)


@pytest.mark.slow
@pytest.mark.parametrize(
    "stops", [*(pytest.param(each, marks=pytest.mark.slow) for each in ((0,), (120,))), (60, 321, 410)]
)
def test_ctrl_c_and_on(ring, cpu, tmp_path, monkeypatch, stops):
    """In the first run, in the second, and in several: the bits of one left alone."""
    grid, mask, _, series = ring
    series, path = series[:, :STEPS], tmp_path / "image.checkpoint"
    words = {"iterations": 3, "device": cpu, "precision": "double"}
    whole = time_reversal(grid, WATER, mask, series, DT, **words)
    taken, take = [0], Step.take

    def pressing(step, number, most=1):
        if taken[0] in stops:
            os.kill(os.getpid(), signal.SIGINT)
        taken[0] += 1
        return take(step, number)

    monkeypatch.setattr(Step, "take", pressing)
    said = Said()
    for _ in stops:
        with pytest.raises(KeyboardInterrupt):
            time_reversal(grid, WATER, mask, series, DT, checkpoint=path, **words)
        assert any(name.startswith("image.checkpoint") for name in os.listdir(tmp_path))
    with pytest.raises(InputError, match=r"image\.checkpoint"):
        time_reversal(grid, WATER, mask, 2 * series, DT, checkpoint=path, **words)
    made = time_reversal(grid, WATER, mask, series, DT, checkpoint=path, progress=said, **words)
    assert made.image.tobytes() == whole.image.tobytes()
    assert made.residuals == whole.residuals
    assert taken[0] == 5 * STEPS  # none was taken twice
    first = max(stops) // STEPS + 1
    assert [label[:11] for label in said.labels] == [f"run {n} of 5," for n in range(first, 6)]
    assert os.listdir(tmp_path) == []


@pytest.mark.parallel(2)
@pytest.mark.slow
def test_ranks_make_the_same_image(ring, comm, tmp_path):
    grid, mask, _, series = ring
    series, path = series[:, :STEPS], comm.control.bcast(tmp_path) / "image.checkpoint"
    words = {"iterations": 2, "precision": "double"}
    alone = time_reversal(grid, WATER, mask, series, DT, comm=solo(comm.device), **words)
    for checkpoint in (None, Checkpoints(path, every=30)):
        made = time_reversal(grid, WATER, mask, series, DT, comm=comm, checkpoint=checkpoint, **words)
        np.testing.assert_allclose(made.image, alone.image, atol=1e-9 * alone.image.max())
        np.testing.assert_allclose(made.residuals, alone.residuals, rtol=1e-10)
    comm.control.barrier()
    assert os.listdir(path.parent) == []
    with pytest.raises(InputError, match="reconstruction: rank 0 has"):
        time_reversal(grid, WATER, mask, (1 + comm.rank) * series, DT, comm=comm, **words)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"iterations": 0}, "iterations: 0; allowed: a whole number from 1"),
        ({"non_negative": 1}, "non_negative: 1; allowed: True or False"),
        ({"absorption": None}, "absorption: null; allowed: True or False"),
        ({"region": np.ones(5)}, r"region: has the shape \(5,\); allowed: \(48, 48\)"),
        ({"mask": np.zeros((48, 48))}, "mask: marks no point"),
        ({"mask": np.ones((48, 4))}, "mask: has the shape"),
        ({"signals": np.ones((3, 220))}, r"signals: has the shape \(3, 220\); allowed: \(144, steps\)"),
        ({"signals": np.ones((144, 2), complex)}, "signals: is of type complex128; allowed: real numbers"),
        ({"signals": np.zeros((144, 2))}, "signals: are zero everywhere, or not finite"),
        ({"signals": np.full((144, 2), np.nan)}, "signals: are zero everywhere, or not finite"),
        ({"dt": "0 s"}, "dt"),
        ({"checkpoint": Checkpoints(Path("x"), stop=True)}, "checkpoint: stops at its first save"),
    ],
)
def test_what_is_refused(ring, words, message):
    grid, mask, _, series = ring
    inputs = {"mask": mask, "signals": series, "dt": DT, "device": "cpu", "threads": 1, **words}
    with pytest.raises(InputError, match=message):
        time_reversal(grid, WATER, **inputs)
