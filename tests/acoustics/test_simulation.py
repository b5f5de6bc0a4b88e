"""`simulate` from end to end: closed forms, shapes, files, what is refused."""

import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from wavefabric.acoustics import Grid, Medium, Sensor, Source, simulate, to_problem
from wavefabric.acoustics.recording.sinks import RecordingLayout, Report, SeriesFiles
from wavefabric.acoustics.run import run
from wavefabric.acoustics.run_settings import RunSettings
from wavefabric.base.errors import InputError
from wavefabric.base.results.file import read_result
from wavefabric.runtime.lifecycle.checkpoint.run_checkpoint import Checkpoints

WATER = Medium(1500.0, 1000.0)
CPU = {"device": "cpu", "threads": 1}
DOUBLE = {**CPU, "precision": "double"}
DT = 2e-8


def bump(grid, width=2.5, amplitude=1e5):
    """A Gaussian pressure, off the middle; width in points of each axis."""
    exponent = sum(
        ((x - 1.5 * d) / (width * d)) ** 2
        for x, d in zip(np.meshgrid(*grid.coordinates, indexing="ij"), grid.spacing, strict=True)
    )
    return amplitude * np.exp(-exponent)


@pytest.mark.parametrize(
    ("shape", "spacing"), [((32, 27), (1e-4, 1.3e-4)), ((15, 16, 18), (1e-4, 0.9e-4, 1.1e-4))]
)
def test_uniform_medium_is_exact(shape, spacing):
    """Without PML, p is F⁻¹ cos(c |k| t) F p₀: the k-space scheme has no error in time at all."""
    grid = Grid(shape, spacing, pml_size=0)
    p0 = bump(grid)
    results = simulate(
        grid, WATER, Source(p0=p0, smooth=False), Sensor(np.ones(shape), "p"), dt="40 ns", steps=60, **DOUBLE
    )
    k = [2 * np.pi * np.fft.fftfreq(n, d) for n, d in zip(shape, spacing, strict=True)]
    k = np.sqrt(sum(x**2 for x in np.meshgrid(*k, indexing="ij")))
    series = results["p"].reshape(*shape, 60, order="F")
    for row in (0, 1, 30, 59):
        exact = np.fft.ifftn(np.cos(1500 * k * results.time[row]) * np.fft.fftn(p0)).real
        # A Gaussian 2.5 points wide has 1e-7 of its spectrum where the grid's shortest waves are staggered.
        assert np.abs(series[..., row] - exact).max() < 3e-7 * np.abs(exact).max()


@pytest.mark.parametrize("kind", ["p", "ux"])
def test_a_plane_source_radiates_its_signal(kind):
    """Also off the plane: p = ρ c u for a force source, of opposite sign behind it."""
    grid = Grid((128, 4), 1e-4, pml_size=(20, 0))
    plane = np.zeros(grid.shape)
    plane[64] = 1
    t = np.arange(300) * DT

    def wave(time):
        return np.sin(2 * np.pi * 1e6 * time) * np.exp(-(((time - 2e-6) / 6e-7) ** 2))

    signal = 1e5 * wave(t) if kind == "p" else 1e5 / 1.5e6 * wave(t)
    source = Source(p_mask=plane, p=signal) if kind == "p" else Source(u_mask=plane, ux=signal)
    distance = 30
    sensor = np.zeros(grid.shape)
    sensor[64 - distance, 0] = sensor[64 + distance, 0] = 1
    results = simulate(grid, WATER, source, Sensor(sensor, "p"), dt=DT, steps=300, **CPU)
    behind, ahead = results["p"]
    # A step's sources act in the middle of its update: half a time step early for p, another half for u,
    # which also lies half a spacing further.
    half = 0.5 if kind == "ux" else 0
    for got, away, sign in ((ahead, distance - half, 1), (behind, distance + half, 1 if kind == "p" else -1)):
        expected = 1e5 * wave(t - away * 1e-4 / 1500 + (0.5 + half) * DT)
        assert np.abs(sign * got - expected).max() < 1e-4 * 1e5


