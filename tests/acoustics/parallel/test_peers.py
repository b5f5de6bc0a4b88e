"""Ultrasound over ranks whose kernels store in each other's memory, on emulated GPUs and on one GPU."""

from functools import partial

import numpy as np
import pytest
from emulated_device import EmulatedDevice
from fake_gpus import EmulatedGpu, fake_cupy, together
from one_gpu import together_on_one_gpu
from rank_steps import CASES, alone, noise_problem, run_steps

from wavefabric.acoustics.choose_stages import make_stages, needed_bytes
from wavefabric.acoustics.decomposition.decompose import Decomposition, decompose
from wavefabric.acoustics.parallel.fused_layouts import FusedLocalLayout, OneSidedLayout
from wavefabric.acoustics.problem import Recording
from wavefabric.base.errors import LateRank
from wavefabric.runtime.exchange import solo

#: Of even shares all ranks have the same kernels, which must be compiled.
EVEN, UNEVEN = (10, 6, 4), (10, 7, 5)


def by_threads(transports, size, work):
    return together(transports, "p2p", size, work, make=EmulatedGpu)


def fields_of(ranks, size, problem, options, kind):
    """Fields of the whole grid after some steps, which the ranks agree on."""

    def work(comm):
        stages, result = run_steps(comm, problem, np.float64, options)
        assert isinstance(stages.layout, kind)
        comm.check()
        assert not getattr(comm.device, "loaded_late", ())
        if kind is OneSidedLayout:
            # All that has come was waited for: what is put next finds space.
            others = [rank for rank in range(comm.size) if rank != comm.rank]
            taken, came = (
                comm.device.to_host(each) for each in (stages.layout._counts, stages.layout._flags.local)
            )
            taken = taken[..., 2:]
            np.testing.assert_array_equal(came[..., others], taken)
            assert (taken > 0).all()
        return result

    result = ranks(size, work)
    assert all((each[name] == result[0][name]).all() for each in result for name in each)
    return result[0]


def agree(result, wanted, tolerance):
    for name, field in result.items():
        np.testing.assert_allclose(
            field, wanted[name], rtol=0, atol=tolerance * np.abs(wanted[name]).max(), err_msg=name
        )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "absorption", "nonlinear", "seed"),
    [(EVEN, *CASES[1]), *((UNEVEN, *case) for case in CASES)],
)
def test_global(one_sided_ranks, cpu, shape, absorption, nonlinear, seed):
    problem = noise_problem(shape, absorption, nonlinear, seed)
    result = fields_of(one_sided_ranks, 2, problem, Decomposition("global"), OneSidedLayout)
    wanted = alone(solo(cpu), problem, np.float64)
    agree(result, wanted, 1e-12)


@pytest.mark.slow
def test_memory_is_that_of_spectra_as_planes_and_columns(transports, monkeypatch):
    """Rows of 64 complex numbers need no padding; copies between ranks pack as well."""
    monkeypatch.setenv("WAVEFABRIC_PROTOCOL", "signals")
    problem, dtype = noise_problem((126, 7, 5), *CASES[0]), np.dtype(np.float64)
    cut = decompose(problem.shape, 2)

    def work(comm):
        shared, symmetric = [], comm.symmetric

        def noted(shape, dtype):
            shared.append(symmetric(shape, dtype))
            return shared[-1]

        comm.symmetric = noted
        stages = make_stages(comm.device, problem, dtype, comm=comm, decomposition=cut)
        taken = sum(each.local.nbytes for each in shared if each.local.dtype == complex)
        estimated = stages.nbytes(problem, dtype, comm.device, cut.subdomains[comm.rank])
        estimated += stages.layout.nbytes(problem, dtype, cut, comm.rank)
        more = [
            needed_bytes(problem, Recording(()), dtype, comm.device, cut, one_sided)
            for one_sided in (True, False)
        ]
        return taken, estimated, more

    (taken, *_), (_, least, _) = result = together(transports, "p2p", 2, work, make=EmulatedGpu)
    assert result[0][1] == taken
    assert 0.8 * taken < least <= taken
    assert all(more[0] < more[1] for _, _, more in result)


@pytest.mark.slow
def test_a_spectrum_is_waited_for(transports, monkeypatch):
    """Until all other ranks have sent it in this call, whatever was sent before; who has not is named."""
    monkeypatch.setenv("WAVEFABRIC_PROTOCOL", "signals")
    waiting = transports.p2p_plan
    monkeypatch.setattr(waiting, "TIMEOUT", 1e-6)
    problem = noise_problem((10, 7, 6), *CASES[0])

    def work(comm):
        stages = make_stages(comm.device, problem, np.float64, comm=comm)
        comm.device.launch = partial(EmulatedDevice.launch, comm.device)  # which waits for nobody by itself
        flags, taken = comm.device.zeros((3,), np.uint32), comm.device.zeros((1,), np.uint32)
        others = [rank for rank in range(3) if rank != comm.rank]
        for call in range(1, 4):
            flags[others] = call
            stages.layout.column_kernels.await_ranks(flags, taken, comm.rank, stages.layout._timeout)
            comm.check()
            assert taken[0] == call
        flags[others[0]] = 4
        stages.layout.column_kernels.await_ranks(flags, taken, comm.rank, stages.layout._timeout)
        with pytest.raises(LateRank, match=f"^transposes: rank {others[1]} did not come"):
            comm.check()
        return True

    assert all(together(transports, "p2p", 3, work, make=EmulatedGpu))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("grid", "absorption", "nonlinear", "seed"),
    [((1, 1, 2), *CASES[1]), ((2, 1, 1), *CASES[1]), ((1, 1, 2), *CASES[0]), ((2, 1, 1), *CASES[0])],
)
def test_local(one_sided_ranks, monkeypatch, absorption, nonlinear, seed, grid):
    """What copies between the ranks bring; on the same device to the bit."""
    problem, options = (
        noise_problem((20, 8, 20), absorption, nonlinear, seed),
        Decomposition("local", grid, overlap=4),
    )
    with monkeypatch.context() as patch, fake_cupy() as modules:
        patch.delenv("WAVEFABRIC_PROTOCOL", raising=False)
        wanted = fields_of(partial(by_threads, modules), 2, problem, options, FusedLocalLayout)
    result = fields_of(one_sided_ranks, 2, problem, options, FusedLocalLayout)
    if one_sided_ranks is together_on_one_gpu:
        agree(result, wanted, 1e-11)
    else:
        assert all((result[name] == wanted[name]).all() for name in wanted)
