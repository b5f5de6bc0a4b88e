"""A device that launches CUDA kernels on the CPU: the package's launchers run on it as on a GPU."""

from __future__ import annotations

import importlib
from functools import lru_cache, partial

import emulated_cuda
import numpy as np
import pytest
from emulated_cuda import DeviceArray, Module

from wavefabric.runtime import exchange
from wavefabric.runtime.device import get_device
from wavefabric.runtime.device.base import repeating
from wavefabric.runtime.device.cpu import CpuDevice
from wavefabric.runtime.kernels.cuda_launch import CudaKernels
from wavefabric.runtime.kernels.cuda_text import cuda_text
from wavefabric.runtime.kernels.table import KernelTable


class _Arrays:
    """NumPy, with arrays between guards where CuPy would allocate them."""

    def __getattr__(self, name: str):
        return getattr(np, name)

    empty = staticmethod(emulated_cuda.empty)

    @staticmethod
    def zeros(shape, dtype=np.float64) -> DeviceArray:
        out = emulated_cuda.empty(shape, dtype)
        out[...] = 0
        return out

    @staticmethod
    def asarray(values, dtype=None) -> DeviceArray:
        values = np.asarray(values, dtype)
        if isinstance(values, DeviceArray):
            return values
        out = emulated_cuda.empty(values.shape, values.dtype)
        out[...] = values
        return out


class EmulatedDevice(CpuDevice):
    """What `CudaDevice` offers; transforms of whole arrays are those of the CPU."""

    xp = _Arrays()
    compilers = 1
    empty = staticmethod(_Arrays.empty)  # pyright: ignore
    zeros = staticmethod(_Arrays.zeros)  # pyright: ignore
    asarray = staticmethod(_Arrays.asarray)  # pyright: ignore

    def __init__(self, seed: int = 0):
        super().__init__(1)
        self.name, self.seed, self.block_memory = "cuda:0", seed, 227 * 1024

    def kernels(self, module):
        if isinstance(module, KernelTable):
            return CudaKernels(module, self) if module.source else super().kernels(module)
        return importlib.import_module(module + "_cuda").KERNELS(self)

    @lru_cache(maxsize=64)  # noqa: B019 - a device lives as long as its modules
    def module(self, package: str, source: str, options=(), before=(), prelude: str = "") -> Module:
        text = cuda_text(*before, f"{package}/{source}")
        return Module(prelude + text, options, self.seed)

    def resident_blocks(self, function, threads: int, shared: int) -> int:
        return (self.block_memory + 1024) // (shared + 1024)

    def graph(self, work, kernels_alone: bool = False):
        return repeating(work)  # kernels run when they are launched

    def launch(self, function, grid, block, arguments, shared: int = 0) -> None:
        function(grid, block, arguments, shared)

    def prepared(self, function, blocks: int, threads: int, arguments, shared: int = 0):
        def value(argument):  # as it is now
            scalar = isinstance(argument, np.ndarray) and argument.ndim == 0
            return argument[()] if scalar and not isinstance(argument, DeviceArray) else argument

        def again() -> None:
            self.launch(function, (blocks,), (threads,), [*map(value, arguments)], shared)

        return again


class CapturingDevice(EmulatedDevice):
    """Captures launches and assignments of arrays, as a CUDA graph does; all else is done once."""

    def __init__(self) -> None:
        super().__init__()
        self._recorded: list | None = None
        self.graphs = 0

    def graph(self, work, kernels_alone: bool = False):
        self._recorded = DeviceArray.capture.recorded = recorded = []
        try:
            work()
        finally:
            self._recorded = DeviceArray.capture.recorded = None
        self.graphs += 1
        return repeating(lambda: [launch() for launch in recorded])

    def launch(self, function, grid, block, arguments, shared: int = 0) -> None:
        if self._recorded is None:
            super().launch(function, grid, block, arguments, shared)
        else:
            self._recorded.append(partial(self.launch, function, grid, block, arguments, shared))


def emulated_world():
    """All MPI ranks, each with an emulated GPU whose arrays MPI reaches as those of a CPU."""
    device = EmulatedDevice()
    device.name, name = "cpu", device.name
    comm = exchange.world("mpi", device=device)
    device.name = name
    return comm


def opened(device):
    """``"emulated"``, or a device and its threads, such as ``"cpu 2"``; skips where there are not so many."""
    name, _, threads = device.partition(" ")
    if name == "emulated":
        return EmulatedDevice()
    try:
        return get_device(name, int(threads or 1))
    except ValueError:
        pytest.skip("this machine has one core")
