"""Two runs that want the same files: nothing is mixed, nothing is lost, and the second is told."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

from wavefabric.base.results.lock import FileLock

DATA = Path(__file__).parents[1] / "data" / "kwave"
LEG = ["--p_raw", "-t", "1", "--checkpoint_timesteps", "40", "-o", "o.h5"]


def louder(folder, factor):
    """The same case with another initial pressure: another run with the same layout."""
    shutil.copy(DATA / "p0_homogeneous.h5", folder / "b.h5")
    with h5py.File(folder / "b.h5", "r+") as file:
        file["p0_source_input"][...] = file["p0_source_input"][()] * np.float32(factor)


@pytest.fixture
def two_inputs(tmp_path):
    shutil.copy(DATA / "p0_homogeneous.h5", tmp_path / "a.h5")
    louder(tmp_path, 3)
    return tmp_path


def kwave(command, name, checkpoint, *more):
    return command("kwave", "-i", name, *LEG, "--checkpoint_file", checkpoint, *more)


@pytest.mark.slow
def test_kwave_runs_of_one_output_are_not_mixed(command, two_inputs):
    def legs(name, checkpoint, *more):
        while not Path("o.h5").exists():
            assert kwave(command, name, checkpoint, *more)[0] == 0
        with h5py.File("o.h5") as file:
            return file["p"][()]

    wanted = legs("a.h5", "A")
    os.unlink("o.h5")
    assert kwave(command, "a.h5", "A")[0] == 0
    before = Path("o.h5.partial").read_bytes(), Path("A").read_bytes()
    code, _, err = kwave(command, "b.h5", "B")
    assert code == 2
    assert "o.h5.partial is the unfinished output of another run, which resumes from" in err
    assert (Path("o.h5.partial").read_bytes(), Path("A").read_bytes()) == before
    np.testing.assert_array_equal(legs("a.h5", "A"), wanted)
    os.unlink("o.h5")
    # Where the second was told to replace the first, the first cannot go on with what is not its own.
    assert kwave(command, "a.h5", "A")[0] == 0
    assert kwave(command, "b.h5", "B", "--force")[0] == 0
    for more, words in (
        ([], "the unfinished output of another"),
        (["--force"], "another run than the checkpoint"),
    ):
        code, _, err = kwave(command, "a.h5", "A", *more)
        assert code == 2
        assert words in err
    assert not np.array_equal(legs("b.h5", "B"), wanted)
    assert sorted(os.listdir()) == ["A", "a.h5", "b.h5", "o.h5"]


def test_an_output_without_its_checkpoint_holds_nobody_up(command, two_inputs):
    assert kwave(command, "a.h5", "A")[0] == 0
    os.unlink("A")
    assert kwave(command, "b.h5", "B")[0] == 0


def test_kwave_output_in_use(command, two_inputs):
    assert kwave(command, "a.h5", "A")[0] == 0
    files = {name: Path(name).read_bytes() for name in os.listdir()}
    held = FileLock("o.h5")
    code, _, err = kwave(command, "b.h5", "B", "--force")
    assert (code, err.count("\n")) == (2, 1)
    assert f"output: o.h5 is in use by process {os.getpid()}" in err
    held.release()
    held = FileLock("A")
    code, _, err = kwave(command, "a.h5", "A")
    assert (code, err.count("\n")) == (2, 1)
    assert f"checkpoint: A is in use by process {os.getpid()}" in err
    held.release()
    assert {name: Path(name).read_bytes() for name in os.listdir()} == files


def test_fibre_output_in_use(command, run_text):
    Path("run.toml").write_text(run_text)
    Path("run.h5").write_text("mine")
    held = FileLock("run.h5")
    code, _, err = command("run", "run.toml", "--force", "-q")
    assert (code, err.count("\n")) == (2, 1)
    assert f"run.h5 is in use by process {os.getpid()}" in err
    held.release()
    assert Path("run.h5").read_text() == "mine"
    assert sorted(os.listdir()) == ["run.h5", "run.toml"]


def test_a_refused_command_leaves_the_progress_of_another(command, two_inputs, run_text):
    assert kwave(command, "a.h5", "A")[0] == 0
    files = {name: Path(name).read_bytes() for name in os.listdir()}
    Path("run.toml").write_text(run_text.replace('osnr = "20 dB"', 'osnr = "-2000 dB"'))
    assert command("run", "run.toml", "-o", "o.h5")[0] == 2
    os.unlink("run.toml")
    assert kwave(command, "b.h5", "B")[0] == 2
    assert {name: Path(name).read_bytes() for name in os.listdir()} == files


@pytest.mark.parametrize("options", [[], ["--force"]])
def test_the_run_file_is_not_replaced(command, run_text, options):
    Path("f.toml").write_text(run_text)
    code, _, err = command("run", "f.toml", "-o", "f.toml", *options)
    assert (code, err.count("\n")) == (2, 1)
    assert "f.toml is an input of this run" in err
    assert Path("f.toml").read_text() == run_text
    assert os.listdir() == ["f.toml"]


@pytest.mark.parametrize("output", ["", "/", ".", "/dev/null", "pipe", "link"])
def test_outputs_that_are_no_files(command, run_text, output):
    Path("f.toml").write_text(run_text)
    os.mkfifo("pipe")
    os.symlink("f.toml", "link")
    shutil.copy(DATA / "dirichlet_2d.h5", "in.h5")
    for words in (["run", "f.toml"], ["run", "in.h5"], ["kwave", "-i", "in.h5"]):
        code, _, err = command(*words, "-o", output, "--force")
        assert (code, err.count("\n")) == (2, 1), err
        assert "allowed" in err
    assert sorted(os.listdir()) == ["f.toml", "in.h5", "link", "pipe"]
    assert Path("link").is_symlink()
    assert Path("/dev/null").is_char_device()


@pytest.mark.slow
def test_names_that_are_not_utf8(tmp_path, run_text):
    """Refused before the run where it is the output; where it is an input the run ends well."""
    name = os.fsdecode(b"r\xff.toml")
    (tmp_path / name).write_text(run_text.replace("1 km", "500 m"))

    def start(*words):
        command = [sys.executable, "-m", "wavefabric", "run", name, "-q", *words]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=120)

    result = start()
    assert (result.returncode, result.stderr.count(b"\n")) == (2, 1)
    assert b"is not UTF-8" in result.stderr
    assert os.listdir(tmp_path) == [name]
    result = start("-o", "o.h5")
    assert (result.returncode, result.stderr) == (0, b"")
    with h5py.File(tmp_path / "o.h5") as file:
        assert r"r\udcff.toml" in file.attrs["command"]
