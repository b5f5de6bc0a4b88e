"""Damaged k-Wave files: one line that names the dataset, exit code 2, no output, nothing half written."""

import os
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest

from wavefabric.acoustics.kwave import format as reader

DATA = Path(__file__).parents[1] / "data" / "kwave"


def put(name, value, **attributes):
    """Put another value in the place of a dataset's."""

    def edit(file):
        array = np.asarray(value)
        if array.dtype.kind == "i":
            array = array.astype(np.uint64)
        if array.dtype == np.float64:
            array = array.astype(np.float32)
        put_raw(name, array if array.ndim else array.reshape(1, 1, 1), **attributes)(file)

    return edit


def put_raw(name, array, data_type=None, domain_type="real"):
    def edit(file):
        if name in file:
            del file[name]
        kind = data_type or ("float" if np.asarray(array).dtype.kind == "f" else "long")
        item = file.create_dataset(name, data=array)
        item.attrs["data_type"], item.attrs["domain_type"] = np.bytes_(kind), np.bytes_(domain_type)

    return edit


def spoil(name, value, at=(0, 0, 0)):
    def edit(file):
        array = file[name][()]
        array[at] = value
        put_raw(name, array)(file)

    return edit


def drop(*names):
    def edit(file):
        for name in names:
            del file[name]

    return edit


def attribute(name, value, dataset=None):
    def edit(file):
        where = file[dataset] if dataset else file
        if value is None:
            del where.attrs[name]
        else:
            where.attrs[name] = np.bytes_(value) if isinstance(value, str) else value

    return edit


def group(name):
    def edit(file):
        del file[name]
        file.create_group(name)

    return edit


def all_of(*edits):
    def edit(file):
        for one in edits:
            one(file)

    return edit


def transducer(delay=None, signal=(1, 1, 9), points=3):
    delay = np.ones(points) if delay is None else np.asarray(delay)
    return all_of(
        put("transducer_source_flag", 9),
        put("u_source_index", np.array([5, 6, 7]).reshape(1, 1, 3)),
        put("delay_mask", delay.astype(np.uint64).reshape(1, 1, -1)),
        put("transducer_source_input", np.ones(signal, np.float32)),
    )


def velocity(mode=0, many=0, index=(5, 6, 7), signal=(1, 4, 1), flag=4):
    return all_of(
        put("ux_source_flag", flag),
        put("u_source_mode", mode),
        put("u_source_many", many),
        put("u_source_index", np.array(index).reshape(1, 1, -1)),
        put("ux_source_input", np.ones(signal, np.float32)),
    )


P0, D2, CORNERS = "p0_homogeneous", "dirichlet_2d", "pressure_source_corners"
POINTS = 48 * 40 * 32

