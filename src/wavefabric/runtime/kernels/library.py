"""Load the library of CPU kernels once; compile it again if a source has changed."""

import contextlib
import ctypes
import os
import platform
import sys
from functools import cache
from pathlib import Path

from wavefabric.base.errors import InputError
from wavefabric.base.system.compilation_clock import CLOCK
from wavefabric.base.system.user_cache import cache_directory
from wavefabric.runtime.kernels import build_cpu

#: A file that exists only in a checkout, where sources may change after the installation.
_PROJECT = Path(__file__).parents[4] / "pyproject.toml"


class Library:
    """The shared library of CPU kernels, with their addresses and functions that call them on threads."""

    def __init__(self, path: Path) -> None:
        self._library = ctypes.CDLL(str(path))
        self.path = path
        self.call = self._library.wavefabric_call
        self.call.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int]
        self.call.restype = None
        self.run = self._library.wavefabric_run
        self.run.argtypes = [ctypes.c_void_p, ctypes.c_longlong, ctypes.c_longlong, ctypes.c_int]
        self.run.restype = None

    def address(self, name: str) -> int:
        """Return the address of a kernel, such as ``update_velocity_float``."""
        address = ctypes.cast(getattr(self._library, name), ctypes.c_void_p).value
        assert address is not None
        return address


@cache
def library() -> Library:
    """Return the library of kernels for this processor, which is compiled if no installed one fits.

    A checkout needs a library of its current sources; a wheel contains one per processor level. A new library
    goes to the folder ``lib`` of a writable checkout, otherwise to the user's cache. `InputError` if there
    is no compiler.
    """
    checkout = _PROJECT.is_file()
    for level in () if checkout else _levels():
        if (path := build_cpu.LIBRARIES / f"{level}{build_cpu.suffix()}").is_file():
            return Library(path)
    native = f"{build_cpu.native_name()}{build_cpu.suffix()}"  # reads all sources, which a wheel avoids
    if (path := build_cpu.LIBRARIES / native).is_file():
        return Library(path)
    folder = (
        build_cpu.LIBRARIES
        if checkout and os.access(build_cpu.HERE, os.W_OK)
        else cache_directory() / "kernels"
    )
    return Library(_built(folder, native))


def _built(folder: Path, name: str) -> Path:
    """Return the path of the library ``name``; if it is missing, one process compiles and others wait."""
    path = folder / name
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(ImportError):  # Windows: each process compiles for itself
            import fcntl

            fcntl.flock(stack.enter_context((folder / "lock").open("w")), fcntl.LOCK_EX)
        if path.is_file():
            return path
        print(
            "wavefabric: compiling kernels for these sources and this processor", file=sys.stderr, flush=True
        )
        try:
            with CLOCK.compiling():
                build_cpu.build(folder)
        except build_cpu.NoCompiler as error:
            raise InputError(f"kernels: {error}") from None
        for other in folder.glob(f"{name.rpartition('-')[0]}-*{build_cpu.suffix()}"):
            if other != path:  # built from older sources
                other.unlink(missing_ok=True)
    return path


def _levels() -> list[str]:
    """Return the names of the library variants in wheels that this processor can run, fastest first."""
    if platform.machine().lower() in ("arm64", "aarch64"):
        return ["arm64"]
    flags = build_cpu.processor_flags()
    levels = {
        "x86-64-v4": {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
        "x86-64-v3": {"avx2", "fma", "bmi2"},
    }
    return [*(level for level, needs in levels.items() if needs <= flags), "x86-64-v2"]
