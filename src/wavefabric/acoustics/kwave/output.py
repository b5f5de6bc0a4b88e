"""Writes k-Wave's output file during the run, so that recorded data survive a kill and the run can resume.

Time series go to ``NAME.partial`` as they come. All datasets and attributes are created before the first
step, with all their space: later only data change in the file, not the structure, so that after a kill the
file is still readable. ``NAME.partial.json`` identifies the run and its checkpoint.
"""

import contextlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from wavefabric.acoustics.kwave import output_layout
from wavefabric.acoustics.kwave.input import KWaveInput
from wavefabric.acoustics.kwave.output_layout import OPEN_OPTIONS, OutputDataset, output_datasets
from wavefabric.acoustics.problem import Cuboids, split
from wavefabric.acoustics.recording.sinks import RecordingLayout, Report
from wavefabric.base.errors import InputError
from wavefabric.base.files.input import read_bytes
from wavefabric.base.files.output import check_output, sync_folder, unwritable, write_text
from wavefabric.base.results.hdf5_output import OutputFile
from wavefabric.runtime.lifecycle.checkpoint.file import read_state


@dataclass(eq=False)
class KWaveOutput:
    """A `Sink` that writes k-Wave's output file, float32 whatever the precision of the run.

    The file gets its name, and is deflated at level ``compression``, when it is finished. ``start`` is the
    first time step recorded (0-based); ``threads`` and ``plan`` are for the header only. `InputError`: there
    is an unfinished file of this name that another run can resume, from a checkpoint other than
    ``checkpoint``; with ``force`` it is replaced.
    """

    on_device = False
    path: Path
    input: KWaveInput
    _: KW_ONLY
    compression: int = 0
    copy_sensor_mask: bool = False
    force: bool = False
    start: int = 0
    threads: int | None = None
    checkpoint: Path | None = None
    plan: str = ""

    def __post_init__(self) -> None:
        self.path = check_output(self.path, self.force)
        self._partial, self._packed, self._run_file = working_names(self.path)
        if self.checkpoint is not None:
            self.checkpoint = Path(self.checkpoint).resolve()
        self._check_unfinished()
        if self.input.path.resolve() in [name.resolve() for name in (self.path, *working_names(self.path))]:
            fault = "is the input, or replaces it while it is made"
            raise InputError(f"output: {self.path} {fault}; allowed: another")
        self._file: OutputFile | None = None
        self._items: dict[str, list[h5py.Dataset]] = {}
        self._is_begun = False

    # --- Sink ----------------------------------------------------------------------------------------

    def begin(self, layout: RecordingLayout, rows_done: int) -> None:
        """Allocate space for all recorded data, or open the file of an earlier run of this problem.

        `InputError`: the file belongs to another run, or the disk is too small.
        """
        datasets = output_datasets(layout, self.input.sensor, self.input.problem.array_shape)
        shapes = {name: [item.shape for item in items] for name, items in sorted(datasets.items())}
        described = json.dumps({"parts": shapes, "start": self.start})
        # Check again now that the output is locked: another run may have ended since the first check.
        check_output(self.path, self.force)
        if rows_done:
            file = self._reopen(described, layout.run)
            self._is_begun = True
        else:
            self._check_unfinished()
            # All space is allocated at once, so check the free space of the disk now.
            needed = sum(item.file_bytes for items in datasets.values() for item in items)
            needed *= 2 if self.compression else 1
            free, steps = shutil.disk_usage(self.path.parent).free, self.input.problem.steps
            if needed > free:
                raise InputError(
                    f"output: {self.path} needs {needed / 2**30:.3g} GiB for {steps} time steps (Nt), "
                    f"and {free / 2**30:.3g} GiB are free; record less, or fewer points"
                )
            self._is_begun = True
            run = {"parts": described, "run": layout.run, "checkpoint": str(self.checkpoint or "")}
            write_text(self._run_file, json.dumps(run), "output", force=True)
            with self._writing():
                file = self._create(datasets)
        self._items = {name: [file[item.path] for item in items] for name, items in datasets.items()}  # type: ignore[misc]

    def write_rows(self, name: str, first: int, block: np.ndarray) -> None:
        rows, items = slice(first, first + len(block)), self._items[name]
        with self._writing():
            if not isinstance(self.input.sensor, Cuboids):
                items[0][0, rows] = block
                return
            for item, part in zip(items, split(block, [item.shape[1:] for item in items]), strict=True):
                item[rows] = part

    def flush(self) -> None:
        with self._writing():
            self._sync()

    def finish(self, arrays: Iterable[tuple[str, np.ndarray]], report: Report) -> None:
        """Write statistics, fields and header, and give the file its final name."""
        assert self._file is not None
        complete = self._packed if self.compression else self._partial
        try:
            with self._writing():
                for name, array in arrays:
                    items = self._items[name]
                    parts = split(array.reshape(-1), [item.shape for item in items])
                    for item, part in zip(items, parts, strict=True):
                        item[...] = part
                    self._file.check()
                if self.compression:
                    with output_layout.compressed_copy(self._file, self._packed, self.compression) as packed:
                        output_layout.put_run(packed, self.input, self.threads, report, self.plan)
                else:
                    output_layout.put_run(self._file, self.input, self.threads, report, self.plan)
                    self._sync()
                self._close()
                _to_disk(complete)
                os.replace(complete, self.path)
        finally:
            self._close()
            self._packed.unlink(missing_ok=True)
        sync_folder(self.path.parent)
        self._remove_working_files()

    def abandon(self, keep: bool) -> None:
        # Without a `begin` the files belong to an earlier run.
        if not self._is_begun:
            return
        if keep and self._file is not None:
            with contextlib.suppress(OSError):  # the first error is the one to show
                self._sync()
        self._close()
        if not keep:
            self._remove_working_files()
        self._is_begun = False

    # --- The file ------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Return a context that turns an error of the disk, which HDF5 may hide, into an `InputError`."""
        try:
            try:
                yield
            finally:
                if self._file is not None:
                    self._file.check()
        except OSError as error:
            raise unwritable(self.path, "output", error) from None

    def _check_unfinished(self) -> None:
        """Raise `InputError` if the unfinished file belongs to another run that can still be resumed."""
        run = self._read_run()
        other = Path(run.get("checkpoint") or "/")
        if self.force or not self._partial.exists() or other == self.checkpoint:
            return
        resumable = ""
        with contextlib.suppress(InputError, OSError):
            resumable = read_state(other, None).get("run")
        if resumable and resumable == run.get("run"):
            raise InputError(
                f"output: {self._partial} is the unfinished output of another run, which resumes from "
                f"{other}; allowed: another name, to finish that run, or --force (force=True)"
            )

    def _read_run(self) -> dict[str, Any]:
        """Return the saved description of the unfinished run, a dictionary; empty if it is unreadable."""
        try:
            run = json.loads(read_bytes(self._run_file))
        except (OSError, ValueError):
            return {}
        return run if isinstance(run, dict) else {}

    def _create(self, datasets: dict[str, list[OutputDataset]]) -> OutputFile:
        file = self._file = OutputFile(self._partial, **OPEN_OPTIONS)
        output_layout.put_run(file, self.input, self.threads, Report(), self.plan)
        for items in datasets.values():
            for item in items:
                output_layout.allocate(file, item)
        output_layout.put_input(file, self.input, self.copy_sensor_mask)
        self._sync()
        return file

    def _reopen(self, described: str, run: str) -> OutputFile:
        fault = "is missing, the checkpoint needs what it holds; remove the checkpoint and start anew"
        remedy = "remove it and the checkpoint and start anew"
        if self._partial.exists():
            try:
                self._file = OutputFile(self._partial, "r+", **OPEN_OPTIONS)
                earlier = self._read_run()
                if earlier.get("parts") == described and earlier.get("run") == run:
                    return self._file
                fault = f"belongs to another run than the checkpoint; {remedy}"
            except (OSError, KeyError, RuntimeError):
                fault = f"is damaged; {remedy}"
        self._close()
        raise InputError(f"output: {self._partial} {fault}")

    def _sync(self) -> None:
        assert self._file is not None
        self._file.flush()
        if self.checkpoint is not None:  # a checkpoint must match the file even after a crash
            _to_disk(self._partial)

    def _close(self) -> None:
        self._items = {}
        if self._file is not None:
            # A full disk fails again on closing; the first error is the one to show.
            with contextlib.suppress(Exception):
                self._file.close()
            self._file = None

    def _remove_working_files(self) -> None:
        self._partial.unlink(missing_ok=True)
        self._run_file.unlink(missing_ok=True)
        self._is_begun = False


def working_names(path: Path) -> tuple[Path, Path, Path]:
    """Return the names of the output in progress, of its compressed copy, and of the run's description."""
    endings = (".partial", ".packed.partial", ".partial.json")
    return tuple(path.parent / (path.name + ending) for ending in endings)  # type: ignore[return-value]


def _to_disk(path: Path) -> None:
    with open(path, "rb+") as handle:
        os.fsync(handle.fileno())
