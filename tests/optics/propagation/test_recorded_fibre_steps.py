"""Steps of a fibre that are recorded: the all-gathers of powers that docs/ranks.md counts."""

import numpy as np
import pytest
from fibre_cases import RATE, make_fibre, smooth_field

from wavefabric.base.errors import InputError
from wavefabric.collectives import verify
from wavefabric.collectives.structure import sent_and_received
from wavefabric.fabric import load
from wavefabric.fabric.cost_models.cost import cost
from wavefabric.optics.propagation.operators_ranks import RankOperators
from wavefabric.optics.propagation.propagate import Propagator, propagate

GROUPS = np.array([1, 2, 2, 3, 3, 3, 4, 4])
_KAPPA = np.random.default_rng(5).uniform(0.3, 1.0, (4, 4))
_BETA = np.column_stack([0.3e-15 * (GROUPS - 1), -20e-27 - 1e-27 * GROUPS, np.full(8, 0.1e-39), np.zeros(8)])
FIBRE = make_fibre(_KAPPA, "group", beta=_BETA, alpha=0.05e-3, groups=GROUPS)
SAMPLES = 96
#: Powers of all rows, or phase groups of all ranks for even splits: a group that is cut counts on each.
PARTS = {"dense": {2: 16, 4: 16}, "factored": {2: 3 + 2, 4: 2 + 2 + 1 + 1}}
EXCHANGES = {"strang": 1, "ssfm_agrawal": 2, "rk4ip": 4, "blanes_moan": 6, "erk43ip": 4}


def propagated(comm, length=500.0, **options):
    field = smooth_field(16, SAMPLES, 20e-3, seed=3)
    return propagate(field, FIBRE, length, sample_rate=RATE, device=comm.device, comm=comm, **options)


def recorded(comm, *length, **options):
    """The schedule, and what `propagate` gives."""
    with comm.recording() as recorder:
        result = propagated(comm, *length, **options)
    return recorder.schedule, *result


def check_bytes(schedule, ranks, form, exchanges, chunks=1):
    """Each phase group goes to all other ranks, one real number a sample and exchange; bytes of the step."""
    verify(schedule)
    nbytes = int(sent_and_received(schedule)[0].sum()) * schedule.element_bytes
    assert nbytes == (ranks - 1) * PARTS[form][ranks] * SAMPLES * 8 * exchanges
    assert schedule.name.startswith(f"recorded step, {exchanges * chunks} exchange")
    for fabric in ("dgx-2", f"lightpath:1x{ranks}"):
        price = cost(schedule, load(fabric), float(schedule.element_bytes))
        assert price.seconds >= price.bound.seconds > 0
    return nbytes


@pytest.mark.parallel([2, 4])
@pytest.mark.parametrize("chunks", [1, 4])
@pytest.mark.parametrize("form", ["dense", "factored"])
def test_a_step_gathers_the_powers_of_all_ranks(comm, form, chunks):
    schedule, _, report = recorded(comm, step=100.0, exchange=form, chunks=chunks)
    # What a run says of all its steps has the exchange at the begin of the check interval too. Kernels that
    # store in other ranks' memory exchange all chunks at once.
    nbytes = check_bytes(schedule, comm.size, form, 4, 1 if comm.one_sided else chunks)
    assert report.bytes_per_step == pytest.approx(nbytes * (4 * 5 + 1) / (4 * 5))


@pytest.mark.parallel(2)
@pytest.mark.parametrize("integrator", EXCHANGES)
def test_steps_of_all_integrators(comm, integrator):
    control = {"tolerance": 1e-3} if integrator == "erk43ip" else {"max_phase": 0.05}
    options = {"integrator": integrator, "check_interval": 1, "exchange": "dense", **control}
    schedule, field, report = recorded(comm, 300.0, **options)
    assert report.steps > 1
    check_bytes(schedule, 2, "dense", EXCHANGES[integrator])
    assert (propagated(comm, 300.0, **options)[0] == field).all()


@pytest.mark.parallel(2)
def test_a_run_of_one_step_is_refused(comm, monkeypatch):
    monkeypatch.setattr(Propagator, "run", lambda *_, **__: pytest.fail("the run began"))
    with pytest.raises(InputError, match="recording: a run of 1 step; allowed: two steps or more"):
        recorded(comm, 100.0, step=100.0)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["dense", "factored"])
def test_kernels_that_store_in_other_ranks_memory(one_sided_ranks, monkeypatch, form):
    monkeypatch.setattr(RankOperators, "_send", lambda *_: pytest.fail("copied"))
    schedule, other = one_sided_ranks(2, lambda comm: recorded(comm, step=100.0, exchange=form)[0])
    assert (other.transfers == schedule.transfers).all()
    check_bytes(schedule, 2, form, 4)