@pytest.mark.parametrize("shape", [(24, 22), (16, 15, 14)])
def test_boxes_points_and_masks_agree(shape):
    grid = Grid(shape, 1e-4, pml_size=3)
    source = Source(p0=bump(grid))
    common = {"dt": DT, "steps": 12, **CPU}
    words = ("p", "u", "p_max", "I_avg")
    everywhere = simulate(
        grid, WATER, source, Sensor(np.ones(shape), (*words, "p_final", "p_max_all")), **common
    )
    low, high = (2, 5, 1)[: len(shape)], (6, 9, 1)[: len(shape)]
    part = tuple(slice(a, b + 1) for a, b in zip(low, high, strict=True))
    boxes = simulate(grid, WATER, source, Sensor.boxes((low, high), (low, low), record=words), **common)
    for name in everywhere:
        if name.endswith(("_all", "_final")):
            assert everywhere[name].shape == shape
            continue
        tail = everywhere[name].shape[1:]
        assert tail == (() if name.endswith(("_max", "_avg")) else (12,))
        whole = everywhere[name].reshape(*shape, *tail, order="F")
        first, second = boxes[name]
        np.testing.assert_array_equal(first, whole[part])
        np.testing.assert_array_equal(second.ravel(), whole[low].ravel())
    np.testing.assert_array_equal(everywhere["p_final"].ravel(order="F"), everywhere["p"][:, -1])
    np.testing.assert_array_equal(everywhere["p_max_all"].ravel(order="F"), everywhere["p"].max(axis=1))
    positions = np.array([[x[i], x[i] + 0.25e-4] for x, i in zip(grid.coordinates, low, strict=True)])
    between = simulate(grid, WATER, source, Sensor.points(positions, "p"), **common)["p"]
    whole = everywhere["p"].reshape(*shape, 12, order="F")
    scale = np.abs(whole).max()
    np.testing.assert_allclose(between[0], whole[low], atol=1e-6 * scale)
    mean = whole[tuple(slice(a, a + 2) for a in low)]
    for _ in shape:
        mean = 0.75 * mean[0] + 0.25 * mean[1]
    np.testing.assert_allclose(between[1], mean, atol=1e-6 * scale)


def test_recording_may_start_late():
    grid = Grid((24, 22), 1e-4, pml_size=3)
    mask = np.zeros(grid.shape)
    mask[4:6, 7] = 1
    common = {"dt": DT, "steps": 12, **CPU}
    source = Source(p0=bump(grid))
    full = simulate(grid, WATER, source, Sensor(mask), **common)
    late = simulate(grid, WATER, source, Sensor(mask, start=5), **common)
    np.testing.assert_array_equal(full.time, np.arange(12) * DT)
    np.testing.assert_array_equal(late.time, np.arange(5, 12) * DT)
    np.testing.assert_array_equal(late["p"], full["p"][:, 5:])


@pytest.mark.filterwarnings(r"ignore:source\.p. .* of its energy lies above")  # white noise
def test_a_pml_outside_is_a_larger_grid():
    rng = np.random.default_rng(1)
    shape, margin = (18, 15), (5, 4)
    c, rho = 1500 + 200 * rng.random(shape), 1000 + 200 * rng.random(shape)
    width = [(m, m) for m in margin]
    mask = rng.random(shape) < 0.1
    p = 1e4 * rng.random((mask.sum(), 6))
    record = ("p", "p_final", "u_max_all")
    common = {"dt": 1e-8, "steps": 15, **CPU}
    outside = simulate(
        Grid(shape, 1e-4, pml_size=margin, pml_inside=False),
        Medium(c, rho, 0.5, 1.5),
        Source(p0=rng.random(shape), smooth=False, p_mask=mask, p=p),
        Sensor(mask, record),
        **common,
    )
    rng = np.random.default_rng(1)
    _ = rng.random(shape), rng.random(shape), rng.random(shape), rng.random((mask.sum(), 6))
    wide = np.pad(mask, width)
    inside = simulate(
        Grid(wide.shape, 1e-4, pml_size=margin),
        Medium(np.pad(c, width, "edge"), np.pad(rho, width, "edge"), 0.5, 1.5),
        Source(p0=np.pad(rng.random(shape), width), smooth=False, p_mask=wide, p=p),
        Sensor(wide, record),
        **common,
    )
    np.testing.assert_array_equal(outside["p"], inside["p"])
    for name in ("p_final", "ux_max_all", "uy_max_all"):
        np.testing.assert_array_equal(outside[name], inside[name][5:-5, 4:-4])


