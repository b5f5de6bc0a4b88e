"""CPU: NumPy arrays, FFTW transforms (scipy.fft where it is missing), Numba kernels."""

from __future__ import annotations

import importlib
import math
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import scipy.fft

from wavefabric.device import compiling, views
from wavefabric.device.cpu_fft import CpuRowFFT, axis_fft, real_fft
from wavefabric.errors import InputError
from wavefabric.system.machine import host_memory, usable_threads


class CpuDevice:
    """The CPU of this machine, with a fixed number of threads."""

    xp = np
    block_memory = 0

    def __init__(self, threads: int | None = None):
        available = usable_threads()
        most = max(available, os.cpu_count() or 1)
        self.name = "cpu"
        self.threads = available if threads is None else int(threads)
        if not 1 <= self.threads <= most:
            raise InputError(f"threads: {threads} given; allowed: 1 to {most}")
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

    def kernels(self, module: str):
        import numba
        from numba.core import config

        # A pool of workers may be smaller than what this machine offers, never larger.
        numba.set_num_threads(min(self.threads, config.NUMBA_NUM_THREADS))  # pyright: ignore
        compiling.listen()
        return importlib.import_module(module)

    def graph(self, work):
        return work

    def synchronize(self) -> None:
        pass

    def memory(self) -> tuple[int, int]:
        return host_memory()

    def used_memory(self) -> int:
        """Resident size; 0 where the system does not tell."""
        try:
            return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, IndexError, ValueError):
            return 0
