"""``ultrasound-step`` at tiny sizes, through the command; k-Wave is a fake that only writes an output."""

import json
import os
import sys
from dataclasses import replace

import numpy as np
import pytest

from wavefabric.acoustics.choose_stages import make_stages
from wavefabric.acoustics.materials.find import find_materials
from wavefabric.acoustics.problem import Recording
from wavefabric.acoustics.recording.sinks import MemorySink
from wavefabric.acoustics.run import run
from wavefabric.acoustics.run_settings import RunSettings
from wavefabric.acoustics.stability.stable_time_step import stability
from wavefabric.base.errors import InputError
from wavefabric.cli.bench import kwave_program, ultrasound_step
from wavefabric.cli.bench.app import parse_media
from wavefabric.cli.bench.kwave_program import KWaveProgram
from wavefabric.cli.bench.own_process import Bare
from wavefabric.cli.bench.ultrasound_cases import (
    ALL_MEDIA,
    MEDIA,
    RecordingStepper,
    outline,
    points,
    problem,
    with_sources,
)

TINY = ["--threads", 1, "--repeats", 2]

#: A test double: not k-Wave, but a program with its options that writes the part of its output we read.
PROGRAM = """\
#!{python}
import resource
import sys
import h5py
given = dict(pair for pair in zip(sys.argv, sys.argv[1:]) if pair[0].startswith("-"))
with h5py.File(given["-i"]) as file:
    assert file.attrs["file_type"] == b"input", file.attrs["file_type"]
    assert file["sensor_mask_index"].size == 100
    assert file["Nt"][0, 0, 0] == int(given["--benchmark"])
    full = file["c0"].size > 1
assert given["-t"] == "1" and "-p" in given
if {fails}:
    sys.exit("kaput: no such thing")
with h5py.File(given["-o"], "w") as file:
    if {says}:
        seconds = int(given["--benchmark"]) * (0.4 if full else 0.2)
        file.attrs["simulation_phase_execution_time"] = b"%8.2fs" % seconds
        file.attrs["total_memory_in_use"] = b"%d MB" % ({memory})
"""


@pytest.fixture
def program(tmp_path):
    def write(fails=False, says=True, memory="21"):
        path = tmp_path / "fake"
        path.write_text(PROGRAM.format(python=sys.executable, fails=fails, says=says, memory=memory))
        path.chmod(0o755)
        return path

    return write


@pytest.mark.slow
def test_both_media(numbers):
    result = numbers("ultrasound-step", "--size", "24x20x16", *TINY)
    assert result["benchmark"] == "ultrasound-step"
    assert result["copy_bytes_per_second"] > 1e8
    assert result["machine"]["device"] == "cpu"
    (case,) = result["cases"]
    assert (case["shape"], case["dtype"]) == ([24, 20, 16], "float32")
    field = case["field_bytes"]
    assert field == 4 * 24 * 20 * 16
    bare = case["bare"]
    assert bare["ms_best"] <= bare["ms"] <= bare["ms_worst"]
    assert bare["passes"] == pytest.approx(bare["ms"] * 1e-3 * result["copy_bytes_per_second"] / field)
    assert [line["name"] for line in case["media"]] == list(MEDIA)
    for line, transforms in zip(case["media"], (10, 14), strict=True):
        for one in (line, line["plain"]):
            assert one["transforms"] == transforms
            assert one["ms_best"] <= one["ms"] <= one["ms_worst"]
            assert len(one["ratios"]) == 2
            assert min(one["ratios"]) <= one["ratio"] <= max(one["ratios"])
            assert one["passes"] == pytest.approx(bare["passes"] * one["ms"] / bare["ms"])
            assert one["finite"]
        assert line["plain"]["stages"] == "PlainStages"
        assert line["times_faster_than_plain"] > 0
        assert "kwave" not in line
    assert os.listdir() == []


