"""k-wave-python's older functions by their names, with objects and options that have the same attributes."""

import copy
from types import SimpleNamespace

import h5py
import numpy as np
import pytest

from wavefabric import kwave
from wavefabric.acoustics.kwave import drop_in
from wavefabric.acoustics.kwave.input import read_input
from wavefabric.acoustics.kwave.older_options import keywords, recorded
from wavefabric.acoustics.smoothing import smooth
from wavefabric.base.errors import InputError

pytestmark = pytest.mark.filterwarnings(r"ignore:source\..* of its energy lies above")
SHAPE = {2: (24, 20), 3: (16, 18, 20)}
STEPS = 24


def grid(shape, **more):
    return SimpleNamespace(N=np.array(shape), spacing=np.full(len(shape), 1e-4), dt=1e-8, Nt=STEPS, **more)


def at(shape, *, start=(2, 2, 2), size=2):
    mask = np.zeros(shape)
    mask[tuple(slice(a, a + size) for a in start[: len(shape)])] = 1
    return mask


def scattered(shape):
    return np.random.default_rng(1).random(shape) < 0.1


def initial(shape):
    return SimpleNamespace(p0=at(shape, start=[n // 2 for n in shape], size=3) * 1e5)


def sensor(mask=None, record=None, **more):
    return SimpleNamespace(mask=mask, record=record, record_start_index=1, **more)


def transducer(shape, apodization, speed=1500.0):
    """Elements of two rows along y, as k-wave-python's transducers have them; each heard by its weight."""
    elements = np.zeros(shape, int)
    for i in range(4):
        elements[5, 3 + 2 * i : 5 + 2 * i, 4:10] = i + 1
    delay = np.where(elements > 0, elements - 1, 0)
    weights = np.array([0.0, 0.25, 1.0, 0.5])
    made = SimpleNamespace(
        active_elements_mask=(elements > 0) * 1,
        indexed_active_elements_mask=elements,
        number_active_elements=4,
        input_signal=np.r_[np.zeros(4), np.sin(np.arange(18) / 2), np.zeros(4)][:, None],
        delay_mask=lambda: delay,
        transmit_apodization=apodization,
    )
    if isinstance(apodization, str):
        made.transmit_apodization_mask = np.where(elements > 0, weights[elements - 1], 0.0)
    return made, elements, weights


@pytest.fixture
def options(tmp_path, monkeypatch):
    """Simulation and execution options as k-wave-python makes them, in a folder for files."""
    monkeypatch.setattr(drop_in, "_named", set())
    simulation = SimpleNamespace(
        save_to_disk=True,
        save_to_disk_exit=False,
        pml_inside=False,
        pml_size=4,
        pml_alpha=2.0,
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
    )
    return simulation, execution


def older(options, kgrid, medium, source, sensor, name=None):
    name = name or f"kspaceFirstOrder{np.size(kgrid.N)}D"
    return getattr(kwave, name)(kgrid, source, sensor, medium, *options)


def new(kgrid, medium, source, sensor, **more):
    return kwave.kspaceFirstOrder(
        kgrid, medium, source, sensor, **{"pml_size": 4, "quiet": True, "num_threads": 1, **more}
    )


def by_points(theirs, mask):
    """Rows of the new function, in the order of C, in that of Fortran."""
    rows = np.zeros(mask.shape, int)
    rows[mask != 0] = np.arange(np.count_nonzero(mask))
    return theirs[rows.T[mask.T != 0]]


def close(actual, wanted, tolerance=2e-5):
    assert np.abs(wanted).max() > 0
    assert np.abs(actual - wanted).max() <= tolerance * np.abs(wanted).max()


@pytest.mark.parametrize("name", ["kspaceFirstOrder2D", "kspaceFirstOrder3DC"])
def test_they_return_what_k_waves_program_writes(options, name, tmp_path):
    shape = SHAPE[int(name[16])]
    mask = scattered(shape)
    inputs = grid(shape), SimpleNamespace(sound_speed=1500.0), initial(shape)
    listening = sensor(mask, ["p", "p_final", "u_max_all", "p_max"])
    results = older(options, *inputs, listening, name)
    points = int(mask.sum())
    assert results["p"].shape == (STEPS, points)
    assert results["p"].dtype == np.float32
    assert results["p_final"].shape == results["uy_max_all"].shape == shape[::-1]
    assert int(results["Nx"]) == shape[0] + 8
    # They smooth before they add the PML.
    inputs[2].p0 = smooth(inputs[2].p0.T).T
    today = new(*inputs, listening, smooth_p0=False)
    close(results["p_final"].T, today["p_final"])
    close(results["p"].T, by_points(today["p"], mask))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("pml_inside", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize("apodization", ["Hanning", np.array([0.0, 0.25, 1.0, 0.5])], ids=["name", "numbers"])
def test_a_transducer_keeps_its_transmit_apodization(options, apodization, pml_inside):
    """Compared with four velocity sources, one for each element, times their weights."""
    shape = SHAPE[3]
    options[0].pml_inside = pml_inside
    source, elements, weights = transducer(shape, apodization)
    # One signal serves all points, so that its scale is that of the mean sound speed.
    speed = np.random.default_rng(3).uniform(1450, 1600, shape)
    medium = SimpleNamespace(sound_speed=speed, density=1000.0)
    mask = scattered(shape)
    actual = older(options, grid(shape), medium, source, sensor(mask, ["p"]))["p"].T
    driven, signal = elements > 0, source.input_signal.ravel()
    sample = np.arange(signal.size - 3) + (elements[driven] - 1)[:, None]
    factor = weights[elements[driven] - 1] * speed[driven].mean() / speed[driven]
    pushed = SimpleNamespace(
        u_mask=driven, ux=signal[sample] * factor[:, None], u_mode="additive-no-correction"
    )
    wanted = by_points(
        new(grid(shape), medium, pushed, sensor(mask, ["p"]), pml_inside=pml_inside)["p"], mask
    )
    close(actual, wanted)
    source.transmit_apodization = "Rectangular"
    rectangular = older(options, grid(shape), medium, source, sensor(mask, ["p"]))["p"].T
    assert np.abs(rectangular - actual).max() > 0.1 * np.abs(actual).max()


def test_a_wrong_number_of_weights_is_refused(options):
    source, *_ = transducer(SHAPE[3], np.ones(3))
    inputs = grid(SHAPE[3]), SimpleNamespace(sound_speed=1500.0), source, sensor(scattered(SHAPE[3]))
    line = r"^source\.transmit_apodization: .*3 numbers for 4 active elements.*; allowed: "
    for call in (lambda: older(options, *inputs), lambda: new(*inputs)):
        with pytest.raises(InputError, match=line):
            call()


def test_one_active_element_has_the_weight_one(options):
    shape = SHAPE[3]
    source, *_ = transducer(shape, "Hanning")
    only = np.where(source.indexed_active_elements_mask == 1, 1, 0)
    source.active_elements_mask = source.indexed_active_elements_mask = only
    source.number_active_elements = 1
    source.transmit_apodization_mask = None  # k-wave-python cannot compute it
    inputs = grid(shape), SimpleNamespace(sound_speed=1500.0), source, sensor(scattered(shape), ["p"])
    actual = older(options, *inputs)["p"]
    source.transmit_apodization = "Rectangular"
    close(actual, older(options, *inputs)["p"], 1e-6)


@pytest.mark.parametrize("dimensions", [2, 3])
def test_intensities_are_recorded(options, dimensions):
    shape = SHAPE[dimensions]
    mask, options[0].smooth_p0 = scattered(shape), False
    inputs = grid(shape), SimpleNamespace(sound_speed=1500.0, density=1000.0), initial(shape)
    results = older(options, *inputs, sensor(mask, ["I", "I_avg"]))
    today = new(*inputs, sensor(mask, ["I", "I_avg"]), smooth_p0=False)
    for axis in "xyz"[:dimensions]:
        close(results[f"I{axis}_avg"], by_points(today[f"I{axis}_avg"][:, None], mask)[:, 0])
        close(results[f"I{axis}"].T, by_points(today[f"I{axis}"], mask))
        assert f"u{axis}_non_staggered" in results  # of which k-wave-python makes them


@pytest.mark.parametrize("pml_inside", [True, False])
def test_cuboids_are_an_array_for_each(options, pml_inside):
    shape = SHAPE[3]
    options[0].pml_inside, options[0].smooth_p0 = pml_inside, False
    corners = np.array([[3, 4, 5, 8, 9, 10], [12, 12, 12, 14, 15, 16]]).T
    inputs = grid(shape), SimpleNamespace(sound_speed=1500.0), initial(shape), sensor(corners, ["p", "p_max"])
    results, today = older(options, *inputs), new(*inputs, pml_inside=pml_inside, smooth_p0=False)
    for name in ("p", "p_max"):
        assert len(results[name]) == len(today[name]) == 2
        for box, wanted in zip(results[name], today[name], strict=True):
            close(box.T, wanted)
    assert results["p"][0].shape == (STEPS, 6, 6, 6)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"alpha_coeff": 5.0, "alpha_power": 1.3, "alpha_mode": "no_dispersion"}, {}),
        ({"alpha_coeff": 5.0, "alpha_power": 1.5, "alpha_mode": "stokes"}, {}),
        ({}, {"use_sg": False}),
        ({}, {"use_kspace": False}),
        ({}, {"smooth_c0": True, "smooth_rho0": True}),
        ({}, {"scale_source_terms": False}),
    ],
    ids=["no_dispersion", "stokes", "use_sg", "use_kspace", "smooth", "scale_source_terms"],
)
def test_what_k_waves_file_has_no_place_for_counts(options, change, told):
    shape = SHAPE[2]
    layered = np.where(np.arange(24)[:, None] < 12, 1500.0, 1800.0) * np.ones(shape)
    medium = SimpleNamespace(sound_speed=layered, density=layered - 400, **change)
    source = SimpleNamespace(p_mask=at(shape), p=np.sin(np.arange(STEPS) / 3))
    mask = scattered(shape)
    vars(options[0]).update(told)
    inputs = grid(shape), medium, source, sensor(mask, ["p"])
    actual = older(options, *inputs)["p"].T
    close(actual, by_points(new(*inputs, **told)["p"], mask), 5e-5)
    plain = new(grid(shape), SimpleNamespace(sound_speed=layered, density=layered - 400), *inputs[2:])["p"]
    assert np.abs(by_points(plain, mask) - actual).max() > 1e-4 * np.abs(plain).max()
    if told.keys() - {"use_sg", "use_kspace"} or change.get("alpha_mode") == "stokes":
        return
    # A file that is kept would not say so.
    options[1].delete_data = False
    with pytest.raises(InputError, match=r"^(medium\.alpha_mode|use_sg|use_kspace): False; allowed: True"):
        older(options, *inputs)


