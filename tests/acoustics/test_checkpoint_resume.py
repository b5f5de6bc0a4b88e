"""A run that ends early and goes on gives the bits of one that was left alone."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from random_problems import points, pressure_source, problem, transducer, velocity_source

from wavefabric.acoustics import choose_stages
from wavefabric.acoustics.fused.fused_cpu import FusedCpuStages
from wavefabric.acoustics.problem import Recording
from wavefabric.acoustics.recording import recorder
from wavefabric.acoustics.recording.sinks import MemorySink, SeriesFiles
from wavefabric.acoustics.run import run
from wavefabric.acoustics.run_settings import RunSettings
from wavefabric.acoustics.solver.step import Step
from wavefabric.base.errors import InputError
from wavefabric.runtime.device import get_device
from wavefabric.runtime.device.base import repeating
from wavefabric.runtime.device.cpu import CpuDevice
from wavefabric.runtime.lifecycle.checkpoint import file as files
from wavefabric.runtime.lifecycle.checkpoint.run_checkpoint import Checkpoints

STEPS = 23
SHAPE, FLAT = (14, 12, 9), (15, 13, 1)
EVERYTHING = (
    *(
        "p_raw",
        "p_rms",
        "p_max",
        "p_min",
        "p_max_all",
        "p_min_all",
        "p_final",
        "u_raw",
        "u_non_staggered_raw",
    ),
    *("u_rms", "u_max", "u_min_all", "u_final", "I_raw", "I_avg"),
)
#: Name to (grid, what it has).
CASES = {
    "lossless": (SHAPE, {}),
    "all losses and sources": (
        SHAPE,
        dict(
            mixed="cb", nonlinearity=True, absorption="power_law", transducer=transducer(SHAPE, 20, 30),
            pressure_source=pressure_source(SHAPE, "additive", steps=16),
            velocity_source=velocity_source(SHAPE, "additive_no_correction", steps=12),
        ),
    ),
    "Stokes and patterns": (
        SHAPE, dict(absorption="stokes", pressure_source=pressure_source(SHAPE, "additive", 1, STEPS))
    ),
    "flat": (
        FLAT,
        dict(absorption="power_law", velocity_source=velocity_source(FLAT, "additive", steps=STEPS)),
    ),
}  # fmt: skip


def case(name):
    shape, more = CASES[name]
    return problem(shape, steps=STEPS, **more), Recording(EVERYTHING, points(shape, 11), 3)


@pytest.fixture(scope="module", params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    return get_device(request.param, threads=1)


class Leg:
    """One start of the program: run until the end, or until something ends it."""

    def __init__(self, device, name, folder):
        self.device, self.name, (self.problem, self.recording) = device, name, case(name)
        self.path = folder / "run.checkpoint"

    def run(self, sink=None, progress=None, problem=None, recording=None, **plan):
        self.sink = sink or SeriesFiles(self.path)
        return run(
            problem or self.problem,
            recording or self.recording,
            self.sink,
            RunSettings(
                device=self.device,
                precision="single",
                progress=progress,
                checkpoint=Checkpoints(self.path, **plan),
            ),
        )


@pytest.fixture(params=CASES)
def leg(request, device, tmp_path):
    return Leg(device, request.param, tmp_path)


@pytest.fixture
def simple(device, tmp_path):
    return Leg(device, "lossless", tmp_path)


@lru_cache
def _whole(device, name):
    sink, (inputs, recording) = MemorySink(), case(name)
    run(inputs, recording, sink, RunSettings(device=device, precision="single"))
    return sink.arrays


def whole(leg):
    """Arrays of a run left alone."""
    return _whole(leg.device, leg.name)


def check(leg, wanted):
    got = leg.sink.arrays
    assert got.keys() == wanted.keys()
    assert len(got) > 20
    for name in wanted:
        assert got[name].tobytes() == wanted[name].tobytes(), name
    # Nothing stays behind.
    assert list(leg.path.parent.iterdir()) == []


def press():
    os.kill(os.getpid(), signal.SIGINT)


# --- Stop and go on ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("every", [4, pytest.param(22, marks=pytest.mark.slow)])
def test_stop_and_resume(leg, every):
    wanted, done = whole(leg), 0
    while done < STEPS:
        report = leg.run(every=every, stop=True)
        assert report.resumed_at == done
        assert report.steps == min(done + every, STEPS)
        assert report.total_steps == STEPS
        assert leg.path.exists() == (report.steps < STEPS)
        done = report.steps
    check(leg, wanted)


@pytest.mark.slow
def test_plain_stages_stop_and_resume(leg, monkeypatch):
    made = choose_stages.make_stages
    monkeypatch.setattr(
        choose_stages, "make_stages", lambda *inputs, **more: made(*inputs, plain=True, **more)
    )
    wanted = _whole.__wrapped__(leg.device, leg.name)
    leg.run(every=9, stop=True)
    report = leg.run()
    assert report.resumed_at == 9
    check(leg, wanted)


def test_two_threads(tmp_path):
    """The answer is the same bits on one thread, which may go on where two have stopped."""
    try:
        leg = Leg(get_device("cpu", threads=2), "all losses and sources", tmp_path)
    except ValueError:
        pytest.skip("this machine has one core")
    wanted = whole(leg)
    leg.run(every=9, stop=True)
    leg.device = get_device("cpu", threads=1)
    leg.run()
    check(leg, wanted)


def test_checkpoints_on_the_way_change_nothing(leg, monkeypatch):
    wanted = whole(leg)
    monkeypatch.setattr(recorder, "BLOCK_BYTES", 11 * 4 * 10 * 2 * 4)
    saved, save = [], files.save

    def counted(path, arrays, state, *rest):
        saved.append(state["step"])
        save(path, arrays, state, *rest)

    monkeypatch.setattr(files, "save", counted)
    assert leg.run(every=4).steps == STEPS
    assert saved == [4, 8, 12, 16, 20]
    check(leg, wanted)


def steps_saved(monkeypatch):
    """List of the time steps at which checkpoints are written from now on."""
    saved, save = [], files.save
    monkeypatch.setattr(
        files, "save", lambda p, a, state, *rest: (saved.append(state["step"]), save(p, a, state, *rest))
    )
    return saved


def test_checkpoints_come_at_the_same_steps_after_a_resume(simple, monkeypatch):
    """Every so many time steps of the run; from where it began for a start that ends with its first save."""
    wanted, saved = whole(simple), steps_saved(monkeypatch)
    simple.run(every=6, stop=True)
    simple.run(every=5, stop=True)
    assert saved == [6, 11]
    simple.run(every=4)
    assert saved == [6, 11, 12, 16, 20]
    check(simple, wanted)


@pytest.mark.slow
def test_interval(simple, monkeypatch):
    saved = steps_saved(monkeypatch)
    simple.run(interval=0.0)
    assert saved == list(range(1, STEPS))
    saved.clear()
    simple.run(interval=1000.0)
    assert saved == []


def test_seconds_add_up(simple):
    first = simple.run(every=9, stop=True)
    second = simple.run()
    for phase in ("preprocessing", "simulation"):
        assert second.seconds[phase] > first.seconds[phase] * 0.5 > 0
    assert second.steps == STEPS
    # Transforms are those of this leg, by its own steps. Twelve bring the velocities to the points of the
    # pressure, for the series and for the intensity.
    assert second.transforms_per_step == pytest.approx(10 + 12, abs=1)


# --- Ctrl-C ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [1, pytest.param(11, marks=pytest.mark.slow), STEPS - 1])
def test_ctrl_c_saves(leg, step, monkeypatch):
    wanted, take = whole(leg), Step.take

    def pressed(self, number, most=1):
        taken = take(self, number, most)
        if number + taken == step:
            press()
        return taken

    monkeypatch.setattr(Step, "take", pressed)
    with pytest.raises(KeyboardInterrupt):
        leg.run()
    monkeypatch.undo()
    _, state = files.load(leg.path, _fingerprint(leg.path))
    assert state["step"] == step
    report = leg.run()
    assert report.resumed_at == step
    check(leg, wanted)


def _fingerprint(path):
    import json

    raw = path.read_bytes()
    length = int.from_bytes(raw[8:16], "little")
    return json.loads(raw[20 : 20 + length])["fingerprint"]


def test_ctrl_c_from_the_writer_thread(simple, monkeypatch):
    wanted = whole(simple)
    monkeypatch.setattr(recorder, "BLOCK_BYTES", 1)

    class Pressing(SeriesFiles):
        def write_rows(self, name, first, block):
            super().write_rows(name, first, block)
            if name == "p" and first == 5:
                press()

    with pytest.raises(KeyboardInterrupt):
        simple.run(Pressing(simple.path))
    assert simple.path.exists()
    simple.run()
    check(simple, wanted)


@pytest.mark.parametrize("every", [None, 4])
@pytest.mark.parametrize("stage", ["velocity", "density", "pressure"])
def test_an_impatient_ctrl_c_within_a_step(device, tmp_path, monkeypatch, every, stage):
    """The second interrupts at once; what is then half done is not saved."""
    if device.name != "cpu":
        pytest.skip("a step on a GPU is one replay")
    flat = Leg(device, "flat", tmp_path)
    wanted, plain, count = whole(flat), getattr(FusedCpuStages, stage), []
    # As written: what is recorded once is done without a look between its kernels.
    monkeypatch.setattr(CpuDevice, "graph", lambda self, work, kernels_alone=False: repeating(work))

    def impatient(self, *arguments):
        plain(self, *arguments)
        count.append(1)
        if len(count) == 11:
            press()
            press()

    monkeypatch.setattr(FusedCpuStages, stage, impatient)
    with pytest.raises(KeyboardInterrupt):
        flat.run(every=every)
    assert flat.path.exists() == (every is not None)
    monkeypatch.undo()
    report = flat.run()
    assert report.resumed_at == (8 if every else 0)
    check(flat, wanted)


def test_an_error_keeps_what_an_earlier_checkpoint_needs(simple):
    """A full disk, say: once there is space, the run goes on."""
    wanted = whole(simple)

    class Full(SeriesFiles):
        def write_rows(self, name, first, block):
            if first + len(block) > 15:
                raise OSError(28, "No space left on device")
            super().write_rows(name, first, block)

    with pytest.raises(OSError, match="No space"):
        simple.run(Full(simple.path), every=6)
    assert simple.path.exists()
    assert simple.run().resumed_at == 18
    check(simple, wanted)


# --- What is refused ---------------------------------------------------------------------------------------


class Untouched(SeriesFiles):
    def begin(self, layout, rows_done):
        raise AssertionError("the sink was touched")


def refused(leg, match, **more):
    kept = leg.path.read_bytes()
    with pytest.raises(InputError, match=match) as caught:
        leg.run(Untouched(leg.path), **more)
    assert "\n" not in str(caught.value)
    assert leg.path.read_bytes() == kept


def test_another_run_is_refused(simple, monkeypatch):
    simple.run(every=9, stop=True)
    inputs = simple.problem
    p0 = np.array(inputs.initial_pressure)
    p0[3, 4, 5] = np.nextafter(p0[3, 4, 5], np.float32(1e9))
    for other in (
        replace(inputs, dt=inputs.dt * (1 + 1e-15)),
        replace(inputs, steps=STEPS + 1),
        replace(inputs, initial_pressure=p0),
        replace(inputs, absorption="stokes", alpha_power=2.0),
        replace(inputs, pressure_source=pressure_source(SHAPE, "additive")),
    ):
        refused(simple, "another run", problem=other)
    for quantities, where, start in [
        (("p_raw",), None, 3),
        (EVERYTHING, points(SHAPE, 12), 3),
        (EVERYTHING, points(SHAPE, 11), 4),
    ]:
        refused(simple, "another run", recording=Recording(quantities, where, start))
    assert simple.run().resumed_at == 9


def test_another_precision_is_refused(simple):
    simple.run(every=9, stop=True)
    with pytest.raises(InputError, match="another run"):
        run(
            simple.problem,
            simple.recording,
            Untouched(simple.path),
            RunSettings(device=simple.device, precision="double", checkpoint=Checkpoints(simple.path)),
        )


@pytest.mark.parametrize("where_damaged", [0, 30, 0.5, -3])
def test_a_damaged_checkpoint_is_refused(simple, where_damaged):
    simple.run(every=9, stop=True)
    raw = bytearray(simple.path.read_bytes())
    at = int(where_damaged * len(raw)) if isinstance(where_damaged, float) else where_damaged
    raw[at] ^= 0x10
    simple.path.write_bytes(raw)
    refused(simple, "damaged checkpoint")


@pytest.mark.parametrize("length", [0, 10, 100, -1])
def test_a_short_checkpoint_is_refused(simple, length):
    simple.run(every=9, stop=True)
    simple.path.write_bytes(simple.path.read_bytes()[:length])
    refused(simple, "damaged checkpoint")


def test_a_place_that_cannot_be_written(simple, tmp_path):
    for path in (tmp_path, tmp_path / "none" / "run.checkpoint"):
        with pytest.raises(InputError, match=r"checkpoint: .* (cannot be written|is a folder)"):
            run(
                simple.problem,
                simple.recording,
                Untouched(path),
                RunSettings(device=simple.device, checkpoint=Checkpoints(path)),
            )
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_at_a_later_checkpoint(simple, monkeypatch):
    """The run goes on with a warning that names the file, and gives the same bits."""
    wanted, written = whole(simple), []
    plain = files._write

    def full(file, *rest):
        written.append(1)
        if len(written) == 2:
            raise OSError(28, "No space left on device")
        plain(file, *rest)

    monkeypatch.setattr(files, "_write", full)
    with pytest.warns(RuntimeWarning, match=r"run\.checkpoint: No space left on device; the run continues"):
        simple.run(every=5)
    assert len(written) == 4
    check(simple, wanted)


def test_rows_of_another_run(simple):
    """Rows carry the name of their run: those of another are not taken, however alike."""
    simple.run(every=9, stop=True)
    kept = simple.path.read_bytes()
    simple.path.unlink()
    simple.run(every=9, stop=True)
    simple.path.write_bytes(kept)
    with pytest.raises(InputError, match="matching"):
        simple.run()


def test_rows_that_are_gone(simple):
    simple.run(every=9, stop=True)
    (row_file,) = simple.path.parent.glob("*.uy.series.partial")
    row_file.unlink()
    with pytest.raises(InputError, match="uy"):
        simple.run()


def test_start_again(simple):
    """Without `resume` the old checkpoint goes at once: its rows are about to be replaced."""
    wanted = whole(simple)
    simple.run(every=9, stop=True)

    class Look(SeriesFiles):
        def begin(self, layout, rows_done):
            assert rows_done == 0
            assert not simple.path.exists()
            super().begin(layout, rows_done)

    report = simple.run(Look(simple.path), resume=False)
    assert report.resumed_at == 0
    check(simple, wanted)


# --- kill -9 -----------------------------------------------------------------------------------------------

KILLED = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from test_checkpoint_resume import Leg, get_device, recorder, SeriesFiles
recorder.BLOCK_BYTES = 1

class Dies(SeriesFiles):
    def write_rows(self, name, first, block):
        super().write_rows(name, first, block)
        if name == "uy" and first == 11:
            os.kill(os.getpid(), signal.SIGKILL)

leg = Leg(get_device("cpu", threads=1), "all losses and sources", Path(sys.argv[2]))
leg.run(Dies(leg.path), every=5)
"""


@pytest.mark.slow
def test_kill_9(cpu, tmp_path):
    leg = Leg(cpu, "all losses and sources", tmp_path)
    wanted = whole(leg)
    words = [sys.executable, "-c", KILLED, str(Path(__file__).parent), str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert leg.run().resumed_at == 10
    check(leg, wanted)
