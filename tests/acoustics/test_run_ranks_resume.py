"""Runs over several ranks that end early and go on: the bits of one that was left alone."""

import os
import signal
from functools import cache

import numpy as np
import pytest
from random_problems import points, pressure_source, problem, transducer, velocity_source

from wavefabric.acoustics.decomposition.decompose import Decomposition
from wavefabric.acoustics.problem import Interpolation, Recording
from wavefabric.acoustics.recording.quantities import QUANTITIES
from wavefabric.acoustics.recording.sinks import MemorySink, SeriesFiles
from wavefabric.acoustics.run import run
from wavefabric.acoustics.run_settings import RunSettings
from wavefabric.acoustics.solver.step import Step
from wavefabric.base.errors import InputError
from wavefabric.runtime.exchange import solo
from wavefabric.runtime.lifecycle.checkpoint import file as checkpoint_file
from wavefabric.runtime.lifecycle.checkpoint.run_checkpoint import Checkpoints

SHAPE, STEPS = (14, 12, 10), 17
OPTIONS = {"global": None, "local": Decomposition("local", overlap=3)}


def losses_and_sources():
    return problem(
        SHAPE, steps=STEPS, mixed="cb", nonlinearity=True, absorption="power_law",
        velocity_source=velocity_source(SHAPE, "additive", steps=STEPS),
        pressure_source=pressure_source(SHAPE, "dirichlet", steps=12), transducer=transducer(SHAPE),
    )  # fmt: skip


RECORDING = Recording(tuple(QUANTITIES), points(SHAPE, 11), 3)


def left_alone(comm, recording, options=None):
    """Arrays of a run that nothing stops, on rank 0."""
    sink = MemorySink()
    run(losses_and_sources(), recording, sink, RunSettings(comm=comm, decomposition=options))
    return sink.arrays


@cache
def whole(comm, form):
    return left_alone(comm, RECORDING, OPTIONS[form])


class RanksLeg:
    """One start of the program on all ranks."""

    def __init__(self, comm, form, tmp_path):
        folder = comm.control.bcast(tmp_path)
        self.comm, self.options, self.path = comm, OPTIONS[form], folder / "run.checkpoint"
        self.inputs, self.recording = losses_and_sources(), RECORDING

    def run(self, progress=None, **plan):
        self.sink = SeriesFiles(self.path) if self.comm.rank == 0 else None
        return run(
            self.inputs,
            self.recording,
            self.sink,
            RunSettings(
                comm=self.comm,
                decomposition=self.options,
                progress=progress,
                checkpoint=Checkpoints(self.path, **plan),
            ),
        )

    def names(self):
        self.comm.control.barrier()
        result = sorted(p.name.removeprefix(self.path.name) for p in self.path.parent.iterdir())
        self.comm.control.barrier()
        return result

    def check(self, wanted):
        if self.sink is not None:
            assert self.sink.arrays.keys() == wanted.keys()
            for name, array in wanted.items():
                assert self.sink.arrays[name].tobytes() == array.tobytes(), name
        assert self.names() == []


@pytest.fixture
def ranks_leg(comm, tmp_path):
    return RanksLeg(comm, "global", tmp_path)