# (name, file to damage, damage, words of the line)
BAD = [
    ("not an input", P0, attribute("file_type", "output"), ["file_type", "'output'", "'input'"]),
    ("no file type", P0, attribute("file_type", None), ["file_type", "missing"]),
    ("number for text", P0, attribute("file_type", 3), ["file_type"]),
    ("no major version", P0, attribute("major_version", None), ["major_version", "missing"]),
    ("no minor version", P0, attribute("minor_version", None), ["minor_version", "missing"]),
    ("major version", P0, attribute("major_version", "2"), ["major_version", "'2'"]),
    ("minor version", P0, attribute("minor_version", "3"), ["minor_version", "'3'", "0 or 1 or 2"]),
    *[(f"no {name}", P0, drop(name), [f"'{name}'", "missing"]) for name in (
        "Nx", "Nz", "Nt", "dt", "dz", "c_ref", "c0", "rho0", "rho0_sgz", "pml_y_size", "pml_x_alpha",
        "uz_source_flag", "p0_source_flag", "transducer_source_flag", "nonuniform_grid_flag",
        "nonlinear_flag", "absorbing_flag", "axisymmetric_flag", "sensor_mask_type", "sensor_mask_index",
        "p0_source_input")],
    *[(f"no {name}", D2, drop(name), [f"'{name}'", "missing"]) for name in (
        "p_source_index", "p_source_input", "p_source_mode", "p_source_many")],
    ("no corners", CORNERS, drop("sensor_mask_corners"), ["'sensor_mask_corners'", "missing"]),
    ("float64", P0, put_raw("c0", np.full((1, 1, 1), 1500.0)), ["'c0'", "float64", "float32"]),
    ("int64", P0, put_raw("Nx", np.full((1, 1, 1), 48)), ["'Nx'", "int64", "uint64"]),
    ("long for float", P0, put("dt", 1), ["'dt'", "uint64", "float32"]),
    ("text", P0, put_raw("c0", np.full((1, 1, 1), b"1500")), ["'c0'", "float32"]),
    ("data type", P0, attribute("data_type", "long", "c0"), ["'c0'", "data_type", "'long'", "'float'"]),
    ("no data type", P0, attribute("data_type", None, "c0"), ["'c0'", "data_type", "missing"]),
    ("data type a number", P0, attribute("data_type", 1.5, "c0"), ["'c0'", "data_type", "not text"]),
    ("domain type", P0, attribute("domain_type", "complex", "c0"), ["'c0'", "domain_type", "'complex'"]),
    ("no domain type", P0, attribute("domain_type", None, "Nx"), ["'Nx'", "domain_type", "missing"]),
    ("a group", P0, group("c0"), ["'c0'", "group"]),
    ("rank 0", P0, put_raw("c0", np.float32(1500)), ["'c0'", "0 dimensions", "3"]),
    ("rank 2", P0, put_raw("c0", np.full((1, 1), 1500, np.float32)), ["'c0'", "2 dimensions"]),
    ("vector for scalar", P0, put_raw("Nt", np.full((1, 1, 2), 9, np.uint64)), ["'Nt'", "(1, 1, 2)"]),
    ("transposed", P0, put("p0_source_input", np.zeros((48, 40, 32))), ["'p0_source_input'", "(32, 40, 48)"]),
    ("medium of another size", P0, put("c0", np.full((32, 40, 47), 1500.0)), ["'c0'", "(32, 40, 47)"]),
    ("number for p0", P0, put("p0_source_input", 1.0), ["'p0_source_input'", "(1, 1, 1)"]),
    ("2-D medium of another size", D2, put("c0", np.full((1, 72, 60), 1.0)), ["'c0'", "(1, 72, 60)"]),
    ("no points in x", P0, put("Nx", 0), ["'Nx'", "0", "from 2"]),
    ("no points in z", P0, put("Nz", 0), ["'Nz'", "0", "from 1"]),
    ("far too many points", P0, put("Nx", 2**60), ["'Nx'", "1152921504606846976"]),
    ("too many points together", P0, all_of(put("Nx", 2**30), put("Ny", 2**30)), ["'Nx'", "1073741824 x"]),
    ("another Nx", P0, put("Nx", 49), ["'p0_source_input'", "(32, 40, 49)"]),
    ("no steps", P0, put("Nt", 0), ["'Nt'", "0", "from 1"]),
    ("dt 0", P0, put("dt", 0.0), ["'dt'", "above 0"]),
    ("dt negative", P0, put("dt", -1e-8), ["'dt'", "above 0"]),
    ("dt NaN", P0, put("dt", np.nan), ["'dt'", "nan"]),
    ("dx infinite", P0, put("dx", np.inf), ["'dx'", "inf"]),
    ("dz 0", P0, put("dz", 0.0), ["'dz'", "above 0"]),
    ("c_ref 0", P0, put("c_ref", 0.0), ["'c_ref'", "above 0"]),
    ("c0 negative", P0, put("c0", -1500.0), ["'c0'", "-1500", "above 0"]),
    ("c0 NaN somewhere", D2, spoil("c0", np.nan, (0, 30, 9)), ["'c0'", "not finite"]),
    ("c0 0 somewhere", D2, spoil("c0", 0), ["'c0'", "0 at a grid point", "above 0"]),
    ("rho0 0", P0, put("rho0", 0.0), ["'rho0'", "above 0"]),
    ("rho0_sgy negative somewhere", D2, spoil("rho0_sgy", -1), ["'rho0_sgy'", "-1", "above 0"]),
    ("rho0_sgx infinite", P0, put("rho0_sgx", np.inf), ["'rho0_sgx'", "inf"]),
    ("mixed densities", D2, put("rho0_sgx", 1000.0), ["'rho0_sgx'", "one number", "rho0 is an array"]),
    ("p0 not finite", P0, spoil("p0_source_input", np.inf), ["'p0_source_input'", "not finite"]),
    ("p0 flag", P0, put("p0_source_flag", 2), ["'p0_source_flag'", "2", "0 to 1"]),
    ("PML too thick", P0, put("pml_y_size", 21), ["'pml_y_size'", "21 points", "0 to 20"]),
    ("PML huge", P0, put("pml_x_size", 2**63), ["'pml_x_size'"]),
    ("PML gain", P0, put("pml_z_alpha", -2.0), ["'pml_z_alpha'", "-2"]),
    ("nonuniform", P0, put("nonuniform_grid_flag", 1), ["'nonuniform_grid_flag'", "nonuniform"]),
    ("axisymmetric flag", D2, put("axisymmetric_flag", 2), ["'axisymmetric_flag'", "2", "0 to 1"]),
    ("axisymmetric 3-D", P0, put("axisymmetric_flag", 1), ["'axisymmetric_flag'", "3 dimensions", "2, axis"]),
    ("nonlinear flag", P0, put("nonlinear_flag", 2), ["'nonlinear_flag'", "0 to 1"]),
    ("no BonA", P0, put("nonlinear_flag", 1), ["'BonA'", "missing"]),
    ("absorbing flag", P0, put("absorbing_flag", 3), ["'absorbing_flag'", "3", "0 to 2"]),
    ("no alpha_coeff", P0, put("absorbing_flag", 1), ["'alpha_coeff'", "missing"]),
    ("no alpha_power", P0, all_of(put("absorbing_flag", 2), put("alpha_coeff", 1.0)),
     ["'alpha_power'", "missing"]),
    ("alpha_power 1", P0, all_of(put("absorbing_flag", 1), put("alpha_coeff", 1.0), put("alpha_power", 1.0)),
     ["'alpha_power'", "other than 1"]),
    ("gain", P0, all_of(put("absorbing_flag", 1), put("alpha_coeff", -1.0), put("alpha_power", 1.5)),
     ["'alpha_coeff'", "from 0"]),
    ("mask type", P0, put("sensor_mask_type", 2), ["'sensor_mask_type'", "2", "index"]),
    ("mask of the other type", P0, put("sensor_mask_type", 1), ["'sensor_mask_corners'", "missing"]),
    ("sensor 0", P0, spoil("sensor_mask_index", 0),
     ["'sensor_mask_index'", "grid point 0", f"1 to {POINTS}"]),
    ("sensor outside", P0, spoil("sensor_mask_index", POINTS + 1, (0, 0, 39)),
     ["'sensor_mask_index'", "61441"]),
    ("sensor huge", P0, spoil("sensor_mask_index", 2**64 - 1), ["'sensor_mask_index'", str(2**64 - 1)]),
    ("no sensor points", P0, put_raw("sensor_mask_index", np.zeros((1, 1, 0), np.uint64)),
     ["'sensor_mask_index'", "(1, 1, 0)"]),
    ("sensor transposed", P0, put("sensor_mask_index", np.ones((40, 1, 1), int)), ["'sensor_mask_index'"]),
    ("five corners", CORNERS, put("sensor_mask_corners", np.ones((1, 2, 5), int)),
     ["'sensor_mask_corners'", "(1, 2, 5)", "(1, cuboids, 6)"]),
    ("corner 0", CORNERS, spoil("sensor_mask_corners", 0), ["'sensor_mask_corners'", "cuboid 1", "1 to 40"]),
    ("corner outside", CORNERS, spoil("sensor_mask_corners", 33, (0, 1, 5)),
     ["'sensor_mask_corners'", "cuboid 2", "33 in z", "1 to 32"]),
    ("corners swapped", CORNERS, spoil("sensor_mask_corners", 20, (0, 0, 0)),
     ["'sensor_mask_corners'", "cuboid 1", "first ≤ last"]),
    ("corner huge", CORNERS, spoil("sensor_mask_corners", 2**63), ["'sensor_mask_corners'"]),
    ("source mode", D2, put("p_source_mode", 3), ["'p_source_mode'", "3", "0 to 2"]),
    ("source many", D2, put("p_source_many", 2), ["'p_source_many'", "2", "0 to 1"]),
    ("a signal each", D2, put("p_source_many", 1), ["'p_source_input'", "(1, 200, 1)", "20"]),
    ("one signal", CORNERS, put("p_source_many", 0), ["'p_source_input'", "(1, 140, 144)"]),
    ("flag beyond signal", D2, put("p_source_flag", 201), ["'p_source_input'", "200", "201"]),
    ("flag huge", D2, put("p_source_flag", 2**64 - 1), ["'p_source_flag'"]),
    ("signal NaN", D2, spoil("p_source_input", np.nan, (0, 3, 0)), ["'p_source_input'", "not finite"]),
    ("source 0", D2, spoil("p_source_index", 0), ["'p_source_index'", "grid point 0", "1 to 4320"]),
    ("source outside", D2, spoil("p_source_index", 4321), ["'p_source_index'", "4321"]),
    ("source twice", D2, spoil("p_source_index", 1527), ["'p_source_index'", "1527 twice"]),
    ("velocity flag alone", P0, put("ux_source_flag", 5), ["'u_source_index'", "missing"]),
    ("velocity mode", P0, velocity(mode=9), ["'u_source_mode'", "9"]),
    ("velocity index twice", P0, velocity(index=(5, 5, 7)), ["'u_source_index'", "5 twice"]),
    ("velocity signal", P0, velocity(many=1), ["'ux_source_input'", "(1, 4, 1)", "3"]),
    ("velocity signal short", P0, velocity(flag=5), ["'ux_source_input'", "4 time steps", "5"]),
    ("uz in another shape", P0, all_of(velocity(), put("uz_source_flag", 1),
                                       put("uz_source_input", np.ones((4, 1, 1)))),
     ["'uz_source_input'", "(4, 1, 1)"]),
    ("transducer alone", P0, put("transducer_source_flag", 5), ["'u_source_index'", "missing"]),
    ("delay 0", P0, transducer(delay=[1, 0, 1]), ["'delay_mask'", "0", "1 to 9"]),
    ("delay beyond signal", P0, transducer(delay=[1, 10, 1]), ["'delay_mask'", "10", "1 to 9"]),
    ("delays missing", P0, transducer(points=2), ["'delay_mask'", "(2,)", "(3,)"]),
    ("float delays", P0, all_of(transducer(), put("delay_mask", np.ones((1, 1, 3)))),
     ["'delay_mask'", "float32"]),
    ("transducer signal", P0, transducer(signal=(1, 9, 1)), ["'transducer_source_input'", "(1, 9, 1)"]),
]  # fmt: skip


