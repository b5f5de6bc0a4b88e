"""Runs multithreaded C++ kernels (``kernels/cpu/setup.cpp``) on grid arrays before the first time step."""

from typing import Any

import numpy as np

from wavefabric.base.system.machine import usable_threads
from wavefabric.runtime.device.views import address as memory_address
from wavefabric.runtime.kernels.cpu_launch import CpuKernels, CpuLauncher, call_kernel
from wavefabric.runtime.kernels.table import KernelTable

#: Smallest number of points per thread for which another thread saves time.
_THREAD = 1 << 17
#: Number of parts into which a reduction divides a field; the number of threads does not change the result.
_PARTS = 1024

Shape = tuple[int, int, int]
#: Slices of the planes and rows of an array (Nz, Ny, Nx).
Part = tuple[slice, slice]


def parts(shape: Shape, points: int) -> list[Part]:
    """Return slices (z, y) that split a grid (Nz, Ny, Nx) into blocks of at most ``points`` points.

    A block consists of whole planes or, if a plane has too many points, of rows of one plane, at least one.
    """
    nz, ny, nx = shape
    rows = max(1, points // max(nx, 1))
    if rows < ny:
        return [(slice(z, z + 1), slice(y, min(y + rows, ny))) for z in range(nz) for y in range(0, ny, rows)]
    planes = max(1, rows // max(ny, 1))
    return [(slice(z, min(z + planes, nz)), slice(0, ny)) for z in range(0, nz, planes)]


def threads_for(points: int) -> int:
    """Return the number of threads worth using for ``points`` points."""
    return max(1, min(usable_threads(), points // _THREAD))


def run_setup(name: str, dtype: Any, points: int, *arguments: Any, threads: int | None = None) -> None:
    """Run the C++ kernel ``name`` in the precision of ``dtype``, by default on `threads_for` threads."""
    precision = {np.dtype(np.float32): "float", np.dtype(np.float64): "double"}[np.dtype(dtype)]
    call_kernel(f"{name}_{precision}", *arguments, threads=threads or threads_for(points))


def host_kernels(table: KernelTable, points: int) -> Any:
    """Return the kernels of ``table`` for host memory, on `threads_for` threads."""
    return CpuKernels(table, CpuLauncher(threads_for(points)))


def partial_results(size: int, columns: int) -> np.ndarray:
    """Return an uninitialised array (parts, columns) for the results of a reduction that runs in parts.

    There are at most `_PARTS` parts, and no more than ``size``, the number of items that are reduced.
    """
    return np.empty((max(1, min(size, _PARTS)), columns))


def copy_in_order(target: np.ndarray, source: np.ndarray) -> None:
    """Copy ``source`` (Nz, Ny, Nx) into ``target``; both of float32 or float64, in any memory order."""

    if not source.flags.aligned or any(stride % source.itemsize for stride in source.strides):
        source = source.copy()  # such as a field of a structured array

    def layout(array: np.ndarray) -> tuple[int, ...]:
        return memory_address(array), *(stride // array.itemsize for stride in array.strides)

    run_setup("copy_field", source.dtype, source.size, *layout(target), *layout(source), *source.shape)


def value_range(field: np.ndarray) -> tuple[float, float]:
    """Return the smallest and the largest value of a float32 or float64 array; NaN if it contains a NaN."""
    run_setup("ranges", field.dtype, field.size, field, partials := partial_results(field.size, 2))
    return float(partials[:, 0].min()), float(partials[:, 1].max())


def largest(field: np.ndarray) -> float:
    """Return the largest magnitude of a float32 or float64 array."""
    low, high = value_range(field)
    return max(high, -low)