@pytest.mark.parallel(2)
@pytest.mark.parametrize("form", OPTIONS)
def test_stop_and_resume(comm, tmp_path, form):
    leg, done = RanksLeg(comm, form, tmp_path), 0
    wanted = whole(comm, form)
    while done < STEPS:
        report = leg.run(every=6, stop=True)
        assert (report.resumed_at, report.steps) == (done, min(done + 6, STEPS))
        if report.steps < STEPS:
            slot = (report.steps // 6 - 1) % 2
            parts = [name for name in leg.names() if not name.endswith(".series.partial")]
            assert parts == ["", f".rank0of2.{slot}", f".rank1of2.{slot}"]
        done = report.steps
    leg.check(wanted)


@pytest.mark.slow
@pytest.mark.parallel(2)
def test_saves_on_the_way_and_points_between(comm, tmp_path):
    leg = RanksLeg(comm, "global", tmp_path)
    rng = np.random.default_rng(3)
    corners = Interpolation(rng.integers(0, np.prod(SHAPE), (7, 8)), rng.dirichlet(np.ones(8), 7))
    leg.recording = Recording(tuple(QUANTITIES), corners, 2)
    wanted = left_alone(comm, leg.recording)
    leg.run(every=5)
    leg.check(wanted)
    leg.run(every=8, stop=True)
    assert leg.run(interval=0.0).resumed_at == 8
    leg.check(wanted)


@pytest.mark.parallel(2)
@pytest.mark.slow
@pytest.mark.parametrize("survivors", [{0}, {1}, {0, 1}])
def test_a_kill_within_a_save(ranks_leg, survivors):
    """Parts of a newer generation that were on the disk already count for nothing."""
    wanted, rank = whole(ranks_leg.comm, "global"), ranks_leg.comm.rank
    ranks_leg.run(every=6, stop=True)
    part = ranks_leg.path.with_name(f"{ranks_leg.path.name}.rank{rank}of2.1")
    if rank in survivors:
        checkpoint_file.save(part, {"p": np.zeros(4)}, {"token": "another", "state": {"step": 12}}, "any")
    else:
        part.with_name(part.name + ".partial").write_bytes(b"cut sh")
    ranks_leg.comm.control.barrier()
    assert ranks_leg.run(every=3, stop=True).resumed_at == 6
    assert ranks_leg.run().resumed_at == 9
    ranks_leg.check(wanted)


@pytest.mark.parallel(2)
@pytest.mark.parametrize("rank", [0, 1])
def test_ctrl_c_on_one_rank_saves_on_all(ranks_leg, monkeypatch, rank):
    wanted, take = whole(ranks_leg.comm, "global"), Step.take

    def pressing(step, number, most):
        if number == 7:
            os.kill(os.getpid(), signal.SIGINT)
        return take(step, number, most)

    if ranks_leg.comm.rank == rank:
        monkeypatch.setattr(Step, "take", pressing)
    with pytest.raises(KeyboardInterrupt):
        ranks_leg.run()
    monkeypatch.undo()
    assert ranks_leg.run().resumed_at == 8
    ranks_leg.check(wanted)


@pytest.mark.parallel(2)
def test_only_the_layout_that_was_saved(comm, tmp_path):
    """One line that names it, on all ranks."""
    leg = RanksLeg(comm, "local", tmp_path)

    def refusal(**more):
        with pytest.raises(InputError) as caught:
            run(
                leg.inputs,
                leg.recording,
                MemorySink(),
                RunSettings(
                    checkpoint=Checkpoints(leg.path), **{"comm": comm, "decomposition": leg.options, **more}
                ),
            )
        assert "\n" not in str(caught.value)
        return str(caught.value)

    leg.run(every=6, stop=True)
    comm.control.barrier()
    text = refusal(decomposition=Decomposition(grid=(1, 2, 1)))
    assert "saved by 2 ranks (local, grid 2x1x1" in text
    assert "this run has 2 ranks (global, grid 1x2x1)" in text
    assert "overlap 2" in refusal(decomposition=Decomposition("local", overlap=2))
    assert "bell none" in refusal(decomposition=Decomposition("local", overlap=3, bell="none"))
    for rank in range(comm.size):  # in turn: each has the checkpoint to itself
        if comm.rank == rank:
            text = refusal(comm=solo(comm.device), decomposition=None)
            assert "saved by 2 ranks (local, grid 2x1x1" in text
            assert "this run has 1 rank;" in text
        comm.control.barrier()
    if comm.rank == 1:
        leg.path.with_name(f"{leg.path.name}.rank1of2.0").unlink()
    comm.control.barrier()
    assert "rank1of2.0 is missing" in refusal()
    leg.run(resume=False)
    assert leg.names() == []