@pytest.fixture
def damaged(tmp_path):
    def make(name, edit):
        path = Path(shutil.copy(DATA / f"{name}.h5", tmp_path / "in.h5"))
        path.chmod(0o644)
        with h5py.File(path, "r+") as file:
            edit(file)
        return path

    return make


def assert_refused(answer, words, folder, before=("in.h5",)):
    code, out, err = answer
    assert code == 2, err
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("wavefabric: error: ")
    for word in words:
        assert word in err, err
    assert sorted(os.listdir(folder)) == sorted(before)


@pytest.mark.parametrize(("name", "edit", "words"), [b[1:] for b in BAD], ids=[b[0] for b in BAD])
def test_damaged_file(command, damaged, tmp_path, name, edit, words):
    damaged(name, edit)
    assert_refused(command("kwave", "-i", "in.h5", "-o", "out.h5"), ["in.h5", *words], tmp_path)


@pytest.mark.parametrize(
    "case", [b for b in BAD if b[0] in ("no c0", "dt NaN", "a group")], ids=lambda b: b[0]
)
def test_damaged_file_to_run(command, damaged, tmp_path, case):
    damaged(case[1], case[2])
    assert_refused(command("run", "in.h5"), ["in.h5", *case[3]], tmp_path)


@pytest.mark.parametrize("words", [("kwave", "-o", "out.h5", "-i"), ("run",)], ids=["kwave", "run"])
def test_bad_path(command, tmp_path, words):
    (tmp_path / "text.h5").write_text("not HDF5 at all")
    (tmp_path / "empty.h5").write_text("")
    (tmp_path / "folder.h5").mkdir()
    before = os.listdir(tmp_path)
    for name, word in [
        ("text.h5", "not an HDF5 file"),
        ("empty.h5", "not an HDF5 file"),
        ("folder.h5", "is a folder"),
        ("absent.h5", "no such file"),
        ("x" * 300 + ".h5", "xxx.h5"),
    ]:
        assert_refused(command(*words, name), [name[:100], word], tmp_path, before)


