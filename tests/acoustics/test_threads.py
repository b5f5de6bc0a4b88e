"""How many CPU threads a run takes."""

import numpy as np
import pytest

from wavefabric.acoustics import Grid, Medium, Source, run_settings, simulate
from wavefabric.acoustics.problem import Recording
from wavefabric.acoustics.recording.sinks import MemorySink
from wavefabric.acoustics.run import run
from wavefabric.acoustics.run_settings import RunSettings
from wavefabric.acoustics.simulation import to_problem
from wavefabric.runtime.device import cpu


@pytest.fixture
def eight(monkeypatch):
    """A machine of eight hardware threads."""
    for module in (run_settings, cpu):
        monkeypatch.setattr(module, "usable_threads", lambda: 8)


@pytest.mark.parametrize(
    ("shape", "wanted"),
    [
        ((128, 128, 1), 1),
        ((512, 512, 1), 4),
        ((1024, 1024, 1), 8),
        ((8192, 8192, 1), 8),
        ((16, 16, 16), 1),
        ((48, 48, 48), 1),
        ((64, 64, 64), 4),
        ((128, 128, 128), 8),
    ],
)
def test_small_grids_take_one_thread(eight, shape, wanted):
    assert run_settings.default_threads(shape) == wanted
    assert RunSettings(device="cpu").with_ranks(shape).ranks.device.threads == wanted
    assert RunSettings(device="cpu", threads=3).with_ranks(shape).ranks.device.threads == 3


def test_it_reaches_a_run_and_a_request_wins(eight, monkeypatch):
    taken = []
    init = cpu.CpuDevice.__init__

    def noted(self, threads=None):
        init(self, threads)
        taken.append(self.threads)

    monkeypatch.setattr(cpu.CpuDevice, "__init__", noted)
    grid = Grid((16, 12), 1e-4, pml_size=2)
    parts = grid, Medium(1500.0, 1000.0), Source(p0=np.ones(grid.shape))
    options = {"dt": 2e-8, "steps": 1, "device": "cpu"}
    simulate(*parts, **options)
    simulate(*parts, **options, threads=2)
    problem, _ = to_problem(*parts, None, 2e-8, 1)
    run(problem, Recording(("p_final",)), MemorySink(), RunSettings(device="cpu"))
    assert taken == [1, 2, 1]
