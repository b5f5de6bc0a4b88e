"""One of two ranks is killed in the middle; the same command then gives the bits of an unbroken run."""

import shutil
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import h5py
import numpy as np
import pytest

KWAVE = Path(__file__).parents[1] / "data" / "kwave" / "pressure_source_corners.h5"

pytestmark = [
    pytest.mark.skipif(find_spec("mpi4py") is None, reason="needs mpi4py and mpiexec"),
    pytest.mark.usefixtures("ranks_apart"),
]

#: The command, with ranks of which one kills itself at its save number ``last``: before it, or behind it.
PROGRAM = """\
import sys
from wavefabric.cli import main
from wavefabric.runtime.exchange.launch import launcher
options = launcher.LaunchOptions
class Dying(options):
    def __init__(self, *given):
        super().__init__(*given)
        self.program = [sys.executable, "-c", RANK]
launcher.LaunchOptions = Dying
RANK = '''
import os, signal
from wavefabric.runtime.lifecycle.checkpoint import run_checkpoint as checkpoints
from wavefabric.cli import main
from wavefabric.runtime.lifecycle.checkpoint.run_checkpoint import RankCheckpoint
class Often(checkpoints.Checkpoints):
    def __init__(self, path, interval=None, resume=True):
        often = dict(every={every}) if interval is None else dict(interval=interval)
        super().__init__(path, resume=resume, **often)
checkpoints.Checkpoints = Often
save, seen = RankCheckpoint.save, []
def and_die(files, *given):
    seen.append(files.comm.rank)
    last = files.comm.rank == {victim} and len(seen) == {last}
    if last and not {behind}:
        os.kill(os.getpid(), signal.SIGKILL)
    save(files, *given)
    if last:
        os.kill(os.getpid(), signal.SIGKILL)
RankCheckpoint.save = and_die
main()
'''
main()
"""


def command(folder, *words, victim=-1, last=0, behind=True, every=7):
    program = PROGRAM.format(victim=victim, last=last, behind=behind, every=every)
    options = ["--ranks", "2", "--device", "cpu", "--threads", "1", "-q"]
    return subprocess.run(
        [sys.executable, "-c", program, *words, *options],
        cwd=folder, capture_output=True, text=True, timeout=120,
    )  # fmt: skip


def arrays(path):
    result = {}

    def keep(name, item):
        if isinstance(item, h5py.Dataset):
            result[name] = np.asarray(item[()])

    with h5py.File(path) as file:
        file.visititems(keep)
    return result


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "run").mkdir()
    return tmp_path / "run"


def told(done):
    """What it said, but for the warning that this run file's steps are long."""
    lines = done.stderr.splitlines(keepends=True)
    return "".join(line for line in lines if "is above the resonance limit" not in line)


def survives(folder, words, output, **kill):
    """An unbroken run, one of which a rank is killed, and its second start: the same bits, nothing left."""
    before = {p.name for p in folder.iterdir()}
    whole = command(folder, *words, "-o", "whole.h5")
    assert whole.returncode == 0, whole.stderr
    dead = command(folder, *words, **kill)
    assert (dead.returncode, dead.stdout) == (128 + signal.SIGKILL, "")
    assert told(dead) == (
        f"wavefabric: rank {kill['victim']} was killed (signal 9); all ranks stopped; the same command "
        f"resumes from {output}.checkpoint\n"
    )
    assert (folder / f"{output}.checkpoint").exists()
    assert not (folder / output).exists()
    last = command(folder, *words)
    assert (last.returncode, told(last)) == (0, "")
    wanted, got = arrays(folder / "whole.h5"), arrays(folder / output)
    assert wanted.keys() == got.keys()
    for name, value in wanted.items():
        assert np.array_equal(got[name], value, equal_nan=value.dtype.kind in "fc"), name
    assert {p.name for p in folder.iterdir()} == before | {output, "whole.h5"}
    return got


@pytest.mark.slow
def test_a_fibre_run(folder, run_text):
    """In the second span, behind its first save."""
    head = run_text.replace("spans = 2", 'spans = 2\nnoise_figure = "5 dB"').replace(
        "groups = 2", "groups = 3"
    )
    tail = 'figures = false\ncheckpoint_every = 20\ncheckpoint_interval = "0 s"\nsave_field = true\n'
    (folder / "run.toml").write_text(f"{head}\n[output]\n{tail}")
    got = survives(folder, ("run", "run.toml"), "run.h5", victim=1, last=5, behind=True)
    assert got["field"].shape == (12, 1024)


@pytest.mark.slow
def test_an_ultrasound_run(folder):
    """The rank that has the output file, just before its third save: the others have written their parts."""
    shutil.copy(KWAVE, folder / "case.h5")
    got = survives(folder, ("run", "case.h5"), "case_out.h5", victim=0, last=3, behind=False)
    assert got["p_final"].max() > 0