def test_other_kinds_of_hdf5(command, tmp_path):
    from wavefabric.base.results import ResultWriter

    ResultWriter(tmp_path / "result.h5").write({})
    shutil.copy(DATA / "dirichlet_2d_out.h5", tmp_path / "answer.h5")
    with h5py.File(tmp_path / "foreign.h5", "w") as file:
        file["x"] = 1
    before = os.listdir(tmp_path)
    for name, word in [
        ("result.h5", "result of wavefabric"),
        ("answer.h5", "'output'"),
        ("foreign.h5", "file_type"),
    ]:
        assert_refused(command("run", name), [name, word], tmp_path, before)
        assert_refused(command("kwave", "-i", name, "-o", "o.h5"), [name, word], tmp_path, before)


@pytest.mark.parametrize("seed", range(40))
def test_cut_short(command, tmp_path, seed):
    """A file that ends anywhere."""
    rng = np.random.default_rng(seed)
    whole = (DATA / f"{rng.choice([D2, 'velocity_source_absorbing'])}.h5").read_bytes()
    # Small files open in pieces at their start; the end matters as much.
    length = int(rng.integers(len(whole) if seed % 2 else 3000))
    (tmp_path / "in.h5").write_bytes(whole[:length])
    assert_refused(command("kwave", "-i", "in.h5", "-o", "out.h5"), ["in.h5"], tmp_path)


