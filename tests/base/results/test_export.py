"""Exports of results: what is read back equals what was written."""

import csv
import gzip
import os

import numpy as np
import pytest
from scipy.io import loadmat

from wavefabric.base.errors import InputError, MissingExtra
from wavefabric.base.results import Data, ResultWriter, read_result
from wavefabric.base.results.export import export, selected

SHAPE = (4, 3, 2)
VALUES = np.random.default_rng(0).normal(size=SHAPE)
AXES = {"x": np.arange(4) * 2e-3 - 4e-3, "y": np.arange(3) * 1e-3, "z": np.arange(2) * 3e-3}


@pytest.fixture
def result(tmp_path):
    contents = {name: Data(along, "m", "", (name,)) for name, along in AXES.items()} | {
        "fields": {
            "attrs": {"device": "cpu"},
            "p_amp": Data(VALUES, "Pa", "pressure", ("x", "y", "z")),
            "dose": Data(VALUES.astype("f4") + 1, "min", "dose", ("x", "y", "z")),
            "bone": Data(VALUES > 0, "", "bone", ("x", "y", "z")),
        },
        "signal.gain": Data(np.array([1.0, np.nan]), "dB", "gain", ("mode",)),
        "mode": Data(["LP01", "LP11"], "", "modes", ("mode",)),
        "field": Data(np.array([1 + 2j, 3j]), "W^0.5", "envelope", ("sample",)),
    }
    return read_result(ResultWriter(tmp_path / "r.h5").write(contents))


def test_csv_has_coordinates_units_and_all_digits(result, tmp_path):
    assert export(result, tmp_path / "o.csv", ["p_amp", "dose"]) == ["fields/p_amp", "fields/dose"]
    with open(tmp_path / "o.csv", newline="") as file:
        head, *rows = csv.reader(file)
    assert head[:3] == ["x (m)", "y (m)", "z (m)"]
    column = head.index("fields/p_amp (Pa)")
    assert [float(row[column]) for row in rows] == VALUES.reshape(-1).tolist()
    assert [float(each) for each in rows[7][:3]] == [AXES["x"][1], AXES["y"][0], AXES["z"][1]]
    assert export(result, tmp_path / "g.csv", ["signal.gain"]) == ["signal.gain"]
    assert (tmp_path / "g.csv").read_text().split() == ["mode,signal.gain", "(dB)", "LP01,1.0", "LP11,nan"]


def test_matlab(result, tmp_path):
    export(result, tmp_path / "o.mat")
    content = loadmat(tmp_path / "o.mat", simplify_cells=True)
    np.testing.assert_array_equal(content["fields"]["p_amp"], VALUES)
    np.testing.assert_array_equal(content["fields"]["bone"], VALUES > 0)
    np.testing.assert_array_equal(content["field"], [1 + 2j, 3j])
    np.testing.assert_array_equal(content["x"], AXES["x"])
    assert content["mode"].tolist() == ["LP01", "LP11"]
    assert content["units"]["fields"]["dose"] == "min"
    assert content["dimensions"]["fields"]["dose"] == "x y z"
    assert content["units"]["signal_gain"] == "dB"


def test_netcdf(result, tmp_path):
    export(result, tmp_path / "o.nc")
    again = read_result(tmp_path / "o.nc")
    np.testing.assert_array_equal(again["fields/p_amp"], VALUES)
    assert (again["fields/bone"].dtype, again.dims("fields/bone")) == (np.int8, ("x", "y", "z"))
    np.testing.assert_array_equal(again["field_imag"], [2, 3])
    assert again.attrs("fields") == {"device": "cpu"}
    assert again["mode"] == ["LP01", "LP11"]
    export(result, tmp_path / "one.nc", ["dose"])
    assert sorted(read_result(tmp_path / "one.nc")) == ["fields/dose", "x", "y", "z"]
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf")
    with xarray.open_datatree(tmp_path / "o.nc", engine="h5netcdf") as tree:
        np.testing.assert_array_equal(tree["fields/p_amp"], VALUES)
        assert tree["fields/p_amp"].sel(y=1e-3, z=3e-3, x=-2e-3) == VALUES[1, 1, 1]


