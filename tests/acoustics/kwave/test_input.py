"""k-Wave's input files: what is read, what is written, and that the two agree."""

import shutil
from dataclasses import fields, is_dataclass, replace
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wavefabric.acoustics import Grid, Medium, Sensor, Source, to_problem
from wavefabric.acoustics.kwave.input import read_input, write_input
from wavefabric.acoustics.problem import (
    Cuboids,
    Interpolation,
    PressureSource,
    Problem,
    TransducerSource,
    VelocitySource,
)
from wavefabric.base.errors import InputError

DATA = Path(__file__).parents[2] / "data" / "kwave"


def same(a, b):
    """Equal to the last bit, arrays and nested dataclasses included."""
    if is_dataclass(a):
        return type(a) is type(b) and all(same(getattr(a, f.name), getattr(b, f.name)) for f in fields(a))
    if isinstance(a, tuple):
        return isinstance(b, tuple) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return type(a) is type(b) and a.dtype == b.dtype and np.array_equal(a, b)
    return type(a) is type(b) and a == b


def put(path, name, value, data_type=None):
    """Replace a dataset, (1, 1, 1) for a number, with k-Wave's two attributes."""
    value = np.asarray(value)
    if value.dtype.kind == "i":
        value = value.astype(np.uint64)
    if value.dtype == np.float64:
        value = value.astype(np.float32)
    with h5py.File(path, "r+") as file:
        if name in file:
            del file[name]
        item = file.create_dataset(name, data=value if value.ndim else value.reshape(1, 1, 1))
        item.attrs["data_type"] = np.bytes_(data_type or ("long" if value.dtype.kind == "u" else "float"))
        item.attrs["domain_type"] = np.bytes_("real")


@pytest.fixture
def copy(tmp_path):
    def make(name):
        return Path(shutil.copy(DATA / f"{name}.h5", tmp_path / "in.h5"))

    return make


def raw(name, dataset):
    with h5py.File(DATA / f"{name}.h5") as file:
        return file[dataset][()]


def test_initial_pressure():
    got = read_input(DATA / "p0_homogeneous.h5")
    p = got.problem
    assert (p.shape, p.steps, p.dimensions) == ((48, 40, 32), 120, 3)
    assert p.dt == float(np.float32(2e-8))
    assert (p.sound_speed, p.density, p.density_staggered) == (1500.0, 1000.0, (1000.0,) * 3)
    assert (p.pml_size, p.pml_alpha) == ((8, 8, 8), (2.0, 2.0, 2.0))
    assert (p.nonlinearity, p.absorption, p.pressure_source, p.velocity_source) == (None, "none", None, None)
    np.testing.assert_array_equal(p.initial_pressure, raw("p0_homogeneous", "p0_source_input"))
    assert p.initial_pressure.dtype == np.float32
    assert got.sensor.dtype == np.int64
    np.testing.assert_array_equal(got.sensor + 1, raw("p0_homogeneous", "sensor_mask_index").ravel())
    assert got.version == (1, 2)
    assert got.attributes["file_description"] == "reference case"
    assert got.copied_scalars["Nx"] == 48
    assert "p_source_mode" not in got.copied_scalars


def test_layered_medium():
    p = read_input(DATA / "p0_layered_absorbing_nonlinear.h5").problem
    name = "p0_layered_absorbing_nonlinear"
    for value, dataset in [
        (p.sound_speed, "c0"),
        (p.density, "rho0"),
        (p.density_staggered[2], "rho0_sgz"),
        (p.nonlinearity, "BonA"),
        (p.alpha_coeff, "alpha_coeff"),
    ]:
        np.testing.assert_array_equal(value, raw(name, dataset))
    assert (p.absorption, p.alpha_power, p.dispersion) == ("power_law", 1.5, True)


def test_pressure_source_and_cuboids():
    got = read_input(DATA / "pressure_source_corners.h5")
    source = got.problem.pressure_source
    assert source.mode == "additive"
    assert source.signal.shape == (140, 144)
    name = "pressure_source_corners"
    np.testing.assert_array_equal(source.signal, raw(name, "p_source_input")[0])
    np.testing.assert_array_equal(source.index + 1, raw(name, "p_source_index").ravel())
    corners = raw(name, "sensor_mask_corners")[0].astype(int) - 1
    np.testing.assert_array_equal(got.sensor.first, corners[:, :3])
    np.testing.assert_array_equal(got.sensor.last, corners[:, 3:])
    assert got.sensor.shapes() == [(2, 4, 6), (1, 14, 12)]


