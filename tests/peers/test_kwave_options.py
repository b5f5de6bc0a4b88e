"""Every option and attribute of k-wave-python's older functions: as by the new function, named, or refused.

Runs where k-wave-python is installed (``make test-peers``). A field that k-wave-python adds is missing in the
tables of this file, and a test fails.
"""

import copy
import dataclasses
import inspect
import pickle

import numpy as np
import pytest

from examples import installed, prepare_peer
from wavefabric.acoustics.kwave import drop_in
from wavefabric.base.errors import InputError
from wavefabric.kwave import kspaceFirstOrder, kspaceFirstOrder2D, kspaceFirstOrder3D

pytestmark = [
    pytest.mark.skipif(not installed(), reason="k-wave-python is not installed"),
    pytest.mark.filterwarnings("default"),
]
if installed():
    prepare_peer()
    from kwave.kgrid import kWaveGrid
    from kwave.kmedium import kWaveMedium
    from kwave.ksensor import kSensor, kSensorDirectivity
    from kwave.ksource import kSource
    from kwave.ktransducer import NotATransducer, kWaveTransducerSimple
    from kwave.options.simulation_execution_options import SimulationExecutionOptions
    from kwave.options.simulation_options import SimulationOptions, SimulationType

SHAPE, SHAPE_3D, STEPS = (24, 20), (20, 24, 22), 30
LAYERED = np.where(np.arange(24)[:, None] < 12, 1500.0, 1800.0) * np.ones(SHAPE)
POINTS = np.zeros(SHAPE, bool)
POINTS[3:5, 4:6] = True
HEARD = np.random.default_rng(1).random(SHAPE) < 0.2
SIGNAL = np.sin(np.arange(STEPS)[None] / 3) * 1e3
SIGNALS = SIGNAL * np.arange(1, 5)[:, None]


def case(where=SHAPE):
    """Objects and options, and the keywords of the new function that mean the same."""
    grid = kWaveGrid(where, [1e-4] * len(where))
    grid.setTime(STEPS, 1e-8)
    source, sensor = kSource(), kSensor()
    if where == SHAPE:
        source.p_mask, source.p = POINTS, SIGNAL
        sensor.mask, sensor.record = HEARD, ["p"]
    return {
        "kgrid": grid,
        "medium": kWaveMedium(sound_speed=1500.0, density=1000.0),
        "source": source,
        "sensor": sensor,
        "simulation": {"save_to_disk": True, "smooth_p0": False, "pml_size": [4], "pml_inside": False},
        "execution": {"num_threads": 1, "show_sim_log": False},
        "new": {"pml_size": 4, "smooth_p0": False, "num_threads": 1, "quiet": True},
    }


def rows_in_c(mask):
    """Of points in the order of Fortran those in the order of C."""
    rows = np.zeros(mask.shape, int)
    rows[mask != 0] = np.arange(np.count_nonzero(mask))
    return rows.T[mask.T != 0]


def in_order_of_c(source):
    """The source with its signals in the order of C: the older functions have them in that of Fortran."""
    source = copy.copy(source)
    for name in ("p", "ux", "uy"):
        signals = getattr(source, name, None)
        if signals is not None and len(signals) > 1:
            mask = np.asarray(source.p_mask if name == "p" else source.u_mask)
            setattr(source, name, signals[np.argsort(rows_in_c(mask))])
    return source


def state(thing):
    """All that an object holds, to the last bit."""
    return pickle.dumps(vars(thing))


