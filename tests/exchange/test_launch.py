"""mpiexec started and watched, with small children that need no MPI: what is passed on, what failures say."""

import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec

import pytest

pytestmark = pytest.mark.skipif(find_spec("mpi4py") is None, reason="needs mpi4py and mpiexec")

CHILD = """\
import os, signal, sys, time
from wavefabric.exchange import environment, muster
muster.sign_in()
rank = environment.rank()
def say(line, stream=sys.stdout):  # in one piece
    stream.write(line + chr(10))
    stream.flush()
{body}
muster.sign_out(0)
"""
LAUNCHER = """\
import sys
from pathlib import Path
from wavefabric.exchange.launch import Job, launch
saved = Path(sys.argv[3]) if len(sys.argv) > 3 else None
sys.exit(launch(Job(["-c", sys.argv[2]], int(sys.argv[1]), checkpoint=saved, program=[sys.executable])))
"""
WAIT = """\
say(f"pid {rank} {os.getpid()}")
time.sleep(60)
"""


def start_ranks(ranks, body, *more):
    words = [sys.executable, "-c", LAUNCHER, str(ranks), CHILD.format(body=body), *map(str, more)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def pids(process, ranks):
    """Processes of the ranks, once all have said theirs."""
    found = {}
    while len(found) < ranks:
        word, rank, pid = process.stdout.readline().split()
        assert word == "pid"
        found[int(rank)] = int(pid)
    return found


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone(numbers, seconds=10):
    until = time.monotonic() + seconds
    while any(alive(pid) for pid in numbers) and time.monotonic() < until:
        time.sleep(0.02)
    return not any(alive(pid) for pid in numbers)


def test_ranks_know_one_another_and_their_settings():
    body = """\
names = ("WAVEFABRIC_RANKS", "WAVEFABRIC_TRANSPORT", "WAVEFABRIC_THREADS")
numbers = (rank, environment.ranks(), environment.local_rank(), environment.local_size())
say(" ".join(map(str, [*numbers, *(os.environ[name] for name in names)])))
"""
    process = start_ranks(3, body)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert sorted(out.splitlines()) == [f"{rank} 3 {rank} 3 3 auto 1" for rank in range(3)]
    assert err == ""


def test_exit_code_and_one_line_for_what_all_ranks_say():
    body = """\
say(f"wavefabric: rank {rank} of 3: grid: 7 given", sys.stderr)
muster.sign_out(2)
sys.exit(2)
"""
    process = start_ranks(3, body)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert len(err.splitlines()) == 1
    assert err.endswith("of 3: grid: 7 given\n")


@pytest.mark.parametrize("victim", [0, 2])
def test_a_killed_rank_is_named(tmp_path, victim):
    saved = tmp_path / "run.h5.checkpoint"
    saved.touch()
    process = start_ranks(4, WAIT, saved)
    found = pids(process, 4)
    os.kill(found[victim], signal.SIGKILL)
    out, err = process.communicate(timeout=10)
    assert process.returncode == 128 + signal.SIGKILL
    assert err == (
        f"wavefabric: rank {victim} was killed (signal 9); all ranks stopped; "
        f"the same command goes on from {saved}\n"
    )
    assert out == ""
    assert gone(found.values())


def test_a_crash_says_so():
    process = start_ranks(2, "if rank == 1:\n    os.kill(os.getpid(), signal.SIGSEGV)\ntime.sleep(60)\n")
    _, err = process.communicate(timeout=20)
    assert process.returncode not in (0, 2, 130)
    assert err == "wavefabric: rank 1 crashed (segmentation fault); all ranks stopped\n"


def test_interrupt_reaches_each_rank_once():
    body = """\
seen = []
signal.signal(signal.SIGINT, lambda *_: seen.append(1))
say(f"pid {rank} {os.getpid()}")
while not seen:
    time.sleep(0.01)
time.sleep(0.5)  # the time of a checkpoint
say(f"ints {len(seen)}")
muster.sign_out(130)
sys.exit(130)
"""
    process = start_ranks(2, body)
    pids(process, 2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert out.splitlines() == ["ints 1", "ints 1"]
    assert err == ""


def test_third_interrupt_kills():
    process = start_ranks(2, "signal.signal(signal.SIGINT, lambda *_: say(f'int {rank}'))\n" + WAIT)
    found = pids(process, 2)
    for _ in range(2):
        process.send_signal(signal.SIGINT)
        assert {process.stdout.readline(), process.stdout.readline()} == {"int 0\n", "int 1\n"}
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert err == "wavefabric: interrupted\n"
    assert gone(found.values())


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_ranks_go_with_their_launcher(how):
    process = start_ranks(2, WAIT)
    found = pids(process, 2)
    process.send_signal(how)
    process.wait(20)
    assert gone(found.values())
    assert process.returncode == (143 if how == signal.SIGTERM else -9)
    process.communicate()


def test_output_is_passed_on_whole():
    body = """\
if rank == 0:
    sys.stdout.write("".join(f"{i}\\n" for i in range(20000)) + "\\n-----\\n\\nend")
"""
    process = start_ranks(2, body)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert out == "".join(f"{i}\n" for i in range(20000)) + "\n-----\n\nend"
