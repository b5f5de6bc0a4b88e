"""Result files: written whole or not at all, with a unit and a meaning on every dataset."""

import importlib
import os
import shutil
import subprocess
import sys
from datetime import datetime, timedelta, timezone

import h5py
import numpy as np
import pytest

import wavefabric
from wavefabric.base.errors import InputError
from wavefabric.base.results import Data, ResultWriter, Rows, fingerprint, provenance, read_result
from wavefabric.base.results import provenance as provenance_function
from wavefabric.base.results.provenance import NUMERICAL, command_line


def test_round_trip(result_file, payload):
    result = read_result(result_file)
    np.testing.assert_array_equal(
        result["received/span_1/q_squared_db"], payload["received"]["span_1"]["q_squared_db"].value
    )
    np.testing.assert_array_equal(
        result["/received/span_1/constellation"], payload["received"]["span_1"]["constellation"].value
    )
    assert result["fibre/labels"][:3] == ["LP01", "LP11a", "LP11b"]
    assert result["run_file"] == 'title = "x"\n'
    assert sorted(result.groups("received")) == ["back_to_back", "span_1", "span_2"]
    assert sorted(result.groups()) == ["fibre", "received", "solver"]
    assert result.attrs("received/span_2")["distance_m"] == 160e3
    assert result.attrs("solver")["integrator"] == "rk4ip"
    assert result.attrs()["wavefabric"]
    assert "received/span_1/absent" not in result
    assert len(result) == len(list(result))


def test_every_dataset_says_its_unit_and_meaning(result_file):
    with h5py.File(result_file) as file:

        def check(name, item):
            if isinstance(item, h5py.Dataset):
                assert set(item.attrs) >= {"units", "description"}, name
                assert item.attrs["description"]

        file.visititems(check)


def test_streamed_rows(tmp_path):
    field = np.arange(12.0).reshape(3, 4) * (1 + 1j)
    rows = Rows(field.shape, field.dtype, lambda i: field[i])
    ResultWriter(tmp_path / "r.h5").write({"field": Data(rows, "sqrt(W)", "field")})
    np.testing.assert_array_equal(read_result(tmp_path / "r.h5")["field"], field)


def test_overwrites_only_by_force(tmp_path):
    path = tmp_path / "r.h5"
    ResultWriter(path).write({"a": (1, "m", "one")})
    with pytest.raises(InputError, match="--force"):
        ResultWriter(path).write({"a": (2, "m", "two")})
    assert read_result(path)["a"] == 1
    ResultWriter(path, force=True).write({"a": (2, "m", "two")})
    assert read_result(path)["a"] == 2
    assert os.listdir(tmp_path) == ["r.h5"]


def test_a_file_that_appeared_during_the_run_is_kept(tmp_path):
    writer = ResultWriter(tmp_path / "r.h5")
    (tmp_path / "r.h5").write_text("mine")
    with pytest.raises(InputError, match="exists"):
        writer.write({})
    assert (tmp_path / "r.h5").read_text() == "mine"


def test_a_failed_write_leaves_nothing(tmp_path):
    def broken(i):
        raise OSError("disk full")

    with pytest.raises(InputError, match="disk full"):
        ResultWriter(tmp_path / "r.h5").write({"a": Data(Rows((2, 2), np.dtype(float), broken), "", "x")})
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["absent/r.h5", "file/r.h5", ".", "x" * 300])
def test_bad_places_are_refused_before_the_run(tmp_path, name):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"output\.file"):
        ResultWriter(tmp_path / name)
    assert os.listdir(tmp_path) == ["file"]


def test_what_is_no_result(tmp_path, result_file):
    (tmp_path / "text").write_text("text")
    with h5py.File(tmp_path / "foreign.h5", "w"):
        pass
    with h5py.File(result_file, "r+") as file:
        file.attrs["format_version"] = 99
    for name, words in [
        ("absent", "no such file"),
        ("text", "not an HDF5 file"),
        ("foreign.h5", "not a result"),
        (".", "is a folder"),
        (result_file.name, "newer"),
    ]:
        with pytest.raises(InputError, match=words):
            read_result(tmp_path / name)


