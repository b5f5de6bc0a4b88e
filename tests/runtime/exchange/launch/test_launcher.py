"""mpiexec started and watched, with small children that need no MPI: what is passed on, what failures say."""

import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec

import pytest

from wavefabric.runtime.exchange.launch import watch

pytestmark = pytest.mark.skipif(find_spec("mpi4py") is None, reason="needs mpi4py and mpiexec")

CHILD = """\
import os, signal, sys, time
from wavefabric.runtime.exchange.launch import environment, rank_status
rank_status.begin()
rank = environment.rank()
def say(line, stream=sys.stdout):  # in one piece
    stream.write(line + chr(10))
    stream.flush()
{body}
rank_status.exits(0)
"""
LAUNCHER = """\
import sys
from pathlib import Path
from wavefabric.runtime.exchange.launch.launcher import LaunchOptions, launch
saved = Path(sys.argv[3]) if len(sys.argv) > 3 else None
given = ["-c", sys.argv[2]], int(sys.argv[1])
sys.exit(launch(LaunchOptions(*given, checkpoint=saved, program=[sys.executable])))
"""
WAIT = """\
say(f"pid {rank} {os.getpid()}")
time.sleep(60)
"""


def words(ranks, body, *more):
    return [sys.executable, "-c", LAUNCHER, str(ranks), CHILD.format(body=body), *map(str, more)]


started = []


@pytest.fixture(autouse=True)
def nothing_is_left():
    """A launcher that is still there takes its ranks with it."""
    yield
    while started:
        process = started.pop()
        process.kill()
        process.communicate()


def start_ranks(ranks, body, *more, **options):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(words(ranks, body, *more), **pipes, **options)
    started.append(process)
    return process


def pids(process, ranks):
    """Processes of the ranks, once all have said theirs."""
    result = {}
    while len(result) < ranks:
        word, rank, pid = process.stdout.readline().split()
        assert word == "pid"
        result[int(rank)] = int(pid)
    return result


def alive(pid):
    process = watch._process(pid)
    return process is not None and process[1] != "Z"


def gone(numbers, seconds=120):
    until = time.monotonic() + seconds
    while any(alive(pid) for pid in numbers) and time.monotonic() < until:
        time.sleep(0.02)
    return not any(alive(pid) for pid in numbers)


def test_ranks_know_one_another_and_their_settings():
    body = """\
names = ("WAVEFABRIC_RANKS", "WAVEFABRIC_THREADS")
numbers = (rank, environment.ranks(), environment.local_rank(), environment.local_size())
say(" ".join(map(str, [*numbers, *(os.environ[name] for name in names)])))
"""
    process = start_ranks(3, body)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert sorted(out.splitlines()) == [f"{rank} 3 {rank} 3 3 1" for rank in range(3)]
    assert err == ""


def test_exit_code_and_one_line_for_what_all_ranks_say():
    body = """\
say(f"wavefabric: rank {rank} of 3: grid: 7 given", sys.stderr)
rank_status.exits(2)
sys.exit(2)
"""
    process = start_ranks(3, body)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 2
    assert len(err.splitlines()) == 1
    assert err.endswith("of 3: grid: 7 given\n")


