"""What MPI keeps in /dev/shm: gone after a kill, and said in one line when there is no space."""

import os
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from wavefabric.base.errors import InputError
from wavefabric.runtime.exchange.launch import dev_shm
from wavefabric.runtime.exchange.launch.dev_shm import check_space, mapped, remove

needs_mpi = pytest.mark.skipif(find_spec("mpi4py") is None, reason="needs mpi4py and mpiexec")
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/dev/shm and /proc")

PROGRAM = """\
import os, sys, time
from wavefabric.runtime.exchange.launch import environment, rank_status
from wavefabric.runtime.exchange.launch.dev_shm import mapped
rank_status.begin()
from wavefabric.runtime.exchange.control import world_control
control = world_control()
control.barrier()
if control.rank == 0:
    print(os.getpid(), *mapped(os.getpid()), flush=True)
time.sleep(60)
"""
LAUNCHER = """\
import sys
from wavefabric.runtime.exchange.launch.launcher import LaunchOptions, launch
sys.exit(launch(LaunchOptions(["-c", sys.argv[1]], 2, program=[sys.executable])))
"""


@pytest.mark.slow
@needs_mpi
@linux
@pytest.mark.usefixtures("ranks_apart")
def test_killed_ranks_leave_nothing_in_shared_memory():
    words = [sys.executable, "-c", LAUNCHER, PROGRAM]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            pid, *files = process.stdout.readline().split()
            if not files:
                pytest.skip("this MPI keeps nothing in /dev/shm")
            assert all(os.path.exists(file) for file in files)
            os.kill(int(pid), signal.SIGKILL)
            _, err = process.communicate(timeout=300)
        finally:
            process.kill()
    assert err == "wavefabric: rank 0 was killed (signal 9); all ranks stopped\n"
    assert not any(os.path.exists(file) for file in files)


def test_only_what_an_mpi_made_there_is_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(dev_shm, "_FOLDER", tmp_path)
    (tmp_path / "below").mkdir()
    names = ["mpich_shm_1_0", "vader_segment.host.0.1", "sem.other", "below/mpich_shm_2_0"]
    for name in names:
        (tmp_path / name).touch()
    remove({tmp_path / name for name in [*names, "mpich_shm_gone"]})
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["below", "mpich_shm_2_0", "sem.other"]


@linux
def test_mapped_files_of_a_process():
    with subprocess.Popen(["sleep", "60"]) as other:  # this process may have started MPI
        assert mapped(other.pid) == set()
        other.kill()
    assert mapped(1 << 30) == set()  # no such process


def test_no_space_is_said_before_anything_starts(monkeypatch):
    monkeypatch.setattr(dev_shm, "free_bytes", lambda: 3_000_000)
    check_space(2)
    with pytest.raises(InputError, match=r"/dev/shm: 3\.0 MB are free, 4 ranks need 4\.4 MB; remove"):
        check_space(4)
    monkeypatch.setattr(dev_shm, "free_bytes", lambda: None)  # another system
    check_space(1000)
    monkeypatch.undo()
    assert dev_shm.free_bytes() is None or Path("/dev/shm").is_dir()