@pytest.mark.slow
def test_a_plane(command):
    options = ("--size", "24x20", "--medium", "all", "--precision", "double", "--json", *TINY)
    code, out, err = command("ultrasound-step", *options)
    assert code == 0, err
    (case,) = json.loads(out)["cases"]
    assert (case["shape"], case["field_bytes"]) == ([24, 20, 1], 8 * 24 * 20)
    assert [line["transforms"] for line in case["media"]] == [7, 11, 11]
    assert all(line["finite"] and line["plain"]["finite"] for line in case["media"])


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "transforms"), [((16, 12, 10), 10), ((16, 12, 1), 7)])
def test_sources_and_sensor(cpu, shape, transforms):
    result = ultrasound_step.run([shape], ["homogeneous"], repeats=2, plain=False, points=50, device=cpu)
    ((line,),) = [case["media"] for case in result["cases"]]
    more = line["with_points"]
    assert (more["points"], more["transforms"], more["finite"]) == (50, transforms, True)
    assert len(more["ratios"]) == 2
    assert more["ms"] > 0
    assert "plain" not in line
    text = "\n".join(str(row) for table in ultrasound_step.table(result) for row in table.columns[0].cells)
    assert "sources and sensor of 50 points" in text


def test_steps_with_points_are_recorded(cpu):
    """Sources act and rows are sampled: the same as a run of the solver gives."""
    inputs = replace(problem("homogeneous", (16, 12, 10), 20), initial_pressure=None)
    stages = make_stages(cpu, with_sources(inputs, 30), np.float64)
    stepper = RecordingStepper(stages, 30, 5)
    (series,) = stepper._recorder._series.values()
    assert series.free_rows == len(series.ring) // 2 - 5
    at = points(inputs.shape, 30)
    assert np.array_equal(series.ring[4], stages.fields.p.reshape(-1)[at])
    assert np.abs(series.ring[4]).min() > 0
    stepper()
    assert series.free_rows == len(series.ring) // 2 - 6
    stepper.close()


@pytest.mark.slow
def test_memory_is_that_of_the_arrays(numbers):
    """Of 2 MiB a field little else is seen; a figure that misses the constants or the input is far off."""
    options = ["--no-plain", "--precision", "double", "--threads", 1, "--repeats", 1]
    (case,) = numbers("ultrasound-step", "--size", 64, *options)["cases"]
    plain, full = (line["memory"] for line in case["media"])
    # p, u, ρ, p₀: 8 fields, spectra and κ: 3.5; then c₀, ρ₀, staggered ρ₀, B/A, τ, α₀: 8, |k|^…: 1.
    assert plain["floats_per_point"] == pytest.approx(11.5, abs=3.0)
    assert full["floats_per_point"] == pytest.approx(20.5, abs=3.0)
    for memory in (plain, full):
        assert memory["bytes"] == pytest.approx(memory["floats_per_point"] * 8 * 64**3)
        assert memory["base_bytes"] > 1 << 24


@pytest.mark.slow
def test_on_the_terminal_beside_another_program(command, program, tmp_path):
    code, out, err = command(
        *("ultrasound-step", "--size", 16, "--size", 20, "--medium", "heterogeneous", "--no-plain"),
        *("--peer", program(), *TINY, "--device", "cpu", "-o", "out"),
    )
    assert (code, err) == (0, "")
    for word in ("20 x 20 x 20 float32", "one bare transform", "heterogeneous", "passes", "floats/point"):
        assert word in out
    assert "fake" in out
    assert "x our time" in out
    assert "…" not in out
    assert sorted(os.listdir("out")) == ["ultrasound-step.json", "ultrasound-step.png"]
    with open("out/ultrasound-step.json", encoding="utf-8") as file:
        result = json.load(file)
    for case in result["cases"]:
        (line,) = case["media"]
        assert line["kwave"]["ms"] == pytest.approx(400)
        assert line["kwave"]["ratio"] > 1
        assert line["kwave"]["memory_bytes"] == 21 << 20


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"fails": True}, ["exit code 1", "kaput"]),
        ({"says": False}, ["simulation_phase_execution_time"]),
    ],
)
def test_program_that_fails(cpu, program, how, words):
    peer = KWaveProgram(program(**how), cpu, "single")
    with pytest.raises(InputError) as fault:
        peer.compare("homogeneous", (16, 16, 16), lambda: None)
    for word in ("--peer", "fake", *words):
        assert word in str(fault.value)


