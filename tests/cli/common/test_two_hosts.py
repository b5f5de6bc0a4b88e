"""Ranks on two hosts: mpiexec starts each by a remote login, which stays here under another host name."""

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

KWAVE = Path(__file__).parents[2] / "data" / "kwave" / "pressure_source_corners.h5"
#: Only root may rename a host; others become root of a namespace of their own.
UNSHARE = ["unshare", "-u", *(["-r"] if os.geteuid() else [])]
RSH = """\
#!/bin/bash
while [[ "$1" == -* ]]; do shift; done
host=$1
shift
exec {unshare} bash -c "hostname $host; $*"
"""


def renames():
    """Whether this machine lets a process have another host name."""
    if not shutil.which("unshare"):
        return False
    return not subprocess.run([*UNSHARE, "hostname", "other"], capture_output=True, timeout=20).returncode


pytestmark = [
    pytest.mark.skipif(find_spec("mpi4py") is None, reason="needs mpi4py and mpiexec"),
    pytest.mark.skipif(not renames(), reason="a process may not have another host name here"),
    pytest.mark.usefixtures("ranks_apart"),
]
RUN = ["--device", "cpu", "--threads", "1", "--quiet"]


@pytest.fixture
def over_hosts(tmp_path):
    """Starts ``wavefabric`` with arguments on so many ranks of each of two hosts."""
    from wavefabric.runtime.exchange.launch import environment, mpiexec_command

    login = tmp_path / "rsh"
    login.write_text(RSH.format(unshare=" ".join(UNSHARE)))
    login.chmod(0o755)
    shutil.copy(KWAVE, tmp_path / "case.h5")
    # UCX would else see through it to one machine's shared memory.
    variables = environment.without_ranks(dict(os.environ)) | {"UCX_TLS": "tcp,self"}
    variables |= {"MPIR_CVAR_POLLS_BEFORE_YIELD": "0", "OMPI_MCA_mpi_yield_when_idle": "1"}
    if mpiexec_command.library().family == "MPICH":
        options = ["-hosts", "one,two", "-launcher", "ssh", "-launcher-exec", str(login), "-ppn"]
    else:
        (tmp_path / "hosts").write_text("one slots=2\ntwo slots=2\n")
        variables |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        variables |= {"OMPI_MCA_plm_rsh_agent": str(login), "PRTE_MCA_plm_ssh_agent": str(login)}
        options = ["--hostfile", "hosts", "--bind-to", "none", "--npernode"]

    def start(each, *words):
        command = [
            str(mpiexec_command.find(mpiexec_command.library())),
            *options,
            str(each),
            "-n",
            str(2 * each),
        ]
        command += [sys.executable, "-m", "wavefabric", *words]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(command, cwd=tmp_path, env=variables, **pipes)

    return start


def finished(process):
    try:
        return process.communicate(timeout=240), process.returncode
    finally:
        process.kill()


@pytest.mark.slow
def test_each_rank_knows_its_host(over_hosts):
    (out, err), code = finished(over_hosts(2, "info", "--json"))
    assert code == 0, err
    rows = json.loads(out)["ranks"]
    assert [(row["rank"], row["host"]) for row in rows] == [(0, 0), (1, 0), (2, 1), (3, 1)]


@pytest.mark.slow
def test_a_placement_is_not_searched_over_hosts(over_hosts):
    (_, err), code = finished(over_hosts(1, "run", "case.h5", "--placement", "auto"))
    allowed = "a file of GPUs, for each host alike"
    line = f"wavefabric: error: --placement: auto given with ranks on several hosts; allowed: {allowed}"
    assert code == 2
    assert err.count(line) == 1


def has_the_bits_of_one_host(folder, file, *names):
    """The result of a run over both hosts, beside one of ``--ranks`` in a batch job to which both belong."""
    job = {"SLURM_JOB_ID": "7", "SLURM_JOBID": "7", "SLURM_NODELIST": "one,two", "SLURM_NNODES": "2"}
    job |= {"SLURM_JOB_NODELIST": "one,two", "SLURM_TASKS_PER_NODE": "1(x2)"}
    words = [sys.executable, "-m", "wavefabric", "run", file, *RUN, "--ranks", "2", "-o", "whole.h5"]
    subprocess.run(words, cwd=folder, env=os.environ | job, check=True, timeout=240)
    with h5py.File(folder / "both.h5") as both, h5py.File(folder / "whole.h5") as whole:
        for name in names:
            assert np.array_equal(both[name][()], whole[name][()]), name


@pytest.mark.slow
def test_ultrasound_over_hosts(over_hosts, tmp_path):
    (_, err), code = finished(over_hosts(1, "run", "case.h5", *RUN, "-o", "both.h5"))
    assert code == 0, err
    has_the_bits_of_one_host(tmp_path, "case.h5", "p/1", "p_final", "p_max_all")


@pytest.mark.slow
def test_a_fibre_over_hosts_saves_and_goes_on(over_hosts, tmp_path, run_text):
    """One rank alone gets SIGTERM."""
    output = 'figures = false\ncheckpoint_every = 10\ncheckpoint_interval = "0 s"\nsave_field = true\n'
    text = run_text.replace("groups = 2", "groups = 3").replace("1 km", "400 m")
    (tmp_path / "run.toml").write_text(f"{text}\n[output]\n{output}")
    words = ["run", "run.toml", *RUN, "-o", "both.h5"]
    running = over_hosts(1, *words)
    try:
        saved, until = tmp_path / "both.h5.checkpoint", time.monotonic() + 200
        while not saved.exists() and running.poll() is None and time.monotonic() < until:
            time.sleep(0.005)
        last = next(file for file in Path("/proc").glob("[0-9]*/environ") if is_rank(file, tmp_path, 1))
        os.kill(int(last.parent.name), signal.SIGTERM)
    finally:
        (_, err), code = finished(running)
    assert (code, saved.exists()) == (143, True), err
    assert "wavefabric: interrupted; the same command resumes from both.h5.checkpoint\n" in err
    (_, err), code = finished(over_hosts(1, *words))
    assert (code, saved.exists()) == (0, False), err
    has_the_bits_of_one_host(tmp_path, "run.toml", "field")


def is_rank(file, folder, rank):
    """Whether a process, named by its environment, is Python's of a rank that was started in a folder."""
    try:
        if os.readlink(file.parent / "cwd") != str(folder):
            return False
        words, variables = (path.read_bytes().split(b"\0") for path in (file.with_name("cmdline"), file))
    except OSError:  # of somebody else, or gone
        return False
    numbers = {f"{name}={rank}".encode() for name in ("PMI_RANK", "OMPI_COMM_WORLD_RANK")}
    return words[1:3] == [b"-m", b"wavefabric"] and not numbers.isdisjoint(variables)
