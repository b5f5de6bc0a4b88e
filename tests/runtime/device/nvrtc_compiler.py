"""CUDA C++ to cubin without a GPU or CuPy: NVIDIA's runtime compiler from the ``nvidia-cuda-nvrtc`` wheel.

The GPU device compiles through CuPy, which uses the same compiler. This module lets a machine without
a GPU check every ``.cu`` file.

Source: NVRTC documentation, https://docs.nvidia.com/cuda/nvrtc/.
"""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from wavefabric.base.errors import InputError, MissingExtra


class CompileError(RuntimeError):
    """The compiler refused the source; the message is its log."""


def find_library() -> Path | None:
    """The compiler's shared library inside an ``nvidia-cuda-nvrtc`` wheel, the newest if there are several.

    Returns
    -------
    Path or None
        ``None`` if no such wheel is installed.
    """
    result = []
    for folder in {Path(entry or ".") for entry in sys.path}:
        for pattern in ("nvidia/*/lib/libnvrtc.so.*", "nvidia/*/bin/**/nvrtc64_*.dll"):
            result += [file for file in folder.glob(pattern) if ".alt." not in file.name]
    return max(result, key=lambda file: [int(n) for n in re.findall(r"\d+", file.name)], default=None)


@lru_cache(maxsize=1)
def _library() -> ctypes.CDLL:
    file = find_library()
    if file is None:
        raise MissingExtra("compiling CUDA sources without CuPy", "dev")
    library = ctypes.CDLL(str(file))
    library.nvrtcGetErrorString.restype = ctypes.c_char_p
    library.nvrtcGetErrorString.argtypes = [ctypes.c_int]
    pointer, text, many = ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_char_p)
    out, size = ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_size_t)
    for name, arguments in {
        "nvrtcVersion": [ctypes.POINTER(ctypes.c_int)] * 2,
        "nvrtcCreateProgram": [out, text, text, ctypes.c_int, many, many],
        "nvrtcDestroyProgram": [out],
        "nvrtcCompileProgram": [pointer, ctypes.c_int, many],
        "nvrtcGetProgramLogSize": [pointer, size],
        "nvrtcGetProgramLog": [pointer, text],
        "nvrtcGetCUBINSize": [pointer, size],
        "nvrtcGetCUBIN": [pointer, text],
    }.items():
        getattr(library, name).argtypes = arguments
        getattr(library, name).restype = ctypes.c_int
    return library


def _check(status: int, what: str) -> None:
    if status:
        raise CompileError(f"{what}: {_library().nvrtcGetErrorString(status).decode()}")


def version() -> tuple[int, int]:
    """Major and minor version of the compiler.

    Raises
    ------
    MissingExtra
        If no ``nvidia-cuda-nvrtc`` wheel is installed.
    """
    major, minor = ctypes.c_int(), ctypes.c_int()
    _check(_library().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)), "nvrtcVersion")
    return major.value, minor.value


def compile_source(
    text: str, options: Iterable[str] = (), arch: str = "sm_90", name: str = "source.cu"
) -> bytes:
    """Compile CUDA C++ to a cubin.

    Parameters
    ----------
    text : str
        Source of one ``.cu`` file.
    options : iterable of str
        Options of the compiler, such as ``-DREAL=float``.
    arch : str
        A real architecture, ``sm_NN``.
    name : str
        File name for the compiler's messages.

    Returns
    -------
    bytes
        The cubin, an ELF file.

    Raises
    ------
    InputError
        If ``arch`` is not of the form ``sm_NN``.
    CompileError
        If the source does not compile, or the compiler does not know an option or the architecture.
    MissingExtra
        If no ``nvidia-cuda-nvrtc`` wheel is installed.
    """
    if not re.fullmatch(r"sm_\d+[a-z]?", arch):
        raise InputError(f"arch: {arch!r} given; allowed: sm_ and a number, such as sm_90")
    library, program = _library(), ctypes.c_void_p()
    flags = [f"--gpu-architecture={arch}".encode(), *(option.encode() for option in options)]
    created = library.nvrtcCreateProgram(ctypes.byref(program), text.encode(), name.encode(), 0, None, None)
    _check(created, "nvrtcCreateProgram")
    try:
        status = library.nvrtcCompileProgram(program, len(flags), (ctypes.c_char_p * len(flags))(*flags))
        if status:
            log = _text(program, "ProgramLog").decode(errors="replace").rstrip("\0\n")
            raise CompileError(f"{name} for {arch}: {library.nvrtcGetErrorString(status).decode()}\n{log}")
        return _text(program, "CUBIN")
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def _text(program: ctypes.c_void_p, what: str) -> bytes:
    library, size = _library(), ctypes.c_size_t()
    _check(getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)), f"nvrtcGet{what}Size")
    buffer = ctypes.create_string_buffer(size.value)
    _check(getattr(library, f"nvrtcGet{what}")(program, buffer), f"nvrtcGet{what}")
    return buffer.raw
