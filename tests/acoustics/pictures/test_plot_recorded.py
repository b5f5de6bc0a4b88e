"""Recorded quantities, read from k-Wave's files and from ours, and their pictures."""

from pathlib import Path

import h5py
import numpy as np
import pytest
from matplotlib.image import AxesImage

from wavefabric.acoustics import Grid, Medium, Sensor, Source, simulate
from wavefabric.acoustics.pictures.plot_recorded import recorded_figure, select_quantities
from wavefabric.acoustics.pictures.recorded import open_recorded
from wavefabric.base.errors import InputError

KWAVE = Path(__file__).parents[2] / "data" / "kwave"
DT = 2e-8


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    """3-D, of each kind of sensor a file: results as they were handed back, and the file."""
    grid = Grid((14, 12, 10), "0.1 mm", pml_size=2)
    x, y, z = np.meshgrid(*grid.coordinates, indexing="ij")
    p0 = 2e6 * np.exp(-((x - 2e-4) ** 2 + y**2 + (z + 1e-4) ** 2) / 4e-8)
    sensors = {
        "points": Sensor(x + y + z == 0, ("p", "u_rms", "p_final", "p_max_all", "I_avg"), start=3),
        "boxes": Sensor.boxes(((1, 2, 3), (5, 6, 3)), ((0, 0, 0), (3, 2, 1)), record=("p", "p_max")),
    }
    folder, result = tmp_path_factory.mktemp("ours"), {}
    for name, sensor in sensors.items():
        path = folder / f"{name}.h5"
        medium, source = Medium(1500.0, 1000.0), Source(p0=p0)
        options = {"dt": DT, "steps": 20, "device": "cpu", "threads": 1, "output": path}
        result[name] = path, simulate(grid, medium, source, sensor, **options)
    return result


def images(figure):
    """Arrays shown, without the colour bar's."""
    return [axes.images[0] for axes in figure.axes if axes.images and isinstance(axes.images[0], AxesImage)]


def test_kwave_fields_are_read_as_xyz():
    with h5py.File(KWAVE / "p0_layered_absorbing_nonlinear_out.h5") as raw:
        field = raw["p_final"][()].T
        series, rms = raw["p"][0].T, raw["p_rms"][0, 0]
        dt = float(raw["dt"][0, 0, 0])
    with open_recorded(KWAVE / "p0_layered_absorbing_nonlinear_out.h5") as file:
        assert (file.shape, file.dt) == (field.shape, dt)
        item = file.items["p_final"]
        low, high, where = item.extremes()
        assert (low, high) == (field.min(), field.max())
        assert where == np.unravel_index(np.argmax(np.abs(field)), field.shape)
        for normal in range(3):
            np.testing.assert_array_equal(item.plane(normal, 5), np.take(field, 5, normal))
        values, points, time = file.items["p"].series(1000, 1000)
        np.testing.assert_array_equal(values, series)
        np.testing.assert_allclose(time, np.arange(150) * dt)
        np.testing.assert_array_equal(file.items["p_rms"].values(), rms)
        thin, points, time = file.items["p"].series(10, 40)
        np.testing.assert_array_equal(thin, series[::4, ::4])
        assert (list(points), len(time)) == (list(range(0, 40, 4)), 38)


def test_kwave_boxes_and_a_late_start(tmp_path):
    with open_recorded(KWAVE / "pressure_source_corners_out.h5") as file, h5py.File(file.path) as raw:
        assert list(file.items)[:3] == ["p/1", "p/2", "p_final"]
        values, _, time = file.items["p/1"].series(1000, 1000)
        np.testing.assert_array_equal(values, raw["p/1"][()].reshape(140, -1).T)
        assert file.items["p_max/2"].size == (12, 14, 1)
        assert time[0] == 0
    path = tmp_path / "late.h5"
    path.write_bytes((KWAVE / "dirichlet_2d_out.h5").read_bytes())
    with h5py.File(path, "r+") as raw:
        kept = raw["p"][:, 50:]
        del raw["p"]
        raw["p"] = kept
    with open_recorded(path) as file:
        assert file.items["p"].series(99, 999)[2][0] == pytest.approx(50 * file.dt)


def test_our_files_are_read_alike(ours):
    path, results = ours["points"]
    with open_recorded(path) as file:
        assert set(file.items) == set(results)
        item = file.items["p_final"]
        assert item.extremes()[:2] == (results["p_final"].min(), results["p_final"].max())
        for normal in range(3):
            np.testing.assert_array_equal(item.plane(normal, 4), np.take(results["p_final"], 4, normal))
        values, _, time = file.items["p"].series(1000, 1000)
        np.testing.assert_array_equal(values, results["p"])
        np.testing.assert_allclose(time, results.time)
    path, results = ours["boxes"]
    with open_recorded(path) as file:
        for i in (0, 1):
            values = file.items[f"p/{i}"].series(1000, 1000)[0]
            np.testing.assert_array_equal(values, results["p"][i].reshape(-1, 20, order="F"))
            assert file.items[f"p_max/{i}"].size == results["p_max"][i].shape


