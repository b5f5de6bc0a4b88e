"""HDF5 files with samples of other files, or of more than the memory: one line that names the dataset."""

import os
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest

from wavefabric.acoustics.kwave import format as reader
from wavefabric.acoustics.kwave.format import Reader
from wavefabric.base.files import hdf5
from wavefabric.base.results import ResultWriter
from wavefabric.base.results.file import Data

P0 = Path(__file__).parents[1] / "data" / "kwave" / "p0_homogeneous.h5"


def typed(item):
    """With the attributes that k-Wave's datasets have."""
    item.attrs["data_type"], item.attrs["domain_type"] = np.bytes_("float"), np.bytes_("real")


def external_link(file, name):
    file[name] = h5py.ExternalLink("other.h5", "/x")


def soft_link_out(file, name):
    file["aside"] = h5py.ExternalLink("other.h5", "/")
    file[name] = h5py.SoftLink("/aside/x")


def chain_of_links(file, name):
    file[name] = h5py.SoftLink(f"/{name}")


def external_storage(file, name):
    shape = (1, 1, 1) if name == "c0" else (2, 64, 2)
    typed(file.create_dataset(name, shape, np.float32, external=[("secret", 0, h5py.h5f.UNLIMITED)]))


def virtual(file, name):
    layout = h5py.VirtualLayout((1, 1, 1), np.float32)
    layout[...] = h5py.VirtualSource("other.h5", "x", (1, 1, 1))
    typed(file.create_virtual_dataset(name, layout))


ELSEWHERE = {
    "external link": (external_link, "link to another file"),
    "soft link to an external one": (soft_link_out, "link to another file"),
    "soft link to itself": (chain_of_links, "chain"),
    "external storage": (external_storage, "external storage"),
    "virtual": (virtual, "virtual"),
}


def assert_refused(answer, words):
    code, out, err = answer
    assert (code, out, err.count("\n")) == (2, "", 1), err
    for word in words:
        assert word in err, err


@pytest.fixture
def elsewhere(tmp_path):
    """What no file may show: samples of a neighbour."""
    (tmp_path / "secret").write_bytes(b"\x41" * 4096)
    with h5py.File(tmp_path / "other.h5", "w") as file:
        typed(file.create_dataset("x", data=np.full((1, 1, 1), 1500.0, np.float32)))


@pytest.mark.parametrize(
    "words", [("kwave", "-o", "out.h5", "-i"), ("run", "-o", "out.h5")], ids=["kwave", "run"]
)
@pytest.mark.parametrize(("make", "word"), ELSEWHERE.values(), ids=ELSEWHERE)
def test_samples_of_another_file_as_kwave_input(command, tmp_path, elsewhere, words, make, word):
    (tmp_path / "in.h5").write_bytes(P0.read_bytes())
    with h5py.File(tmp_path / "in.h5", "r+") as file:
        del file["c0"]
        make(file, "c0")
    before = sorted(os.listdir(tmp_path))
    assert_refused(command(*words, "in.h5"), ["in.h5", "'c0'", word])
    assert sorted(os.listdir(tmp_path)) == before


def test_a_soft_link_within_the_file_is_read(command, tmp_path):
    (tmp_path / "in.h5").write_bytes(P0.read_bytes())
    with h5py.File(tmp_path / "in.h5", "r+") as file:
        file.move("c0", "speed")
        file["c0"] = h5py.SoftLink("/speed")
    assert command("kwave", "-i", "in.h5", "-o", "out.h5", "--p_final", "--benchmark", "1")[0] == 0


def test_more_points_than_can_be_looked_at(command, tmp_path):
    source = P0.with_name("dirichlet_2d.h5")
    (tmp_path / "in.h5").write_bytes(source.read_bytes())
    with h5py.File(tmp_path / "in.h5", "r+") as file:
        del file["p_source_index"]
        item = file.create_dataset("p_source_index", (1, 1, 2**40), np.uint64, chunks=(1, 1, 2**20))
        typed(item)
        item.attrs["data_type"] = np.bytes_("long")
    assert_refused(command("kwave", "-o", "out.h5", "-i", "in.h5"), ["in.h5", "'p_source_index'"])


