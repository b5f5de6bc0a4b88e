"""`wavefabric sweep`: table, JSON and figures; killed and started again; bad input in one line."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from wavefabric.optics.sweeps.result import read_sweep

POWERS = "signal.launch_power=0:8:4 dBm"


@pytest.fixture
def quick(tmp_path, run_text):
    """A run file of small points, that save often."""
    text = run_text.replace('step = "1 km"', 'step = "500 m"\nthreads = 1').replace(
        "channels = 3", "channels = 1"
    )
    (tmp_path / "run.toml").write_text(
        f'{text}device = "cpu"\n[output]\ncheckpoint_every = 5\ncheckpoint_interval = "0 s"\n'
    )
    return text


@pytest.mark.slow
def test_table_figures_and_the_best_point(command, quick, tmp_path):
    code, said, err = command(
        "sweep", "run.toml", "--set", POWERS, "--zip", "seed=1,2; receiver.noise_seed=3,4"
    )
    assert (code, err) == (0, "")
    names = ["run-sweep-penalty-db-over-distance.png", "run-sweep-q-squared-db-over-launch-power.png"]
    assert sorted(os.listdir(tmp_path)) == [*names, "run-sweep.h5", "run.toml"]
    result = read_sweep("run-sweep.h5")
    best, q = result.best(), result.mean_q_squared_db()
    assert said.count("dBm") == 6 + 1
    for value in q.flat:
        assert f"{value:.2f}" in said
    words = f"signal.launch_power = {result.label('signal.launch_power', best[0])}, seed = {best[1] + 1}"
    assert f"best of 6 points: {words} with {q[best]:.2f} dB" in said


@pytest.mark.slow
def test_json_is_for_programs(command, quick, tmp_path):
    code, said, err = command("sweep", "run.toml", "--set", "link.spans=1,2", "--json", "-o", "o.h5")
    assert (code, err) == (0, "")
    answer = json.loads(said)
    assert answer["axes"] == {"link.spans": [1, 2]}
    assert [point["steps"] for point in answer["points"]] == [160, 320]
    assert answer["best"] in answer["points"]
    assert answer["written"][0] == "o.h5"


@pytest.mark.slow
def test_many_points_have_a_row_for_each_value(command, quick, tmp_path, monkeypatch):
    monkeypatch.setattr("wavefabric.cli.sweep._MOST_ROWS", 5)
    text = (tmp_path / "run.toml").read_text().replace('"500 m"', '"40 km"').replace("spans = 2", "spans = 1")
    (tmp_path / "run.toml").write_text(
        f'{text}figures = false\n[sweep]\nseed = "1:3:1"\n"receiver.noise_seed" = [1, 2]\n'
    )
    code, said, err = command("sweep", "run.toml")
    assert (code, err.count("\n")) == (0, 1)  # the resonance limit
    q = read_sweep("run-sweep.h5").mean_q_squared_db()
    lines = [line.split() for line in said.splitlines()]
    assert ["seed", "3", f"{q[2].min():.2f}", f"{q[2].max():.2f}"] in lines
    assert ["receiver.noise_seed", "2", f"{q[:, 1].min():.2f}", f"{q[:, 1].max():.2f}"] in lines
    assert len([line for line in lines if line[:1] == ["seed"]]) == 3
    assert sorted(os.listdir(tmp_path)) == ["run-sweep.h5", "run.toml"]


def start(folder):
    words = ["sweep", "run.toml", "-q", "--set", POWERS]
    program = [sys.executable, "-c", "from wavefabric.cli import main; main()", *words]
    return subprocess.Popen(program, cwd=folder, stderr=subprocess.PIPE, text=True)


def stop(process, folder, done, how):
    """Send a signal once so many points are finished and a checkpoint of the next is there."""
    points, deadline = folder / "run-sweep.h5.points", time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(FileNotFoundError):
            names = os.listdir(points)
            finished = sum(name.endswith(".h5") and not name.startswith(".") for name in names)
            if finished >= done and any(name.endswith(".checkpoint") for name in names):
                break
        time.sleep(0.002)
    assert process.poll() is None, process.stderr.read()
    process.send_signal(how)
    process.wait(60)
    return {name: (points / name).stat().st_mtime_ns for name in os.listdir(points) if name.endswith(".h5")}


@pytest.mark.slow
def test_kill_9_and_the_same_command(command, quick, tmp_path):
    text = (tmp_path / "run.toml").read_text()
    (tmp_path / "run.toml").write_text(text.replace('"500 m"', '"200 m"') + "figures = false\n")
    assert command("sweep", "run.toml", "-q", "--set", POWERS, "-o", "whole.h5")[0] == 0
    first = stop(start(tmp_path), tmp_path, 1, signal.SIGKILL)
    second = stop(start(tmp_path), tmp_path, 2, signal.SIGKILL)
    assert len(first) >= 1
    assert first.items() <= second.items()  # as they were: nothing finished runs again
    assert not (tmp_path / "run-sweep.h5").exists()
    code, _, err = command("sweep", "run.toml", "-q", "--set", "signal.launch_power=4:8:4 dBm")
    assert code == 2
    assert "run-sweep.h5.points: holds 1 point of another sweep" in err
    assert err.rstrip().endswith("remove it to start anew (--no-resume)")
    assert command("sweep", "run.toml", "-q", "--set", POWERS)[0] == 0
    one, other = read_sweep(tmp_path / "whole.h5"), read_sweep(tmp_path / "run-sweep.h5")
    for name in one:
        if name not in ("seconds", "written_utc"):
            same = np.array_equal(one[name], other[name], equal_nan=np.asarray(one[name]).dtype.kind == "f")
            assert same, name
    assert sorted(os.listdir(tmp_path)) == ["run-sweep.h5", "run.toml", "whole.h5"]


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_says_how_to_go_on(quick, tmp_path, how):
    text = (tmp_path / "run.toml").read_text()
    (tmp_path / "run.toml").write_text(text.replace('"500 m"', '"200 m"') + "figures = false\n")
    process = start(tmp_path)
    stop(process, tmp_path, 1, how)
    assert process.returncode == 128 + how
    assert process.stderr.read() == (
        "wavefabric: interrupted; the same command resumes from run-sweep.h5.points\n"
    )
    again = start(tmp_path)
    assert again.wait(120) == 0, again.stderr.read()
    assert sorted(os.listdir(tmp_path)) == ["run-sweep.h5", "run.toml"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "sweep: no axis given; allowed: a table [sweep] or --set, up to 10000 points"),
        (["--set", "seed"], '--set: "seed" given; allowed: KEY=VALUES'),
        (["--set", "seed="], '--set: "seed=" given'),
        (["--zip", "seed=1,2; 3"], '--zip: "3" given'),
        (["--set", "seed=1", "--set", "seed=2"], "seed: two axes given; allowed: one for each key"),
        (
            ["--zip", "seed=1,2; link.spans=1"],
            "seed: varies with others, but seed has 2, link.spans has 1 values",
        ),
        (["--set", "solver.stepp=1 km"], "solver.stepp: unknown key (near: solver.step"),
        (["--set", "link.length=80 kg"], 'link.length: "80 kg" has the unit "kg"'),
        (["--set", "seed=1,2", "--set", "link.spans=1,0"], "point 2 of 4: seed = 1, link.spans = 0"),
        (["--set", "seed=0:1e6:1"], 'seed: "0:1e6:1" has 1.00000e+6 values; allowed: up to 10000'),
        (["--set", "output.file=a.h5"], "output.file: no axis of a sweep"),
        (["--set", "seed=1", "-o", "run.toml", "--force"], "run.toml is an input of this run"),
        (["--set", "seed=1", "-o", "no/o.h5"], "the folder no does not exist"),
        (
            ["--set", "seed=1", "--together"],
            "--together: given for one rank; allowed: with --ranks 2 or more",
        ),
        (
            ["--set", "seed=1", "--ranks", "2", "--exchange", "dense"],
            "--exchange: dense given for ranks with",
        ),
        (["--set", "seed=1", "--ranks", "0"], "--ranks: 0 given"),
    ],
)
def test_bad_input_is_one_line(command, quick, tmp_path, words, message):
    code, said, err = command("sweep", "run.toml", *words)
    assert (code, said, err.count("\n")) == (2, "", 1), err
    assert message in err
    assert os.listdir(tmp_path) == ["run.toml"]


def test_files_that_have_no_sweep(command, quick, tmp_path):
    (tmp_path / "in.h5").write_bytes(b"\x89HDF\r\n\x1a\n")
    code, _, err = command("sweep", "in.h5", "--set", "seed=1")
    assert (code, err.count("\n")) == (2, 1)
    assert "FILE: in.h5 is HDF5; allowed: a run file (TOML), which k-Wave's inputs do not have" in err
    assert "missing.toml" in command("sweep", "missing.toml", "--set", "seed=1")[2]
    with open("run.toml", "a") as file:
        file.write("[sweep]\nseed = [1, 2]\n")
    assert "sweep: run.toml has axes; allowed: with `wavefabric sweep`" in command("run", "run.toml")[2]


@pytest.mark.slow
@pytest.mark.usefixtures("ranks_apart")
def test_points_of_ranks_have_the_bits_of_one(command, quick, tmp_path):
    words = ("sweep", "run.toml", "-q", "--set", POWERS, "--set", "seed=1,2")
    assert command(*words, "-o", "one.h5")[0] == 0
    program = [sys.executable, "-m", "wavefabric", *words, "--ranks", "2"]
    for more in ([], ["--together"]):
        done = subprocess.run(
            [*program, "-o", f"{len(more)}.h5", *more], capture_output=True, text=True, timeout=120
        )
        assert (done.returncode, done.stderr) == (0, "")
    one, apart, together = (read_sweep(f"{name}.h5") for name in ("one", "0", "1"))
    for name in ("q_squared_db", "evm", "delay", "local_error", "energy_drift", "fingerprint"):
        assert np.array_equal(one[name], apart[name], equal_nan=name not in ("fingerprint",)), name
    np.testing.assert_allclose(together["q_squared_db"], one["q_squared_db"], rtol=1e-9)
    assert not [name for name in os.listdir() if "points" in name]
