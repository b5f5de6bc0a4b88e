"""k-wave-python's functions by their names: defaults, shapes, orders, options, and the older ones."""

import sys
import warnings
from types import ModuleType, SimpleNamespace

import h5py
import numpy as np
import pytest
from kwave_cases import answers, cases, objects

from wavefabric import kwave
from wavefabric.acoustics import from_kwave
from wavefabric.acoustics.kwave import drop_in
from wavefabric.acoustics.kwave.input import read_input, write_input
from wavefabric.errors import InputError

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
    sizes = drop_in._Options(pml_size="auto").objects(inputs[0])["pml_size"]
    assert all(n + 2 * m in (64, 48, 54, 36) for n, m in zip(shape, sizes, strict=True))


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"device": "cuda"}, 'device: "cuda"; allowed: cpu, gpu'),
        ({"device_num": -1}, "device_num: -1; allowed: a whole number from 0"),
        ({"backend": "matlab"}, 'backend: "matlab"; allowed: python, cpp'),
        ({"dtype": "float16"}, 'dtype: "float16"; allowed: float64 or float32'),
        ({"plot_sim": True}, "plot_sim: is unknown; allowed: "),
        ({"pml_size": 2.5}, "grid.pml_size: "),
        ({"save_only": True}, "data_path: is missing with save_only=True; allowed: a directory"),
        ({"num_threads": 0}, "threads: 0; allowed: a whole number from 1"),
        ({"use_sg": 1}, "use_sg: 1; allowed: True or False"),
    ],
)
def test_wrong_options_are_refused(options, line):
    with pytest.raises(InputError) as error:
        run(**options)
    assert str(error.value).startswith(line)


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


@pytest.fixture
def older(tmp_path, monkeypatch):
    """k-wave-python's older functions, which write a file of a problem, and options for them."""

    def writes(name):
        def write(*, kgrid, source, sensor, medium, simulation_options, execution_options):
            assert simulation_options.save_to_disk_exit
            layer = {"pml_size": 4, "pml_inside": simulation_options.pml_inside, "signal_order": "F"}
            problem, recording = from_kwave(kgrid, medium, source, sensor, **layer)
            write_input(simulation_options.input_filename, problem, recording.where, force=True)
            simulation_options.pml_x_size = 4  # as k-wave-python notes what it has chosen

        module = ModuleType(f"kwave.{name}")
        setattr(module, name, write)
        monkeypatch.setitem(sys.modules, f"kwave.{name}", module)

    for name in ("kspaceFirstOrder2D", "kspaceFirstOrder3D"):
        writes(name)
    monkeypatch.setitem(sys.modules, "kwave", ModuleType("kwave"))
    simulation = SimpleNamespace(
        save_to_disk=False,
        save_to_disk_exit=False,
        pml_inside=False,
        pml_size=None,
        pml_alpha=2.0,
        use_sg=True,
        use_kspace=True,
        smooth_p0=True,
        input_filename=str(tmp_path / "in.h5"),
        output_filename=str(tmp_path / "out.h5"),
    )
    execution = SimpleNamespace(
        is_python_backend=False,
        is_gpu_simulation=False,
        device_num=None,
        num_threads_explicit=True,
        num_threads=1,
        show_sim_log=False,
        verbose_level=0,
        checkpoint_file=None,
        checkpoint_interval=None,
        checkpoint_timesteps=None,
        delete_data=True,
        thread_binding=None,
        system_call=None,
    )
    return simulation, execution


@pytest.mark.parametrize(
    ("name", "shape"), [("kspaceFirstOrder2D", SHAPE), ("kspaceFirstOrder3DC", (16, 18, 20))]
)
def test_older_functions_return_what_k_waves_program_writes(older, name, shape, tmp_path):
    kgrid, medium, source, sensor = things(shape)
    sensor.mask = np.random.default_rng(1).random(shape) < 0.1
    sensor.record = ["p", "p_final", "u_max_all", "p_max"]
    results = getattr(kwave, name)(kgrid, source, sensor, medium, *older)
    points = int(sensor.mask.sum())
    assert results["p"].shape == (12, points)
    assert results["p"].dtype == np.float32
    assert results["p_final"].shape == results["uy_max_all"].shape == shape[::-1]
    assert int(results["Nx"]) == shape[0] + 8
    simulation, _ = older
    assert (simulation.pml_x_size, simulation.save_to_disk, simulation.save_to_disk_exit) == (4, False, False)
    today = run(kgrid, medium, source, sensor, pml_size=4)
    np.testing.assert_allclose(results["p_final"].T, today["p_final"], atol=2e-6)
    # Theirs run through the mask in the order of Fortran.
    rows = np.zeros(shape, int)
    rows[sensor.mask] = np.arange(points)
    np.testing.assert_allclose(results["p"].T, today["p"][rows.T[sensor.mask.T]], atol=2e-6)
    assert not list(tmp_path.glob("*.h5"))


def test_older_functions_write_alone_and_keep_files(older, tmp_path):
    simulation, execution = older
    execution.delete_data = False
    kgrid, medium, source, sensor = things()
    sensor.record_start_index = 5
    results = kwave.kspaceFirstOrder2DC(kgrid, source, sensor, medium, simulation, execution)
    assert results["p"].shape == (8,)  # axes of one point are left out
    with h5py.File(tmp_path / "out.h5") as file:
        assert file["p"].shape == (1, 8, 1)
    (tmp_path / "out.h5").unlink()
    simulation.save_to_disk_exit = True
    assert kwave.kspaceFirstOrder2DC(kgrid, source, sensor, medium, simulation, execution) == {}
    assert not (tmp_path / "out.h5").exists()


def test_older_functions_with_the_python_backend(older):
    simulation, execution = older
    execution.is_python_backend = True
    kgrid, medium, source, sensor = things((60, 50))
    results = kwave.kspaceFirstOrder2D(kgrid, source, sensor, medium, simulation, execution)
    assert results["p_final"].shape == (20, 10)
    kgrid, medium, source, sensor = things((64,))
    results = kwave.kspaceFirstOrder1D(kgrid, source, sensor, medium, simulation, execution)
    assert results["p_final"].shape == (24,)


def test_older_functions_choose_their_device(older):
    _, execution = older
    sensor = things()[3]
    for gpu, device, wanted in [
        (False, None, "cpu"),
        (True, None, "cuda"),
        (True, "cpu", "cpu"),
        (False, "gpu", "cuda"),
    ]:
        execution.is_gpu_simulation = gpu
        assert drop_in._file_options(sensor, execution, device)["device"] == wanted
    execution.device_num = 1
    execution.checkpoint_file, execution.checkpoint_timesteps = "saved.h5", 7
    sensor.record = ["I_avg", "p_max"]
    options = drop_in._file_options(sensor, execution, "gpu")
    assert options["device"] == "cuda:1"
    assert options["checkpoint"].every == 7
    assert options["record"] == ["p", "p_max", "u_non_staggered"]
