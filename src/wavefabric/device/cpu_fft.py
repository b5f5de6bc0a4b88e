"""Transforms on a CPU: FFTW, or scipy.fft where pyfftw is missing. ``backward`` is always unscaled."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import scipy.fft

from wavefabric.device import fftw


class CpuRowFFT:
    """In-place transforms of rows of ``n`` samples; each call runs in the thread that makes it.

    ``threads`` are those inside one transform.
    """

    def __init__(self, n: int, dtype, threads: int = 1):
        self._n, self._dtype, self._threads = n, np.dtype(dtype), threads
        # Rows after the first are aligned only if a row is a whole number of vectors.
        self._flags = () if n * self._dtype.itemsize % 64 == 0 else ("FFTW_UNALIGNED",)
        self._of_thread = threading.local()
        if fftw.pyfftw:
            self._plans()

    def forward(self, rows) -> None:
        self._run(rows, 0)

    def backward(self, rows) -> None:
        self._run(rows, 1)

    def _run(self, rows, sign: int) -> None:
        plan = self._plans()[sign] if fftw.pyfftw else None
        for row in rows if rows.ndim == 2 else (rows,):
            if plan:
                fftw.execute(plan, row, row)
            else:
                _scipy(sign, row, overwrite_x=True, workers=self._threads)

    def _make_plans(self) -> tuple:
        row = fftw.aligned(self._n, self._dtype)
        return tuple(fftw.plan(row, row, sign, (-1,), self._threads, *self._flags) for sign in fftw.SIGNS)

    def _plans(self) -> tuple:
        if not hasattr(self._of_thread, "plans"):
            problem = f"row {self._n} {self._dtype} threads {self._threads}"
            self._of_thread.plans = fftw.planned(problem, self._make_plans)
        return self._of_thread.plans


class CpuFFT(NamedTuple):
    """Transforms there and back, of arrays like those planned for."""

    forward: Callable[..., None]
    backward: Callable[..., None]


def real_fft(shape, dtype, axes: tuple[int, ...], threads: int) -> CpuFFT:
    """Transforms of real fields with all threads, along all axes or some, the last among them."""
    shape = tuple(map(int, shape))
    axes = tuple(axis for axis in axes if shape[axis] > 1 or axis == 2)
    if fftw.pyfftw:
        half, kind = (*shape[:-1], shape[-1] // 2 + 1), np.result_type(dtype, np.complex64)

        def make() -> tuple:
            real, spectrum = fftw.aligned(shape, dtype), fftw.aligned(half, kind)
            return (
                fftw.plan(real, spectrum, fftw.SIGNS[0], axes, threads),
                fftw.plan(spectrum, real, fftw.SIGNS[1], axes, threads, "FFTW_DESTROY_INPUT"),
            )

        there, back = fftw.planned(f"real {shape} {np.dtype(dtype)} axes {axes} threads {threads}", make)
        return CpuFFT(lambda *arrays: fftw.execute(there, *arrays), lambda *a: fftw.execute(back, *a))
    sizes = [shape[axis] for axis in axes]

    def forward(real, spectrum) -> None:
        spectrum[...] = scipy.fft.rfftn(real, axes=axes, workers=threads)

    def backward(spectrum, real) -> None:
        real[...] = scipy.fft.irfftn(spectrum, sizes, axes, "forward", workers=threads)

    return CpuFFT(forward, backward)


def axis_fft(shape, dtype, axis: int, threads: int) -> CpuFFT:
    """In-place complex transforms along one axis of a 3-D array, with all threads."""
    shape = tuple(map(int, shape))
    if fftw.pyfftw:

        def make() -> tuple:
            array = fftw.aligned(shape, dtype)
            return tuple(fftw.plan(array, array, sign, (axis,), threads) for sign in fftw.SIGNS)

        there, back = fftw.planned(f"axis {axis} of {shape} {np.dtype(dtype)} threads {threads}", make)
        return CpuFFT(lambda a: fftw.execute(there, a, a), lambda a: fftw.execute(back, a, a))

    return CpuFFT(*(partial(_scipy, sign, axis=axis, workers=threads) for sign in range(2)))


def _scipy(sign: int, array, **options) -> None:
    """Transform in place, forward (0) or backward (1)."""
    transform, norm = ((scipy.fft.fft, "backward"), (scipy.fft.ifft, "forward"))[sign]
    array[...] = transform(array, norm=norm, **options)
