"""Defines sinks, which receive recorded quantities in memory or in files that outlive the process.

A sink is called only on rank 0, with the data of all ranks.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from glob import escape
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from wavefabric.base.errors import InputError
from wavefabric.base.files.output import unwritable

_SERIES_ENDING = ".series.partial"


@dataclass(frozen=True)
class RecordingLayout:
    """Holds the names and sizes of everything that a run records."""

    series: dict[str, tuple[int, int]]  # p, ux, ux_non_staggered, Ix …: (time steps, sensor points)
    points: dict[str, int]  # statistics over time, p_max, ux_rms, Ix_avg …: sensor points
    fields: tuple[str, ...]  # whole-domain quantities, p_max_all, ux_final …, (Nz, Ny, Nx) each
    dtype: np.dtype
    run: str = ""  # identifies the run in its checkpoint and in the files that go with it, if any


#: Phases of a run in order: names in reports, and words for them.
PHASE_WORDS = {
    "loading": "reading",
    "preprocessing": "set-up",
    "compilation": "compilation",
    "simulation": "steps",
    "postprocessing": "writing",
}


@dataclass
class Report:
    """Reports the cost of a run; the report is the same on all ranks."""

    steps: int = 0  # excluding those before a resumed checkpoint
    total_steps: int = 0
    device: str = ""
    #: Seconds by phase (compilation apart) on rank 0, including time before checkpoints.
    seconds: dict[str, float] = field(default_factory=dict)
    transforms_per_step: float = 0.0
    #: Seconds per step after the first steps, which compile and capture; 0 for runs of a few steps.
    step_seconds: float = 0.0
    peak_bytes: int = 0  # largest host memory of any rank
    device_bytes: int = 0  # largest memory of any GPU in use at the end; 0 on CPUs
    resumed_at: int = 0
    ranks: int = 1
    transport: str = ""  # how the ranks exchanged fields; empty for one rank
    decomposition: str = ""  # how the grid was divided, in words; empty for one rank
    notes: list[str] = field(default_factory=list)  # advice: sizes that slow the run down


class Sink(Protocol):
    """Receives recorded data; `write_rows` is called from a second thread, in order, one call at a time.

    A sink that writes a file has an attribute ``path``; no other process may write this file during the run.
    """

    #: Whether data are passed as arrays of the run's device; else in host memory.
    on_device: bool = False

    def begin(self, layout: RecordingLayout, rows_done: int) -> None:
        """Prepare before the first step.

        ``rows_done`` is the number of rows of each time series that were written before a checkpoint.
        """

    def write_rows(self, name: str, first: int, block: np.ndarray) -> None:
        """Write the rows in ``block`` (rows, samples) to series ``name``, from row number ``first`` on.

        ``block`` may be overwritten after the call.
        """

    def flush(self) -> None:
        """Write all rows so far, so that they survive a kill; called before a checkpoint is written."""

    def finish(self, arrays: Iterable[tuple[str, np.ndarray]], report: Report) -> None:
        """Finish a complete run. ``arrays`` yields name and values of each statistic and field.

        Statistics are (samples,), fields (Nz, Ny, Nx). Each array is computed when the iteration reaches it:
        keep no more than one in memory if possible.
        """

    def abandon(self, keep: bool) -> None:
        """End the run early; with ``keep`` keep the data so far, since a checkpoint refers to them."""


class MemorySink(Sink):
    """Stores all recorded data in memory: ``arrays[name]``, time series as (rows, samples)."""

    def __init__(self) -> None:
        self.arrays: dict[str, Any] = {}

    def begin(self, layout: RecordingLayout, rows_done: int) -> None:
        if rows_done:
            raise ValueError("time series in memory cannot be resumed")
        for name, (rows, samples) in layout.series.items():
            try:
                self.arrays[name] = np.empty((rows, samples), layout.dtype)
            except (ValueError, MemoryError):
                needed = rows * samples * layout.dtype.itemsize / 2**30
                raise InputError(
                    f"steps: {rows} rows of {name} at {samples} points take {needed:.1f} GiB; record less"
                ) from None

    def write_rows(self, name: str, first: int, block: np.ndarray) -> None:
        self.arrays[name][first : first + len(block)] = block

    def finish(self, arrays: Iterable[tuple[str, np.ndarray]], report: Report) -> None:
        self.arrays.update(arrays)


class DeviceSink(MemorySink):
    """Stores all recorded data of a run on one rank in arrays of its device."""

    on_device = True

    def __init__(self, device: Any):
        super().__init__()
        self._device = device

    def begin(self, layout: RecordingLayout, rows_done: int) -> None:
        assert not rows_done, "a run with a checkpoint stores its rows in files"
        for name, shape in layout.series.items():
            self.arrays[name] = self._device.empty(shape, layout.dtype)


class SeriesFiles(MemorySink):
    """Stores each series in a file beside the checkpoint until the run ends, then all data in memory.

    Series ``p`` of a run is in ``<checkpoint>.<run>.p.series.partial``, which no other run uses.
    """

    def __init__(self, checkpoint: str | Path):
        super().__init__()
        self._checkpoint = Path(checkpoint)
        self._run = ""

    def _path(self, name: str) -> Path:
        run = f".{self._run}" if self._run else ""
        return self._checkpoint.with_name(f"{self._checkpoint.name}{run}.{name}{_SERIES_ENDING}")

    def begin(self, layout: RecordingLayout, rows_done: int) -> None:
        """Create the files, or open those from before a checkpoint; `InputError` if they do not match."""
        self._run = layout.run
        if not rows_done:
            # Remove the files of runs that were killed before their first checkpoint.
            for path in self._checkpoint.parent.glob(f"{escape(self._checkpoint.name)}.*{_SERIES_ENDING}"):
                path.unlink(missing_ok=True)
        for name, shape in layout.series.items():
            path = self._path(name)
            if not rows_done:
                try:
                    self.arrays[name] = np.lib.format.open_memmap(path, "w+", layout.dtype, shape)
                    # Allocate the space now: if the disk is full later, the process is killed (SIGBUS).
                    with open(path, "rb+") as file:
                        os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
                except OSError as error:
                    path.unlink(missing_ok=True)
                    raise unwritable(path, "checkpoint", error) from None
                continue
            try:
                series = np.lib.format.open_memmap(path, "r+")
            except (OSError, ValueError):
                series = None
            if series is None or series.shape != shape or series.dtype != layout.dtype:
                raise InputError(
                    f"checkpoint: {self._checkpoint.name} has no matching {path.name} beside it; "
                    "allowed: both, or none to start again"
                )
            self.arrays[name] = series

    def flush(self) -> None:
        for series in self.arrays.values():
            series.flush()  # type: ignore[attr-defined]

    def finish(self, arrays: Iterable[tuple[str, np.ndarray]], report: Report) -> None:
        results = {name: np.array(series) for name, series in self.arrays.items()} | dict(arrays)
        self._remove()
        self.arrays = results

    def abandon(self, keep: bool) -> None:
        if keep:
            self.flush()
            self.arrays.clear()
        else:
            self._remove()

    def _remove(self) -> None:
        names = list(self.arrays)
        # Windows cannot remove a file that is mapped into memory.
        self.arrays.clear()
        for name in names:
            self._path(name).unlink(missing_ok=True)
