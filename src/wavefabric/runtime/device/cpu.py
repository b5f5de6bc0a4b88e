"""Provide the CPU device: NumPy arrays, and kernels of the C++ library on a fixed number of threads."""

import importlib
import math
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from wavefabric.base.errors import InputError
from wavefabric.base.system.machine import host_memory, usable_threads
from wavefabric.runtime.device import views
from wavefabric.runtime.device.base import repeating
from wavefabric.runtime.device.cpu_fft import CpuAxisFFT, CpuRealFFT, CpuRowFFT
from wavefabric.runtime.kernels.cpu_launch import CpuKernels, CpuLauncher
from wavefabric.runtime.kernels.table import KernelTable


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
        self._pool = ThreadPoolExecutor(self.threads)  # starts threads on demand

    def empty(self, shape, dtype):
        # 64-byte alignment: one cache line, one AVX-512 vector. Kernels may read one vector beyond the end.
        return self._aligned(np.empty, shape, dtype)

    def zeros(self, shape, dtype):
        # The system provides zeroed pages when the kernels' threads first touch them.
        return self._aligned(np.zeros, shape, dtype)

    def _aligned(self, make, shape, dtype):
        dtype = np.dtype(dtype)
        size = math.prod(np.atleast_1d(shape).tolist()) * dtype.itemsize
        raw = make(size + 128, np.uint8)
        start = -raw.ctypes.data % 64
        return raw[start : start + size].view(dtype).reshape(shape)

    host_empty = empty

    def copy(self, target, source, /) -> None:
        if target.nbytes < 1 << 24:
            np.copyto(target, source)
            return
        # A single core reaches only a fraction of the memory bandwidth.
        parts = (np.array_split(array, self.threads) for array in (target, source))
        list(self._pool.map(np.copyto, *parts))

    asarray, to_host = staticmethod(np.asarray), staticmethod(np.asarray)
    view, address, borrow = staticmethod(views.view), staticmethod(views.address), staticmethod(views.borrow)

    def fft(self, array, axis: int = -1):
        import scipy.fft

        return scipy.fft.fft(array, axis=axis, workers=self.threads)

    def ifft(self, array, axis: int = -1):
        import scipy.fft

        return scipy.fft.ifft(array, axis=axis, workers=self.threads)

    def row_fft(self, rows: int, n: int, dtype) -> CpuRowFFT:
        return CpuRowFFT(self, n, dtype)

    def real_fft(self, shape, dtype, axes: tuple[int, ...] = (0, 1, 2)) -> CpuRealFFT:
        return CpuRealFFT(self, shape, dtype, axes)

    def axis_fft(self, shape, dtype, axis: int) -> CpuAxisFFT:
        return CpuAxisFFT(self, shape, dtype, axis)

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
        return self._launcher.recorded(work) if kernels_alone else repeating(work)

    def synchronize(self) -> None:
        pass

    def memory(self) -> tuple[int, int]:
        return host_memory()
