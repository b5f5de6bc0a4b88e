"""`wavefabric plot` with results of ultrasound."""

import os
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest
from matplotlib.image import imread

from wavefabric.acoustics import Grid, Medium, Source, simulate

DATA = Path(__file__).parents[1] / "data" / "kwave"


@pytest.fixture
def out(tmp_path):
    shutil.copy(DATA / "dirichlet_2d_out.h5", tmp_path / "out.h5")
    return "out.h5"


@pytest.mark.slow
def test_all_of_a_kwave_file(command, tmp_path, out):
    code, said, err = command("plot", out, "-o", "figures", "--format", "svg")
    assert (code, err) == (0, "")
    names = ["p", "p_final", "p_rms", "ux_final", "uy_final"]
    assert sorted(os.listdir(tmp_path / "figures")) == [f"out-{name}.svg" for name in names]
    assert said.count("wrote ") == 5


def test_one_quantity_in_one_file(command, tmp_path):
    shutil.copy(DATA / "p0_homogeneous_out.h5", tmp_path / "out.h5")
    code, _, err = command("plot", "out.h5", "--quantity", "p_final", "--slice", "z=0mm", "-o", "final.png")
    assert (code, err) == (0, "")
    assert sorted(os.listdir(tmp_path)) == ["final.png", "out.h5"]
    assert np.ptp(imread(tmp_path / "final.png")) > 0.5


def test_what_simulate_wrote(command, tmp_path):
    grid = Grid((20, 16), 1e-4, pml_size=4)
    options = {"dt": 2e-8, "steps": 5, "device": "cpu", "threads": 1, "output": tmp_path / "r.h5"}
    simulate(grid, Medium(1500.0, 1000.0), Source(p0=np.outer(np.hanning(20), np.hanning(16))), **options)
    assert command("plot", "r.h5")[0] == 0
    assert sorted(os.listdir(tmp_path)) == ["r-p_final.png", "r-p_max_all.png", "r.h5"]


def test_nothing_is_replaced_without_force(command, tmp_path, out):
    picture = tmp_path / "out-p_rms.png"
    picture.write_text("mine")
    words = ("plot", out, "--quantity", "p_rms")
    code, _, err = command(*words)
    assert (code, picture.read_text()) == (2, "mine")
    assert "out-p_rms.png exists; allowed: another name, or --force" in err
    assert command(*words, "--force")[0] == 0
    assert picture.stat().st_size > 5000


@pytest.mark.slow
def test_what_is_damaged_is_named_and_the_others_are_drawn(command, tmp_path, out):
    with h5py.File(out, "r+") as file:
        file["p_final"][0, 3, 4] = np.nan
        del file["ux_final"]
        file["ux_final"] = np.float32(1)
    code, said, err = command("plot", out)
    assert (code, err.count("\n")) == (2, 1)
    assert "'p_final' has values that are not finite; ux_final cannot be drawn either; the others are" in err
    names = ["out-p.png", "out-p_rms.png", "out-uy_final.png"]
    assert sorted(os.listdir(tmp_path)) == [*names, "out.h5"]
    assert [line for line in said.splitlines()] == [f"wrote {name}" for name in names]


def test_a_field_of_which_nothing_was_written(command, tmp_path):
    grid = Grid((8, 8, 6), 1e-4, pml_size=2)
    options = {"dt": 2e-8, "steps": 2, "device": "cpu", "threads": 1, "output": tmp_path / "r.h5"}
    simulate(grid, Medium(1500.0, 1000.0), Source(p0=np.ones(grid.shape)), **options)
    with h5py.File("r.h5", "r+") as file:
        del file["recorded/p_final"], file["recorded/p_max_all"], file["grid/shape"]
        file["grid/shape"] = np.full(3, 4000)
        file.create_dataset("recorded/p_final", (4000,) * 3, np.float32, chunks=(100,) * 3)
    code, said, err = command("plot", "r.h5")
    assert (code, said, err.count("\n")) == (2, "", 1)
    assert "'recorded/p_final': has the shape (4000, 4000, 4000), but only 0 bytes of it were written" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--quantity", "p_maxall"], '--quantity: "p_maxall" is not in out.h5; allowed: p, p_final, p_rms'),
        (["--slice", "z=1mm"], "--slice: z=1mm for a grid of 2 dimensions"),
        (["--slice", "1mm"], "--slice: 1mm; allowed: x, y or z once each with a place, such as z=5mm"),
        (["-o", "one.png"], "--output: one.png is one file for 5 figures"),
        (["-o", "out.h5/x"], "--output: out.h5/x"),
        (["-o", "one.png", "--quantity", "p", "--format", "svg"], "--format: svg with --output one.png"),
    ],
)
def test_bad_options(command, tmp_path, out, words, message):
    code, _, err = command("plot", out, *words)
    assert code == 2
    assert message in err
    assert err.count("\n") == 1
    assert os.listdir(tmp_path) == ["out.h5"]


def test_other_files(command, tmp_path):
    shutil.copy(DATA / "dirichlet_2d.h5", tmp_path / "in.h5")
    assert "in.h5: is a k-Wave input file" in command("plot", "in.h5")[2]
    assert "missing.h5: no such file" in command("plot", "missing.h5", "--quantity", "p")[2]


@pytest.mark.slow
def test_a_sweep(command, tmp_path, run_text):
    (tmp_path / "run.toml").write_text(run_text.replace("1 km", "20 km") + "[output]\nfigures = false\n")
    words = ("sweep", "run.toml", "-q", "--set", "seed=1,2", "--set", "link.spans=1,2", "-o", "s.h5")
    assert command(*words)[0] == 0
    code, said, err = command(
        "plot", "s.h5", "--over", "distance", "--quantity", "evm", "--mode", "2", "-o", "new"
    )
    assert (code, said, err) == (0, "wrote new/s-evm-over-distance.png\n", "")
    assert np.ptp(imread(tmp_path / "new" / "s-evm-over-distance.png")) > 0.5
    assert command("plot", "s.h5")[1].count("wrote") == 2
    code, _, err = command("plot", "s.h5", "--over", "distances")
    assert (code, err.count("\n")) == (2, 1)
    assert "--over: distances given; allowed: seed, link.spans, distance" in err
    code, _, err = command("plot", "s.h5", "--movie", "p")
    assert (code, err.count("\n")) == (2, 1)


@pytest.mark.slow
def test_options_of_a_sweep_with_other_results(command, tmp_path, out, run_text):
    assert "--over: seed given with a result of ultrasound" in command("plot", out, "--over", "seed")[2]
    (tmp_path / "run.toml").write_text(run_text.replace("1 km", "20 km") + "[output]\nfigures = false\n")
    assert command("run", "run.toml", "-q")[0] == 0
    assert command("plot", "run.h5", "--mode", "1")[0] == 0
    code, _, err = command("plot", "run.h5", "--over", "seed")
    assert (code, err.count("\n")) == (2, 1)
    assert "--over: seed given with a result of one run; allowed: with that of a sweep" in err