def test_velocity_source():
    source = read_input(DATA / "velocity_source_absorbing.h5").problem.velocity_source
    assert source.mode == "additive_no_correction"
    assert source.signals[1] is None
    assert source.signals[0].shape == source.signals[2].shape == (90, 1)


def test_two_dimensions(copy):
    path = copy("dirichlet_2d")
    got = read_input(path)
    p = got.problem
    assert (p.shape, p.dimensions, len(p.density_staggered)) == ((72, 60, 1), 2, 2)
    assert p.pressure_source.mode == "dirichlet"
    assert "dz" not in got.copied_scalars
    # What a 3-D file has more may be there.
    for name, value in [("dz", 1e-4), ("uz_source_flag", 0), ("pml_z_size", 0), ("pml_z_alpha", 2.0)]:
        put(path, name, value)
    assert same(read_input(path).problem, p)


@pytest.mark.parametrize(("case", "name"), [("dirichlet_2d", "uz"), ("p0_homogeneous", "sxx")])
def test_other_sources_are_refused(copy, case, name):
    path = copy(case)
    put(path, f"{name}_source_flag", 0)
    read_input(path)
    put(path, f"{name}_source_flag", 3)
    with pytest.raises(InputError, match=f"'{name}_source_flag': 3; allowed: 0: a source of this kind"):
        read_input(path)


@pytest.mark.parametrize("minor", ["0", "1"])
def test_older_formats(copy, minor):
    path = copy("p0_homogeneous")
    wanted = read_input(path)
    with h5py.File(path, "r+") as file:
        file.attrs["minor_version"] = np.bytes_(minor)
        del file["axisymmetric_flag"]
        if minor == "0":
            del file["sensor_mask_type"]
        # Operators that only these formats have.
        file["ddx_k_shift_pos_r"] = np.zeros((1, 1, 50), np.float32)
        file["pml_x"] = np.zeros((1, 1, 48), np.float32)
    got = read_input(path)
    assert got.version == (1, int(minor))
    assert same(got.problem, wanted.problem)
    assert same(got.sensor, wanted.sensor)
    assert got.copied_scalars == wanted.copied_scalars


def test_text_of_variable_length(copy):
    path = copy("p0_homogeneous")
    with h5py.File(path, "r+") as file:
        for name, value in dict(file.attrs).items():
            file.attrs[name] = value.decode()
        for item in file.values():
            for name, value in dict(item.attrs).items():
                item.attrs[name] = value.decode()
        file.attrs["file_description"] = np.array(["one in an array"], "S20")
    got = read_input(path)
    assert same(got.problem, read_input(DATA / "p0_homogeneous.h5").problem)
    assert got.attributes["file_description"] == "one in an array"


def test_signal_longer_than_its_flag(copy):
    path = copy("dirichlet_2d")
    put(path, "p_source_flag", 50)
    got = read_input(path)
    assert got.problem.pressure_source.signal.shape == (50, 1)
    assert got.copied_scalars["p_source_flag"] == 50


def test_stokes(copy):
    path = copy("velocity_source_absorbing")
    put(path, "absorbing_flag", 2)
    put(path, "alpha_power", 2.0)
    p = read_input(path).problem
    assert (p.absorption, p.alpha_coeff, p.alpha_power) == ("stokes", 0.75, 2.0)


def test_transducer_beside_velocity_source(copy):
    path = copy("velocity_source_absorbing")
    points = 96
    put(path, "transducer_source_flag", 60)
    put(path, "transducer_source_input", np.arange(80, dtype=np.float32).reshape(1, 1, 80))
    put(path, "delay_mask", (np.arange(points) % 80 + 1).reshape(1, 1, points))
    p = read_input(path).problem
    assert p.velocity_source is not None
    assert p.transducer.steps == 60
    assert same(p.transducer.index, p.velocity_source.index)
    np.testing.assert_array_equal(p.transducer.delay, np.arange(points) % 80)
    np.testing.assert_array_equal(p.transducer.signal, np.arange(80))


def test_without_sensor(copy):
    path = copy("p0_homogeneous")
    with h5py.File(path, "r+") as file:
        del file["sensor_mask_type"], file["sensor_mask_index"]
    assert read_input(path).sensor is None


