"""Commands that run kernels say so on stderr before these are compiled, unless they are to be quiet."""

import shutil
from pathlib import Path

import pytest

from wavefabric.base.system.compilation_clock import CompilationClock
from wavefabric.cli.common import progress
from wavefabric.runtime.device.cpu import CpuDevice

KWAVE = Path(__file__).parents[2] / "data" / "kwave" / "dirichlet_2d.h5"
RUN = ("run", "run.toml", "--device", "cpu", "--threads", 1)
FILE = ("run", "case.h5", "--device", "cpu", "--threads", 1)
PROGRAM = ("kwave", "-i", "case.h5", "-o", "out.h5", "--device", "cpu", "-t", 1, "--benchmark", 5)


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (RUN, 1),
        (FILE, 1),
        (PROGRAM, 1),
        pytest.param((*RUN, "--quiet"), 0, marks=pytest.mark.slow),
        ((*FILE, "--json"), 0),
        ((*PROGRAM, "--verbose", 0), 0),
    ],
)
def test_one_line_before_kernels_are_compiled(command, run_text, tmp_path, monkeypatch, words, lines):
    text = run_text.replace("symbols = 64", "symbols = 16").replace("spans = 2", "spans = 1")
    (tmp_path / "run.toml").write_text(
        text.replace('step = "1 km"', 'step = "40 km"').replace("80 km", "40 km")
    )
    shutil.copy(KWAVE, tmp_path / "case.h5")
    clock, prepare = CompilationClock(), CpuDevice.kernels
    # As if something had to be compiled.
    monkeypatch.setattr(CpuDevice, "kernels", lambda *arguments: clock.announce() or prepare(*arguments))
    monkeypatch.setattr(progress, "CLOCK", clock)
    code, _, err = command(*words)
    assert code == 0, err
    told = [line for line in err.splitlines() if "compiling kernels" in line]
    assert len(told) == lines
    assert all(line.startswith("wavefabric: compiling kernels for this GPU") for line in told)
