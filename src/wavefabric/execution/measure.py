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


def machine(device: Device) -> dict[str, Any]:
    """Versions, commit, processor, FFT library and GPU: what a time belongs to."""
    facts: dict[str, Any] = dict(provenance(device=device.name))
    here = describe()
    facts["fft"] = here["fft"]["library"] if device.name == "cpu" else "cufft"
    facts["threads"] = device.threads
    for gpu in here["gpus"]:
        if gpu["name"] == device.name:
            facts |= {"gpu": gpu["model"], "gpu_memory_bytes": gpu["memory_bytes"]}
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
    prepare = between or (lambda: None)
    prepare()
    work()
    samples = []
    for _ in range(repeats):
        prepare()
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


def copy_bandwidth(device: Device, repeats: int = 5, nbytes: int = 1 << 28) -> float:
    """Bytes read plus written a second while an array far beyond any cache is copied, all threads at work."""
    rows = 4 * device.threads
    shape = (rows, nbytes // 16 // rows)
    source, target = device.zeros(shape, np.complex128), device.zeros(shape, np.complex128)

    def copy() -> None:
        device.map_rows(rows, lambda share: device.xp.copyto(target[share], source[share]))

    times = milliseconds(device, copy, repeats)
    return 2 * source.nbytes / (statistics.median(times) * 1e-3)


class Allocation:
    """Bytes that `allocations` saw at the peak and left over, and Numba's own allocations by number."""

    peak = 0
    kept = 0
    numba = 0


@contextlib.contextmanager
def allocations(device: Device) -> Iterator[Allocation]:
    """Watch what the block allocates on the device.

    On a CPU buffers inside FFTW and SciPy's FFT stay unseen; on a GPU what is given back inside the block.
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
