"""Starts the tests marked ``parallel`` under mpiexec, once for each number of ranks."""

import os
import re
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from wavefabric.base.system.processes import die_with_parent

_TESTS = Path(__file__).parent
# One thread a rank; and a rank that waits leaves its core to others at once, since there are fewer cores than
# ranks: twice as fast on two.
_PER_RANK = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
_PER_RANK |= {"MPIR_CVAR_POLLS_BEFORE_YIELD": "0", "OMPI_MCA_mpi_yield_when_idle": "1"}


def _files(ranks: int, which: str) -> list[str]:
    """Test files that name this number of ranks: collecting all would cost more than running these."""
    named = re.compile(rf"mark\.parallel\([^)]*\b{ranks}\b")
    marked = re.compile(r"mark\.slow" if which == "slow" else "")
    texts = {str(path): path.read_text("utf-8") for path in sorted(_TESTS.rglob("test_*.py"))}
    return [path for path, text in texts.items() if named.search(text) and marked.search(text)]


@pytest.mark.usefixtures("ranks_apart")
@pytest.mark.parametrize(
    ("ranks", "which"),
    [
        (2, "not slow"),
        pytest.param(4, "", marks=pytest.mark.slow),
        pytest.param(2, "slow", marks=pytest.mark.slow),
        pytest.param(3, "", marks=pytest.mark.slow),
        pytest.param(8, "", marks=pytest.mark.slow),
    ],
)
def test_parallel_tests_pass_under_mpiexec(tmp_path, ranks, which):
    beside = Path(sys.executable).with_name("mpiexec")
    mpiexec = str(beside) if beside.exists() else shutil.which("mpiexec")
    assert mpiexec, "no mpiexec: install the extra 'mpi'"
    files = _files(ranks, which)
    assert files
    command = [mpiexec, "-n", str(ranks), sys.executable, "-m", "pytest", *files, "-p", "no:cacheprovider"]
    options = ["--no-header", "-p", "no:xdist", "-p", "no:hypothesispytest", "--tb=short", "-ra"]
    options += ["-m", f"not gpu and not multigpu{' and ' * bool(which)}{which}"]
    # Ranks that tidy up one folder of temporary files at the same time would fail: none does.
    options += ["-o", "tmp_path_retention_count=100"]
    done = subprocess.run(
        [*command, *options],
        env=os.environ | _PER_RANK | {"PYTEST_DEBUG_TEMPROOT": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=600,
        preexec_fn=partial(
            die_with_parent, signal.SIGTERM, os.getpid()
        ),  # nothing is left if the tests are killed
    )
    assert done.returncode == 0, f"{done.stdout[-12000:]}\n{done.stderr[-4000:]}"
    # Every rank says that it ran something.
    assert len(re.findall(r"\d+ passed", done.stdout)) == ranks, done.stdout[-4000:]
