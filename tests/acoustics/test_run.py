"""Runs: reports, refusals, fields that blow up, progress, Ctrl-C without checkpoints."""

import math
import os
import signal
import time
from dataclasses import replace

import numpy as np
import pytest
from emulated_device import CapturingDevice
from random_problems import points, pressure_source, problem

from wavefabric.acoustics import choose_stages
from wavefabric.acoustics import run as runs
from wavefabric.acoustics.problem import Recording
from wavefabric.acoustics.recording import recorder
from wavefabric.acoustics.recording.sinks import MemorySink
from wavefabric.acoustics.run import run
from wavefabric.acoustics.run_settings import RunSettings
from wavefabric.acoustics.solver.step import Step
from wavefabric.base.errors import FieldLost, InputError, LateRank
from wavefabric.base.system.compilation_clock import CLOCK
from wavefabric.base.system.progress import Progress as NoProgress
from wavefabric.runtime.device import get_device
from wavefabric.runtime.exchange import solo
from wavefabric.runtime.exchange.transports.base import Transport
from wavefabric.runtime.lifecycle.checkpoint.run_checkpoint import Checkpoints

SHAPE = (14, 12, 9)
SENSOR = points(SHAPE, 5)


@pytest.fixture(scope="module", params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    return get_device(request.param, threads=1)


class Watched(MemorySink):
    """Counts what is called."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def begin(self, layout, rows_done):
        self.calls.append("begin")
        super().begin(layout, rows_done)

    def finish(self, arrays, report):
        self.calls.append("finish")
        self.report = report
        super().finish(arrays, report)

    def abandon(self, keep):
        self.calls.append(f"abandon {keep}")


class Progress(NoProgress):
    """Keeps what it is told; calls ``at[step]`` when there."""

    def __init__(self, at=None):
        self.at, self.told, self.finished = at or {}, [], 0

    def start(self, total_steps, label):
        self.total, self.label = total_steps, label

    def update(self, done, message=""):
        self.told.append((done, message))
        if done in self.at:
            self.at.pop(done)()

    def finish(self):
        self.finished += 1


@pytest.mark.slow
def test_report(device):
    sink, progress = Watched(), Progress()
    report = run(
        problem(SHAPE),
        Recording(("p_raw",), SENSOR),
        sink,
        RunSettings(device=device, progress=progress),
        loading_seconds=2.5,
    )
    assert sink.calls == ["begin", "finish"]
    assert sink.report is report
    assert (report.steps, report.total_steps, report.resumed_at) == (12, 12, 0)
    assert report.device == device.name
    assert report.transforms_per_step == pytest.approx(10, abs=1)
    assert report.peak_bytes > 1e6
    assert set(report.seconds) == {"loading", "preprocessing", "compilation", "simulation", "postprocessing"}
    assert report.seconds["loading"] == 2.5
    assert 0 < report.seconds["simulation"] < 60
    assert progress.total == 12
    assert device.name in progress.label
    assert [done for done, _ in progress.told] == list(range(13))
    assert progress.finished == 1
    peak = float(progress.told[-1][1].split()[1])
    assert progress.told[-1][1].endswith(" Pa")
    assert 1e4 < peak < 1e8


def test_precisions(device):
    result = {}
    for precision, dtype in (("single", np.float32), ("double", np.float64)):
        sink = MemorySink()
        run(
            problem(SHAPE),
            Recording(("p_raw",), SENSOR),
            sink,
            RunSettings(device=device, precision=precision),
        )
        assert sink.arrays["p"].dtype == dtype
        result[precision] = sink.arrays["p"]
    error = abs(result["single"] - result["double"]).max() / abs(result["double"]).max()
    assert 1e-9 < error < 2e-6


def test_bad_arguments(cpu):
    sink = Watched()
    for more, match in [
        (dict(precision="half"), 'precision: "half" given; allowed: single, double'),
        (dict(device="tpu"), "device"),
        (dict(device="cpu", threads=0), "threads"),
    ]:
        with pytest.raises(InputError, match=match) as caught:
            run(problem(SHAPE), Recording(("p_final",)), sink, RunSettings(**{"device": cpu, **more}))
        assert "\n" not in str(caught.value)
    assert sink.calls == []


def test_too_little_memory(device, monkeypatch):
    """Said in one line, before anything is made."""
    sink = Watched()
    monkeypatch.setattr(device, "memory", lambda: (2 << 30, 3 << 30))
    monkeypatch.setattr(choose_stages, "needed_bytes", lambda *_: 5 << 30)
    monkeypatch.setattr(choose_stages, "make_stages", None)
    with pytest.raises(InputError, match=r"memory: .* needs 5\.00 GiB on .*2\.00 of 3\.00 GiB are free"):
        run(problem(SHAPE), Recording(("p_final",)), sink, RunSettings(device=device))
    assert sink.calls == []


def test_memory_that_just_suffices(device, monkeypatch):
    inputs, recording = problem(SHAPE), Recording(("p_final",))
    need = choose_stages.needed_bytes(inputs, recording, np.float32, device)
    monkeypatch.setattr(device, "memory", lambda: (need, 1 << 40))
    run(inputs, recording, MemorySink(), RunSettings(device=device))
    monkeypatch.setattr(device, "memory", lambda: (need - 1, 1 << 40))
    with pytest.raises(InputError, match="memory"):
        run(inputs, recording, MemorySink(), RunSettings(device=device))


@pytest.fixture
def cpu_comm(cpu):
    return solo(cpu)


def unstable(steps):
    """A time step far too long, and a k-space correction for another speed."""
    return replace(problem(SHAPE, steps=steps), dt=4e-8, reference_speed=10.0)


@pytest.mark.parametrize("steps", [60, 1000])
def test_a_lost_field(device, steps, tmp_path):
    sink, progress = Watched(), Progress()
    with pytest.raises(FieldLost, match=rf"not finite after time step \d+ of {steps}: .*time step") as caught:
        run(
            unstable(steps),
            Recording(("p_raw",), SENSOR),
            sink,
            RunSettings(device=device, progress=progress),
        )
    assert "\n" not in str(caught.value)
    assert sink.calls == ["begin", "abandon False"]
    assert progress.finished == 1
    # It was looked at often enough.
    assert progress.told[-1][0] < 40
    assert math.isfinite(float(progress.told[-1][1].split()[1]))


def test_a_rank_that_did_not_come_is_named_before_a_lost_field(cpu_comm, monkeypatch):
    """What has not arrived is garbage; no advice on the time step is due."""

    def late():
        raise LateRank("rank 1 did not come")

    monkeypatch.setattr(cpu_comm, "check", late)
    with pytest.raises(LateRank):
        run(unstable(60), Recording(("p_raw",), SENSOR), MemorySink(), RunSettings(comm=cpu_comm))


def test_a_lost_field_in_the_last_step(device):
    """The last step is always looked at."""
    inputs = problem(SHAPE, steps=7, initial=0, pressure_source=pressure_source(SHAPE, "dirichlet", steps=7))
    inputs.pressure_source.signal[-1] = np.nan
    with pytest.raises(FieldLost, match="after time step 7 of 7"):
        run(inputs, Recording(("p_final",)), MemorySink(), RunSettings(device=device))


def test_a_lost_field_keeps_an_earlier_checkpoint(device, tmp_path):
    sink, path = Watched(), tmp_path / "run.checkpoint"
    with pytest.raises(FieldLost):
        run(
            unstable(500),
            Recording(("p_raw",), SENSOR),
            sink,
            RunSettings(device=device, checkpoint=Checkpoints(path, every=1)),
        )
    assert path.exists()
    assert sink.calls == ["begin", "abandon True"]


def press():
    os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_without_checkpoints(device):
    sink, before = Watched(), signal.getsignal(signal.SIGINT)
    progress = Progress({4: press})
    with pytest.raises(KeyboardInterrupt):
        run(
            problem(SHAPE), Recording(("p_raw",), SENSOR), sink, RunSettings(device=device, progress=progress)
        )
    assert sink.calls == ["begin", "abandon False"]
    assert progress.told[-1][0] == 4
    assert progress.finished == 1
    assert signal.getsignal(signal.SIGINT) is before


def test_one_ctrl_c_while_results_are_written_does_no_harm(device):
    """All steps are done: the answer is worth more than the hurry."""

    class Pressed(Watched):
        def finish(self, arrays, report):
            press()
            super().finish(arrays, report)

    sink = Pressed()
    assert run(problem(SHAPE), Recording(("p_final",)), sink, RunSettings(device=device)).steps == 12
    assert sink.calls == ["begin", "finish"]


def test_an_error_while_results_are_written(device):
    class Broken(Watched):
        def finish(self, arrays, report):
            raise OSError("disk full")

    sink = Broken()
    with pytest.raises(OSError, match="disk full"):
        run(problem(SHAPE), Recording(("p_final",)), sink, RunSettings(device=device))
    assert sink.calls == ["begin", "abandon False"]


def test_a_rank_that_came_too_late_to_the_last_exchange(device, monkeypatch):
    def late(self):
        raise RuntimeError("rank 1 did not come")

    monkeypatch.setattr(Transport, "check", late)
    sink = Watched()
    with pytest.raises(RuntimeError, match="rank 1 did not come"):
        run(problem(SHAPE), Recording(("p_final",)), sink, RunSettings(device=device))
    assert sink.calls == ["begin", "abandon False"]


def test_two_runs_give_the_same_bits(device):
    quantities = ("p_raw", "u_rms", "I_avg", "p_final")
    result = []
    for _ in range(2):
        sink = MemorySink()
        run(problem(SHAPE), Recording(quantities, SENSOR), sink, RunSettings(device=device))
        result.append({name: array.tobytes() for name, array in sink.arrays.items()})
    assert result[0] == result[1]


@pytest.mark.parametrize("start", [0, 37])
@pytest.mark.parametrize("rows", [7, 1000])
def test_steps_that_are_taken_together(device, monkeypatch, start, rows):
    """They are recorded, by kernels, as those taken one by one; where no look falls between, few calls do."""
    quantities = ("p_raw", "u_non_staggered_raw", "p_max", "p_rms", "u_max_all", "p_final")
    recording = Recording(quantities, SENSOR, start, ("p_amp", "p_amp_all"), (1e6, 0.3e6))
    monkeypatch.setattr(recorder, "BLOCK_BYTES", rows * 2 * 4 * len(SENSOR) * 4)
    inputs = problem(SHAPE, steps=200, pressure_source=pressure_source(SHAPE, "dirichlet", steps=90))
    take, counts, results = Step.take, [], []
    monkeypatch.setattr(Step, "take", lambda self, *words: counts.append(take(self, *words)) or counts[-1])
    for alone in (False, True):
        if alone:
            monkeypatch.setattr(runs._Run, "_steps_alone", lambda self: 1)
        sink = MemorySink()
        run(inputs, recording, sink, RunSettings(device=device, threads=1))
        assert sum(counts) == 200
        assert len(counts) == 200 if alone else len(counts) < 120
        assert max(counts) <= 16
        counts.clear()
        results.append({name: array.tobytes() for name, array in sink.arrays.items()})
    assert results[0] == results[1]


def test_steps_of_a_gpu_are_captured_with_what_they_record():
    """A whole run on a device that captures: series, statistics and tones are those of a CPU."""
    quantities = ("p_raw", "u_raw", "p_max", "p_rms", "u_max_all", "p_final")
    recording = Recording(quantities, SENSOR, 13, ("p_amp", "p_amp_all"), (1e6, 0.3e6))
    shape = (12, 10, 8)
    inputs = problem(shape, steps=90, pressure_source=pressure_source(shape, "dirichlet", steps=40))
    recording, gpu, results = replace(recording, where=points(shape, 5)), CapturingDevice(), []
    for device in (get_device("cpu", threads=1), gpu):
        sink = MemorySink()
        run(inputs, recording, sink, RunSettings(device=device, precision="double"))
        results.append(sink.arrays)
    # Before anything is recorded, with the source, and without it; of the last two steps before looks too.
    assert gpu.graphs == 5
    for name, wanted in results[0].items():
        np.testing.assert_allclose(results[1][name], wanted, rtol=0, atol=1e-14 * abs(wanted).max())


def test_compilation_is_a_phase_of_its_own(monkeypatch):
    """A kernel that takes a thousand seconds to compile, at the third step, makes no step slower."""
    late, clock = [0.0], time.perf_counter
    monkeypatch.setattr(time, "perf_counter", lambda: clock() + late[0])

    class Compiles:
        def nbytes(self, *_):
            return 0

        def begin(self, *_):
            pass

        def after(self, taken):
            if taken == 3:
                with CLOCK.compiling():
                    late[0] += 1000.0

    settings = RunSettings(device=get_device("cpu", 1))
    report = run(problem(SHAPE), Recording(("p_final",)), MemorySink(), settings, observer=Compiles())
    assert report.seconds["compilation"] > 1000.0
    assert sum(seconds for phase, seconds in report.seconds.items() if phase != "compilation") < 900.0
