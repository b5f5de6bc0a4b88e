"""Series of coarse time steps, of points and of elements, and in another order than asked for."""

import warnings

import numpy as np
import pytest

from wavefabric.acoustics import Grid, Medium, Sensor, Source, bowl, join, simulate, time_reversal
from wavefabric.acoustics.reconstruction.imposed import Imposed
from wavefabric.acoustics.series import densified
from wavefabric.base.errors import InputError

C, DT = 1500.0, 20e-9
WATER, GRID = Medium(C, 1000.0), Grid((56, 56), 1e-4, pml_size=10, pml_inside=False)
X, Y = np.meshgrid(*GRID.coordinates, indexing="ij")
RADIUS = 2.3e-3
RING = abs(np.hypot(X, Y) - RADIUS) < 0.7e-4
RUN = {"device": "cpu", "threads": 1, "precision": "double"}


def blob(width):
    return np.exp(-((X - 2e-4) ** 2 + (Y + 4e-4) ** 2) / width**2)


def on_circle(n):
    angles = np.arange(n) * 2 * np.pi / n
    return RADIUS * np.stack([np.cos(angles), np.sin(angles)])


def record(p0, sensor, steps, dt=DT, medium=WATER, grid=GRID):
    return simulate(grid, medium, Source(p0=p0, smooth=False), sensor, dt=dt, steps=steps, **RUN)["p"]


def apart(image, p0):
    return np.linalg.norm(image - p0) / np.linalg.norm(p0)


# --- Time steps ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("factor", "tolerance"), [(2, 1e-12), (5, 1e-12), (8, 1e-12)])
def test_samples_between_are_those_of_the_band_limited_signal(factor, tolerance):
    """Sums of cosines that are even about both ends are known between samples: no end rings."""
    n = 40
    t, dense = np.arange(n), np.arange((n - 1) * factor + 1) / factor
    terms = [(1.0, 0), (0.7, 3), (-0.4, 17), (0.2, 36)]
    series, expected = (
        np.array([sum(a * np.cos(np.pi * m * at / (n - 1)) for a, m in terms)]) for at in (t, dense)
    )
    np.testing.assert_allclose(densified(series, factor), expected, atol=tolerance)
    any_series = np.random.default_rng(1).standard_normal((3, n))
    np.testing.assert_allclose(densified(any_series, factor)[:, ::factor], any_series, atol=tolerance)


