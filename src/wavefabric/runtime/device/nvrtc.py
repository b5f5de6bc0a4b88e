"""Compile CUDA kernels with NVRTC on several threads; CuPy caches the binaries on disk."""

from concurrent.futures import Future
from functools import cache
from threading import Lock
from typing import Any

import cupy

from wavefabric.base.system.compilation_clock import CLOCK

#: Options for all kernels. No --use_fast_math: sin and cos must be accurate to round-off.
COMPILE_OPTIONS = ("--std=c++17", "--fmad=true")
_EMPTY_KERNEL = 'extern "C" __global__ void nothing() {}'
_FIRST_USE = Lock()


def compile_module(device: int, code: str, definitions: tuple[str, ...]) -> cupy.RawModule:
    """Return a module of kernels compiled for the GPU with the index ``device``; any thread may call it.

    ``definitions`` are macros, ``-DNAME=VALUE``. They are written into the code, not passed as options: CuPy
    compiles an empty file, 12 ms on one thread at a time, for each new set of options.
    """
    cupy.cuda.Device(device).use()  # threads select devices separately
    with _FIRST_USE:
        _compile_empty_file()
    lines = (definition[2:].replace("=", " ", 1) for definition in definitions)
    return _module("".join(f"#define {line}\n" for line in lines) + code)


@cache
def _compile_empty_file() -> None:
    """Let CuPy compile, once per process, the empty file by which it identifies the compiler."""
    _module(_EMPTY_KERNEL)


def _module(code: str) -> cupy.RawModule:
    module = cupy.RawModule(code=code, options=COMPILE_OPTIONS, backend="nvrtc")
    module.compile()
    return module


class CompilingModule:
    """A module of kernels that another thread compiles; `get_function` waits for the compilation."""

    def __init__(self, compiled: Future[cupy.RawModule]) -> None:
        self._compiled = compiled

    def get_function(self, name: str) -> Any:
        """Return the kernel ``name``; wait for the compilation."""
        if not self._compiled.done():
            with CLOCK.compiling(announce_after=1.0):  # no message if CuPy finds the module on disk
                self._compiled.result()
        return self._compiled.result().get_function(name)