def older(each, tmp_path):
    """The result; that objects and options are as before is checked, but for sizes that were left open."""
    function = kspaceFirstOrder2D if each["kgrid"].dim == 2 else kspaceFirstOrder3D
    files = {"data_path": str(tmp_path), "input_filename": "in.h5", "output_filename": "out.h5"}
    options = {
        "simulation_options": SimulationOptions(**{**files, **each["simulation"]}),
        "execution_options": SimulationExecutionOptions(**each["execution"]),
    }
    vars(options["simulation_options"]).update(each.get("later", {}))
    inputs = {name: each[name] for name in ("kgrid", "medium", "source", "sensor")} | options
    before = {name: state(value) for name, value in inputs.items()}
    simulation = options["simulation_options"]
    sizes = {name: getattr(simulation, name) for name in ("pml_x_size", "pml_y_size", "pml_z_size")}
    try:
        return function(**inputs)
    finally:
        for name, size in sizes.items():
            if size is None:
                setattr(simulation, name, None)
        for name, value in inputs.items():
            assert before[name] == state(value), f"{name} was changed"


def compare(each, tmp_path):
    """Both functions, series and statistics of p and u at the sensor, to single precision."""
    source = in_order_of_c(each["source"])
    new = kspaceFirstOrder(each["kgrid"], each["medium"], source, each["sensor"], **each["new"])
    results = older(each, tmp_path)
    mask = np.asarray(getattr(each["sensor"], "active_elements_mask", each["sensor"].mask))
    order = rows_in_c(mask)
    for name, wanted in new.items():
        # What the older functions call ux is at the staggered points.
        name = {"ux": "ux_non_staggered", "ux_staggered": "ux"}.get(name, name)
        wanted = wanted if name.endswith(("_final", "_all")) else wanted[order]
        assert np.abs(wanted).max() > 0
        assert np.abs(results[name].T - wanted).max() <= 5e-5 * np.abs(wanted).max(), name
    return results


# Options: what is set, and the keywords of the new function that mean the same; or a refusal.
REFUSED, NAMED, ALIKE = "refused", "named", "alike"
SIMULATION = {
    "simulation_type": lambda: [("ELASTIC", REFUSED)],
    "cart_interp": lambda: [("nearest", ALIKE)],
    "pml_inside": lambda: [(True, {"pml_inside": True})],
    "pml_alpha": lambda: [(1.0, {"pml_alpha": 1.0}), ([1.0, 3.0], {"pml_alpha": (1.0, 3.0)})],
    "save_to_disk": lambda: [(False, ALIKE)],
    "save_to_disk_exit": lambda: [],  # in test_save_to_disk_exit
    "scale_source_terms": lambda: [(False, {"scale_source_terms": False})],
    "smooth_c0": lambda: [(True, {"smooth_c0": True})],
    "smooth_rho0": lambda: [(True, {"smooth_rho0": True})],
    "smooth_p0": lambda: [(True, ALIKE)],  # with an initial pressure in test_attributes
    "use_kspace": lambda: [(False, {"use_kspace": False})],
    "use_sg": lambda: [(False, {"use_sg": False})],
    "use_fd": lambda: [(2, REFUSED)],
    "pml_auto": lambda: [(True, {"pml_size": "auto"})],
    "create_log": lambda: [(True, NAMED)],
    "use_finite_difference": lambda: [(True, REFUSED)],
    "stream_to_disk": lambda: [(True, NAMED), (10, NAMED)],
    "data_recast": lambda: [(True, NAMED)],
    "cartesian_interp": lambda: [("nearest", ALIKE)],
    "hdf_compression_level": lambda: [],  # k-wave-python overwrites it; "later" in test_later
    "data_cast": lambda: [("single", ALIKE), ("double", ALIKE)],
    "pml_search_range": lambda: [([3, 9], {"pml_size": (4, 6)})],  # with pml_auto: 32 points
    "radial_symmetry": lambda: [("WSWA", ALIKE)],
    "multi_axial_PML_ratio": lambda: [(0.3, NAMED)],
    "data_path": lambda: [],
    "input_filename": lambda: [],
    "output_filename": lambda: [],
    "pml_x_alpha": lambda: [(1.0, {"pml_alpha": (1.0, 2.0)})],
    "pml_y_alpha": lambda: [(1.0, {"pml_alpha": (2.0, 1.0)})],
    "pml_z_alpha": lambda: [(2.0, ALIKE)],
    "pml_size": lambda: [([7], {"pml_size": 7}), ([7, 5], {"pml_size": (7, 5)})],
    "pml_x_size": lambda: [(7, {"pml_size": (7, 20)})],
    "pml_y_size": lambda: [(7, {"pml_size": (20, 7)})],
    "pml_z_size": lambda: [(7, ALIKE)],
}
EXECUTION = {
    "is_gpu_simulation": None,  # needs a GPU: tests/acoustics/kwave/test_older.py
    "binary_path": ("x", NAMED),
    "binary_dir": ("x", NAMED),
    "binary_name": ("x", NAMED),
    "kwave_function_name": ("x", NAMED),
    "delete_data": (False, ALIKE),
    "device_num": None,
    "num_threads": (1, ALIKE),
    "thread_binding": (True, NAMED),
    "system_call": ("x", NAMED),
    "verbose_level": (1, ALIKE),
    "auto_chunking": (False, NAMED),
    "show_sim_log": (True, ALIKE),
    "checkpoint_interval": (100, NAMED),
    "checkpoint_timesteps": (100, NAMED),
    "checkpoint_file": None,
    "backend": ("OMP", ALIKE),
}