def test_a_pulse_is_the_same_between_samples():
    """A Gaussian of 2.5 samples is 10⁻⁵ of its peak beyond the Nyquist frequency; it may touch an end."""
    for middle in (0.0, 20.3, 39.0):
        pulse = lambda t, middle=middle: np.exp(-(((t - middle) / 2.5) ** 2))  # noqa: E731
        result = densified(pulse(np.arange(40.0))[None], 6)[0]
        np.testing.assert_allclose(result, pulse(np.arange(result.size) / 6), atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("iterations", [1, 2])
def test_coarse_samples_lose_nothing_of_the_image(iterations):
    """Every 140 ns, a CFL number of 2.1, whose band holds all of the pulse but 10⁻³."""
    p0 = blob(3e-4)
    fine = record(p0, Sensor(RING), 281)
    errors = []
    for every in (1, 7):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            inputs = GRID, WATER, RING, fine[:, ::every], every * DT
            errors.append(apart(time_reversal(*inputs, iterations=iterations, **RUN).image, p0))
    assert errors[0] < 0.03
    assert errors[1] < errors[0] + 0.01


@pytest.mark.slow
def test_coarse_samples_of_an_uneven_medium():
    """The time step of the data would not be stable."""
    layer = X > 8e-4
    medium, p0 = Medium(np.where(layer, 2500.0, C), np.where(layer, 1900.0, 1000.0)), blob(3.5e-4)
    fine = record(p0, Sensor(RING), 401, 1e-8, medium)
    image = time_reversal(GRID, medium, RING, fine[:, ::10], 1e-7, iterations=2, **RUN).image
    assert apart(image, p0) < 0.02


def test_time_steps_that_are_short_enough_stay():
    p0 = blob(3e-4)
    series = record(p0, Sensor(RING), 90, 60e-9)  # a CFL number of 0.9
    source = Source(p_mask=RING, p=series[:, ::-1], p_mode="dirichlet")
    expected = simulate(GRID, WATER, source, Sensor(record="p_final"), dt=60e-9, steps=90, **RUN)["p_final"]
    image = time_reversal(GRID, WATER, RING, series, 60e-9, region=np.ones(GRID.shape), **RUN).image
    np.testing.assert_array_equal(image, expected)


def test_samples_that_alias_are_warned_of():
    """Wavelengths that the grid carries and samples every 160 ns do not."""
    series = record(blob(2e-4), Sensor(RING), 241)[:, ::8]
    with pytest.warns(UserWarning, match=r"signals: .* % of their energy .* near 3\.125 MHz.*160 ns"):
        time_reversal(GRID, WATER, RING, series, 160e-9, **RUN)


@pytest.mark.parametrize("dt", ["1 s", 1e-3])
def test_a_time_step_far_too_long_is_refused_at_once(dt):
    with pytest.raises(InputError, match=r"dt: .*; allowed: up to 2e-05 s"):
        time_reversal(GRID, WATER, RING, np.ones((RING.sum(), 50)), dt, **RUN)


# --- Points and elements -------------------------------------------------------------------------------


def sensors():
    near = on_circle(24)
    array = join(*(bowl(GRID, tuple(at), RADIUS, 5.5e-4, (0, 0)) for at in near.T))
    return {"points": Sensor.points(on_circle(80)), "elements": Sensor.elements(array), "mask": Sensor(RING)}


@pytest.mark.parametrize(
    ("kind", "once", "often"),
    [
        ("points", 0.09, 0.005),
        pytest.param("elements", 0.07, 0.03, marks=pytest.mark.slow),
        pytest.param("mask", 0.03, 1e-3, marks=pytest.mark.slow),
    ],
)
def test_sensors_of_every_kind_give_an_image(kind, once, often):
    """Errors of one pass and of three; points are moved to the grid's, elements have gaps."""
    p0, sensor = blob(3e-4), sensors()[kind]
    series = record(p0, sensor, 240)
    for iterations, limit in ((1, once), (3, often)):
        made = time_reversal(GRID, WATER, sensor, series, DT, iterations=iterations, **RUN)
        assert apart(made.image, p0) < limit
    assert (np.diff(made.residuals) < 0).all()


def test_a_sensor_of_a_mask_is_the_mask():
    series = record(blob(3e-4), Sensor(RING), 100)
    one = time_reversal(GRID, WATER, Sensor(RING, record="p_max", start=0), series, DT, **RUN)
    np.testing.assert_array_equal(one.image, time_reversal(GRID, WATER, RING, series, DT, **RUN).image)


def test_points_on_grid_points_are_the_mask():
    order = np.flatnonzero(RING.ravel(order="F"))
    positions = np.stack([axis.ravel(order="F")[order] for axis in (X, Y)])
    imposed = Imposed.of(Sensor.points(positions), GRID)
    np.testing.assert_array_equal(imposed.mask, RING)
    np.testing.assert_allclose(imposed.weights.toarray(), np.eye(order.size), atol=1e-9)


@pytest.mark.parametrize("kind", ["points", "elements", "mask"])
def test_equal_series_drive_as_they_are_and_enclose_the_inside(kind):
    """Rows of the weights add up to one; what sensors enclose is the disc, up to a spacing."""
    imposed = Imposed.of(sensors()[kind], GRID)
    np.testing.assert_allclose(imposed.weights.sum(axis=1), 1)
    assert imposed.weights.shape[0] == imposed.mask.sum()
    distance = np.hypot(X, Y)
    assert imposed.enclosed[distance < RADIUS - 1.5e-4].all()
    assert not imposed.enclosed[distance > RADIUS + 3e-4].any()


def test_open_arrays_enclose_nothing_and_leave_the_image_free():
    line = np.stack([np.full(40, -2e-3), np.linspace(-2.5e-3, 2.5e-3, 40)])
    for positions in (line, on_circle(80)[:, :40], line[:, :1]):
        assert Imposed.of(Sensor.points(positions), GRID).enclosed.all()


@pytest.mark.slow
def test_points_in_three_dimensions_and_in_one():
    grid = Grid((20, 20, 20), 1e-4, pml_size=6, pml_inside=False)
    n = np.arange(500) + 0.5
    z, turn = 1 - 2 * n / 500, n * np.pi * (3 - np.sqrt(5))
    positions = 8e-4 * np.stack([np.sqrt(1 - z**2) * np.cos(turn), np.sqrt(1 - z**2) * np.sin(turn), z])
    x = np.meshgrid(*grid.coordinates, indexing="ij")
    p0 = np.exp(-sum(a * a for a in x) / 2.5e-4**2)
    series = record(p0, Sensor.points(positions), 80, grid=grid)
    image = time_reversal(grid, WATER, Sensor.points(positions), series, DT, iterations=2, **RUN).image
    assert apart(image, p0) < 0.05
    grid = Grid((128,), 1e-4)
    p0 = np.exp(-((grid.coordinates[0] / 3e-4) ** 2))
    ends = Sensor.points([[-2.04e-3, 2.02e-3]])
    series = record(p0, ends, 200, grid=grid)
    assert apart(time_reversal(grid, WATER, ends, series, DT, iterations=4, **RUN).image, p0) < 0.01


# --- What is refused -----------------------------------------------------------------------------------

SERIES = np.ones((int(RING.sum()), 50))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"signals": SERIES.T}, r"signals: has the shape \(50, \d+\).*in the other order: give signals\.T"),
        ({"signals": np.ones((56, 56, 9))}, r".*x fastest: signals\.reshape\(-1, steps, order='F'\)"),
        ({"mask": Sensor.boxes(((1, 1), (3, 3)))}, r"mask: .*Sensor\.boxes.*allowed: a mask, Sensor\.points"),
        ({"mask": Sensor(RING, start=3)}, r"mask\.start: 3; allowed: 0"),
        ({"mask": Sensor(record="p_final")}, r"sensor\.mask: is missing"),
        ({"mask": Sensor.points([[1.0], [0.0]])}, r"sensor\.points: .*outside the grid"),
        ({"mask": Sensor.elements(RING)}, r"sensor\.elements: .*allowed: a transducer"),
        ({"mask": None}, "mask: "),
        ({"mask": "ring"}, "mask: "),
        ({"iterations": 10**30}, "iterations: 1.*; allowed: a whole number from 1 to 1000"),
        ({"iterations": 1001}, "iterations: 1001; allowed: a whole number from 1 to 1000"),
        ({"grid": RING}, r"grid: array.* given; allowed: a Grid"),
        ({"medium": None}, "medium: None given; allowed: a Medium"),
        ({"signals": "p"}, "signals: is of type"),
    ],
)
def test_what_is_refused(words, message):
    inputs = {"grid": GRID, "medium": WATER, "mask": RING, "signals": SERIES, "dt": DT, **RUN, **words}
    with pytest.raises(InputError, match=message):
        time_reversal(**inputs)