def test_smoothed_media_are_smooth():
    """The new function takes the same arrays, smoothed by hand."""
    shape = SHAPE[2]
    layered = np.where(np.arange(24)[:, None] < 12, 1500.0, 1800.0) * np.ones(shape)
    source = SimpleNamespace(p_mask=at(shape), p=np.sin(np.arange(STEPS) / 3))
    inputs = source, sensor(scattered(shape), ["p"])
    told = {"smooth_c0": True, "smooth_rho0": True, "pml_inside": True}
    actual = new(grid(shape), SimpleNamespace(sound_speed=layered, density=layered - 400), *inputs, **told)
    by_hand = [smooth(values.T, restore_max=False).T for values in (layered, layered - 400)]
    medium = SimpleNamespace(sound_speed=by_hand[0], density=by_hand[1], sound_speed_ref=1800.0)
    close(actual["p"], new(grid(shape), medium, *inputs, pml_inside=True)["p"], 1e-12)


def test_an_unscaled_signal_is_what_is_added():
    """p of an unscaled source is that of a scaled one over 2 Δt/(N c Δx)."""
    shape = SHAPE[2]
    signal = np.sin(np.arange(STEPS) / 3)
    listening, medium = sensor(scattered(shape), ["p"]), SimpleNamespace(sound_speed=1500.0)
    unscaled = SimpleNamespace(p_mask=at(shape), p=signal)
    scaled = SimpleNamespace(p_mask=at(shape), p=signal * 2 * 1500 * 1e-4 / (2 * 1e-8))
    actual = new(grid(shape), medium, unscaled, listening, scale_source_terms=False)
    close(actual["p"], new(grid(shape), medium, scaled, listening)["p"], 1e-12)


