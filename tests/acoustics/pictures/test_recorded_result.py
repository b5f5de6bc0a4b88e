"""k-Wave's output as a result: dimensions, coordinates, units; the same from results of `simulate`."""

from pathlib import Path

import h5py
import numpy as np
import pytest

from wavefabric.acoustics import Grid, Medium, Sensor, Source, simulate
from wavefabric.acoustics.pictures.recorded_result import read_any_result
from wavefabric.base.results import Data, ResultWriter, read_result
from wavefabric.base.results.compare import compare
from wavefabric.base.results.export import export

DATA = Path(__file__).parents[2] / "data" / "kwave"
GRID = Grid((10, 8, 6), "0.2 mm", pml_size=2)
BOXES = ((2, 3, 4), (5, 4, 4)), ((0, 0, 0), (1, 1, 1))
OPTIONS = {"dt": 2e-8, "steps": 6, "device": "cpu", "threads": 1}


def pulse():
    x, y, z = np.meshgrid(*GRID.coordinates, indexing="ij")
    return Source(p0=1e5 * np.exp(-(x**2 + y**2 + z**2) / 5e-4**2))


def test_kwaves_output():
    path = DATA / "p0_homogeneous_out.h5"
    result = read_any_result(path)
    with h5py.File(path) as file:
        np.testing.assert_array_equal(result["p_final"], file["p_final"][()].transpose())
        np.testing.assert_array_equal(result["p"], file["p"][0].transpose())
        np.testing.assert_array_equal(result["p_max"], file["p_max"][0, 0])
        step, dt, spacing = file["t_index"][0, 0, 0], file["dt"][0, 0, 0], file["dx"][0, 0, 0]
    assert (result.dims("p_final"), result.dims("p"), result.dims("p_max")) == (
        *(("x", "y", "z"), ("point", "time"), ("point",)),
    )
    assert result["time"][-1] == pytest.approx((step - 1) * dt)
    assert result["x"][result.shape("p_final")[0] // 2 + 3] == pytest.approx(3 * spacing)
    assert result.attrs("p_final")["units"] == "Pa"
    assert "created_by" in result.attrs()


def test_boxes_of_kwaves_output():
    path = DATA / "pressure_source_corners_out.h5"
    result = read_any_result(path)
    with h5py.File(path) as file:
        np.testing.assert_array_equal(
            result["p/2"], np.moveaxis(file["p/2"][()], 0, -1).transpose(2, 1, 0, 3)
        )
        np.testing.assert_array_equal(result["ux_max/1"], file["ux_max/1"][()].transpose())
    assert result.dims("p/2") == ("x_box2", "y_box2", "z_box2", "time")
    assert result.coordinate("p/2", "x_box2") == "x_box2"


def test_what_simulate_wrote_has_the_same_coordinates(tmp_path):
    sensor = Sensor.boxes(*BOXES, record=("p", "p_max", "p_max_all"))
    path = tmp_path / "r.h5"
    results = simulate(GRID, Medium(1500.0, 1000.0), pulse(), sensor, output=path, **OPTIONS)
    stored, recorded = read_result(path), read_any_result(path)
    for name in ("p_max_all", "p/0", "p/1", "p_max/1"):
        np.testing.assert_array_equal(recorded[name], stored[f"recorded/{name}"])
        assert recorded.dims(name) == stored.dims(f"recorded/{name}")
        for dim in recorded.dims(name):
            np.testing.assert_allclose(recorded[dim], stored[dim], atol=1e-15)
    np.testing.assert_allclose(stored["x_box0"], GRID.coordinates[0][2:6])
    np.testing.assert_array_equal(stored["z"], GRID.coordinates[2])
    np.testing.assert_array_equal(stored["time"], results.time)


def test_amplitudes_name_their_frequency(tmp_path):
    mask = np.zeros(GRID.shape, bool)
    mask[3, 4] = True
    sensor = Sensor(mask, record=("p_amp", "p_amp_all"), frequencies=(1 / 6 / 2e-8, 2 / 6 / 2e-8))
    simulate(GRID, Medium(1500.0, 1000.0), pulse(), sensor, output=tmp_path / "r.h5", **OPTIONS)
    result = read_any_result(tmp_path / "r.h5")
    assert (result.dims("p_amp/1"), result.dims("p_amp_all/1")) == (("point",), ("x", "y", "z"))
    assert "1.66667e+07 Hz" in result.attrs("p_amp_all/1")["description"]


def test_amplitudes_in_boxes(tmp_path):
    sensor = Sensor.boxes(*BOXES, record="p_amp", frequencies=(1 / 6 / 2e-8, 2 / 6 / 2e-8))
    path = tmp_path / "r.h5"
    results = simulate(GRID, Medium(1500.0, 1000.0), pulse(), sensor, output=path, **OPTIONS)
    result = read_any_result(path)
    np.testing.assert_array_equal(result["p_amp/0/1"], results["p_amp"][0][1])
    assert result.dims("p_phase/1/0") == ("x_box0", "y_box0", "z_box0")
    np.testing.assert_allclose(result["x_box0"], GRID.coordinates[0][2:6])
    assert "1.66667e+07 Hz" in result.attrs("p_amp/1/0")["description"]
    assert len(export(result, tmp_path / "o.nc")) == 8


def test_a_pml_outside_is_left_out_of_the_comparison(tmp_path):
    source, sensor = pulse(), Sensor(record="p_final")
    simulate(GRID, Medium(1500.0, 1000.0), source, sensor, output=tmp_path / "a.h5", **OPTIONS)
    result = read_any_result(tmp_path / "a.h5")
    outer = np.pad(result["p_final"], 2, constant_values=7.0)
    outer[4 + 2, 3 + 2, 3 + 2] *= 1.5
    along = {
        name: Data((np.arange(n + 4) - (n + 4) // 2) * 2e-4, "m", "", (name,))
        for name, n in zip("xyz", GRID.shape, strict=True)
    }
    wider = ResultWriter(tmp_path / "b.h5").write(along | {"p_final": Data(outer, "Pa", "", ("x", "y", "z"))})
    (one,) = compare(result, read_result(wider))
    assert (one.points, one.where) == (10 * 8 * 6, "x -0.2 mm, y -0.2 mm, z 0 mm")
    assert one.largest == pytest.approx(
        0.5 * abs(result["p_final"][4, 3, 3]) / np.abs(result["p_final"]).max()
    )


def test_to_xarray_of_kwaves_output():
    xarray = pytest.importorskip("xarray")
    tree = read_any_result(DATA / "pressure_source_corners_out.h5").to_xarray()
    assert isinstance(tree["p/1"], xarray.DataArray)
    assert tree["p_final"].sel(x=0, y=0, z=0).dims == ()
