"""Movies of planes: every frame is the field at its time, in files of both kinds."""

import h5py
import numpy as np
import pytest
from PIL import Image

from wavefabric.acoustics import Grid, Medium, Sensor, Source, run_kwave_file, simulate
from wavefabric.acoustics.kwave.input import write_input
from wavefabric.acoustics.pictures import movie as module
from wavefabric.acoustics.pictures.movie import Movie, draw_movie
from wavefabric.acoustics.pictures.recorded import open_recorded
from wavefabric.acoustics.simulation import to_problem
from wavefabric.base.errors import InputError

WATER = Medium(1500.0, 1000.0)


def setting(shape, *corners):
    grid = Grid(shape, 1e-4, pml_size=3)
    p0 = np.random.default_rng(1).normal(size=shape)
    return grid, Source(p0=p0), Sensor.boxes(*corners, record=("p", "u"), start=2)


def files(tmp_path, shape, *corners):
    """The same run in our file and in k-Wave's, and its series."""
    grid, source, sensor = setting(shape, *corners)
    result = simulate(grid, WATER, source, sensor, dt=2e-8, steps=14, output=tmp_path / "ours.h5")
    problem, recording = to_problem(grid, WATER, source, sensor, 2e-8, 14)
    write_input(tmp_path / "in.h5", problem, recording.where)
    run_kwave_file(tmp_path / "in.h5", tmp_path / "theirs.h5", record=("p", "u"), start=3)
    return result


@pytest.mark.parametrize(
    ("shape", "low", "high", "axes"),
    [
        ((12, 10, 9), (1, 2, 4), (9, 7, 4), [0, 1]),
        ((12, 10, 9), (5, 2, 1), (5, 7, 6), [1, 2]),
        ((12, 10), (1, 2), (9, 7), [0, 1]),
    ],
)
@pytest.mark.parametrize("block", [1, 1 << 22])
def test_frames_are_the_series(tmp_path, monkeypatch, shape, low, high, axes, block):
    monkeypatch.setattr(module, "_BLOCK", block)
    result = files(tmp_path, shape, (low, high))
    for name in ("ours.h5", "theirs.h5"):
        with open_recorded(tmp_path / name) as recorded:
            movie = Movie(recorded, "uy", every=3)
            assert movie.axes == axes
            np.testing.assert_allclose(movie.times, 2e-8 * np.arange(2, 14, 3), rtol=1e-6)
            frames = np.stack(list(movie.frames()), axis=-1)
            series = result["uy"][0].squeeze()[..., ::3]
            np.testing.assert_allclose(frames, series, atol=2e-6 * np.abs(series).max())
            peaks = np.abs(series).max(axis=(0, 1))
            assert movie.top() == pytest.approx(min(peaks.max(), 2 * np.median(peaks)), rel=1e-5)


@pytest.mark.parametrize("outside", [False, True])
def test_a_mask_that_fills_a_rectangle_and_where_planes_are(tmp_path, outside):
    grid = Grid((12, 10, 9), 1e-4, pml_size=3, pml_inside=not outside)
    mask = np.zeros(grid.shape, bool)
    mask[3:9, 4, 2:7] = True
    source = Source(p0=np.random.default_rng(1).normal(size=grid.shape))
    sensors = {"mask": Sensor(mask), "box": Sensor.boxes(((3, 4, 2), (8, 4, 6)))}
    for name, sensor in sensors.items():
        simulate(grid, WATER, source, sensor, dt=2e-8, steps=6, output=tmp_path / f"{name}.h5")
    problem, recording = to_problem(grid, WATER, source, sensors["mask"], 2e-8, 6)
    write_input(tmp_path / "in.h5", problem, recording.where)
    run_kwave_file(tmp_path / "in.h5", tmp_path / "theirs.h5", record="p", copy_sensor_mask=True)
    result = simulate(grid, WATER, source, sensors["box"], dt=2e-8, steps=6)["p"][0].squeeze()
    for name in ("mask", "box", "theirs"):
        with open_recorded(tmp_path / f"{name}.h5") as recorded:
            movie = Movie(recorded, "p")
            frames = np.stack(list(movie.frames()), axis=-1)
            np.testing.assert_allclose(frames, result, atol=2e-6 * np.abs(result).max())
            # k-Wave's N // 2 is the origin of both grids: a PML around it is as thick on both sides.
            assert movie.title.endswith(", y = −0.1 mm")
            assert movie.labels == ["x (mm)", "z (mm)"]
            np.testing.assert_allclose(movie.millimetres[0], 0.1 * np.arange(-3, 3), atol=1e-12)
            np.testing.assert_allclose(movie.millimetres[1], 0.1 * np.arange(-2, 3), atol=1e-12)


