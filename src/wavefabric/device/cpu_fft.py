"""Transforms on a CPU: FFTW, or scipy.fft where pyfftw is missing. ``backward`` is always unscaled."""

from __future__ import annotations

import threading

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
            with fftw.planning():
                self._make_plans()

    def forward(self, rows) -> None:
        self._run(rows, 0)

    def backward(self, rows) -> None:
        self._run(rows, 1)

    def _run(self, rows, sign: int) -> None:
        plan = self._plans()[sign] if fftw.pyfftw else None
        for row in rows if rows.ndim == 2 else (rows,):
            if plan:
                fftw.execute(plan, row, row)
            elif sign:
                row[...] = scipy.fft.ifft(row, norm="forward", overwrite_x=True, workers=self._threads)
            else:
                row[...] = scipy.fft.fft(row, overwrite_x=True, workers=self._threads)

    def _make_plans(self) -> tuple:
        row = fftw.aligned(self._n, self._dtype)
        return tuple(fftw.plan(row, row, sign, (-1,), self._threads, *self._flags) for sign in fftw.SIGNS)

    def _plans(self) -> tuple:
        if not hasattr(self._of_thread, "plans"):
            with fftw.lock:
                self._of_thread.plans = self._make_plans()
        return self._of_thread.plans


class FftwPair:
    """Plans there and back of arrays like those planned for."""

    def __init__(self, forward, backward):
        self._forward, self._backward = forward, backward

    def forward(self, source, target=None) -> None:
        fftw.execute(self._forward, source, source if target is None else target)

    def backward(self, source, target=None) -> None:
        fftw.execute(self._backward, source, source if target is None else target)


class ScipyRealFFT:
    """Transforms of real fields by scipy.fft."""

    def __init__(self, shape, axes: tuple[int, ...], threads: int):
        self._sizes, self._options = [shape[axis] for axis in axes], {"axes": axes, "workers": threads}

    def forward(self, real, spectrum) -> None:
        spectrum[...] = scipy.fft.rfftn(real, **self._options)

    def backward(self, spectrum, real) -> None:
        real[...] = scipy.fft.irfftn(spectrum, self._sizes, norm="forward", **self._options)


class ScipyAxisFFT:
    """In-place complex transforms along one axis by scipy.fft."""

    def __init__(self, axis: int, threads: int):
        self._options = {"axis": axis, "workers": threads}

    def forward(self, array) -> None:
        array[...] = scipy.fft.fft(array, **self._options)

    def backward(self, array) -> None:
        array[...] = scipy.fft.ifft(array, norm="forward", **self._options)


def real_fft(shape, dtype, axes: tuple[int, ...], threads: int) -> FftwPair | ScipyRealFFT:
    """Transforms of real fields with all threads, along all axes or some, the last among them."""
    axes = tuple(axis for axis in axes if shape[axis] > 1 or axis == 2)
    if not fftw.pyfftw:
        return ScipyRealFFT(shape, axes, threads)
    half, complex_ = (*shape[:-1], shape[-1] // 2 + 1), np.result_type(dtype, np.complex64)
    with fftw.planning():
        real, spectrum = fftw.aligned(shape, dtype), fftw.aligned(half, complex_)
        forward = fftw.plan(real, spectrum, fftw.SIGNS[0], axes, threads)
        return FftwPair(
            forward, fftw.plan(spectrum, real, fftw.SIGNS[1], axes, threads, "FFTW_DESTROY_INPUT")
        )


def axis_fft(shape, dtype, axis: int, threads: int) -> FftwPair | ScipyAxisFFT:
    """In-place complex transforms along one axis of a 3-D array, with all threads."""
    if not fftw.pyfftw:
        return ScipyAxisFFT(axis, threads)
    with fftw.planning():
        array = fftw.aligned(shape, dtype)
        return FftwPair(*(fftw.plan(array, array, sign, (axis,), threads) for sign in fftw.SIGNS))