@pytest.mark.parametrize(
    ("told", "sizes"),
    [
        ({"pml_size": 5}, (5, 5)),
        pytest.param({"pml_size": [5, 6]}, (5, 6), marks=pytest.mark.slow),
        ({"pml_size": np.array([7])}, (7, 7)),
        pytest.param({"pml_size": None}, (20, 20), marks=pytest.mark.slow),
        pytest.param({"pml_size": None, "pml_x_size": 6, "pml_y_size": 3}, (6, 3), marks=pytest.mark.slow),
        ({"pml_size": None, "pml_y_size": 3}, (20, 3)),
        pytest.param({"pml_auto": True}, (20, 22), marks=pytest.mark.slow),  # 64 points
        ({"pml_auto": True, "pml_search_range": [1, 5]}, (4, 2)),  # 32, 24
    ],
)
def test_sizes_of_the_pml(options, told, sizes):
    """They are noted where k-wave-python notes them, and do not count as given the next time."""
    vars(options[0]).update(told)
    inputs = grid((24, 20)), SimpleNamespace(sound_speed=1500.0), initial((24, 20)), sensor(at((24, 20)))
    for _ in range(2):
        results = older(options, *inputs)
        assert (results["pml_x_size"], results["pml_y_size"]) == sizes
        assert (options[0].pml_x_size, options[0].pml_y_size) == sizes
    if "pml_x_size" not in told and "pml_y_size" not in told:
        options[0].pml_size, options[0].pml_auto = 9, False
        assert older(options, *inputs)["pml_x_size"] == 9


