"""Errors on ranks: one clear line, the right exit code, all stop; with commands of a few lines."""

import subprocess
import sys
from importlib.util import find_spec

import pytest

pytestmark = [
    pytest.mark.skipif(find_spec("mpi4py") is None, reason="needs mpi4py and mpiexec"),
    pytest.mark.usefixtures("ranks_apart"),
]

PROGRAM = """\
import wavefabric.cli as cli
from wavefabric.base.errors import InputError
from wavefabric.runtime.exchange.control import world_control

@cli.app.command("probe")
def probe():
    control = world_control()
    rank = control.rank
{body}

cli.main(["probe"])
"""
LAUNCHER = """\
import sys
from wavefabric.runtime.exchange.launch.launcher import LaunchOptions, launch
sys.exit(launch(LaunchOptions(["-c", sys.argv[2]], int(sys.argv[1]), program=[sys.executable])))
"""


def probe(ranks, body):
    """Exit code and stderr of a command under ranks."""
    text = PROGRAM.format(body="\n".join(f"    {line}" for line in body.splitlines()))
    done = subprocess.run(
        [sys.executable, "-c", LAUNCHER, str(ranks), text], capture_output=True, text=True, timeout=120
    )
    return done.returncode, done.stderr


@pytest.mark.slow
def test_all_fail_alike():
    assert probe(2, "raise InputError('grid: 7 given; allowed: 8')") == (
        2,
        "wavefabric: error: grid: 7 given; allowed: 8\n",
    )


@pytest.mark.slow
def test_one_fails_and_the_others_wait():
    body = """\
cli.failure._SHORT = 0.2  # the other does not come
if rank == 1:
    raise InputError('memory: 2 GiB wanted, 1 GiB is free')
control.barrier()
control.barrier()"""
    assert probe(2, body) == (2, "wavefabric: rank 1 of 2: memory: 2 GiB wanted, 1 GiB is free\n")


@pytest.mark.slow
def test_all_fail_differently():
    code, err = probe(2, "raise InputError(f'gpu {rank}: busy') if rank else MemoryError('no space')")
    assert (code, err) == (2, "wavefabric: error: rank 0 of 2: memory: no space\n")


@pytest.mark.slow
def test_highest_code_and_first_message():
    body = """\
if rank == 0:
    raise KeyboardInterrupt
raise InputError('length: 0 given')"""
    assert probe(2, body) == (130, "wavefabric: error: rank 1 of 2: length: 0 given\n")


@pytest.mark.slow
def test_a_bug_shows_one_traceback():
    code, err = probe(2, "return {}['key']")
    assert code == 1
    assert err.count("Traceback") == 1
    assert err.splitlines()[-1] == "wavefabric: error: KeyError: 'key'"


@pytest.mark.slow
def test_leaving_early_does_not_hold_the_others():
    body = """\
cli.failure._SHORT = 0.2  # the other does not come
if rank == 0:
    return
raise InputError('span: 3 given')"""
    assert probe(2, body) == (2, "wavefabric: rank 1 of 2: span: 3 given\n")


@pytest.mark.slow
def test_one_is_interrupted_before_all_have_met():
    """It cannot agree with the others on anything: they are elsewhere, in calls that need it."""
    body = """\
from mpi4py import MPI
from wavefabric.runtime.exchange import control as agreement
from wavefabric.runtime.exchange.control import MPIControl
agreement.world_control.cache_clear()
cli.failure._TIMEOUT = {130: 0.2}
cli.failure._SHORT = 0.2
other = MPIControl(MPI.COMM_WORLD)
if rank == 1:
    raise KeyboardInterrupt
other.barrier()
other.barrier()"""
    assert probe(2, body) == (130, "wavefabric: rank 1 of 2: interrupted; all ranks end\n")


@pytest.mark.slow
def test_one_leaves_by_system_exit():
    body = """\
cli.failure._SHORT = 0.2  # the other does not come
if rank == 1:
    raise SystemExit(7)
control.barrier()
control.barrier()"""
    assert probe(2, body) == (7, "")


def test_disagreement_is_named():
    body = """\
from wavefabric.runtime.exchange.control import check_agreement
facts = {"version": "1", "input": "abc" if rank < 2 else "xyz", "precision": str(rank)}
check_agreement(control, facts)"""
    assert probe(3, body) == (
        2,
        "wavefabric: error: input: rank 0 has abc, rank 2 has xyz; allowed: the same on all ranks\n",
    )
