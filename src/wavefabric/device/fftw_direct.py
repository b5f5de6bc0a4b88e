"""FFTW called from inside Numba kernels: plan once, then transform planes and columns while in cache.

The library is the one that pyfftw has loaded, so both share one stock of wisdom. Where it cannot be
found (pyfftw linked statically, no pyfftw), `available` is False and solvers use whole-array transforms.
"""

from __future__ import annotations

import ctypes
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from wavefabric.device import fftw

_MEASURE, _PATIENT, _UNALIGNED, _DESTROY = 0, 1 << 5, 1 << 1, 1 << 0
_FORWARD, _BACKWARD = -1, 1
_SLAB_BYTES = 300 * 1024


@intrinsic
def _execute(typingctx, function, plan, source, target):  # pyright: ignore
    """``function(plan, source, target)`` for addresses, all integers: one of FFTW's new-array executes."""

    def generate(context, builder, signature, arguments):
        pointer = cgutils.voidptr_t
        kind = ir.FunctionType(ir.VoidType(), [pointer] * 3)
        call = builder.inttoptr(arguments[0], kind.as_pointer())
        builder.call(call, [builder.inttoptr(value, pointer) for value in arguments[1:]])
        return context.get_dummy_value()

    return types.void(types.uintp, types.uintp, types.uintp, types.uintp), generate


@intrinsic
def _prefetch(typingctx, address):  # pyright: ignore
    """Ask for the cache line at an address, an integer, in the second-level cache."""

    def generate(context, builder, signature, arguments):
        pointer = builder.inttoptr(arguments[0], cgutils.voidptr_t)
        word = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, word, word, word])
        call = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        builder.call(call, [pointer, word(0), word(2), word(1)])
        return context.get_dummy_value()

    return types.void(types.uintp), generate


#: Call from compiled code: ``prefetch(address)``.
prefetch: Any = _prefetch
#: Call from compiled code: ``execute(function, plan, source, target)``.
execute: Any = _execute


@lru_cache
def _libraries(letter: str) -> tuple[Any, Any] | None:
    """The loaded libfftw3 of a precision, and the one that knows the number of threads (or None)."""
    if fftw.pyfftw is None:
        return None
    try:
        maps = Path("/proc/self/maps").read_text()
    except OSError:
        return None
    paths = {line.split()[-1] for line in maps.splitlines() if "/libfftw3" in line}
    plain = [p for p in paths if re.search(rf"/libfftw3{letter}[-.]", p)]
    threads = [p for p in paths if re.search(rf"/libfftw3{letter}_(omp|threads)[-.]", p)]
    if not plain:
        return None
    return ctypes.CDLL(plain[0]), ctypes.CDLL(threads[0]) if threads else None


def available(dtype) -> bool:
    """Whether FFTW of this real precision can be called directly."""
    return _libraries(_letter(dtype)) is not None


def _letter(dtype) -> str:
    return {np.dtype(np.float32): "f", np.dtype(np.float64): ""}[np.dtype(dtype)]


class AxisTransforms:
    """The transforms of a 3-D real field axis by axis; each runs in the thread that calls it.

    Parameters
    ----------
    shape : tuple of int
        (Nz, Ny, Nx) of the real field.
    dtype : dtype
        float32 or float64.

    Attributes
    ----------
    batch : int
        Rows of x in one transform; divides Ny and keeps a batch in the first-level cache.
    slab : int
        Columns (all x at one y) side by side in one transform along z; divides Ny and keeps a slab in the
        second-level cache.
    """

    def __init__(self, shape: tuple[int, int, int], dtype):
        letter = _letter(dtype)
        found = _libraries(letter)
        assert found is not None, "ask available() first"
        library, threading = found
        nz, ny, nx = shape
        half = nx // 2 + 1
        real, complex_ = np.dtype(dtype), np.result_type(dtype, np.complex64)
        self.batch = max(
            r for r in range(1, 17) if ny % r == 0 and (r == 1 or r * nx * real.itemsize <= 8192)
        )
        self.slab = max(
            r for r in range(1, 9)
            if ny % r == 0 and (r == 1 or r * nz * half * complex_.itemsize <= _SLAB_BYTES)
        )  # fmt: skip
        pointer, integer = ctypes.c_void_p, ctypes.c_int

        def function(name: str, result: Any = None):
            got = getattr(library, f"fftw{letter}_{name}")
            got.restype = result
            return got

        def plan(name: str, n: int, count: int, a, a_layout, b, b_layout, *more) -> int:
            many = function(f"plan_many_{name}", pointer)
            made = many(
                integer(1), (integer * 1)(n), integer(count),
                pointer(a.ctypes.data), None, *map(integer, a_layout),
                pointer(b.ctypes.data), None, *map(integer, b_layout), *more,
            )  # fmt: skip
            if not made:
                raise RuntimeError(f"FFTW made no plan ({name}, {n})")
            return made

        def flags(choice: int, *sizes: int) -> Any:
            # Batches, planes and slabs after the first are aligned only if they are whole numbers of vectors.
            return ctypes.c_uint(choice | (0 if all(n % 64 == 0 for n in sizes) else _UNALIGNED))

        rows = self.batch * nx * real.itemsize, self.batch * half * complex_.itemsize
        in_plane = flags(_MEASURE, ny * half * complex_.itemsize)
        x, k = _aligned((self.batch, nx), real), _aligned((self.batch, half), complex_)
        plane, other = (_aligned((ny, half), complex_) for _ in range(2))
        wide = self.slab * half
        in_slab = flags(_MEASURE, nz * wide * complex_.itemsize)
        column = _aligned((nz, wide), complex_)
        along, across = (half, 1), (wide, 1)
        forward, backward = integer(_FORWARD), integer(_BACKWARD)
        with fftw.planning():
            if threading is not None:
                getattr(threading, f"fftw{letter}_plan_with_nthreads")(1)
            self._plans = (
                plan("dft_r2c", nx, self.batch, x, (1, nx), k, (1, half), flags(_PATIENT, *rows)),
                plan("dft_c2r", nx, self.batch, k, (1, half), x, (1, nx), flags(_PATIENT | _DESTROY, *rows)),
                plan("dft", ny, half, plane, along, plane, along, forward, in_plane),
                plan("dft", ny, half, plane, along, plane, along, backward, in_plane),
                plan("dft", ny, half, plane, along, other, along, backward, in_plane),
                plan("dft", nz, wide, column, across, column, across, forward, in_slab),
                plan("dft", nz, wide, column, across, column, across, backward, in_slab),
            )
        self._calls = tuple(
            ctypes.cast(function(name), ctypes.c_void_p).value
            for name in ("execute_dft_r2c", "execute_dft_c2r", "execute_dft")
        )
        self._destroy = function("destroy_plan")

    def addresses(self) -> np.ndarray:
        """What kernels take: addresses of r2c, c2r and c2c, then of the plans.

        The plans: 3 rows of x to the half spectrum, 4 back; 5 a plane (Ny, H) along y in place, 6 back in
        place, 7 back into another; 8 a slab (Nz, slab, H) along z in place, 9 back. Backward is unscaled; 4
        spoils its input.
        """
        return np.array([*self._calls, *self._plans], np.uintp)

    def __del__(self):
        for made in getattr(self, "_plans", ()):
            self._destroy(ctypes.c_void_p(made))


def _aligned(shape, dtype) -> np.ndarray:
    return fftw.pyfftw.empty_aligned(shape, dtype, n=64)
