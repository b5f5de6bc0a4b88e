"""A run that is killed or interrupted, then started again, gives the bits of one that was left alone."""

import contextlib
import os
import signal
import subprocess
import sys
import time

import h5py
import numpy as np
import pytest

SOLVERS = {
    "fixed": 'integrator = "strang"\nstep = "100 m"\n',
    "phase": 'integrator = "rk4ip"\nmax_phase = "0.0006 rad"\n',
    "tolerance": 'integrator = "erk43ip"\ntolerance = 1e-8\n',
}


def write_run_file(folder, run_text, solver):
    head = run_text[: run_text.index("[solver]")].replace("symbols = 64", "symbols = 256")
    output = (
        '\n[output]\nfigures = false\ncheckpoint_every = 10\ncheckpoint_interval = "0 s"\nsave_field = true\n'
    )
    (folder / "run.toml").write_text(head + "[solver]\n" + SOLVERS[solver] + output)


def start(folder, *options):
    words = [
        sys.executable,
        "-c",
        "from wavefabric.cli import main; main()",
        "run",
        "run.toml",
        "-q",
        *("--threads", "1"),
        *options,
    ]
    return subprocess.Popen(words, cwd=folder, stderr=subprocess.PIPE, text=True)


def stop(process, folder, checkpoints, how):
    """Send a signal once so many different checkpoints have been seen."""
    file, seen = folder / "run.h5.checkpoint", set()
    deadline = time.monotonic() + 60
    while len(seen) < checkpoints and process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(FileNotFoundError):
            seen.add(file.stat().st_mtime_ns)
        time.sleep(0.002)
    assert process.poll() is None, "the run ended before it could be stopped"
    process.send_signal(how)
    process.wait(60)


def arrays(path):
    result = {}
    with h5py.File(path) as file:
        file.visititems(
            lambda name, item: (
                result.update({name: np.asarray(item[()])}) if isinstance(item, h5py.Dataset) else None
            )
        )
        counts = {key: file["solver"].attrs[key] for key in ("steps", "ffts", "rejected", "energy_drift")}
    return result, counts


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["tolerance", "fixed", "phase"])
def test_kill_9_and_the_same_command(run_text, tmp_path, command, solver):
    write_run_file(tmp_path, run_text, solver)
    # What is not killed needs no process of its own.
    words = ("run", "run.toml", "-q", "--threads", "1")
    assert command(*words, "--output", "whole.h5")[0] == 0
    for checkpoints in (2, 3):
        stop(start(tmp_path), tmp_path, checkpoints, signal.SIGKILL)
        assert (tmp_path / "run.h5.checkpoint").exists()
        assert not (tmp_path / "run.h5").exists()
    assert command(*words)[0] == 0
    expected, counts = arrays(tmp_path / "whole.h5")
    got, got_counts = arrays(tmp_path / "run.h5")
    assert expected.keys() == got.keys()
    for name, value in expected.items():
        assert np.array_equal(value, got[name], equal_nan=value.dtype.kind in "fc"), name
    assert counts["steps"] == got_counts["steps"]
    assert counts["energy_drift"] == got_counts["energy_drift"]
    assert sorted(os.listdir(tmp_path)) == ["run.h5", "run.toml", "whole.h5"]


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_says_where_the_checkpoint_is(run_text, tmp_path, how):
    write_run_file(tmp_path, run_text, "fixed")
    process = start(tmp_path)
    stop(process, tmp_path, 1, how)
    assert process.returncode == 128 + how
    line = process.stderr.read()
    assert "run.h5.checkpoint" in line
    assert line.count("\n") == 1
    assert (tmp_path / "run.h5.checkpoint").exists()
    again = start(tmp_path)
    assert again.wait(120) == 0, again.stderr.read()
