"""Propagation over ranks whose kernels store in each other's memory, on emulated GPUs that are threads."""

from itertools import product

import numpy as np
import pytest
from fake_gpus import EmulatedGpu, together
from fibre_cases import ALL, RATE, distance, make_fibre, smooth_field

from wavefabric.base.errors import LateRank
from wavefabric.optics.propagation.kernels.kerr_one_sided_cuda import most_nbytes
from wavefabric.optics.propagation.operators_ranks import RankOperators
from wavefabric.optics.propagation.propagate import (
    PropagationOptions,
    Propagator,
    memory_needed,
    propagate,
)

GROUPS = np.array([1, 2, 2, 3, 3])
_KAPPA = np.random.default_rng(5).uniform(0.3, 1.0, (3, 3))
_BETA = np.column_stack([0.3e-15 * (GROUPS - 1), -20e-27 - 1e-27 * GROUPS, np.full(5, 0.1e-39), np.zeros(5)])
FIBRE = make_fibre(_KAPPA, "group", beta=_BETA, alpha=0.05e-3, groups=GROUPS)
LENGTH = 600.0


def launched():
    return smooth_field(10, 96, 20e-3, seed=3)


class _AsWritten(EmulatedGpu):
    """Captures nothing: only launches are recorded, and some integrators work on arrays too."""

    def graph(self, work, kernels_alone=False):
        return work


def split(transports, size, make=EmulatedGpu, **options):
    """Field and report of each rank."""

    def work(comm):
        result = propagate(
            launched(), FIBRE, LENGTH, sample_rate=RATE, device=comm.device, comm=comm, **options
        )
        assert not comm.device.loaded_late
        return result

    return together(transports, "p2p", size, work, make=make)


#: One of each way that integrators exchange powers; the others are much like them.
QUICK = {("rk4ip", "dense"), ("rk4ip", "factored"), ("erk43ip", "factored"), ("ssfm_rk4", "factored")}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("integrator", "exchange"),
    [
        pytest.param(*case, marks=() if case in QUICK else pytest.mark.slow)
        for case in product(ALL, ("dense", "factored"))
    ],
)
def test_the_answer_is_that_of_one_rank(transports, cpu, monkeypatch, integrator, exchange):
    monkeypatch.setenv("WAVEFABRIC_PROTOCOL", "signals")
    options = {"integrator": integrator, "step": 100.0, "check_interval": 4}
    sent, send = [], RankOperators._send
    monkeypatch.setattr(RankOperators, "_send", lambda *inputs: (sent.append(1), send(*inputs)))
    alone, one = propagate(launched(), FIBRE, LENGTH, sample_rate=RATE, device=cpu, **options)
    arrays = integrator in ("ssfm_rk4", "ssfm_agrawal")
    make = _AsWritten if arrays else EmulatedGpu
    (field, report), (again, _) = split(transports, 2, make, exchange=exchange, split=[2, 3], **options)
    assert distance(field, alone) < 1e-12
    assert distance(field, launched()) > 0.01
    assert (field == again).all()
    assert (report.steps, report.ffts, report.exchange) == (one.steps, one.ffts, exchange)
    assert report.local_error == pytest.approx(one.local_error, rel=1e-4)
    # Kernels with one exchange or two need no other.
    assert bool(sent) == arrays


@pytest.mark.slow
@pytest.mark.parametrize(
    "n", [pytest.param(96, marks=pytest.mark.slow), 100]
)  # whole tiles, and the last one is not
def test_memory_of_slots_is_counted(transports, monkeypatch, n):
    monkeypatch.setenv("WAVEFABRIC_PROTOCOL", "signals")

    def work(comm):
        options, device = PropagationOptions(step=100.0, split=[2, 3]), comm.device
        made = Propagator(FIBRE, n, RATE, device, options, comm)
        kernels = set(made.operators.one_sided.kernels.values())
        with_and_without = [
            memory_needed(FIBRE, n, options, device, made.local_modes, one_sided)
            for one_sided in (True, False)
        ]
        # A GPU of a few multiprocessors, and of all that there are.
        longest = most_nbytes(made.operators.coupling, 1 << 21, np.complex128)
        assert longest == most_nbytes(made.operators.coupling, 1 << 22, np.complex128)
        return sum(each.slots.local.nbytes for each in kernels), with_and_without[0] - with_and_without[1]

    for taken, counted in together(transports, "p2p", 2, work, make=EmulatedGpu):
        assert counted == taken > 0


@pytest.mark.slow
def test_steps_do_not_follow_from_what_has_not_come(transports, monkeypatch):
    """A rank that did not come is named, before a phase is too large or too small."""
    monkeypatch.setenv("WAVEFABRIC_PROTOCOL", "signals")

    def late():
        raise LateRank("rank 1 did not come")

    def work(comm):
        options = PropagationOptions(max_phase=0.1, split=[2, 3])
        operators = Propagator(FIBRE, 96, RATE, comm.device, options, comm).operators
        A = operators.empty()
        A[...] = 1
        assert operators.max_phase_rate(A) > 0
        comm.check = late
        with pytest.raises(LateRank):
            operators.max_phase_rate(A)
        return True

    assert all(together(transports, "p2p", 2, work, make=EmulatedGpu))
