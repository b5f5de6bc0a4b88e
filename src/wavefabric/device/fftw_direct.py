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
_ROW_BYTES, _SLAB_BYTES = 8 * 1024, 300 * 1024


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


class _Library:
    """FFTW of one real precision, and the library that knows the number of threads (or None)."""

    def __init__(self, letter: str, path: str, threads_path: str | None):
        self._letter, self._library = letter, ctypes.CDLL(path)
        self._threads = ctypes.CDLL(threads_path) if threads_path else None

    def function(self, name: str, result: Any = None) -> Any:
        """One of its functions."""
        function = getattr(self._library, f"fftw{self._letter}_{name}")
        function.restype = result
        return function

    def address(self, name: str) -> int | None:
        """Of a function."""
        return ctypes.cast(self.function(name), ctypes.c_void_p).value

    def one_thread(self) -> None:
        """Plans made from now on run in the thread that calls them."""
        if self._threads is not None:
            getattr(self._threads, f"fftw{self._letter}_plan_with_nthreads")(1)

    def plan(self, name: str, n: int, count: int, a, a_layout, b, b_layout, *more) -> int:
        """Plan ``count`` transforms of ``n`` points; a layout is stride and distance."""
        pointer, integer = ctypes.c_void_p, ctypes.c_int
        plan = self.function(f"plan_many_{name}", pointer)(
            integer(1), (integer * 1)(n), integer(count),
            pointer(a.ctypes.data), None, *map(integer, a_layout),
            pointer(b.ctypes.data), None, *map(integer, b_layout), *more,
        )  # fmt: skip
        if not plan:
            raise RuntimeError(f"FFTW made no plan ({name}, {n})")
        return plan


class _Plans:
    """Plans of one library, by address; destroyed with this object."""

    def __init__(self, library: _Library, addresses: tuple[int, ...]):
        self._destroy, self.addresses = library.function("destroy_plan"), addresses

    def __del__(self):
        for address in self.addresses:
            self._destroy(ctypes.c_void_p(address))


@lru_cache
def _libraries(letter: str) -> _Library | None:
    """The libfftw3 of a precision that pyfftw has loaded."""
    if fftw.pyfftw is None:
        return None
    try:
        maps = Path("/proc/self/maps").read_text()
    except OSError:
        return None
    paths = {line.split()[-1] for line in maps.splitlines() if "/libfftw3" in line}
    plain = [p for p in paths if re.search(rf"/libfftw3{letter}[-.]", p)]
    threads = [p for p in paths if re.search(rf"/libfftw3{letter}_(omp|threads)[-.]", p)]
    return _Library(letter, plain[0], threads[0] if threads else None) if plain else None


def available(dtype) -> bool:
    """Whether FFTW of this real precision can be called directly."""
    return _libraries(_letter(dtype)) is not None


def _letter(dtype) -> str:
    return {np.dtype(np.float32): "f", np.dtype(np.float64): ""}[np.dtype(dtype)]


def _largest_divisor(n: int, most: int, limit: int, nbytes: int) -> int:
    """Largest divisor of ``n`` up to ``most`` of which ``nbytes`` each are within ``limit``; at least 1."""
    return max(r for r in range(1, most + 1) if n % r == 0 and (r == 1 or r * nbytes <= limit))


class AxisTransforms:
    """The transforms of a 3-D real field axis by axis; each runs in the thread that calls it.

    ``shape`` is (Nz, Ny, Nx) of the real field, ``dtype`` float32 or float64.

    Attributes
    ----------
    batch : int
        Rows of x in one transform; divides Ny and keeps a batch in the first-level cache.
    slab : int
        Columns (all x at one y) side by side in one transform along z; divides Ny and keeps a slab in the
        second-level cache.
    """

    def __init__(self, shape: tuple[int, int, int], dtype):
        library = _libraries(_letter(dtype))
        assert library is not None, "ask available() first"
        nz, ny, nx = shape = int(shape[0]), int(shape[1]), int(shape[2])
        half = nx // 2 + 1
        real, complex_ = np.dtype(dtype), np.result_type(dtype, np.complex64)
        self.batch = _largest_divisor(ny, 16, _ROW_BYTES, nx * real.itemsize)
        self.slab = _largest_divisor(ny, 8, _SLAB_BYTES, nz * half * complex_.itemsize)

        def flags(choice: int, *sizes: int) -> Any:
            # Batches, planes and slabs after the first are aligned only if they are whole numbers of vectors.
            return ctypes.c_uint(choice | (0 if all(n % 64 == 0 for n in sizes) else _UNALIGNED))

        batch, plan = self.batch, library.plan
        rows = batch * nx * real.itemsize, batch * half * complex_.itemsize
        in_plane = flags(_MEASURE, ny * half * complex_.itemsize)
        x, k = fftw.aligned((batch, nx), real), fftw.aligned((batch, half), complex_)
        plane, other = (fftw.aligned((ny, half), complex_) for _ in range(2))
        wide = self.slab * half
        in_slab = flags(_MEASURE, nz * wide * complex_.itemsize)
        column = fftw.aligned((nz, wide), complex_)
        along, across = (half, 1), (wide, 1)
        forward, backward = (ctypes.c_int(sign) for sign in (-1, 1))

        def make() -> _Plans:
            library.one_thread()
            return _Plans(
                library,
                (
                    plan("dft_r2c", nx, batch, x, (1, nx), k, (1, half), flags(_PATIENT, *rows)),
                    plan("dft_c2r", nx, batch, k, (1, half), x, (1, nx), flags(_PATIENT | _DESTROY, *rows)),
                    plan("dft", ny, half, plane, along, plane, along, forward, in_plane),
                    plan("dft", ny, half, plane, along, plane, along, backward, in_plane),
                    plan("dft", ny, half, plane, along, other, along, backward, in_plane),
                    plan("dft", nz, wide, column, across, column, across, forward, in_slab),
                    plan("dft", nz, wide, column, across, column, across, backward, in_slab),
                ),
            )

        self._plans = fftw.planned(f"axes of {shape} {real}", make)
        self._calls = [library.address(f"execute_{name}") for name in ("dft_r2c", "dft_c2r", "dft")]

    def addresses(self) -> np.ndarray:
        """What kernels take: addresses of r2c, c2r and c2c, then of the plans.

        The plans: 3 rows of x to the half spectrum, 4 back; 5 a plane (Ny, H) along y in place, 6 back in
        place, 7 back into another; 8 a slab (Nz, slab, H) along z in place, 9 back. Backward is unscaled; 4
        spoils its input.
        """
        return np.array([*self._calls, *self._plans.addresses], np.uintp)