def test_default_time_follows_the_grid_and_the_medium():
    grid = Grid((16, 12), (1e-4, 2e-4), pml_size=2)
    results = simulate(grid, WATER, Source(p0=bump(grid)), Sensor(np.ones(grid.shape)), cfl=0.5, **CPU)
    assert results.time[1] == pytest.approx(0.5 * 1e-4 / 1500)
    assert results.time.size == grid.steps(WATER, results.time[1])
    until = simulate(grid, WATER, Source(p0=bump(grid)), Sensor(np.ones(grid.shape)), t_end="1 us", **CPU)
    assert until.time[-1] <= 1e-6 < until.time[-1] + until.time[1]
    assert until.report.steps == until.report.total_steps == until.time.size


def test_result_file(tmp_path):
    grid = Grid((16, 12, 10), (1e-4, 2e-4, 3e-4), pml_size=2)
    path = tmp_path / "out.h5"
    sensor = Sensor.boxes(((1, 2, 3), (4, 3, 3)), record=("p", "u_rms", "p_final", "I_avg"))
    common = {"dt": DT, "steps": 5, **CPU}
    results = simulate(grid, WATER, Source(p0=bump(grid)), sensor, output=path, **common)
    file = read_result(path)
    np.testing.assert_array_equal(file["recorded/p/0"], results["p"][0])
    assert file["recorded/p/0"].shape == (4, 2, 1, 5)
    np.testing.assert_array_equal(file["recorded/p_final"], results["p_final"])
    np.testing.assert_array_equal(file["time"], results.time)
    np.testing.assert_array_equal(file["grid/spacing"], grid.spacing)
    assert file.attrs("recorded/p_final") == {
        "units": "Pa",
        "description": "pressure after the last step, whole domain",
        "dimensions": "x y z",
    }
    assert file.dims("recorded/p/0") == ("x_box0", "y_box0", "z_box0", "time")
    assert file.attrs("recorded/uy_rms/0")["units"] == "m/s"
    assert "along y root mean square" in file.attrs("recorded/uy_rms/0")["description"]
    assert file.attrs("recorded/Iz_avg/0")["units"] == "W/m^2"
    assert file.attrs()["device"]
    with pytest.raises(InputError, match="exists"):
        simulate(grid, WATER, Source(p0=bump(grid)), sensor, output=path, **common)
    assert results.save(path, force=True) == path


def small(steps=20):
    grid = Grid((18, 16), 1e-4, pml_size=3)
    sensor = Sensor(np.ones(grid.shape), ("p", "u", "p_max", "p_final"))
    return grid, WATER, Source(p0=bump(grid)), sensor, DT, steps


def test_a_checkpointed_run_goes_on(tmp_path):
    grid, medium, source, sensor, dt, steps = small()
    whole = simulate(grid, medium, source, sensor, dt=dt, steps=steps, **CPU)
    path = tmp_path / "run.ckpt"
    problem, recording = to_problem(*small())
    sink = SeriesFiles(path)
    report = run(
        problem, recording, sink, RunSettings(checkpoint=Checkpoints(path, every=8, stop=True), **CPU)
    )
    assert report.steps < report.total_steps
    assert len(list(tmp_path.glob("run.ckpt.*.series.partial"))) == 3
    rest = simulate(grid, medium, source, sensor, dt=dt, steps=steps, checkpoint=path, **CPU)
    assert rest.report.resumed_at == report.steps
    assert set(rest) == set(whole)
    for name in whole:
        np.testing.assert_array_equal(rest[name], whole[name])
    assert not list(tmp_path.iterdir())


def test_series_files_come_back_or_say_why_not(tmp_path):
    layout = RecordingLayout({"p": (6, 4)}, {}, (), np.dtype(np.float32))
    block = np.arange(12, dtype=np.float32).reshape(3, 4)
    first = SeriesFiles(tmp_path / "c")
    first.begin(layout, 0)
    first.write_rows("p", 0, block)
    first.flush()
    first.abandon(keep=True)
    second = SeriesFiles(tmp_path / "c")
    second.begin(layout, 3)
    second.write_rows("p", 3, block + 12)
    second.finish([("p_max", np.zeros(4))], Report())
    np.testing.assert_array_equal(second.arrays["p"], np.arange(24).reshape(6, 4))
    assert set(second.arrays) == {"p", "p_max"}
    assert not list(tmp_path.iterdir())
    with pytest.raises(InputError, match=r"no matching c\.p\.series\.partial"):
        SeriesFiles(tmp_path / "c").begin(layout, 3)
    third = SeriesFiles(tmp_path / "c")
    third.begin(layout, 0)
    with pytest.raises(InputError, match="no matching"):
        SeriesFiles(tmp_path / "c").begin(RecordingLayout({"p": (6, 5)}, {}, (), np.dtype(np.float32)), 3)
    third.abandon(keep=False)
    assert not list(tmp_path.iterdir())


