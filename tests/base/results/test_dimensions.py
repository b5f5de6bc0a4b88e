"""Dimensions of result files have names and coordinates; tables, xarray and pandas of results use them."""

import sys

import h5py
import numpy as np
import pytest

from wavefabric.base.errors import InputError, MissingExtra
from wavefabric.base.results import Data, ResultWriter, read_result


@pytest.fixture
def result(tmp_path):
    contents = {
        "before": Data(np.zeros(3), "", "written after its coordinate", ("x",)),
        "x": Data(np.array([0.0, 0.5, 2.0]), "m", "position", ("x",)),
        "fields": {
            "p": Data(np.arange(6.0).reshape(3, 2), "Pa", "pressure", ("x", "part")),
            "u": Data(np.arange(6).reshape(3, 2) * (1 + 2j), "m/s", "velocity", ("x", "part")),
            "own": Data(np.zeros((4, 2), bool), "", "dimensions without names"),
            "longer": Data(np.ones(5), "", "another length", ("x",)),
        },
        "words": Data(["a", "b"], "", "text", ("word",)),
        "number": Data(2.5, "s", "a number"),
    }
    return read_result(ResultWriter(tmp_path / "r.h5").write(contents))


def test_dims_and_coordinates(result):
    assert sorted(result) == [
        "before",
        "fields/longer",
        "fields/own",
        "fields/p",
        "fields/u",
        "number",
        "words",
        "x",
    ]
    assert result.dims("fields/p") == ("x", "part")
    assert result.dims("fields/own") == ("own_0", "own_1")
    assert result.dims("fields/longer") == ("longer_x",)  # x has another length
    assert result.dims("number") == ()
    assert (result.coordinate("fields/p", "x"), result.coordinate("fields/p", "part")) == ("x", None)
    assert result.shape("fields/own") == (4, 2)
    assert result.quantities() == ["before", "fields/longer", "fields/own", "fields/p", "fields/u", "number"]


def test_scales_are_those_of_netcdf(result):
    with h5py.File(result.path) as file:
        for name, dims in (("p", ["/x", "/fields/part"]), ("own", ["/fields/own_0", "/fields/own_1"])):
            assert [dim[0].name for dim in file["fields"][name].dims] == dims
        name = file["fields/part"].attrs["NAME"].decode()
    assert name == "This is a netCDF dimension but not a netCDF variable.         2"


def test_tables_have_a_row_per_point(result):
    parts = list(result.tables(["fields/p", "fields/u"], rows=4))
    assert [part["x"].size for part in parts] == [4, 2]
    table = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    assert list(table) == ["x", "part", "fields/p", "fields/u_real", "fields/u_imag"]
    assert table["x"].tolist() == [0, 0, 0.5, 0.5, 2, 2]
    assert table["part"].tolist() == [0, 1] * 3
    assert table["fields/p"].tolist() == [0, 1, 2, 3, 4, 5]
    assert table["fields/u_imag"].tolist() == [0, 2, 4, 6, 8, 10]
    assert [part["number"].tolist() for part in result.tables(["number"])] == [[2.5]]


def test_alike_quantities(result):
    assert result.alike() == ["fields/p", "fields/u"]
    assert result.alike(["number"]) == ["number"]
    with pytest.raises(InputError, match=r"fields/p \(x, part\); number \(\); allowed: .* same dimensions"):
        result.alike(["fields/p", "number"])
    with pytest.raises(InputError, match=r"did you mean fields/"):
        result.alike(["fields/q"])


def test_to_pandas(result):
    pytest.importorskip("pandas")
    frame = result.to_pandas("fields/p")
    assert frame.set_index(["x", "part"])["fields/p"].loc[2.0, 1] == 5
    assert list(result.to_pandas().columns) == ["x", "part", "fields/p", "fields/u_real", "fields/u_imag"]


def test_xarray_opens_the_file_as_to_xarray_does(result):
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf")
    tree = result.to_xarray()
    assert tree["fields/p"].sel(x=0.5, part=1) == 3
    assert tree["fields/p"].attrs == {"units": "Pa", "description": "pressure"}
    assert tree["fields"].coords["x"].attrs["units"] == "m"
    with xarray.open_datatree(result.path, engine="h5netcdf") as opened:
        assert {name for node in opened.subtree for name in node.dataset.dims} == {
            *("x", "part", "own_0", "own_1", "longer_x", "word")
        }
        for name in ("p", "u", "own", "longer"):
            assert opened["fields"][name].dims == tree["fields"][name].dims
            np.testing.assert_array_equal(opened["fields"][name], tree["fields"][name])


@pytest.mark.parametrize("name", ["xarray", "pandas"])
def test_a_missing_package_is_named(result, monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtra, match=rf"to_{name} needs .* 'wavefabric\[xarray\]'"):
        getattr(result, f"to_{name}")()


def test_older_files_have_numbered_dimensions(result):
    with h5py.File(result.path, "r+") as file:
        del file["fields/p"].attrs["dimensions"]
    older = read_result(result.path)
    assert older.dims("fields/p") == ("p_0", "p_1")
    assert next(older.tables(["fields/p"]))["p_0"].tolist() == [0, 0, 1, 1, 2, 2]
