"""k-wave-python's function by its name: defaults, shapes, orders, options."""

import re
import sys
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from kwave_cases import answers, cases, objects

from wavefabric import kwave
from wavefabric.acoustics.kwave import drop_in
from wavefabric.acoustics.kwave import objects as kwave_objects
from wavefabric.acoustics.kwave.input import read_input
from wavefabric.base.errors import InputError
from wavefabric.base.system.compilation_clock import CompilationClock
from wavefabric.runtime.device.cpu import CpuDevice

pytestmark = pytest.mark.filterwarnings(r"ignore:source\..* of its energy lies above")
SHAPE = (24, 20)


def things(shape=SHAPE, **more):
    """Grid, medium, source and sensor in two dimensions."""
    p0 = np.zeros(shape)
    p0[tuple(n // 2 for n in shape)] = 1.0
    kgrid = SimpleNamespace(N=np.array(shape), spacing=np.full(len(shape), 1e-4), dt=1e-8, Nt=12)
    medium = SimpleNamespace(sound_speed=1500.0)
    sensor = SimpleNamespace(mask=p0 > 0.5, record=None, record_start_index=1)
    return kgrid, medium, SimpleNamespace(p0=p0, **more), sensor


def run(*inputs, **options):
    inputs = inputs or things()
    return kwave.kspaceFirstOrder(*inputs, **{"quiet": True, "num_threads": 1, **options})


@pytest.mark.parametrize("quiet", [True, False])
def test_compilation_is_announced_unless_it_is_to_be_quiet(monkeypatch, capsys, quiet):
    clock = CompilationClock()
    prepare = CpuDevice.kernels
    # As if something had to be compiled.
    monkeypatch.setattr(CpuDevice, "kernels", lambda *arguments: clock.announce() or prepare(*arguments))
    monkeypatch.setattr(drop_in, "CLOCK", clock)
    monkeypatch.setattr(kwave_objects, "_LAST", kwave_objects._LastRun())  # that of another test
    run(quiet=quiet)
    assert capsys.readouterr().err.count("compiling kernels") == (not quiet)
    assert clock.announces


@pytest.mark.parametrize("name", cases())
def test_the_answers_are_k_wave_pythons(name):
    *inputs, options = objects(name)
    wanted = answers(name)
    results = run(*inputs, **options)
    inside = [slice(n, -n or None) for n in np.broadcast_to(options["pml_size"], inputs[0].N.size)]
    for key, array in wanted.items():
        got = results[key]
        if key.endswith("_final") and options.get("pml_inside", True) and got.shape != array.shape:
            array = array[tuple(inside)]
        assert got.shape == array.shape
        tolerance = 2e-4 if key[0] == "I" else 1e-10
        assert np.abs(got - array).max() <= tolerance * np.abs(array).max()


def test_the_pml_is_outside_and_absent_from_fields():
    """Unless told otherwise; inside, fields come without it."""
    outside, inside = run(), run(pml_inside=True, pml_size=(3, 4))
    assert list(outside) == ["p", "p_final"]
    assert outside["p_final"].shape == SHAPE
    assert inside["p_final"].shape == (18, 12)
    assert outside["p"].shape == inside["p"].shape == (1, 12)
    assert outside["p"].dtype == np.float64
    assert run(dtype="single")["p"].dtype == np.float32
    # A layer that absorbs nothing is none.
    assert run(pml_inside=True, pml_size=3, pml_alpha=(2, 0))["p_final"].shape == (18, 20)


@pytest.mark.parametrize("shape", [(40,), (24, 20), (16, 18, 20)])
def test_all_dimensions_and_the_automatic_layer(shape):
    inputs = things(shape)
    assert run(*inputs, pml_size=10)["p_final"].shape == shape
    results = run(*inputs, pml_size="auto", use_sg=False, use_kspace=False, smooth_p0=False)
    assert results["p_final"].shape == shape
    # Sizes from 10 to 40: 40 + 2·12 = 64, 24 + 2·20 = 64, …
    sizes = drop_in.KSpaceOptions(shape, pml_size="auto").objects["pml_size"]
    assert all(n + 2 * m in (64, 48, 54, 36) for n, m in zip(shape, sizes, strict=True))


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"device": "cuda"}, 'device: "cuda" given; allowed: cpu, gpu'),
        ({"device_num": -1}, "device_num: -1; allowed: a whole number from 0"),
        ({"backend": "matlab"}, 'backend: "matlab" given; allowed: python, cpp'),
        ({"dtype": "float16"}, 'dtype: "float16"; allowed: float64 or float32'),
        ({"plot_sim": True}, "plot_sim: is unknown; allowed: "),
        ({"pml_size": 2.5}, "pml_size: [2.5, 2.5]; allowed: a whole number from 0"),
        ({"save_only": True}, "data_path: null; allowed: a directory, needed with save_only"),
        ({"num_threads": 0}, "num_threads: 0; allowed: a whole number from 1 to "),
        ({"use_sg": 1}, "use_sg: 1; allowed: True or False"),
    ],
)
def test_wrong_options_are_refused(options, line):
    with pytest.raises(InputError) as error:
        run(**options)
    assert str(error.value).startswith(line)


