"""Result files with damaged bytes: what is read is an array, or an InputError of one line names the file."""

import random
import resource
import struct
from pathlib import Path

import h5py
import numpy as np
import pytest

from wavefabric.acoustics.pictures.recorded import open_recorded
from wavefabric.base.errors import InputError
from wavefabric.base.files.hdf5 import attributes
from wavefabric.base.results import Data, ResultWriter, read_result
from wavefabric.base.system.machine import peak_memory
from wavefabric.optics.link.figures import constellation_figure, penalty_figure, q_squared_figure
from wavefabric.optics.link.received_signals import distance

OUTPUT = Path(__file__).parents[2] / "data" / "kwave" / "dirichlet_2d_out.h5"


def structure(path):
    """Numbers of the bytes that are not samples."""
    with h5py.File(path) as file:
        items = []
        file.visititems(lambda name, item: items.append(item))
        stored = [(i.id.get_offset(), i.id.get_storage_size()) for i in items if isinstance(i, h5py.Dataset)]
    samples = {at for first, size in stored if first is not None for at in range(first, first + size)}
    return [at for at in range(path.stat().st_size) if at not in samples]


def read_all_of_a_fibre(path):
    result = read_result(path)
    values = [result[key] for key in result]
    list(result.tables(result.alike()))
    return values


def read_all_of_an_ultrasound(path):
    file = open_recorded(path)
    if file is None:
        raise InputError(f"{path}: no recorded quantity")
    with file:
        for item in file.items.values():
            _ = item.series(9, 9) if item.kind == "series" else item.values()


@pytest.mark.parametrize("kind", ["fibre", pytest.param("k-Wave", marks=pytest.mark.slow)])
def test_flipped_bytes_and_cut_files(tmp_path, result_file, kind):
    source, read = (
        (result_file, read_all_of_a_fibre) if kind == "fibre" else (OUTPUT, read_all_of_an_ultrasound)
    )
    whole, positions, random_numbers = source.read_bytes(), structure(source), random.Random(26)
    path, said = tmp_path / "bad.h5", []
    for k in range(30):
        data = bytearray(whole)
        if k % 10 == 0:
            del data[random_numbers.randrange(len(data)) :]
        for at in random_numbers.choices(positions, k=4):
            if at < len(data):
                data[at] = random_numbers.choice((0, 1, 127, 128, 255, data[at] ^ 4))
        path.write_bytes(data)
        try:
            read(path)
        except InputError as error:
            said.append(str(error))
    assert all("bad.h5" in text and "\n" not in text for text in said)
    assert 8 < len(said) < 30


def output(tmp_path, name, **dataset):
    """k-Wave's file with another dataset of a name."""
    path = tmp_path / "o.h5"
    path.write_bytes(OUTPUT.read_bytes())
    with h5py.File(path, "r+") as file:
        del file[name]
        file.create_dataset(name, **dataset)
    return path


@pytest.mark.parametrize(
    ("name", "dataset", "fault"),
    [
        ("p_final", {"data": np.float32(1)}, r"'p_final' has the shape \(\); allowed: that of the grid"),
        ("p_final", {"data": h5py.Empty("f4")}, "'p_final' has the shape"),
        (
            "p_final",
            {"data": np.zeros((1, 60, 72), int)},
            "'p_final' is no dataset of floating-point numbers",
        ),
        ("p", {"data": np.zeros(5)}, "'p' has 1 dimensions; allowed: 2"),
        ("p_rms", {"data": np.zeros((1, 1, 0))}, "'p_rms' is empty"),
        ("p_rms", {"shape": (1, 1, 4 * 10**8), "dtype": "f4", "chunks": (1, 1, 10**6)}, "only 0 bytes of it"),
    ],
)
def test_datasets_that_cannot_be_a_quantity(tmp_path, name, dataset, fault):
    with open_recorded(output(tmp_path, name, **dataset)) as file:
        item = file.items[name]
        with pytest.raises(InputError, match=fault):
            _ = item.series(9, 9) if item.kind == "series" else item.values()


@pytest.mark.parametrize(("name", "value"), [("dx", np.nan), ("dt", 0), ("Nx", 0), ("t_index", 2**63)])
def test_grids_that_no_run_can_have_had(tmp_path, name, value):
    path = tmp_path / "o.h5"
    path.write_bytes(OUTPUT.read_bytes())
    with h5py.File(path, "r+") as file:
        file[name][...] = value
    with pytest.raises(InputError, match=r"o\.h5: has a grid of .* the file is damaged"):
        open_recorded(path)


@pytest.mark.parametrize(
    ("position", "dataset", "value", "draw"),
    [
        ("span_2", "q_squared_db", np.full((15, 5), 1e300), q_squared_figure),
        ("span_2", "q_squared_db", np.zeros((15, 5, 2)), q_squared_figure),
        ("span_2", "q_squared_db", np.zeros((15, 5), complex), q_squared_figure),
        ("span_1", "q_squared_db", np.zeros((14, 5)), penalty_figure),
        ("span_2", "constellation", np.zeros((7, 5), complex), constellation_figure),
        ("span_2", "constellation", np.zeros((15, 5)), constellation_figure),
    ],
)
def test_arrays_that_no_link_can_have_given(tmp_path, payload, position, dataset, value, draw):
    payload["received"][position][dataset] = Data(value, "", "")
    path = ResultWriter(tmp_path / "r.h5").write(payload)
    with pytest.raises(InputError, match=rf"r\.h5: 'received/{position}/{dataset}' has "):
        draw(read_result(path))


def test_a_mode_without_power_leaves_a_gap(tmp_path, payload):
    payload["received"]["span_2"]["q_squared_db"].value[3] = np.nan
    assert len(q_squared_figure(read_result(ResultWriter(tmp_path / "r.h5").write(payload))).axes) == 1


@pytest.mark.parametrize("value", [np.nan, "far", [1.0, 2.0]])
def test_places_without_a_distance(tmp_path, payload, value):
    payload["received"]["span_1"]["attrs"]["distance_m"] = value
    result = read_result(ResultWriter(tmp_path / "r.h5").write(payload))
    with pytest.raises(InputError, match=r"'received/span_1' has the distance"):
        distance(result, "span_1")


@pytest.mark.parametrize("position", ["an attribute", "a dataset"])
def test_a_text_that_claims_two_gigabytes(tmp_path, payload, position):
    text, path = "x" * 12345, tmp_path / "r.h5"
    payload["solver"] = {"attrs": {"note": text}} if position == "an attribute" else {"note": (text, "", "")}
    ResultWriter(path).write(payload)
    data = path.read_bytes()
    assert data.count(struct.pack("<I", 12345)) >= 1
    path.write_bytes(data.replace(struct.pack("<I", 12345), struct.pack("<I", (1 << 31) - 1)))
    limits, before = resource.getrlimit(resource.RLIMIT_AS), peak_memory()
    with pytest.raises(InputError, match=r"r\.h5: is not an HDF5 file, or is damaged or cut short"):
        read_result(path)["solver/note"]
    assert peak_memory() - before < 1 << 29
    assert resource.getrlimit(resource.RLIMIT_AS) == limits


def test_large_attributes_are_not_read(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w", libver="latest") as file:
        file.attrs["small"] = "text"
        file.attrs.create("large", np.zeros(1 << 22), dtype=float)
        assert attributes(file) == {"small": "text"}
