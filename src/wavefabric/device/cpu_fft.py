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
        self._of_thread = threading.local() if fftw.pyfftw else None
        if self._of_thread:
            with fftw.planning():
                self._make_plans()

    def forward(self, rows) -> None:
        self._run(rows, 0)

    def backward(self, rows) -> None:
        self._run(rows, 1)

    def _run(self, rows, sign: int) -> None:
        plan = self._plans()[sign] if self._of_thread else None
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
                self._of_thread.plans = self._make_plans()  # type: ignore[union-attr]
        return self._of_thread.plans  # type: ignore[union-attr]


class CpuRealFFT:
    """Transforms of real fields with all threads, along all axes or some, the last among them."""

    def __init__(self, shape, dtype, threads: int, axes: tuple[int, ...] = (0, 1, 2)):
        self._axes = tuple(axis for axis in axes if shape[axis] > 1 or axis == 2)
        self._sizes = [shape[axis] for axis in self._axes]
        self._threads = threads
        self._plans = None
        if fftw.pyfftw:
            half, complex_ = (*shape[:-1], shape[-1] // 2 + 1), np.result_type(dtype, np.complex64)
            with fftw.planning():
                real, spectrum = fftw.aligned(shape, dtype), fftw.aligned(half, complex_)
                common = self._axes, threads
                self._plans = (
                    fftw.plan(real, spectrum, fftw.SIGNS[0], *common),
                    fftw.plan(spectrum, real, fftw.SIGNS[1], *common, "FFTW_DESTROY_INPUT"),
                )

    def forward(self, real, spectrum) -> None:
        if self._plans:
            fftw.execute(self._plans[0], real, spectrum)
        else:
            spectrum[...] = scipy.fft.rfftn(real, axes=self._axes, workers=self._threads)

    def backward(self, spectrum, real) -> None:
        if self._plans:
            fftw.execute(self._plans[1], spectrum, real)
        else:
            real[...] = scipy.fft.irfftn(
                spectrum, self._sizes, axes=self._axes, norm="forward", workers=self._threads
            )


class CpuAxisFFT:
    """In-place complex transforms along one axis of a 3-D array, with all threads."""

    def __init__(self, shape, dtype, axis: int, threads: int):
        self._axis, self._threads = axis, threads
        self._plans = None
        if fftw.pyfftw:
            with fftw.planning():
                array = fftw.aligned(shape, dtype)
                self._plans = [fftw.plan(array, array, sign, (axis,), threads) for sign in fftw.SIGNS]

    def forward(self, array) -> None:
        if self._plans:
            fftw.execute(self._plans[0], array, array)
        else:
            array[...] = scipy.fft.fft(array, axis=self._axis, workers=self._threads)

    def backward(self, array) -> None:
        if self._plans:
            fftw.execute(self._plans[1], array, array)
        else:
            array[...] = scipy.fft.ifft(array, axis=self._axis, norm="forward", workers=self._threads)
