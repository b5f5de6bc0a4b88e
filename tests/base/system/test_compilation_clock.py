"""A word while kernels are compiled, none if that is done at once; and the time that it takes."""

import threading
import time

import pytest

from wavefabric.base.system import compilation_clock
from wavefabric.base.system.compilation_clock import CompilationClock


@pytest.fixture
def clock(monkeypatch):
    """A clock of its own, and a list whose last entry is the time."""
    times = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: times[-1])
    monkeypatch.setattr(compilation_clock, "CLOCK", CompilationClock())
    return compilation_clock.CLOCK, times


def test_working_time_stands_still_during_compilation_also_within_another(clock):
    clock, times = clock
    times.append(1.0)
    with compilation_clock.CLOCK.compiling():
        times.append(2.0)
        assert (clock.seconds(), compilation_clock.working_time()) == (1.0, 1.0)
        with compilation_clock.CLOCK.compiling():  # a kernel that a kernel calls, or another thread
            times.append(5.0)
        times.append(6.0)
    times.append(10.0)
    assert (clock.seconds(), compilation_clock.working_time()) == (5.0, 5.0)


def test_a_compilation_that_fails_is_over(clock):
    clock, times = clock

    def compile_wrongly():
        with compilation_clock.CLOCK.compiling():
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


@pytest.mark.parametrize(("after", "lines"), [(0.0, 1), (60.0, 0), (None, 0)])
def test_a_compilation_is_announced_if_it_takes_long(monkeypatch, capsys, after, lines):
    monkeypatch.setattr(compilation_clock, "CLOCK", CompilationClock())
    told = threading.Event()
    announce = compilation_clock.CLOCK.announce
    monkeypatch.setattr(compilation_clock.CLOCK, "announce", lambda: (announce(), told.set()))
    with compilation_clock.CLOCK.compiling(after):
        assert not lines or told.wait(30)
    assert capsys.readouterr().err.count("compiling kernels") == lines