def result(path):
    """A result file with one received place."""
    q = np.ones((2, 1))
    values = {
        "received/span_1/q_squared_db": Data(q, "dB", "Q²"),
        "fibre/mode_group": Data(np.array([1, 2]), "", "group"),
    }
    ResultWriter(path).write(values)


@pytest.mark.parametrize("kind", ["external storage", "virtual"])
def test_samples_of_another_file_as_result(command, tmp_path, elsewhere, kind):
    make, word = ELSEWHERE[kind]
    result(tmp_path / "r.h5")
    name = "received/span_1/q_squared_db"
    with h5py.File(tmp_path / "r.h5", "r+") as file:
        del file[name]
        make(file, name)
    before = sorted(os.listdir(tmp_path))
    assert_refused(command("plot", "r.h5"), ["r.h5", name, word])
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.parametrize(("make", "word"), ELSEWHERE.values(), ids=ELSEWHERE)
def test_samples_of_another_file_in_a_recorded_field(command, tmp_path, elsewhere, make, word):
    shutil.copy(P0.with_name("dirichlet_2d_out.h5"), tmp_path / "o.h5")
    with h5py.File(tmp_path / "o.h5", "r+") as file:
        del file["p_final"]
        make(file, "p_final")
    assert_refused(command("plot", "o.h5", "--quantity", "p_final"), ["o.h5", "p_final", word])
    assert not list(tmp_path.glob("*.png"))


def test_a_result_larger_than_the_memory(command, tmp_path, monkeypatch):
    result(tmp_path / "r.h5")
    name = "received/span_1/q_squared_db"
    with h5py.File(tmp_path / "r.h5", "r+") as file:
        del file[name]
        file.create_dataset(name, (2**21, 2**20), np.float64, chunks=(2**10, 2**10))
    assert_refused(command("plot", "r.h5"), ["r.h5", name, "only 0 bytes of it were written"])
    monkeypatch.setattr(hdf5, "check_stored", lambda *_: None)  # as if it were
    assert_refused(command("plot", "r.h5"), ["r.h5", name, "takes 1.68e+07 MiB of memory"])


@pytest.mark.parametrize(
    "words", [("kwave", "-o", "out.h5", "-i"), ("run", "-o", "out.h5")], ids=["kwave", "run"]
)
def test_arrays_that_fit_one_by_one_only(command, tmp_path, monkeypatch, words):
    """1200³ points that were never written: 6.4 GiB an array, and no run of them fits where each does."""
    monkeypatch.setattr("wavefabric.acoustics.kwave.input.host_memory", lambda: (7 << 30, 8 << 30))
    read = Reader.array

    def outlined(*options):
        result = read(*options)
        assert not any(result.strides) or result.nbytes < 1 << 20  # nothing large is read
        return result

    monkeypatch.setattr(Reader, "array", outlined)
    (tmp_path / "in.h5").write_bytes(P0.read_bytes())
    shape = (1200, 1200, 1200)
    with h5py.File(tmp_path / "in.h5", "r+") as file:
        for axis in "xyz":
            file[f"N{axis}"][...] = 1200
        for name in ("c0", "p0_source_input"):
            del file[name]
            typed(file.create_dataset(name, shape, np.float32, chunks=(1, 1200, 1200)))
    run = *words, "in.h5", *(("--device", "cpu") if words[0] == "run" else ())
    assert_refused(command(*run), ["in.h5", "only 0 bytes of it were written"])
    monkeypatch.setattr(reader, "check_stored", lambda *_, **__: None)  # as if they were
    answer = command(*run)
    assert_refused(answer, ["in.h5", "12.9 GiB", "7.0 GiB", "free"])
    with h5py.File(tmp_path / "in.h5", "r+") as file:
        del file["c0"]
        typed(file.create_dataset("c0", data=np.full((1, 1, 1), 1500, np.float32)))
    answer = command(*words, "in.h5", "--device", "cpu")
    assert_refused(answer, ["in.h5", "6.4 GiB", "a run of 1200 x 1200 x 1200 points", "7.0 GiB"])
