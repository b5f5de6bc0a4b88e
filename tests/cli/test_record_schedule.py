"""``--record-schedule``: a step of a run as a file that the commands on collectives take; what is refused."""

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from wavefabric.collectives import load
from wavefabric.collectives.structure import sent_and_received

KWAVE = Path(__file__).parents[1] / "data" / "kwave" / "pressure_source_corners.h5"
RANKS = ("--ranks", "2", "--device", "cpu")
#: The command, whose ranks are interrupted in their first time step.
INTERRUPTED = """\
import sys
from wavefabric.cli import main
from wavefabric.runtime.exchange.launch import launcher
class Options(launcher.LaunchOptions):
    def __init__(self, *words):
        super().__init__(*words)
        self.program = [sys.executable, "-c", RANK]
launcher.LaunchOptions = Options
RANK = '''
import os, signal
from wavefabric.acoustics.solver.step import Step
from wavefabric.cli import main
take = Step.take
def interrupted(step, number, most):
    os.kill(os.getpid(), signal.SIGINT)
    return take(step, number, most)
Step.take = interrupted
main()
'''
main()
"""
needs_ranks = pytest.mark.skipif(find_spec("mpi4py") is None, reason="needs mpi4py and mpiexec")


def started(folder, *words, program="from wavefabric.cli import main; main()"):
    command = [sys.executable, "-c", program, *map(str, words)]
    how = {"cwd": folder, "capture_output": True, "text": True, "timeout": 300}
    return subprocess.run(command, env=os.environ | {"COLUMNS": "200"}, **how)


def check_commands(command, file, nbytes):
    """A recorded schedule is one like others; its bytes are those that are costed by default."""
    code, out, err = command("collective", "verify", file)
    assert (code, err) == (0, "")
    assert out.startswith(f"ok: {file}: recorded step, ")
    for fabric in ("dgx-2", "lightpath:1x2"):
        code, out, err = command("collective", "cost", file, "--fabric", fabric, "--json")
        assert (code, err) == (0, "")
        (row,) = json.loads(out)["costs"]
        code, out, _ = command("collective", "cost", file, "--fabric", fabric, "--bytes", nbytes, "--json")
        assert code == 0
        assert json.loads(out)["costs"] == [row]
        assert row["bytes"] == nbytes
        assert row["seconds"] > row["bound"]["seconds"] > 0
        code, out, err = command(
            "collective", "draw", file, "--fabric", fabric, "-o", "a.svg", "--force", "--json"
        )
        assert (code, err) == (0, "")
        # On electrical ones the flow model, which starts all at once; 64 MiB would take far longer.
        assert row["bound"]["seconds"] / 2 < json.loads(out)["seconds"] <= row["seconds"]
    assert command("collective", "export", file, "-o", "again.json")[0] == 0
    assert Path("again.json").read_text() == Path(file).read_text()
    # MSCCL has one size of chunk.
    even = len({size for sizes in load(file).sizes for size in sizes.flat}) == 1
    code, _, err = command("collective", "export", file, "-o", "a.xml")
    assert (code, "allowed by MSCCL: all of one size" in err) == ((0, False) if even else (2, True))


@needs_ranks
@pytest.mark.slow
@pytest.mark.usefixtures("ranks_apart")
@pytest.mark.parametrize("name", ["run", "kwave"])
def test_a_time_step_is_recorded(command, tmp_path, name):
    shutil.copy(KWAVE, tmp_path / "in.h5")
    files = ["run", "in.h5", "-q"] if name == "run" else ["kwave", "-i", "in.h5", "--verbose", "0"]
    local = ["--decomposition", "local", "--overlap", "4"] if name == "run" else []
    files += ["-o", "out.h5"]
    done = started(tmp_path, *files, *local, *RANKS, "--record-schedule", "step.json")
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "out.h5").exists()
    step = load("step.json")
    assert step.rounds > 1
    check_commands(command, "step.json", int(sent_and_received(step)[0].sum()) * step.element_bytes)
    shutil.move("out.h5", "earlier.h5")
    refused = started(tmp_path, *files, *RANKS, "--record-schedule", "step.json")
    assert refused.returncode == 2
    assert "--record-schedule: step.json exists; allowed: another name, or --force" in refused.stderr
    assert not Path("out.h5").exists()


@needs_ranks
@pytest.mark.slow
@pytest.mark.usefixtures("ranks_apart")
def test_a_step_of_a_fibre_is_recorded(command, run_text, tmp_path):
    # Steps are looked at before the run too, which does not count.
    text = run_text.replace('"80 km"', '"2 km"').replace('"1 km"', '"500 m"\nexchange = "dense"')
    (tmp_path / "run.toml").write_text(text + "[output]\nfigures = false\n")
    words = "run", "run.toml", *RANKS, "-q", "--verify-step", "--record-schedule", "step.json"
    done = started(tmp_path, *words)
    assert (done.returncode, done.stderr) == (0, "")
    # 6 rows and 64 x 16 samples, in double precision; four all-gathers.
    nbytes = 4 * 6 * 64 * 16 * 8
    step = load("step.json")
    assert int(sent_and_received(step)[0].sum()) * step.element_bytes == nbytes
    check_commands(command, "step.json", nbytes)


@needs_ranks
@pytest.mark.slow
@pytest.mark.usefixtures("ranks_apart")
def test_ctrl_c_before_the_step_leaves_no_file(tmp_path):
    shutil.copy(KWAVE, tmp_path / "in.h5")
    words = "run", "in.h5", *RANKS, "--record-schedule", "step.json"
    done = started(tmp_path, *words, program=INTERRUPTED)
    assert done.returncode == 130, done.stderr
    lines = done.stderr.splitlines()
    missing = "recording: no second step was taken; step.json was not written"
    assert [line for line in lines if "recording" in line] == [f"wavefabric: warning: {missing}"]
    assert not (tmp_path / "step.json").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "step.json given for one rank; allowed: with --ranks 2 or more"),
        (
            ("--ranks", "2", "--record-schedule", "step.txt"),
            "step.txt given; allowed: a name that ends in .json",
        ),
        (
            ("--ranks", "2", "-o", "step.json"),
            "step.json given twice; allowed: another name than those of other files",
        ),
    ],
)
def test_what_cannot_be_recorded_is_refused(command, tmp_path, options, words):
    shutil.copy(KWAVE, tmp_path / "in.h5")
    code, out, err = command("run", "in.h5", "--record-schedule", "step.json", *options)
    assert (code, out, err) == (2, "", f"wavefabric: error: --record-schedule: {words}\n")
    assert [path.name for path in tmp_path.iterdir()] == ["in.h5"]
