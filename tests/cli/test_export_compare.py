"""`wavefabric export` and `wavefabric compare` on files that there are."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from wavefabric.base.results import Data, ResultWriter

DATA = Path(__file__).parents[1] / "data" / "kwave"
OUT = DATA / "dirichlet_2d_out.h5"


def write(path, scale=1.0, **more):
    x = Data(np.arange(5.0) * 1e-3, "m", "", ("x",))
    y = Data(np.arange(4.0) * 1e-3, "m", "", ("y",))
    field = np.arange(20.0).reshape(5, 4)
    field[2, 1] *= scale
    contents = {"x": x, "y": y, "p": Data(field, "Pa", "", ("x", "y"))}
    ResultWriter(path).write(contents | {name: Data(value, "", "") for name, value in more.items()})
    return path.name


def test_export_of_kwaves_output(command, tmp_path):
    code, said, err = command("export", OUT, "-o", "o.csv", "--quantity", "p_final", "--json")
    assert (code, err) == (0, "")
    assert json.loads(said) == {"quantities": ["p_final"], "written": ["o.csv"]}
    assert (tmp_path / "o.csv").read_text().startswith("x (m),y (m),p_final (Pa)\n")
    code, said, err = command("export", OUT, "-o", "o.vtk")
    assert (code, said, err) == (0, "p_final, ux_final, uy_final\nwrote o.vtk\n", "")
    assert command("export", OUT, "-o", "o.vtk")[0] == 2
    assert command("export", OUT, "-o", "o.vtk", "--force")[0] == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([OUT, "-o", "o.xyz"], "--output: o.xyz given; allowed: a name that ends in .csv"),
        ([OUT, "-o", "o.vtk", "--quantity", "p"], "--quantity: p (point, time); allowed: fields: p_final"),
        ([OUT, "-o", "o.csv", "--quantity", "p_finl"], '--quantity: "p_finl" given (did you mean p_final?)'),
        (
            [OUT, "-o", "o.nii.gz"],
            "dirichlet_2d_out.h5 holds no field over x, y, z; allowed: .csv, .nc, .mat",
        ),
        ([DATA / "dirichlet_2d.h5", "-o", "o.csv"], "is a k-Wave input file"),
        ([Path(__file__), "-o", "o.csv"], "is not an HDF5 file"),
    ],
)
def test_exports_that_are_refused(command, tmp_path, words, message):
    code, said, err = command("export", *words)
    assert (code, said, err.count("\n")) == (2, "", 1)
    assert message in err
    assert os.listdir(tmp_path) == []


def test_compare(command, tmp_path):
    one, two = write(tmp_path / "a.h5", only=1), write(tmp_path / "b.h5", 1.1, other=2)
    code, said, err = command("compare", one, two, "-o", "c.png", "--tolerance", "0.05")
    assert (code, err) == (0, "")
    assert "0.0474" in said  # 0.9 Pa of 19 Pa
    assert "x 2 mm, y 1 mm" in said
    assert said.splitlines()[-3:] == ["only in a.h5: only", "only in b.h5: other", "wrote c.png"]
    assert np.ptp(imread(tmp_path / "c.png")) > 0.5
    code, said, _ = command("compare", one, two, "--json", "--tolerance", "0.04")
    facts = json.loads(said)
    assert code == 1
    assert (facts["only_first"], facts["only_second"]) == (["only"], ["other"])
    assert facts["quantities"][0]["largest"] == pytest.approx(0.9 / 19)


def test_kwaves_output_with_itself(command):
    code, said, err = command("compare", OUT, OUT, "--tolerance", "0", "--json")
    assert (code, err) == (0, "")
    assert {each["quantity"] for each in json.loads(said)["quantities"]} == {
        *("p", "p_final", "p_rms", "ux_final", "uy_final")
    }


def test_comparisons_that_are_refused(command, tmp_path):
    one = write(tmp_path / "a.h5")
    ResultWriter(tmp_path / "n.h5").write({"n": (1, "", "")})
    for words, message in (
        ([one, "n.h5"], "n.h5: has no quantity of a.h5"),
        (["n.h5", "n.h5", "-o", "c.png"], "--output: the results have no common field over x, y(, z)"),
        ([one, one, "-o", "c.gif"], "--output: c.gif given; allowed: a name that ends in .png, .svg, .pdf"),
        ([one, one, "--quantity", "q"], '--quantity: "q" given'),
        ([one, one, "--tolerance", "-1"], "--tolerance: -1.0 given"),
    ):
        code, said, err = command("compare", *words)
        assert (code, said, err.count("\n")) == (2, "", 1)
        assert message in err
    assert sorted(os.listdir(tmp_path)) == ["a.h5", "n.h5"]
