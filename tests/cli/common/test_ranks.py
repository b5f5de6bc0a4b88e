"""Options of several ranks: what is refused before MPI starts, and runs from end to end."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import h5py
import numpy as np
import pytest

from wavefabric.base.system import gpu_topology
from wavefabric.base.system.gpu_topology import GpuTopology
from wavefabric.cli.common import decomposition
from wavefabric.runtime.exchange.launch import launcher
from wavefabric.runtime.exchange.placement import traffic

KWAVE = Path(__file__).parents[2] / "data" / "kwave" / "pressure_source_corners.h5"  # 40 x 36 x 32
needs_mpi = pytest.mark.skipif(find_spec("mpi4py") is None, reason="needs mpi4py and mpiexec")
apart = pytest.mark.usefixtures("ranks_apart")


@pytest.fixture
def files(tmp_path, run_text):
    (tmp_path / "run.toml").write_text(run_text)
    shutil.copy(KWAVE, tmp_path / "case.h5")
    (tmp_path / "gpus.txt").write_text("0\n0\n")
    return tmp_path


@pytest.fixture
def jobs(monkeypatch):
    """Ranks are not started; what would have been is kept."""
    kept = []
    monkeypatch.setattr(launcher, "launch", lambda job: kept.append(job) or 0)
    return kept


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("run run.toml --ranks 0", "--ranks: 0 given; allowed: a whole number from 1"),
        ("run run.toml --ranks -2", "--ranks: -2 given; allowed: a whole number from 1"),
        (
            "run run.toml --ranks 2 --transport tcp",
            '--transport: "tcp" given; allowed: auto, mpi, mpi-cuda, nccl',
        ),
        (
            "run run.toml --transport mpi",
            "--transport: mpi given for one rank; allowed: with --ranks 2 or more",
        ),
        ("run run.toml --ranks 1 --placement auto", "--placement: auto given for one rank"),
        ("run run.toml --ranks 2 --device cpu --transport p2p", "--transport: p2p given with --device cpu"),
        ("run run.toml --ranks 2 --device cpu --placement auto", "--placement: auto given with --device cpu"),
        (
            "run run.toml --ranks 2 --device cuda:1 --placement auto",
            "with --device cuda:1; allowed: cuda or auto",
        ),
        ("run run.toml --ranks 2 --placement gpus.txt", "gpus.txt, line 2: GPU 0 is given again"),
        ("run run.toml --ranks 2 --placement none.txt", "--placement: none.txt cannot be read"),
        ("run run.toml --ranks 8", "ranks: 8 given for 3 modes; allowed: 1 to 3"),
        ("run run.toml --ranks 2 --exchange all", '--exchange: "all" given; allowed: auto, dense, factored'),
        ("run run.toml --exchange dense", "--exchange: dense given for one rank"),
        (
            "run run.toml --ranks 2 --overlap 4",
            "--overlap: 4 given with a run file; allowed: with k-Wave files",
        ),
        ("run case.h5 --ranks 2 --exchange dense", "--exchange: dense given with a k-Wave file"),
        ("run case.h5 --decomposition global", "--decomposition: global given for one rank"),
        ("run case.h5 --ranks 2 --decomposition x", '--decomposition: "x" given; allowed: global, local'),
        ("run case.h5 --ranks 2 --overlap 4", "--overlap: 4 given without --decomposition local"),
        ("run case.h5 --ranks 2 --decomposition global --bell erf", "--bell: erf given without"),
        ("run case.h5 --ranks 2 --decomposition local --overlap 0", "--overlap: 0 given; allowed: a whole"),
        ("run case.h5 --ranks 2 --decomposition local --bell x", '--bell: "x" given; allowed: none, cosine'),
        ("run case.h5 --ranks 2 --grid 2x2", "--grid: 2x2 given; allowed: KXxKYxKZ"),
        ("run case.h5 --ranks 2 --grid 1x2x2", "--grid: 1x2x2 is 4 blocks; allowed: as many as ranks, 2"),
        ("run case.h5 --ranks 2 --grid 2x1x1", "grid: 2 blocks along x given"),
        ("run case.h5 --ranks 1009", "allowed for a grid of 40x36x32"),
        ("run case.h5 --ranks 2 --decomposition local --overlap 30", "overlap: 30 points"),
        ("run case.h5 --ranks 2 --threads 0", "--threads: 0 given; allowed: a whole number from 1"),
        ("run case.h5 -o case.h5 --ranks 2", "output: case.h5 is an input of this run"),
        ("kwave -i case.h5 -o o.h5 --ranks 0", "--ranks: 0 given"),
        ("kwave -i case.h5 -o o.h5 --grid 1x1x2", "--grid: 1x1x2 given for one rank"),
        ("kwave -i case.h5 -o o.h5 --ranks 2 -g 1 --placement auto", "with --device cuda:1"),
    ],
)
def test_refused_before_anything_starts(command, files, jobs, monkeypatch, words, message):
    monkeypatch.setattr("wavefabric.cli.common.ranks.MOST_STARTED", 2000)
    before = sorted(os.listdir(files))
    code, out, err = command(*words.split())
    assert code == 2
    assert message in err
    assert err.startswith("wavefabric: error: ")
    assert len(err.splitlines()) == 1
    assert out == ""
    assert jobs == []
    assert sorted(os.listdir(files)) == before


def test_what_is_started(command, files, jobs):
    words = ["run", "case.h5", "--ranks", "2", "--device", "cpu", "--transport", "mpi", "--threads", "3"]
    assert command(*words)[0] == 0
    (job,) = jobs
    assert (job.arguments, job.ranks, job.transport, job.threads) == (words, 2, "mpi", 3)
    assert job.placement == []
    assert job.checkpoint == Path("case_out.h5.checkpoint")


def test_threads_are_shared_by_default(command, files, jobs):
    command("run", "run.toml", "--ranks", 2)
    command("run", "run.toml", "--ranks", 3)
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert [job.threads for job in jobs] == [max(1, usable // 2), max(1, usable // 3)]


def test_placement_is_found_and_said(command, files, jobs, monkeypatch):
    far = GpuTopology((("X", "SYS", "PIX"), ("SYS", "X", "SYS"), ("PIX", "SYS", "X")), (0, 1, 0))
    monkeypatch.setattr(gpu_topology, "query", lambda: far)
    code, out, _ = command("run", "run.toml", "--ranks", 2, "--placement", "auto")
    assert code == 0
    assert out == "placement: 0 2; messages over the slowest links (SYS): 0 (worst case 2)\n"
    assert jobs[0].placement == [0, 2]
    (files / "gpus.txt").write_text("2 1")
    command("run", "run.toml", "--ranks", 2, "--placement", "gpus.txt")
    assert jobs[1].placement == [2, 1]


def test_placement_without_gpus(command, files, jobs, monkeypatch):
    monkeypatch.setattr(gpu_topology, "query", lambda: None)
    code, _, err = command("run", "run.toml", "--ranks", 2, "--placement", "auto")
    assert (code, jobs) == (2, [])
    assert "--placement: auto given, but nvidia-smi topo -m names no GPUs" in err


def test_traffic_of_a_local_decomposition():
    """Four blocks along x, on a ring: each neighbour gets an overlap of 5 planes of 36 x 32 points."""
    from wavefabric.acoustics.decomposition.decompose import Decomposition

    schedule = decomposition.file_traffic(KWAVE, 4, Decomposition("local", (4, 1, 1), 5))
    ring = np.array([[0, 1, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 1, 0]])
    assert np.array_equal(traffic(schedule, messages=True), ring)
    assert np.array_equal(traffic(schedule), 5 * 36 * 32 * ring)


def test_traffic_of_slabs_is_the_transpose():
    """21 of k_x; each of two ranks keeps half of its 18 k_y columns of 16 planes and sends half."""
    schedule = decomposition.file_traffic(KWAVE, 2, None)
    assert np.array_equal(traffic(schedule), 21 * 18 * 16 * np.array([[0, 1], [1, 0]]))


# --- from end to end ---------------------------------------------------------------------------------------


def wavefabric(folder, *words, by=(sys.executable, "-m", "wavefabric")):
    return subprocess.run(
        [*map(str, by), *map(str, words)], cwd=folder, capture_output=True, text=True, timeout=300
    )


@pytest.mark.slow
@needs_mpi
@apart
def test_run_file_on_two_ranks(command, files):
    text = (files / "run.toml").read_text().replace("symbols = 64", "symbols = 32")
    (files / "run.toml").write_text(text + "\n[output]\nfigures = false\nsave_field = true\n")
    options = ("run", "run.toml", "--device", "cpu", "--threads", 1, "--json")
    code, one, said = command(*options, "-o", "one.h5")
    two = wavefabric(files, *options, "-o", "two.h5", "--ranks", 2)
    # Both warn of the long step and the short window, and several ranks say it once.
    assert said.count("wavefabric: warning: ") == said.count("\n") == 2
    assert (code, two.returncode, two.stderr) == (0, 0, said), two.stderr
    a, b = json.loads(one), json.loads(two.stdout)
    for x, y in zip(a["groups"], b["groups"], strict=True):
        for position, result in x["received"].items():
            assert y["received"][position]["q_squared_mean_db"] == pytest.approx(
                result["q_squared_mean_db"], abs=1e-6
            )


@pytest.mark.slow
@needs_mpi
@apart
def test_kwave_file_on_two_ranks(command, files):
    options = ("kwave", "-i", "case.h5", "--device", "cpu", "-t", 1, "-p", "--p_final", "--benchmark", 30)
    assert command(*options, "-o", "one.h5")[0] == 0
    two = wavefabric(files, *options, "-o", "two.h5", "--ranks", 2)
    told = [line for line in two.stderr.splitlines() if "compiling kernels" not in line]
    assert (two.returncode, told) == (0, []), two.stderr
    assert "Ranks:              2 through mpi, global" in two.stdout
    assert two.stdout.count("Wrote:") == 1
    with h5py.File(files / "one.h5") as a, h5py.File(files / "two.h5") as b:
        for name in ("p/1", "p_final"):
            wanted = a[name][()]
            assert np.abs(b[name][()] - wanted).max() <= 1e-6 * np.abs(wanted).max()
    assert sorted(p.name for p in files.glob("*.h5*")) == ["case.h5", "one.h5", "two.h5"]


@needs_mpi
@apart
def test_info_under_mpiexec(tmp_path):
    from wavefabric.runtime.exchange.launch import mpiexec_command

    starter, variables = mpiexec_command.command(2, "auto", {})
    result = wavefabric(
        tmp_path, "info", "--json", by=("env", *(f"{k}={v}" for k, v in variables.items()), *starter,
                                        sys.executable, "-m", "wavefabric"),
    )  # fmt: skip
    facts = json.loads(result.stdout)
    assert [(row["rank"], row["host"]) for row in facts["ranks"]] == [(0, 0), (1, 0)]
    assert facts["transports"]["mpi"]["available"]


@needs_mpi
@apart
@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "ranks"),
    [(signal.SIGKILL, 4), (signal.SIGINT, 2), (signal.SIGTERM, 2)],
)
def test_stopped_ranks_leave_a_checkpoint_and_go_on(files, how, ranks):
    """Ctrl-C, SIGTERM, or a rank killed: the same command then goes on to what an unbroken run gives."""
    words = ["run", "case.h5", "--ranks", str(ranks), "--device", "cpu", "--threads", "1", "--json"]
    with h5py.File(files / "case.h5", "r+") as file:
        steps = int(file["Nt"][0, 0, 0])
    text = PATCHED.format(every=steps // 10)
    program = (sys.executable, "-c", text)
    running = subprocess.Popen(
        [*program, *words], cwd=files, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    saved = files / "case_out.h5.checkpoint"
    until = time.monotonic() + 120
    while not saved.exists() and running.poll() is None and time.monotonic() < until:
        time.sleep(0.005)
    assert running.poll() is None, running.communicate()
    if how != signal.SIGKILL:
        running.send_signal(how)
    else:
        os.kill(int((files / "rank-1.pid").read_text()), how)
    out, err = running.communicate(timeout=60)
    if how != signal.SIGKILL:
        assert (running.returncode, err) == (
            128 + how,
            f"wavefabric: interrupted; the same command resumes from {saved.name}\n",
        )
    else:
        assert (running.returncode, err) == (
            137,
            "wavefabric: rank 1 was killed (signal 9); all ranks stopped; the same command resumes from "
            f"{saved.name}\n",
        )
    assert out == ""
    if how != signal.SIGKILL:
        return  # what such a checkpoint is worth: test_run_ranks_resume.py
    again = wavefabric(files, *words)
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["resumed_at"] > 0
    assert not list(files.glob("*checkpoint*"))
    whole = wavefabric(files, *words, "-o", "whole.h5")
    assert whole.returncode == 0, whole.stderr
    with h5py.File(files / "case_out.h5") as a, h5py.File(files / "whole.h5") as b:
        for name in ("p/1", "p_final", "p_max_all"):
            assert np.array_equal(a[name][()], b[name][()]), name


@pytest.mark.slow
@needs_mpi
@apart
def test_sigterm_under_mpiexec_saves(files):
    """A batch system ends mpiexec, which hands the signal on: a fibre's ranks save and say where."""
    from wavefabric.runtime.exchange.launch import mpiexec_command

    if mpiexec_command.library().family != "MPICH":
        pytest.skip("other mpiexecs kill their ranks at once")
    text = (files / "run.toml").read_text().replace("symbols = 64", "symbols = 256").replace("1 km", "20 m")
    output = '\n[output]\nfigures = false\ncheckpoint_every = 10\ncheckpoint_interval = "0 s"\n'
    (files / "run.toml").write_text(text + output)
    starter, variables = mpiexec_command.command(2, "auto", dict(os.environ))
    words = [*starter, sys.executable, "-m", "wavefabric", "run", "run.toml", "--device", "cpu", "--quiet"]
    with subprocess.Popen(words, cwd=files, env=variables, stderr=subprocess.PIPE, text=True) as running:
        try:
            saved = files / "run.h5.checkpoint"
            until = time.monotonic() + 120
            while not saved.exists() and running.poll() is None and time.monotonic() < until:
                time.sleep(0.01)
            running.send_signal(signal.SIGTERM)
            _, err = running.communicate(timeout=60)
        finally:
            running.kill()
    assert running.returncode == 143, err
    assert "wavefabric: interrupted; the same command resumes from run.h5.checkpoint\n" in err
    assert saved.exists()


#: The command whose ranks say their process, and save often, and wait then, to be caught in the middle.
PATCHED = """\
import sys
from wavefabric.runtime.exchange.launch import launcher
options = launcher.LaunchOptions
class Often(options):
    def __init__(self, *given):
        super().__init__(*given)
        self.program = [sys.executable, "-c", RANK]
launcher.LaunchOptions = Often
RANK = '''
import os
import time
from pathlib import Path
from wavefabric.runtime.lifecycle.checkpoint import run_checkpoint as checkpoints
from wavefabric.runtime.lifecycle.checkpoint.run_checkpoint import RunCheckpoint
from wavefabric.cli import main
from wavefabric.runtime.exchange.launch import environment
class Saves(checkpoints.Checkpoints):
    def __init__(self, path, resume):
        Path(f"rank-{{environment.rank()}}.pid").write_text(str(os.getpid()))
        super().__init__(path, every={every}, resume=resume)
checkpoints.Checkpoints = Saves
save = RunCheckpoint.save
def and_wait(self, *arguments):
    save(self, *arguments)
    time.sleep(0.3)
RunCheckpoint.save = and_wait
main()
'''
from wavefabric.cli import main
main()
"""
