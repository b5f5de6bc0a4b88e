"""Compiles CUDA kernels by NVRTC, in threads; CuPy keeps what is compiled on disk for later processes."""

from concurrent.futures import Future
from typing import Any

import cupy

from wavefabric.base.system.compilation_clock import CLOCK

#: Options for all kernels. No --use_fast_math: sin and cos must be accurate to round-off.
COMPILE_OPTIONS = ("--std=c++17", "--fmad=true")


def compile_module(device: int, code: str, options: tuple[str, ...]) -> cupy.RawModule:
    """Return a module of kernels compiled for the GPU with the index ``device``; any thread may call it."""
    cupy.cuda.Device(device).use()  # threads select devices separately
    module = cupy.RawModule(code=code, options=COMPILE_OPTIONS + options, backend="nvrtc")
    module.compile()
    return module


class CompilingModule:
    """A module of kernels that a thread compiles; getting a kernel waits until that is done."""

    def __init__(self, compiled: Future[cupy.RawModule]) -> None:
        self._compiled = compiled

    def get_function(self, name: str) -> Any:
        """Return the kernel ``name``; wait for the compilation."""
        if not self._compiled.done():
            with CLOCK.compiling(announce_after=1.0):  # no message if CuPy finds it on disk
                self._compiled.result()
        return self._compiled.result().get_function(name)
