"""A launched field from a file instead of the one that the transmitter makes from its symbols."""

from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np

from wavefabric.errors import InputError
from wavefabric.files import hdf5
from wavefabric.optics.propagation.rank_modes import RankModes
from wavefabric.optics.signal.wdm import WdmGrid


def check_waveform(path: Path, rows: int, grid: WdmGrid) -> None:
    """Refuse a file without a dataset ``field`` (rows, N) of complex numbers, or of another sample rate."""
    with hdf5.open_hdf5(path, "a waveform (HDF5)") as file, hdf5.reading(path, "field"):
        dataset = file.get("field")
        if not isinstance(dataset, h5py.Dataset) or dataset.dtype.kind != "c":
            raise InputError(f"signal.waveform: {path} has no complex dataset field; allowed: one")
        if dataset.shape != (rows, grid.samples):
            actual = f"field of {path} has the shape {dataset.shape}"
            raise InputError(f"signal.waveform: {actual}; allowed: {(rows, grid.samples)} for this run")
        rate = dataset.attrs.get("sample_rate_Hz", grid.sample_rate)
        if not np.isclose(rate, grid.sample_rate, rtol=1e-9):
            actual = f"field of {path} has {rate:.9g} Hz"
            raise InputError(
                f"signal.waveform: {actual}; allowed: {grid.sample_rate:.9g} Hz, that of this run"
            )


def read_waveform(
    path: Path, device, A, local_modes: RankModes, progress: Callable[[int, int], None] | None = None
) -> None:
    """Rows of ``field`` in a checked file to ``A`` (own rows, N), √W; InputError if they are not finite."""
    with hdf5.open_hdf5(path, "a waveform (HDF5)") as file, hdf5.reading(path, "field"):
        dataset = file["field"]
        assert isinstance(dataset, h5py.Dataset)
        for k in range(local_modes.rows):
            row = dataset[local_modes.first_row + k]
            if not np.isfinite(row).all():
                fault = f"row {local_modes.first_row + k} of field in {path} is not finite"
                raise InputError(f"signal.waveform: {fault}; allowed: finite numbers")
            A[k] = device.asarray(row.astype(A.dtype))
            if progress is not None:
                progress(k + 1, local_modes.rows)