MANY = 5000
HOSTILE = [
    object(), len, {}, {1: 2}, set(), b"x", 1 + 2j, [[1, 2], [3]], [None, 1], np.zeros(0),
    np.full(SHAPE, "a"), np.ones((3, 3, 3)), np.datetime64("2020"), "nothing", -1, 1.5, 1e30, -(10**400),
    float("nan"), [1, 2, 3], [2**40, 2**40], MANY, [5000, 3],
]  # fmt: skip
KEYWORDS = [
    "pml_size",
    "pml_alpha",
    "pml_inside",
    "use_sg",
    "backend",
    "device",
    "dtype",
    "save_only",
    "quiet",
]
KEYWORDS += ["num_threads", "device_num", "force", "check_stability", "comm", "decomposition", "smooth_c0"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("key", [*KEYWORDS, "kgrid.N", "kgrid.spacing", "kgrid.dt", "kgrid.Nt"])
def test_hostile_values_are_refused_in_one_line(key):
    _, _, name = key.partition(".")
    refused, lines = 0, []
    for value in HOSTILE:
        if key == "kgrid.Nt" and value is MANY:
            continue
        kgrid, *others = things()
        options = {"pml_size": 4} if name else {"pml_size": 4, key: value}
        if name:
            setattr(kgrid, name, value)
        try:
            run(kgrid, *others, **options)
        except InputError as error:
            line = str(error)
            refused += bool(re.fullmatch(r"([\w.]+: .*; allowed: |the time step ).*", line))
            lines.append(line)
    assert refused == len(lines)
    assert refused >= len(HOSTILE) - 6  # a few are numbers that can be run with


#: Attribute, value, and how the line begins after the attribute.
LINES = [
    ("kgrid.N", [24, -20], "[24, -20]; allowed: 1 to 3 whole numbers from 2"),
    ("kgrid.N", "many", '"many"; allowed: real numbers'),
    ("kgrid.spacing", [1e-4, -1e-4], "-0.0001 m given; allowed: a positive number"),
    ("kgrid.dt", -1e-8, "-1e-08; allowed: above 0"),
    (
        "kgrid.dt",
        "auto",
        '"auto"; allowed: a number; call kgrid.makeTime(medium.sound_speed) or kgrid.setTime(',
    ),
    ("medium.BonA", float("nan"), "nan; allowed: a finite number"),
    ("medium.sound_speed_ref", -1.0, "-1.0; allowed: one number above 0"),
    ("sensor.record_start_index", 13, "13; allowed: 1 to 12, the steps of the run"),
    ("sensor.mask", [[5], [3], [70], [8]], "a cuboid from [5, 3] to [70, 8]; allowed: whole numbers"),
    ("sensor.mask", [[9], [3], [5], [8]], "a cuboid from [9, 3] to [5, 8]; allowed: whole numbers"),
    ("sensor.mask", [[0], [3], [5], [8]], "a cuboid from [0, 3] to [5, 8]; allowed: whole numbers"),
    ("sensor.mask", [[1.5], [3], [5], [8]], "a cuboid from [1.5, 3.0] to [5.0, 8.0]; allowed: whole"),
    ("sensor.mask", [[1.0], [0.0]], "(1.0, 0.0) m is outside the grid; allowed: "),
    (
        "sensor.frequency_response",
        [1e6, 60],
        "is set; allowed: None (wavefabric.acoustics.frequency_response(",
    ),
    ("sensor.directivity", 1, "is set; allowed: None (wavefabric.acoustics.Sensor.elements "),
    ("sensor.time_reversal_boundary_data", 1, "is set; allowed: None (wavefabric.acoustics.time_reversal "),
]


@pytest.mark.parametrize(("key", "value", "line"), LINES)
def test_lines_name_what_the_user_has_set(key, value, line):
    inputs = dict(zip(("kgrid", "medium", "source", "sensor"), things(), strict=True))
    part, name = key.split(".")
    setattr(inputs[part], name, value)
    with pytest.raises(InputError) as error:
        run(*inputs.values(), pml_size=4)
    assert str(error.value).startswith(f"{key}: {line}")


def test_what_has_no_effect_is_said_once(monkeypatch):
    monkeypatch.setattr(drop_in, "_named", set())
    with pytest.warns(UserWarning, match="binary_path: has no effect here"):
        run(binary_path="kspaceFirstOrder-OMP")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(binary_path="kspaceFirstOrder-OMP")


def test_save_only_writes_the_input_file(tmp_path):
    files = run(save_only=True, data_path=tmp_path, backend="cpp", pml_size=4)
    assert files["pml_size"] == (4, 4)
    problem = read_input(files["input_file"]).problem
    assert problem.shape == (32, 28, 1)
    assert not (tmp_path / "kwave_output.h5").exists()


def distributed():
    """An L of four points with a signal each, whose orders differ."""
    mask = np.zeros(SHAPE, bool)
    mask[[8, 9, 10, 8], [4, 4, 4, 9]] = True
    kgrid, medium, _, sensor = things()
    rows = np.arange(1.0, 5)[:, None] * np.ones(12)
    return kgrid, medium, SimpleNamespace(p_mask=mask, p=rows), sensor, mask


def test_rows_in_the_order_of_fortran():
    *inputs, mask = distributed()
    fortran = run(*inputs, signal_order="F")["p"]
    positions = np.zeros(SHAPE, int)
    positions.T[mask.T] = np.arange(4)
    inputs[2].p = inputs[2].p[positions[mask]]
    np.testing.assert_array_equal(run(*inputs, signal_order="C")["p"], fortran)


def test_the_order_of_an_array_is_warned_of_once(monkeypatch):
    """Only beside a kWaveArray, where the order matters, and not where it is given."""
    monkeypatch.setattr(drop_in, "_named", set())
    *inputs, _ = distributed()
    with warnings.catch_warnings():
        warnings.filterwarnings("error", r"source\.p: its rows")
        run(*inputs)
        monkeypatch.setitem(sys.modules, "kwave.utils.kwave_array", SimpleNamespace())
        run(*inputs, signal_order="C")
        same = SimpleNamespace(p_mask=inputs[2].p_mask, p=np.ones((4, 12)))
        run(*inputs[:2], same, inputs[3])
    with pytest.warns(UserWarning, match=r"source\.p: .*kWaveArray.*signal_order='F'"):
        run(*inputs)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", r"source\.p: its rows")
        run(*inputs)
