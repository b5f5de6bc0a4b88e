"""k-Wave's output file, written while the run goes on, so that it survives a kill and can be resumed.

Time series go to ``NAME.partial`` as they come. All datasets and attributes are there before the first step,
with all their room: from then on only data change in the file, none of its structure, and a kill leaves it
readable up to the moment when it gets its name. ``NAME.partial.json`` says which run it is of, and which
checkpoint goes with it.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np

import wavefabric
from wavefabric.acoustics.kwave.format import put_array, put_attribute, put_scalar, put_types
from wavefabric.acoustics.kwave.input import KWaveInput
from wavefabric.acoustics.problem import Cuboids
from wavefabric.acoustics.recording.sinks import Layout, Report
from wavefabric.acoustics.threads import default_threads
from wavefabric.errors import InputError
from wavefabric.files.output import check_output, sync_folder
from wavefabric.files.text import write_text
from wavefabric.results.checkpoint import read_state

#: What HDF5 keeps about each chunk, about.
_CHUNK_BYTES = 64
# Of texts that are known at the end only, and then written over what is there.
_MEASURED_BYTES = 16
# As in k-Wave: rows of more than 32 MB are cut into chunks of 4 MB. HDF5 itself allows below 4 GB.
_LONG_ROW, _CUT_ROW = 1 << 23, 1 << 20
_COPY_BYTES = 1 << 26
# A format that older readers know. Rows are written whole: HDF5's chunk cache would only copy them once
# more, and costs up to three quarters of the speed.
_OPEN: dict[str, Any] = {"libver": ("earliest", "v110"), "rdcc_nbytes": 0}

_PHASES = {
    "data_loading_phase_execution_time": "loading",
    "pre-processing_phase_execution_time": "preprocessing",
    "simulation_phase_execution_time": "simulation",
    "post-processing_phase_execution_time": "postprocessing",
}


class KWaveOutput:
    """A `Sink` that writes what k-Wave would write.

    Parameters
    ----------
    path : str or Path
        The output file. It appears under this name only when the run is complete.
    input : KWaveInput
        The run's input.
    compression : int
        0 for none, to 9: HDF5's deflate, applied when the run is complete.
    copy_sensor_mask : bool
        Put the sensor mask into the file too.
    force : bool
        Replace a file that is there.
    start : int
        First time step recorded, 0-based: a file begun with another one is not gone on with.
    threads : int, optional
        CPU threads, for the header only.
    checkpoint : path, optional
        Checkpoint of the run: an unfinished file of this output that another checkpoint goes on from is kept.

    Raises
    ------
    InputError
        If the file exists (without `force`), is no regular file or the input, cannot be written, or is
        unfinished and belongs to a run that can go on (without `force`).

    Notes
    -----
    ``finished`` tells whether the file is complete. Everything is stored as float32, k-Wave's only real type,
    whatever the precision of the run.
    """

    def __init__(
        self,
        path: str | Path,
        input: KWaveInput,
        *,
        compression: int = 0,
        copy_sensor_mask: bool = False,
        force: bool = False,
        start: int = 0,
        threads: int | None = None,
        checkpoint: str | Path | None = None,
    ):
        self.path, self._force = check_output(path, force), force
        self._partial, self._packed, self._facts = working_names(self.path)
        self._checkpoint = None if checkpoint is None else Path(checkpoint).resolve()
        self._check_unfinished()
        if input.path.resolve() in [name.resolve() for name in (self.path, *working_names(self.path))]:
            raise InputError(
                f"output: {path} is the input, or replaces it while it is made; allowed: another"
            )
        self.finished = False
        self._input = input
        self._level = compression
        self._copy_mask = copy_sensor_mask
        self._start = start
        self._threads = threads or default_threads(input.problem.shape)
        self._boxes = input.sensor.shapes() if isinstance(input.sensor, Cuboids) else None
        self._file: h5py.File | None = None
        self._items: dict[str, list[h5py.Dataset]] = {}
        self._begun = False
        self._lock = threading.Lock()

    # --- Sink ----------------------------------------------------------------------------------------

    def begin(self, layout: Layout, rows_done: int) -> None:
        """Make room for all that is recorded, or open the file of an earlier leg.

        Raises
        ------
        InputError
            If ``rows_done`` is not 0 and that file is missing, damaged or of another run.
        """
        described = self._describe(layout)
        parts = self._parts(layout)
        with self._lock:
            # Once more, now that nobody else writes here: another run may have ended since the first look.
            check_output(self.path, self._force)
            if rows_done:
                self._reopen(described, layout.run)
            else:
                self._check_unfinished()
                self._check_room(parts)
            self._begun = True
            if not rows_done:
                facts = {"parts": described, "run": layout.run, "checkpoint": str(self._checkpoint or "")}
                write_text(self._facts, json.dumps(facts), "output", force=True)
                self._create(parts)
            assert self._file is not None
            self._items = {name: [self._file[p.place] for p in found] for name, found in parts.items()}  # type: ignore[misc]

    def rows(self, name: str, first: int, block: np.ndarray) -> None:
        """Write rows of a time series."""
        with self._lock:
            if self._boxes is None:
                self._items[name][0][0, first : first + len(block)] = block
                return
            at = 0
            for item in self._items[name]:
                size = math.prod(item.shape[1:])
                part = block[:, at : at + size].reshape(len(block), *item.shape[1:])
                item[first : first + len(block)] = part
                at += size

    def flush(self) -> None:
        """Put all rows so far on the disk."""
        with self._lock:
            self._sync()

    def finish(self, arrays: Mapping[str, np.ndarray], report: Report) -> None:
        """Add statistics, fields and header, and give the file its name."""
        with self._lock:
            assert self._file is not None
            try:
                for name, array in arrays.items():
                    flat, at = array.reshape(-1), 0
                    for item in self._items[name]:
                        size = math.prod(item.shape)
                        item[...] = flat[at : at + size].reshape(item.shape)
                        at += size
                if self._level:
                    self._pack(self._file, report)
                else:
                    self._put_header(self._file, report)
                    self._sync()
                self._close()
                made = self._packed if self._level else self._partial
                with open(made, "rb+") as handle:
                    os.fsync(handle.fileno())
                os.replace(made, self.path)
            finally:
                self._close()
                self._packed.unlink(missing_ok=True)
            sync_folder(self.path.parent)
            self._partial.unlink(missing_ok=True)
            self._facts.unlink(missing_ok=True)
            self._begun = False
            self.finished = True

    def abandon(self, keep: bool) -> None:
        """Close the file; remove it if no checkpoint refers to it."""
        with self._lock:
            # One that never began leaves alone what belongs to an earlier leg.
            if not self._begun:
                return
            if keep and self._file is not None:
                self._sync()
            self._close()
            if not keep:
                self._partial.unlink(missing_ok=True)
                self._facts.unlink(missing_ok=True)
            self._begun = False

    # --- The file ------------------------------------------------------------------------------------

    def _describe(self, layout: Layout) -> str:
        parts = {name: [part.shape for part in found] for name, found in sorted(self._parts(layout).items())}
        return json.dumps({"parts": parts, "start": self._start})

    def _parts(self, layout: Layout) -> dict[str, list[_Part]]:
        """The datasets of every quantity: one, or one a cuboid."""
        found: dict[str, list[_Part]] = {}
        boxes = None if self._boxes is None else list(enumerate(self._boxes, 1))
        for name, (rows, samples) in layout.series.items():
            if boxes is None:
                found[name] = [_Part(name, (1, rows, samples), (1, 1, _row(samples)))]
            else:
                found[name] = [_Part(f"{name}/{i}", (rows, *box), (1, *_plane(box))) for i, box in boxes]
        for name, samples in layout.points.items():
            if boxes is None:
                found[name] = [_Part(name, (1, 1, samples), (1, 1, _row(samples)))]
            else:
                found[name] = [_Part(f"{name}/{i}", box, _plane(box)) for i, box in boxes]
        grid = self._input.problem.array_shape
        for name in layout.fields:
            found[name] = [_Part(name, grid, (1, *grid[1:]))]
        return found

    def _check_room(self, parts: dict[str, list[_Part]]) -> None:
        """Everything is laid out at once: say so now if the disk cannot hold it."""
        needed = sum(
            4 * math.prod(p.shape) + _CHUNK_BYTES * math.prod(p.shape) // math.prod(p.chunk)
            for found in parts.values()
            for p in found
        ) * (2 if self._level else 1)
        free, steps = shutil.disk_usage(self.path.parent).free, self._input.problem.steps
        if needed > free:
            raise InputError(
                f"output: {self.path} needs {needed / 2**30:.3g} GiB for {steps} time steps (Nt), "
                f"and {free / 2**30:.3g} GiB are free; record less, or fewer points"
            )

    def _check_unfinished(self) -> None:
        """Keep the file of another run that can still go on from its own checkpoint."""
        facts = self._read_facts()
        other = Path(facts.get("checkpoint") or "/")
        if self._force or not self._partial.exists() or other == self._checkpoint:
            return
        if _goes_on(other, facts.get("run", "")):
            raise InputError(
                f"output: {self._partial} is the unfinished output of another run, which goes on from "
                f"{other}; allowed: another name, to finish that run, or --force"
            )

    def _read_facts(self) -> dict[str, Any]:
        try:
            facts = json.loads(self._facts.read_text("utf-8"))
        except (OSError, ValueError):
            return {}
        return facts if isinstance(facts, dict) else {}

    def _create(self, parts: dict[str, list[_Part]]) -> None:
        file = self._file = h5py.File(self._partial, "w", **_OPEN)
        self._put_header(file, Report())
        for part in (part for found in parts.values() for part in found):
            _make_room(file, part)
        steps = self._input.problem.steps
        for name, value in {**self._input.echo, "Nt": steps, "t_index": steps}.items():
            put_scalar(file, name, value)
        sensor = self._input.sensor
        if self._copy_mask and sensor is not None:
            corners = isinstance(sensor, Cuboids)
            put_scalar(file, "sensor_mask_type", int(corners))
            mask = (
                np.concatenate([sensor.first, sensor.last], axis=1)[None] if corners else sensor[None, None]
            )
            name = "sensor_mask_corners" if corners else "sensor_mask_index"
            put_array(file, name, (mask + 1).astype(np.uint64), (1, mask.shape[1], _row(mask.shape[2])))
        self._sync()

    def _reopen(self, described: str, run: str) -> None:
        word = f"output: {self._partial}"
        if not self._partial.exists():
            raise InputError(
                f"{word} is missing, the checkpoint needs what it holds; remove the checkpoint and start anew"
            )
        try:
            self._file = h5py.File(self._partial, "r+", **_OPEN)
        except (OSError, KeyError, RuntimeError):
            self._close()
            raise InputError(f"{word} is damaged; remove it and the checkpoint and start anew") from None
        facts = self._read_facts()
        if facts.get("parts") != described or facts.get("run") != run:
            self._close()
            raise InputError(
                f"{word} belongs to another run than the checkpoint; "
                "remove it and the checkpoint and start anew"
            )

    def _sync(self) -> None:
        assert self._file is not None
        self._file.flush()
        with open(self._partial, "rb+") as handle:
            os.fsync(handle.fileno())

    def _close(self) -> None:
        self._items = {}
        if self._file is not None:
            # A disk that is full fails once more here; the first error is the one to show.
            with contextlib.suppress(Exception):
                self._file.close()
            self._file = None

    def _pack(self, file: h5py.File, report: Report) -> None:
        """A deflated copy in another file, some planes at a time."""
        with h5py.File(self._packed, "w", **_OPEN) as packed:

            def copy(name: str, item: Any) -> None:
                if not isinstance(item, h5py.Dataset):
                    return
                options: dict[str, Any] = {}
                if item.chunks:
                    options = {"chunks": item.chunks, "compression": "gzip", "compression_opts": self._level}
                target = packed.create_dataset(name, item.shape, item.dtype, **options)
                put_types(target)
                axis = int(item.shape[0] == 1)
                count = max(1, _COPY_BYTES * item.shape[axis] // max(item.nbytes, 1))
                for first in range(0, item.shape[axis], count):
                    here = (slice(None),) * axis + (slice(first, first + count),)
                    target[here] = item[here]

            file.visititems(copy)
            self._put_header(packed, report)

    def _put_header(self, file: h5py.File, report: Report) -> None:
        seconds = {name: report.seconds.get(phase, 0.0) for name, phase in _PHASES.items()}
        megabytes = report.peak_bytes >> 20
        header = {
            "created_by": f"wavefabric {wavefabric.__version__}",
            "creation_date": time.strftime("%d/%m/%y, %H:%M:%S"),
            "file_description": self._input.attributes.get("file_description", ""),
            "file_type": "output",
            # Results are shared: no name of a computer.
            "host_names": "-",
            "major_version": "1",
            "minor_version": "2",
            "number_of_cpu_cores": str(self._threads),
        }
        measured = {
            "peak_core_memory_in_use": f"{megabytes // self._threads} MB",
            "total_memory_in_use": f"{megabytes} MB",
            **{name: f"{value:8.2f}s" for name, value in seconds.items()},
            "total_execution_time": f"{sum(seconds.values()):8.2f}s",
        }
        for name, text in header.items():
            put_attribute(file, name, text)
        for name, text in measured.items():
            put_attribute(file, name, text, _MEASURED_BYTES)


def working_names(path: Path) -> tuple[Path, Path, Path]:
    """Where an output is while it is made, while it is compressed, and what says which run it is of."""
    endings = (".partial", ".packed.partial", ".partial.json")
    return tuple(path.parent / (path.name + ending) for ending in endings)  # type: ignore[return-value]


def _goes_on(checkpoint: Path, run: str) -> bool:
    """Whether a checkpoint is there and of this run."""
    try:
        return bool(run) and read_state(checkpoint, None).get("run") == run
    except (InputError, OSError):
        return False


class _Part(NamedTuple):
    place: str
    shape: tuple[int, ...]
    chunk: tuple[int, ...]


def _row(samples: int) -> int:
    """Chunk of a row of samples."""
    return samples if samples <= _LONG_ROW else _CUT_ROW


def _plane(box: tuple[int, int, int]) -> tuple[int, ...]:
    """Chunk of a cuboid: all of it, or a plane where HDF5 takes no chunk that big."""
    return box if math.prod(box) * 8 < 1 << 32 else (1, *box[1:])


def _make_room(file: h5py.File, part: _Part) -> None:
    """A dataset whose chunks all have their place in the file at once."""
    settings = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    settings.set_chunk(part.chunk)
    settings.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    # All of it will be written; zeros would cost as much again.
    settings.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    folder, _, name = part.place.rpartition("/")
    group = file.require_group(folder) if folder else file
    space = h5py.h5s.create_simple(part.shape)
    h5py.h5d.create(group.id, name.encode(), h5py.h5t.IEEE_F32LE, space, settings)
    put_types(file[part.place])  # type: ignore[arg-type]