@pytest.mark.parametrize(
    ("told", "alphas"),
    [
        ({"pml_alpha": 1.5}, (1.5, 1.5)),
        ({"pml_alpha": [1.5, 2.5]}, (1.5, 2.5)),
        # k-wave-python copies pml_alpha to the axes when options are made; it may be set later.
        ({"pml_alpha": 1.5, "pml_x_alpha": 2.0, "pml_y_alpha": 2.0, "pml_z_alpha": 2.0}, (1.5, 1.5)),
        ({"pml_alpha": 1.5, "pml_x_alpha": 3.0, "pml_y_alpha": 1.5, "pml_z_alpha": 1.5}, (3.0, 1.5)),
        ({"pml_x_alpha": 3.0, "pml_y_alpha": 1.0, "pml_z_alpha": 2.0}, (3.0, 1.0)),
        ({"pml_x_alpha": 3.0, "pml_y_alpha": 3.0, "pml_z_alpha": 3.0}, (3.0, 3.0)),
    ],
)
def test_absorption_of_the_pml(options, told, alphas):
    vars(options[0]).update(told)
    inputs = grid((24, 20)), SimpleNamespace(sound_speed=1500.0), initial((24, 20)), sensor(at((24, 20)))
    results = older(options, *inputs)
    assert (results["pml_x_alpha"], results["pml_y_alpha"]) == alphas


def test_cartesian_points_go_to_the_nearest_of_the_grid(options):
    shape = SHAPE[2]
    points = np.array([[3e-4, -2e-4, 3.4e-4], [1e-4, 5e-4, 1.2e-4]])  # the first and the last are one
    inputs = grid(shape), SimpleNamespace(sound_speed=1500.0), initial(shape)
    with pytest.warns(UserWarning, match="cartesian_interp='linear': has no effect here: .*nearest"):
        actual = older(options, *inputs, sensor(points, ["p"]))["p"]
    mask = np.zeros(shape)
    mask[12 + 3, 10 + 1] = mask[12 - 2, 10 + 5] = 1
    np.testing.assert_array_equal(actual, older(options, *inputs, sensor(mask, ["p"]))["p"])
    with pytest.raises(InputError, match=r"^sensor\.mask: the point \[0\.002, 0\.0\] m; allowed: "):
        older(options, *inputs, sensor(np.array([[2e-3], [0.0]])))


