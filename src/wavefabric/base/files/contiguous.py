"""Read contiguous HDF5 datasets on several threads; HDF5 itself reads on one."""

import os
from concurrent.futures import ThreadPoolExecutor

import h5py
import numpy as np

#: Bytes from which threads are faster, and bytes per read.
_LEAST, _PART = 1 << 26, 1 << 24


def read_whole(dataset: h5py.Dataset, dtype: np.dtype, threads: int) -> np.ndarray:
    """Read a whole dataset into a new array of ``dtype``; ``threads`` threads read a large contiguous one.

    OSError if the file ends before the dataset does.
    """
    offset = None
    if dataset.dtype == dtype and dataset.chunks is None and not dataset.external and not dataset.is_virtual:
        offset = dataset.id.get_offset()  # None if nothing was written
    if offset is None or dataset.nbytes < _LEAST or not hasattr(os, "preadv"):
        return np.asarray(dataset[()], dtype)
    array = np.empty(dataset.shape, dtype)
    memory, name = array.data.cast("B"), dataset.file.filename
    file = os.open(name, os.O_RDONLY)

    def read(first: int) -> None:
        end = min(first + _PART, len(memory))
        while first < end:
            count = os.preadv(file, [memory[first:end]], offset + first)
            if not count:
                raise OSError(f"{name} ends within a dataset")
            first += count

    try:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(read, range(0, len(memory), _PART)))
    finally:
        os.close(file)
    return array