def test_an_unstable_time_step_is_refused():
    grid = Grid((16, 12), 1e-4, pml_size=2)
    slow = Medium(1500.0, 1000.0, reference_speed=1000.0)
    arguments = grid, slow, Source(p0=bump(grid)), Sensor(np.ones(grid.shape))
    with pytest.raises(
        InputError, match=r"dt: 9e-08 s is not stable; allowed: up to [0-9.e-]+ s, or check_stability"
    ):
        simulate(*arguments, dt=9e-8, steps=3, **CPU)
    assert simulate(*arguments, dt=9e-8, steps=3, check_stability=False, **CPU)["p"].shape == (192, 3)


def test_without_a_sensor_the_whole_domain_is_recorded():
    grid = Grid((16, 12), 1e-4, pml_size=2)
    parts = grid, WATER, Source(p0=bump(grid))
    options = {"dt": DT, "steps": 5, **CPU}
    inputs = simulate(*parts, Sensor(record=("p_max_all", "p_final")), **options)
    for result in (simulate(*parts, **options), simulate(*parts, None, **options)):
        assert list(result) == ["p_max_all", "p_final"]
        for name in inputs:
            np.testing.assert_array_equal(result[name], inputs[name])
    chosen = simulate(*parts, record="u_max_all", **options)
    assert list(chosen) == ["ux_max_all", "uy_max_all"]
    with pytest.raises(InputError, match=r"record: is given along with a sensor"):
        simulate(*parts, Sensor(record="p_final"), record="p_final", **options)
    with pytest.raises(InputError, match=r'sensor.mask: is missing, and "p" is recorded there'):
        simulate(*parts, record="p", **options)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"dt": 0.0, "steps": 5}, "dt: 0"),
        ({"dt": DT, "steps": 0}, "steps: 0"),
        ({"dt": DT, "steps": 2.5}, "steps: 2.5"),
        ({"dt": DT, "steps": 5, "t_end": 1e-6}, "one of them"),
        ({"dt": "1 m", "steps": 5}, "dt"),
        ({"dt": DT, "t_end": "-1 us"}, "t_end"),
        ({"dt": DT, "steps": 5, "output": "/dev/null/x.h5"}, "/dev/null"),
        ({"dt": DT, "steps": 3, "sensor": Sensor(np.ones((16, 12)), start=3)}, "sensor.start"),
        ({"dt": DT, "steps": 3, "medium": Medium(1500.0, -1.0)}, "medium.density"),
        ({"dt": DT, "steps": 3, "medium": Medium(1500.0, 1000.0, -1.0, 1.5)}, "medium.alpha_coeff"),
        ({"dt": DT, "steps": 3, "source": Source(p0=np.full((16, 12), np.nan))}, "source.p0"),
        ({"dt": DT, "steps": 3, "source": Source(p_mask=np.ones((16, 12)), p=[np.inf])}, "source.p"),
    ],
)
def test_bad_arguments_are_refused(arguments, text):
    grid = Grid((16, 12), 1e-4, pml_size=2)
    parts = {"medium": WATER, "source": Source(p0=bump(grid)), "sensor": Sensor(np.ones(grid.shape))}
    with pytest.raises(InputError, match=text):
        simulate(**{"grid": grid, **parts, **arguments, **CPU})


@pytest.mark.slow
def test_example(tmp_path):
    script = Path(__file__).parents[2] / "examples" / "ultrasound_2d.py"
    picture = tmp_path / "picture.png"
    environment = {**os.environ, "MPLBACKEND": "Agg"}
    done = subprocess.run(
        [sys.executable, script, picture],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert "Report(" in done.stdout
    assert picture.stat().st_size > 10_000


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # what is beyond single precision
@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf, 1e-30, 1e300])
def test_a_density_that_makes_no_sense_is_refused_before_a_time_step_is_sought(value):
    medium = Medium(1500.0, np.where(np.arange(40) > 20, value, 1000.0))
    with pytest.raises(InputError, match=r"^(medium(\.density)?|dt): "):
        simulate(
            Grid((40,), 1e-4, pml_size=4), medium, Source(p0=np.ones(40)), record="p_final", device="cpu"
        )
