"""What every benchmark measures in the same way: times, copy bandwidth, allocations, the machine."""

from __future__ import annotations

import contextlib
import gc
import importlib
import statistics
import time
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from wavefabric.device import Device, describe
from wavefabric.results.provenance import provenance

#: Bytes of the array whose copy gives the bandwidth: far beyond any cache.
COPY_BYTES = 1 << 28


def machine(device: Device) -> dict[str, Any]:
    """Versions, commit, processor, FFT library and GPU: what a time belongs to."""
    facts: dict[str, Any] = dict(provenance(device=device.name))
    here = describe()
    facts["fft"] = here["fft"]["library"] if device.name == "cpu" else "cufft"
    facts["threads"] = device.threads
    for gpu in here["gpus"]:
        if gpu["name"] == device.name:
            facts["gpu"] = gpu["model"]
            facts["gpu_memory_bytes"] = gpu["memory_bytes"]
    return facts


def milliseconds(
    device: Device,
    work: Callable[[], Any],
    repeats: int,
    each: int = 1,
    between: Callable[[], Any] | None = None,
) -> list[float]:
    """Times of one call of ``work`` in ms, after one that is not counted.

    A sample is `each` calls, divided by it; ``between`` runs before each sample, off the clock.
    """
    if between:
        between()
    work()
    samples = []
    for _ in range(repeats):
        if between:
            between()
        device.synchronize()
        begun = time.perf_counter()
        for _ in range(each):
            work()
        device.synchronize()
        samples.append((time.perf_counter() - begun) / each * 1e3)
    return samples


def summary(samples: list[float]) -> dict[str, float]:
    """Median, smallest and largest of times in ms."""
    return {"ms": statistics.median(samples), "ms_best": min(samples), "ms_worst": max(samples)}


def copy_bandwidth(device: Device, repeats: int = 5, nbytes: int = COPY_BYTES) -> float:
    """Bytes read plus bytes written a second while an array is copied on the device, all threads at work."""
    rows = 4 * device.threads
    shape = (rows, nbytes // 16 // rows)
    source, target = device.zeros(shape, np.complex128), device.zeros(shape, np.complex128)

    def copy(share: slice) -> None:
        device.xp.copyto(target[share], source[share])

    times = milliseconds(device, lambda: device.map_rows(rows, copy), repeats)
    return 2 * source.nbytes / (statistics.median(times) * 1e-3)


class Allocation:
    """Bytes that `allocations` saw at the peak and left over, and Numba's own allocations by number."""

    peak = 0
    kept = 0
    numba = 0


@contextlib.contextmanager
def allocations(device: Device) -> Iterator[Allocation]:
    """Watch what the block allocates on the device.

    On the CPU Python's tracemalloc sees every NumPy array and Python object, and Numba's runtime
    counts the arrays made inside kernels; buffers inside FFTW and SciPy's FFT stay unseen. On a GPU
    the memory that is free before and after the block is compared, CuPy's pool counted as free: what
    is given back inside the block stays unseen there (a captured graph cannot allocate).
    """
    seen = Allocation()
    gc.collect()
    device.synchronize()
    if device.name != "cpu":
        before = device.memory()[0]
        yield seen
        device.synchronize()
        seen.kept = seen.peak = max(0, before - device.memory()[0])
        return
    runtime = importlib.import_module("numba.core.runtime._nrt_python")
    runtime.memsys_enable_stats()
    tracemalloc.start()
    try:
        arrays, before = runtime.memsys_get_stats_alloc(), tracemalloc.get_traced_memory()[0]
        yield seen
        now, peak = tracemalloc.get_traced_memory()
        seen.kept, seen.peak = max(0, now - before), max(0, peak - before)
        seen.numba = runtime.memsys_get_stats_alloc() - arrays
    finally:
        tracemalloc.stop()


def relative_error(device: Device, A, B) -> float:
    """‖A − B‖₂/‖B‖₂ of two fields of the same shape, row by row in double precision."""
    xp = device.xp
    difference = size = 0.0
    for a, b in zip(A, B, strict=True):
        b = b.astype(np.complex128)
        d = a.astype(np.complex128) - b
        difference += float(xp.vdot(d, d).real)
        size += float(xp.vdot(b, b).real)
    return (difference / size) ** 0.5 if size else float("nan")