def test_vtk(result, tmp_path):
    assert len(export(result, tmp_path / "o.vtk", ["p_amp"])) == 1
    head, _, values = (tmp_path / "o.vtk").read_bytes().partition(b"LOOKUP_TABLE default\n")
    lines = head.decode().splitlines()
    assert lines[0] == "# vtk DataFile Version 3.0"
    assert lines[2:7] == [
        *("BINARY", "DATASET STRUCTURED_POINTS", "DIMENSIONS 4 3 2", "ORIGIN -4 0 0", "SPACING 2 1 3")
    ]
    assert lines[7:] == ["POINT_DATA 24", "SCALARS fields_p_amp double 1"]
    read = np.frombuffer(values[:-1], ">f8").reshape(SHAPE, order="F")  # x fastest
    np.testing.assert_array_equal(read, VALUES)
    export(result, tmp_path / "all.vtk")
    assert (tmp_path / "all.vtk").read_bytes().count(b"SCALARS") == 3


def test_nifti(result, tmp_path):
    nibabel = pytest.importorskip("nibabel")
    for name in ("o.nii", "o.nii.gz"):
        export(result, tmp_path / name, ["dose"])
        image = nibabel.load(tmp_path / name)
        np.testing.assert_array_equal(np.asarray(image.dataobj), VALUES.astype("f4") + 1)
        np.testing.assert_allclose(image.affine, [[2, 0, 0, -4], [0, 1, 0, 0], [0, 0, 3, 0], [0, 0, 0, 1]])
        assert image.header.get_xyzt_units()[0] == "mm"
    assert gzip.decompress((tmp_path / "o.nii.gz").read_bytes()) == (tmp_path / "o.nii").read_bytes()


def test_nifti_is_in_the_world_of_the_ct(tmp_path):
    nibabel = pytest.importorskip("nibabel")
    directions = np.array([[0, 1, 0], [-1, 0, 0], [0, 0, 1.0]])
    contents = {name: Data(along, "m", "", (name,)) for name, along in AXES.items()} | {
        "p": Data(VALUES, "Pa", "", ("x", "y", "z")),
        "grid": {"origin": Data([0.1, 0.2, 0.3], "m", ""), "axes": Data(directions, "", "")},
    }
    export(read_result(ResultWriter(tmp_path / "w.h5").write(contents)), tmp_path / "w.nii")
    position = nibabel.load(tmp_path / "w.nii").affine @ [3, 2, 1, 1]
    expected = [0.1, 0.2, 0.3] + AXES["x"][3] * directions[0] + AXES["y"][2] * directions[1]
    np.testing.assert_allclose(position[:3], 1e3 * (expected + AXES["z"][1] * directions[2]))


def test_without_nibabel(result, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "nibabel", None)
    with pytest.raises(MissingExtra, match=r"wavefabric\[nifti\]"):
        export(result, tmp_path / "o.nii", ["dose"])
    assert os.listdir(tmp_path) == ["r.h5"]


@pytest.mark.parametrize(
    ("name", "quantities", "words"),
    [
        ("o.xls", [], r"o\.xls given; allowed: a name that ends in \.csv, \.nc, "),
        ("o.csv", ["p_amq"], r"--quantity: \"p_amq\" given"),
        ("o.csv", ["dose", "signal.gain"], r"allowed: quantities that have the same dimensions"),
        ("o.vtk", ["signal.gain"], r"signal\.gain \(mode\); allowed: fields: fields/bone"),
        ("o.nii", [], r"--quantity: 3 fields for one file; allowed: one of fields/bone"),
        ("r.h5", [], "r.h5 given"),
    ],
)
def test_what_is_refused(result, tmp_path, name, quantities, words):
    with pytest.raises(InputError, match=words):
        export(result, tmp_path / name, quantities)
    assert os.listdir(tmp_path) == ["r.h5"]


def test_overwrites_only_by_force(result, tmp_path):
    export(result, tmp_path / "o.csv", ["dose"])
    with pytest.raises(InputError, match="--force"):
        export(result, tmp_path / "o.csv", ["p_amp"])
    export(result, tmp_path / "o.csv", ["p_amp"], force=True)
    assert "p_amp" in (tmp_path / "o.csv").read_text()


def test_selected_by_a_part_of_a_key(result):
    assert selected(result, ["fields"]) == ["fields/bone", "fields/dose", "fields/p_amp"]
    assert selected(result, ["dose", "fields/dose"]) == ["fields/dose"]
