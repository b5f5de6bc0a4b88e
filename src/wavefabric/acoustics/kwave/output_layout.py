"""Defines the layout of k-Wave's output file: datasets, chunks and header; writes a compressed copy.

Source: k-Wave manual 1.1, appendix B, and the files of the C++ programs 1.3.
"""

import contextlib
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np

from wavefabric.acoustics.kwave.format import put, put_attribute, put_header, put_types, sensor_datasets
from wavefabric.acoustics.kwave.input import KWaveInput
from wavefabric.acoustics.problem import Cuboids
from wavefabric.acoustics.recording.sinks import RecordingLayout, Report
from wavefabric.acoustics.run_settings import default_threads
from wavefabric.base.results.hdf5_output import OutputFile

#: Options of all output files: a format that older readers know, and no chunk cache. Rows are written whole,
#: and HDF5's chunk cache would only copy them once more, at up to three quarters of the speed.
OPEN_OPTIONS: dict[str, Any] = {"libver": ("earliest", "v110"), "rdcc_nbytes": 0}
#: Approximate bytes that HDF5 stores about each chunk.
_CHUNK_BYTES = 64
# As in k-Wave: rows of more than 32 MB are cut into chunks of 4 MB. HDF5 itself allows below 4 GB.
_LONG_ROW, _CUT_ROW = 1 << 23, 1 << 20
#: Bytes compressed in one piece.
_COPY_BYTES = 1 << 26
# Size of texts that are known only at the end and then overwrite placeholders.
_MEASURED_BYTES = 16

#: Attributes with the times of the phases of a run, and the names of these phases in a `Report`.
PHASES = {
    "data_loading_phase_execution_time": "loading",
    "pre-processing_phase_execution_time": "preprocessing",
    "compilation_phase_execution_time": "compilation",
    "simulation_phase_execution_time": "simulation",
    "post-processing_phase_execution_time": "postprocessing",
}


class OutputDataset(NamedTuple):
    """Describes a dataset to create: its path in the file, shape and chunk."""

    path: str
    shape: tuple[int, ...]
    chunk: tuple[int, ...]

    @property
    def file_bytes(self) -> int:
        """Return the bytes that the dataset needs in the file."""
        size = math.prod(self.shape)
        return 4 * size + _CHUNK_BYTES * size // math.prod(self.chunk)


def output_datasets(
    layout: RecordingLayout, sensor: np.ndarray | Cuboids | None, grid: tuple[int, int, int]
) -> dict[str, list[OutputDataset]]:
    """Return a dictionary from recorded quantity to its datasets: one, or one per cuboid.

    ``grid`` is (Nz, Ny, Nx), the shape of whole-domain quantities.
    """
    rows_of = {name: ((rows,), samples) for name, (rows, samples) in layout.series.items()}
    # A statistic has no time axis.
    rows_of |= {name: ((), samples) for name, samples in layout.points.items()}
    datasets: dict[str, list[OutputDataset]] = {}
    for name, (rows, samples) in rows_of.items():
        if isinstance(sensor, Cuboids):
            datasets[name] = []
            for i, box in enumerate(sensor.shapes(), 1):
                # A chunk is a whole cuboid, or a plane if HDF5 does not allow a chunk of that size.
                chunk = box if math.prod(box) * 8 < 1 << 32 else (1, *box[1:])
                dataset = OutputDataset(f"{name}/{i}", (*rows, *box), (*(1 for _ in rows), *chunk))
                datasets[name].append(dataset)
        else:
            datasets[name] = [OutputDataset(name, (1, *(rows or (1,)), samples), (1, 1, _row_chunk(samples)))]
    return datasets | {name: [OutputDataset(name, grid, (1, *grid[1:]))] for name in layout.fields}


def _row_chunk(samples: int) -> int:
    return samples if samples <= _LONG_ROW else _CUT_ROW


def allocate(file: h5py.File, dataset: OutputDataset) -> None:
    """Create a dataset and allocate all its chunks in the file at once."""
    settings = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    settings.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    # All data will be written; writing zeros first would double the cost.
    settings.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    path, shape, chunk = dataset
    put_types(file.create_dataset(path, shape, "<f4", chunks=chunk, dcpl=settings))


def put_input(file: h5py.File, input: KWaveInput, sensor_too: bool) -> None:
    """Write the scalars copied from the input, the number of steps and, if ``sensor_too``, the sensor."""
    steps, sensor = input.problem.steps, input.sensor
    for name, value in {**input.copied_scalars, "Nt": steps, "t_index": steps}.items():
        put(file, name, value)
    for name, value in sensor_datasets(sensor).items() if sensor_too and sensor is not None else ():
        put(file, name, value, (1, value.shape[1], _row_chunk(value.shape[2])) if np.ndim(value) else None)


def put_run(file: h5py.File, input: KWaveInput, threads: int | None, report: Report, plan: str) -> None:
    """Write the output file's header attributes; times and memory overwrite the previous values."""
    seconds = {name: report.seconds.get(phase, 0.0) for name, phase in PHASES.items()}
    megabytes = report.peak_bytes >> 20
    threads = threads or default_threads(input.problem.shape)
    # Users share result files, so the host name is left out.
    shared = {"host_names": "-", "number_of_cpu_cores": str(threads)}
    put_header(file, "output", input.attributes.get("file_description", ""), "%d/%m/%y, %H:%M:%S", **shared)
    measured = {
        "peak_core_memory_in_use": f"{megabytes // threads} MB",
        "total_memory_in_use": f"{megabytes} MB",
        "gpu_memory_in_use": f"{report.device_bytes >> 20} MB",
        "time_step_execution_time": f"{report.step_seconds:.9f}s",
        **{name: f"{value:8.2f}s" for name, value in seconds.items()},
        "total_execution_time": f"{sum(seconds.values()):8.2f}s",
    }
    for name, text in measured.items():
        put_attribute(file, name, text, _MEASURED_BYTES)
    if plan:
        put_attribute(file, "plan", plan)


@contextlib.contextmanager
def compressed_copy(file: h5py.File, path: Path, level: int) -> Iterator[h5py.File]:
    """Yield the new file ``path`` with deflated copies of all datasets, copied some planes at a time."""

    def copy(name: str, item: Any) -> None:
        if not isinstance(item, h5py.Dataset):
            return
        options: dict[str, Any] = {}
        if item.chunks:
            options = {"chunks": item.chunks, "compression": "gzip", "compression_opts": level}
        target = packed.create_dataset(name, item.shape, item.dtype, **options)
        put_types(target)
        axis = int(item.shape[0] == 1)
        count = max(1, _COPY_BYTES * item.shape[axis] // max(item.nbytes, 1))
        for first in range(0, item.shape[axis], count):
            part = (slice(None),) * axis + (slice(first, first + count),)
            target[part] = item[part]
            packed.check()

    with OutputFile(path, **OPEN_OPTIONS) as packed:
        file.visititems(copy)
        yield packed
