"""Ultrasound over ranks whose kernels store in each other's memory, on emulated GPUs that are threads."""

import numpy as np
import pytest
from rank_steps import CASES, alone, noise_problem, run_steps
from stand_in_gpus import EmulatedGpu, stand_in, together

from wavefabric.acoustics.parallel.decomposition import Options
from wavefabric.acoustics.parallel.fused_cuda import FusedCudaLocalStages
from wavefabric.acoustics.parallel.fused_peers_cuda import FusedCudaGlobalPeerStages
from wavefabric.exchange import solo


@pytest.fixture(scope="module")
def transports():
    with stand_in() as modules:
        yield modules


def fields_of(transports, size, problem, options, kind):
    """Fields of the whole grid after some steps, which the ranks agree on."""

    def work(comm):
        stages, found = run_steps(comm, problem, np.float64, options)
        assert isinstance(stages, kind)
        stages.finish_exchanges()
        comm.check()
        return found

    found = together(transports, "p2p", size, work, make=EmulatedGpu)
    assert all((each[name] == found[0][name]).all() for each in found for name in each)
    return found[0]


def agree(found, wanted, tolerance):
    for name, field in found.items():
        np.testing.assert_allclose(
            field, wanted[name], rtol=0, atol=tolerance * np.abs(wanted[name]).max(), err_msg=name
        )


@pytest.mark.parametrize(("absorption", "nonlinear", "seed"), CASES)
def test_global(transports, cpu, monkeypatch, absorption, nonlinear, seed):
    monkeypatch.setenv("WAVEFABRIC_PROTOCOL", "signals")
    problem = noise_problem((10, 7, 5), absorption, nonlinear, seed)
    found = fields_of(transports, 2, problem, Options("global"), FusedCudaGlobalPeerStages)
    wanted = alone(solo(cpu), problem, np.float64)
    agree(found, wanted, 1e-12)


@pytest.mark.parametrize("grid", [(1, 1, 2), (2, 1, 1)])
@pytest.mark.parametrize(("absorption", "nonlinear", "seed"), CASES[:2])
def test_local(transports, monkeypatch, absorption, nonlinear, seed, grid):
    """To the bit what copies between the ranks bring."""
    problem, options = (
        noise_problem((20, 8, 20), absorption, nonlinear, seed),
        Options("local", grid, overlap=4),
    )
    wanted = fields_of(transports, 2, problem, options, FusedCudaLocalStages)
    monkeypatch.setenv("WAVEFABRIC_PROTOCOL", "signals")
    found = fields_of(transports, 2, problem, options, FusedCudaLocalStages)
    assert all((found[name] == wanted[name]).all() for name in wanted)