def test_provenance_is_text_without_places_or_names():
    import platform

    facts = provenance(device="cpu")
    assert all(isinstance(text, str) and text for text in facts.values())
    assert {"wavefabric", "python", "numpy", "h5py", "cpu", "device", "started_utc", "written_utc"} <= set(
        facts
    )
    text = " ".join(facts.values())
    assert not any(word.startswith("/") for word in text.split())
    assert platform.node() not in text.split()
    assert provenance_function is provenance


def test_command_line_hides_folders():
    words = ["/opt/x/bin/wavefabric", "run", "/home/me/a.toml", "--output=/tmp/o.h5", "-o", "b/c.h5", "--n=3"]
    assert command_line(words) == "wavefabric run a.toml --output=o.h5 -o b/c.h5 --n=3"


def test_fingerprint_tells_runs_apart():
    one = fingerprint("a", device="cpu")
    assert one == fingerprint("a", device="cpu")
    assert len({one, fingerprint("b", device="cpu"), fingerprint("a", device="cuda"), fingerprint("a")}) == 4


def test_import_needs_no_matplotlib():
    program = "import sys, wavefabric.optics.link.figures; print('matplotlib' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout == "False\n"


def test_fingerprint_tells_versions_apart(monkeypatch):
    """Another NumPy, SciPy, … or another wavefabric may round otherwise."""
    module = importlib.import_module("wavefabric.base.results.provenance")  # not the function of that name
    seen = {fingerprint("a")}
    for changed in NUMERICAL:
        result = {name: "2" if name == changed else "1" for name in NUMERICAL}
        monkeypatch.setattr(module, "versions", lambda names, result=result: {n: result[n] for n in names})
        seen.add(fingerprint("a"))
    monkeypatch.undo()
    assert set(module.versions(NUMERICAL)) >= {"numpy", "scipy"}
    monkeypatch.setattr(wavefabric, "__version__", "0.0.1")
    seen.add(fingerprint("a"))
    monkeypatch.setattr(module, "CPU_SOURCES", ())
    seen.add(fingerprint("a"))
    assert len(seen) == len(NUMERICAL) + 3


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_commit_of_the_checkout_alone(monkeypatch, tmp_path):
    """Of the package's own repository, marked if a file of it was edited; none of any other."""
    module = importlib.import_module("wavefabric.base.results.provenance")
    package = tmp_path / "src" / "wavefabric"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    monkeypatch.setattr(wavefabric, "__file__", str(package / "__init__.py"))
    assert module.git_commit() == ""
    who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    for words in (["init", "-q"], ["add", "-A"], [*who, "commit", "-q", "-m", "a"]):
        assert module.git_commit() == ""  # nothing is committed yet
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert module.git_commit() == head.stdout.strip()
    (package / "new.py").write_text("")
    assert module.git_commit() == head.stdout.strip()
    (package / "__init__.py").write_text("edited")
    assert module.git_commit() == head.stdout.strip() + "+"
    monkeypatch.setattr(wavefabric, "__file__", str(tmp_path / "src" / "__init__.py"))
    assert module.git_commit() == ""


def test_when_a_run_began():
    module = importlib.import_module("wavefabric.base.results.provenance")
    inputs = datetime(2020, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=1)))
    assert module.stamp(inputs) == "2020-01-02T02:04:05Z"
    assert provenance()["started_utc"] == module.stamp(module._STARTED)


def test_fingerprint_keeps_values_apart():
    """What one value ends with cannot pass for the next one."""
    assert fingerprint("a", one="b", two="c") != fingerprint("a", one="b;two=1:c")
    assert fingerprint("a", one="x") != fingerprint("a", two="x")