@pytest.fixture(autouse=True)
def _forget_names(monkeypatch):
    monkeypatch.setattr(drop_in, "_named", set())


def test_every_option_is_in_the_tables():
    assert {field.name for field in dataclasses.fields(SimulationOptions)} == SIMULATION.keys()
    parameters = inspect.signature(SimulationExecutionOptions.__init__).parameters
    assert parameters.keys() - {"self"} == EXECUTION.keys()


def _check(each, outcome, name, tmp_path):
    if outcome == REFUSED:
        with pytest.raises(InputError, match=rf"^[\w.]*\b{name}: .*; allowed: "):
            older(each, tmp_path)
    elif outcome == NAMED:
        with pytest.warns(UserWarning, match=rf"^{name}: has no effect here: "):
            compare(each, tmp_path)
    else:
        each["new"] |= {} if outcome == ALIKE else outcome
        compare(each, tmp_path)


@pytest.mark.parametrize("name", SIMULATION)
def test_simulation_option(name, tmp_path):
    for value, outcome in SIMULATION[name]():
        drop_in._named.clear()
        each = case()
        each["medium"] = kWaveMedium(sound_speed=LAYERED, density=LAYERED - 400)
        told = each["simulation"]
        told[name] = SimulationType.ELASTIC if value == "ELASTIC" else value
        if name in ("pml_x_size", "pml_y_size", "pml_z_size"):
            told.pop("pml_size")
            each["new"]["pml_size"] = 20
        if name in ("pml_auto", "pml_search_range"):
            told["pml_auto"] = True
            told.pop("pml_size")
        if name == "use_fd":
            told.pop(name)
            each["later"] = {name: value}
        _check(each, outcome, name, tmp_path)


@pytest.mark.parametrize("name", EXECUTION)
def test_execution_option(name, tmp_path):
    if EXECUTION[name] is None:
        return
    each = case()
    value, outcome = EXECUTION[name]
    each["execution"][name] = value
    _check(each, outcome, name, tmp_path)


def test_save_to_disk_exit(tmp_path):
    each = case()
    each["simulation"]["save_to_disk_exit"] = True
    assert older(each, tmp_path) == {}
    assert [path.name for path in tmp_path.iterdir()] == ["in.h5"]


@pytest.mark.parametrize(("name", "value"), [("hdf_compression_level", 5), ("pml_alpha", 1.0)])
def test_options_that_are_set_later(name, value, tmp_path):
    each = case()
    each["later"] = {name: value}
    _check(each, NAMED if name == "hdf_compression_level" else {name: value}, name, tmp_path)


