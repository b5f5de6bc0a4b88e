"""Provide the GPU device: CuPy arrays, cuFFT plans with work areas, ``.cu`` kernels by NVRTC, CUDA graphs."""

import importlib
import math
import os
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import numpy as np

from wavefabric.base.system.machine import usable_threads
from wavefabric.base.system.user_cache import redirect
from wavefabric.runtime.device.base import repeating
from wavefabric.runtime.device.bfloat16 import viewed
from wavefabric.runtime.device.views import DLPACK_CUDA
from wavefabric.runtime.kernels.cuda_launch import CudaKernels
from wavefabric.runtime.kernels.cuda_text import cuda_text
from wavefabric.runtime.kernels.table import KernelTable

redirect("CUPY_CACHE_DIR", "cupy", "~/.cupy/kernel_cache")  # CuPy fails if it cannot write its cache

import cupy  # noqa: E402
from cupy.cuda import cufft  # noqa: E402

from wavefabric.runtime.device.nvrtc import CompilingModule, compile_module  # noqa: E402


def launch(function, grid, block, arguments, shared: int = 0) -> None:
    """Launch a kernel; ValueError unless arrays are C-contiguous, since the kernel gets only addresses."""
    for argument in arguments:
        if isinstance(argument, cupy.ndarray) and not argument.flags.c_contiguous:
            raise ValueError(f"a kernel was given an array of shape {argument.shape} that is not contiguous")
    function(grid, block, arguments, shared_mem=shared)


def prepared(function, blocks: int, threads: int, arguments, shared: int = 0):
    """Return a function that launches a kernel with these arguments, in less host time than `launch`.

    The grid has ``blocks`` blocks of ``threads`` threads, each block with ``shared`` bytes of shared memory.
    """
    values = [np.asarray(a.data.ptr if isinstance(a, cupy.ndarray) else a) for a in arguments]
    addresses = np.array([value.ctypes.data for value in values], np.uintp)
    which, where = function.kernel.ptr, addresses.ctypes.data
    launch_kernel, current = cupy.cuda.driver.launchKernel, cupy.cuda.get_current_stream

    def again(_kept=(values, addresses, arguments, function)) -> None:
        launch_kernel(which, blocks, 1, 1, threads, 1, 1, shared, current().ptr, where, 0)

    return again


_TYPES = {np.dtype(np.complex64): cufft.CUFFT_C2C, np.dtype(np.complex128): cufft.CUFFT_Z2Z}
# cudaDevAttrMaxSharedMemoryPerBlockOptin of the CUDA runtime.
_MOST_SHARED_OF_A_BLOCK = 97
# Minimum bytes of a host array that is page-locked while it is copied.
_PAGE_LOCKED = 8 << 20
# Maximum number of modules compiled in parallel.
_COMPILERS = 16


def count() -> int:
    """Return the number of CUDA devices."""
    return cupy.cuda.runtime.getDeviceCount()


def describe() -> list[dict]:
    """Return name, memory and compute capability of each CUDA device."""
    properties = [cupy.cuda.runtime.getDeviceProperties(index) for index in range(count())]
    return [
        {
            "name": f"cuda:{index}",
            "model": each["name"].decode(),
            "memory_bytes": int(each["totalGlobalMem"]),
            "compute_capability": f"{each['major']}.{each['minor']}",
        }
        for index, each in enumerate(properties)
    ]


class CudaRowFFT:
    """Transforms contiguous rows of ``n`` samples in place by cuFFT, with a plan per number of rows."""

    def __init__(self, rows: int, n: int, dtype):
        self._n, self._type = n, _TYPES[np.dtype(dtype)]
        self._plans = {rows: cufft.Plan1d(n, self._type, rows)}

    def _plan(self, rows):
        batch = rows.shape[0] if rows.ndim == 2 else 1
        if batch not in self._plans:
            self._plans[batch] = cufft.Plan1d(self._n, self._type, batch)
        return self._plans[batch]

    def forward(self, rows) -> None:
        self._plan(rows).fft(rows, rows, cufft.CUFFT_FORWARD)

    def backward(self, rows) -> None:
        self._plan(rows).fft(rows, rows, cufft.CUFFT_INVERSE)