def state(*objects):
    return [{name: copy.deepcopy(value) for name, value in vars(each).items()} for each in objects]


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("pml_inside", [False, True])
def test_objects_stay_as_they_are(options, fails, pml_inside, tmp_path):
    """Also where the call fails: then not even the sizes of the PML are noted."""
    shape = SHAPE[2]
    layered = np.where(np.arange(24)[:, None] < 12, 1500.0, 1800.0) * np.ones(shape)
    medium = SimpleNamespace(
        sound_speed=layered, density=None, alpha_coeff=layered / 1000, alpha_power=1.5, BonA=layered / 300
    )
    source = SimpleNamespace(p0=at(shape), u_mask=at(shape), ux=np.ones((4, 5)), u_mode=None)
    listening = sensor(scattered(shape), ["p", "I"])
    listening.record_start_index = STEPS + 1 if fails else 2
    options[0].pml_inside = pml_inside
    objects = grid(shape), medium, source, listening, *options
    before, arrays = state(*objects), [id(value) for each in objects for value in vars(each).values()]
    if fails:
        line = rf"^sensor\.record_start_index: {STEPS + 1}; allowed: 1 to {STEPS}, the steps of the run$"
        for call in (lambda: older(options, *objects[:4]), lambda: new(*objects[:4])):
            with pytest.raises(InputError, match=line):
                call()
    else:
        first, again = (older(options, *objects[:4])["p"] for _ in range(2))
        np.testing.assert_array_equal(first, again)
        vars(options[0]).pop("pml_x_size"), vars(options[0]).pop("pml_y_size")
    for was, now in zip(before, state(*objects), strict=True):
        assert was.keys() == now.keys()
        for name in was:
            np.testing.assert_array_equal(was[name], now[name])
    assert arrays == [id(value) for each in objects for value in vars(each).values()]
    assert not list(tmp_path.iterdir())


class TimedGrid(SimpleNamespace):
    def makeTime(self, sound_speed):
        self.dt, self.Nt = 0.3 * 1e-4 / float(np.max(sound_speed)), 12


def test_time_that_is_not_set(options):
    """An initial pressure alone needs none: it is that of ``makeTime``, which scripts read afterwards."""
    shape = SHAPE[2]
    unset = TimedGrid(**{**vars(grid(shape)), "dt": "auto", "Nt": "auto"})
    inputs = SimpleNamespace(sound_speed=1500.0), initial(shape), sensor(at(shape), ["p"])
    assert older(options, unset, *inputs)["p"].shape == (12, 4)
    assert (unset.Nt, unset.dt) == (12, pytest.approx(2e-8))
    unset.dt = unset.Nt = "auto"
    line = r'^kgrid\.dt: "auto"; allowed: .*kgrid\.makeTime\(medium\.sound_speed\) or kgrid\.setTime\('
    driven = SimpleNamespace(p_mask=at(shape), p=np.ones(STEPS))
    for call in (lambda: older(options, unset, inputs[0], driven, inputs[2]), lambda: new(unset, *inputs)):
        with pytest.raises(InputError, match=line):
            call()
    assert unset.dt == "auto"


def test_they_write_alone_and_keep_files(options, tmp_path):
    simulation, execution = options
    execution.delete_data = False
    shape = SHAPE[2]
    inputs = grid(shape), SimpleNamespace(sound_speed=1500.0), initial(shape), sensor(at(shape, size=1))
    inputs[3].record_start_index = 5
    assert older(options, *inputs)["p"].shape == (STEPS - 4,)  # axes of one point are left out
    with h5py.File(tmp_path / "out.h5") as file:
        assert file["p"].shape == (1, STEPS - 4, 1)
    (tmp_path / "out.h5").unlink()
    simulation.save_to_disk_exit = True
    assert older(options, *inputs) == {}
    assert read_input(tmp_path / "in.h5").problem.shape == (32, 28, 1)
    assert not (tmp_path / "out.h5").exists()


def test_files_that_are_there_survive_a_call_that_fails(options, tmp_path):
    for name in ("in.h5", "out.h5"):
        (tmp_path / name).write_text("kept")
    shape = SHAPE[2]
    with pytest.raises(InputError, match="record_start_index"):
        older(
            options,
            grid(shape),
            SimpleNamespace(sound_speed=1500.0),
            initial(shape),
            SimpleNamespace(mask=at(shape), record_start_index=99),
        )
    assert (tmp_path / "in.h5").read_text() == (tmp_path / "out.h5").read_text() == "kept"


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("function", ["older", "new"])
def test_a_file_written_alone_comes_with_the_warnings_of_a_run(options, function, tmp_path):
    shape = SHAPE[2]
    loud = SimpleNamespace(p_mask=at(shape), p=np.where(np.arange(STEPS) % 4 < 2, 1.0, -1.0))
    inputs = grid(shape), SimpleNamespace(sound_speed=1500.0), loud, sensor(at(shape))

    def lines(alone):
        options[0].save_to_disk_exit = alone
        told = {"save_only": alone, "data_path": tmp_path}
        with pytest.warns(UserWarning, match=r"^source\.p: ") as caught:
            older(options, *inputs) if function == "older" else new(*inputs, **told)
        return [str(warning.message) for warning in caught if "source.p" in str(warning.message)]

    assert lines(True) == lines(False) != []


