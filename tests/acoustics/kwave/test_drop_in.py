"""k-wave-python's function by its name: defaults, shapes, orders, options."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from kwave_cases import answers, cases, objects

from wavefabric import kwave
from wavefabric.acoustics.kwave import drop_in
from wavefabric.acoustics.kwave.input import read_input
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
    sizes = drop_in._Options(shape, pml_size="auto").objects["pml_size"]
    assert all(n + 2 * m in (64, 48, 54, 36) for n, m in zip(shape, sizes, strict=True))


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"device": "cuda"}, 'device: "cuda"; allowed: cpu, gpu'),
        ({"device_num": -1}, "device_num: -1; allowed: a whole number from 0"),
        ({"backend": "matlab"}, 'backend: "matlab"; allowed: python, cpp'),
        ({"dtype": "float16"}, 'dtype: "float16"; allowed: float64 or float32'),
        ({"plot_sim": True}, "plot_sim: is unknown; allowed: "),
        ({"pml_size": 2.5}, "pml_size: [2.5, 2.5]; allowed: a whole number from 0"),
        ({"save_only": True}, "data_path: null; allowed: a directory, needed with save_only"),
        ({"num_threads": 0}, "num_threads: 0; allowed: a whole number from 1"),
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
