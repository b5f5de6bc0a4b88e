"""Datasets read on several threads are those that HDF5 reads."""

import h5py
import numpy as np
import pytest

from wavefabric.base.files import contiguous
from wavefabric.base.files.contiguous import read_whole


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(contiguous, "_LEAST", 100)
    monkeypatch.setattr(contiguous, "_PART", 64)


@pytest.mark.parametrize("block", [0, 512])
@pytest.mark.parametrize(
    "how", [{}, {"chunks": (3, 4)}, {"compression": 4}, {"fillvalue": 7.0}], ids=lambda how: "".join(how)
)
@pytest.mark.parametrize("dtype", ["<f4", "<f8"])
def test_it_is_what_hdf5_reads(tmp_path, how, dtype, block):
    """Contiguous, in chunks, packed; of the same type and of another; after a user block."""
    values = np.random.default_rng(1).random((17, 13)).astype("<f4")
    with h5py.File(tmp_path / "a.h5", "w", userblock_size=block) as file:
        file.create_dataset("before", data=np.arange(100))
        file.create_dataset("a", data=values, **how)
    with h5py.File(tmp_path / "a.h5") as file:
        array = read_whole(file["a"], np.dtype(dtype), 2)
    assert array.dtype == dtype
    assert (array == values).all()


def test_what_was_never_written_has_its_fill_value(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("a", (30, 40), "<f4", fillvalue=3.0)
        assert (read_whole(file["a"], np.dtype("<f4"), 2) == 3).all()


def test_a_file_that_ends_early_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("a", data=np.ones((300, 40), "<f4"))
    with h5py.File(path) as file:
        dataset = file["a"]
        path.write_bytes(path.read_bytes()[:9000])
        with pytest.raises(OSError, match=r"a\.h5 ends within a dataset"):
            read_whole(dataset, np.dtype("<f4"), 2)