@pytest.mark.parametrize("victim", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_a_killed_rank_is_named(tmp_path, victim):
    saved = tmp_path / "run.h5.checkpoint"
    saved.touch()
    process = start_ranks(4, WAIT, saved)
    result = pids(process, 4)
    os.kill(result[victim], signal.SIGKILL)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 128 + signal.SIGKILL
    assert err == (
        f"wavefabric: rank {victim} was killed (signal 9); all ranks stopped; "
        f"the same command resumes from {saved}\n"
    )
    assert out == ""
    assert gone(result.values())


def test_a_crash_says_so():
    process = start_ranks(2, "if rank == 1:\n    os.kill(os.getpid(), signal.SIGSEGV)\ntime.sleep(60)\n")
    _, err = process.communicate(timeout=300)
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
rank_status.exits(130)
sys.exit(130)
"""
    process = start_ranks(2, body)
    pids(process, 2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 130
    assert out.splitlines() == ["ints 1", "ints 1"]
    assert err == ""


def test_third_interrupt_kills():
    process = start_ranks(2, "signal.signal(signal.SIGINT, lambda *_: say(f'int {rank}'))\n" + WAIT)
    result = pids(process, 2)
    for _ in range(2):
        process.send_signal(signal.SIGINT)
        assert {process.stdout.readline(), process.stdout.readline()} == {"int 0\n", "int 1\n"}
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 130
    assert err == "wavefabric: interrupted\n"
    assert gone(result.values())


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_ranks_go_with_their_launcher(how):
    process = start_ranks(2, WAIT)
    result = pids(process, 2)
    process.send_signal(how)
    process.wait(120)
    assert gone(result.values())
    assert process.returncode == (143 if how == signal.SIGTERM else -9)
    process.communicate()


@pytest.mark.parametrize("how", [signal.SIGTERM, pytest.param(signal.SIGUSR1, marks=pytest.mark.slow)])
def test_terminate_reaches_each_rank_and_is_waited_for(how):
    """Batch systems may send it again, and to every process, while ranks save."""
    body = """\
seen = []
signal.signal(signal.SIGTERM, lambda *_: seen.append(1))
say(f"pid {rank} {os.getpid()}")
while not seen:
    time.sleep(0.01)
say("saving")
time.sleep(1.0)
say("saved")
rank_status.exits(143)
sys.exit(143)
"""
    process = start_ranks(2, body)
    pids(process, 2)
    process.send_signal(how)
    assert {process.stdout.readline(), process.stdout.readline()} == {"saving\n"}
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 143
    assert sorted(out.splitlines()) == ["saved", "saved"]
    assert err == ""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="POSIX signals")
def test_ranks_of_a_background_job_can_be_interrupted():
    """A shell script has what it puts in the background ignore Ctrl-C; ranks hear of it from the launcher."""
    body = "say(str(signal.getsignal(signal.SIGINT) is signal.default_int_handler))"
    process = start_ranks(2, body, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
    out, err = process.communicate(timeout=300)
    assert (out, err, process.returncode) == ("True\nTrue\n", "", 0)


DRIVER = """\
import subprocess, sys
child = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
print("pid", 9, child.pid, flush=True)
for line in child.stdout:
    sys.stdout.write(line.decode())
    sys.stdout.flush()
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux")
def test_a_launcher_that_nobody_waits_for_ends():
    """What started it is gone, and nobody reads what it prints: it ends, its ranks first."""
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, *words(2, WAIT)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    started.append(driver)
    result = pids(driver, 3)
    driver.kill()
    assert gone(result.values())


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="POSIX shells")
def test_a_launcher_goes_on_without_its_shell(tmp_path):
    """Put in the background by a shell that has ended, with its output in a file."""
    body = "time.sleep(2)\nsay('done')"
    with open(tmp_path / "log", "w") as log:
        shell = ["sh", "-c", '"$@" & echo $$', "sh", *words(2, body)]
        subprocess.run(shell, stdout=log, stderr=log, check=True, timeout=300)
    until = time.monotonic() + 120
    while (tmp_path / "log").read_text().count("done") < 2 and time.monotonic() < until:
        time.sleep(0.05)
    assert (tmp_path / "log").read_text().splitlines()[1:] == ["done", "done"]


@pytest.mark.slow
def test_output_is_passed_on_whole():
    body = """\
if rank == 0:
    sys.stdout.write("".join(f"{i}\\n" for i in range(20000)) + "\\n-----\\n\\nend")
"""
    process = start_ranks(2, body)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert out == "".join(f"{i}\n" for i in range(20000)) + "\n-----\n\nend"
