"""Ultrasound over ranks whose kernels store in each other's memory, on emulated GPUs and on one GPU."""

from functools import partial

import numpy as np
import pytest
from one_gpu import together_on_one_gpu
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


@pytest.fixture(params=["emulated", pytest.param("cuda", marks=pytest.mark.gpu)])
def ranks(request, transports, monkeypatch):
    """Runs a function of a communicator on so many ranks."""
    if request.param == "cuda":
        return together_on_one_gpu
    monkeypatch.setenv("WAVEFABRIC_PROTOCOL", "signals")
    return partial(by_threads, transports)


def by_threads(transports, size, work):
    return together(transports, "p2p", size, work, make=EmulatedGpu)


def fields_of(ranks, size, problem, options, kind):
    """Fields of the whole grid after some steps, which the ranks agree on."""

    def work(comm):
        stages, found = run_steps(comm, problem, np.float64, options)
        assert isinstance(stages, kind)
        stages.finish_exchanges()
        comm.check()
        return found

    found = ranks(size, work)
    assert all((each[name] == found[0][name]).all() for each in found for name in each)
    return found[0]


def agree(found, wanted, tolerance):
    for name, field in found.items():
        np.testing.assert_allclose(
            field, wanted[name], rtol=0, atol=tolerance * np.abs(wanted[name]).max(), err_msg=name
        )


@pytest.mark.parametrize(("absorption", "nonlinear", "seed"), CASES)
def test_global(ranks, cpu, absorption, nonlinear, seed):
    problem = noise_problem((10, 7, 5), absorption, nonlinear, seed)
    found = fields_of(ranks, 2, problem, Options("global"), FusedCudaGlobalPeerStages)
    wanted = alone(solo(cpu), problem, np.float64)
    agree(found, wanted, 1e-12)


@pytest.mark.parametrize("grid", [(1, 1, 2), (2, 1, 1)])
@pytest.mark.parametrize(("absorption", "nonlinear", "seed"), CASES[:2])
def test_local(ranks, transports, monkeypatch, absorption, nonlinear, seed, grid):
    """What copies between the ranks bring; on the same device to the bit."""
    problem, options = (
        noise_problem((20, 8, 20), absorption, nonlinear, seed),
        Options("local", grid, overlap=4),
    )
    found = fields_of(ranks, 2, problem, options, FusedCudaLocalStages)
    monkeypatch.delenv("WAVEFABRIC_PROTOCOL", raising=False)
    wanted = fields_of(partial(by_threads, transports), 2, problem, options, FusedCudaLocalStages)
    if ranks is together_on_one_gpu:
        agree(found, wanted, 1e-11)
    else:
        assert all((found[name] == wanted[name]).all() for name in wanted)