def test_garbled_data(command, tmp_path):
    """Compressed data that no longer are: the dataset is named."""
    with h5py.File(DATA / "dirichlet_2d.h5") as file:
        where = file["c0"].id.get_chunk_info(1).byte_offset
    data = bytearray((DATA / "dirichlet_2d.h5").read_bytes())
    data[where : where + 16] = b"\xff" * 16
    (tmp_path / "in.h5").write_bytes(data)
    answer = command("kwave", "-i", "in.h5", "-o", "out.h5")
    assert_refused(answer, ["in.h5", "'c0'", "damaged"], tmp_path)


def test_more_than_the_memory(command, damaged, tmp_path, monkeypatch):
    """Space for a field that was never written costs nothing on the disk, but would in memory."""
    shape = (2**14, 2**14, 2**14)

    def edit(file):
        for name in ("Nx", "Ny", "Nz"):
            put(name, shape[0])(file)
        for name in ("c0", "p0_source_input"):
            del file[name]
            item = file.create_dataset(name, shape, np.float32, chunks=(1, 2**10, 2**10))
            item.attrs["data_type"], item.attrs["domain_type"] = np.bytes_("float"), np.bytes_("real")

    damaged(P0, edit)
    answer = command("kwave", "-i", "in.h5", "-o", "out.h5")
    assert_refused(answer, ["'c0'", "only 0 bytes of it were written"], tmp_path)
    monkeypatch.setattr(reader, "check_stored", lambda *_, **__: None)  # as if they were
    answer = command("kwave", "-i", "in.h5", "-o", "out.h5")
    assert_refused(answer, ["'c0'", "16384.0 GiB", "free"], tmp_path)


