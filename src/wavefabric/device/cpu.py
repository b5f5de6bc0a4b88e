"""CPU: NumPy arrays, FFTW transforms (scipy.fft where pyfftw is missing), Numba kernels."""

import importlib
import math
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import numpy as np
import scipy.fft

from wavefabric.device import fftw, views
from wavefabric.errors import InputError
from wavefabric.kernels.cpu_launch import CpuKernels, CpuLauncher
from wavefabric.kernels.table import KernelTable
from wavefabric.system.machine import host_memory, usable_threads


class CpuRowFFT:
    """In-place transforms of rows of ``n`` samples; each call runs in the thread that makes it.

    ``threads`` are those inside one transform.
    """

    def __init__(self, n: int, dtype, threads: int = 1):
        self._n, self._dtype, self._threads = n, np.dtype(dtype), threads
        # Rows after the first are aligned only if a row is a whole number of vectors.
        self._flags = () if n * self._dtype.itemsize % 64 == 0 else ("FFTW_UNALIGNED",)
        self._of_thread = threading.local()
        if fftw.pyfftw:
            self._plans()

    def forward(self, rows) -> None:
        self._run(rows, 0)

    def backward(self, rows) -> None:
        self._run(rows, 1)

    def _run(self, rows, sign: int) -> None:
        plan = self._plans()[sign] if fftw.pyfftw else None
        for row in rows if rows.ndim == 2 else (rows,):
            if plan:
                fftw.execute(plan, row, row)
            else:
                _scipy(sign, row, overwrite_x=True, workers=self._threads)

    def _make_plans(self) -> tuple:
        row = fftw.aligned(self._n, self._dtype)
        return tuple(fftw.plan(row, row, sign, (-1,), self._threads, *self._flags) for sign in fftw.SIGNS)

    def _plans(self) -> tuple:
        if not hasattr(self._of_thread, "plans"):
            problem = f"row {self._n} {self._dtype} threads {self._threads}"
            self._of_thread.plans = fftw.planned(problem, self._make_plans)
        return self._of_thread.plans


class CpuFFT(NamedTuple):
    """Transforms there and back, of arrays like those planned for."""

    forward: Callable[..., None]
    backward: Callable[..., None]


