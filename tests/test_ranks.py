"""Starts the tests marked ``parallel`` under mpiexec, once for each number of ranks."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_TESTS = Path(__file__).parent
# One thread a rank; and a rank that waits leaves its core to others at once, since there are fewer cores than
# ranks: twice as fast on two.
_PER_RANK = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
_PER_RANK |= {"MPIR_CVAR_POLLS_BEFORE_YIELD": "0", "OMPI_MCA_mpi_yield_when_idle": "1"}


def _files(ranks: int) -> list[str]:
    """Test files that name this number of ranks: collecting all would cost more than running these."""
    pattern = re.compile(rf"mark\.parallel\([^)]*\b{ranks}\b")
    return [str(p) for p in sorted(_TESTS.rglob("test_*.py")) if pattern.search(p.read_text("utf-8"))]


def _own_cores() -> None:
    """Stay on this worker's cores: a rank that waits takes time from its fellows, from no other test."""
    if not hasattr(os, "sched_setaffinity"):
        return
    cores = sorted(os.sched_getaffinity(0))
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    os.sched_setaffinity(0, cores[number::workers] or cores)


@pytest.mark.parametrize("ranks", [2, 8, 4, 3])
def test_parallel_tests_pass_under_mpiexec(pytestconfig, tmp_path, ranks):
    beside = Path(sys.executable).with_name("mpiexec")
    mpiexec = str(beside) if beside.exists() else shutil.which("mpiexec")
    assert mpiexec, "no mpiexec: install the extra 'mpi'"
    files = _files(ranks)
    assert files
    command = [mpiexec, "-n", str(ranks), sys.executable, "-m", "pytest", *files, "-p", "no:cacheprovider"]
    options = ["--no-header", "-p", "no:xdist", "-p", "no:hypothesispytest", "--tb=short", "-ra"]
    # FFT plans of these sizes alone: those of all that ever ran on this machine take longer to look through.
    kept = getattr(pytestconfig, "cache", None)
    plans = {"XDG_CACHE_HOME": str(kept.mkdir("ranks") if kept else tmp_path)}
    done = subprocess.run(
        [*command, *options],
        env=os.environ | _PER_RANK | plans,
        preexec_fn=_own_cores,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, f"{done.stdout[-12000:]}\n{done.stderr[-4000:]}"
    # Every rank says that it ran something.
    assert len(re.findall(r"\d+ passed", done.stdout)) == ranks, done.stdout[-4000:]
