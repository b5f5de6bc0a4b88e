"""A rank that was stopped or has left is named, and all end; with small programs."""

import subprocess
import sys
from importlib.util import find_spec

import pytest

pytestmark = [
    pytest.mark.skipif(find_spec("mpi4py") is None, reason="needs mpi4py and mpiexec"),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc"),
    pytest.mark.usefixtures("ranks_apart"),
]

PROGRAM = """\
import os, signal, sys, time
import numpy as np
from wavefabric.runtime.exchange.launch import rank_status, watch
watch.STOPPED = watch.LEFT = 1
watch._PAUSE = 0.2
rank_status.begin()
from wavefabric.runtime.exchange.control import world_control
control = world_control()
rank = control.rank
{body}
rank_status.exits(0)
"""
LAUNCHER = """\
import sys
from pathlib import Path
from wavefabric.runtime.exchange.launch.launcher import LaunchOptions, launch
given = ["-c", sys.argv[2]], int(sys.argv[1])
sys.exit(launch(LaunchOptions(*given, checkpoint=Path("run.checkpoint"), program=[sys.executable])))
"""


def launched(ranks, body):
    """Exit code, stdout and stderr of ranks under the launcher."""
    words = [sys.executable, "-c", LAUNCHER, str(ranks), PROGRAM.format(body=body)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
def test_a_stopped_rank_is_named(victim):
    body = f"if rank == {victim}:\n    os.kill(os.getpid(), signal.SIGSTOP)\ncontrol.barrier()"
    assert launched(3, body) == (
        1,
        "",
        f"wavefabric: rank {victim} of 3 was stopped (SIGSTOP); all ranks ended; no checkpoint yet\n",
    )


@pytest.mark.slow
def test_a_rank_that_is_stopped_for_a_moment_is_not():
    body = """\
peer = control.all_gather(os.getpid())[1]
if rank == 1:
    os.kill(os.getpid(), signal.SIGSTOP)
elif rank == 0:
    time.sleep(0.5)
    os.kill(peer, signal.SIGCONT)
control.barrier()
if rank == 0:
    print("done")"""
    assert launched(2, body) == (0, "done\n", "")


@pytest.mark.parametrize(
    ("leave", "victim"),
    [
        ("sys.exit(5)", 1),
        *(
            pytest.param(leave, victim, marks=pytest.mark.slow)
            for leave, victim in (
                ("sys.exit()", 0),
                ("sys.exit()", 1),
                ("sys.exit(5)", 0),
                ("raise SystemExit('enough')", 0),
                ("raise SystemExit('enough')", 1),
            )
        ),
    ],
)
def test_a_rank_that_leaves_while_others_wait_is_named(victim, leave):
    code, _, err = launched(2, f"if rank == {victim}:\n    {leave}\ncontrol.barrier()")
    assert code == 1
    said = f"rank {victim} of 2 has left while others wait for it; all ranks ended; no checkpoint yet"
    assert err.splitlines()[-1] == f"wavefabric: {said}"


@pytest.mark.slow
def test_an_array_that_will_not_come():
    body = "if rank == 1:\n    sys.exit()\ncontrol.recv_array(1, np.zeros(3))"
    code, _, err = launched(2, body)
    assert (code, err.split(";")[0]) == (1, "wavefabric: rank 1 of 2 has left while others wait for it")


@pytest.mark.slow
def test_a_rank_that_is_done_first_is_not_suspected():
    body = "if rank == 0:\n    time.sleep(3)\n    print('written')"
    assert launched(2, body) == (0, "written\n", "")


@pytest.mark.slow
def test_an_exit_status_is_the_real_one():
    body = "if rank == 1:\n    os._exit(3)\ncontrol.barrier()"
    assert launched(3, body) == (
        3,
        "",
        "wavefabric: rank 1 ended without a word (exit code 3); all ranks stopped; no checkpoint yet\n",
    )


@pytest.mark.slow
def test_without_a_launcher():
    from wavefabric.runtime.exchange.launch import mpiexec_command

    words, variables = mpiexec_command.command(2, "auto", {})
    body = "if rank == 1:\n    os.kill(os.getpid(), signal.SIGSTOP)\ncontrol.barrier()"
    words = ["env", *(f"{k}={v}" for k, v in variables.items()), *words, sys.executable, "-c"]
    done = subprocess.run([*words, PROGRAM.format(body=body)], capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert "wavefabric: rank 1 of 2 was stopped (SIGSTOP); all ranks end\n" in done.stderr