def test_a_damaged_position_is_one_line(tmp_path):
    files(tmp_path, (12, 10, 9), ((1, 2, 4), (9, 7, 4)))
    with h5py.File(tmp_path / "ours.h5", "r+") as file:
        del file["sensor/boxes"]
        file["sensor/boxes"] = np.zeros(5)
    line = "dataset 'sensor/boxes': cannot be read; the file is damaged"
    with open_recorded(tmp_path / "ours.h5") as recorded, pytest.raises(InputError, match=line):
        Movie(recorded, "p")


@pytest.mark.slow
def test_a_gif_has_a_frame_a_step(tmp_path):
    files(tmp_path, (12, 10, 9), ((1, 2, 4), (9, 7, 4)))
    with open_recorded(tmp_path / "ours.h5") as recorded:
        draw_movie(Movie(recorded, "p"), tmp_path / "p.gif", fps=10)
    with Image.open(tmp_path / "p.gif") as image:
        assert image.n_frames == 12
        assert image.info["duration"] == 100
        first = np.asarray(image.convert("L"), float)
        image.seek(11)
        assert np.ptp(np.asarray(image.convert("L"), float) - first) > 50
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.h5", "ours.h5", "p.gif", "theirs.h5"]


@pytest.mark.parametrize("works", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_an_mp4_by_ffmpeg(tmp_path, monkeypatch, works):
    """A fake one, which writes the frames as they come, or fails."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "ffmpeg"
    program.write_text("#!/bin/sh\nfor last; do :; done\n" + ('cat >"$last"\n' if works else "exit 3\n"))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    files(tmp_path, (12, 10, 9), ((1, 2, 4), (9, 7, 4)))
    with open_recorded(tmp_path / "ours.h5") as recorded:
        movie = Movie(recorded, "p", every=4)
        if works:
            size = draw_movie(movie, tmp_path / "p.mp4").stat().st_size
            assert size % (3 * 4) == 0
            assert size > 3 * 4 * 400 * 300  # three frames, four bytes a pixel
        else:
            with pytest.raises(InputError, match=r"--output: .*p\.mp4 cannot be written"):
                draw_movie(movie, tmp_path / "p.mp4")
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"bin", "in.h5", "ours.h5", "theirs.h5"} | ({"p.mp4"} if works else set())


def test_nothing_is_left_of_one_that_fails(tmp_path, monkeypatch):
    files(tmp_path, (12, 10, 9), ((1, 2, 4), (9, 7, 4)))
    before = sorted(tmp_path.iterdir())
    with open_recorded(tmp_path / "ours.h5") as recorded:
        movie = Movie(recorded, "p")
        monkeypatch.setattr(movie, "top", lambda: 1.0)
        monkeypatch.setattr(movie, "frames", lambda: iter([np.zeros(movie.shape)]))
        with pytest.raises(ValueError, match="zip"):
            draw_movie(movie, tmp_path / "p.gif")
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("corners", "name", "line"),
    [
        ((((1, 2, 3), (6, 5, 5)),), "p", r"recorded at 6 x 4 x 3; allowed: a box that is one point thick"),
        ((((1, 2, 3), (6, 2, 3)),), "p", r"recorded at 6 x 1 x 1"),
        ((((1, 2, 3), (6, 5, 3)), ((1, 2, 4), (6, 5, 4))), "p", r"p has 2 boxes; allowed: p/0, p/1"),
        ((((1, 2, 3), (6, 5, 3)),), "p_max", r'"p_max" is not in .*; allowed: p/0, ux/0'),
    ],
)
def test_what_is_no_plane_is_refused(tmp_path, corners, name, line):
    grid, source, sensor = setting((12, 10, 9), *corners)
    simulate(grid, WATER, source, sensor, dt=2e-8, steps=6, output=tmp_path / "ours.h5")
    with open_recorded(tmp_path / "ours.h5") as recorded, pytest.raises(InputError, match=line):
        Movie(recorded, name)


def test_points_have_no_plane(tmp_path):
    grid, source, _ = setting((12, 10))
    simulate(grid, WATER, source, Sensor(np.eye(12, 10)), dt=2e-8, steps=6, output=tmp_path / "ours.h5")
    line = r"--movie: p was recorded at single points"
    with open_recorded(tmp_path / "ours.h5") as recorded, pytest.raises(InputError, match=line):
        Movie(recorded, "p")