def real_fft(shape, dtype, axes: tuple[int, ...], threads: int) -> CpuFFT:
    """Transforms of real fields with all threads, along all axes or some, the last among them."""
    shape = tuple(map(int, shape))
    axes = tuple(axis for axis in axes if shape[axis] > 1 or axis == 2)
    if fftw.pyfftw:
        half, kind = (*shape[:-1], shape[-1] // 2 + 1), np.result_type(dtype, np.complex64)

        def make() -> tuple:
            real, spectrum = fftw.aligned(shape, dtype), fftw.aligned(half, kind)
            return (
                fftw.plan(real, spectrum, fftw.SIGNS[0], axes, threads),
                fftw.plan(spectrum, real, fftw.SIGNS[1], axes, threads, "FFTW_DESTROY_INPUT"),
            )

        there, back = fftw.planned(f"real {shape} {np.dtype(dtype)} axes {axes} threads {threads}", make)
        return CpuFFT(lambda *arrays: fftw.execute(there, *arrays), lambda *a: fftw.execute(back, *a))
    sizes = [shape[axis] for axis in axes]

    def forward(real, spectrum) -> None:
        spectrum[...] = scipy.fft.rfftn(real, axes=axes, workers=threads)

    def backward(spectrum, real) -> None:
        real[...] = scipy.fft.irfftn(spectrum, sizes, axes, "forward", workers=threads)

    return CpuFFT(forward, backward)


def axis_fft(shape, dtype, axis: int, threads: int) -> CpuFFT:
    """In-place complex transforms along one axis of a 3-D array, with all threads."""
    shape = tuple(map(int, shape))
    if fftw.pyfftw:

        def make() -> tuple:
            array = fftw.aligned(shape, dtype)
            return tuple(fftw.plan(array, array, sign, (axis,), threads) for sign in fftw.SIGNS)

        there, back = fftw.planned(f"axis {axis} of {shape} {np.dtype(dtype)} threads {threads}", make)
        return CpuFFT(lambda a: fftw.execute(there, a, a), lambda a: fftw.execute(back, a, a))

    return CpuFFT(*(partial(_scipy, sign, axis=axis, workers=threads) for sign in range(2)))


def _scipy(sign: int, array, **options) -> None:
    """Transform in place, forward (0) or backward (1)."""
    transform, norm = ((scipy.fft.fft, "backward"), (scipy.fft.ifft, "forward"))[sign]
    array[...] = transform(array, norm=norm, **options)


class CpuDevice:
    """The CPU of this machine, with a fixed number of threads."""

    xp = np
    block_memory = 0

    def __init__(self, threads: int | None = None):
        available = usable_threads()
        most = max(available, os.cpu_count() or 1)
        self.name = self.identity = "cpu"
        self.threads = available if threads is None else int(threads)
        if not 1 <= self.threads <= most:
            raise InputError(f"threads: {threads} given; allowed: 1 to {most}")
        self._launcher = CpuLauncher(self.threads)
        self._pool = ThreadPoolExecutor(self.threads)  # starts its threads when they are needed

    def empty(self, shape, dtype):
        # 64-byte alignment: one cache line, one AVX-512 vector, what FFTW was planned for.
        dtype = np.dtype(dtype)
        size = int(np.prod(shape)) * dtype.itemsize
        raw = np.empty(size + 64, np.uint8)
        start = -raw.ctypes.data % 64
        return raw[start : start + size].view(dtype).reshape(shape)

    def zeros(self, shape, dtype):
        out = self.empty(shape, dtype)
        out[...] = 0
        return out

    host_empty = empty

    def copy(self, target, source, /) -> None:
        if target.nbytes < 1 << 24:
            np.copyto(target, source)
            return
        # Of many cores one has little of the bandwidth of memory.
        parts = (np.array_split(array, self.threads) for array in (target, source))
        list(self._pool.map(np.copyto, *parts))

    asarray, to_host = staticmethod(np.asarray), staticmethod(np.asarray)
    view, address, borrow = staticmethod(views.view), staticmethod(views.address), staticmethod(views.borrow)

    def fft(self, array, axis: int = -1):
        return scipy.fft.fft(array, axis=axis, workers=self.threads)

    def ifft(self, array, axis: int = -1):
        return scipy.fft.ifft(array, axis=axis, workers=self.threads)

    def row_fft(self, rows: int, n: int, dtype) -> CpuRowFFT:
        return CpuRowFFT(n, dtype, max(1, self.threads // rows))

    def real_fft(self, shape, dtype, axes: tuple[int, ...] = (0, 1, 2)):
        # Threads gain nothing on small fields; with one, plans and so bits are the same for any number.
        threads = max(1, min(self.threads, math.prod(shape) >> 16))
        return real_fft(shape, dtype, axes, threads)

    def axis_fft(self, shape, dtype, axis: int):
        return axis_fft(shape, dtype, axis, self.threads)

    def export(self, array):
        return lambda: array

    def map_rows(self, rows: int, work) -> None:
        def part(first: int) -> None:
            for row in range(first, rows, workers):
                work(slice(row, row + 1))

        workers = min(self.threads, rows)
        waiting = [self._pool.submit(part, first) for first in range(1, workers)]
        part(0)
        for task in waiting:
            task.result()

    def kernels(self, table: KernelTable | str):
        if isinstance(table, KernelTable):
            return CpuKernels(table, self._launcher)
        module = importlib.import_module(table)
        return module.KERNELS(self) if hasattr(module, "KERNELS") else module

    def graph(self, work, kernels_alone: bool = False):
        return self._launcher.recorded(work) if kernels_alone else work

    def synchronize(self) -> None:
        pass

    def memory(self) -> tuple[int, int]:
        return host_memory()
