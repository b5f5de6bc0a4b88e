"""Time steps that are recorded: the bytes of what docs/ranks.md says ranks exchange, costed on fabrics."""

import math

import numpy as np
import pytest
from random_problems import problem

from wavefabric.acoustics import Grid, Medium, Source, simulate
from wavefabric.acoustics.choose_stages import make_stages
from wavefabric.acoustics.decomposition.decompose import Decomposition, decompose
from wavefabric.acoustics.parallel.fused_layouts import FusedLocalLayout, OneSidedLayout
from wavefabric.acoustics.run import _Run
from wavefabric.acoustics.solver.step import Step
from wavefabric.base.errors import InputError
from wavefabric.collectives import verify
from wavefabric.collectives.structure import sent_and_received
from wavefabric.fabric import load
from wavefabric.fabric.cost_models.cost import cost
from wavefabric.runtime.exchange.halos_transposes import RegionExchange

SHAPE = (24, 20, 28)
MEDIA = pytest.mark.parametrize(
    "medium", [{}, {"alpha_coeff": 0.5, "alpha_power": 1.4}], ids=["lossless", "lossy"]
)


def simulated(comm, decomposition=None, steps=4, **medium):
    grid, source = Grid(SHAPE, 1e-3, pml_size=4), Source(p0=np.random.default_rng(7).normal(size=SHAPE))
    how = {"steps": steps, "precision": "double", "comm": comm, "decomposition": decomposition}
    return simulate(grid, Medium(1500.0, 1000.0, **medium), source, **how)


def overlap_points(shape, ranks, options):
    parts = decompose(shape, ranks, options).subdomains
    return np.array([math.prod(part.size) - math.prod(part.owned_size) for part in parts])


def check_step(schedule, ranks, sent=None, received=None):
    """Bytes of each rank, and that fabrics of both kinds cost them."""
    verify(schedule)
    for wanted, elements in zip((sent, received), sent_and_received(schedule), strict=True):
        if wanted is not None:
            np.testing.assert_array_equal(elements * schedule.element_bytes, wanted)
    for fabric in ("dgx-2", f"lightpath:1x{ranks}"):
        price = cost(schedule, load(fabric), float(schedule.element_bytes))
        assert price.seconds > price.bound.seconds > 0


@pytest.mark.parallel([2, 4])
@MEDIA
def test_local_steps_fill_overlaps(comm, monkeypatch, medium):
    options = Decomposition("local", grid={2: (1, 1, 2), 4: (2, 1, 2)}[comm.size], overlap=4)
    starts, start = [], RegionExchange.start

    def counted(self, arrays):
        starts.extend([self.bytes] * comm.step_recorder._active)
        start(self, arrays)

    monkeypatch.setattr(RegionExchange, "start", counted)
    with comm.recording() as recorder:
        simulated(comm, options, **medium)
    # p and three velocities; power-law absorption two fields more.
    fields = 6 if medium else 4
    wanted = fields * 8 * overlap_points(SHAPE, comm.size, options)
    check_step(recorder.schedule, comm.size, comm.control.all_gather(sum(starts)), wanted)


@pytest.mark.parallel([2, 4])
@MEDIA
def test_global_steps_transpose(comm, medium):
    with comm.recording() as recorder:
        result = simulated(comm, **medium)
    nx, ny, nz = SHAPE
    # Fused kernels of GPUs need one transpose fewer.
    transposes = (14 if medium else 10) - (comm.device.name != "cpu")
    slab = nz // comm.size * ny * (nx // 2 + 1)
    assert recorder.schedule.rounds == transposes
    check_step(
        recorder.schedule, comm.size, [transposes * 16 * slab * (comm.size - 1) // comm.size] * comm.size
    )
    assert (result["p_final"] == simulated(comm, **medium)["p_final"]).all()


@pytest.mark.parallel(2)
def test_a_run_of_one_step_is_refused_before_it_begins(comm, monkeypatch):
    monkeypatch.setattr(_Run, "run", lambda *_: pytest.fail("the run began"))
    with pytest.raises(InputError, match="recording: a run of 1 step; allowed"), comm.recording():
        simulated(comm, steps=1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["global", "local"])
def test_steps_of_kernels_that_store_in_other_ranks_memory(one_sided_ranks, kind):
    shape = nx, ny, nz = 10, 6, 16
    options = Decomposition(kind, **({"overlap": 3} if kind == "local" else {}))

    def work(comm):
        with comm.recording() as recorder:
            inputs = comm.device, problem(shape, pml=False), np.dtype(float)
            stages = make_stages(*inputs, comm=comm, decomposition=decompose(shape, 2, options))
            assert isinstance(stages.layout, FusedLocalLayout if kind == "local" else OneSidedLayout)
            step = Step(stages)
            recorder.watch(step, "advance")
            for number in range(4):
                step.take(number)
                recorder.build_schedule()
                assert (recorder.schedule is not None) == (number > 0)
            stages.layout.finish_exchanges()
            comm.check()
        return recorder.schedule

    schedule, other = one_sided_ranks(2, work)
    assert (other.transfers == schedule.transfers).all()
    if kind == "local":
        check_step(schedule, 2, received=4 * 8 * overlap_points(shape, 2, options))
    else:
        # A half of each slab goes to the other rank, nine times.
        check_step(schedule, 2, [9 * 16 * nz // 2 * ny // 2 * (nx // 2 + 1)] * 2)