MEDIUM = {
    "sound_speed": [(LAYERED, ALIKE)],
    "sound_speed_ref": [(1600.0, ALIKE), ("min", ALIKE)],
    "density": [(LAYERED - 400, ALIKE), (None, ALIKE)],
    "alpha_coeff": [(LAYERED / 500, ALIKE)],
    "alpha_power": [(1.3, ALIKE), (2.0, ALIKE)],
    "alpha_mode": [("no_dispersion", ALIKE), ("stokes", ALIKE), ("no_absorption", REFUSED)],
    "alpha_filter": [(np.ones(SHAPE), REFUSED)],
    "alpha_sign": [(np.array([-1, 1]), REFUSED)],
    "BonA": [(LAYERED / 100, ALIKE)],
    "absorbing": [(True, ALIKE)],  # k-wave-python's own note
    "stokes": [(True, ALIKE)],
}
SOURCE = {
    "p": [(SIGNALS, ALIKE)],
    "p_mask": [(np.roll(POINTS, 5), ALIKE)],
    "p_mode": [("dirichlet", ALIKE), ("additive-no-correction", ALIKE), ("additive", ALIKE)],
    "p_frequency_ref": [(1e6, REFUSED)],
    "ux": [(SIGNALS, ALIKE)],
    "uy": [(SIGNAL, ALIKE)],
    "uz": [(SIGNAL, REFUSED)],
    "u_mask": [(np.roll(POINTS, 3), ALIKE)],
    "u_mode": [("dirichlet", ALIKE), ("additive-no-correction", ALIKE)],
    "u_frequency_ref": [(1e6, REFUSED)],
    **{name: [(SIGNAL, REFUSED)] for name in ("sxx", "syy", "szz", "sxy", "sxz", "syz")},
    "s_mask": [(POINTS, REFUSED)],
    "s_mode": [("dirichlet", REFUSED)],
    "_p0": [(POINTS * 1e5, ALIKE)],
}
SENSOR = {
    "_mask": [(POINTS, ALIKE)],
    "record": [
        (["p", "p_max", "p_rms", "p_final", "p_max_all"], ALIKE),
        (["I_avg", "I"], ALIKE),
        (["v"], REFUSED),
    ],
    "_record_start_index": [(7, ALIKE), (STEPS + 1, REFUSED)],
    "directivity": [(True, REFUSED)],
    "frequency_response": [([1e6, 50], REFUSED)],
    "_time_reversal_boundary_data": [(SIGNAL, REFUSED)],
}


def class_fields(kind):
    names = {name for name, value in vars(kind).items() if not name.startswith("__") and not callable(value)}
    return {name for name in names if not isinstance(vars(kind)[name], property | staticmethod)}


def test_every_attribute_is_in_the_tables():
    assert {field.name for field in dataclasses.fields(kWaveMedium)} == MEDIUM.keys()
    assert class_fields(kSource) | vars(kSource()).keys() == SOURCE.keys()
    assert vars(kSensor()).keys() == SENSOR.keys()


ATTRIBUTES = [("medium", name) for name in MEDIUM]
ATTRIBUTES += [("source", name) for name in SOURCE]
ATTRIBUTES += [("sensor", name) for name in SENSOR]


@pytest.mark.parametrize(("part", "name"), ATTRIBUTES)
def test_attributes(part, name, tmp_path):
    for value, outcome in {"medium": MEDIUM, "source": SOURCE, "sensor": SENSOR}[part][name]:
        each = case()
        if name == "alpha_coeff":
            each["medium"].alpha_power = 1.5
        elif name.startswith("alpha_"):
            each["medium"].alpha_coeff = 3.0
            each["medium"].alpha_power = 1.5
        if name == "_p0":
            each["source"] = kSource()
        if name[0] == "u" and part == "source":
            each["source"] = kSource()
            each["source"].u_mask, each["source"].ux = POINTS, SIGNAL / 1e6
            value = value / 1e6 if name in ("ux", "uy", "uz") else value
        if name == "directivity":
            value = kSensorDirectivity(angle=np.zeros(SHAPE), size=1e-4)
        setattr(each[part], name, value)
        _check(each, outcome, name.lstrip("_"), tmp_path)