# --- Writing -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [p.stem for p in sorted(DATA.glob("*.h5")) if "_out" not in p.stem])
def test_reference_files_come_back(tmp_path, name):
    inputs = read_input(DATA / f"{name}.h5")
    write_input(tmp_path / "x.h5", inputs.problem, inputs.sensor, description="again")
    got = read_input(tmp_path / "x.h5")
    assert same(got.problem, inputs.problem)
    assert same(got.sensor, inputs.sensor)
    assert got.copied_scalars == inputs.copied_scalars
    assert got.attributes["file_description"] == "again"
    # The datasets themselves, types included, are those of a file that k-Wave has read.
    with h5py.File(tmp_path / "x.h5") as ours, h5py.File(DATA / f"{name}.h5") as theirs:
        assert set(ours) >= set(theirs)
        for key, item in theirs.items():
            assert (ours[key].shape, ours[key].dtype) == (item.shape, item.dtype), key
            np.testing.assert_array_equal(ours[key][()], item[()])
            assert {k: v.decode() for k, v in ours[key].attrs.items()} == {
                k: v.decode() for k, v in item.attrs.items()
            }


def numbers(low, high):
    return st.floats(low, high, width=32)


@st.composite
def problems(draw):
    shape = draw(st.tuples(st.integers(2, 6), st.integers(2, 5), st.integers(1, 4)))
    dims = 2 if shape[2] == 1 else 3
    points = int(np.prod(shape))
    rng = np.random.default_rng(draw(st.integers(0, 99)))

    def array(low, high, size=shape[::-1]):
        return rng.uniform(low, high, size).astype(np.float32)

    def field(low, high, full):
        return array(low, high) if full else draw(numbers(low, high))

    def index():
        count = draw(st.integers(1, min(points, 5)))
        return rng.permutation(points)[:count].astype(np.int64)

    def signal(n):
        return array(-1, 1, (draw(st.integers(1, 7)), n))

    def fill(values, last):
        return (*values, last) if dims == 2 else tuple(values)

    mode = st.sampled_from(["dirichlet", "additive_no_correction", "additive"])
    absorption = draw(st.sampled_from(["none", "power_law", "stokes"]))
    full_density = draw(st.booleans())
    pressure = velocity = transducer = None
    if draw(st.booleans()):
        where = index()
        pressure = PressureSource(where, signal(draw(st.sampled_from([1, where.size]))), draw(mode))
    where = index()
    if draw(st.booleans()):
        columns, on = draw(st.sampled_from([1, where.size])), draw(st.integers(1, 2**dims - 1))
        signals = tuple(signal(columns) if on >> i & 1 else None for i in range(dims))
        velocity = VelocitySource(where, signals, draw(mode))
    if draw(st.booleans()):
        delay = rng.integers(0, 9, where.size)
        transducer = TransducerSource(where, delay, array(-1, 1, 9), draw(st.integers(1, 12)))
    problem = Problem(
        shape=shape,
        spacing=fill([draw(numbers(2.0**-20, 1.0)) for _ in range(dims)], 1.0),
        dt=draw(numbers(2.0**-40, 2.0**-10)),
        steps=draw(st.integers(1, 10**8)),
        reference_speed=draw(numbers(1.0, 8000.0)),
        pml_size=fill([draw(st.integers(0, n // 2)) for n in shape[:dims]], 0),
        pml_alpha=fill([draw(numbers(0.0, 4.0)) for _ in range(dims)], 0.0),
        sound_speed=field(300.0, 8000.0, draw(st.booleans())),
        density=field(1.0, 9000.0, full_density),
        density_staggered=tuple(field(1.0, 9000.0, full_density) for _ in range(dims)),
        nonlinearity=draw(
            st.one_of(st.none(), numbers(-1.0, 12.0), st.builds(array, st.just(0), st.just(12)))
        ),
        absorption=absorption,
        alpha_coeff=field(0.0, 10.0, draw(st.booleans())) if absorption != "none" else 0.0,
        alpha_power=draw(numbers(1.125, 2.875)) if absorption != "none" else 0.0,
        initial_pressure=array(-1e6, 1e6) if draw(st.booleans()) else None,
        pressure_source=pressure,
        velocity_source=velocity,
        transducer=transducer,
    )
    sensor = draw(st.sampled_from(["none", "index", "cuboids"]))
    if sensor == "none":
        return problem, None
    if sensor == "index":
        return problem, rng.integers(0, points, 4)
    ends = rng.integers(0, shape, (2, draw(st.integers(1, 3)), 3))
    return problem, Cuboids(ends.min(0), ends.max(0))


@pytest.mark.slow
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(problems())
def test_what_is_written_is_read(tmp_path, case):
    problem, sensor = case
    write_input(tmp_path / "x.h5", problem, sensor, force=True)
    got = read_input(tmp_path / "x.h5")
    assert same(got.problem, problem)
    assert same(got.sensor, sensor)


def test_what_a_file_has_alike_is_made_alike(tmp_path):
    """One array among the densities makes all arrays, one column for each point on one axis on all."""
    rho = np.full((3, 4, 5), 1000.0)
    wide, narrow = np.ones((2, 3)), np.full((4, 1), 7.0)
    problem = Problem(
        *((5, 4, 3), (1e-4,) * 3, 1e-8, 10, 1500.0, (1, 1, 1), (2.0,) * 3),
        sound_speed=1500.0,
        density=rho,
        density_staggered=(rho, 900.0, rho),
        velocity_source=VelocitySource(np.array([1, 7, 9]), (wide, narrow, None), "additive"),
    )
    write_input(tmp_path / "x.h5", problem, np.array([0]))
    got = read_input(tmp_path / "x.h5").problem
    np.testing.assert_array_equal(got.density_staggered[1], np.full((3, 4, 5), 900.0))
    np.testing.assert_array_equal(got.velocity_source.signals[1], np.full((4, 3), 7.0))


def test_what_cannot_be_written(tmp_path):
    p = read_input(DATA / "velocity_source_absorbing.h5").problem
    change = lambda **new: Problem(**{f.name: getattr(p, f.name) for f in fields(p)} | new)  # noqa: E731
    between = Interpolation(np.zeros((1, 8), np.int64), np.full((1, 8), 0.125))
    elsewhere = TransducerSource(np.array([3]), np.array([0]), np.ones(4), 4)
    cases = [
        (p, between, "between"),
        (change(dispersion=False), None, "dispersion"),
        (change(transducer=elsewhere), None, "same points"),
        (change(initial_pressure=np.full(p.array_shape, 1e39)), None, "source.p0"),
        (change(dt=0.0), None, "dt: 0"),
        (change(dt=1e-60), None, "dt: 1e-60"),
        (change(sound_speed=1e300), None, "medium.sound_speed"),
        (p, np.array([p.points]), "sensor.mask"),
    ]
    for problem, sensor, word in cases:
        with pytest.raises(InputError, match=word):
            write_input(tmp_path / "x.h5", problem, sensor)
        assert list(tmp_path.iterdir()) == []
    (tmp_path / "x.h5").write_text("kept")
    with pytest.raises(InputError, match="exists"):
        write_input(tmp_path / "x.h5", p, None)
    assert (tmp_path / "x.h5").read_text() == "kept"


def test_an_axisymmetric_problem_there_and_back(tmp_path):
    grid = Grid((16, 12), 1e-4, pml_size=(3, 2), axisymmetric=True)
    r = np.broadcast_to(grid.coordinates[1], grid.shape)
    medium = Medium(1500.0, 1000.0, alpha_coeff=0.5, absorption="stokes")
    made, recording = to_problem(grid, medium, Source(p0=np.exp(-(r**2) / 1e-7)), Sensor(r == 0), 2e-8, 5)
    problem = read_input(write_input(tmp_path / "in.h5", made, recording.where)).problem
    assert problem.axisymmetric
    assert problem.shape == (16, 12, 1)
    assert (problem.absorption, problem.alpha_power) == ("stokes", 2.0)


@pytest.mark.parametrize("name", ["k_space", "staggered"])
def test_what_files_have_no_switch_for_is_refused(tmp_path, name):
    problem = replace(read_input(DATA / "dirichlet_2d.h5").problem, **{name: False})
    with pytest.raises(InputError, match=f"{name}: False; allowed: True"):
        write_input(tmp_path / "out.h5", problem, None)


def test_one_dimension_is_refused(tmp_path):
    grid, p0 = Grid((64,), 1e-4), np.ones(64)
    problem, _ = to_problem(grid, Medium(1500.0, 1000.0), Source(p0=p0), Sensor(record="p_final"), 1e-8, 5)
    with pytest.raises(InputError, match="has one dimension; allowed: 2 or 3"):
        write_input(tmp_path / "out.h5", problem, None)
