"""`ultrasound-breakdown` where kernels store in other ranks' memory, on emulated GPUs that are threads."""

from types import SimpleNamespace

import numpy as np
import pytest
from fake_gpus import EmulatedGpu, fake_cupy, together

from benchmarks.ultrasound_breakdown import _Case
from wavefabric.acoustics.choose_stages import make_stages
from wavefabric.acoustics.decomposition.decompose import Decomposition, decompose
from wavefabric.cli.bench.ultrasound_cases import Stepper, light_problem

SHAPE = (8, 8, 16)
OPTIONS = Decomposition("local", (1, 1, 2), overlap=2)


class _Counting(EmulatedGpu):
    """Counts the exchanges that begin."""

    begun = 0

    def launch(self, function, *launch, **shared):
        self.begun += self._recorded is None and function.name == "put"
        super().launch(function, *launch, **shared)


@pytest.mark.slow
def test_parts_are_timed_with_and_without_exchanges(monkeypatch):
    """Steps are captured as graphs, which go on doing what was captured."""
    monkeypatch.setenv("WAVEFABRIC_PROTOCOL", "signals")
    monkeypatch.setattr(Stepper.begin_anew, "__defaults__", (2,))

    def work(comm):
        def stepper(*_):
            problem, cut = light_problem("homogeneous", SHAPE), decompose(SHAPE, 2, OPTIONS)
            return Stepper(make_stages(comm.device, problem, np.float64, comm=comm, decomposition=cut), 3)

        def times(work):
            before = comm.device.begun
            work()
            return {"ms": comm.device.begun - before}

        case = _Case(SimpleNamespace(stepper=stepper, times=times), comm, "homogeneous", SHAPE, OPTIONS)
        return case.run(case.compute())

    with fake_cupy() as transports:
        for result in together(transports, "p2p", 2, work, make=_Counting):
            assert {name: result[name] for name in ("compute", "pack", "ms")} == {
                "compute": 0,
                "pack": 2,
                "ms": 2,
            }
            assert result["bytes_sent_a_step"] == 4 * 2 * 2 * 8 * 8 * 8
            assert result["finite"]
