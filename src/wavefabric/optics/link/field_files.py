"""Read a launched field from a file in place of the transmitter's, and write fields along a link."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np

from wavefabric.base.errors import InputError
from wavefabric.base.files import hdf5
from wavefabric.base.results import Data, ResultWriter, Rows, read_result
from wavefabric.optics.propagation.rank_modes import RankModes
from wavefabric.optics.run_file.load import RunFile
from wavefabric.optics.signal.wdm import WdmGrid
from wavefabric.runtime.exchange.communicator import Communicator
from wavefabric.runtime.lifecycle.collective_checks import on_first_rank


class _Waveform(NamedTuple):
    """Describes a field in a file: its shape, the function that reads a row, the sample rate or None."""

    shape: tuple[int, ...]
    row: Callable[[int], np.ndarray]
    sample_rate: Any


@contextmanager
def _waveform(path: Path) -> Iterator[_Waveform]:
    """Open a waveform: HDF5 or MATLAB v7.3 with a complex dataset ``field``, or one complex array (.npy)."""
    if path.suffix.lower() == ".npy":
        try:
            array = np.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, EOFError):
            raise InputError(f"signal.waveform: {path} cannot be read; allowed: a .npy file") from None
        if array.dtype.kind != "c":
            raise InputError(f"signal.waveform: {path} has the type {array.dtype}; allowed: complex numbers")
        yield _Waveform(array.shape, lambda row: np.asarray(array[row]), None)
        return
    with hdf5.open_hdf5(path, "a waveform (HDF5)") as file, hdf5.reading(path, "field"):
        dataset = file.get("field")
        dtype = dataset.dtype if isinstance(dataset, h5py.Dataset) else np.dtype(bool)
        compound = dtype.names == ("real", "imag")
        if not isinstance(dataset, h5py.Dataset) or not (compound or dtype.kind == "c"):
            raise InputError(f"signal.waveform: {path} has no complex dataset field; allowed: one")
        # MATLAB stores the columns of a matrix one after the other, which HDF5 takes for rows.
        turned = "MATLAB_class" in dataset.attrs and dataset.ndim == 2

        def read(row: int) -> np.ndarray:
            values = dataset[:, row] if turned else dataset[row]
            return values["real"] + 1j * values["imag"] if compound else values

        shape = dataset.shape[::-1] if turned else dataset.shape
        yield _Waveform(shape, read, dataset.attrs.get("sample_rate_Hz"))


def check_waveform(path: Path, rows: int, grid: WdmGrid) -> None:
    """Raise InputError unless a file has a complex field (rows, N) of the grid's sample rate."""
    with _waveform(path) as field:
        if field.shape != (rows, grid.samples):
            actual = f"field of {path} has the shape {field.shape}"
            raise InputError(f"signal.waveform: {actual}; allowed: {(rows, grid.samples)} for this run")
        rate = grid.sample_rate if field.sample_rate is None else field.sample_rate
        if not np.isclose(rate, grid.sample_rate, rtol=1e-9):
            actual, allowed = f"field of {path} has {rate:.9g} Hz", f"{grid.sample_rate:.9g} Hz"
            raise InputError(f"signal.waveform: {actual}; allowed: {allowed}, that of this run")


def read_waveform(
    path: Path, device, A, local_modes: RankModes, progress: Callable[[int, int], None] | None = None
) -> None:
    """Read this rank's rows of the field in the file ``path`` into ``A`` (local rows, N), √W.

    The file is one that `check_waveform` accepts. InputError if a value is not finite.
    """
    with _waveform(path) as field:
        for k in range(local_modes.rows):
            row = field.row(local_modes.first_row + k)
            if not np.isfinite(row).all():
                fault = f"row {local_modes.first_row + k} of field in {path} is not finite"
                raise InputError(f"signal.waveform: {fault}; allowed: finite numbers")
            A[k] = device.asarray(row.astype(A.dtype))
            if progress is not None:
                progress(k + 1, local_modes.rows)


def with_whole_field(comm: Communicator, local_modes: RankModes, A, write: Callable[[Rows], None]) -> None:
    """Call ``write`` on rank 0 with an object through which it reads the rows of the whole field one by one.

    All ranks call this function, each with its rows ``A``, which it sends to rank 0.
    """
    ends, control, to_host = local_modes.row_ends, comm.control, comm.device.to_host
    buffer, awaited = np.empty(A.shape[1], A.dtype), ends[1]

    def read(row: int) -> np.ndarray:
        """Return a row of the whole field, valid until the next call; call it in ascending order of rows."""
        nonlocal awaited
        if row < ends[1]:
            return to_host(A[row])
        control.recv_array(int(np.searchsorted(ends, row, side="right")) - 1, buffer, row)
        awaited = row + 1
        return buffer

    def on_first() -> None:
        try:
            write(Rows((ends[-1], A.shape[1]), A.dtype, read))
        finally:  # receive unread rows too, so that no rank waits for ever after a failure of ``write``
            for row in range(awaited, ends[-1]):
                read(row)

    for i in range(local_modes.rows) if comm.rank else ():
        control.send_array(0, np.ascontiguousarray(to_host(A[i])), local_modes.first_row + i)
    on_first_rank(comm, on_first)


class Snapshots:
    """Writes the field to a file at each distance of ``output.snapshots``, or at the next check of the field.

    Files are named after the result: ``link-20km.h5`` beside ``link.h5``. `InputError` if a file exists,
    unless ``force`` replaces it or it is of this run (equal ``fingerprint``).
    """

    def __init__(self, comm: Communicator, run: RunFile, writer: ResultWriter, fingerprint: str):
        self._comm, self._fingerprint = comm, fingerprint
        positions, stem = sorted(set(run.output.snapshots)), writer.path.stem
        names = {position: f"{stem}-{position / 1e3:g}km.h5" for position in positions}
        paths = {at: writer.path.with_name(name) for at, name in names.items()}

        def check() -> dict[float, Path]:
            due = dict(paths)
            for at, path in paths.items():
                if path.exists() and read_result(path).attrs().get("fingerprint") == fingerprint:
                    del due[at]  # this run wrote it before it was interrupted
                else:
                    ResultWriter(path, writer.force, run.input_paths())
            return due

        #: Files still to be written, by distance in m.
        self._due = on_first_rank(comm, check)

    def take(self, A, local_modes: RankModes, distance: float, attributes: dict[str, Any]) -> None:
        """Write the field to each file that is due by ``distance`` m, with the attributes ``attributes``.

        All ranks call this, each with its rows ``A`` of the field.
        """
        for at in [at for at in self._due if at <= distance * (1 + 1e-12)]:
            path = self._due.pop(at)

            def write(rows: Rows, path: Path = path) -> None:
                about = {"distance_m": distance, "fingerprint": self._fingerprint}
                described = "complex envelopes, two polarisations per mode"
                content = {"field": Data(rows, "W^0.5", described, ("row", "sample"))}
                ResultWriter(path, force=True).write(content, attributes=attributes | about)

            with_whole_field(self._comm, local_modes, A, write)