SIMPLE = {
    "kgrid": None,
    "number_elements": 5,
    "element_width": 2,
    "element_length": 4,
    "element_spacing": 1,
    "position": (6, 3, 8),
    "radius": float("inf"),
}
TRANSDUCER = {
    "transducer": [],
    "kgrid": [],
    "active_elements": [np.array([0, 1, 1, 1, 0])[:, None]],
    "focus_distance": [2e-3],
    "elevation_focus_distance": [4e-4],
    "receive_apodization": ["Hanning"],
    "transmit_apodization": ["Hanning", "Hamming", np.array([1.0, 0.5, 0.0, 2.0, 0.25])],
    "sound_speed": [900.0],
    "input_signal": [np.sin(np.arange(20) / 2) + 0.1],
    "steering_angle_max": [20],
    "steering_angle": [10],
}


def with_transducer(**told):
    each = case(SHAPE_3D)
    simple = {**SIMPLE, **{name: told.pop(name) for name in SIMPLE.keys() & told.keys()}}
    transducer = kWaveTransducerSimple(**{**simple, "kgrid": each["kgrid"]})
    told = {"input_signal": np.sin(np.arange(16) / 2) + 0.1, "focus_distance": 1.2e-3, **told}
    each["source"] = NotATransducer(transducer, each["kgrid"], **told)
    each["sensor"].mask = np.random.default_rng(2).random(SHAPE_3D) < 0.1
    each["sensor"].record = ["p"]
    return each


def test_every_parameter_of_transducers_is_in_the_tables():
    assert inspect.signature(kWaveTransducerSimple).parameters.keys() == SIMPLE.keys()
    assert inspect.signature(NotATransducer).parameters.keys() == TRANSDUCER.keys()


ELEMENTS = {"element_width": [1], "element_length": [3], "element_spacing": [2], "position": [(7, 2, 5)]}


@pytest.mark.parametrize("name", [*TRANSDUCER, *ELEMENTS])
def test_transducer(name, tmp_path):
    plain = older(with_transducer(), tmp_path)["p"]
    for value in {**TRANSDUCER, **ELEMENTS}[name]:
        each = with_transducer(**{name: value})
        first = compare(each, tmp_path)["p"]
        again = older(each, tmp_path)["p"]
        np.testing.assert_array_equal(first, again)
        alike = name in ("receive_apodization", "steering_angle_max")
        assert alike or first.shape != plain.shape or np.abs(first - plain).max() > 0.01 * np.abs(plain).max()


@pytest.mark.parametrize("name", ["transmit_apodization", "input_signal", "active_elements"])
def test_wrong_transducers_are_refused(name, tmp_path):
    value = {"transmit_apodization": "Sombrero", "input_signal": None, "active_elements": np.zeros((5, 1))}[
        name
    ]
    each = with_transducer(**{name: value})
    keys = ("kgrid", "medium", "source", "sensor")
    for call in (lambda: older(each, tmp_path), lambda: kspaceFirstOrder(*(each[key] for key in keys))):
        with pytest.raises(InputError, match=r"^source\.\w+: .*; allowed: ") as refused:
            call()
        assert "\n" not in str(refused.value)


def test_a_transducer_as_source_and_sensor(tmp_path):
    each = with_transducer(transmit_apodization="Hanning")
    each["sensor"] = each["source"]
    each["new"].pop("pml_size")
    new = kspaceFirstOrder(
        *(each[key] for key in ("kgrid", "medium", "source", "sensor")), **each["new"], pml_size=4
    )
    order = rows_in_c(np.asarray(each["source"].active_elements_mask))
    for _ in range(2):
        actual, wanted = older(each, tmp_path)["p"].T, new["p"][order]
        assert np.abs(actual - wanted).max() <= 5e-5 * np.abs(wanted).max()
