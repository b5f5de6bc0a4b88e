"""A word before kernels are compiled, none if they come from Numba's cache; and the time that it takes."""

import os
import subprocess
import sys
import time

import pytest

from wavefabric.system import compiling
from wavefabric.system.compiling import CompilationClock

KERNELS = """\
from numba import njit

@njit(cache=True)
def double(x):
    return 2 * x

@njit(cache=True)
def half(x):
    return x / 2
"""

SCRIPT = """\
import time
from wavefabric.device import get_device
from wavefabric.system.compiling import CLOCK, working_time

kernels = get_device("cpu", 1).kernels("tiny")
wall, working = time.perf_counter(), working_time()
kernels.double({0})
kernels.half({0})
wall, working = time.perf_counter() - wall, working_time() - working
assert abs(wall - working - CLOCK.seconds()) < 1e-3
print(CLOCK.seconds() > 0)
"""


def output(folder, number):
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder), "NUMBA_CACHE_DIR": str(folder / "numba")}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(number)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr.count("wavefabric: compiling kernels")


@pytest.mark.slow
def test_one_line_and_the_seconds_of_compilation_and_none_with_a_warm_cache(tmp_path):
    (tmp_path / "tiny.py").write_text(KERNELS)
    assert output(tmp_path, "3") == ("True", 1)
    assert output(tmp_path, "3") == ("False", 0)
    assert output(tmp_path, "3.0") == ("True", 1)  # another type: a part is not there


@pytest.fixture
def clock(monkeypatch):
    """A clock of its own, and a list whose last entry is the time."""
    times = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: times[-1])
    monkeypatch.setattr(compiling, "CLOCK", CompilationClock())
    return compiling.CLOCK, times


def test_working_time_stands_still_during_compilation_also_within_another(clock):
    clock, times = clock
    times.append(1.0)
    with compiling.compiling():
        times.append(2.0)
        assert (clock.seconds(), compiling.working_time()) == (1.0, 1.0)
        with compiling.compiling():  # a kernel that a kernel calls, or another thread
            times.append(5.0)
        times.append(6.0)
    times.append(10.0)
    assert (clock.seconds(), compiling.working_time()) == (5.0, 5.0)


def test_a_compilation_that_fails_is_over(clock):
    clock, times = clock

    def compile_wrongly():
        with compiling.compiling():
            times.append(3.0)
            raise ValueError("no kernel")

    with pytest.raises(ValueError, match="no kernel"):
        compile_wrongly()
    times.append(4.0)
    assert clock.seconds() == 3.0


@pytest.mark.parametrize("announces", [True, False])
def test_one_line_per_process(clock, capsys, announces):
    clock, _ = clock
    clock.announces = announces
    clock.announce()
    clock.announce()
    assert capsys.readouterr().err.count("compiling kernels") == announces