def test_the_python_backend_is_the_new_function(options):
    simulation, execution = options
    execution.is_python_backend = True
    shape = (60, 50)
    inputs = grid(shape), SimpleNamespace(sound_speed=1500.0), initial(shape), sensor(at(shape))
    for inside, wanted in ((True, (20, 10)), (False, shape)):
        simulation.pml_inside, simulation.pml_size = inside, None
        results = older(options, *inputs)
        assert results["p_final"].shape == wanted
        today = new(*inputs, pml_size=20, pml_inside=inside)
        np.testing.assert_array_equal(results["p"], today["p"])
    simulation.data_cast = "single"
    assert older(options, *inputs)["p"].dtype == np.float32
    simulation.save_to_disk_exit = True
    with pytest.raises(InputError, match=r"^simulation_options\.save_to_disk_exit: true; allowed: False"):
        older(options, *inputs)


def test_one_dimension(options):
    shape = (64,)
    options[0].pml_inside, options[0].pml_size = True, None
    inputs = grid(shape), SimpleNamespace(sound_speed=1500.0), initial(shape), sensor(at(shape))
    assert older(options, *inputs)["p_final"].shape == (24,)


def test_an_axisymmetric_grid(options):
    """By the function or by the simulation type; absorption is that of Stokes whatever the power."""
    shape = SHAPE[2]
    medium = SimpleNamespace(sound_speed=1500.0, density=1000.0, alpha_coeff=0.5, alpha_power=1.5)
    inputs = grid(shape), medium, initial(shape), sensor(at(shape, start=(4, 0)), ["p"])
    with pytest.warns(UserWarning, match=r"^medium\.alpha_power: has no effect here: .* 2"):
        first = older(options, *inputs, "kspaceFirstOrderAS")
    assert int(first["axisymmetric_flag"]) == 1
    options[0].simulation_type = SimpleNamespace(name="AXISYMMETRIC")
    np.testing.assert_array_equal(first["p"], older(options, *inputs)["p"])
    with pytest.raises(InputError, match=r"^simulation_options\.simulation_type: .*; allowed: FLUID$"):
        older(options, grid(SHAPE[3]), medium, initial(SHAPE[3]), sensor(at(SHAPE[3])))
    options[0].radial_symmetry = "WSWS"
    with pytest.raises(InputError, match=r"^simulation_options\.radial_symmetry: \"WSWS\"; allowed: 'WSWA'"):
        older(options, *inputs)