def test_signed_fields_have_colours_around_zero_and_positive_ones_from_zero(ours):
    path, results = ours["points"]
    with open_recorded(path) as file:
        for name, symmetric in (("p_final", True), ("p_max_all", False)):
            figure = recorded_figure(file, name)
            top = np.abs(results[name]).max() * 1e-6  # MPa
            at = np.unravel_index(np.argmax(np.abs(results[name])), results[name].shape)
            shown = images(figure)[:3]
            for image, normal in zip(shown, (2, 1, 0), strict=True):
                plane = np.take(results[name], at[normal], normal)
                np.testing.assert_allclose(image.get_array(), plane.T * 1e-6, rtol=1e-6)
                low, high = image.get_clim()
                assert (low, high) == pytest.approx((-top if symmetric else 0, top))
            assert (shown[0].get_cmap().name == "RdBu_r") == symmetric
            assert {axes.get_xlabel() for axes in figure.axes[:3]} == {"x (mm)", "y (mm)"}
            assert figure.axes[-1].get_ylabel() == "pressure (MPa)"


def test_cuts_go_where_they_are_asked_for(ours):
    path, results = ours["points"]
    with open_recorded(path) as file:
        figure = recorded_figure(file, "p_max_all", {"z": -2e-4})
        np.testing.assert_allclose(
            images(figure)[0].get_array(), results["p_max_all"][:, :, 5 - 2].T * 1e-6, rtol=1e-6
        )
        assert figure.axes[0].get_title("left") == "z = −0.2 mm"
        with pytest.raises(
            InputError, match=r"--slice: z=5mm is outside the grid; allowed: -0\.5 to 0\.4 mm"
        ):
            recorded_figure(file, "p_max_all", {"z": 5e-3})


def test_series_are_a_picture_over_time_or_curves(ours):
    path, results = ours["boxes"]
    with open_recorded(path) as file:
        figure = recorded_figure(file, "p/0")
        (image, *_) = images(figure)
        series = results["p"][0].reshape(-1, 20, order="F")
        np.testing.assert_allclose(image.get_array(), series * 1e-6, rtol=1e-6)
        assert figure.axes[0].get_xlabel() == "time (µs)"
        left, right, *_ = image.get_extent()
        assert (left, right) == pytest.approx((-0.5 * DT * 1e6, 19.5 * DT * 1e6))
        assert sum(image.get_clim()) == 0
    with open_recorded(KWAVE / "dirichlet_2d_out.h5") as file:
        assert len(images(recorded_figure(file, "p_final"))) == 1
        (axes,) = recorded_figure(file, "p_rms").axes
        line = axes.lines[0]
        assert axes.get_ylabel() == "pressure (kPa)"
        np.testing.assert_allclose(line.get_ydata(), file.items["p_rms"].values() * 1e-3, rtol=1e-6)


def test_what_is_asked_for(ours):
    with open_recorded(ours["points"][0]) as file:
        assert select_quantities(file, []) == list(file.items)
        assert select_quantities(file, ["u_rms", "p"]) == ["ux_rms", "uy_rms", "uz_rms", "p"]
        with pytest.raises(InputError, match=r'--quantity: "q" is not in .*; allowed: .*p_final'):
            select_quantities(file, ["q"])
    with open_recorded(KWAVE / "pressure_source_corners_out.h5") as file:
        assert select_quantities(file, ["p"]) == ["p/1", "p/2"]


def test_other_files(tmp_path, ours):
    with pytest.raises(InputError, match="no such file"):
        open_recorded(tmp_path / "missing.h5")
    with pytest.raises(InputError, match="is a k-Wave input file; allowed: the output of a run"):
        open_recorded(KWAVE / "dirichlet_2d.h5")
    path = tmp_path / "bad.h5"
    path.write_bytes((KWAVE / "dirichlet_2d_out.h5").read_bytes())
    with h5py.File(path, "r+") as raw:
        field = raw["p_final"][()]
        field[0, 3, 4] = np.nan
        raw["p_final"][...] = field
    with (
        open_recorded(path) as file,
        pytest.raises(InputError, match="'p_final' has values that are not finite"),
    ):
        recorded_figure(file, "p_final")
    with h5py.File(path, "r+") as raw:
        for name in [name for name in raw if name.startswith(("p", "u"))]:
            del raw[name]
    with pytest.raises(InputError, match="holds no recorded quantity"):
        open_recorded(path)
    with h5py.File(path, "r+") as raw:
        del raw["dx"]
    with pytest.raises(InputError, match="dataset 'dx': is missing"):
        open_recorded(path)
