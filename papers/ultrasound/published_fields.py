"""Fields that eleven codes published for the transcranial benchmarks (doi:10.5281/zenodo.6020543)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
import scipy.io

from wavefabric.base.errors import InputError

#: Surface pressure of the sources, Pa: 0.04 m/s in water.
SURFACE = 60e3
_NUMBERS = {"bowl": 1, "disc": 2}


def read_published(
    folder: Path, case: int, source: str, axes: tuple[np.ndarray, np.ndarray]
) -> Iterator[tuple[str, np.ndarray]]:
    """Each code's name and |p|/p₀ (x, r), of ``FOLDER/CODE/PH1-BM1-SC1_CODE.mat`` or ``.h5``."""
    if not folder.is_dir():
        raise InputError(f"--fields: {folder} is no folder; allowed: the unpacked fields")
    x, r = axes
    stem = f"PH1-BM{case}-SC{_NUMBERS[source]}_"
    for path in sorted(folder.glob(f"*/{stem}*")):
        if path.suffix not in (".mat", ".h5"):
            continue
        amplitude = _read(path)
        if amplitude.shape != (x.size, 2 * r.size - 1):
            amplitude = amplitude.T
        if amplitude.shape != (x.size, 2 * r.size - 1):
            allowed = (x.size, 2 * r.size - 1)
            raise InputError(f"--fields: {path.name} has the shape {amplitude.shape}; allowed: {allowed}")
        yield path.stem.removeprefix(stem), amplitude[:, r.size - 1 :] / SURFACE


def _read(path: Path) -> np.ndarray:
    """``p_amp`` of a file, axes as stored."""
    if h5py.is_hdf5(path):  # .mat files of version 7.3 are
        with h5py.File(path) as file:
            return np.abs(np.asarray(file["p_amp"], float)).squeeze()
    return np.abs(np.asarray(scipy.io.loadmat(path)["p_amp"], float)).squeeze()