@pytest.mark.slow
def test_memory_of_the_program_is_its_own(cpu, program, monkeypatch):
    """k-Wave tells its ru_maxrss; that of a program started by exec begins with the peak of who called it."""
    monkeypatch.setattr(kwave_program, "_RUNS", 1)
    monkeypatch.setattr(kwave_program, "_SECONDS", 0.0)
    fat = np.ones(400 << 20, np.uint8)
    peer = KWaveProgram(
        program(memory="resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10"), cpu, "single"
    )
    result = peer.compare("homogeneous", (16, 16, 16), lambda: None)
    assert 1 << 20 < result["memory_bytes"] < 250 << 20
    assert fat.all()


def test_program_that_cannot_run(cpu, tmp_path):
    path = tmp_path / "text"
    path.write_text("no program")
    with pytest.raises(InputError, match="cannot be run"):
        KWaveProgram(path, cpu, "single").compare("homogeneous", (16, 16, 16), lambda: None)


@pytest.mark.parametrize("shape", [(24, 20, 16), (24, 20, 1)])
@pytest.mark.parametrize("medium", ALL_MEDIA)
def test_problems_are_sound(cpu, medium, shape):
    inputs = problem(medium, shape, 30)
    assert stability(inputs).warning is None
    result = MemorySink()
    report = run(inputs, Recording(("p_final",)), result, RunSettings(device=cpu))
    assert report.transforms_per_step > (9 if shape[2] > 1 else 6)
    p = result.arrays["p_final"]
    assert 0 < np.abs(p).max() < np.abs(inputs.initial_pressure).max()
    thin = outline(medium, shape)
    assert thin.initial_pressure.shape == inputs.initial_pressure.shape
    assert np.ndim(thin.sound_speed) == np.ndim(inputs.sound_speed)
    assert points((24, 20, 16)).size == 100


def test_materials_of_the_media():
    """What may be held by index is what the outline says, but for small grids of the heterogeneous medium."""
    shape = (128, 96, 64)
    note = find_materials(problem("tissues", shape, 1), np.float32).note()
    assert note.endswith(", B/A, absorption, staggered densities of 5 materials: held as an index of 8 bits")
    assert find_materials(outline("tissues", shape), np.float32).groups[0].bits == 8
    for shape in ((64, 64, 64), (512, 16, 16), (256, 256, 256)):
        thin = outline("heterogeneous", shape)
        assert find_materials(thin, np.float32).groups == ()
        assert thin.density.shape == shape[::-1]
        assert 1000 <= thin.density.min() < thin.density.max() <= 1100.1


@pytest.mark.parametrize(
    ("text", "media"),
    [("both", MEDIA), ("all", ALL_MEDIA), ("tissues", ["tissues"]), ("heterogeneous", MEDIA[1:])],
)
def test_choice_of_media(text, media):
    assert parse_media(text) == list(media)


def test_unknown_medium():
    with pytest.raises(
        InputError, match='--medium: "water" given; allowed: homogeneous, heterogeneous, tissues'
    ):
        parse_media("water")


def test_bare_transforms_stay_finite(cpu):
    bare = Bare(cpu, (32, 16, 16), np.dtype(np.float32))  # short: as many transforms as the numbers allow
    assert bare.milliseconds() > 0
    assert np.isfinite(bare.real).all()
    assert np.abs(bare.real).max() > 1e5


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--size", "128x64x2x2"], "NXxNYxNZ"),
        (["--size", "128x4"], "8 to 4096"),
        (["--size", "big"], "--size"),
        (["--size", "4"], "8 to 4096"),
        (["--medium", "tissue"], "tissue"),
        (["--precision", "half"], "half"),
        (["--repeats", "0"], "repeats"),
        (["--points", "-1"], "points"),
        (["--peer", "missing"], "--peer: missing"),
        (["--size", "4096", "--device", "cpu"], "memory"),
    ],
)
def test_bad_options_give_one_line(command, words, part):
    code, out, err = command("ultrasound-step", *words)
    assert (code, out) == (2, "")
    assert err.startswith("wavefabric: error: ")
    assert err.count("\n") == 1
    assert part in err
    assert os.listdir() == []


def test_precision_of_the_other_program(command, program, tmp_path):
    code, _, err = command("ultrasound-step", "--peer", program(), "--precision", "double", "--device", "cpu")
    assert code == 2
    assert "--precision: double with --peer" in err