class CudaRealFFT:
    """Transforms real 3-D fields to spectra by cuFFT along their last one, two or three axes, and back."""

    def __init__(self, shape, dtype, axes: tuple[int, ...] = (0, 1, 2)):
        # cuFFT needs adjacent axes: an axis of one point between two others is transformed too.
        first = next((axis for axis in axes if shape[axis] > 1), 2)
        axes = tuple(range(first, 3))
        real, half = shape[first:], (*shape[first:-1], shape[-1] // 2 + 1)
        rows, double = math.prod(shape[:first]), np.dtype(dtype).itemsize == 8
        kinds = (cufft.CUFFT_D2Z, cufft.CUFFT_Z2D) if double else (cufft.CUFFT_R2C, cufft.CUFFT_C2R)
        layouts = (real, 1, math.prod(real), half, 1, math.prod(half))
        self._forward = cufft.PlanNd(real, *layouts, kinds[0], rows, "C", 2, None)
        self._backward = cufft.PlanNd(real, *layouts[3:], *layouts[:3], kinds[1], rows, "C", 2, None)

    def forward(self, real, spectrum) -> None:
        self._forward.fft(real, spectrum, cufft.CUFFT_FORWARD)

    def backward(self, spectrum, real) -> None:
        self._backward.fft(spectrum, real, cufft.CUFFT_INVERSE)


class CudaAxisFFT:
    """Transforms complex 3-D arrays in place by cuFFT along the first axis (0) or the second (1).

    Along the second axis each plane is a separate call: cuFFT's batches have a single stride.
    """

    def __init__(self, shape, dtype, axis: int):
        nz, ny, nx = shape
        n, stride = (nz, ny * nx) if axis == 0 else (ny, nx)
        kind = _TYPES[np.dtype(dtype)]
        self._plan = cufft.PlanNd((n,), (n,), stride, 1, (n,), stride, 1, kind, stride, "C", 0, None)
        self._planes = axis == 1

    def forward(self, array) -> None:
        self._run(array, cufft.CUFFT_FORWARD)

    def backward(self, array) -> None:
        self._run(array, cufft.CUFFT_INVERSE)

    def _run(self, array, direction: int) -> None:
        for part in array if self._planes else (array,):
            self._plan.fft(part, part, direction)


class CudaDevice:
    """A CUDA device. Work is enqueued on CuPy's current stream; graphs are captured on a separate one."""

    xp = cupy
    threads = 1

    def __init__(self, index: int = 0):
        self.index = index
        self.name = f"cuda:{index}"
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        parts = [cupy.cuda.Device(index).pci_bus_id, visible if visible.startswith("MIG-") else ""]
        self.identity = " ".join(filter(None, parts))
        self.block_memory = cupy.cuda.runtime.deviceGetAttribute(_MOST_SHARED_OF_A_BLOCK, index)
        cupy.cuda.Device(index).use()
        self._capture = cupy.cuda.Stream(non_blocking=True)
        self._copies = cupy.cuda.Stream(non_blocking=True)
        #: Number of modules that are compiled in parallel.
        self.compilers = min(usable_threads(), _COMPILERS)
        self._compilers = ThreadPoolExecutor(self.compilers, "compiler")

    empty, zeros = staticmethod(cupy.empty), staticmethod(cupy.zeros)
    to_host = staticmethod(cupy.asnumpy)
    row_fft, real_fft, axis_fft = CudaRowFFT, CudaRealFFT, CudaAxisFFT

    def asarray(self, array, /, dtype=None):
        """Return an array on the GPU; a large host array is page-locked while it is copied, to save time."""
        host = isinstance(array, np.ndarray) and array.flags.c_contiguous and dtype in (None, array.dtype)
        if not host or array.nbytes < _PAGE_LOCKED:
            return cupy.asarray(array, dtype)
        result = cupy.empty(array.shape, array.dtype)
        try:
            cupy.cuda.runtime.hostRegister(array.ctypes.data, array.nbytes, 0)
        except cupy.cuda.runtime.CUDARuntimeError:  # such as memory that is read-only or registered already
            result.set(array)
            return result
        try:
            result.set(array)
            self.synchronize()
        finally:
            cupy.cuda.runtime.hostUnregister(array.ctypes.data)
        return result

    def host_empty(self, shape, dtype):
        # Not from CuPy's pool, which keeps freed memory.
        memory = cupy.cuda.PinnedMemory(max(math.prod(shape) * np.dtype(dtype).itemsize, 1))
        return np.ndarray(shape, dtype, cupy.cuda.PinnedMemoryPointer(memory, 0))

    def copy(self, target, source, /) -> None:
        if not isinstance(target, cupy.ndarray):
            source.get(out=target)
        elif isinstance(source, cupy.ndarray):
            cupy.copyto(target, source)
        else:
            target.set(source, cupy.cuda.get_current_stream())

    def view(self, array, /, write: bool = False):
        return viewed(array, lambda each: self._view(each, write))

    def _view(self, array, write: bool):
        if isinstance(array, cupy.ndarray):
            result = array
        elif hasattr(array, "__cuda_array_interface__"):
            if write and array.__cuda_array_interface__["data"][1]:
                raise ValueError("read-only")
            result = cupy.asarray(array)
        elif hasattr(array, "__dlpack__") and array.__dlpack_device__()[0] in DLPACK_CUDA:
            result = cupy.from_dlpack(array)
        else:
            return None
        return result if result.device.id == self.index else None

    def address(self, array, /) -> int:
        return array.data.ptr

    def borrow(self, array, /):
        memory = cupy.cuda.UnownedMemory(array.data.ptr, array.nbytes, None, self.index)
        return cupy.ndarray((array.size,), array.dtype, cupy.cuda.MemoryPointer(memory, 0))

    def fft(self, array, axis: int = -1):
        return cupy.fft.fft(array, axis=axis)

    def ifft(self, array, axis: int = -1):
        return cupy.fft.ifft(array, axis=axis)

    def export(self, array):
        """Return a function that copies ``array`` to the host once the work enqueued so far is done."""
        ready = cupy.cuda.Event(disable_timing=True)
        ready.record()

        def fetch():
            cupy.cuda.Device(self.index).use()
            with self._copies:
                self._copies.wait_event(ready)
                host = cupy.asnumpy(array, stream=self._copies)
                self._copies.synchronize()
            return host

        return fetch

    def map_rows(self, rows: int, work) -> None:
        work(slice(0, rows))

    def kernels(self, table: KernelTable | str):
        if isinstance(table, KernelTable):
            return CudaKernels(table, self)
        return importlib.import_module(table + "_cuda").KERNELS(self)

    @lru_cache(maxsize=256)  # noqa: B019 - a device lives as long as its modules
    def module(
        self,
        package: str,
        source: str,
        definitions: tuple[str, ...] = (),
        before: tuple[str, ...] = (),
        prelude: str = "",
    ) -> CompilingModule:
        """Start to compile a CUDA source file in the background; return the module, not yet compiled.

        ``source`` is a file in the Python package ``package``. Sources in ``before`` (``"package/file.cu"``)
        and the text ``prelude`` are put in front; ``definitions`` are macros, ``-DNAME=VALUE``.
        ``get_function`` of the module waits for the compilation. CuPy caches the binary on disk.
        """
        code = prelude + cuda_text(*before, f"{package}/{source}")
        return CompilingModule(self._compilers.submit(compile_module, self.index, code, definitions))

    launch, prepared = staticmethod(launch), staticmethod(prepared)

    def resident_blocks(self, function, threads: int, shared: int) -> int:
        """Return how many blocks of a kernel a multiprocessor runs at once, each with ``shared`` bytes."""
        ask = cupy.cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor
        return int(ask(function.kernel.ptr, threads, shared))

    def graph(self, work, kernels_alone: bool = False):
        """Capture ``work`` in a CUDA graph; return a function that replays it on the current stream."""
        with self._capture:
            self._capture.begin_capture()
            try:
                work()
            finally:
                captured = self._capture.end_capture()
        return repeating(captured.launch)

    def synchronize(self) -> None:
        cupy.cuda.get_current_stream().synchronize()

    def memory(self) -> tuple[int, int]:
        # Unused memory of CuPy's pool counts as free.
        free, total = cupy.cuda.runtime.memGetInfo()
        return free + cupy.get_default_memory_pool().free_bytes(), total