OPTIONS = [
    (["-s", "0"], ["-s", "0", "1 to 200"]),
    (["-s", "201"], ["-s", "201", "1 to 200"]),
    (["-s", "51", "--benchmark", "50"], ["-s", "51", "1 to 50"]),
    (["--benchmark", "0"], ["--benchmark", "1"]),
    (["-r", "0"], ["-r"]),
    (["-c", "10"], ["-c", "9"]),
    (["-t", "0"], ["-t"]),
    (["-t", "many"], ["-t", "integer"]),
    (["-g", "-1"], ["-g"]),
    (["-g", "0", "--device", "cpu"], ["--device", "-g 0"]),
    (["--verbose", "3"], ["--verbose"]),
    (["--precision", "half"], ["--precision", "half", "double"]),
    (["--device", "tpu"], ["device", "tpu"]),
    (["--p_mean"], ["--p_mean"]),
    (["--checkpoint_file", "c"], ["--checkpoint_file", "--checkpoint_interval", "--checkpoint_timesteps"]),
    (["--checkpoint_interval", "5"], ["--checkpoint_interval", "--checkpoint_file"]),
    (["--checkpoint_timesteps", "5"], ["--checkpoint_timesteps", "--checkpoint_file"]),
    (["--checkpoint_file", "c", "--checkpoint_timesteps", "0"], ["--checkpoint_timesteps"]),
    (["--checkpoint_file", "absent/c", "--checkpoint_timesteps", "9"], ["--checkpoint_file", "absent"]),
    (["--checkpoint_file", "folder", "--checkpoint_interval", "9"], ["--checkpoint_file", "folder"]),
    (["--checkpoint_file", "out.h5", "--checkpoint_interval", "9"], ["--checkpoint_file", "out.h5"]),
    (["--checkpoint_file", "in.h5", "--checkpoint_interval", "9"], ["--checkpoint_file", "in.h5"]),
    (["-o", "there.h5"], ["there.h5", "exists", "--force"]),
    (["-o", "folder", "--force"], ["folder", "is a folder"]),
    (["-o", "absent/out.h5"], ["absent", "does not exist"]),
    (["-o", "in.h5", "--force"], ["in.h5", "is the input"]),
]


@pytest.mark.parametrize(("options", "words"), OPTIONS, ids=[" ".join(o[0]) for o in OPTIONS])
def test_bad_option(command, tmp_path, options, words):
    shutil.copy(DATA / "dirichlet_2d.h5", tmp_path / "in.h5")
    (tmp_path / "folder").mkdir()
    (tmp_path / "there.h5").write_text("kept")
    answer = command("kwave", "--verbose", "0", "-i", "in.h5", "-o", "out.h5", *options)
    assert_refused(answer, words, tmp_path, ["in.h5", "folder", "there.h5"])
    assert (tmp_path / "there.h5").read_text() == "kept"


@pytest.mark.parametrize(
    "options", [["-i", "in.h5"], ["-o", "out.h5"], []], ids=["no -o", "no -i", "nothing"]
)
def test_files_are_needed(command, tmp_path, options):
    answer = command("kwave", *options)
    assert answer[0] == 2
    assert "-i" in answer[2] or "-o" in answer[2]
    assert os.listdir(tmp_path) == []


def test_no_velocity_at_the_pressure_points_in_format_1_0(command, damaged, tmp_path):
    damaged(P0, all_of(attribute("minor_version", "0"), drop("sensor_mask_type", "axisymmetric_flag")))
    answer = command("kwave", "-i", "in.h5", "-o", "out.h5", "--u_non_staggered_raw")
    assert_refused(answer, ["--u_non_staggered_raw", "1.0"], tmp_path)


def test_sensor_is_needed(command, damaged, tmp_path):
    damaged(P0, drop("sensor_mask_type", "sensor_mask_index"))
    answer = command("kwave", "-i", "in.h5", "-o", "out.h5", "--p_final", "--u_rms")
    assert_refused(answer, ["'sensor_mask_index'", "missing", "u_rms"], tmp_path)


@pytest.mark.slow
def test_unstable_time_step_of_run(command, damaged, tmp_path):
    damaged(D2, all_of(put("c_ref", 1000.0), put("dt", 1e-6)))
    assert_refused(command("run", "in.h5"), ["dt", "not stable"], tmp_path)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--output", "there.h5"], ["there.h5", "exists"]),
        (["--threads", "0"], ["--threads", "0"]),
        (["--device", "tpu"], ["device", "tpu"]),
        (["--output", "in.h5", "--force"], ["is the input"]),
    ],
    ids=lambda value: " ".join(value)[:30],
)
def test_bad_option_of_run(command, tmp_path, options, words):
    shutil.copy(DATA / "dirichlet_2d.h5", tmp_path / "in.h5")
    (tmp_path / "there.h5").write_text("kept")
    assert_refused(command("run", "in.h5", *options), words, tmp_path, ["in.h5", "there.h5"])