@pytest.mark.parametrize(
    ("told", "line"),
    [
        ({"use_fd": 2}, "use_fd: 2; allowed: None"),
        ({"use_finite_difference": True}, "use_finite_difference: true; allowed: False"),
        ({"data_cast": "gpuArray"}, "data_cast: \"gpuArray\"; allowed: 'off', 'single', 'double'"),
        ({"cartesian_interp": "cubic"}, "cartesian_interp: \"cubic\"; allowed: 'linear', 'nearest'"),
        ({"pml_size": [1, 2, 3]}, "pml_size: [1, 2, 3]; allowed: one value, or up to 2"),
        ({"pml_size": "many"}, 'pml_size: ["many", "many"]; allowed: a whole number from 0'),
        ({"pml_x_size": 7}, "pml_x_size: 7; allowed: None, or 4 as pml_size says"),
        ({"pml_auto": True, "pml_search_range": [5, 10**9]}, "pml_search_range: [5, 1000000000]; allowed:"),
        ({"pml_alpha": -1.0}, "pml_alpha: [-1.0, -1.0]; allowed: numbers from 0"),
        (
            {"simulation_type": SimpleNamespace(name="ELASTIC")},
            'simulation_type: "ELASTIC"; allowed: FLUID or',
        ),
        ({"save_to_disk_exit": "x.h5"}, 'save_to_disk_exit: "x.h5"; allowed: False, True'),
        ({"pml_inside": 2}, "pml_inside: 2; allowed: False, True"),
    ],
)
def test_options_that_cannot_be_computed_are_refused(options, told, line, tmp_path):
    vars(options[0]).update(told)
    inputs = grid((24, 20)), SimpleNamespace(sound_speed=1500.0), initial((24, 20)), sensor(at((24, 20)))
    with pytest.raises(InputError) as refused:
        older(options, *inputs)
    assert str(refused.value).removeprefix("simulation_options.").startswith(line)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("told", "name"),
    [
        ({"stream_to_disk": "x.h5"}, "stream_to_disk"),
        pytest.param({"create_log": True}, "create_log", marks=pytest.mark.slow),
        ({"data_recast": True}, "data_recast"),
        pytest.param({"multi_axial_PML_ratio": 0.2}, "multi_axial_PML_ratio", marks=pytest.mark.slow),
        ({"hdf_compression_level": 5}, "hdf_compression_level"),
    ],
)
def test_options_without_effect_are_named_once(options, told, name):
    vars(options[0]).update(told)
    inputs = grid((24, 20)), SimpleNamespace(sound_speed=1500.0), initial((24, 20)), sensor(at((24, 20)))
    with pytest.warns(UserWarning, match=f"^{name}: has no effect here: "):
        older(options, *inputs)
    older(options, *inputs)


@pytest.mark.parametrize(
    ("told", "name"),
    [
        ({"thread_binding": True}, "thread_binding"),
        pytest.param({"system_call": "date"}, "system_call", marks=pytest.mark.slow),
        ({"_binary_path": "x"}, "binary_path"),
        pytest.param({"_binary_dir": "x"}, "binary_dir", marks=pytest.mark.slow),
        pytest.param({"_binary_name": "x"}, "binary_name", marks=pytest.mark.slow),
        ({"kwave_function_name": "x"}, "kwave_function_name"),
        pytest.param({"auto_chunking": False}, "auto_chunking", marks=pytest.mark.slow),
        ({"checkpoint_interval": 5}, "checkpoint_interval"),
    ],
)
def test_execution_options_without_effect_are_named_once(options, told, name):
    vars(options[1]).update(told)
    inputs = grid((24, 20)), SimpleNamespace(sound_speed=1500.0), initial((24, 20)), sensor(at((24, 20)))
    with pytest.warns(UserWarning, match=f"^{name}: has no effect here: "):
        older(options, *inputs)
    older(options, *inputs)


def test_wrong_kinds_of_arguments_are_refused(options):
    inputs = grid((24, 20)), SimpleNamespace(sound_speed=1500.0), initial((24, 20)), sensor(at((24, 20)))
    with pytest.raises(
        InputError, match=r"^kgrid\.N: \[24, 20\]; allowed: 3 numbers with kspaceFirstOrder3D"
    ):
        older(options, *inputs, "kspaceFirstOrder3D")
    with pytest.raises(InputError, match=r"^simulation_options: null; allowed: "):
        older((None, options[1]), *inputs)
    with pytest.raises(InputError, match=r"^execution_options: null; allowed: "):
        older((options[0], None), *inputs)
    inputs[3].record = ["p", "u_split_field"]
    with pytest.raises(InputError, match=r'^sensor\.record: "u_split_field" given.*; allowed: p, '):
        older(options, *inputs)


def test_they_choose_their_device(options):
    simulation, execution = options
    for gpu, device, wanted in [
        (False, None, "cpu"),
        (True, None, "cuda"),
        (True, "cpu", "cpu"),
        (False, "gpu", "cuda"),
    ]:
        execution.is_gpu_simulation = gpu
        told = keywords(simulation, execution, (16, 16), False, device)
        assert drop_in.KSpaceOptions((16, 16), **told).run["device"] == wanted
    execution.device_num = 1
    execution.checkpoint_file, execution.checkpoint_timesteps = "saved.h5", 7
    told = drop_in.KSpaceOptions((16, 16), **keywords(simulation, execution, (16, 16), False, "gpu")).run
    assert told["device"] == "cuda:1"
    assert told["checkpoint"].every == 7
    assert recorded(sensor(record=["I_avg", "p_max"])) == ["I_avg", "p", "p_max", "u_non_staggered"]
