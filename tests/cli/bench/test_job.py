"""``job``: a whole command in processes of its own, on a tiny file; k-Wave is a fake that does nothing."""

import json
import os
import sys

import pytest

from wavefabric.acoustics.kwave.input import write_input
from wavefabric.cli.bench.ultrasound_cases import points, problem

PHASES = {"start", "loading", "preprocessing", "compilation", "simulation", "postprocessing"}


@pytest.fixture
def file(tmp_path):
    shape = (16, 12, 10)
    return write_input(tmp_path / "in.h5", problem("homogeneous", shape, 40), points(shape))


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "kspaceFirstOrder-fake"
    path.write_text(f"#!{sys.executable}\nimport sys\nassert sys.argv[1] == '-i' and '-p' in sys.argv\n")
    path.chmod(0o755)
    return path


def test_phases_of_a_job(command, file, program):
    words = "job", file, "--repeats", 1, "--device", "cpu", "--threads", 1, "--peer", program, "-o", "out"
    code, out, err = command(*words)
    assert (code, err) == (0, "")
    for word in ("in.h5", "the first time, s", "set-up", "steps", "kspaceFirstOrder-fake", "x our time"):
        assert word in " ".join(out.split())
    assert sorted(os.listdir("out")) == ["job.json", "job.png"]
    with open("out/job.json", encoding="utf-8") as opened:
        (case,) = json.load(opened)["cases"]
    for each in (case["first"], case["again"]):
        assert set(each["seconds"]) == PHASES
        assert sum(each["seconds"].values()) == pytest.approx(each["wall"])
        assert each["seconds"]["start"] > 0
        assert each["step_ms"] > 0
    assert 0 < case["peer"]["wall"] < case["again"]["wall"]
    assert case["peer"]["ratio"] == pytest.approx(case["peer"]["wall"] / case["again"]["wall"])


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["nothing.h5"], "FILE: nothing.h5: No such file"),
        (["in.h5", "--repeats", 0], "--repeats: 0"),
        (["run.toml", "--peer", "x"], "--peer: x given for run.toml"),
        pytest.param(
            ["run.toml", "--no-first", "--repeats", 1],
            "FILE: did not run: fibre.preset: missing",
            marks=pytest.mark.slow,
        ),
        (["in.h5", "--peer", "x"], "--peer: x is not a file"),
    ],
)
def test_what_is_refused(command, file, tmp_path, words, line):
    (tmp_path / "run.toml").write_text("[fibre]\n")
    code, out, err = command("job", *words, "--device", "cpu")
    assert (code, out) == (2, "")
    assert err.startswith(f"wavefabric: error: {line}")
    assert err.count("\n") == 1
